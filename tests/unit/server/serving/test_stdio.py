"""Serving on stdin and stdout: real processes, pipes, files and terminals."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import tty
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kit import eventually
from tests.unit.server.serving.answering import MARK, Bench
from toolcrib import Client, StdioServer
from toolcrib.protocol.limits import MAX_MESSAGE
from toolcrib.server.serving import stdio
from toolcrib.server.serving.stdio import serve_stdio
from toolcrib.types import ElicitResult

PROGRAM = str(Path(__file__).with_name("answering.py"))
IN_A_HURRY = """
import asyncio, runpy, sys
from toolcrib.server.serving import stdio
stdio.SHUTDOWN_GRACE_SECONDS = 0.05
runpy.run_path(sys.argv[1], run_name="__main__")
"""
Wire = dict[str, Any]


def request(id: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": MARK}}).encode()


def call(id: Any, name: str, **arguments: Any) -> bytes:
    return request(id, "tools/call", name=name, arguments=arguments) + b"\n"


def answers(data: bytes) -> dict[Any, Wire]:
    """Return the messages; every line must be one."""
    assert not data or data.endswith(b"\n")
    messages = [json.loads(line) for line in data.split(b"\n")[:-1]]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    return {message["id"]: message for message in messages if "method" not in message}


def text(answer: Wire) -> str:
    said: str = answer["result"]["content"][0]["text"]
    return said


@contextmanager
def start(*command: str, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    whole = [sys.executable, "-W", "error", *(command or (PROGRAM,))]
    with subprocess.Popen(whole, env=env, **(pipes | options)) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with start() as process:
        yield process


def ended_well(process: subprocess.Popen[bytes], stderr: bytes) -> None:
    assert process.wait(10) == 0
    assert b"Traceback" not in stderr, stderr.decode()


# ---- our own client ------------------------------------------------------------------------------------------


@pytest.fixture(params=["legacy", "2026-07-28", "auto"])
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async def answer(asked: Any) -> ElicitResult:
        return ElicitResult("accept", {"message": asked.message})

    server = StdioServer(sys.executable, [PROGRAM])
    async with Client(server, mode=request.param, elicitation_handler=answer) as made:
        assert made.server_info.protocol_version == ("2025-11-25" if request.param == "legacy" else "2026-07-28")
        yield made


async def test_our_client_lists_calls_and_is_asked_in_both_eras(client: Client) -> None:
    assert "add" in [tool.name for tool in await client.list_tools()]
    assert (await client.call_tool("add", {"a": 2, "b": 3})).text == "5"
    assert "'message': 'Well?'" in (await client.call_tool("ask")).text
    progress: list[float] = []
    result = await client.call_tool("tell", {"times": 3}, on_progress=lambda value, *_: progress.append(value))
    assert (result.text, progress) == ("told", [0, 1, 2])


async def test_many_calls_at_once_and_large_ones_come_whole(client: Client) -> None:
    results = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 0}) for n in range(600)))
    assert [int(result.text) for result in results] == list(range(600))
    large = await asyncio.gather(*(client.call_tool("big", {"size": 3_000_000 + n, "not": "x" * n}) for n in range(4)))
    assert [len(result.text) for result in large] == [3_000_000 + n for n in range(4)]


async def test_nothing_that_is_printed_gets_between_the_messages(client: Client) -> None:
    assert (await client.call_tool("noise")).text == "''b''", "and there is nothing for a tool at stdin"
    assert (await client.call_tool("add", {"a": 1, "b": 1})).text == "2"
    assert client._supervisor.session.channel.counters.malformed == 0  # type: ignore[union-attr]


def test_what_is_printed_goes_to_stderr(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin and child.stdout
    child.stdin.write(call(1, "noise"))
    child.stdin.flush()
    assert text(answers(child.stdout.readline())[1]) == "''b''", "a tool that reads stdin must not wait for our lines"
    out, err = child.communicate(call(2, "add", a=1, b=1), timeout=30)
    assert list(answers(out)) == [2]
    for noise in (b"noise of a module", b"printed noise", b"buffered noise", b"raw noise", b"child noise"):
        assert noise in err
    ended_well(child, err)


# ---- the end -------------------------------------------------------------------------------------------------


def test_at_the_end_of_stdin_what_was_asked_is_answered_even_without_a_last_newline(
    child: subprocess.Popen[bytes],
) -> None:
    out, err = child.communicate(call(1, "add", a=1, b=1) + call(2, "add", a=2, b=2).rstrip(), timeout=30)
    assert {id: text(answer) for id, answer in answers(out).items()} == {1: "2", 2: "4"}
    ended_well(child, err)


def test_at_the_end_of_stdin_what_does_not_finish_is_given_up() -> None:
    with start("-c", IN_A_HURRY, PROGRAM) as process:
        lines = (call(1, "hold"), call(2, "add", a=1, b=1), request(3, "subscriptions/listen", notifications={}), b"\n")
        out, err = process.communicate(b"".join(lines), timeout=30)
        assert set(answers(out)) == {2, 3}, "a subscription gets its final answer"
        ended_well(process, err)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_an_error(child: subprocess.Popen[bytes], number: int) -> None:
    assert child.stdin and child.stdout and child.stderr
    child.stdin.write(call(1, "hold") + call(2, "add", a=1, b=1))
    child.stdin.flush()
    assert set(answers(child.stdout.readline())) == {2}
    child.send_signal(number)
    assert child.stdout.read() == b""
    ended_well(child, child.stderr.read())


def test_a_client_that_has_gone_ends_it(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin and child.stdout and child.stderr
    child.stdout.close()
    child.stdin.write(call(1, "add", a=1, b=1))
    child.stdin.flush()
    ended_well(child, child.stderr.read())


def test_afterwards_stdin_and_stdout_are_what_they_were() -> None:
    program = f"""
