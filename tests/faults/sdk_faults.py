"""Reports which rows of our fault table the mcp SDK's client fails. Run by scripts/sdk-faults.

Each row runs in its own process under a hard time limit, because a client that hangs is one of the findings.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

BAD_SERVER = str(Path(__file__).with_name("bad_server.py"))
LIMIT = 40
BIG = "b" * 300_000

Row = Callable[["Bench"], Awaitable[None]]
ROWS: dict[str, Row] = {}


def row(title: str) -> Callable[[Row], Row]:
    def put(function: Row) -> Row:
        ROWS[title] = function
        return function

    return put


class Bench:
    """One row's server, its log, and the SDK's client for it."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "log.txt"
        self.gate = directory / "gate"

    def client(self, **script: Any) -> Client:
        arguments = ["-S", "-E", BAD_SERVER, json.dumps({"log": str(self.log), "era": "legacy", **script})]
        parameters = StdioServerParameters(command=sys.executable, args=arguments)
        return Client(stdio_client(parameters, errlog=Path(os.devnull).open("w")), mode="legacy")

    @asynccontextmanager
    async def connected(self, **script: Any) -> AsyncIterator[Client]:
        """Connect and list the tools: otherwise the SDK lists them after the first call, in the middle of a row."""
        async with self.client(**script) as client:
            await client.list_tools()
            yield client

    def entries(self, kind: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.partition(" ")[2] for line in lines if line.partition(" ")[0] == kind]

    def pids(self) -> list[int]:
        return [int(pid) for pid in self.entries("start") + self.entries("child")]

    def living(self) -> list[int]:
        return [pid for pid in self.pids() if state_of(pid) not in ("", "Z")]


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def error_of(call: Awaitable[Any], within: float) -> BaseException:
    """Return the error of a call, which must fail in time."""
    start = time.monotonic()
    try:
        await call
    except Exception as exc:  # noqa: BLE001 - which error is the SDK's affair, when it comes is ours
        took = time.monotonic() - start
        assert took < within, f"failed after {took:.1f} s only, {within:.0f} s are allowed"
        return exc
    raise AssertionError(f"no error, after {time.monotonic() - start:.1f} s")


async def works(client: Client) -> None:
    result = await client.call_tool("echo", {"nonce": "x"}, read_timeout_seconds=5)
    assert result.content[0].text == "x"


@row("exits at once: an error with exit code and stderr")
async def exits(bench: Bench) -> None:
    async def connect() -> None:
        async with bench.client(exit={"code": 77, "stderr": "no token"}):
            raise AssertionError("connected")

    text = "".join(traceback.format_exception(innermost(await error_of(connect(), 3))))
    last = text.strip().splitlines()[-1]
    assert "code 77" in text, f"no exit code: {last}"
    assert "no token" in text, f"no stderr: {last}"


@row("crash in mid-call: reported at once")
async def crash(bench: Bench) -> None:
    async with bench.connected() as client:
        await error_of(client.call_tool("die", {}, read_timeout_seconds=20), 1)


@row("crash in mid-call: the next call restarts the server")
async def restart(bench: Bench) -> None:
    async with bench.connected() as client:
        await error_of(client.call_tool("die", {}, read_timeout_seconds=20), 20)
        await works(client)


@row("crash in mid-call while a grandchild holds stdout: reported at once")
async def held(bench: Bench) -> None:
    async with bench.connected(grandchild="holding") as client:
        await error_of(client.call_tool("die", {}, read_timeout_seconds=10), 5)


@row("never answers: the deadline holds, cancel is sent")
async def silent(bench: Bench) -> None:
    async with bench.connected() as client:
        await error_of(client.call_tool("silent", {"nonce": "s"}, read_timeout_seconds=0.5), 2)
        await works(client)
    assert bench.entries("cancel") == ["s"], "no cancel came"


@row("one byte every 200 ms: the deadline holds")
async def drip(bench: Bench) -> None:
    async with bench.connected() as client:
        await error_of(client.call_tool("echo", {"wire": ["drip"]}, read_timeout_seconds=1), 3)


@row("does not read stdin, 300 KB arguments: the deadline of 1 s holds, also for the next call")
async def not_reading(bench: Bench) -> None:
    async with bench.connected() as client:
        await client.call_tool("hold", {"until": 30})
        await error_of(client.call_tool("echo", {"pad": BIG}, read_timeout_seconds=1), 2.5)
        await error_of(client.call_tool("echo", {"pad": BIG}, read_timeout_seconds=1), 2.5)


@row("reads stdin late: a call that timed out before it was written never runs")
async def late(bench: Bench) -> None:
    async with bench.connected() as client:
        await client.call_tool("hold", {"until": str(bench.gate)})
        calls = [client.call_tool("echo", {"nonce": f"n{n}", "pad": BIG}, read_timeout_seconds=1) for n in range(5)]
        tasks = [asyncio.ensure_future(call) for call in calls]
        _, pending = await asyncio.wait(tasks, timeout=15)
        bench.gate.touch()
        await asyncio.wait(tasks, timeout=10)
        assert not pending, (
            f"{len(pending)} of 5 calls with a deadline of 1 s had no outcome after 15 s, until the server read"
        )
        await works(client)
    ran = [nonce for nonce in bench.entries("call") if nonce != "x"]
    assert len(ran) <= 1, f"{len(ran)} of 5 timed-out calls ran later; the pipe held a part of one"


