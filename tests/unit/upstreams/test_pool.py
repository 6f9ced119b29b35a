"""The pool of upstream connections: sharing, caps, the queue, eviction, idle closing, retiring, and its end."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import toolcrib as tc
from tests.unit.kit import Clock, eventually, turns
from toolcrib.client.client import Client
from toolcrib.errors import ConnectionLost, RateLimited
from toolcrib.upstreams.features import Features
from toolcrib.upstreams.places import FairQueue, PoolLimits
from toolcrib.upstreams.pool import SHARED, ConnectionPool, PoolKey

BRIDGED_SERVER = Path(__file__).parents[2] / "cli/bridged_server.py"
UNLIMITED = PoolLimits(None, None, None)


class Link:
    """A connection of the tests."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.open = True
        self.closing = False

    @property
    def connected(self) -> bool:
        return self.open


class Links:
    """Opens connections; `slow` ones are closed only after `finish`."""

    def __init__(self, *, slow: bool = False) -> None:
        self.slow = slow
        self.made: list[Link] = []
        self.failure: Exception | None = None
        self._gates: dict[Link, asyncio.Future[None]] = {}

    def open(self) -> Link:
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        link = Link(len(self.made))
        self.made.append(link)
        return link

    async def close(self, link: Link) -> None:
        link.closing = True
        if self.slow:
            gate = self._gates[link] = asyncio.get_running_loop().create_future()
            await gate
        link.open = False

    @property
    def alive(self) -> list[Link]:
        return [link for link in self.made if link.open]

    @property
    def closing(self) -> list[Link]:
        return [link for link in self._gates if link.open]

    async def finish(self, link: Link | None = None) -> None:
        """Let a connection, or all of them, be closed now."""
        for each in [link] if link is not None else list(self._gates):
            gate = self._gates.pop(each)
            gate.set_result(None)
        await turns()


Holder = tuple[asyncio.Task[None], asyncio.Event, list[Link]]


class Callers:
    """Tasks that each hold a lease until they are released."""

    def __init__(self, pool: ConnectionPool[Link], links: Links) -> None:
        self.pool = pool
        self.links = links
        self.granted: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, key: PoolKey, **options: Any) -> Holder:
        end, links = asyncio.Event(), list[Link]()

        async def hold() -> None:
            async with self.pool.lease(key, self.links, **options) as link:
                self.granted.append(name)
                links.append(link)
                await end.wait()

        task = asyncio.create_task(hold())
        self.tasks.append(task)
        return task, end, links


@asynccontextmanager
async def pooled(
    limits: PoolLimits = UNLIMITED, *, slow: bool = False, idle_seconds: float | None = None
) -> AsyncIterator[tuple[ConnectionPool[Link], Links, Callers]]:
    pool: ConnectionPool[Link] = ConnectionPool(limits, idle_seconds=idle_seconds)
    links = Links(slow=slow)
    callers = Callers(pool, links)
    try:
        yield pool, links, callers
    finally:
        links.slow = False
        for task in callers.tasks:
            task.cancel()
        await asyncio.gather(*callers.tasks, return_exceptions=True)
        await links.finish()
        await pool.close()
        assert not links.alive and not pool.connections() and not pool.waiting


def key_of(source: str = "s", scope: str = SHARED, generation: int = 0, features: Features = Features()) -> PoolKey:  # noqa: B008  # immutable
    return PoolKey(source, generation, scope, features)


async def end(holder: Holder) -> None:
    task, event, _ = holder
    event.set()
    await task
    await turns()


# ---- sharing -------------------------------------------------------------------------------------------------


async def test_leases_of_one_key_share_a_connection_and_other_keys_have_their_own() -> None:
    async with pooled() as (pool, links, _):
        roots = key_of(features=Features(roots=True))
        async with (
            pool.lease(key_of(), links) as one,
            pool.lease(key_of(), links) as two,
            pool.lease(roots, links) as three,
            pool.lease(key_of(scope="alice"), links) as four,
        ):
            assert one is two
            assert len({one, three, four}) == 3
        async with pool.lease(key_of(), links) as again:
            assert again is one
        assert len(links.made) == 3


