"""Both ends of an ASGI app: sent messages are recorded, the test supplies received ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, MutableMapping
from typing import Any

Event = MutableMapping[str, Any]


class Out:
    """A response as it is sent; the test can delay or break it."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.flows = asyncio.Event()
        self.flows.set()
        self.broken: BaseException | None = None

    async def __call__(self, event: Event) -> None:
        await self.flows.wait()
        if self.broken is not None:
            raise self.broken
        assert not self.ended, f"after the end of the response: {event}"
        assert (event["type"] == "http.response.start") == (not self.events)
        self.events.append(event)

    @property
    def status(self) -> int:
        status: int = self.events[0]["status"]
        return status

    def header(self, name: str) -> str | None:
        """Return a header's value; each header occurs once."""
        found = [value.decode() for key, value in self.events[0]["headers"] if key == name.encode()]
        assert len(found) < 2
        return found[0] if found else None

    @property
    def body(self) -> bytes:
        return b"".join(event.get("body", b"") for event in self.events[1:])

    @property
    def chunks(self) -> list[bytes]:
        """The parts of the body as they were sent."""
        return [event["body"] for event in self.events[1:] if event["body"]]

    @property
    def ended(self) -> bool:
        last: Event = self.events[-1] if self.events else {}
        return last.get("type") == "http.response.body" and not last.get("more_body", False)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def pairs(self) -> list[tuple[str, Any]]:
        """Return the id and message of each event with data."""
        return [(event.get("id", ""), json.loads(event["data"])) for event in self.blocks if event.get("data")]

    @property
    def messages(self) -> list[Any]:
        return [message for _, message in self.pairs]

    @property
    def blocks(self) -> list[dict[str, str]]:
        """Return every event of a stream, comments under `:`."""
        blocks = [block.split("\n") for block in self.body.decode().split("\n\n") if block]
        parted = [[line.partition(":") for line in block] for block in blocks]
        return [{name or ":": value.removeprefix(" ") for name, _, value in block} for block in parted]


class In:
    """The body of a request in parts, then nothing, until the client leaves."""

    def __init__(self, *parts: bytes, ends: bool = True) -> None:
        self.events: list[Event] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        if ends:
            self.events = self.events or [{"type": "http.request", "body": b""}]
            self.events[-1]["more_body"] = False
        self.left = asyncio.Event()
        self.asked = 0

    async def __call__(self) -> Event:
        self.asked += 1
        if self.events:
            return self.events.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}


def scope(verb: str = "POST", path: str = "/mcp", headers: Mapping[str, str] | None = None, **more: Any) -> Event:
    """Return the scope of a request, with the usual headers updated by the given ones."""
    usual = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    usual.update(headers or {})
    pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in usual.items()]
    return {"type": "http", "method": verb, "path": path, "headers": pairs, **more}