import runpy, sys, os
before = os.get_blocking(1), sys.stdout
runpy.run_path({PROGRAM!r}, run_name="__main__")
assert (os.get_blocking(1), sys.stdout) == before
print("after", os.fstat(0).st_ino == int(sys.argv[1]))
"""
    there, here = os.pipe()
    os.close(here)
    with start("-c", program, str(os.fstat(there).st_ino), stdin=there) as process:
        os.close(there)
        out, err = process.communicate(timeout=30)
        assert out == b"after True\n"
        ended_well(process, err)


# ---- bad lines -----------------------------------------------------------------------------------------------


BAD_LINES = {
    "text": (b"nonsense", None, -32700),
    "cut": (b'{"jsonrpc":"2.0","id":1,"method":"ping"', None, -32700),
    "utf-8": (b'{"jsonrpc":"2.0","id":"b\xff","method":"ping"}', None, -32700),
    "bomb": (b"[" * 100_000 + b"]" * 100_000, None, -32700),
    "deep": (b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":' + b"[" * 200 + b"]" * 200 + b"}}", 5, -32700),
    "large": (b'{"jsonrpc":"2.0","id":6,"method":"x","params":{"a":"' + b"x" * MAX_MESSAGE + b'"}}', 6, -32700),
    "large text": (b"x" * (MAX_MESSAGE + 1), None, -32700),
    "batch": (b"[]", None, -32600),
    "number": (b"5", None, -32600),
}
"""Malformed lines by defect: the line, the id and the code of the error."""


def test_a_bad_line_is_answered_and_the_next_one_is_served(child: subprocess.Popen[bytes]) -> None:
    assert child.stdin and child.stdout
    for wrong, (line, id, code) in BAD_LINES.items():
        child.stdin.write(line + b"\r\n\n" + call(9, "add", a=1, b=1))
        child.stdin.flush()
        said = answers(child.stdout.readline() + child.stdout.readline())
        codes = {id: answer.get("error", {}).get("code") for id, answer in said.items()}
        assert codes == {id: code, 9: None}, wrong
    out, err = child.communicate(timeout=60)
    assert out == b""
    ended_well(child, err)


# ---- kinds of stdin and stdout -------------------------------------------------------------------------------


def test_files_will_do(tmp_path: Path) -> None:
    asked, said = tmp_path / "asked", tmp_path / "said"
    asked.write_bytes(b"".join(call(n, "big", size=1000, pad="x" * 1000) for n in range(1000)))
    with asked.open("rb") as stdin, said.open("wb") as stdout, start(stdin=stdin, stdout=stdout) as process:
        _, err = process.communicate(timeout=60)
        ended_well(process, err)
    assert set(answers(said.read_bytes())) == set(range(1000))


def test_nothing_at_all_will_do() -> None:
    with start(stdin=subprocess.DEVNULL) as process:
        out, err = process.communicate(timeout=30)
        assert out == b""
        ended_well(process, err)


def test_a_terminal_will_do() -> None:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    with start(stdin=theirs, stdout=theirs) as process:
        assert process.stderr
        os.write(ours, call(1, "add", a=1, b=1))
        said = b""
        while said.count(b"\n") < 2:
            said += os.read(ours, 10_000)
        printed, _, answer = said.partition(b"\n")
        assert printed.startswith(b"noise"), "stdout was not redirected before serving"
        assert text(answers(answer)[1]) == "2"
        assert os.get_blocking(theirs), "the flags of a terminal are not ours"
        process.terminate()
        ended_well(process, process.stderr.read())
    os.close(ours)
    os.close(theirs)


def test_without_stderr_there_is_nowhere_to_print_to_and_it_serves_all_the_same() -> None:
    program = f"import os; os.close(2); os.execv({sys.executable!r}, [{sys.executable!r}, {PROGRAM!r}])"
    with start("-c", program) as process:
        out, _ = process.communicate(call(1, "noise"), timeout=30)
        assert list(answers(out)) == [1]
        ended_well(process, b"")


def test_a_client_that_reads_late_gets_everything_whole_and_in_order(child: subprocess.Popen[bytes]) -> None:
    """The server stops reading when too much output is pending: its writer thread blocks until the client reads."""
    assert child.stdin and child.stdout and child.stderr
    count, size = 64, 500_000
    lines = b"".join(call(n, "big", size=size, pad="x" * 10_000) for n in range(count))
    written = threading.Event()

    def write() -> None:
        assert child.stdin
        child.stdin.write(lines)
        child.stdin.close()
        written.set()

    writing = threading.Thread(target=write)
    writing.start()
    assert not written.wait(1.0), "the client does not read, so the server must not read everything"
    out = child.stdout.read()
    writing.join(30)
    said = answers(out)
    assert sorted(said) == list(range(count))
    assert {len(text(answer)) for answer in said.values()} == {size}
    ended_well(child, child.stderr.read())


# ---- in this process -----------------------------------------------------------------------------------------


class Pipes:
    """Both ends of the pipes that a server in this process uses."""

    def __init__(self) -> None:
        self.their_in, self.our_out = os.pipe()
        self.our_in, self.their_out = os.pipe()
        self._open = {self.their_in, self.our_out, self.our_in, self.their_out}

    def close(self, *fds: int) -> None:
        for fd in fds or tuple(self._open):
            self._open.discard(fd)
            os.close(fd)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = Pipes()
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    yield made
    after = set(os.listdir("/proc/self/fd")) if before else set()
    assert len(after) <= len(before)
    made.close()


async def ask(pipes: Pipes, line: bytes) -> Wire:
    os.write(pipes.our_out, line)
    return json.loads(await asyncio.to_thread(os.read, pipes.our_in, 100_000))  # type: ignore[no-any-return]


def test_other_descriptors_can_be_served_and_then_print_and_signals_are_left_alone(pipes: Pipes) -> None:
    """Serve in another thread, which cannot set signal handlers."""
    stdout, handler = sys.stdout, signal.getsignal(signal.SIGTERM)
    serving = threading.Thread(
        target=lambda: asyncio.run(serve_stdio(Bench(), stdin=pipes.their_in, stdout=pipes.their_out))
    )
    serving.start()
    os.write(pipes.our_out, call(1, "add", a=1, b=1))
    assert text(json.loads(os.read(pipes.our_in, 10_000))) == "2"
    assert (sys.stdout, signal.getsignal(signal.SIGTERM)) == (stdout, handler)
    pipes.close(pipes.our_out)
    serving.join(10)
    assert not serving.is_alive()


@pytest.mark.parametrize("watched", [True, False])
async def test_a_cancelled_server_leaves_nothing_behind(
    pipes: Pipes, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a request nor a thread that waits for the next line may remain."""
    if not watched:

        def cannot(self: Any) -> None:
            raise PermissionError

        monkeypatch.setattr(stdio._Reader, "start", cannot)

    def handler(*_: object) -> None:
        """A signal handler of another library."""

    before = signal.signal(signal.SIGTERM, handler)
    threads = threading.active_count()
    bench = Bench()
    serving = asyncio.create_task(serve_stdio(bench, stdin=pipes.their_in, stdout=pipes.their_out))
    await asyncio.sleep(0)
    assert [t.name for t in threading.enumerate()].count("toolcrib-stdin") == (not watched)
    assert signal.getsignal(signal.SIGTERM) is not handler
    assert text(await ask(pipes, call(1, "add", a=1, b=1))) == "2"
    os.write(pipes.our_out, call(2, "hold"))
    await eventually(lambda: "hold" in bench.ran)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert bench.cancelled == ["hold"]
    await asyncio.get_running_loop().shutdown_default_executor()
    assert threading.active_count() <= threads
    assert signal.signal(signal.SIGTERM, before) is handler
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert os.get_blocking(pipes.their_out)


async def test_the_thread_that_reads_waits_for_a_client_that_does_not(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(self: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(stdio._Reader, "start", cannot)
    monkeypatch.setattr(stdio, "MAX_UNREAD_BYTES", 1000)
    bench = Bench()
    serving = asyncio.create_task(serve_stdio(bench, stdin=pipes.their_in, stdout=pipes.their_out))
    os.write(pipes.our_out, call(1, "big", size=200_000))
    await eventually(lambda: bench.ran)
    os.write(pipes.our_out, b'{"jsonrpc":"2.0","method":"notifications/nonsense"}\n')  # read before the way was full
    os.write(pipes.our_out, call(2, "add", a=1, b=1))
    said = b""
    while said.count(b"\n") < 2:
        said += await asyncio.to_thread(os.read, pipes.our_in, 100_000)
    assert text(answers(said)[2]) == "2"
    pipes.close(pipes.our_out)
    await serving
