"""The requests of a legacy session that the endpoint answers itself; and a modern `subscriptions/listen`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.server.serving.answering import Bench
from toolcrib.errors import RemoteError
from toolcrib.server.handler import NO_BACK_CHANNEL, Peer, RequestContext
from toolcrib.server.quota import SubscriptionQuota
from toolcrib.server.subscriptions import (
    ENDPOINT_METHODS,
    Listening,
    Notifications,
    SessionSubscriptions,
    answer_in_session,
)
from toolcrib.types import Wire


class Session:
    def __init__(self) -> None:
        self.bench = Bench()
        self.peer = Peer("2025-11-25", modern=False, log_level="info")
        self.delivered: list[tuple[str, Wire]] = []
        self._subscriptions = SessionSubscriptions(
            self.bench, lambda method, params: self.delivered.append((method, params)), SubscriptionQuota()
        )

    async def answer(self, method: str, **params: Any) -> Wire:
        context = RequestContext(self.peer, NO_BACK_CHANNEL, 1)
        return await answer_in_session(self.bench, self._subscriptions, method, params, context)


async def test_what_the_endpoint_answers_itself_does_not_reach_the_handler() -> None:
    session = Session()
    assert await session.answer("ping") == {}
    assert await session.answer("logging/setLevel", level="error") == {}
    assert session.peer.log_level == "error"
    for method in ("initialize", "server/discover", "subscriptions/listen"):
        with pytest.raises(RemoteError):
            await session.answer(method)
    assert await session.answer("resources/subscribe", uri="x://y") == {}
    session.bench.watches[-1].deliver("notifications/resources/updated", {"uri": "x://y"})
    assert session.delivered == [("notifications/resources/updated", {"uri": "x://y"})]
    assert await session.answer("resources/unsubscribe", uri="x://y") == {}
    assert session.bench.watches == []
    assert session.bench.exchanges == []


async def test_every_other_request_reaches_the_handler_and_its_result_is_framed() -> None:
    session = Session()
    assert "tools/call" not in ENDPOINT_METHODS
    await session.answer("tools/call", name="who", arguments={})
    assert [context.peer for context in session.bench.exchanges] == [session.peer]
    result = await session.answer("tools/list")
    assert "ttlMs" not in result


async def test_a_listen_delivers_after_its_acknowledgement_and_frees_its_quota_at_the_end() -> None:
    bench, sent, quota = Bench(), list[Any](), SubscriptionQuota(max_listens=1)
    params, peer = {"notifications": {"toolsListChanged": True}}, Peer("2026-07-28", modern=True)
    for id in range(2):  # the second one finds the quota free again
        async with Listening.open(bench, params, peer, id, Notifications(sent.append), quota) as (listening, said):
            assert said == {"_meta": listening.mark, "notifications": params["notifications"]}
            bench.publish("notifications/tools/list_changed")
            assert sent == []
            with pytest.raises(RemoteError, match="too many subscriptions"):
                await Listening.open(bench, params, peer, 9, Notifications(sent.append), quota).__aenter__()
            listening.start_delivery()
            assert [each["params"]["_meta"] for each in sent] == [listening.mark]
        assert bench.watches == []
        sent.clear()


async def test_a_listen_that_cannot_watch_frees_its_quota() -> None:
    class Broken(Bench):
        async def watch(self, *_: Any) -> Any:
            raise ValueError("broken")

    quota, peer = SubscriptionQuota(max_listens=1), Peer("2026-07-28", modern=True)
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            await Listening.open(Broken(), {"notifications": {}}, peer, 1, Notifications(print), quota).__aenter__()
