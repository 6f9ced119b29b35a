"""A channel to a scripted server, and the negotiation over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any

from toolcrib.client.negotiation import Agreement, Identity, negotiate
from toolcrib.transports.jsonrpc_stream import StreamChannel
from toolcrib.transports.message_stream import MessageLink
from toolcrib.transports.sdk_streams import connector
from toolcrib.types import Wire

US = Identity({"name": "test", "version": "1"}, {"roots": {}}, "debug")


class Deaf:
    """Ignores everything."""

    takes_requests = True

    async def on_request(self, method: str, params: Wire) -> Wire:
        return {}

    def on_notification(self, method: str, params: Wire) -> None: ...

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def on_closed(self, error: Exception) -> None: ...


@asynccontextmanager
async def channel_to(make: Any) -> AsyncIterator[StreamChannel]:
    channel = StreamChannel(MessageLink(connector(make)))
    await channel.open(Deaf())
    try:
        yield channel
    finally:
        await channel.close()


async def agree(make: Any, *, mode: str = "auto", remembered: str | None = None) -> Agreement:
    async with channel_to(make) as channel, asyncio.timeout(10):
        return await negotiate(channel, US, mode=mode, remembered=remembered)
