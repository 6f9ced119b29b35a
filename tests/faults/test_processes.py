"""Threads, forks and loops: answers never cross, and a process that may not use a client gets a clear error."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import toolcrib as tc
from tests.faults.kit import BIG, FAST, FaultyServer, Ledger, either_era, run_python, until
from toolcrib import sync
from toolcrib.errors import ToolcribError, UsageError


@either_era
def test_64_threads_on_one_sync_client_never_get_each_others_answers(faulty: FaultyServer, era: str) -> None:
    ready = threading.Barrier(64)

    def work(thread: int) -> list[tuple[str, str]]:
        ready.wait(20)
        answers = []
        for n in range(15):
            pad = BIG if n == 7 and thread % 8 == 0 else ""
            result = client.call_tool("echo", {"nonce": f"{thread}-{n}", "pad": pad}, timeout=60)
            answers.append((f"{thread}-{n}", result.text))
        return answers

    with sync.Client(faulty.server(era=era), reconnect=FAST) as client, ThreadPoolExecutor(64) as threads:
        answers = [answer for answered in threads.map(work, range(64)) for answer in answered]
    assert len(answers) == 64 * 15
    assert [(nonce, text) for nonce, text in answers if nonce != text] == []
    assert len(faulty.record.executed) == 64 * 15
    assert set(faulty.record.executed.values()) == {1}
    assert faulty.record.lives == 1


@either_era
def test_threads_under_kills_have_one_honest_outcome_each(faulty: FaultyServer, era: str) -> None:
    ledger = Ledger()
    lock = threading.Lock()
    stop = threading.Event()

    def work(client: sync.Client) -> None:
        while not stop.is_set():
            with lock:
                nonce = ledger.open()
            try:
                outcome: tc.ToolResult | BaseException = client.call_tool("echo", {"nonce": nonce}, timeout=20)
            except ToolcribError as exc:
                outcome = exc
            ledger.outcomes[nonce].append(outcome)

    with sync.Client(faulty.server(era=era), reconnect=FAST) as client:
        threads = [threading.Thread(target=work, args=(client,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for life in range(1, 4):
            goal = len(ledger.outcomes) + 50
            while len(ledger.outcomes) < goal or faulty.record.lives < life:
                stop.wait(0.005)
            faulty.kill()
        stop.set()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        until(lambda: faulty.record.lives == 4, within=10, what="the last kill is noticed")
        assert client.call_tool("echo", {"nonce": "end"}, timeout=20).text == "end"
    ledger.check(faulty.record.executed)


FORKED = """
import json, os, sys, asyncio
import toolcrib as tc
from toolcrib.sync import Client
command, kind = json.loads(sys.argv[1]), sys.argv[2]
server = tc.StdioServer(command[0], command[1:])

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

def use(client):
    with client as own:
        assert own.call_tool("echo", {"nonce": "child"}, timeout=20).text == "child"

def split(call, before):
    held = sorted(descriptors() - before)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        said = report(call)
        kept = [link for link in held if link in descriptors()]
        result = {
            "said": said,
            "held": held,
            "kept": kept,
            "fresh": report(lambda: use(Client(server))),
            "outside": report(not_entered.list_tools),
            "entered": report(lambda: use(not_entered)),
        }
        os.write(write, json.dumps(result).encode())
        os._exit(0)
    os.close(write)
    answer = b""
    while chunk := os.read(read, 65536):
        answer += chunk
    os.waitpid(pid, 0)
    return answer.decode()

before = descriptors()
not_entered = Client(server)  # as a program does that makes its clients when it is loaded, and forks its workers later
if kind == "sync":
    with Client(server) as client:
        client.call_tool("echo", {"nonce": "before"})
        answer = split(lambda: client.call_tool("echo", {"nonce": "forked"}, timeout=5), before)
        after = client.call_tool("echo", {"nonce": "after"}, timeout=20).text
else:
    async def main():
        async with tc.Client(server) as client:
            await client.call_tool("echo", {"nonce": "before"})
            def call():
                asyncio.run(client.call_tool("echo", {"nonce": "forked"}, timeout=5))
            answer = split(call, before)
            return answer, (await client.call_tool("echo", {"nonce": "after"}, timeout=20)).text
    answer, after = asyncio.run(main())
print(json.dumps({**json.loads(answer), "after": after}))
"""


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_forked_child_gets_a_clear_error_closes_what_it_inherited_and_may_open_its_own(
    faulty: FaultyServer, kind: str
) -> None:
    program = run_python(FORKED, json.dumps(faulty.command()), kind)
    out, err = program.communicate(timeout=60)
    assert (err, program.returncode) == ("", 0)
    result = json.loads(out)
    name, message = result["said"]
    assert name == "UsageError"
    assert "fork" in message
    assert result["held"], "the parent did hold pipes"
    assert result["kept"] == [], "the child closed the parent's pipes, so they end when the parent ends them"
    assert result["fresh"] == ["nothing", ""], "a new client in the child works"
    assert result["outside"][0] == "UsageError", "made before the fork and not entered, it wants its with block"
    assert result["entered"] == ["nothing", ""], "and works in it: nothing of it was the parent's"
    assert result["after"] == "after", "the parent's connection still works"
    assert faulty.record.executed == {"before": 1, "child": 2, "after": 1}


async def test_a_client_used_from_another_event_loop_is_a_usage_error(faulty: FaultyServer) -> None:
    async with faulty.client() as client:

        def elsewhere() -> None:
            with pytest.raises(UsageError):
                asyncio.run(client.call_tool("echo", {"nonce": "elsewhere"}))

        await asyncio.wait_for(asyncio.to_thread(elsewhere), 10)
        assert (await client.call_tool("echo", {"nonce": "here"})).text == "here"
    assert faulty.record.executed == {"here": 1}


def test_children_do_not_inherit_each_others_pipes(faulty: FaultyServer) -> None:
    with sync.Client(faulty.server()) as first:
        pid = faulty.record.pid
        first.call_tool("echo", {})
        with sync.Client(faulty.server()) as second:
            second.call_tool("echo", {})
            links = [{os.readlink(fd) for fd in Path(f"/proc/{one}/fd").iterdir()} for one in (pid, faulty.record.pid)]
            pipes = [{link for link in found if link.startswith(("pipe:", "socket:"))} for found in links]
            assert pipes[0]
            assert not pipes[0] & pipes[1]
