"""Sessions of the legacy era over HTTP: their number, lifetime and owner, and what is kept of their streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kit import Clock, eventually
from tests.unit.server.serving.answering import Bench
from tests.unit.server.serving.asgi_kit import Out
from toolcrib.errors import RemoteError
from toolcrib.server.handler import Peer
from toolcrib.server.serving import sessions
from toolcrib.server.serving.asgi import Refused
from toolcrib.server.serving.responses import Reply
from toolcrib.server.serving.sessions import KEPT_SECONDS, STANDALONE, LegacySession, LegacySessions
from toolcrib.server.serving.sse_stream import SseStream


@pytest.fixture(autouse=True)
async def _nobody_is_left() -> AsyncIterator[None]:
    yield
    assert asyncio.all_tasks() == {asyncio.current_task()}


def opened(every: LegacySessions, principal: Any = None, version: str = "2025-11-25") -> LegacySession:
    """Open a session without an eviction."""
    session, evicted = every.open(Peer(version, modern=False, principal=principal), Bench())
    assert evicted == []
    return session


def busy(session: LegacySession) -> LegacySession:
    session.running[1] = Reply(Out(), {})
    return session


# ---- owners --------------------------------------------------------------------------------------------------


async def test_a_session_is_found_by_its_unguessable_id() -> None:
    every = LegacySessions()
    some = [opened(every) for _ in range(100)]
    assert len({session.id for session in some}) == len(every) == 100
    assert all(len(session.id) == 32 and session.id.isascii() and session.id.isprintable() for session in some)
    for session in some:
        assert every.find(session.id, None) is session
        assert session.peer.session == session.id
    for wrong in ("", "x", some[0].id[:-1], some[0].id + "x", some[0].id.swapcase()):
        assert every.find(wrong, None) is None


@pytest.mark.parametrize("owner", [None, "alice", {"sub": "alice"}, ["alice"]], ids=repr)
async def test_a_session_of_another_principal_does_not_exist(owner: Any) -> None:
    every = LegacySessions()
    session = opened(every, owner)
    for thief in (None, "alice", "bob", {"sub": "alice"}, {"sub": "bob"}, ["alice"], 0, ""):
        if thief != owner:
            assert every.find(session.id, thief) is None
    assert every.find(session.id, owner) is session


async def test_a_dropped_session_is_gone_and_may_be_dropped_again() -> None:
    every = LegacySessions()
    one, other = opened(every), opened(every)
    every.drop(one)
    every.drop(one)
    assert every.find(one.id, None) is None
    assert every.all() == [other]
    every.touch(one)  # a response of it that ends later
    assert every.all() == [other]
    assert every.clear() == [other]
    assert len(every) == 0


# ---- how many ------------------------------------------------------------------------------------------------


async def test_when_there_are_too_many_the_one_that_was_used_longest_ago_goes() -> None:
    every = LegacySessions(limit=3)
    first, second, third = opened(every), opened(every), opened(every)
    every.find(first.id, None)
    new, evicted = every.open(Peer("2025-11-25", modern=False), Bench())
    assert evicted == [second]
    assert every.all() == [third, first, new]
    assert every.find(second.id, None) is None


async def test_one_that_is_busy_never_has_to_go() -> None:
    every = LegacySessions(limit=2)
    first, second = busy(opened(every)), opened(every)
    _, evicted = every.open(Peer("2025-11-25", modern=False), Bench())
    assert evicted == [second]
    for session in every.all():
        busy(session)
    with pytest.raises(Refused) as caught:
        every.open(Peer("2025-11-25", modern=False), Bench())
    assert (caught.value.status, caught.value.headers) == (503, ((b"retry-after", b"30"),))
    assert len(every) == 2
    first.running.clear()
    _, evicted = every.open(Peer("2025-11-25", modern=False), Bench())
    assert evicted == [first]


async def test_a_session_is_busy_while_something_runs_or_its_standing_stream_is_read() -> None:
    every = LegacySessions()
    session, out = opened(every), Out()
    assert not session.busy
    busy(session)
    assert session.busy
    session.running.clear()
    stream = session.streams[STANDALONE]
    reading = asyncio.create_task(stream.pump(out, stream.attach()))
    await eventually(lambda: out.chunks)
    assert session.busy
    stream.detach()
    await reading
    assert not session.busy


# ---- how long ------------------------------------------------------------------------------------------------


async def test_an_unused_session_expires() -> None:
    clock, every = Clock(), LegacySessions(idle_ttl=100)
    session, used = opened(every), opened(every)
    await clock.advance(60)
    every.find(used.id, None)
    await clock.advance(60)
    assert every.find(session.id, None) is None, "also before a sweep"
    assert every.find(used.id, None) is used
    assert every.expired() == [session]
    assert every.expired() == []
    assert every.all() == [used]
    await clock.advance(101)
    _, evicted = every.open(Peer("2025-11-25", modern=False), Bench())
    assert evicted == [used], "opening a session removes expired ones"


async def test_a_session_with_a_running_request_is_in_use() -> None:
    clock, every = Clock(), LegacySessions(idle_ttl=100)
    working, idle = busy(opened(every)), opened(every)
    await clock.advance(150)
    assert every.expired() == [idle]
    assert every.find(working.id, None) is working
    await clock.advance(150)
    assert every.find(working.id, None) is working
    working.running.clear()
    await clock.advance(99)
    assert every.expired() == []
    await clock.advance(2)
    assert every.expired() == [working]


# ---- streams -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version, primes", [("2025-11-25", True), ("2025-06-18", False), ("2024-11-05", False)])
async def test_every_request_has_its_own_stream_and_only_new_clients_are_primed(version: str, primes: bool) -> None:
    session = opened(LegacySessions(), version=version)
    streams = [session.new_stream() for _ in range(3)]
    assert [stream.number for stream in streams] == [1, 2, 3]
    assert session.streams == {0: session.streams[STANDALONE], 1: streams[0], 2: streams[1], 3: streams[2]}
    assert {stream.primes for stream in session.streams.values()} == {primes}
    session.forget(streams[1])
    assert list(session.streams) == [0, 1, 3]
    assert session.new_stream().number == 4, "an id is never given twice"


def finished(session: LegacySession, size: int = 10) -> SseStream:
    stream = session.new_stream()
    stream.finish(b'"' + b"x" * size + b'"')
    return stream


async def test_a_stream_with_its_answer_is_kept_for_a_while() -> None:
    clock, every = Clock(), LegacySessions()
    one, other = opened(every), opened(every)
    first, second = finished(one), finished(other)
    every.keep(one, first)
    await clock.advance(KEPT_SECONDS - 1)
    every.keep(other, second)
    assert first in one.streams.values()
    await clock.advance(2)
    third = finished(one)
    every.keep(one, third)
    assert first not in one.streams.values()
    assert second in other.streams.values()
    assert third in one.streams.values()
    await clock.advance(KEPT_SECONDS + 1)
    fourth = finished(one)
    every.keep(one, fourth)
    assert list(one.streams.values()) == [one.streams[STANDALONE], fourth]
    assert list(other.streams.values()) == [other.streams[STANDALONE]]
    assert every._finished_bytes == fourth.size


async def test_all_streams_with_their_answers_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    every = LegacySessions()
    one, other = opened(every), opened(every)
    first, second, third = finished(one, 100), finished(other, 100), finished(one, 100)
    monkeypatch.setattr(sessions, "KEPT_BYTES", first.size + second.size)
    every.keep(one, first)
    every.keep(other, second)
    assert (len(one.streams), len(other.streams)) == (3, 2)
    every.keep(one, third)
    assert list(one.streams.values())[1:] == [third]
    assert second in other.streams.values()
    every.keep(other, finished(other, 1_000))
    assert (len(one.streams), len(other.streams)) == (1, 1), "one that is too large is not kept, nor what was before it"
    assert every._finished_bytes == 0


# ---- the end -------------------------------------------------------------------------------------------------


async def test_a_session_that_closes_ends_what_runs_asks_listens_and_watches() -> None:
    every, bench, out = LegacySessions(), Bench(), Out()
    session, _ = every.open(Peer("2025-11-25", modern=False), bench)
    await session.subscriptions.begin(session.peer)
    assert len(bench.watches) == 1
    stream = session.streams[STANDALONE]
    reading = asyncio.create_task(stream.pump(out, stream.attach()))
    asking = asyncio.create_task(session.server_requests.ask("roots/list", {}))
    await eventually(lambda: out.messages)
    assert out.messages == [{"jsonrpc": "2.0", "id": 1, "method": "roots/list"}]
    running = session.running[1] = Reply(Out(), {})

    async def work() -> None:
        begun.set_result(running.begin())
        await asyncio.Event().wait()

    begun = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(work())
    assert await begun
    await session.close()
    await asyncio.wait([task, reading, asking], timeout=10)
    assert task.cancelled()
    assert out.ended
    with pytest.raises(RemoteError, match="the session was closed"):
        await asking
    assert bench.watches == []


async def test_what_changes_is_said_on_the_standing_stream() -> None:
    every, bench, out = LegacySessions(), Bench(), Out()
    session, _ = every.open(Peer("2025-11-25", modern=False), bench)
    await session.subscriptions.begin(session.peer)
    bench.publish("notifications/tools/list_changed")
    stream = session.streams[STANDALONE]
    reading = asyncio.create_task(stream.pump(out, stream.attach()))
    await eventually(lambda: out.messages)
    assert out.messages == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
    await session.close()
    await reading