async def test_leases_that_wait_for_the_same_key_get_one_connection() -> None:
    async with pooled(PoolLimits(total=1)) as (_, links, callers):
        first = callers.start("first", key_of("a"))
        await turns()
        waiting = [callers.start(f"w{n}", key_of("b"), principal=f"p{n}") for n in range(3)]
        await turns()
        assert callers.granted == ["first"]
        await end(first)
        assert callers.granted == ["first", "w0", "w1", "w2"]
        assert len({link for *_, got in waiting for link in got}) == 1
        assert len(links.made) == 2


async def test_a_lease_that_waits_shares_the_connection_that_another_principal_opens() -> None:
    async with pooled(PoolLimits(2, None, 1)) as (_, links, callers):
        team = key_of(scope="team")
        callers.start("alice holds", key_of(scope="alice"), principal="alice")
        await turns()
        waiting = callers.start("alice waits", team, principal="alice")
        await turns()
        other = callers.start("other", key_of("other"))
        await turns()
        later = callers.start("bob waits", team, principal="bob")
        await turns()
        assert not waiting[2] and not later[2]
        await end(other)
        assert waiting[2] == later[2] != []
        assert len(links.made) == 3


async def test_an_opener_that_fails_takes_no_place() -> None:
    async with pooled(PoolLimits(total=1)) as (pool, links, callers):
        links.failure = tc.ConfigError("no such command")
        with pytest.raises(tc.ConfigError, match="no such command"):
            async with pool.lease(key_of(), links):
                pass
        first = callers.start("first", key_of("a"))
        await turns()
        failing, later = callers.start("failing", key_of("b")), callers.start("later", key_of("c"))
        await turns()
        links.failure = tc.ConfigError("no such command")
        await end(first)
        assert isinstance(failing[0].exception(), tc.ConfigError)
        assert later[2], "the place went to the next one"


async def test_a_transient_connection_is_not_shared_and_keeps_its_place_until_it_is_closed() -> None:
    async with pooled(PoolLimits(total=2), slow=True) as (pool, links, callers):
        first, second = (callers.start(name, key_of(), transient=True) for name in ("first", "second"))
        third = callers.start("third", key_of(), transient=True)
        await turns()
        assert callers.granted == ["first", "second"]
        assert first[2] != second[2]
        await end(first)
        assert [each.closing for each in pool.connections()] == [True, False]
        assert not third[2], "the process has not ended"
        await links.finish(first[2][0])
        assert third[2] and len(links.made) == 3


async def test_the_leases_of_a_key_can_be_limited() -> None:
    async with pooled() as (pool, links, callers):
        one, two, three = (callers.start(f"{n}", key_of(), max_leases=2) for n in range(3))
        await turns()
        assert callers.granted == ["0", "1"]
        with pytest.raises(RateLimited, match=r"max_leases: all 2 leases") as late:
            async with pool.lease(key_of(), links, max_leases=2, timeout=0.001):
                pass
        assert late.value.sent is False and late.value.server == "s"
        await end(one)
        assert callers.granted == ["0", "1", "2"]
        assert two[2] == three[2]


async def test_transient_leases_of_a_key_count_until_they_are_closed() -> None:
    async with pooled(slow=True) as (_, links, callers):
        first = callers.start("first", key_of(), transient=True, max_leases=1)
        second = callers.start("second", key_of(), transient=True, max_leases=1)
        await turns()
        await end(first)
        assert not second[2]
        await links.finish()
        assert second[2]


# ---- caps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits, held, wanted, text",
    [
        (PoolLimits(1, None, None), ("a", "alice"), ("b", "bob"), "total: all 1 connections of the pool"),
        (PoolLimits(None, 1, None), ("a", "alice"), ("a", "bob"), "per_source: all 1 connections to this source"),
        (PoolLimits(None, None, 1), ("a", "alice"), ("a", "alice"), "per_principal: all 1 connections of alice to"),
    ],
)
async def test_a_full_pool_says_which_limit_is_reached(
    limits: PoolLimits, held: tuple[str, str], wanted: tuple[str, str], text: str
) -> None:
    async with pooled(limits) as (pool, links, _):
        async with pool.lease(key_of(held[0], f"{held[1]} one"), links, principal=held[1]):
            with pytest.raises(RateLimited, match=f"{text}.*are in use; nothing was sent. Try again later") as late:
                async with pool.lease(key_of(wanted[0], f"{wanted[1]} two"), links, principal=wanted[1], timeout=0.001):
                    pass
        assert late.value.sent is False and late.value.server == wanted[0]
        assert len(links.made) == 1


