"""The connections of a bridge: when those of silent sessions are closed, and what keeps them open."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.kit import LEGACY, Clock, PlayedServer, turns
from toolcrib.bridge.proxy import Proxy
from toolcrib.server.handler import NO_BACK_CHANNEL, Peer, RequestContext
from toolcrib.server.serving.sessions import IDLE_TTL
from toolcrib.types import UNSET


class Server(PlayedServer):
    """A legacy server whose connections are counted."""

    execution_timeout = UNSET
    tool_filter = None

    def __init__(self) -> None:
        described = {**LEGACY, "capabilities": {"tools": {"listChanged": True}, "resources": {"subscribe": True}}}
        subscribed: dict[str, Any] = {"resources__subscribe": {}, "resources__unsubscribe": {}}
        super().__init__(initialize=described, tools__list={"tools": []}, **subscribed)
        self.starts = 0

    def __call__(self) -> Any:
        self.starts += 1
        return super().__call__()


@asynccontextmanager
async def bridged() -> AsyncIterator[tuple[Proxy, Server]]:
    server = Server()
    proxy = Proxy(server, alone=False, mode="legacy")  # type: ignore[arg-type]  # a stream instead of a config
    await proxy.start()
    try:
        yield proxy, server
    finally:
        await proxy.close()


async def request(proxy: Proxy, peer: Peer) -> None:
    assert (await proxy.answer("tools/list", {}, RequestContext(peer, NO_BACK_CHANNEL)))["tools"] == []


def session() -> Peer:
    return Peer("2025-11-25", modern=False, capabilities={"roots": {}})


async def test_the_connection_of_a_session_that_is_silent_for_long_is_closed() -> None:
    async with bridged() as (proxy, server):
        clock, silent, shared = Clock(), session(), Peer("2026-07-28", modern=True)
        await request(proxy, shared)
        await request(proxy, silent)
        assert len(proxy._pool.connections()) == server.starts == 2
        await clock.advance(IDLE_TTL - 1)
        await request(proxy, silent)
        await clock.advance(IDLE_TTL - 1)
        assert len(proxy._pool.connections()) == 2
        await clock.advance(2)
        await turns(20)
        assert [each.key.scope for each in proxy._pool.connections()] == ["shared"]
        await request(proxy, silent)
        assert server.starts == 3


@pytest.mark.parametrize("wanted", [{"toolsListChanged": True}, {"resourceSubscriptions": ["crib://one"]}])
async def test_a_session_that_follows_changes_keeps_its_connection_until_it_ends(wanted: dict[str, Any]) -> None:
    async with bridged() as (proxy, server):
        clock, peer = Clock(), session()
        watch = await proxy.watch(wanted, peer, lambda method, params: None)
        assert watch.accepted == wanted
        await clock.advance(3 * IDLE_TTL)
        await turns(20)
        await request(proxy, peer)
        assert server.starts == 2, "one at the start, and one with the features of the session"
        await watch.close()
        assert proxy._pool.connections() == []


async def test_only_watches_of_resources_hold_a_lease_of_a_shared_connection() -> None:
    async with bridged() as (proxy, _):
        peer = Peer("2026-07-28", modern=True)
        lists = await proxy.watch({"toolsListChanged": True}, peer, lambda method, params: None)
        assert [each.leases for each in proxy._pool.connections()] == [0]
        resource = await proxy.watch({"resourceSubscriptions": ["crib://one"]}, peer, lambda method, params: None)
        assert [each.leases for each in proxy._pool.connections()] == [1]
        await resource.close()
        await lists.close()
        assert [(each.leases, each.connected) for each in proxy._pool.connections()] == [(0, True)]
