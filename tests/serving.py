"""An ASGI app on a real port, in the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn


class LateApp:
    """An ASGI app that is set when its address is known: some apps need their public URL."""

    def __init__(self) -> None:
        self.app: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)

    async def close(self) -> None:
        await self.app.close()


@contextlib.asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The address (`http://host:port`) of the app."""
    # As TCP by name, or asyncio does not set TCP_NODELAY, and answers wait for acknowledgements.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.bind(("127.0.0.1", 0))
    bound.listen()
    config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign]  # they are the test runner's
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        async with asyncio.timeout(10):
            while not server.started:
                await asyncio.sleep(0.005)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        close = getattr(app, "close", None)
        if close is not None:
            await close()
        server.should_exit = True
        await serving
