"""The bad server itself, over raw pipes: its faults work as described, or the other tests prove nothing."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.faults.kit import FaultyServer, alive, until

VERSION = "io.modelcontextprotocol/protocolVersion"
MODERN = {VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


class Pipe:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process, self.stdin, self.stdout = process, process.stdin, process.stdout
        self.buffer = b""

    def ask(self, ident: int, method: str, **params: Any) -> None:
        self.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}).encode() + b"\n"
        )
        self.stdin.flush()

    def call(self, ident: int, tool: str, **arguments: Any) -> None:
        self.ask(ident, "tools/call", name=tool, arguments=arguments)

    def line(self) -> bytes:
        while b"\n" not in self.buffer:
            chunk = self.stdout.read(1 << 20)
            assert chunk, "stdout has ended"
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def answer(self) -> Any:
        return json.loads(self.line())

    def quiet(self, seconds: float) -> bool:
        return not self.buffer and not select.select([self.stdout], [], [], seconds)[0]


@contextmanager
def started(faulty: FaultyServer, **script: Any) -> Iterator[Pipe]:
    process = subprocess.Popen(
        faulty.command(**script), bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield Pipe(process)
    finally:
        process.kill()
        process.wait(5)
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def test_without_a_script_it_speaks_both_eras(faulty: FaultyServer) -> None:
    with started(faulty) as pipe:
        pipe.ask(
            1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"}
        )
        assert pipe.answer()["result"]["protocolVersion"] == "2025-06-18"
        pipe.ask(2, "server/discover", _meta=MODERN)
        discovered = pipe.answer()["result"]
        assert discovered["resultType"] == "complete"
        assert discovered["supportedVersions"] == ["2026-07-28"]
        assert discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "bad-server"
        assert (discovered["ttlMs"], discovered["cacheScope"]) == (0, "private")
        pipe.call(3, "echo", nonce="n")
        assert pipe.answer()["result"] == {"content": [{"type": "text", "text": "n"}]}
        pipe.stdin.close()
        assert pipe.process.wait(5) == 0
    assert faulty.record.executed == {"n": 1}
    assert faulty.record.entries("eof")


@pytest.mark.parametrize("era, method, code", [("legacy", "server/discover", -32601), ("modern", "initialize", -32022)])
def test_of_one_era_only_it_refuses_the_other(faulty: FaultyServer, era: str, method: str, code: int) -> None:
    with started(faulty, era=era) as pipe:
        pipe.ask(1, method)
        assert pipe.answer()["error"]["code"] == code


def test_its_first_life_may_differ_from_the_next(faulty: FaultyServer) -> None:
    script = {"first": {"exit": {"code": 3}}}
    with started(faulty, **script) as pipe:
        assert pipe.process.wait(5) == 3
    with started(faulty, **script) as pipe:
        pipe.ask(1, "ping")
        assert pipe.answer()["result"] == {}
    assert faulty.record.lives == 2


@pytest.mark.parametrize(
    "wire, lines",
    [
        ("string_id", [{"id": "1"}]),
        ("twice", [{"id": 1}, {"id": 1}]),
        (
            "unknown_id",
            [{"id": 10**9}, {"id": "nobody"}, {"id": None}, {"id": True}, {"id": 1.5}, {"id": -1}, {"id": 1}],
        ),
        ("odd_result", [{"id": 1, "result": 7}]),
        ("no_result", [{"id": 1}]),
    ],
)
def test_a_wire_changes_the_messages(faulty: FaultyServer, wire: str, lines: list[dict[str, Any]]) -> None:
    with started(faulty, wire=[wire]) as pipe:
        pipe.ask(1, "ping")
        for expected in lines:
            answer = pipe.answer()
            assert {key: answer[key] for key in expected} == expected
            assert ("result" in answer) == (wire != "no_result")


def test_garbage_surrounds_the_answer(faulty: FaultyServer) -> None:
    with started(faulty, wire=["garbage"]) as pipe:
        pipe.ask(1, "ping")
        lines = [pipe.line() for _ in range(19)]
    assert b"\xff\xfe\x80" in lines
    assert json.loads(lines[9])["result"] == {}


def test_drip_gives_a_byte_every_200_ms(faulty: FaultyServer) -> None:
    with started(faulty, wire=["drip"]) as pipe:
        pipe.ask(1, "ping")
        start = time.monotonic()
        assert [pipe.stdout.read(9) for _ in range(3)] == [b"{", b'"', b"j"]
        assert time.monotonic() - start > 0.35


def test_hold_answers_and_then_leaves_the_pipe_full(faulty: FaultyServer) -> None:
    gate = faulty.path("gate")
    with started(faulty) as pipe:
        pipe.call(1, "hold", until=str(gate))
        assert pipe.answer()["id"] == 1
        writable = lambda: select.select([], [pipe.stdin], [], 0)[1]  # noqa: E731
        blank = b" " * 1023 + b"\n"
        while writable():
            pipe.stdin.write(blank)
        assert pipe.quiet(0.1)
        gate.touch()
        until(writable, what="read on")
        pipe.call(2, "echo", nonce="late")
        assert pipe.answer()["id"] == 2


def test_mute_and_silent_read_on_and_never_answer(faulty: FaultyServer) -> None:
    with started(faulty, silent=["ping"]) as pipe:
        pipe.ask(1, "ping")
        pipe.call(2, "silent", nonce="a")
        pipe.call(3, "echo", nonce="b")
        assert pipe.answer()["id"] == 3
        pipe.call(4, "mute")
        pipe.call(5, "echo", nonce="c")
        assert pipe.quiet(0.2)
    assert faulty.record.executed == {"a": 1, "b": 1}


def test_huge_and_deep_answers_are_as_large_as_asked(faulty: FaultyServer) -> None:
    with started(faulty) as pipe:
        pipe.call(1, "huge", size=3_000_000)
        assert len(pipe.answer()["result"]["pad"]) == 3_000_000
        pipe.call(2, "deep", depth=200)
        assert pipe.line().count(b"{") == 202


def test_a_stubborn_server_outlives_term_and_the_end_of_stdin(faulty: FaultyServer) -> None:
    with started(faulty, stubborn=True) as pipe:
        pipe.stdin.close()
        until(lambda: faulty.record.entries("eof"))
        pipe.process.terminate()
        until(lambda: faulty.record.entries("term"))
        assert alive(pipe.process.pid)


@pytest.mark.parametrize("how, ended", [("quiet", True), ("holding", False)])
def test_a_grandchild_stays_and_may_hold_stdout_open(faulty: FaultyServer, how: str, ended: bool) -> None:
    with started(faulty, grandchild=how) as pipe:
        pipe.call(1, "die", code=4)
        assert pipe.process.wait(5) == 4
        (child,) = faulty.record.children
        assert alive(child)
        assert pipe.quiet(0.2) is not ended
        subprocess.run(["kill", "-9", str(child)], check=True)


def test_a_request_in_mid_call_waits_for_the_answer(faulty: FaultyServer) -> None:
    with started(faulty) as pipe:
        pipe.call(1, "ask", method="roots/list")
        asked = pipe.answer()
        assert asked["method"] == "roots/list"
        pipe.stdin.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}}).encode() + b"\n")
        assert json.loads(pipe.answer()["result"]["content"][0]["text"]) == {"roots": []}
        pipe.ask(2, "tools/call", name="ask", arguments={"method": "roots/list"}, _meta=MODERN)
        assert pipe.answer()["result"]["resultType"] == "input_required"


def test_pages_end_or_never_end_as_configured(faulty: FaultyServer) -> None:
    with started(faulty, tools=1990, page=1000) as pipe:
        pipe.ask(1, "tools/list")
        page = pipe.answer()["result"]
        assert len(page["tools"]) == 1000
        assert page["nextCursor"] == "1000"
    with started(faulty, endless="new") as pipe:
        pipe.ask(1, "tools/list", cursor="8")
        assert pipe.answer()["result"]["nextCursor"] == "9"