async def test_shared_connections_count_for_no_principal() -> None:
    async with pooled(PoolLimits(None, None, 1)) as (pool, links, _):
        roots = key_of(features=Features(roots=True))
        async with (
            pool.lease(key_of(), links, principal="a"),
            pool.lease(roots, links, principal="a"),
            pool.lease(key_of(scope="a"), links, principal="a", timeout=0),
        ):
            assert len(links.alive) == 3


async def test_the_least_recently_used_connection_without_a_lease_makes_room() -> None:
    async with pooled(PoolLimits(total=3)) as (pool, links, callers):
        held = callers.start("held", key_of("a"))
        await turns()
        for source in ("b", "c", "b"):
            async with pool.lease(key_of(source), links):
                pass
        async with pool.lease(key_of("d"), links, timeout=5):
            assert sorted(each.key.source for each in pool.connections()) == ["a", "b", "d"]
        assert held[2][0].open


@pytest.mark.parametrize(
    "limits, stays, goes",
    [
        (PoolLimits(None, 2, None), ("other", "alice"), ("s", "bob")),
        (PoolLimits(None, None, 2), ("s", "bob"), ("s", "alice")),
    ],
)
async def test_only_a_connection_within_the_full_cap_is_closed(
    limits: PoolLimits, stays: tuple[str, str], goes: tuple[str, str]
) -> None:
    async with pooled(limits) as (pool, links, callers):
        callers.start("held", key_of("s", "alice held"), principal="alice")
        await turns()
        for source, principal in (stays, goes):
            async with pool.lease(key_of(source, f"{principal} idle"), links, principal=principal):
                pass
        async with pool.lease(key_of("s", "alice new"), links, principal="alice", timeout=5):
            scopes = {(each.key.source, each.key.scope) for each in pool.connections()}
            assert (stays[0], f"{stays[1]} idle") in scopes and (goes[0], f"{goes[1]} idle") not in scopes


async def test_no_more_connections_are_closed_than_leases_wait_for() -> None:
    async with pooled(PoolLimits(total=4), slow=True) as (pool, links, callers):
        held = [callers.start(f"{n}", key_of(f"{n}")) for n in range(4)]
        await turns()
        waiting = [
            callers.start("w", key_of("w")),
            callers.start("w again", key_of("w")),
            callers.start("v", key_of("v")),
        ]
        await turns()
        for each in held:
            await end(each)
        assert len(links.closing) == 2, "two keys are wanted"
        assert not any(got for *_, got in waiting)
        await links.finish()
        assert all(got for *_, got in waiting) and len(links.alive) == 4
        assert len(pool.connections()) == 4


async def test_a_lease_waits_for_the_end_of_the_last_connection_of_its_key() -> None:
    """The server may hold an exclusive resource."""
    async with pooled(slow=True, idle_seconds=10) as (pool, links, callers):
        clock = Clock()
        async with pool.lease(key_of(), links):
            pass
        await clock.advance(11)
        assert len(links.closing) == 1
        with pytest.raises(RateLimited, match="still being closed; nothing was sent"):
            async with pool.lease(key_of(), links, timeout=0.001):
                pass
        later = callers.start("later", key_of())
        await turns()
        assert not later[2]
        await links.finish()
        assert later[2][0].number == 1


# ---- the queue -----------------------------------------------------------------------------------------------


async def test_principals_take_turns_and_each_of_them_is_served_in_order() -> None:
    async with pooled(PoolLimits(1, None, None)) as (_, _links, callers):
        holders = {"first": callers.start("first", key_of("x"), transient=True)}
        await turns()
        for name in ("a1", "a2", "a3", "a4", "b1", "b2", "c1"):
            holders[name] = callers.start(name, key_of("x"), principal=name[0], transient=True)
        await turns()
        for _ in range(7):
            await end(holders[callers.granted[-1]])
        assert callers.granted == ["first", "a1", "b1", "c1", "a2", "b2", "a3", "a4"]


