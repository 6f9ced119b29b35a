"""Serves a server over HTTP, in each mode of its framework: python web.py SCRIPT [REVISION] PORT

    /stateful/mcp   /stateless/mcp   /json/mcp   /resumable/mcp   /sse (HTTP+SSE)   /journal (the requests so far)

Each mode has a separate server, so that none sees what was done in another. Prints its port once it accepts
connections, and ends when its standard input does, so that it cannot outlive its parent. With a protocol revision, it
serves only that one, if the script supports it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

RETRY_MS = 300  # longer than a detached tool runs: the SDK loses events between its replay and its live tail


class Memory(EventStore):
    """Keeps every message of every stream, so that a client can fetch those that it missed."""

    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream_id = self._events[last - 1][0]
        for number, (stream, message) in enumerate(self._events[last:], last + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream_id


MANNERS: dict[str, dict[str, Any]] = {
    "stateful": {},
    "stateless": {"stateless_http": True},
    "json": {"json_response": True},
    "resumable": {"event_store": Memory(), "retry_interval": RETRY_MS},
}


def sdk1_app(server: Any, **options: Any) -> Starlette:
    server._event_store, server._retry_interval = options.pop("event_store", None), options.pop("retry_interval", None)
    for name, value in options.items():
        setattr(server.settings, name, value)
    return server.streamable_http_app()


APPS = {
    "sdk1": (sdk1_app, lambda server: server.sse_app()),
    "sdk2": (lambda server, **options: server.streamable_http_app(**options), lambda server: server.sse_app()),
    "fastmcp4": (
        lambda server, **options: server.http_app(path="/mcp", **options),
        lambda server: server.http_app(path="/sse", transport="sse"),
    ),
}


class Journal:
    """Notes each request before it is served."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.entries: list[dict[str, Any]] = []

    async def show(self, request: Request) -> JSONResponse:
        """Return the requests under `path` from number `since` on, and the number of all requests."""
        path, since = request.query_params.get("path", "/"), int(request.query_params.get("since", 0))
        chosen = [entry for entry in self.entries[since:] if entry["path"].startswith(path)]
        return JSONResponse({"count": len(self.entries), "entries": chosen})

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["path"] == "/journal":
            return await self.app(scope, receive, send)
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        entry: dict[str, Any] = {
            "http": scope["method"],
            "path": scope["path"],
            "rpc": None,
            "params": None,
            "status": None,
            "session": headers.get("mcp-session-id"),
            "version": headers.get("mcp-protocol-version"),
            "last_event_id": headers.get("last-event-id"),
            "headers": headers,
        }
        self.entries.append(entry)
        body = bytearray()

        async def noted_receive() -> Any:
            message = await receive()
            if message["type"] == "http.request":
                body.extend(message.get("body", b""))
                if body and not message.get("more_body"):
                    with contextlib.suppress(ValueError):
                        message_body = json.loads(body)
                        entry["rpc"] = message_body.get("method", "answer")
                        entry["params"] = message_body.get("params")
            return message

        async def noted_send(message: Any) -> None:
            if message["type"] == "http.response.start":
                entry["status"] = message["status"]
            await send(message)

        await self.app(scope, noted_receive, noted_send)


def load_server(script: Path, name: str, *revision: str) -> Any:
    """Return a new server of that script, loaded as a separate module in which its annotations can be resolved."""
    spec = importlib.util.spec_from_file_location(f"crib_{name}", script)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for only in revision:
        module.serve_only(only)
    return module.server


def mount_all(script: Path, *revision: str) -> Journal:
    streamable, sse = APPS[script.stem.removesuffix("_server")]
    apps = {name: streamable(load_server(script, name, *revision), **options) for name, options in MANNERS.items()}
    apps["sse"] = sse(load_server(script, "sse", *revision))

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for app in apps.values():
                await stack.enter_async_context(app.router.lifespan_context(app))
            yield

    async def journal_of(request: Request) -> JSONResponse:
        return await journal.show(request)

    mounts = [Mount("/" if name == "sse" else f"/{name}", app=app) for name, app in apps.items()]
    journal = Journal(Starlette(routes=[Route("/journal", journal_of), *mounts], lifespan=lifespan))
    return journal


def serve(app: Any, listening: socket.socket) -> None:
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="on")).run(sockets=[listening])


def listen(port: int) -> socket.socket:
    # Only where the protocol is named does asyncio turn off Nagle's delay, which costs 40 ms an answer.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    listening.listen(512)
    return listening


if __name__ == "__main__":
    serve(mount_all(Path(sys.argv[1]), *sys.argv[2:-1]), listen(int(sys.argv[-1])))
