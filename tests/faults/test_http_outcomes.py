"""Exactly one outcome per call over HTTP, whatever happens to the connections."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.faults.http_kit import Web, calls, running
from tests.faults.http_proxy import Fault
from tests.faults.kit import BIG, Ledger, either_era, eventually, matrix, perhaps_sent, succeeded, succeeds
from toolcrib.errors import OutcomeUnknown, TransportError
from toolcrib.transports.http.client import KEEP_ALIVE


@either_era
@pytest.mark.parametrize("then", ["reset", "fin"])
@pytest.mark.parametrize("where", ["the server", "the line"])
async def test_one_connection_that_breaks_with_fifty_calls_in_flight_fails_one_call(
    web: Web, era: str, where: str, then: str
) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    line = await web.line(server)
    async with web.client(line if where == "the line" else server) as client:
        tasks = [asyncio.create_task(ledger.call(client, "slow", timeout=30)) for _ in range(50)]
        await running(server, 50)
        if where == "the line":
            busy = [passage for passage in line.passages if b"tools/call" in passage.last_request]
            busy[25].break_off(then)
        else:
            victim = server.in_call["n25"]
            victim.reset() if then == "reset" else victim.close()
        await eventually(lambda: any(task.done() for task in tasks))
        server.release.set()
        outcomes = await asyncio.gather(*tasks)
        assert ledger.count(succeeded) == 49
        (failed,) = [one for one in outcomes if not succeeded(one)]
        assert type(failed) is OutcomeUnknown
        assert failed.sent
        assert client.connected, "the others never noticed"
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert len(server.received("initialize")) == (era == "legacy")


async def test_all_connections_that_break_fail_the_calls_on_them_and_no_later_one(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        tasks = [asyncio.create_task(ledger.call(client, "slow", timeout=30)) for _ in range(30)]
        await running(server, 30)
        for connection in [*server.connections.values()]:
            connection.reset()
        outcomes = await asyncio.gather(*tasks)
        assert all(type(one) is OutcomeUnknown for one in outcomes)
        await succeeds(lambda: client.call_tool("echo", {"nonce": "x"}, timeout=10))
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("after", ["nothing", "head", "body"])
@pytest.mark.parametrize("then", ["fin", "reset"])
async def test_a_connection_that_ends_before_the_answer_is_whole_is_an_unknown_outcome(
    web: Web, era: str, then: str, after: str
) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        outcomes = await calls(ledger, client, 10, "die", then=then, after=after)
        assert all(type(one) is OutcomeUnknown for one in outcomes), outcomes[:1]
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    assert sum(server.executed.values()) == 11


@either_era
@pytest.mark.parametrize("cut", [0, 1, 100, 400, 150_000])
async def test_a_request_cut_on_its_way_never_runs_and_is_reported_correctly(web: Web, era: str, cut: int) -> None:
    """Half a request cannot run; whether the client can know that depends on how much it has written."""
    ledger, server = Ledger(), await web.server(era=era)
    line = await web.line(server)
    async with web.client(line, max_attempts=1) as client:
        await ledger.call(client)
        for passage in line.passages:
            if passage.verb == "POST":
                passage.fault = Fault(up=cut, then="reset")
        line.spec = lambda number: Fault(up=cut, then="reset")
        outcome = await ledger.call(client, pad=BIG, timeout=10)
        assert isinstance(outcome, TransportError), outcome
        line.spec = lambda number: Fault()
        await succeeds(lambda: client.call_tool("echo", {"nonce": "x"}, timeout=5))
    ledger.check(server.executed)
    assert server.executed["n1"] == 0


# ---- connections that were kept too long


@either_era
@pytest.mark.parametrize("idle", [0, 0.02])
async def test_a_server_that_closes_idle_connections_early_does_not_cost_calls(web: Web, era: str, idle: float) -> None:
    ledger, server = Ledger(), await web.server(era=era, idle=idle)
    async with web.client(server) as client:
        for _ in range(30):
            await ledger.call(client)
            if idle:
                await eventually(lambda: len(server.connections) <= 2)
        assert ledger.count(succeeded) >= 28, "but for a close and a call that met"
        assert all(succeeded(one) or perhaps_sent(one) for (one,) in ledger.outcomes.values())
    ledger.check(server.executed)


@either_era
async def test_a_kept_connection_is_given_up_before_servers_close_it(
    web: Web, era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most servers keep an idle connection for 5 s; the client reuses it only for a shorter time."""
    assert KEEP_ALIVE < 5
    monkeypatch.setattr("toolcrib.transports.http.client.KEEP_ALIVE", 0.1)
    ledger, server = Ledger(), await web.server(era=era, idle=0.2)
    async with web.client(server) as client:
        for wait in (0, 0.05, 0.15, 0.195, 0.2, 0.205, 0.25):
            before = asyncio.get_running_loop().time()
            await eventually(lambda before=before, wait=wait: asyncio.get_running_loop().time() - before >= wait)
            assert succeeded(await ledger.call(client))
    ledger.check(server.executed)
    numbers = [one.connection for one in server.received("tools/call")]
    assert numbers[0] == numbers[1], "while it is fresh it is kept"
    assert len({*numbers}) >= 4


