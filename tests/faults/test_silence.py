"""Slow, silent and stuck servers: the deadline holds, the server is notified, and a dead one is restarted."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import (
    BIG,
    FaultyServer,
    by_era,
    cancelled,
    either_era,
    eventually,
    impatient,
    outcome_of,
    surely_unsent,
)
from tests.unit.kit import Clock, turns
from toolcrib.client.supervisor import HEALTH_TIMEOUT
from toolcrib.errors import CallTimeout, UnansweredTimeout
from toolcrib.types import ConnectionState


def checks_in(faulty: FaultyServer) -> int:
    """Return how often the client checked the server's health; the first `server/discover` belongs to the handshake."""
    return sum(method in ("ping", "server/discover") for method in faulty.record.entries("method"))


async def test_a_call_never_answered_ends_at_its_deadline_and_the_server_is_notified(
    faulty: FaultyServer, era: str
) -> None:
    async with faulty.client(era=era) as client:
        start = time.monotonic()
        with pytest.raises(UnansweredTimeout) as caught:
            await client.call_tool("silent", {"nonce": "s"}, timeout=0.3)
        assert 0.25 < time.monotonic() - start < 3
        assert caught.value.sent
        assert caught.value.tool == "silent"
        await eventually(lambda: faulty.record.entries("cancel") == ["s"], what="cancel sent")
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert faulty.record.lives == 1


async def test_the_clients_own_execution_time_out_holds_where_the_call_names_none(faulty: FaultyServer) -> None:
    async with faulty.client(options={"execution_timeout": 0.3}) as client:
        with pytest.raises(UnansweredTimeout):
            await client.call_tool("silent", {})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.call_tool("silent", {}, timeout=None), 0.6)