@row("closes stdout and lives on: dead at once")
async def closed(bench: Bench) -> None:
    async with bench.connected() as client:
        await error_of(client.call_tool("close_stdout", {}, read_timeout_seconds=20), 1)


@row("text garbage and truncated JSON: the connection lives")
async def text_garbage(bench: Bench) -> None:
    async with bench.connected(banner='hello\n{"jsonrpc": "2.0", "id"\n[]\n42') as client:
        await works(client)


@row("bad UTF-8: the connection lives")
async def bad_bytes(bench: Bench) -> None:
    async with bench.connected() as client:
        await client.call_tool("spew", {"nonce": "s", "lines": 1}, read_timeout_seconds=5)
        await works(client)


@row("answers with string ids, doubled, and of unknown ids: the connection lives")
async def ids(bench: Bench) -> None:
    async with bench.connected(wire=["string_id", "twice", "unknown_id"]) as client:
        await works(client)


@row("a result that is not an object: an error of its call, at once")
async def odd(bench: Bench) -> None:
    async with bench.connected() as client:
        await error_of(client.call_tool("echo", {"wire": ["odd_result"]}, read_timeout_seconds=10), 2)
        await works(client)


@row("a 100 MB line: refused, in linear time")
async def line(bench: Bench) -> None:
    async with bench.connected() as client:
        await error_of(client.call_tool("huge", {"size": 100 << 20}, read_timeout_seconds=None), 10)
        await works(client)


@row("an answer nested 100,000 deep: an error of its call, the connection lives")
async def deep(bench: Bench) -> None:
    async with bench.connected() as client:
        await error_of(client.call_tool("deep", {"depth": 100_000}, read_timeout_seconds=5), 2)
        await works(client)


@row("64 MB of stderr: no dead-lock")
async def stderr(bench: Bench) -> None:
    async with bench.connected() as client:
        await client.call_tool("stderr", {"size": 64 << 20}, read_timeout_seconds=20)


@row("20,000 notifications before the answer: answered")
async def flood(bench: Bench) -> None:
    async with bench.connected() as client:
        await client.call_tool("flood", {"count": 20_000}, read_timeout_seconds=20)


@row("the server leaves a child behind: gone after close")
async def grandchild(bench: Bench) -> None:
    async with bench.connected(grandchild="quiet") as client:
        await works(client)
    assert not bench.living(), "the grandchild lives on"


@row("our process is killed -9: no orphan after 2 s")
async def killed(bench: Bench) -> None:
    arguments = [sys.executable, __file__, "--stay", str(bench.log.parent)]
    user = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert user.stdout is not None
    assert user.stdout.readline() == b"ready\n"
    user.kill()
    user.communicate()
    end = time.monotonic() + 2
    while (left := bench.living()) and time.monotonic() < end:
        await asyncio.sleep(0.02)
    assert not left, f"{len(left)} of {len(bench.pids())} processes live on"


@row("interpreter exits with an open client: within 3 s, without a traceback, no child left")
async def left_open(bench: Bench) -> None:
    start = time.monotonic()
    arguments = [sys.executable, __file__, "--leave", str(bench.log.parent)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr, done.stderr.strip().splitlines()[-1]
    assert time.monotonic() - start < 8, "import included"
    assert not bench.living(), "a child is left"


async def stay(directory: str, *, leave: bool) -> None:
    client = Bench(Path(directory)).client(stubborn=not leave, grandchild="quiet")
    await client.__aenter__()
    await works(client)
    print("ready", flush=True)
    if not leave:
        await asyncio.Event().wait()


def judge(title: str) -> str:
    """Run one row in its own process and return the verdict as text."""
    with tempfile.TemporaryDirectory() as directory:
        arguments = [sys.executable, __file__, "--row", title, directory]
        try:
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT, check=False)
            verdict = "ok" if done.returncode == 0 else "FAILS: " + done.stdout.strip()[-110:]
        except subprocess.TimeoutExpired:
            verdict = f"FAILS: hangs (> {LIMIT} s)"
        for pid in Bench(Path(directory)).living():
            os.kill(pid, signal.SIGKILL)
        return verdict


def innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def main() -> None:
    match sys.argv[1:]:
        case ["--row", title, directory]:
            try:
                asyncio.run(ROWS[title](Bench(Path(directory))))
            except Exception as exc:  # noqa: BLE001 - the edge of this process: any failure is the verdict
                cause = innermost(exc)
                print(cause if isinstance(cause, AssertionError) else repr(cause)[:110])
                sys.exit(1)
        case ["--stay", directory]:
            asyncio.run(stay(directory, leave=False))
        case ["--leave", directory]:
            asyncio.run(stay(directory, leave=True))
        case _:
            verdicts = {}
            for title in ROWS:
                verdicts[title] = judge(title)
                print(f"{title:100} {verdicts[title]}", flush=True)
            failed = sum(verdict != "ok" for verdict in verdicts.values())
            print(f"\nThe SDK's client fails {failed} of {len(ROWS)} rows.")


if __name__ == "__main__":
    main()