async def test_a_lease_that_a_cap_blocks_does_not_block_those_behind_it() -> None:
    async with pooled(PoolLimits(2, 1, None)) as (_, _links, callers):
        full = callers.start("full", key_of("a"), transient=True)
        other = callers.start("other", key_of("b"), transient=True)
        await turns()
        blocked = callers.start("blocked", key_of("a"), transient=True)
        behind = callers.start("behind", key_of("b"), transient=True)
        await turns()
        await end(other)
        assert behind[2] and not blocked[2]
        await end(full)
        assert blocked[2]


def test_a_waiter_that_is_skipped_for_long_is_not_overtaken_by_newcomers() -> None:
    async def check() -> None:
        queue: FairQueue[str, None] = FairQueue()
        for n in range(3):
            queue.add(f"a{n}", "a")
        for n in range(100):  # a1 and a2 stay blocked while others come and go
            queue.grant(queue.add(f"b{n}", "b"))
            queue.add(f"a later {n}", "a")
        assert [waiter.request for waiter in queue.in_order()[:3]] == ["a0", "a1", "a2"]

    asyncio.run(check())


async def test_cancelling_at_any_turn_of_the_loop_loses_no_place() -> None:
    for after in range(12):
        async with pooled(PoolLimits(1, None, None)) as (_, _links, callers):
            first = callers.start("first", key_of("a"))
            await turns()
            second = callers.start("second", key_of("b"))
            await turns()
            first[1].set()
            await turns(after)
            second[0].cancel()
            third = callers.start("third", key_of("c"))
            await turns(10)
            assert third[2], f"cancelled after {after} turns"


async def test_a_timeout_in_the_turn_of_the_grant_loses_no_place() -> None:
    async with pooled(PoolLimits(1, None, None)) as (pool, links, callers):
        clock = Clock()
        first = callers.start("first", key_of("a"), transient=True)
        await turns()
        second = callers.start("second", key_of("b"), timeout=10, transient=True)
        await turns()
        first[1].set()
        await clock.advance(11)
        await turns(10)
        assert second[2] or isinstance(second[0].exception(), RateLimited)
        second[1].set()
        await turns(10)
        async with pool.lease(key_of("c"), links, timeout=5):
            pass


# ---- idle connections ----------------------------------------------------------------------------------------


async def test_idle_connections_are_closed_after_their_time_and_not_before() -> None:
    async with pooled(idle_seconds=10) as (pool, links, callers):
        clock = Clock()
        for source, options in {"usual": {}, "long": {"idle_seconds": 30}, "kept": {"idle_seconds": None}}.items():
            async with pool.lease(key_of(source), links, **options):
                pass
        callers.start("leased", key_of("leased"))
        await clock.advance(9)
        async with pool.lease(key_of("usual"), links):
            pass
        await clock.advance(9)
        assert len(links.alive) == 4, "a lease begins the time again"
        await clock.advance(2)
        assert {each.key.source for each in pool.connections()} == {"long", "kept", "leased"}
        await clock.advance(30)
        assert {each.key.source for each in pool.connections()} == {"kept", "leased"}


async def test_the_status_of_connections_says_who_uses_them_and_since_when() -> None:
    async with pooled() as (pool, links, _):
        assert pool.connections() == []
        async with pool.lease(key_of("a", "alice"), links, principal="alice"):
            async with pool.lease(key_of("b"), links):
                pass
            leased, idle = pool.connections()
            assert (leased.key.source, leased.principal, leased.leases, leased.idle_since) == ("a", "alice", 1, None)
            assert (idle.key.source, idle.leases, idle.connected) == ("b", 0, True)
            assert idle.idle_since is not None and abs(idle.idle_since - idle.since) < 5
            assert pool.connections("b") == [idle]


# ---- retiring and closing ------------------------------------------------------------------------------------


async def test_a_retired_generation_gets_no_new_leases_and_is_closed_with_its_last_one() -> None:
    async with pooled() as (pool, links, callers):
        leased = callers.start("leased", key_of())
        await turns()
        async with pool.lease(key_of(scope="idle"), links), pool.lease(key_of("other"), links):
            pass
        pool.retire("s", before=1)
        await turns()
        assert {each.key.scope for each in pool.connections("s")} == {SHARED}
        with pytest.raises(ConnectionLost, match="removed or its settings changed; nothing was sent") as refused:
            async with pool.lease(key_of(), links):
                pass
        assert refused.value.sent is False and refused.value.server == "s"
        async with pool.lease(key_of(generation=1), links) as new:
            assert new is not leased[2][0]
        await end(leased)
        assert not leased[2][0].open and new.open
        assert [each.key.generation for each in pool.connections("s")] == [1]
        assert len(pool.connections("other")) == 1