@either_era
async def test_one_byte_every_200_ms_does_not_stretch_the_deadline(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        start = time.monotonic()
        with pytest.raises(UnansweredTimeout):
            await client.call_tool("echo", {"nonce": "d", "wire": ["drip"]}, timeout=0.7)
        assert time.monotonic() - start < 4
        faulty.kill()  # otherwise close would wait for a graceful end


@either_era
@pytest.mark.parametrize("pad", [BIG, ""], ids=["300 KB", "small"])
async def test_a_server_that_does_not_read_does_not_stretch_the_deadline(
    faulty: FaultyServer, era: str, pad: str
) -> None:
    async with faulty.client(era=era) as client:
        await client.call_tool("hold", {"until": 60})
        start = time.monotonic()
        with pytest.raises(CallTimeout):
            await client.call_tool("echo", {"pad": pad}, timeout=0.5)
        assert 0.45 < time.monotonic() - start < 3
        # Nor for the next call, which never gets its turn to write.
        with pytest.raises(CallTimeout):
            await client.call_tool("echo", {"pad": pad}, timeout=0.1)
        faulty.kill()  # otherwise close would wait for a graceful end


async def test_closing_a_client_whose_server_does_not_read_is_bounded(
    faulty: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    client = faulty.client(stubborn=True)
    await client.connect()
    await client.call_tool("hold", {"until": 60})
    outcome = await outcome_of(client.call_tool("echo", {"pad": BIG}, timeout=0.2))
    assert isinstance(outcome, CallTimeout)
    start = time.monotonic()
    await client.close()
    assert time.monotonic() - start < 5, "flush 0.5 s, stdin 0.2 s, SIGTERM 0.2 s, SIGKILL"
    assert not faulty.living()


async def test_a_cancelled_caller_is_free_at_once_and_the_server_is_notified(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        task = asyncio.create_task(client.call_tool("silent", {"nonce": "c"}))
        await eventually(lambda: faulty.record.executed["c"])
        start = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - start < 1
        await eventually(lambda: faulty.record.entries("cancel") == ["c"])


@either_era
async def test_a_cancelled_caller_is_free_at_once_though_the_pipe_is_full(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        await client.call_tool("hold", {"until": 60})
        task = asyncio.create_task(outcome_of(client.call_tool("echo", {"pad": BIG})))
        behind = asyncio.create_task(outcome_of(client.call_tool("echo", {"pad": BIG})))
        await asyncio.sleep(0)  # they go first
        assert surely_unsent(await outcome_of(client.call_tool("echo", {}, timeout=0.2)))
        start = time.monotonic()
        task.cancel()
        behind.cancel()
        assert cancelled(await task)
        assert cancelled(await behind)
        assert time.monotonic() - start < 1
        faulty.kill()  # otherwise close would wait for a graceful end


@either_era
async def test_a_late_answer_is_dropped_and_reaches_no_caller(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        with pytest.raises(UnansweredTimeout):
            await client.call_tool("slow", {"nonce": "late", "seconds": 0.4}, timeout=0.1)
        results = await asyncio.gather(
            *(client.call_tool("slow", {"nonce": str(n), "seconds": 0.6}, timeout=10) for n in range(20))
        )
        assert [result.text for result in results] == [str(n) for n in range(20)]
        assert client.counters.unmatched == 1
    assert faulty.record.lives == 1


@either_era
async def test_progress_resets_the_idle_time_out_and_silence_does_not(faulty: FaultyServer, era: str) -> None:
    ticks: list[float] = []
    async with faulty.client(era=era) as client:
        result = await client.call_tool(
            "tick",
            {"nonce": "t", "every": 0.15, "count": 8},
            timeout=20,
            idle_timeout=1.0,
            on_progress=lambda progress, total, message: ticks.append(progress),
        )
        assert result.text == "t"
        assert ticks == [1, 2, 3, 4, 5, 6, 7, 8]
        with pytest.raises(UnansweredTimeout):
            await client.call_tool("silent", {}, timeout=20, idle_timeout=0.3, on_progress=lambda *_: None)


@either_era
async def test_the_whole_deadline_holds_though_progress_comes(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        with pytest.raises(UnansweredTimeout):
            await client.call_tool(
                "tick", {"every": 0.05, "count": 1000}, timeout=0.5, idle_timeout=5, on_progress=lambda *_: None
            )


@pytest.mark.parametrize("name, era", by_era(["mute", "one byte every 200 ms", "does not read"], both=["mute"]))
async def test_three_unanswered_calls_and_an_unanswered_ping_restart_the_server(
    faulty: FaultyServer, name: str, era: str
) -> None:
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "mute": ("mute", {}),
        "one byte every 200 ms": ("echo", {"wire": ["drip"]}),
        "does not read": ("stuck", {"until": 60}),
    }
    tool, arguments = calls[name]
    clock = Clock()
    async with faulty.client(era=era) as client:
        with pytest.raises(UnansweredTimeout):
            await client.call_tool(tool, arguments, timeout=0.1)
        for _ in range(2):
            assert client.status.state is ConnectionState.CONNECTED
            with pytest.raises(CallTimeout):
                await client.call_tool("echo", {}, timeout=0.1)
        assert client.status.state is ConnectionState.DEGRADED
        await turns()  # it is asked whether it lives
        await clock.advance(HEALTH_TIMEOUT - 1)
        assert client.connected
        await clock.advance(1)
        await eventually(lambda: not client.connected or faulty.record.lives == 2, what="given up")
        result = await client.call_tool("echo", {"nonce": "alive"}, timeout=20)
        assert result.text == "alive"
        assert client.status.state is ConnectionState.CONNECTED
    assert faulty.record.lives == 2


async def test_unanswered_calls_do_not_restart_a_server_that_answers_the_ping(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        checks = checks_in(faulty)
        for _ in range(6):
            with pytest.raises(UnansweredTimeout):
                await client.call_tool("silent", {}, timeout=0.1)
        await eventually(lambda: checks_in(faulty) > checks, what="a health check")
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert faulty.record.lives == 1


@either_era
async def test_messages_in_between_mean_that_the_server_is_not_dead(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        checks = checks_in(faulty)
        for _ in range(5):
            with pytest.raises(UnansweredTimeout):
                await client.call_tool("silent", {}, timeout=0.05)
            await client.call_tool("echo", {"nonce": "x"})
        assert checks_in(faulty) == checks, "no health check was needed"
    assert faulty.record.lives == 1


async def test_max_in_flight_queues_and_the_deadline_covers_the_queue(faulty: FaultyServer) -> None:
    async with faulty.client(options={"max_in_flight": 2}) as client:
        first = [asyncio.create_task(client.call_tool("slow", {"seconds": 1, "nonce": str(n)})) for n in range(2)]
        await eventually(lambda: sum(faulty.record.executed.values()) == 2)
        outcome = await outcome_of(client.call_tool("echo", {"nonce": "queued"}, timeout=0.2))
        assert surely_unsent(outcome)
        assert [(await task).text for task in first] == ["0", "1"]
        assert (await client.call_tool("echo", {"nonce": "after"})).text == "after"
    assert faulty.record.executed["queued"] == 0


@either_era
async def test_a_time_out_of_one_call_leaves_the_calls_beside_it_alone(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        beside = [asyncio.create_task(client.call_tool("slow", {"seconds": 0.5, "nonce": str(n)})) for n in range(10)]
        outcomes = await asyncio.gather(*(outcome_of(client.call_tool("silent", {}, timeout=0.2)) for _ in range(10)))
        assert all(type(outcome) is UnansweredTimeout for outcome in outcomes)
        results: list[tc.ToolResult] = await asyncio.gather(*beside)
        assert [result.text for result in results] == [str(n) for n in range(10)]
