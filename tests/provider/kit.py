"""Helpers of the provider's tests: small servers as sources, their processes, and what their tools saw."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import psutil

import toolcrib as tc
from tests.provider.small_server import SmallServer
from tests.provider.small_web_server import WebServer
from toolcrib.provider.outcomes import ExecutionResult

SMALL_SERVER: Final = str(Path(__file__).with_name("small_server.py"))


class SmallSource:
    """A small server: its file, the forms in which it is registered, and its processes."""

    def __init__(self, folder: Path, name: str = "small", **facts: Any) -> None:
        self.name = name
        self.file = folder / f"{name}.json"
        self.facts: dict[str, Any] = {}
        self.change(**facts)

    def change(self, **facts: Any) -> None:
        """Change what the server is; it reads its file for each request."""
        self.facts |= facts
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.facts))
        new.replace(self.file)

    @property
    def command(self) -> list[str]:
        """The command line of the server, over stdio."""
        return [sys.executable, "-S", "-E", SMALL_SERVER, str(self.file)]

    def server(self, **more: Any) -> tc.StdioServer:
        """Return the config of the server over stdio."""
        return tc.StdioServer(self.command[0], self.command[1:], **more)

    def form(self, transport: str = "stdio", **fields: Any) -> dict[str, Any]:
        """Return the registration of the server as a process over this transport."""
        words = {"stdio": [], "streamable_http": ["http"], "sse": ["sse"]}[transport]
        given = {"name": self.name, "url": "mcp://small", "source_type": "mcp", "mcp_transport_type": transport}
        return {**given, "mcp_command": [*self.command, *words], **fields}

    @contextlib.contextmanager
    def remote(self, *, sse: bool = False, port: int = 0) -> Iterator[tuple[str, WebServer]]:
        """Run the server in this process, over HTTP or SSE; yields its URL."""
        web = WebServer(SmallServer(str(self.file)), port, sse=sse)
        thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{web.server_address[1]}/{'sse' if sse else 'mcp'}", web
        finally:
            web.end()
            thread.join()

    def processes(self) -> list[int]:
        """Return the running processes of the server."""
        return running_with(str(self.file))


def running_with(text: str) -> list[int]:
    """Return the descendants of this process that run with this text as a word of their command line."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE and text in child.cmdline():
                found.append(child.pid)
    return found


def count_running(text: str) -> int:
    """Return the number of direct children with this text in their command line, as fast as possible."""
    count = 0
    mark = text.encode()
    own = Path(f"/proc/{os.getpid()}/task")
    for task in own.iterdir():
        with contextlib.suppress(OSError):
            for pid in (task / "children").read_text().split():
                with contextlib.suppress(OSError):
                    count += mark in Path(f"/proc/{pid}/cmdline").read_bytes()
    return count


def value_of(result: ExecutionResult) -> Any:
    """Return what a tool of a small server returned."""
    assert result.success, result
    return json.loads(result.get_text())
