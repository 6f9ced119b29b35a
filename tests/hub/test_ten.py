"""Ten real servers of which one hangs, one crashes in a loop and one sends garbage: the other seven do not notice."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from pathlib import Path

import pytest

import toolcrib as tc
from tests.faults.kit import Ledger, succeeded
from tests.hub.kit import Hub, outcomes, state
from tests.hub.ten import ILL, WELL, Ten, echo, nonced, ready, ten
from tests.unit.kit import eventually
from toolcrib.types import ConnectionState

# The sick ones are tried again about every half a second.
EAGER = tc.ReconnectPolicy(base_delay=0.1, max_delay=0.5, max_retries=1, jitter_factor=0.0)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


async def test_seven_list_in_the_time_of_the_slowest_of_them(tmp_path: Path) -> None:
    async with ten(tmp_path) as all_ten:
        slowest = {}
        for who, servers in (("seven", all_ten.only(*WELL)), ("ten", all_ten.servers)):
            began = time.monotonic()
            async with Hub(servers, reconnect=EAGER) as hub:
                took = time.monotonic() - began
                await ready(hub)  # on a busy machine one of them may be later than the hub waits
                assert {tool.server for tool in await hub.list_tools()} == set(WELL)
                slowest[who] = max(state(hub, name).startup_seconds or 0 for name in WELL)
                results = await asyncio.gather(*(echo(hub, name, name) for name in WELL))
                assert [result.text for result in results] == list(WELL)
                if who == "ten":
                    assert state(hub, "hangs").status.state is ConnectionState.CONNECTING, "nobody waited for its end"
        assert slowest["ten"] < 3 * slowest["seven"] + 2, "each is there in its own time"
        assert took < 3 * slowest["ten"] + 5, "and who enters waits a little for the others, not for ever"


async def test_status_is_right_for_the_three_and_events_report_their_recovery(tmp_path: Path) -> None:
    async with ten(tmp_path) as all_ten:
        impatient = {**all_ten.servers, "hangs": (all_ten.servers["hangs"], {"connect_timeout": 1.0})}
        async with Hub(impatient, start_timeout=0, reconnect=EAGER) as hub:
            told: list[tuple[type[tc.events.Event], str]] = []
            hub.on(tc.events.Event, lambda event: told.append((type(event), event.server)))
            await ready(hub)
            await eventually(lambda: went_on(hub, all_ten), within=60)
            await check_the_sick(hub)
            for name in WELL:
                assert (state(hub, name).status.state, state(hub, name).last_error) == (
                    ConnectionState.CONNECTED,
                    None,
                ), name
            told.clear()
            all_ten.cure()
            expected = {(tc.events.ToolsChanged, name) for name in ILL}
            await eventually(lambda: expected <= {*told}, within=60)
            assert {(tc.events.ConnectionCompleted, name) for name in ILL} <= {*told}
            await eventually(lambda: all(state(hub, name).status.state is ConnectionState.CONNECTED for name in ILL))
            assert [state(hub, name).last_error for name in ILL] == [None, None, None]
            assert {tool.server for tool in await hub.list_tools()} == {*WELL, *ILL}
            results = await asyncio.gather(*(echo(hub, name, name) for name in (*WELL, *ILL)))
            assert [result.text for result in results] == [*WELL, *ILL]


def went_on(hub: Hub, all_ten: Ten) -> bool:
    """Each has had its trouble again and again; and is never called well meanwhile, not even while it shakes hands."""
    for name in ILL:
        assert state(hub, name).status.state is not ConnectionState.CONNECTED, name
    return all(all_ten.lives(name) >= 3 and verdict(hub, name) for name in ILL)


def verdict(hub: Hub, name: str) -> bool:
    """Not only the loss of a connection that is made again at once."""
    error = state(hub, name).last_error
    return error is not None and not isinstance(error, tc.ConnectionLost)


async def check_the_sick(hub: Hub) -> None:
    """Check each server's status, the errors of calls, and `explain`."""
    words = {"hangs": "connect_timeout=1.0", "crashes": "exited with code 7", "garbage": "malformed messages"}
    for name, said in words.items():
        found = state(hub, name)
        assert said in str(found.last_error), (name, found)
        assert found.tools == ()
        with pytest.raises(tc.ToolcribError) as failed:
            await echo(hub, name, "n", timeout=5)
        assert failed.value.server == name
        explained = hub.explain(f"mcp__{name}__echo")
        assert name in explained and "has not listed its tools yet" in explained


