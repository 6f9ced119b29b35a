"""Real servers over HTTP: each in its own process, on a local port, ended by its process id."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from tests.peers.forking import ForkServer
from tests.peers.kit import ENVIRONMENTS, SERVERS, present

STARTING = 60.0  # seconds; a peer's imports alone take some on a busy machine


class WebServer:
    """A process that serves on a port: a given one, or with 0 a free one, which the process prints."""

    def __init__(self, command: list[str], port: int = 0) -> None:
        self.port = port
        self._command = command
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - kept as long as the server, closed by `close`
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def start(self) -> Self:
        process = self._process = self._spawn()
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], STARTING)
        line = process.stdout.readline() if readable else b""
        assert line.strip().isdigit(), f"it did not start: {self.words()}"
        self.port = int(line)
        return self

    def _spawn(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*self._command, str(self.port)], stdin=pipe, stdout=pipe, stderr=self._errors)

    def stop(self) -> None:
        """Kill the process, as if the machine failed: no stream is ended in good order."""
        if self._process is not None:
            self._process.kill()
            if self._process.stdout is not None:
                self._process.stdout.read()  # until it has ended, also if what was killed is its launcher
            with self._process:  # waits, and closes its pipes
                pass
            self._process = None

    def restart(self) -> None:
        """Start another process on the same port, without the sessions of the previous one."""
        self.stop()
        self.start()

    def close(self) -> None:
        self.stop()
        self._errors.close()

    def words(self) -> str:
        """Return the text that the process wrote to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def journal(self, path: str = "/", since: int = 0) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of HTTP requests, and those under the path since `since`, in order of arrival."""
        question = urllib.parse.urlencode({"path": path, "since": since})
        with urllib.request.urlopen(self.url(f"journal?{question}"), timeout=20) as answer:
            said = json.load(answer)
        return said["count"], said["entries"]


class ToldServer(WebServer):
    """A server that takes its port as an argument and as PORT, and is polled until it accepts connections."""

    def start(self) -> Self:
        self.port = self.port or free_port()
        process = self._process = self._spawn()
        end = time.monotonic() + STARTING
        while not _accepts(self.port):
            assert process.poll() is None and time.monotonic() < end, f"it did not start: {self.words()}"
            select.select([], [], [], 0.02)
        return self

    def _spawn(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._command, str(self.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**os.environ, "PORT": str(self.port)},
        )


def free_port() -> int:
    """Return a closed port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def python_server(environment: str, *arguments: str | Path, kind: type[WebServer] = WebServer) -> WebServer:
    """Return one of our scripts in a peer's environment, not started yet."""
    python = present(ENVIRONMENTS / environment / "bin/python", f"the environment {environment}")
    return kind([str(python), *map(str, arguments)])


def framework_server(environment: str, framework: str, *arguments: str) -> WebServer:
    """Return one of our servers in each HTTP mode, not started yet."""
    return python_server(environment, SERVERS / "web.py", SERVERS / f"{framework}_server.py", *arguments)


def npm_everything(transport: str) -> WebServer:
    """Return the reference server `everything` over `streamableHttp` or `sse`, not started yet."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not on this machine")
    script = ENVIRONMENTS / "npm/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    return ToldServer([node, str(present(script, "the npm server everything")), transport])


PRELOADED = ("toolcrib:Client", "toolcrib:StdioServer", "aiohttp", "mcp.client.auth", "anyio._backends._asyncio")


class Servers:
    """Servers that are started on first use, and ended together."""

    def __init__(self) -> None:
        self._running: dict[str, WebServer] = {}
        self._forking: dict[str, ForkServer] = {}

    def fork_server(self, client: str) -> ForkServer:
        """Return the fork server for the programs of clients/ in a peer's environment."""
        if client not in self._forking:
            environment = "sdk1" if client == "sdk1" else "sdk2"
            python = present(ENVIRONMENTS / environment / "bin/python", f"the environment {environment}")
            modules = (f"tests.peers.clients.{client}", *PRELOADED)
            self._forking[client] = ForkServer(python, *modules, options=("-W", "ignore"))
        return self._forking[client]

    def get(self, name: str, make: Callable[[], WebServer]) -> WebServer:
        if name not in self._running:
            self._running[name] = server = make()
            server.start()
        return self._running[name]

    def close(self) -> None:
        for server in (*self._running.values(), *self._forking.values()):
            server.close()


class Relay:
    """A relay between a client and a server on this machine, which can cut its connections."""

    def __init__(self, port: int, resets: int = 0) -> None:
        self._target = port
        self._resets = resets  # number of first connections to cut at once
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._verbs: dict[asyncio.StreamWriter, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0
        self.accepted = 0

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    async def __aenter__(self) -> Relay:
        await self.open()
        return self

    async def open(self) -> None:
        """Accept connections, also again after `refuse`."""
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """Refuse new connections."""
        self._server.close()

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks)

    def cut(self, verb: str = "") -> None:
        """Reset all connections, or only those whose last request had this verb."""
        for client, server in tuple(self._pairs):
            if self._verbs.get(client, "").startswith(verb):
                client.transport.abort()
                server.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        if self.accepted <= self._resets:
            writer.transport.abort()
            return
        answers, server = await asyncio.open_connection("127.0.0.1", self._target)
        self._pairs.add((writer, server))

        def note(data: bytes) -> None:
            self._verbs[writer] = data.split(b" ", 1)[0].decode("latin-1")

        await asyncio.gather(_pump(reader, server, note), _pump(answers, writer))
        self._pairs.discard((writer, server))


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, note: Callable[[bytes], None] | None = None
) -> None:
    try:
        while data := await source.read(65536):
            if note is not None:
                note(data)
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        sink.transport.abort()
    finally:
        sink.close()


def sessions(entries: list[dict[str, Any]]) -> set[str]:
    """Return the session ids of these requests."""
    return {entry["session"] for entry in entries} - {None}


class Watched:
    """The requests to a server under a path since this object was created."""

    def __init__(self, server: WebServer, path: str = "/") -> None:
        self._server, self._path = server, path
        self._since, _ = server.journal("/nothing")

    @property
    def requests(self) -> list[dict[str, Any]]:
        return self._server.journal(self._path, self._since)[1]

    @property
    def steps(self) -> list[str]:
        """Return each request as `POST tools/call` or `GET`."""
        return [f"{entry['http']} {entry['rpc']}" if entry["rpc"] else entry["http"] for entry in self.requests]
