"""Bytes that are not messages, and messages that are too large: counted and reported, and the connection survives."""

from __future__ import annotations

import asyncio
import time
import tracemalloc

import pytest

import toolcrib as tc
from tests.faults.kit import FaultyServer, either_era, eventually, matrix, outcome_of
from toolcrib.errors import OutcomeUnknown, ProtocolError, ToolcribError, TransportError, UsageError

MIB = 1024 * 1024


@either_era
async def test_garbage_bad_utf8_and_truncated_json_between_messages_change_nothing(
    faulty: FaultyServer, era: str
) -> None:
    async with faulty.client(era=era, wire=["garbage"]) as client:
        results = await asyncio.gather(*(client.call_tool("echo", {"nonce": str(n)}) for n in range(50)))
        assert [result.text for result in results] == [str(n) for n in range(50)]
        assert client.counters.malformed > 50 * 9
    assert faulty.record.lives == 1


@either_era
async def test_a_thousand_garbage_lines_in_a_row_are_borne(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        for _ in range(3):
            assert (await client.call_tool("spew", {"nonce": "x", "lines": 1000})).text == "x"
    assert faulty.record.lives == 1


@either_era
async def test_more_than_a_thousand_garbage_lines_in_a_row_restart_the_server(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        outcome = await outcome_of(client.call_tool("spew", {"nonce": "s", "lines": 100_000}, timeout=10))
        assert isinstance(outcome, OutcomeUnknown | ProtocolError), outcome
        assert not isinstance(outcome, TimeoutError)
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert faulty.record.lives == 2
    assert faulty.record.executed["s"] == 1


@either_era
async def test_a_torn_answer_whose_id_can_be_read_fails_its_call_at_once(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        beside = asyncio.create_task(client.call_tool("slow", {"nonce": "b", "seconds": 0.3}))
        start = time.monotonic()
        with pytest.raises(ProtocolError) as caught:
            await client.call_tool("torn", {}, timeout=20)
        assert time.monotonic() - start < 2
        assert "jsonrpc" in caught.value.sample
        assert (await beside).text == "b"
    assert faulty.record.lives == 1


@either_era
@pytest.mark.parametrize("size", [1 * MIB, 15 * MIB])
async def test_an_answer_below_the_cap_arrives_whole(faulty: FaultyServer, era: str, size: int) -> None:
    async with faulty.client(era=era) as client:
        result = await client.call_tool("huge", {"size": size}, timeout=30)
        assert len(result.raw["pad"]) == size


@pytest.mark.slow
@either_era
async def test_a_line_of_100_mb_is_refused_at_the_cap_in_linear_time(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        beside = asyncio.create_task(client.call_tool("slow", {"nonce": "b", "seconds": 0.1}, timeout=60))
        tracemalloc.start()
        start = time.monotonic()
        outcome = await outcome_of(client.call_tool("huge", {"size": 100 * MIB}, timeout=60))
        took = time.monotonic() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert isinstance(outcome, ToolcribError), "not a result"
        assert not isinstance(outcome, TimeoutError)
        assert took < 10
        assert peak < 100 * MIB, "the line was not gathered"
        assert (await beside).text == "b", "the connection lives"
        assert (await client.call_tool("echo", {"nonce": "x"}, timeout=30)).text == "x"
    assert faulty.record.lives == 1


@either_era
@pytest.mark.parametrize("depth", [200, 100_000, 1_000_000])
async def test_an_answer_too_deep_is_reported_within_a_second_and_the_connection_lives(
    faulty: FaultyServer, era: str, depth: int
) -> None:
    async with faulty.client(era=era) as client:
        start = time.monotonic()
        outcome = await outcome_of(client.call_tool("deep", {"depth": depth}, timeout=30))
        assert time.monotonic() - start < 10
        assert isinstance(outcome, ProtocolError), outcome
        assert (await client.call_tool("echo", {"nonce": "x"}, timeout=30)).text == "x"
    assert faulty.record.lives == 1


@either_era
async def test_an_answer_below_the_depth_limit_arrives_whole(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        result = await client.call_tool("deep", {"depth": 100})
        assert str(result.data).count("{") == 100


@either_era
async def test_arguments_too_deep_for_json_are_refused_before_they_are_sent(faulty: FaultyServer, era: str) -> None:
    nested: dict[str, object] = {}
    for _ in range(100_000):
        nested = {"a": nested}
    async with faulty.client(era=era) as client:
        with pytest.raises(UsageError):
            await client.call_tool("echo", {"nonce": "deep", "x": nested}, timeout=20)
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert faulty.record.executed == {"x": 1}


@either_era
async def test_answers_with_string_ids_find_their_calls(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era, wire=["string_id"]) as client:
        results = await asyncio.gather(*(client.call_tool("echo", {"nonce": str(n)}) for n in range(50)))
        assert [result.text for result in results] == [str(n) for n in range(50)]


@either_era
@pytest.mark.parametrize("wire", ["twice", "unknown_id", "crlf"])
async def test_duplicate_and_unknown_ids_and_crlf_change_nothing(faulty: FaultyServer, era: str, wire: str) -> None:
    async with faulty.client(era=era, wire=[wire]) as client:
        for _ in range(3):
            results = await asyncio.gather(*(client.call_tool("echo", {"nonce": str(n)}) for n in range(30)))
            assert [result.text for result in results] == [str(n) for n in range(30)]
        # Six strangers before each answer, or a second copy of it.
        assert client.counters.unmatched >= {"twice": 90, "unknown_id": 540, "crlf": 0}[wire]
    assert faulty.record.lives == 1


@either_era
@pytest.mark.parametrize("wire", ["odd_result", "no_result"])
async def test_a_result_that_is_not_an_object_is_a_protocol_error_and_does_not_crash(
    faulty: FaultyServer, era: str, wire: str
) -> None:
    async with faulty.client(era=era) as client:
        with pytest.raises(ProtocolError):
            await client.call_tool("echo", {"wire": [wire]}, timeout=20)
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert faulty.record.lives == 1


async def test_a_handshake_with_an_odd_result_is_a_typed_error(faulty: FaultyServer) -> None:
    client = faulty.client(wire=["odd_result"])
    with pytest.raises(ToolcribError):
        await asyncio.wait_for(client.connect(), 20)
    assert not client.connected
    await client.close()


@either_era
@pytest.mark.parametrize(
    "method", ["notifications/message", "notifications/progress", "notifications/tools/list_changed", "notifications/x"]
)
async def test_a_flood_of_notifications_does_not_hinder_the_answers(
    faulty: FaultyServer, era: str, method: str
) -> None:
    received: list[object] = []

    def broken_listener(message: object) -> None:
        received.append(message)
        raise RuntimeError("a listener's own fault")

    async with faulty.client(era=era, options={"log_handler": broken_listener}) as client:
        result = await client.call_tool("flood", {"nonce": "f", "count": 5_000, "method": method}, timeout=30)
        assert result.text == "f"
        if method == "notifications/message":
            await eventually(lambda: len(received) >= 1)
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert faulty.record.lives == 1


@pytest.mark.slow
async def test_a_flood_does_not_starve_the_calls_of_other_clients(faulty: FaultyServer) -> None:
    async with faulty.client() as calm, faulty.client() as loud:
        flood = asyncio.create_task(loud.call_tool("flood", {"nonce": "f", "count": 200_000}, timeout=60))
        slowest = 0.0
        while not flood.done():
            start = time.monotonic()
            await calm.call_tool("echo", {"nonce": "x"})
            slowest = max(slowest, time.monotonic() - start)
        assert (await flood).text == "f"
        assert slowest < 2


@pytest.mark.parametrize("size", matrix([32 * MIB], [1024 * MIB]))
@pytest.mark.parametrize("when", ["at the start", "in a call"])
async def test_a_flood_of_stderr_blocks_nothing(faulty: FaultyServer, when: str, size: int) -> None:
    async with faulty.client(**({"stderr": size} if when == "at the start" else {})) as client:
        if when == "in a call":
            assert (await client.call_tool("stderr", {"nonce": "s", "size": size}, timeout=60)).text == "s"
        assert (await client.call_tool("echo", {"nonce": "x"}, timeout=60)).text == "x"
    assert faulty.record.lives == 1


async def test_a_stderr_handler_receives_a_flood_to_its_end(faulty: FaultyServer) -> None:
    ends: list[str] = []

    def hear(line: str) -> None:
        ends.append(line[-30:])
        if len(ends) % 1000 == 0:
            raise RuntimeError("a listener's own fault")

    async with faulty.client(options={"stderr_handler": hear}) as client:
        await client.call_tool("stderr", {"size": 16 * MIB}, timeout=60)
        await eventually(lambda: ends[-1:] == ["end of the flood"], within=20)
    assert len(ends) == 16 * 1024 + 1


async def test_of_a_stderr_flood_before_a_death_64_kib_are_kept(faulty: FaultyServer) -> None:
    client = faulty.client(stderr=8 * MIB, exit={"code": 9, "stderr": "the last words\n"})
    with pytest.raises(tc.StartError) as caught:
        await client.connect()
    assert caught.value.stderr.endswith("the last words\n") or caught.value.stderr.endswith("the last words")
    assert 1024 <= len(caught.value.stderr) <= 64 * 1024
    assert len(str(caught.value)) < 8 * 1024, "the message shows the end of it, not all"
    await client.close()


@either_era
async def test_an_error_reply_is_a_remote_error_with_its_code(faulty: FaultyServer, era: str) -> None:
    async with faulty.client(era=era) as client:
        with pytest.raises(tc.RemoteError) as caught:
            await client.call_tool("refuse", {"code": -32055, "nonce": "r"})
        assert caught.value.code == -32055
        assert caught.value.data == {"nonce": "r"}
        assert not isinstance(caught.value, TransportError)
    assert faulty.record.executed["r"] == 1
