"""Servers that die: reported at once, no other server is affected, and the next call restarts it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import (
    BIG,
    FaultyServer,
    Ledger,
    alive,
    either_era,
    eventually,
    impatient,
    lucky,
    outcome_of,
    perhaps_sent,
    surely_unsent,
)
from toolcrib import events
from toolcrib.errors import OutcomeUnknown, TransportError
from toolcrib.types import ConnectionState

# The law is 100 ms; the bound is ten times as wide.
SOON = 1.0


async def works(client: tc.Client) -> bool:
    return (await client.call_tool("echo", {"nonce": "again"}, timeout=10)).text == "again"


@pytest.mark.parametrize("arguments", [{}, {"part": True}, {"code": 0}], ids=["plain", "half a line", "exit 0"])
async def test_a_crash_in_mid_call_is_an_unknown_outcome_at_once_and_the_next_call_restarts(
    faulty: FaultyServer, era: str, arguments: dict[str, Any]
) -> None:
    async with faulty.client(era=era) as client:
        start = time.monotonic()
        with pytest.raises(OutcomeUnknown) as caught:
            await client.call_tool("die", {"nonce": "d", **arguments})
        assert time.monotonic() - start < SOON
        assert caught.value.sent
        assert not isinstance(caught.value, TimeoutError)
        assert await works(client)
    assert faulty.record.executed["d"] == 1
    assert faulty.record.lives == 2


@either_era
async def test_an_answer_written_before_the_death_is_delivered(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        for n in range(5):
            result = await client.call_tool("die", {"nonce": f"last-{n}", "answer": True}, timeout=10)
            assert result.text == f"last-{n}"
            await eventually(lambda: not client.connected or faulty.record.lives > n + 1)  # noqa: B023
    assert all(times == 1 for times in faulty.record.executed.values())


@either_era
async def test_death_is_seen_though_a_grandchild_holds_stdout_open(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era, grandchild="holding") as client:
        start = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await client.call_tool("die", {}, timeout=20)
        assert time.monotonic() - start < 5
        assert await works(client)
        first, *_ = faulty.record.children
        await eventually(lambda: not alive(first), what="the old life's child is swept with its group")


@either_era
async def test_all_calls_in_flight_fail_at_once_each_with_its_own_outcome(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        tasks = [asyncio.create_task(outcome_of(client.call_tool("silent", {"nonce": str(n)}))) for n in range(50)]
        await eventually(lambda: sum(faulty.record.executed.values()) == 50)
        start = time.monotonic()
        faulty.kill()
        outcomes = await asyncio.gather(*tasks)
        assert time.monotonic() - start < SOON
        assert all(type(outcome) is OutcomeUnknown for outcome in outcomes)
        assert len({id(outcome) for outcome in outcomes}) == 50, "an exception object is never shared by two callers"
        assert await works(client)
    assert sum(faulty.record.executed.values()) == 51


async def test_a_list_request_is_asked_again_after_a_crash(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era, first={"silent": ["tools/list"]}) as client:
        listing = asyncio.create_task(client.list_tools())
        await eventually(lambda: client.connected)
        assert await works(client), "in order: the list request was read"
        faulty.kill()
        assert "echo" in {tool.name for tool in await asyncio.wait_for(listing, 10)}
    assert faulty.record.lives == 2


async def test_a_tool_marked_retry_safe_is_called_again_after_a_crash(
    faulty: FaultyServer, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    async with faulty.client(era=era) as client:
        call = asyncio.create_task(
            client.call_tool("slow", {"nonce": "s", "seconds": 0.5}, retry_safe=True, timeout=20)
        )
        await eventually(lambda: faulty.record.executed["s"] == 1)
        faulty.kill()
        assert (await call).text == "s"
    assert faulty.record.executed["s"] == 2, "the operator said that twice does no harm"


@either_era
async def test_stdout_closed_in_mid_call_is_death_at_once_though_the_process_lives_on(
    faulty: FaultyServer, era: str
) -> None:
    async with faulty.client(era=era, stubborn=True) as client:
        pid = faulty.record.pid
        start = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            await client.call_tool("close_stdout", {}, timeout=20)
        assert time.monotonic() - start < SOON
        assert await works(client)
        assert faulty.record.lives == 2
        await eventually(lambda: not alive(pid), within=8, what="the old process is ended")
        faulty.kill()  # otherwise close would wait for a graceful end


@either_era
async def test_stdin_closed_by_the_server_is_its_death_and_an_unwritten_call_goes_to_the_next_life(
    faulty: FaultyServer, era: str
) -> None:
    async with faulty.client(era=era) as client:
        assert (await client.call_tool("close_stdin", {})).text == "closed"
        assert (await client.call_tool("echo", {"nonce": "x"}, timeout=20)).text == "x"
    assert faulty.record.lives == 2
    assert faulty.record.executed == {"x": 1}


@either_era
async def test_close_gives_every_call_in_flight_its_outcome(
    faulty: FaultyServer, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    ledger, gate = Ledger(), faulty.path("gate")
    client = faulty.client(era=era)
    await client.connect()
    waiting = [asyncio.create_task(ledger.call(client, "silent", timeout=None)) for _ in range(5)]
    await eventually(lambda: sum(faulty.record.executed.values()) == 5)
    await client.call_tool("hold", {"until": str(gate)})
    stuck = [asyncio.create_task(ledger.call(client, timeout=None, pad=BIG)) for _ in range(5)]
    await asyncio.sleep(0)  # they go first
    assert surely_unsent(await ledger.call(client, timeout=0.2))
    await asyncio.gather(client.close(), client.close())
    done, pending = await asyncio.wait(waiting + stuck, timeout=1)
    assert (len(done), len(pending)) == (10, 0)
    assert all(perhaps_sent(task.result()) for task in waiting)
    assert sum(surely_unsent(task.result()) for task in stuck) >= 4
    ledger.check(faulty.record.executed)


async def test_a_call_that_waits_for_its_next_attempt_ends_with_the_close_as_unsent(faulty: FaultyServer) -> None:
    """The call began on an open client, so the close is an outcome of the call and not a mistake of the caller."""
    ledger, failed = Ledger(), asyncio.Event()
    client = faulty.client(exit={"code": 1})
    client.on(events.ConnectionFailed, lambda event: failed.set())
    calls = [asyncio.create_task(ledger.call(client, timeout=30)) for _ in range(10)]
    await asyncio.wait_for(failed.wait(), 10)
    await asyncio.sleep(0)  # now they wait for their next attempts
    start = time.monotonic()
    await client.close()
    outcomes = await asyncio.gather(*calls)
    assert time.monotonic() - start < SOON
    assert all(map(surely_unsent, outcomes)), outcomes
    ledger.check(faulty.record.executed)


@either_era
async def test_the_death_of_one_server_affects_no_other(faulty: FaultyServer, era: str) -> None:
    healthy = faulty.client(era=era)
    async with healthy, faulty.client(era=era) as sick:
        calls = [asyncio.create_task(healthy.call_tool("slow", {"nonce": f"h{n}", "seconds": 0.3})) for n in range(10)]
        with pytest.raises(OutcomeUnknown):
            await sick.call_tool("die", {})
        assert [(await call).text for call in calls] == [f"h{n}" for n in range(10)]


async def test_an_idle_death_is_noticed_and_reported(faulty: FaultyServer, era: str) -> None:
    seen: list[events.Event] = []
    async with faulty.client(era=era) as client:
        client.on(events.Event, seen.append)
        faulty.kill()
        await eventually(lambda: any(isinstance(event, events.Disconnected) for event in seen))
        (lost,) = [event for event in seen if isinstance(event, events.Disconnected)]
        assert "9" in lost.reason or "KILL" in lost.reason.upper()
        assert await works(client)
        await eventually(lambda: any(isinstance(event, events.Reconnected) for event in seen))
        started = [event for event in seen if isinstance(event, events.ConnectionStarted)]
        assert all(event.is_reconnect for event in started)
        assert client.status.state is ConnectionState.CONNECTED


@either_era
async def test_death_while_a_large_write_is_stuck_ends_the_call(
    faulty: FaultyServer, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)
    async with faulty.client(era=era) as client:
        await client.call_tool("hold", {"until": 60})
        calls = [
            asyncio.create_task(outcome_of(client.call_tool("fail", {"nonce": str(n), "pad": BIG}))) for n in range(4)
        ]
        await asyncio.sleep(0)  # they go first
        blocked = await outcome_of(client.call_tool("echo", {}, timeout=0.2))
        assert isinstance(blocked, TransportError)
        start = time.monotonic()
        faulty.kill()
        outcomes = await asyncio.gather(*calls)
        assert time.monotonic() - start < 5
    # The first was on its way; the others surely had not begun, so the next life got them.
    assert type(outcomes[0]) is OutcomeUnknown
    assert all(isinstance(outcome, tc.ToolResult) and outcome.is_error for outcome in outcomes[1:])
    assert faulty.record.executed == {"1": 1, "2": 1, "3": 1}


async def test_a_server_that_dies_again_and_again_is_not_restarted_in_a_tight_loop(faulty: FaultyServer) -> None:
    policy = tc.ReconnectPolicy(base_delay=0.2, max_delay=1, max_retries=3, jitter_factor=0)
    async with tc.Client(faulty.server(), reconnect=policy) as client:
        start = time.monotonic()
        for _ in range(4):
            with pytest.raises(TransportError):
                await client.call_tool("die", {}, timeout=10)
        assert time.monotonic() - start < 10
    assert faulty.record.lives <= 5
