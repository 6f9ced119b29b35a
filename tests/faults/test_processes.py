"""Threads, forks and pickles: answers never cross, a forked child gets a clear error, and clients do not travel."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import toolyard as ty
from tests.faults.kit import BIG, FAST, Ledger, Yard, run_python
from toolyard import sync
from toolyard.errors import ToolyardError, UsageError


def test_64_threads_on_one_sync_client_never_get_each_others_answers(yard: Yard, era: str) -> None:
    ready = threading.Barrier(64)

    def work(thread: int) -> list[tuple[str, str]]:
        ready.wait(20)
        answers = []
        for n in range(15):
            pad = BIG if n == 7 and thread % 8 == 0 else ""
            result = client.call_tool("echo", {"nonce": f"{thread}-{n}", "pad": pad}, timeout=60)
            answers.append((f"{thread}-{n}", result.text))
        return answers

    with sync.Client(yard.server(era=era), reconnect=FAST) as client, ThreadPoolExecutor(64) as threads:
        answers = [answer for answered in threads.map(work, range(64)) for answer in answered]
    assert len(answers) == 64 * 15
    assert [(nonce, text) for nonce, text in answers if nonce != text] == []
    assert len(yard.record.executed) == 64 * 15
    assert set(yard.record.executed.values()) == {1}
    assert yard.record.lives == 1


def test_threads_under_kills_have_one_honest_outcome_each(yard: Yard, era: str) -> None:
    ledger = Ledger()
    lock = threading.Lock()
    stop = threading.Event()

    def work(client: sync.Client) -> None:
        while not stop.is_set():
            with lock:
                nonce = ledger.open()
            try:
                outcome: ty.ToolResult | BaseException = client.call_tool("echo", {"nonce": nonce}, timeout=20)
            except ToolyardError as exc:
                outcome = exc
            ledger.outcomes[nonce].append(outcome)

    with sync.Client(yard.server(era=era), reconnect=FAST) as client:
        threads = [threading.Thread(target=work, args=(client,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for life in range(1, 4):
            goal = len(ledger.outcomes) + 50
            while len(ledger.outcomes) < goal or yard.record.lives < life:
                stop.wait(0.005)
            yard.kill()
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert client.call_tool("echo", {"nonce": "end"}, timeout=20).text == "end"
    ledger.check(yard.record.executed)


def test_outside_the_with_block_the_sync_client_is_a_usage_error(yard: Yard) -> None:
    client = sync.Client(yard.server())
    with pytest.raises(UsageError, match="with"):
        client.call_tool("echo", {})
    with client:
        client.call_tool("echo", {})
    with pytest.raises(UsageError):
        client.call_tool("echo", {})


async def test_configs_pickle_and_copy_and_clients_refuse(yard: Yard) -> None:
    server = yard.server(env={"API_TOKEN": "t0k3n"})
    assert pickle.loads(pickle.dumps(server)) == server
    assert copy.deepcopy(server) == server
    policy = ty.ReconnectPolicy(base_delay=2)
    assert pickle.loads(pickle.dumps(policy)) == policy
    client = ty.Client(server)
    for travel in (pickle.dumps, copy.copy, copy.deepcopy):
        for stays in (client, sync.Client(server)):
            with pytest.raises(UsageError, match="config"):
                travel(stays)
    await client.close()


async def test_every_error_survives_a_pickle(yard: Yard) -> None:
    async with yard.client() as client:
        with pytest.raises(ty.RemoteError) as refused:
            await client.call_tool("refuse", {"code": -32000})
        with pytest.raises(ty.UnansweredTimeout) as unanswered:
            await client.call_tool("silent", {}, timeout=0.05)
    for error in (refused.value, unanswered.value):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


FORKED = """
import json, os, sys, asyncio, traceback
import toolyard as ty
from toolyard.sync import Client
command, kind = json.loads(sys.argv[1]), sys.argv[2]
server = ty.StdioServer(command[0], command[1:])

def descriptors():
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return {link for link in found if link.startswith("pipe:")}

def report(call):
    try:
        call()
    except BaseException as exc:
        return [type(exc).__name__, str(exc)]
    return ["nothing", ""]

def split(client, call, before):
    held = sorted(descriptors() - before)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        said = report(call)
        kept = [link for link in held if link in descriptors()]
        fresh = report(lambda: fresh_use())
        os.write(write, json.dumps({"said": said, "held": held, "kept": kept, "fresh": fresh}).encode())
        os._exit(0)
    os.close(write)
    answer = b""
    while chunk := os.read(read, 65536):
        answer += chunk
    os.waitpid(pid, 0)
    return answer.decode()

def fresh_use():
    with Client(server) as own:
        assert own.call_tool("echo", {"nonce": "child"}, timeout=20).text == "child"

before = descriptors()
if kind == "sync":
    with Client(server) as client:
        client.call_tool("echo", {"nonce": "before"})
        answer = split(client, lambda: client.call_tool("echo", {"nonce": "forked"}, timeout=5), before)
        after = client.call_tool("echo", {"nonce": "after"}, timeout=20).text
else:
    async def main():
        async with ty.Client(server) as client:
            await client.call_tool("echo", {"nonce": "before"})
            def call():
                asyncio.run(client.call_tool("echo", {"nonce": "forked"}, timeout=5))
            answer = split(client, call, before)
            return answer, (await client.call_tool("echo", {"nonce": "after"}, timeout=20)).text
    answer, after = asyncio.run(main())
print(json.dumps({**json.loads(answer), "after": after}))
"""


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_forked_child_gets_a_clear_error_closes_what_it_inherited_and_may_open_its_own(yard: Yard, kind: str) -> None:
    program = run_python(FORKED, json.dumps(yard.command()), kind)
    out, err = program.communicate(timeout=60)
    assert (err, program.returncode) == ("", 0)
    told = json.loads(out)
    name, message = told["said"]
    assert name == "UsageError"
    assert "fork" in message
    assert told["held"], "the parent did hold pipes"
    assert told["kept"] == [], "the child closed the parent's pipes, so they end when the parent ends them"
    assert told["fresh"] == ["nothing", ""], "a client of the child's own works"
    assert told["after"] == "after", "the parent's connection is unhurt"
    assert yard.record.executed == {"before": 1, "child": 1, "after": 1}


async def test_a_client_used_from_another_event_loop_is_a_usage_error(yard: Yard) -> None:
    async with yard.client() as client:

        def elsewhere() -> None:
            with pytest.raises(UsageError):
                asyncio.run(client.call_tool("echo", {"nonce": "elsewhere"}))

        await asyncio.wait_for(asyncio.to_thread(elsewhere), 10)
        assert (await client.call_tool("echo", {"nonce": "here"})).text == "here"
    assert yard.record.executed == {"here": 1}


def test_children_do_not_inherit_each_others_pipes(yard: Yard) -> None:
    with sync.Client(yard.server()) as first:
        pid = yard.record.pid
        first.call_tool("echo", {})
        with sync.Client(yard.server()) as second:
            second.call_tool("echo", {})
            links = [{os.readlink(fd) for fd in Path(f"/proc/{one}/fd").iterdir()} for one in (pid, yard.record.pid)]
            pipes = [{link for link in found if link.startswith(("pipe:", "socket:"))} for found in links]
            assert pipes[0]
            assert not pipes[0] & pipes[1]
