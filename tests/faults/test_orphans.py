"""Nothing is left behind: not by close, not by the interpreter's exit, not by kill -9 of the process itself."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from itertools import product

import pytest

import toolcrib as tc
from tests.faults.kit import FAST, FaultyServer, alive, either_era, eventually, impatient, noise_in, run_python, until
from toolcrib.transports.stdio import process


def children_of(faulty: FaultyServer, count: int = 1) -> list[int]:
    until(lambda: len(faulty.record.children) >= count)
    return faulty.record.children


@pytest.mark.parametrize("how", ["quiet", "holding"])
async def test_close_ends_the_children_that_the_server_leaves_behind(faulty: FaultyServer, how: str) -> None:
    async with faulty.client(grandchild=how) as client:
        await client.call_tool("echo", {})
        (child,) = children_of(faulty)
        assert alive(child)
    await eventually(lambda: not alive(child), within=1)


async def test_close_ends_what_is_behind_a_shell_wrapper(faulty: FaultyServer) -> None:
    async with tc.Client(faulty.wrapped_server(grandchild="quiet"), reconnect=FAST) as client:
        await client.call_tool("echo", {})
        pids = [faulty.record.pid, *children_of(faulty)]
        assert all(map(alive, pids))
    await eventually(lambda: not any(map(alive, pids)), within=1)


async def test_close_sweeps_the_group_of_a_server_that_is_dead_already(faulty: FaultyServer) -> None:
    client = faulty.client(grandchild="quiet")
    await client.connect()
    (child,) = children_of(faulty)
    faulty.kill()
    await eventually(lambda: not client.connected)
    await client.close()
    await eventually(lambda: not alive(child), within=1)


async def test_a_server_that_ignores_term_and_eof_is_killed_and_close_is_bounded(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert process.SHUTDOWN_GRACE_SECONDS <= 2.0
    impatient(monkeypatch)
    client = faulty.client(stubborn=True)
    await client.connect()
    start = time.monotonic()
    await client.close()
    assert time.monotonic() - start < 5
    assert not faulty.living()
    assert faulty.record.entries("eof"), "first it was asked by the end of stdin"
    assert faulty.record.entries("term"), "then by SIGTERM"


async def test_a_good_server_is_closed_without_a_signal_and_soon(faulty: FaultyServer) -> None:
    client = faulty.client()
    await client.connect()
    start = time.monotonic()
    await client.close()
    assert time.monotonic() - start < 1.5
    assert faulty.record.entries("eof")


async def test_a_close_that_is_cancelled_still_leaves_no_process(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    client = faulty.client(stubborn=True)
    await client.connect()
    closing = asyncio.create_task(client.close())
    await eventually(lambda: faulty.record.entries("eof"))
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await eventually(lambda: not faulty.living(), within=10)


async def test_a_connect_that_is_cancelled_leaves_no_process(faulty: FaultyServer) -> None:
    client = faulty.client(delay=60)
    connecting = asyncio.create_task(client.connect())
    await eventually(lambda: faulty.record.lives == 1)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await client.close()
    await eventually(lambda: not faulty.living(), within=10)


async def test_disconnect_releases_the_process_and_the_next_call_starts_it_again(faulty: FaultyServer) -> None:
    client = faulty.client()
    await client.connect()
    await client.disconnect()
    await eventually(lambda: not faulty.living())
    assert not client.connected
    assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    await client.close()
    assert faulty.record.lives == 2


ASYNC_USER = """
import asyncio, json, sys
import toolcrib as tc
command, how = json.loads(sys.argv[1]), sys.argv[2]
async def main():
    clients = [tc.Client(tc.StdioServer(command[0], command[1:])) for _ in range(3)]
    for client in clients:
        await client.connect()
        await client.call_tool("grandchild", {})
    print("ready", flush=True)
    if how == "stay":
        await asyncio.sleep(600)
    if how == "busy":
        await clients[0].call_tool("silent", {"nonce": "busy"}, timeout=None)
    if how == "raise":
        raise SystemExit(5)
    if how == "keep":
        globals()["kept"] = clients
asyncio.run(main())
"""

SYNC_USER = """
import json, sys, time
import toolcrib as tc
from toolcrib.sync import Client
command, how = json.loads(sys.argv[1]), sys.argv[2]
clients = [Client(tc.StdioServer(command[0], command[1:])) for _ in range(3)]
for client in clients:
    client.__enter__()
    client.call_tool("grandchild", {})
print("ready", flush=True)
if how == "stay":
    time.sleep(600)
if how == "busy":
    clients[0].call_tool("silent", {"nonce": "busy"}, timeout=None)
if how == "raise":
    raise SystemExit(5)
