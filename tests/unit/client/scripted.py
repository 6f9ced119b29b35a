"""A server whose channels a test controls, and a record of the transitions of every supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest

from tests.unit.kit import LEGACY
from toolcrib.client.status import StatusTracker
from toolcrib.client.supervisor import Phase, Supervisor
from toolcrib.errors import ConnectionLost
from toolcrib.transports.channel import PLAIN, Inbound, RequestOptions
from toolcrib.types import ConnectionState, Wire


class ScriptedServer:
    """Makes channels that behave as its attributes currently specify."""

    def __init__(self, *, over_http: bool = False) -> None:
        self.over_http = over_http
        self.refusal: Exception | None = None
        """What an attempt to connect raises."""
        self.answers_handshake = asyncio.Event()
        self.answers_handshake.set()
        self.swallows_cancellation = False
        self.failure: Exception | None = None
        """The exception that a request raises."""
        self.closes = asyncio.Event()
        """Channels wait for it when they are closed."""
        self.closes.set()
        self.channels: list[ScriptedChannel] = []

    def make_channel(self) -> ScriptedChannel:
        channel = ScriptedChannel(self)
        self.channels.append(channel)
        return channel

    def lose(self) -> None:
        """End the latest channel, as a crashed server does."""
        self.channels[-1].lose()


class ScriptedChannel:
    def __init__(self, server: ScriptedServer) -> None:
        self.over_http = server.over_http
        self.opened = self.closed = False
        self._server = server
        self._inbound: Inbound | None = None

    async def open(self, inbound: Inbound) -> None:
        self.opened, self._inbound = True, inbound

    async def request(self, method: str, params: Wire | None, *, options: RequestOptions = PLAIN) -> Wire:
        if method == "initialize":
            try:
                await self._server.answers_handshake.wait()
            except asyncio.CancelledError:
                if not self._server.swallows_cancellation:
                    raise
            if self._server.refusal is not None:
                raise self._server.refusal
            return LEGACY
        await asyncio.sleep(0)
        if self.closed:
            raise ConnectionLost("closed")
        if self._server.failure is not None:
            raise self._server.failure
        return {"content": []}

    async def notify(self, method: str, params: Wire | None = None) -> None:
        pass

    def hold(self) -> AbstractContextManager[None]:
        return nullcontext()

    def lose(self) -> None:
        if self._inbound is not None and not self.closed:
            self.closed = True
            self._inbound.on_closed(ConnectionLost("the server died"))

    async def close(self, *, force: bool = False) -> None:
        self.closed = True
        await self._server.closes.wait()


Step = tuple[Phase, Phase] | tuple[ConnectionState, ConnectionState]


@contextmanager
def recorded_transitions() -> Iterator[set[Step]]:
    """Record the sequence of phases and states in every client that is used meanwhile."""
    seen: set[Step] = set()
    enter, become = Supervisor._enter, StatusTracker.become

    def enter_recorded(self: Supervisor, phase: Phase) -> None:
        seen.add((self._phase, phase))
        enter(self, phase)

    def become_recorded(self: StatusTracker, state: ConnectionState, reason: str = "") -> None:
        if self.status.state is not state:
            seen.add((self.status.state, state))
        become(self, state, reason)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Supervisor, "_enter", enter_recorded)
        patch.setattr(StatusTracker, "become", become_recorded)
        yield seen
