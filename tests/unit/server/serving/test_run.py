"""Serving: options that are rejected before it listens, and whole programs with real ports and signals."""

from __future__ import annotations

import asyncio
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from toolcrib import sync
from toolcrib.server.serving.legacy_sse import SseApp
from toolcrib.server.serving.run import make_app, serve
from toolcrib.server.serving.streamable_http import HttpApp

PROGRAM = """
import asyncio, sys, threading
import toolcrib as tc

server = tc.ToolServer("prog", "1.2")

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.tool
async def hold(seconds: float) -> str:
    print("holding", file=sys.stderr, flush=True)
    await asyncio.sleep(seconds)
    return "held"

@server.tool
def block() -> None:
    print("blocking", file=sys.stderr, flush=True)
    threading.Event().wait()

@server.tool
async def stubborn() -> None:
    print("stubborn", file=sys.stderr, flush=True)
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue

@server.tool
def fail() -> None:
    raise ValueError("the secret is 4711")

server.run({arguments})
print("after", flush=True)
"""
IN_A_HURRY = """
from toolcrib.server.serving import run, uvicorn_server
uvicorn_server.DRAIN_SECONDS = uvicorn_server.CLOSE_SECONDS = run.CLOSE_SECONDS = 0.2
"""
LINE = re.compile(r"prog 1\.2 serves MCP at (http://\S+)\n")
PATIENCE = 30.0


def named(name: str = "prog") -> tc.ToolServer:
    return tc.ToolServer(name, "1.2")


@contextmanager
def taken(host: str = "127.0.0.1", family: int = socket.AF_INET) -> Iterator[int]:
    """A port that is in use."""
    with socket.create_server((host, 0), family=family) as bound:
        yield bound.getsockname()[1]


def free_port() -> int:
    with taken() as port:
        return port


# ---- refused before anybody listens --------------------------------------------------------------------------


async def refused(transport: str = "http", **options: Any) -> tc.ConfigError:
    with pytest.raises(tc.ConfigError) as caught:
        async with asyncio.timeout(PATIENCE):
            await serve(named(), transport, **options)
    return caught.value


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "tools.example", "localhost.example", "127.0.0.1.example", "", "128.0.0.1"]
)
async def test_other_machines_are_not_served_without_auth_or_a_flag(host: str) -> None:
    with taken() as port:
        error = await refused(host=host, port=port)
        assert error.key == "host"
        assert "allow_remote=True" in error.message and "auth=" in error.message


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost"])
async def test_on_this_machine_a_port_is_all_that_is_needed(host: str) -> None:
    with taken("0.0.0.0") as port:
        assert (await refused(host=host, port=port)).key == "port"


async def test_a_local_name_is_not_served_at_an_address_of_another_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the resolver is replaced: a machine that resolves names below localhost like this is not available."""
    everywhere = [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("0.0.0.0", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: everywhere if host == "a.localhost" else [])
    error = await refused(host="a.localhost", port=0)
    assert error.key == "host"
    assert error.message.startswith("host: a.localhost resolves to 0.0.0.0, which can be reached from other machines")


@pytest.mark.parametrize("options", [{"allow_remote": True}, {"auth": lambda headers: None}])
async def test_serving_other_machines_is_accepted_with_auth_or_a_flag(options: Any) -> None:
    with taken("0.0.0.0") as port:
        error = await refused(host="0.0.0.0", port=port, **options)
        assert error.key == "port", "the host was accepted"


@pytest.mark.parametrize("transport", ["htp", "", "HTTP", "streamable", None, ["http"]])
async def test_an_unknown_transport_is_reported_with_the_known_ones(transport: Any) -> None:
    error = await refused(transport, host="0.0.0.0")
    assert error.key == "transport"
    assert all(name in error.expected for name in ("stdio", "http", "sse"))


@pytest.mark.parametrize("transport", ["streamable-http", "streamable_http"])
async def test_streamable_http_is_another_name_of_http(transport: str) -> None:
    with taken() as port:
        assert (await refused(transport, port=port)).key == "port", "the transport was accepted"
    assert type(make_app(named(), transport=transport)) is HttpApp
    assert type(named().asgi(transport=transport, max_body=1_000)) is HttpApp


@pytest.mark.parametrize("auth", [5, tc.OAuth(interact=None), tc.TokenVerifier])
def test_an_auth_hook_that_cannot_be_called_is_rejected(auth: Any) -> None:
    with pytest.raises(tc.ConfigError, match="auth: expected a function of the headers"):
        tc.ToolServer("s").asgi(auth=auth)


@pytest.mark.parametrize("transport", ["stdio", "htp", None])
def test_an_app_has_a_transport_over_http(transport: Any) -> None:
    with pytest.raises(tc.ConfigError, match="expected 'http' or 'sse'"):
        named().asgi(transport=transport)


async def test_an_unknown_option_is_reported_with_the_nearest_and_a_text_is_not_a_list() -> None:
    error = await refused(alowed_hosts=["x"])
    assert (error.key, "allowed_hosts" in error.message) == ("alowed_hosts", True)
    for key in ("allowed_hosts", "allowed_origins"):
        assert (await refused(**{key: "example.org"})).key == key


def test_an_app_is_of_the_kind_that_is_wanted() -> None:
    assert type(make_app(named())) is HttpApp
    assert type(make_app(named(), transport="sse", path="/sse")) is SseApp
    assert type(named().asgi()) is HttpApp


# ---- whole programs ------------------------------------------------------------------------------------------


class Program:
    """A program that serves, and its stderr."""

    def __init__(self, directory: Path, arguments: str, closed: str = "", prelude: str = "") -> None:
        path = directory / "program.py"
        path.write_text(prelude + PROGRAM.replace("{arguments}", arguments))
        command = ["sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.err = ""

    def until(self, what: str) -> re.Match[str]:
        """Wait until stderr matches the pattern, and return the match."""
        stream, end = self.process.stderr, time.monotonic() + PATIENCE
        assert stream is not None
        while (found := re.search(what, self.err)) is None:
            ready, _, _ = select.select([stream], [], [], max(0, end - time.monotonic()))
            data = os.read(stream.fileno(), 65536) if ready else b""
            assert data, f"{what!r} was not said, but: {self.err}"
            self.err += data.decode()
        return found

    @property
    def url(self) -> str:
        return self.until(LINE.pattern)[1]

    def stop(self, number: int) -> tuple[int, bytes]:
        """Send a signal; return exit code and stdout."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=PATIENCE)
        self.err += err.decode()
        return self.process.returncode, out


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    started: list[Program] = []

    def start(arguments: str = '"http", port=0', **options: str) -> Program:
        started.append(Program(tmp_path, arguments, **options))
        return started[-1]

    yield start
    for program in started:
        program.process.kill()
        program.process.communicate()