@either_era
async def test_half_closed_connections_are_not_used_again(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    line = await web.line(server)
    async with web.client(line) as client:
        await calls(ledger, client, 10)
        for passage in line.passages:
            if passage.verb == "POST":
                passage.break_off("half")
        await eventually(lambda: all(passage.verb != "POST" for passage in line.passages), what="closed by the client")
        outcomes = await calls(ledger, client, 10)
        assert all(map(succeeded, outcomes)), outcomes
    ledger.check(server.executed)


# ---- everything at once


@pytest.mark.slow
@pytest.mark.parametrize("seed", matrix([1], range(2, 13)))
async def test_chaos_leaves_each_call_one_honest_outcome(web: Web, era: str, seed: int) -> None:
    """Connections with every fault, refusals, expiries, cancelled callers: nothing runs twice, nothing unsent ran."""
    dice = random.Random(seed)
    ledger, server = Ledger(), await web.server(era=era)

    def plan(number: int) -> Fault:
        then = dice.choice(["fin", "reset", "half"])
        return dice.choice(
            [Fault()] * 6
            + [Fault(down=dice.randrange(3000), then=then), Fault(up=dice.randrange(3000), then=then)]
            + [Fault(latency=0.002), Fault(down=dice.randrange(2000), then="blackhole"), Fault(drip=0.0002)]
        )

    line = await web.line(server, plan)
    tools: list[tuple[str, dict[str, Any]]] = [
        *[("echo", {})] * 6,
        ("echo", {"as": "event"}),
        ("echo", {"pad": BIG}),
        ("slow", {"seconds": 0.02}),
        ("die", {"after": "body"}),
        ("tick", {"every": 0.005, "count": 3}),
        ("status", {"status": 500}),
        ("resumed", {"retry": 5, "then": "reset"}) if era == "legacy" else ("events", {"then": "reset"}),
    ]
    client = web.client(line, max_attempts=2, connect_timeout=1)
    refusal = server.gate("tools/call", "status", status=429, headers={"Retry-After": "0"}, times=0)

    async def caller() -> None:
        for _ in range(8):
            tool, how = dice.choice(tools)
            task = asyncio.create_task(ledger.call(client, tool, timeout=0.7, **how))
            await asyncio.sleep(0)
            if dice.random() < 0.1:
                task.cancel()
            await task
            if dice.random() < 0.05:
                server.expire()
            if dice.random() < 0.05:
                refusal.times = 2

    await asyncio.gather(*(caller() for _ in range(20)))
    refusal.times, line.spec = 0, lambda number: Fault()
    await succeeds(lambda: client.call_tool("echo", {"nonce": "end"}, timeout=5), within=30)
    await client.close()
    for nonce, outcomes in ledger.outcomes.items():
        if succeeded(outcomes[0]):
            assert outcomes[0].text == nonce  # type: ignore[union-attr]
    ledger.check(server.executed)
    assert ledger.count(succeeded) >= 10
