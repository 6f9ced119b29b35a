"""What the peer tests share: the peers as a table, and a client that remembers what its server asked and told."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import toolyard as ty

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
ROOTS = ["file:///yard/one", "file:///yard/two"]


@dataclass(frozen=True)
class Peer:
    """One framework in one era."""

    environment: str
    framework: str
    mode: str
    version: str

    def __str__(self) -> str:
        return f"{self.framework}-{'modern' if self.is_modern else 'handshake'}"

    @property
    def script(self) -> str:
        return f"{self.framework}_server.py"

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    @property
    def marks_wrapped_results(self) -> bool:
        """Only FastMCP says that it put a scalar into `{"result": ...}`; the SDK does it without a word."""
        return self.framework == "fastmcp4"

    @property
    def has_subscriptions(self) -> bool:
        return self.framework != "fastmcp4"


SDK1 = Peer("sdk1", "sdk1", "auto", HANDSHAKE)
SDK2_MODERN = Peer("sdk2", "sdk2", "auto", MODERN)
SDK2_HANDSHAKE = Peer("sdk2", "sdk2", "legacy", HANDSHAKE)
FASTMCP_MODERN = Peer("sdk2", "fastmcp4", "auto", MODERN)
FASTMCP_HANDSHAKE = Peer("sdk2", "fastmcp4", "legacy", HANDSHAKE)
PEERS = (SDK1, SDK2_MODERN, SDK2_HANDSHAKE, FASTMCP_MODERN, FASTMCP_HANDSHAKE)


class Yard:
    """A client with every handler: `answers` and `says` are the person and the model, the lists what was asked."""

    def __init__(self, server: ty.StdioServer, *, roots: list[str] | None = None, **options: Any) -> None:
        self.asked: list[ty.ElicitRequest] = []
        self.sampled: list[ty.SamplingRequest] = []
        self.logged: list[ty.LogMessage] = []
        self.roots_asked = 0
        self.answers: Callable[[ty.ElicitRequest], Any] = lambda _: None
        self.says: Callable[[ty.SamplingRequest], Any] = lambda _: "nothing"
        self._roots = ROOTS if roots is None else roots
        self.client = ty.Client(
            server,
            elicitation_handler=self._elicit,
            sampling_handler=self._sample,
            roots=self._give_roots,
            log_handler=self.logged.append,
            log_level="warning",
            **options,
        )

    async def __aenter__(self) -> Yard:
        await self.client.connect()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.client.close()

    async def _elicit(self, request: ty.ElicitRequest) -> Any:
        self.asked.append(request)
        answer = self.answers(request)
        return await answer if inspect.isawaitable(answer) else answer

    def _sample(self, request: ty.SamplingRequest) -> Any:
        self.sampled.append(request)
        return self.says(request)

    def _give_roots(self) -> list[str]:
        self.roots_asked += 1
        return self._roots


async def eventually(condition: Callable[[], Awaitable[Any]], within: float = 20.0, what: str = "") -> Any:
    """Ask again until the answer is true, and return it. Each question is a round trip to the server."""
    end = time.monotonic() + within
    while not (value := await condition()):
        assert time.monotonic() < end, f"not within {within} s: {what}"
        await asyncio.sleep(0)
    return value


async def first(changes: Any, within: float = 20.0) -> ty.Change:
    """The next change of a `listen`, within a bound."""
    async with asyncio.timeout(within):
        change = await anext(changes)
    assert isinstance(change, ty.Change)
    return change