@pytest.mark.parametrize(
    "transport, number", [("http", signal.SIGTERM), ("http", signal.SIGINT), ("sse", signal.SIGTERM)]
)
def test_a_program_serves_until_a_signal_and_ends_without_an_error(start: Any, transport: str, number: int) -> None:
    program = start(f"{transport!r}, port=0")
    with sync.Client(program.url) as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).data == 5
    assert program.stop(number) == (0, b"after\n")
    assert LINE.fullmatch(program.err), "nothing else is said"


def test_a_signal_gives_running_requests_their_grace_period(start: Any) -> None:
    program = start()
    results: list[Any] = []

    def call() -> None:
        with sync.Client(program.url) as client:
            results.append(client.call_tool("hold", {"seconds": 1}).text)

    url = program.url
    thread = threading.Thread(target=call)
    thread.start()
    program.until("holding")
    assert program.stop(signal.SIGTERM) == (0, b"after\n")
    thread.join(PATIENCE)
    assert (results, url) == (["held"], program.url)


@pytest.mark.parametrize("tool, said", [("block", "blocking"), ("stubborn", "stubborn")])
def test_a_tool_that_never_ends_does_not_hold_the_program(start: Any, tool: str, said: str) -> None:
    program = start(prelude=IN_A_HURRY)
    url, failed = program.url, []

    def call() -> None:
        try:
            with sync.Client(url) as client:
                client.call_tool(tool, {})
        except tc.ToolcribError as exc:
            failed.append(exc)

    thread = threading.Thread(target=call)
    thread.start()
    program.until(said)
    assert program.stop(signal.SIGTERM)[0] == 0
    thread.join(PATIENCE)
    assert len(failed) == 1


def test_failures_are_logged_to_stderr_and_not_sent_to_the_client(start: Any) -> None:
    program = start()
    with sync.Client(program.url) as client:
        client.call_tool("fail", {})
    program.until("ValueError: the secret is 4711")
    assert program.stop(signal.SIGTERM)[0] == 0


def test_a_program_serves_at_an_address_of_ipv6(start: Any) -> None:
    try:
        with taken("::1", socket.AF_INET6):
            pass
    except OSError:
        pytest.skip("IPv6 is not available")
    program = start('"http", host="::1", port=0, path="/x"')
    assert re.fullmatch(r"http://\[::1\]:\d+/x", program.url)
    with sync.Client(program.url) as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).data == 5
    assert program.stop(signal.SIGTERM)[0] == 0


def test_without_a_web_server_it_is_said_how_to_get_one(start: Any) -> None:
    program = start(prelude="import sys\nsys.modules['uvicorn'] = None\n")
    _, err = program.process.communicate(timeout=PATIENCE)
    assert program.process.returncode == 1
    assert "pip install uvicorn httptools" in err.decode()
    assert "ResourceWarning" not in err.decode()


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_program_whose_standard_descriptors_are_closed_serves_all_the_same(start: Any, closed: str) -> None:
    port = free_port()
    program = start(f'"http", port={port}', closed=closed)
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            assert program.process.poll() is None, program.process.communicate()[1].decode()
            assert time.monotonic() < end
            time.sleep(0.01)
    with sync.Client(f"http://127.0.0.1:{port}/mcp") as client:
        assert client.call_tool("add", {"a": 2, "b": 3}).data == 5
    assert program.stop(signal.SIGTERM)[0] == 0


async def test_run_in_a_running_event_loop_leads_to_run_async() -> None:
    with pytest.raises(tc.UsageError, match=r"already running .* `await server\.run_async"):
        tc.ToolServer("s").run("http", port=0)