"""


@pytest.mark.slow
@pytest.mark.parametrize("wrapped", [False, True], ids=["direct", "behind a shell"])
@pytest.mark.parametrize("code", [ASYNC_USER, SYNC_USER], ids=["async", "sync"])
def test_kill_9_of_our_process_leaves_no_orphan_after_two_seconds(
    faulty: FaultyServer, code: str, wrapped: bool
) -> None:
    command = faulty.command(stubborn=True)
    if wrapped:
        command = ["sh", "-c", '"$@"; exit $?', "sh", *command]
    user = run_python(code, json.dumps(command), "stay")
    assert user.stdout is not None
    assert user.stdout.readline() == "ready\n"
    assert len(children_of(faulty, 3)) == 3
    assert len(faulty.living()) >= 6
    user.send_signal(signal.SIGKILL)
    start = time.monotonic()
    until(lambda: not faulty.living(), within=2, what="no orphan")
    assert time.monotonic() - start <= 2
    user.communicate(timeout=5)


ENDS = {
    "async left open": (ASYNC_USER, "end", 0),
    "async kept": (ASYNC_USER, "keep", 0),
    "async SystemExit": (ASYNC_USER, "raise", 5),
    "sync left open": (SYNC_USER, "end", 0),
    "sync SystemExit": (SYNC_USER, "raise", 5),
}


# Each end is met once for every change, in the combination that is harder to get right; the other one nightly.
STUBBORN = {"async left open": True, "sync left open": True}


@pytest.mark.slow
@pytest.mark.parametrize(
    "end, stubborn",
    [
        pytest.param(end, stubborn, marks=[] if stubborn == STUBBORN.get(end, False) else pytest.mark.nightly)
        for end, stubborn in product(ENDS, (False, True))
    ],
)
def test_the_interpreter_exits_with_open_clients_soon_and_without_a_traceback(
    faulty: FaultyServer, end: str, stubborn: bool
) -> None:
    code, how, exit_code = ENDS[end]
    user = run_python(code, json.dumps(faulty.command(**({"stubborn": True} if stubborn else {}))), how)
    assert user.stdout is not None
    assert user.stdout.readline() == "ready\n"
    start = time.monotonic()
    _, err = user.communicate(timeout=30)
    took = time.monotonic() - start
    assert (err, user.returncode) == ("", exit_code)
    assert took <= 3
    until(lambda: not faulty.living(), within=2, what="no child left")


LOOP_LEFT = """
import asyncio, json, os, sys, warnings
import toolcrib as tc
warnings.simplefilter("ignore", ResourceWarning)  # the program leaves resources open, Python tells it
command, state, left = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
log = json.loads(command[-1])["log"]

async def begin(client):
    connecting = asyncio.create_task(client.connect())
    for _ in range(3 if state == "connected" else 0):  # what begins with a connection is settled by then
        await client.call_tool("echo")
    while not (os.path.exists(log) and os.path.getsize(log)):  # the server has begun
        await asyncio.sleep(0.001)
    return connecting

client, loop = tc.Client(tc.StdioServer(command[0], command[1:])), asyncio.new_event_loop()
connecting = loop.run_until_complete(begin(client))
assert str(client.status) == state
if left == "closed":
    loop.close()
"""


@pytest.mark.slow
@either_era
@pytest.mark.parametrize("left", ["closed", "open"])
@pytest.mark.parametrize("state", ["connected", "connecting"])
def test_an_event_loop_that_is_left_with_a_client_in_it_leaves_no_child_and_no_traceback(
    faulty: FaultyServer, era: str, state: str, left: str
) -> None:
    command = faulty.command(era=era, delay=60 if state == "connecting" else 0)
    user = run_python(LOOP_LEFT, json.dumps(command), state, left)
    _, err = user.communicate(timeout=30)
    assert user.returncode == 0
    assert set(noise_in(err)) <= {"was destroyed"}, f"that is what asyncio says of every task: {err}"
    assert faulty.record.lives == 1
    until(lambda: not faulty.living(), within=2, what="no child left")


@pytest.mark.parametrize("code", [ASYNC_USER, SYNC_USER], ids=["async", "sync"])
def test_interrupting_a_busy_program_is_obeyed_at_once_and_leaves_no_orphan(faulty: FaultyServer, code: str) -> None:
    user = run_python(code, json.dumps(faulty.command()), "busy")
    assert user.stdout is not None
    assert user.stdout.readline() == "ready\n"
    until(lambda: faulty.record.executed["busy"] == 1)
    user.send_signal(signal.SIGINT)
    _, err = user.communicate(timeout=10)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert noise_in(err) == ["Traceback"], "none but the interrupt's own"
    until(lambda: not faulty.living(), within=2)
