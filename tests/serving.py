"""An ASGI app on a real port, in the event loop of the test."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

GRACE_SECONDS = 5.0
"""Seconds for responses to end before they are cancelled."""


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
    config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.on_tick(0)  # sets the Date header
    await server.startup(sockets=[bound])
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        close = getattr(app, "close", None)
        if close is not None:
            await close()
        await _shut_down(server)


async def _shut_down(server: uvicorn.Server) -> None:
    """Do what `uvicorn.Server.shutdown` does; that sleeps for a tenth of a second at each step."""
    state = server.server_state
    for each in server.servers:
        each.close()
    for connection in list(state.connections):
        connection.shutdown()
    try:
        async with asyncio.timeout(GRACE_SECONDS):
            while state.connections or state.tasks:
                await asyncio.sleep(0.002)
    except TimeoutError:
        for task in state.tasks:
            task.cancel()
    for each in server.servers:
        await each.wait_closed()
