"""The other end of a context, for its tests."""

from __future__ import annotations

import asyncio
from typing import Any

from toolcrib.server.context import Context
from toolcrib.server.handler import Peer, RequestContext
from toolcrib.types import Wire

EVERYTHING = {"sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}, "roots": {}}


class Client:
    """The client end of a context: records notifications, and answers requests."""

    def __init__(self, **answers: Any) -> None:
        self.notifications: list[tuple[str, Wire]] = []
        self.asked: list[tuple[str, Wire, str | None]] = []
        self.paused = 0
        self._answers = answers

    async def notify(self, method: str, params: Wire) -> None:
        self.notifications.append((method, params))

    async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
        self.asked.append((method, params, key))
        answer = self._answers[method.split("/", maxsplit=1)[0]]
        return await answer if asyncio.isfuture(answer) else answer

    async def pause(self) -> None:
        self.paused += 1


def context(
    client: Client,
    *,
    meta: Wire | None = None,
    level: str | None = None,
    capabilities: Wire = EVERYTHING,
    modern: bool = True,
) -> Context:
    version = "2026-07-28" if modern else "2025-11-25"
    peer = Peer(version, modern=modern, capabilities=capabilities, log_level=level)
    return Context(RequestContext(peer, client, 7, meta or {}))
