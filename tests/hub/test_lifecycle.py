"""Servers that live for one call, and servers that are closed when they are idle."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import toolcrib as tc
from tests.faults.kit import impatient
from tests.hub.kit import Hub, bad, math_server, names, outcomes, state
from tests.unit.kit import eventually
from toolcrib.types import ConnectionState

SLOW = tc.ReconnectPolicy(base_delay=60, max_delay=60)


@pytest.mark.parametrize("told", ["by its config", "for this server", "for all"])
async def test_a_transient_server_has_a_process_for_each_call(tmp_path: Path, told: str) -> None:
    faulty = bad(tmp_path, "each")
    command, *arguments = faulty.command()
    if told == "by its config":
        hub = Hub({"each": tc.StdioServer(command, arguments, lifecycle="transient")})
    elif told == "for this server":
        hub = Hub({"each": (faulty.server(), {"lifecycle": "transient"})})
    else:
        hub = Hub({"each": faulty.server()}, lifecycle="transient")
    async with hub:
        assert "mcp__each__echo" in names(await hub.list_tools())
        found = state(hub, "each")
        assert str(found.status) == "disconnected (transient: connected for each call)"
        assert found.server_info is not None and found.last_error is None
        await eventually(lambda: faulty.living() == [])
        results = await outcomes(*(hub.call_tool("mcp__each__echo", {"nonce": f"n{n}"}) for n in range(4)))
        assert [result.text for result in results] == ["n0", "n1", "n2", "n3"]
        assert faulty.record.lives == 5
        await eventually(lambda: faulty.living() == [])


async def test_the_answer_of_a_transient_server_does_not_wait_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    faulty = bad(tmp_path, "each")
    async with Hub({"each": (faulty.server(stubborn=True), {"lifecycle": "transient"})}) as hub:
        result = await hub.call_tool("mcp__each__echo", {"nonce": "n"})
        assert result.text == "n"
        assert faulty.living() != []
    assert faulty.living() == []


async def test_a_transient_server_that_cannot_start_says_so(tmp_path: Path) -> None:
    gone = tc.StdioServer(str(tmp_path / "nothing"), lifecycle="transient")
    async with Hub({"gone": gone}, reconnect=SLOW) as hub:
        assert state(hub, "gone").status.state is ConnectionState.FAILED
        with pytest.raises(tc.StartError):
            await hub.call_tool("mcp__gone__t")


async def test_structured_scalars_of_a_transient_server_are_unwrapped_as_those_of_others() -> None:
    async with Hub({"math": (math_server(), {"lifecycle": "transient"})}) as hub:
        assert (await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})).data == 3


async def test_an_idle_server_is_closed_and_restarted_for_a_call(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "idle")
    async with Hub({"idle": faulty.server()}, disconnect_idle_after=0.05) as hub:
        await eventually(lambda: faulty.living() == [])
        assert str(state(hub, "idle").status) == "disconnected (idle)"
        assert "mcp__idle__echo" in names(await hub.list_tools())
        assert faulty.record.lives == 1
        assert (await hub.call_tool("mcp__idle__echo", {"nonce": "n"})).text == "n"
        assert faulty.record.lives == 2
        await eventually(lambda: faulty.living() == [])


async def test_a_server_is_not_idle_while_a_call_is_in_flight(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "busy")
    async with Hub({"busy": faulty.server()}, disconnect_idle_after=0.05) as hub:
        result = await hub.call_tool("mcp__busy__slow", {"nonce": "n", "seconds": 0.5})
        assert not result.is_error
        assert faulty.record.lives <= 2


async def test_a_call_that_arrives_while_its_idle_server_is_closed_is_not_lost(tmp_path: Path) -> None:
    """The call arrives in the loop iteration after the timer fired and before the server is closed."""
    faulty = bad(tmp_path, "one")
    async with Hub({"one": faulty.server()}, disconnect_idle_after=0.05) as hub:
        clients = hub._servers.by_name["one"].clients
        assert clients is not None
        loop = asyncio.get_running_loop()
        for turn in range(10):
            await hub.call_tool("mcp__one__echo", {"nonce": "n"})
            (idle,) = await eventually(lambda: list(clients._pool._idle))  # the lists may still be fetched
            woken = loop.create_future()
            loop.call_at(idle.idle_until - 1e-7, woken.set_result, None)
            await woken
            assert (await hub.call_tool("mcp__one__echo", {"nonce": f"n{turn}"})).text == f"n{turn}"


@pytest.mark.parametrize("most, stubborn", [(1, False), (3, False), (2, True), (None, False)])
async def test_a_transient_server_has_at_most_as_many_processes_as_calls_may_be_in_flight(
    tmp_path: Path, most: int | None, stubborn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even if its processes ignore the end of their input: a call keeps its place until its process is gone."""
    impatient(monkeypatch)
    faulty = bad(tmp_path, "each")
    server = replace(faulty.server(stubborn=stubborn), max_in_flight=most)
    peak, over = 0, False

    async def look() -> None:
        nonlocal peak
        while not over:
            peak = max(peak, len(faulty.living()))
            await asyncio.sleep(0.005)

    async with Hub({"each": (server, {"lifecycle": "transient"})}) as hub:
        await eventually(lambda: faulty.living() == [])
        looking = asyncio.create_task(look())
        calls = [hub.call_tool("mcp__each__slow", {"nonce": f"n{n}", "seconds": 0.1}) for n in range(6)]
        results = await outcomes(*calls)
        over = True
        await looking
    assert [result.text for result in results] == [f"n{n}" for n in range(6)]
    assert peak <= (most or 6)
    assert most is not None or peak > 3, "where nothing is said they run side by side"


async def test_waiting_for_a_place_is_part_of_the_calls_time(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "each")
    server = replace(faulty.server(), max_in_flight=1)
    async with Hub({"each": (server, {"lifecycle": "transient"})}) as hub:
        first = asyncio.create_task(hub.call_tool("mcp__each__silent", {"nonce": "first"}))
        await eventually(lambda: faulty.record.executed["first"])
        with pytest.raises(tc.CallTimeout) as late:
            await hub.call_tool("mcp__each__echo", {"nonce": "second"}, timeout=0.2)
        assert not late.value.sent and late.value.server == "each"
        first.cancel()
        assert isinstance((await outcomes(first))[0], asyncio.CancelledError)
        assert (await hub.call_tool("mcp__each__echo", {"nonce": "third"})).text == "third"
    assert faulty.record.executed["second"] == 0