@pytest.mark.serial
async def test_seven_keep_their_rate_of_calls(tmp_path: Path) -> None:
    async def rates(hub: Hub, seconds: float = 0.4) -> Counter[str]:
        end, done = time.monotonic() + seconds, Counter[str]()

        async def work(name: str) -> None:
            while time.monotonic() < end:
                await echo(hub, name, "n")
                done[name] += 1
                await asyncio.sleep(0)  # calls in this process need nothing to wait for

        await asyncio.gather(*(work(name) for name in WELL for _ in range(2)))
        return done

    async with ten(tmp_path) as all_ten, Hub(all_ten.only(*WELL), start_timeout=0, reconnect=EAGER) as hub:
        await ready(hub)
        kept: dict[str, list[float]] = {name: [] for name in WELL}
        await rates(hub, 0.1)
        for _ in range(3):
            without = await rates(hub)
            for name in ILL:
                await hub.add_server(name, all_ten.servers[name], start="lazy")
            await hub.list_tools()  # which starts them
            before = {name: all_ten.lives(name) for name in ("crashes", "garbage")}
            await eventually(lambda before=before: all(all_ten.lives(name) > before[name] for name in before))
            with_sick = await rates(hub)
            for name in ILL:
                await hub.remove_server(name)
            for name in WELL:
                kept[name].append(with_sick[name] / without[name])
        medians = {name: round(statistics.median(ratios), 2) for name, ratios in kept.items()}
        # Far below what is measured: it must fail when a sick one takes the loop, not when a core is busy. Starting the
        # sick ones again and again takes a part of both cores: 0.6 was measured beside other work.
        assert min(medians.values()) > 0.3, medians


async def test_removing_servers_under_load_fails_only_their_own_calls(tmp_path: Path) -> None:
    """One of each transport goes, one after the other, under the load of all."""
    ledgers = {name: Ledger() for name in WELL}
    going: set[str] = set()
    over = False

    async def load(hub: Hub, name: str) -> None:
        while not over:
            outcome = await nonced(hub, ledgers[name], name, timeout=30)
            if isinstance(outcome, tc.NotFound):
                return
            await asyncio.sleep(0)

    def well_now(name: str) -> int:
        return ledgers[name].count(succeeded)

    async with ten(tmp_path) as all_ten, Hub(all_ten.servers, start_timeout=0, reconnect=EAGER) as hub:
        await ready(hub)
        workers = [asyncio.create_task(load(hub, name)) for name in WELL for _ in range(3)]
        try:
            for leaving in ("quick", "web", "old", "here"):
                counts = {name: well_now(name) for name in WELL if name not in going}
                await eventually(lambda counts=counts: all(well_now(name) > counts[name] + 15 for name in counts))
                going.add(leaving)
                await hub.remove_server(leaving)
            counts = {name: well_now(name) for name in WELL if name not in going}
            await eventually(lambda: all(well_now(name) > counts[name] + 15 for name in counts))
        finally:
            over = True
            ended = await outcomes(*workers)
        assert ended == [None] * len(workers)
        assert {each.name for each in hub.list_servers()} == {*WELL, *ILL} - going
    for name, ledger in ledgers.items():
        said = {type(outcome) for each in ledger.outcomes.values() for outcome in each}
        # Calls in flight may have run; later calls find no server.
        typed = {tc.ToolResult, tc.ConnectionLost, tc.OutcomeUnknown, tc.ToolNotFound}
        assert said <= (typed if name in going else {tc.ToolResult}), name
        assert (tc.ToolNotFound in said) == (name in going), name
        ran = all_ten.executed.get(name)
        ledger.check(ran() if ran is not None else Counter(dict.fromkeys(ledger.outcomes, 1)))
