"""Threads, forks and the end of the interpreter, over HTTP: answers never cross, and no process prints warnings."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import Web
from tests.faults.http_server import BadWebServer
from tests.faults.kit import BIG, FAST, either_era, eventually, noise_in, run_python
from toolcrib import sync

pytestmark = pytest.mark.slow


async def finished(code: str, *arguments: str) -> tuple[str, str, int, float]:
    """Run a separate Python; return its output, its exit code, and how long it took after it printed `ready`."""
    program = run_python(code, *arguments)

    def watch() -> tuple[str, str, int, float]:
        assert program.stdout is not None
        first = program.stdout.readline()
        start = time.monotonic()
        out, err = program.communicate(timeout=30)
        return first + out, err, program.returncode, time.monotonic() - start

    return await asyncio.to_thread(watch)


@either_era
async def test_64_threads_on_one_sync_client_never_get_each_others_answers(web: Web, era: str) -> None:
    server = await web.server(era=era)
    ready = threading.Barrier(64)

    def work(thread: int) -> list[tuple[str, str]]:
        ready.wait(20)
        answers = []
        for n in range(8):
            how: dict[str, Any] = {"pad": BIG} if thread % 16 == 0 else {"as": "event"} if n % 2 else {}
            result = client.call_tool("echo", {"nonce": f"{thread}-{n}", **how}, timeout=60)
            answers.append((f"{thread}-{n}", result.text))
        return answers

    def all_of_them() -> list[tuple[str, str]]:
        with ThreadPoolExecutor(64) as threads:
            return [answer for answered in threads.map(work, range(64)) for answer in answered]

    client = sync.Client(tc.HttpServer(server.url), reconnect=FAST)
    await asyncio.to_thread(client.__enter__)
    answers = await asyncio.to_thread(all_of_them)
    await asyncio.to_thread(client.__exit__, None, None, None)
    assert len(answers) == 64 * 8
    assert [(nonce, text) for nonce, text in answers if nonce != text] == []
    assert set(server.executed.values()) == {1}
    assert len(server.executed) == 64 * 8


LEFT_OPEN = """
import asyncio, sys, threading
import toolcrib as tc
from toolcrib.sync import Client
url, kind = sys.argv[1:]
if kind == "sync":
    client = Client(tc.HttpServer(url)).__enter__()
    client.call_tool("echo", {"nonce": "x"})
    threading.Thread(target=lambda: client.call_tool("silent", {"nonce": "s"}, timeout=60), daemon=True).start()
else:
    async def main():
        client = tc.Client(url)
        await client.call_tool("echo", {"nonce": "x"})
        pending = asyncio.create_task(client.call_tool("silent", {"nonce": "s"}, timeout=60))
        await asyncio.sleep(0.1)
    asyncio.run(main())
print("ready", flush=True)
"""


@either_era
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_interpreter_that_ends_with_an_open_client_ends_soon_and_quietly(
    web: Web, era: str, kind: str
) -> None:
    server = await web.server(era=era)
    out, err, code, took = await finished(LEFT_OPEN, server.url, kind)
    assert out == "ready\n", err
    assert noise_in(err) == [], err
    assert code == 0
    assert took < 4
    await eventually(lambda: not server.connections)
    assert server.executed["x"] == 1


FORKED = """
import json, os, sys
import toolcrib as tc
from toolcrib.sync import Client
url = sys.argv[1]

def report(call):
    try:
        return ["fine", call().text]
    except BaseException as exc:
        return [type(exc).__name__, str(exc)]

def own():
    with Client(tc.HttpServer(url)) as fresh:
        return fresh.call_tool("echo", {"nonce": "child"}, timeout=20)

print("ready", flush=True)
with Client(tc.HttpServer(url)) as client:
    client.call_tool("echo", {"nonce": "before"})
    read, write = os.pipe()
    if os.fork() == 0:
        result = {"old": report(lambda: client.call_tool("echo", {"nonce": "forked"}, timeout=5)), "own": report(own)}
        os.write(write, json.dumps(result).encode())
        os._exit(0)
    os.close(write)
    answer = b""
    while chunk := os.read(read, 65536):
        answer += chunk
    os.wait()
    after = report(lambda: client.call_tool("echo", {"nonce": "after"}, timeout=20))
print(json.dumps({**json.loads(answer), "after": after}))
"""


@either_era
async def test_a_forked_child_gets_a_clear_error_and_the_parents_connections_still_work(web: Web, era: str) -> None:
    server: BadWebServer = await web.server(era=era)
    out, err, code, _ = await finished(FORKED, server.url)
    assert (err, code) == ("", 0)
    result = json.loads(out.splitlines()[1])
    assert result["old"][0] == "UsageError"
    assert "fork" in result["old"][1]
    assert result["own"] == ["fine", "child"]
    assert result["after"] == ["fine", "after"]
    assert server.executed == {"before": 1, "child": 1, "after": 1}
