"""The life of servers in a hub: started side by side, once, when needed, again, for each call, until unused."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import impatient
from tests.hub.kit import FAST, Hub, bad, echo_server, math_server, names, outcomes, played, state
from tests.unit.kit import LEGACY, SILENCE, eventually
from toolcrib.types import ConnectionState

SLOW = tc.ReconnectPolicy(base_delay=60, max_delay=60)


# ---- starting ------------------------------------------------------------------------------------------------


async def test_servers_start_side_by_side() -> None:
    """Each answers its handshake only when both have been asked."""
    asked: Counter[str] = Counter()
    both = asyncio.Event()

    def handshake(name: str) -> Any:
        async def answer(params: dict[str, Any]) -> dict[str, Any]:
            asked[name] += 1
            if len(asked) == 2:
                both.set()
            await both.wait()
            return LEGACY

        return answer

    servers = {name: played("t", initialize=handshake(name)) for name in ("a", "b")}
    async with asyncio.timeout(10), Hub(servers) as hub:
        assert names(await hub.list_tools()) == ["mcp__a__t", "mcp__b__t"]


async def test_a_start_is_single_flight_for_all_callers(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "one")
    hub = Hub({"one": faulty.server(delay=0.2)})
    calls = [hub.call_tool("mcp__one__echo", {"nonce": f"n{n}"}) for n in range(20)]
    results = await outcomes(hub.start(), hub.start(), hub.list_tools(), *calls)
    assert [result.text for result in results[3:]] == [f"n{n}" for n in range(20)]
    assert faulty.record.lives == 1
    await hub.close()


async def test_without_a_with_block_the_first_use_starts_it() -> None:
    hub = Hub({"math": math_server()})
    assert state(hub, "math").status.reason == "not started yet"
    assert (await hub.call_tool("mcp__math__add", {"a": 1, "b": 1})).data == 2
    await hub.close()
    hub = Hub({"math": math_server()})
    assert len(await hub.list_tools()) == 2
    await hub.close()


async def test_a_call_waits_for_its_own_server_only() -> None:
    hanging = played("t", initialize=SILENCE)
    async with Hub({"hangs": hanging, "math": math_server()}, start_timeout=0) as hub:
        assert (await hub.call_tool("mcp__math__add", {"a": 1, "b": 1})).data == 2
        with pytest.raises(tc.CallTimeout) as late:
            await hub.call_tool("mcp__hangs__t", timeout=0.05)
        assert not late.value.sent
        assert state(hub, "hangs").status.state is ConnectionState.CONNECTING


async def test_waiting_for_the_server_is_part_of_the_calls_time() -> None:
    slow = asyncio.Event()

    async def handshake(params: dict[str, Any]) -> dict[str, Any]:
        await slow.wait()
        return LEGACY

    async with Hub({"s": played("t", initialize=handshake, tools__call=SILENCE)}, start="lazy") as hub:
        began = time.monotonic()
        calling = asyncio.create_task(hub.call_tool("mcp__s__t", timeout=0.6))
        await asyncio.wait([calling], timeout=0.4)
        slow.set()
        with pytest.raises(tc.UnansweredTimeout):
            await calling
        assert time.monotonic() - began < 0.95
        with pytest.raises(tc.ConfigError):
            await hub.call_tool("mcp__s__t", timeout=-1)
    async with Hub({"s": played("t")}, start="lazy") as hub:
        with pytest.raises(tc.ConfigError):
            await hub.call_tool("mcp__s__t", timeout=-1)


async def test_entering_waits_no_longer_than_its_timeout() -> None:
    slow = asyncio.Event()

    async def handshake(params: dict[str, Any]) -> dict[str, Any]:
        await slow.wait()
        return LEGACY

    servers = {"slow": played("t", initialize=handshake), "math": math_server()}
    async with asyncio.timeout(10), Hub(servers, start_timeout=0.1) as hub:
        assert names(await hub.list_tools()) == ["mcp__math__add", "mcp__math__fail"]
        came = asyncio.Event()
        hub.on(tc.events.ToolsChanged, lambda event: came.set())
        slow.set()
        await came.wait()
        assert "mcp__slow__t" in names(await hub.list_tools())


async def test_one_that_cannot_start_is_skipped_and_tried_again_until_it_can(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "sick")
    sick = faulty.server(first={"exit": {"code": 3, "stderr": "no token"}}, first_lives=2)
    healed = asyncio.Event()
    async with Hub({"math": math_server(), "sick": sick}, reconnect=FAST) as hub:
        hub.on(tc.events.ConnectionCompleted, lambda event: healed.set())
        assert names(await hub.list_tools()) == ["mcp__math__add", "mcp__math__fail"]
        found = state(hub, "sick")
        assert found.status.state in (ConnectionState.FAILED, ConnectionState.CONNECTING)
        assert isinstance(found.last_error, tc.StartError) and "no token" in found.last_error.stderr
        async with asyncio.timeout(10):
            await healed.wait()
        await eventually(lambda: state(hub, "sick").last_error is None)
        assert (await hub.call_tool("mcp__sick__echo", {"nonce": "n"})).text == "n"
        assert faulty.record.lives == 3


async def test_a_call_to_one_that_could_not_start_tries_at_once(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "sick")
    sick = faulty.server(first={"exit": {"code": 3}})
    async with Hub({"sick": sick}, reconnect=SLOW) as hub:
        assert state(hub, "sick").status.state is ConnectionState.FAILED
        results = await outcomes(*(hub.call_tool("mcp__sick__echo", {"nonce": f"n{n}"}) for n in range(5)))
        assert [result.text for result in results] == ["n0", "n1", "n2", "n3", "n4"]
        assert faulty.record.lives == 2


async def test_a_call_to_one_that_cannot_start_gets_its_start_error(tmp_path: Path) -> None:
    async with Hub({"gone": tc.StdioServer(str(tmp_path / "nothing"))}, reconnect=SLOW) as hub:
        first, second = await outcomes(hub.call_tool("mcp__gone__t"), hub.call_tool("mcp__gone__t"))
        assert isinstance(first, tc.StartError) and isinstance(second, tc.StartError)
        assert first is not second
        assert first.server == "gone"


async def test_raise_fails_the_start_and_leaves_nothing(tmp_path: Path) -> None:
    faulty, sick = bad(tmp_path, "well"), bad(tmp_path, "sick")
    hub = Hub({"well": faulty.server(), "sick": sick.server(exit={"code": 4})}, on_error="raise")
    with pytest.raises(tc.StartError) as failed:
        async with hub:
            raise AssertionError("never entered")
    assert failed.value.exit_code == 4 and failed.value.server == "sick"
    assert faulty.living() == []
    with pytest.raises(tc.UsageError, match="closed"):
        await hub.list_tools()


async def test_raise_does_not_wait_for_others_once_one_has_failed(tmp_path: Path) -> None:
    hub = Hub({"hangs": played(initialize=SILENCE), "gone": tc.StdioServer(str(tmp_path / "no"))}, on_error="raise")
    async with asyncio.timeout(10):
        with pytest.raises(tc.StartError):
            await hub.start()


async def test_lazy_servers_start_when_they_are_called(tmp_path: Path) -> None:
    one, two = bad(tmp_path, "one"), bad(tmp_path, "two")
    async with Hub({"one": one.server(), "two": two.server()}, start="lazy") as hub:
        assert (one.record.lives, two.record.lives) == (0, 0)
        assert state(hub, "one").status == state(hub, "one").status
        assert str(state(hub, "one").status) == "disconnected (not started yet)"
        assert (await hub.call_tool("mcp__two__echo", {"nonce": "n"})).text == "n"
        assert (one.record.lives, two.record.lives) == (0, 1)


async def test_lazy_servers_start_for_a_list_once_for_all_callers(tmp_path: Path) -> None:
    one = bad(tmp_path, "one")
    async with Hub({"one": one.server(), "math": (math_server(), {"start": "eager"})}, start="lazy") as hub:
        assert state(hub, "math").connected
        lists = await asyncio.gather(*(hub.list_tools() for _ in range(5)))
        assert all("mcp__one__echo" in names(tools) for tools in lists)
        assert one.record.lives == 1


async def test_prompts_and_resources_start_a_lazy_server_too() -> None:
    async with Hub({"math": math_server()}, start="lazy") as hub:
        assert (await hub.read_resource("math", "config://app")).text == '{"of": "math"}'
    async with Hub({"math": math_server()}, start="lazy") as hub:
        assert (await hub.get_prompt("mcp__math__explain", {"topic": "x"})).text == "Explain x"


# ---- coming and going ----------------------------------------------------------------------------------------


async def test_a_server_can_be_added_and_removed_at_any_time(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "db")
    async with Hub({"math": math_server()}) as hub:
        added = await hub.add_server("db", faulty.server())
        assert (added.name, added.status.state) == ("db", ConnectionState.CONNECTED)
        assert (await hub.call_tool("mcp__db__echo", {"nonce": "n"})).text == "n"
        heard: list[str] = []
        hub.on(tc.events.ToolsChanged, lambda event: heard.append(event.server))
        await hub.remove_server("db")
        assert heard == ["db"]
        assert faulty.living() == []
        assert [each.name for each in hub.list_servers()] == ["math"]
        with pytest.raises(tc.ToolNotFound):
            await hub.call_tool("mcp__db__echo")


async def test_a_server_that_cannot_be_connected_is_not_added(tmp_path: Path) -> None:
    async with Hub({}) as hub:
        with pytest.raises(tc.StartError):
            await hub.add_server("no", tc.StdioServer(str(tmp_path / "nothing")))
        assert hub.list_servers() == []
        added = await hub.add_server("no", tc.StdioServer(str(tmp_path / "nothing")), start="lazy")
        assert added.status.state is ConnectionState.DISCONNECTED
        with pytest.raises(tc.StartError):
            await hub.call_tool("mcp__no__t")


async def test_cancelling_the_addition_of_a_server_leaves_none_behind() -> None:
    async with Hub({}) as hub:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await hub.add_server("hangs", played(initialize=SILENCE))
        assert hub.list_servers() == []


async def test_a_removed_server_can_be_added_again() -> None:
    async with Hub({"math": math_server()}) as hub:
        await hub.remove_server("math")
        await hub.add_server("math", echo_server())
        assert names(await hub.list_tools()) == ["mcp__math__echo"]


async def test_options_can_be_given_for_one_server_or_for_all() -> None:
    server = played("t", tools__call=SILENCE)
    async with Hub({"a": (server, {"execution_timeout": 0.05}), "b": server}, execution_timeout=0.1) as hub:
        for name in ("a", "b"):
            with pytest.raises(tc.UnansweredTimeout):
                await hub.call_tool(f"mcp__{name}__t")
        await hub.add_server("c", server, execution_timeout=0.05)
        with pytest.raises(tc.UnansweredTimeout):
            await hub.call_tool("mcp__c__t")


# ---- the end -------------------------------------------------------------------------------------------------


async def test_a_hub_can_be_closed_while_it_starts() -> None:
    hub = Hub({"hangs": played(initialize=SILENCE), "math": math_server()})
    starting = asyncio.create_task(hub.start())
    calling = asyncio.create_task(hub.call_tool("mcp__hangs__t"))
    adding = asyncio.create_task(hub.add_server("more", played(initialize=SILENCE)))
    listing = asyncio.create_task(hub.list_tools())
    await eventually(lambda: state(hub, "math").connected)
    async with asyncio.timeout(10):
        await hub.close()
        start, call, add, listed = await outcomes(starting, calling, adding, listing)
    assert isinstance(start, tc.ConnectionLost) and isinstance(listed, tc.ConnectionLost)
    assert isinstance(call, tc.ConnectionLost) and not call.sent
    assert isinstance(add, tc.ConnectionLost)


async def test_a_cancelled_entry_leaves_nothing_behind(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "slow")
    hub = Hub({"slow": faulty.server(silent=["initialize", "server/discover"])})

    async def enter() -> None:
        async with hub:
            raise AssertionError("never entered")

    entering = asyncio.create_task(enter())
    await eventually(lambda: faulty.record.lives)
    entering.cancel()
    assert isinstance((await outcomes(entering))[0], asyncio.CancelledError)
    assert faulty.living() == []


async def test_closing_twice_and_at_once_is_one_closing() -> None:
    hub = await Hub({"math": math_server()}).start()
    await asyncio.gather(hub.close(), hub.close())
    await hub.close()
    for use in (hub.list_tools, hub.start, lambda: hub.call_tool("mcp__math__add"), lambda: hub.remove_server("math")):
        with pytest.raises(tc.UsageError, match="closed"):
            await use()  # type: ignore[operator]
    assert state(hub, "math").status.state is ConnectionState.DISCONNECTED


async def test_a_closing_whose_caller_is_cancelled_is_done_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient(monkeypatch)
    faulty = bad(tmp_path, "stubborn")
    hub = await Hub({"stubborn": faulty.server(stubborn=True)}).start()
    closing = asyncio.create_task(hub.close())
    await eventually(lambda: hub.list_servers()[0].status.state is ConnectionState.DISCONNECTED)
    closing.cancel()
    assert isinstance((await outcomes(closing))[0], asyncio.CancelledError)
    await eventually(lambda: faulty.living() == [])


async def test_servers_are_closed_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient(monkeypatch)
    faulty_servers = [bad(tmp_path, f"s{n}") for n in range(6)]
    async with Hub({f"s{n}": faulty.server(stubborn=True) for n, faulty in enumerate(faulty_servers)}):
        began = time.monotonic()
    took = time.monotonic() - began
    assert [faulty.living() for faulty in faulty_servers] == [[]] * 6
    assert took < 2.0, "six times the grace of one would be 2.4 s at least"


async def test_a_hub_belongs_to_its_event_loop() -> None:
    hub = await Hub({"math": math_server()}).start()

    def elsewhere() -> list[BaseException]:
        async def use() -> list[BaseException]:
            return [out for out in await outcomes(hub.list_tools(), hub.close()) if isinstance(out, BaseException)]

        return asyncio.run(use())

    errors = await asyncio.to_thread(elsewhere)
    assert [type(error) for error in errors] == [tc.UsageError, tc.UsageError]
    await hub.close()


def test_wrong_options_are_config_errors_that_name_the_option() -> None:
    with pytest.raises(tc.ConfigError, match="did you mean 'execution_timeout'"):
        Hub({}, execution_timout=1)
    with pytest.raises(tc.ConfigError, match="did you mean 'lifecycle'") as wrong:
        Hub({"a": (echo_server(), {"lifecicle": "transient"})})
    assert wrong.value.server == "a"
    for options in ({"on_error": "ignore"}, {"start": "soon"}, {"lifecycle": "eternal"}, {"approve": 1}):
        with pytest.raises(tc.ConfigError) as wrong:
            Hub({}, **options)
        assert wrong.value.key == next(iter(options))
    for value in ({"mcpServers": {}}, "stdio", 5, (echo_server(), {}, {})):
        with pytest.raises(tc.ConfigError) as wrong:
            Hub({"a": value})
        assert wrong.value.server == "a"
    with pytest.raises(tc.ConfigError, match="from_config"):
        Hub("servers.json")  # type: ignore[arg-type]
    with pytest.raises(tc.ConfigError):
        Hub({"": echo_server()})