async def test_leases_that_wait_for_a_retired_source_fail() -> None:
    async with pooled(PoolLimits(total=1)) as (pool, links, callers):
        held = callers.start("held", key_of("other"))
        await turns()
        waiting = callers.start("waiting", key_of())
        await turns()
        pool.retire("s")
        await turns()
        assert isinstance(waiting[0].exception(), ConnectionLost)
        await end(held)
        with pytest.raises(ConnectionLost):
            async with pool.lease(key_of(generation=99), links):
                pass


async def test_closing_a_source_ends_its_connections_and_refuses_leases_meanwhile() -> None:
    async with pooled(PoolLimits(None, 2, None), slow=True) as (pool, links, callers):
        leased = callers.start("leased", key_of())
        transient = callers.start("transient", key_of(), transient=True)
        other = callers.start("other", key_of("other"))
        await turns()
        waiting = callers.start("waiting", key_of(scope="alice"))
        await turns()
        closing = asyncio.create_task(pool.close_source("s"))
        await turns()
        assert isinstance(waiting[0].exception(), ConnectionLost)
        with pytest.raises(ConnectionLost, match="being closed"):
            async with pool.lease(key_of(), links):
                pass
        assert not closing.done()
        await links.finish()
        await closing
        assert not leased[2][0].open and not transient[2][0].open and other[2][0].open
        async with pool.lease(key_of(), links, timeout=5) as new:
            await end(leased)
            await end(transient)
            assert new.open, "the end of an old lease does not close the new connection"


async def test_closing_a_scope_ends_only_its_connections() -> None:
    async with pooled() as (pool, links, callers):
        mine, other = callers.start("mine", key_of(scope="mine")), callers.start("other", key_of(scope="other"))
        await turns()
        await pool.close_scope("s", "mine")
        assert not mine[2][0].open and other[2][0].open
        async with pool.lease(key_of(scope="mine"), links) as again:
            assert again is not mine[2][0]


async def test_a_closed_pool_refuses_leases_and_ends_those_that_wait() -> None:
    async with pooled(PoolLimits(total=1)) as (pool, links, callers):
        callers.start("held", key_of("a"))
        await turns()
        waiting = callers.start("waiting", key_of("b"))
        await turns()
        await pool.close()
        await pool.close()
        await turns()
        assert isinstance(waiting[0].exception(), ConnectionLost)
        assert not links.alive
        with pytest.raises(ConnectionLost, match="pool of connections is closed"):
            async with pool.lease(key_of("a"), links):
                pass


async def test_a_connection_that_fails_to_close_gives_up_its_place(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Links):
        async def close(self, link: Link) -> None:
            await super().close(link)
            raise OSError("broken")

    pool: ConnectionPool[Link] = ConnectionPool(PoolLimits(total=1))
    links = Failing()
    for _ in range(2):
        async with pool.lease(key_of(), links, transient=True, timeout=5):
            pass
    await pool.close()
    assert len(links.made) == 2 and not pool.connections()
    assert "closing a connection failed" in caplog.text


# ---- all of it together --------------------------------------------------------------------------------------

SOURCES, PRINCIPALS = ("s", "t"), ("alice", "bob")


class Call:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, pool: ConnectionPool[Link], key: PoolKey, **options: Any
    ) -> None:
        self.key = key
        self.transient: bool = options["transient"]
        self.principal: str = options["principal"]
        self.links = _OneKeyLinks(self, key)
        self.link: Link | None = None
        self.end = asyncio.Event()
        self.task = loop.create_task(self._hold(pool, options))

    @property
    def waits(self) -> bool:
        return self.link is None and not self.task.done()

    async def _hold(self, pool: ConnectionPool[Link], options: dict[str, Any]) -> None:
        try:
            async with pool.lease(self.key, self.links, **options) as self.link:
                await self.end.wait()
        except (ConnectionLost, RateLimited, OSError):
            pass


