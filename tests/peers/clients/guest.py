"""One interface for the clients of all SDKs, which also records the requests and notifications that they receive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

Wire = dict[str, Any]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]

ROOTS = ["file:///crib/one", "file:///crib/two"]


@dataclass(frozen=True)
class Door:
    """The address of the server, and the era to use."""

    transport: str
    era: str
    target: tuple[str, ...]

    @property
    def is_modern(self) -> bool:
        return self.era == "modern"

    @property
    def url(self) -> str:
        return self.target[0]

    @property
    def command(self) -> tuple[str, list[str]]:
        return self.target[0], list(self.target[1:])


class Refused(Exception):
    """The server answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(f"{code} {message} {data}")
        self.wire = {"code": code, "message": message, "data": data}


class Book:
    """Records the requests and notifications that a guest receives."""

    def __init__(self) -> None:
        self.asked: list[Wire] = []
        self.sampled: list[Wire] = []
        self.logged: list[Wire] = []
        self.notifications: list[tuple[str, Wire]] = []
        self.requests: list[str] = []
        self._news = asyncio.Event()

    def tell(self, method: str, params: Wire) -> None:
        self.notifications.append((method, params))
        self._news.set()

    async def next(self, method: str, since: int) -> Wire:
        """Return the first notification of this method after the first `since` notifications."""
        while True:
            for name, params in self.notifications[since:]:
                if name == method:
                    return params
            self._news.clear()
            await self._news.wait()

    def answer(self, question: Wire) -> tuple[str, Wire | None]:
        """Answer as the user of the client; the question determines the answer."""
        self.asked.append(question)
        message = question["message"]
        if message in ("decline", "cancel"):
            return message, None
        if question.get("mode") == "url":
            return "accept", None
        return "accept", {"colour": "red"} if message == "colour?" else {"name": message.upper()}

    def say(self, question: Wire) -> str:
        """Answer as the model of the client."""
        self.sampled.append(question)
        content = question["messages"][0]["content"]
        text = (content if isinstance(content, dict) else content[0])["text"]
        return f"echo of {text}"

    def note_request(self, verb: str, headers: Any) -> None:
        """Record an HTTP request of the guest's SDK."""
        self.requests.append(f"{verb} again" if "last-event-id" in headers else verb)


class Guest(Protocol):
    """A connected client. Results are in wire format; errors raise `Refused`."""

    door: Door
    book: Book
    hello: Wire

    async def page(self, kind: str, cursor: str | None) -> Wire: ...
    async def call(self, name: str, arguments: Wire | None = None, on_progress: Progress | None = None) -> Wire: ...
    async def call_at_level(self, level: str, name: str, arguments: Wire) -> Wire: ...
    async def read(self, uri: str) -> Wire: ...
    async def prompt(self, name: str, arguments: dict[str, str]) -> Wire: ...
    async def complete(self, ref: Wire, argument: dict[str, str], context: dict[str, str] | None) -> Wire: ...
    async def ping(self) -> Wire: ...
    async def give_up(self, name: str, arguments: Wire, began: asyncio.Event) -> None: ...
    def news(self, *uris: str) -> AbstractAsyncContextManager[None]: ...


Opener = Callable[..., AbstractAsyncContextManager[Guest]]
"""Opens a guest: with `handlers` of a person, a model and roots, or none; leaving with a `goodbye`, or without."""
