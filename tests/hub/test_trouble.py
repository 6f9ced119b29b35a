"""Callers who give up, servers that go under load, odd ones: none affects another. Ten of them: test_ten."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import FaultyServer, Ledger, cancelled, outcome_of, succeeded
from tests.hub.kit import FAST, Hub, bad, echo_server, math_server, names, outcomes, played, state
from tests.serving import served
from tests.unit.kit import LEGACY, SILENCE, eventually, turns
from toolcrib.types import ConnectionState


async def test_entering_with_a_server_that_hangs_waits_for_the_timeout_and_no_longer(tmp_path: Path) -> None:
    began = time.monotonic()
    async with Hub({"hangs": played(initialize=SILENCE), "here": math_server()}, start_timeout=0.3) as hub:
        took = time.monotonic() - began
        assert 0.3 <= took < 5
        listing = asyncio.create_task(hub.list_tools())
        await turns(20)
        assert listing.done() and len(await listing) == 2, "who had its time is waited for no more"


async def test_removing_a_server_under_load_fails_only_its_own_calls(tmp_path: Path) -> None:
    going, staying = bad(tmp_path, "going"), bad(tmp_path, "staying")
    lost, kept = Ledger(), Ledger()
    stop = False

    async def load(hub: Hub, ledger: Ledger, name: str) -> None:
        while not stop:
            outcome = await nonced(hub, ledger, name)
            if isinstance(outcome, tc.NotFound):
                return

    async with Hub({"going": going.server(), "staying": staying.server(), "here": echo_server("echo")}) as hub:
        workers = [asyncio.create_task(load(hub, lost, "going")) for _ in range(8)]
        workers += [asyncio.create_task(load(hub, kept, "staying")) for _ in range(8)]
        await eventually(lambda: lost.count(succeeded) > 50 and kept.count(succeeded) > 50)
        ran = sum(going.record.executed.values())
        under_way = [asyncio.create_task(nonced(hub, lost, "going", "silent")) for _ in range(5)]
        await eventually(lambda: sum(going.record.executed.values()) > ran + 50)
        await hub.remove_server("going")
        assert going.living() == []
        assert [type(await each) for each in under_way] == [tc.OutcomeUnknown] * 5
        count = kept.count(succeeded)
        await eventually(lambda: kept.count(succeeded) > count + 50)
        stop = True
        await asyncio.gather(*workers)
    assert kept.count(succeeded) == len(kept.outcomes)
    kept.check(staying.record.executed)
    assert {type(o) for outs in lost.outcomes.values() for o in outs if not succeeded(o)} <= {
        tc.OutcomeUnknown,
        tc.ConnectionLost,
        tc.ToolNotFound,
    }
    lost.check(going.record.executed)


async def nonced(hub: Hub, ledger: Ledger, server: str, tool: str = "echo", **options: Any) -> Any:
    nonce = ledger.open()
    outcome = await outcome_of(hub.call_tool(f"mcp__{server}__{tool}", {"nonce": nonce}, **options))
    ledger.outcomes[nonce].append(outcome)
    return outcome


async def test_killing_a_server_under_load_fails_only_its_own_calls_and_it_comes_back(tmp_path: Path) -> None:
    dying, staying = bad(tmp_path, "dying"), bad(tmp_path, "staying")
    ledger, kept = Ledger(), Ledger()
    async with Hub({"dying": dying.server(), "staying": staying.server()}, reconnect=FAST) as hub:
        back = asyncio.Event()
        hub.on(tc.events.Reconnected, lambda event: back.set())
        calls = [nonced(hub, ledger, "dying", "silent", timeout=20) for _ in range(10)]
        calls += [nonced(hub, kept, "staying") for _ in range(50)]
        working = asyncio.gather(*calls)
        await eventually(lambda: len(dying.record.executed) >= 10)
        dying.kill()
        await working
        async with asyncio.timeout(10):
            await back.wait()
        assert succeeded(await nonced(hub, ledger, "dying"))
    assert kept.count(succeeded) == 50
    kept.check(staying.record.executed)
    ledger.check(dying.record.executed)
    assert ledger.count(lambda outcome: isinstance(outcome, tc.OutcomeUnknown)) >= 10


async def test_cancelled_callers_do_no_harm(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "one")
    ledger = Ledger()
    async with Hub({"one": faulty.server()}) as hub:
        tasks = [asyncio.create_task(nonced(hub, ledger, "one", "silent" if n % 2 else "echo")) for n in range(20)]
        await eventually(lambda: len(faulty.record.executed) == 20)
        for task in tasks[1::2]:
            task.cancel()
        await asyncio.gather(*tasks)
        assert ledger.count(cancelled) == 10 and ledger.count(succeeded) == 10
        assert (await hub.call_tool("mcp__one__echo", {"nonce": "after"})).text == "after"
        assert faulty.record.lives == 1


async def test_a_cancelled_caller_does_not_end_a_start_that_others_wait_for(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "slow")
    async with Hub({"slow": faulty.server(delay=0.3)}, start="lazy") as hub:
        first = asyncio.create_task(hub.call_tool("mcp__slow__echo", {"nonce": "a"}))
        second = asyncio.create_task(hub.call_tool("mcp__slow__echo", {"nonce": "b"}))
        listing = asyncio.create_task(hub.list_tools())
        await eventually(lambda: faulty.record.lives)
        first.cancel()
        listing.cancel()
        assert (await second).text == "b"
        assert isinstance((await outcomes(first))[0], asyncio.CancelledError)
        await outcomes(listing)
        assert "mcp__slow__echo" in names(await hub.list_tools())
        assert faulty.record.lives == 1


async def test_a_transient_call_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "each")
    async with Hub({"each": (faulty.server(), {"lifecycle": "transient"})}) as hub:
        calling = asyncio.create_task(hub.call_tool("mcp__each__silent", {"nonce": "n"}))
        await eventually(lambda: faulty.record.executed["n"])
        calling.cancel()
        assert isinstance((await outcomes(calling))[0], asyncio.CancelledError)
        await eventually(lambda: faulty.living() == [])


async def test_a_transient_call_in_flight_fails_when_its_server_goes(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "each")
    async with Hub({"each": (faulty.server(), {"lifecycle": "transient"})}) as hub:
        calling = asyncio.create_task(hub.call_tool("mcp__each__silent", {"nonce": "n"}))
        await eventually(lambda: faulty.record.executed["n"])
        await hub.remove_server("each")
        assert isinstance((await outcomes(calling))[0], tc.OutcomeUnknown)
        assert faulty.living() == []


async def test_idle_servers_that_come_and_go_lose_no_call(tmp_path: Path) -> None:
    """Disconnecting and calling meet again and again."""
    faulty, ledger = bad(tmp_path, "one"), Ledger()
    async with Hub({"one": faulty.server()}, disconnect_idle_after=0.001) as hub:
        for n in range(30):
            await nonced(hub, ledger, "one", timeout=20)
            if n % 3 == 0:
                await eventually(lambda: not state(hub, "one").connected)
    assert ledger.count(succeeded) == 30
    ledger.check(faulty.record.executed)


async def test_a_server_whose_list_is_broken_is_degraded_and_says_why() -> None:
    server = played("t", tools__list={"tools": "none"})
    async with Hub({"s": server}, reconnect=FAST) as hub:
        found = state(hub, "s")
        assert found.status.state is ConnectionState.DEGRADED
        assert "tools could not be listed" in found.status.reason
        assert isinstance(found.last_error, tc.ProtocolError)
        server.answers["tools/list"] = {"tools": [{"name": "t"}]}
        await eventually(lambda: state(hub, "s").status.state is ConnectionState.CONNECTED)
        assert names(await hub.list_tools()) == ["mcp__s__t"]


async def test_a_server_that_breaks_unexpectedly_affects_no_other() -> None:
    def broken() -> Any:
        raise ValueError("a transport with a bug")

    async with Hub({"broken": broken, "here": math_server()}) as hub:
        assert len(await hub.list_tools()) == 2
        assert state(hub, "broken").status.state is ConnectionState.FAILED
        with pytest.raises(tc.ConnectError):
            await hub.call_tool("mcp__broken__t", timeout=5)


async def test_one_that_wants_authorisation_is_not_asked_again_and_again(tmp_path: Path) -> None:
    app = math_server().asgi(auth=lambda headers: None)
    async with served(app) as url, Hub({"web": f"{url}/mcp", "here": echo_server()}, reconnect=FAST) as hub:
        heard: list[Any] = []
        hub.on(tc.events.ConnectionStarted, heard.append)
        assert state(hub, "web").status.state is ConnectionState.NEEDS_AUTH
        for _ in range(3):
            with pytest.raises(tc.AuthError):
                await hub.call_tool("mcp__web__add", {"a": 1, "b": 2})
        assert len(heard) <= 3


def test_the_interpreter_can_end_with_a_hub_left_open(tmp_path: Path) -> None:
    faulty = FaultyServer(tmp_path)
    code = (
        "import asyncio, sys, toolcrib as tc\n"
        "from toolcrib.hub.hub import Hub\n"
        "async def main():\n"
        "    hub = await Hub({'one': tc.StdioServer(sys.argv[1], sys.argv[2:])}).start()\n"
        "    print((await hub.call_tool('mcp__one__echo', {'nonce': 'n'})).text)\n"
        "asyncio.run(main())\n"
    )
    program = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *faulty.command()], capture_output=True, text=True, timeout=30
    )
    assert (program.returncode, program.stdout, program.stderr) == (0, "n\n", "")


# ---- what a server writes ------------------------------------------------------------------------------------

FORGED = "\x1b]0;owned\x07\n2026-01-01 CRITICAL forged \u202egnp.exe"


@pytest.mark.parametrize("where", ["tools/list", "resources/list", "initialize"])
async def test_what_a_server_writes_cannot_forge_lines_of_the_log_or_steer_the_terminal(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    refusal = tc.RemoteError(-32603, FORGED)
    handshake = {**LEGACY, "capabilities": {"tools": {}, "resources": {}}}
    server = played("t", **{"initialize": handshake, where.replace("/", "__"): refusal})
    with caplog.at_level(logging.DEBUG, "toolcrib.hub"):
        async with Hub({"s": server}, reconnect=FAST, mode="legacy") as hub:
            await eventually(lambda: state(hub, "s").last_error)
            found = state(hub, "s")
            shown = [found.status.reason, str(found.status), hub.explain("mcp__s__x"), *caplog.messages]
    assert "CRITICAL forged" in found.status.reason
    assert [text for text in shown if not text.isprintable()] == []


async def test_the_name_of_a_tool_cannot_steer_the_terminal_by_what_is_explained() -> None:
    async with Hub({"s": played(FORGED, "read")}) as hub:
        name = f"mcp__s__{FORGED}"
        texts = [hub.explain(name), hub.explain(hub.alias(name)), hub.explain("mcp__s__CRITICAL forged")]
        assert "is an alias of" in texts[1]
        assert [text for text in texts if not text.isprintable()] == []