class _OneKeyLinks:
    """The opener of one call: its connections are recorded with the key and the principal that they count for."""

    opened: list[tuple[Link, PoolKey, str | None, bool]]
    gates: dict[Link, asyncio.Future[None]]
    fails = False

    def __init__(self, call: Call, key: PoolKey) -> None:
        self._call = call
        self._key = key

    def open(self) -> Link:
        if _OneKeyLinks.fails:
            _OneKeyLinks.fails = False
            raise OSError("cannot open")
        call = self._call
        link = Link(len(self.opened))
        owner = None if self._key.scope == SHARED and not call.transient else call.principal
        self.opened.append((link, self._key, owner, call.transient))
        return link

    async def close(self, link: Link) -> None:
        assert not link.closing, "closed once"
        link.closing = True
        gate = self.gates[link] = asyncio.get_running_loop().create_future()
        await gate
        del self.gates[link]
        link.open = False


TURNS = st.integers(-1, 6)


class OnePool(RuleBasedStateMachine):
    """Everything that callers and connections can do, in the same turn of the loop or a few apart."""

    @initialize(
        total=st.sampled_from([1, 2, 4, None]),
        per_source=st.sampled_from([1, 2, None]),
        per_principal=st.sampled_from([1, 2, None]),
    )
    def begin(self, total: int | None, per_source: int | None, per_principal: int | None) -> None:
        self.loop = asyncio.new_event_loop()
        self.errors: list[Any] = []
        self.loop.set_exception_handler(lambda _, context: self.errors.append(context))
        self.limits = PoolLimits(total, per_source, per_principal)
        self.pool: ConnectionPool[Link] = ConnectionPool(self.limits, idle_seconds=10.0)
        self.clock = self.run(self._make_clock())
        self.calls: list[Call] = []
        self.generation = Counter[str]()
        self.stops: list[asyncio.Task[None]] = []
        _OneKeyLinks.opened, _OneKeyLinks.gates, _OneKeyLinks.fails = [], {}, False

    async def _make_clock(self) -> Clock:
        return Clock()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def turn(self, count: int) -> None:
        if count >= 0:
            self.run(turns(count))

    @rule(
        source=st.sampled_from(SOURCES),
        principal=st.sampled_from(PRINCIPALS),
        shared=st.booleans(),
        old=st.booleans(),
        transient=st.booleans(),
        timeout=st.sampled_from([None, None, 5.0]),
        max_leases=st.sampled_from([None, None, 1, 2]),
        fails=st.sampled_from([False, False, False, True]),
        count=TURNS,
    )
    def call(
        self, source: str, principal: str, shared: bool, old: bool, fails: bool, count: int, **options: Any
    ) -> None:
        generation = self.generation[source] - (1 if old else 0)
        key = PoolKey(source, generation, SHARED if shared else principal)
        _OneKeyLinks.fails = fails
        self.calls.append(Call(self.loop, self.pool, key, principal=principal, **options))
        self.turn(count)

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 99), count=TURNS)
    def end_call(self, which: int, count: int) -> None:
        self.calls[which % len(self.calls)].end.set()
        self.turn(count)

    @precondition(lambda self: self.calls)
    @rule(which=st.integers(0, 99), count=TURNS)
    def cancel(self, which: int, count: int) -> None:
        self.calls[which % len(self.calls)].task.cancel()
        self.turn(count)

    @precondition(lambda self: _OneKeyLinks.gates)
    @rule(which=st.integers(0, 99), count=TURNS)
    def finish_closing(self, which: int, count: int) -> None:
        gates = list(_OneKeyLinks.gates.values())
        gate = gates[which % len(gates)]
        if not gate.done():
            gate.set_result(None)
        self.turn(count)

    @rule(seconds=st.sampled_from([4.0, 11.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.run(self.clock.advance(seconds))

    @rule(source=st.sampled_from(SOURCES), count=TURNS)
    def retire(self, source: str, count: int) -> None:
        self.generation[source] += 1
        before = self.generation[source]

        async def retire() -> None:
            self.pool.retire(source, before)

        self.run(retire())
        self.turn(count)

    @rule(source=st.sampled_from(SOURCES), scope=st.sampled_from([None, SHARED, *PRINCIPALS]), count=TURNS)
    def stop(self, source: str, scope: str | None, count: int) -> None:
        work = self.pool.close_source(source) if scope is None else self.pool.close_scope(source, scope)
        self.stops.append(self.loop.create_task(work))
        self.turn(count)

    @invariant()
    def caps_are_kept(self) -> None:
        alive = [each for each in _OneKeyLinks.opened if each[0].open]
        sources = Counter(key.source for _, key, _, _ in alive)
        principals = Counter((key.source, owner) for _, key, owner, _ in alive if owner is not None)
        limits = self.limits
        assert limits.total is None or len(alive) <= limits.total
        assert limits.per_source is None or all(n <= limits.per_source for n in sources.values())
        assert limits.per_principal is None or all(n <= limits.per_principal for n in principals.values())
        keys = [key for _, key, _, transient in alive if not transient]
        assert len(keys) == len(set(keys)), "one connection for each key"

    @rule()
    def settle(self) -> None:
        """After a few turns of the loop, exactly the leases that were not granted wait."""
        self.turn(10)
        assert self.pool.waiting == sum(call.waits for call in self.calls)

    @invariant()
    def every_lease_has_its_connection(self) -> None:
        keys = {link: key for link, key, _, _ in _OneKeyLinks.opened}
        held = [call for call in self.calls if call.link is not None and not call.task.done()]
        assert all(keys[call.link] == call.key for call in held if call.link is not None)
        for call in held:
            if call.transient:
                assert [each.link for each in held].count(call.link) == 1
        assert len(self.pool.connections()) == sum(link.open for link, *_ in _OneKeyLinks.opened)
        assert not self.errors

    @invariant()
    def nothing_waits_without_a_reason(self) -> None:
        """If no connection is leased or being closed, no lease waits."""
        if all(each.leases == 0 and not each.closing for each in self.pool.connections()):
            assert not self.pool.waiting

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        rounds = 0
        while any(not call.task.done() for call in self.calls):  # each waiter gets its turn
            rounds += 1
            assert rounds <= 3 * len(self.calls) + 3, "a lease waits for ever"
            for call in self.calls:
                if call.link is not None:
                    call.end.set()
            self._finish_all()
        self.run(self._close_pool())
        assert not any(link.open for link, *_ in _OneKeyLinks.opened)
        assert not self.pool.connections() and not self.pool.waiting and not self.errors
        assert all(task.done() for task in self.stops)
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()

    def _finish_all(self) -> None:
        self.turn(10)
        for gate in _OneKeyLinks.gates.values():
            if not gate.done():
                gate.set_result(None)
        self.turn(10)

    async def _close_pool(self) -> None:
        closing = asyncio.create_task(self.pool.close())
        while not closing.done():
            for gate in list(_OneKeyLinks.gates.values()):
                if not gate.done():
                    gate.set_result(None)
            await turns()
        await closing
        await turns(10)


TestOnePool = OnePool.TestCase


# ---- with processes ------------------------------------------------------------------------------------------


class Processes:
    """Opens clients of a stdio server."""

    def __init__(self) -> None:
        self.pids: list[int] = []

    def open(self) -> Client:
        return Client(tc.StdioServer(sys.executable, [str(BRIDGED_SERVER)]))

    async def close(self, client: Client) -> None:
        await client.close()

    async def call(self, pool: ConnectionPool[Client], key: PoolKey, **options: Any) -> int:
        async with pool.lease(key, self, timeout=60, **options) as client:
            pid = int((await client.call_tool("pid")).text)
            self.pids.append(pid)
            return pid


async def test_processes_are_shared_limited_evicted_and_gone_at_the_end() -> None:
    pool: ConnectionPool[Client] = ConnectionPool(PoolLimits(2, None, None), idle_seconds=None)
    processes = Processes()
    most = 0

    async def watch() -> None:
        nonlocal most
        me = psutil.Process()
        while True:
            most = max(most, sum(each.status() != psutil.STATUS_ZOMBIE for each in me.children()))
            await asyncio.sleep(0.005)

    watching = asyncio.create_task(watch())
    try:
        one, two = await asyncio.gather(*(processes.call(pool, key_of("one")) for _ in range(2)))
        assert one == two
        others = [processes.call(pool, key_of("one"), transient=True, principal=f"p{n}") for n in range(2)]
        pids = {*await asyncio.gather(*others), await processes.call(pool, key_of("two"))}
        assert len(pids | {one}) == 4
    finally:
        await pool.close()
        watching.cancel()
    assert not any(psutil.pid_exists(pid) for pid in processes.pids)
    assert most <= 2
    await eventually(lambda: not pool.connections())
