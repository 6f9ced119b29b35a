"""A cheap load generator for HTTP: prepared requests, plain sockets, every answer read completely.

Any server is slower than this process, so the server dominates the result; the drivers report how busy this process
was.
"""

import json
import os
import re
import selectors
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter, process_time
from typing import Any, BinaryIO

import psutil
from bare_descriptors import INFO, META
from measure import BENCH

HOST, PATH = "127.0.0.1", "/mcp"
PATIENCE = 60.0
REVISIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
ARGUMENTS, SUM = {"a": 2, "b": 3}, 5
LAST_CHUNK = b"0\r\n\r\n"

content_length = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE).search
listening_at = re.compile(rb"serves MCP at http://127\.0\.0\.1:(\d+)/").search
session_id = re.compile(rb"\r\nmcp-session-id: *([^\r]+)", re.IGNORECASE).search


class Served:
    """A server in its own process."""

    port = 0
    """Set by `await_listening`."""

    def __init__(self, process: "subprocess.Popen[bytes]", stderr: BinaryIO) -> None:
        self._process = process
        self._stderr = stderr
        self._usage = psutil.Process(process.pid)

    def await_listening(self) -> None:
        end = perf_counter() + PATIENCE
        text = b""
        while self._process.poll() is None and perf_counter() < end:
            text = os.pread(self._stderr.fileno(), 1 << 16, 0)  # pread: the server shares the file position
            if found := listening_at(text):
                self.port = int(found[1])
                return
            time.sleep(0.02)
        raise AssertionError(f"{self._process.args!r} did not start to listen:\n{text.decode()}")

    def cpu(self) -> float:
        """Return the processor time that the server has used, in seconds."""
        times = self._usage.cpu_times()
        return times.user + times.system

    def resident(self) -> int:
        """Return the resident memory of the server, in bytes."""
        size: int = self._usage.memory_info().rss
        return size


@contextmanager
def started(python: str, *arguments: str) -> Iterator[Served]:
    """Start one of the tool servers, which may not listen yet; stop it at the end of the context."""
    command = [python, str(BENCH / "tool_servers.py"), *arguments]
    # The server exits when its standard input is closed, which happens at the end of this block.
    with (
        tempfile.TemporaryFile() as stderr,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr) as process,
    ):
        yield Served(process, stderr)


def whole(answer: bytes) -> bool:
    """Return whether a response is complete, by its length or its last chunk; a 204 has neither."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    if answer.startswith(b"HTTP/1.1 204 "):
        return True
    length = content_length(answer, 0, end + 2)
    return len(answer) >= end + 4 + int(length[1]) if length else answer.endswith(LAST_CHUNK)


class Connection:
    """A keep-alive connection with one client, which has its own session in the legacy era."""

    def __init__(self, port: int, mode: str, number: int = 1) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.modern = mode == "auto"
        self.number = number
        self.answer = b""
        self.headers = {
            "Host": f"{HOST}:{port}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
            "MCP-Protocol-Version": REVISIONS[mode],
        }
        self.call = b""

    def begin(self) -> None:
        """Do the handshake of the legacy era, and prepare the request of a call."""
        if not self.modern:
            hello = {"protocolVersion": REVISIONS["legacy"], "capabilities": {}, "clientInfo": INFO}
            found = session_id(self.exchange(self.request("initialize", hello)))
            if found:
                self.headers["Mcp-Session-Id"] = found[1].decode()
            self.exchange(self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        self.call = self.request("tools/call", {"name": "add", "arguments": ARGUMENTS})

    def end(self) -> None:
        """End the session, if there is one."""
        if "Mcp-Session-Id" in self.headers:
            self.exchange(self.head("DELETE"))

    def request(self, method: str, params: dict[str, Any]) -> bytes:
        # Sends the same bytes as real clients: those of the modern era repeat some of the body in headers.
        named = {"Mcp-Method": method, "Mcp-Name": params.get("name", "")} if self.modern else {}
        params = {**params, "_meta": META} if self.modern else params
        return self.post({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}, **named)

    def post(self, message: dict[str, Any], **named: str) -> bytes:
        body = json.dumps(message, separators=(",", ":")).encode()
        return self.head("POST", **named, **{"Content-Length": str(len(body))}) + body

    def head(self, verb: str, **named: str) -> bytes:
        lines = [f"{verb} {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in {**self.headers, **named}.items())]
        return "\r\n".join([*lines, "", ""]).encode()

    def exchange(self, request: bytes) -> bytes:
        """Send a request and return its complete response."""
        self.socket.sendall(request)
        answer = b""
        while not whole(answer):
            answer += self.receive()
        if not answer.startswith(b"HTTP/1.1 2"):
            raise AssertionError(f"{request!r} got the response {answer!r}")
        return answer

    def receive(self) -> bytes:
        data = self.socket.recv(1 << 16)
        if not data:
            raise AssertionError("the server closed the connection")
        return data

    def check(self, answer: bytes) -> None:
        """Raise if a response is not the expected sum with the id of this connection's request."""
        found = re.search(rb"\{.*\}", answer.partition(b"\r\n\r\n")[2])
        message = json.loads(found[0]) if found else {}
        result = message.get("result", {})
        right = message.get("id") == self.number and result.get("structuredContent") == {"result": SUM}
        if not right or result["content"][0]["text"] != str(SUM) or result.get("isError"):
            raise AssertionError(f"{self.call!r} got the response {answer!r}")


@dataclass(frozen=True)
class Load:
    """The result of a load."""

    rate: float
    """Answers per second."""
    server_cpu: float
    """Processor time of the server per answer, in seconds."""
    busy: float
    """The share of its processor that the load generator used."""


@contextmanager
def connected(served: Served, mode: str, count: int) -> Iterator[list[Connection]]:
    """Connect `count` clients, and check the answer of one call by each."""
    connections = [Connection(served.port, mode, number) for number in range(1, count + 1)]
    try:
        for one in connections:
            one.begin()
            one.check(one.exchange(one.call))
        yield connections
        for one in connections:
            one.end()
    finally:
        for one in connections:
            one.socket.close()


def load(served: Served, connections: list[Connection], warm_up: int, seconds: float) -> Load:
    """Call in a loop on every connection for `seconds`, then read the pending answers and check them."""
    with selectors.DefaultSelector() as selector:
        for one in connections:
            selector.register(one.socket, selectors.EVENT_READ, one)
            one.socket.sendall(one.call)
            one.socket.setblocking(False)  # with a timeout, every read is two system calls
        turn(selector, warm_up, float("inf"))
        cpu, start, own = served.cpu(), perf_counter(), process_time()
        calls = turn(selector, float("inf"), start + seconds)
        took, own, cpu = perf_counter() - start, process_time() - own, served.cpu() - cpu
    for one in connections:
        one.socket.settimeout(PATIENCE)
        while not whole(one.answer):
            one.answer += one.receive()
        one.check(one.answer)
        one.answer = b""
    return Load(calls / took, cpu / calls, own / took)


def turn(selector: selectors.BaseSelector, most: float, end: float) -> int:
    """Repeat the calls until `most` answers were read or `end` is reached; return the number of answers."""
    calls = 0
    while calls < most and perf_counter() < end:
        for key, _ in selector.select(PATIENCE):
            one: Connection = key.data
            answer = one.answer + one.receive() if one.answer else one.receive()
            if not whole(answer):
                one.answer = answer
            elif not answer.startswith(b"HTTP/1.1 200 "):
                raise AssertionError(f"{one.call!r} got the response {answer!r}")
            else:
                one.answer = b""
                one.socket.send(one.call)
                calls += 1
    return calls
