"""The request handler interface: the client's identity, one request, and a context without a client."""

from __future__ import annotations

import pytest

from toolcrib.errors import RemoteError
from toolcrib.server.handler import NO_BACK_CHANNEL, NOTHING, Peer, RequestContext


def test_a_peer_that_says_nothing_about_itself_has_nothing() -> None:
    peer = Peer("2025-11-25", modern=False)
    assert (peer.version, peer.modern, peer.info, peer.capabilities) == ("2025-11-25", False, {}, {})
    assert (peer.principal, peer.log_level, peer.session) == (None, None, None)


def test_a_peer_with_the_principal_of_a_later_request_shares_the_log_level_of_the_session() -> None:
    first = Peer("2025-11-25", modern=False, info={"name": "c"}, principal=["ann"], log_level="info", session="s1")
    later = first.with_principal(["ann"])
    assert later is not first and later.principal is not first.principal
    assert (later.version, later.info, later.session, later.log_level) == ("2025-11-25", {"name": "c"}, "s1", "info")
    later.log_level = "debug"
    assert first.log_level == "debug"
    first.log_level = "error"
    assert later.log_level == later.with_principal(["ann"]).log_level == "error"
    assert first.with_principal(first.principal) is first
    assert Peer("2025-11-25", modern=False).log_level is None


def test_an_exchange_is_a_request_of_a_peer() -> None:
    peer = Peer("2026-07-28", modern=True, principal={"sub": "alice"})
    exchange = RequestContext(peer, NO_BACK_CHANNEL, "id", {"a": 1}, {"host": "here"})
    assert (exchange.peer, exchange.back_channel, exchange.id) == (peer, NO_BACK_CHANNEL, "id")
    assert (exchange.meta, exchange.headers) == ({"a": 1}, {"host": "here"})
    bare = RequestContext(peer, NO_BACK_CHANNEL)
    assert (bare.id, bare.meta, bare.headers) == (None, {}, {})
    assert bare.meta is bare.headers is NOTHING


async def test_where_nothing_can_be_asked_asking_is_a_fault_and_telling_is_nothing() -> None:
    await NO_BACK_CHANNEL.notify("notifications/message", {"data": "x"})
    await NO_BACK_CHANNEL.pause()
    with pytest.raises(RemoteError, match="elicitation/create: no request can be sent") as caught:
        await NO_BACK_CHANNEL.ask("elicitation/create", {}, "key")
    assert caught.value.code == -32603
