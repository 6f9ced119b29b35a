"""Starting many servers: how many at a time, and how long each may take."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import pytest

import toolcrib as tc
from tests.hub.kit import FAST, Hub, math_server, outcomes, state
from tests.unit.kit import eventually
from toolcrib.hub import start_queue
from toolcrib.hub.start_queue import DEFAULT_LIMIT, StartQueue
from toolcrib.types import ConnectionState

CHILD = str(Path(__file__).with_name("slow_child.py"))
WAITING = "waiting for its turn to start"


class Starts:
    """Slow servers that share one log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "starts.log"
        self._log.touch()

    def server(self, name: str, until: float | None = None) -> tc.StdioServer:
        """Return a server that is ready after the given seconds, or once it is released."""
        condition = str(self._folder / f"go-{name}") if until is None else str(until)
        return tc.StdioServer(sys.executable, ["-S", "-E", CHILD, str(self._log), name, condition])

    def release(self, *names: str) -> None:
        for name in names:
            (self._folder / f"go-{name}").touch()

    def hold(self, *names: str) -> None:
        """Undo `release` for the next process of each."""
        for name in names:
            (self._folder / f"go-{name}").unlink()

    def noted(self, what: str) -> list[str]:
        """The servers of which this was noted, in their order."""
        pairs = (line.split() for line in self._log.read_text().splitlines())
        return [name for kind, name in pairs if kind == what]

    def most_at_a_time(self) -> int:
        """How many servers had been started and were not ready, at the worst moment."""
        starting = most = 0
        for line in self._log.read_text().splitlines():
            starting += 1 if line.startswith("start") else -1
            most = max(most, starting)
        return most


@pytest.fixture
def starts(tmp_path: Path) -> Starts:
    return Starts(tmp_path)


# ---- the limit -----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_limited_number_of_servers_start_at_a_time_and_none_fails_because_it_waited(starts: Starts) -> None:
    """All starts together take longer than one server's connect_timeout."""
    names = [f"s{n}" for n in range(8)]
    servers = {name: starts.server(name, until=0.7) for name in names}
    async with Hub(
        servers, max_parallel_starts=2, connect_timeout=2.5, start_timeout=None, on_error="raise", mode="legacy"
    ) as hub:
        assert starts.most_at_a_time() == 2
        assert sorted(starts.noted("ready")) == names
        assert {each.status.state for each in hub.list_servers()} == {ConnectionState.CONNECTED}
        assert all((each.startup_seconds or 9.9) < 2.5 for each in hub.list_servers())


async def test_a_server_that_waits_says_so(starts: Starts, caplog: pytest.LogCaptureFixture) -> None:
    servers = {name: starts.server(name) for name in ("a", "b", "c")}
    hub = Hub(servers, max_parallel_starts=1, start_timeout=0.01)
    with caplog.at_level(logging.WARNING, "toolcrib.hub"):
        await hub.start()
    await eventually(lambda: starts.noted("start"))
    first, second, third = (each.status for each in hub.list_servers())
    assert (first.state, first.reason) == (ConnectionState.CONNECTING, "")
    assert (second.state, second.reason) == (third.state, third.reason) == (ConnectionState.CONNECTING, WAITING)
    assert "still starting: a; waiting for a turn to start (max_parallel_starts=1): b, c" in caplog.text
    assert hub.explain("mcp__b__who") == f"b has not listed its tools yet; its status is connecting ({WAITING})"
    starts.release("a", "b", "c")
    await eventually(lambda: all(each.connected for each in hub.list_servers()))
    assert starts.noted("start") == ["a", "b", "c"]
    await hub.close()


async def test_a_server_that_starts_no_process_does_not_wait(starts: Starts) -> None:
    servers = {"slow": starts.server("slow"), "math": math_server()}
    async with Hub(servers, max_parallel_starts=1, start_timeout=0.01) as hub:
        assert (await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})).data == 3
        assert not state(hub, "slow").connected


async def test_without_a_limit_all_start_at_once(starts: Starts) -> None:
    names = [f"s{n}" for n in range(DEFAULT_LIMIT + 2)]
    async with Hub({name: starts.server(name) for name in names}, max_parallel_starts=None, start_timeout=0.01) as hub:
        await eventually(lambda: len(starts.noted("start")) == len(names))
        assert WAITING not in {each.status.reason for each in hub.list_servers()}


async def test_the_default_is_three_starts_for_each_core(starts: Starts) -> None:
    assert 3 * (os.cpu_count() or 1) == DEFAULT_LIMIT
    names = [f"s{n}" for n in range(DEFAULT_LIMIT + 2)]
    async with Hub({name: starts.server(name) for name in names}, start_timeout=0.01) as hub:
        await eventually(lambda: [each.status.reason for each in hub.list_servers()].count(WAITING) == 2)
        await eventually(lambda: len(starts.noted("start")) == DEFAULT_LIMIT)


async def test_the_limit_can_be_given_in_a_settings_file(starts: Starts, tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.toml"
    entries = "".join(
        f"[servers.{name}]\ncommand = '{server.command}'\nargs = {list(server.args)!r}\n"
        for name, server in ((name, starts.server(name)) for name in ("a", "b"))
    )
    file.write_text(f"[hub]\nmax_parallel_starts = 1\nstart_timeout = 0.01\n{entries}")
    async with Hub.from_config(file) as hub:
        await eventually(lambda: starts.noted("start") == ["a"])
        assert state(hub, "b").status.reason == WAITING
    file.write_text(f"[hub]\nmax_parallel_starts = 'none'\nstart_timeout = 0.01\n{entries}")
    async with Hub.from_config(file):
        await eventually(lambda: sorted(starts.noted("start")) == ["a", "a", "b"])


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "2"])
def test_a_limit_that_is_not_a_positive_whole_number_is_refused(limit: object) -> None:
    with pytest.raises(tc.ConfigError, match="max_parallel_starts: expected a whole number"):
        Hub({}, max_parallel_starts=limit)  # type: ignore[arg-type]


# ---- callers that need a server which waits ------------------------------------------------------------------


async def test_a_call_that_waits_for_a_turn_ends_at_its_own_deadline(starts: Starts) -> None:
    async with Hub(
        {name: starts.server(name) for name in ("a", "b")}, max_parallel_starts=1, start_timeout=0.01
    ) as hub:
        for call in (hub.call_tool("mcp__b__who", timeout=0.1), hub.read_resource("b", "x://y", timeout=0.1)):
            with pytest.raises(tc.CallTimeout) as caught:
                await call
            assert (caught.value.server, caught.value.sent) == ("b", False)
            assert f"{WAITING} (max_parallel_starts=1)" in caught.value.message
        assert starts.noted("start") == ["a"]


@pytest.mark.parametrize("how", ["a call", "a resource", "a refresh"])
async def test_a_server_that_a_caller_needs_is_started_before_the_others(starts: Starts, how: str) -> None:
    names = ["a", "b", "c", "d"]
    async with Hub({name: starts.server(name) for name in names}, max_parallel_starts=1, start_timeout=0) as hub:
        await eventually(lambda: starts.noted("start") == ["a"])
        wanted = asyncio.ensure_future(
            {
                "a call": lambda: hub.call_tool("mcp__d__who", timeout=30),
                "a resource": lambda: hub.read_resource("d", "x://y", timeout=30),
                "a refresh": lambda: hub.refresh("d"),
            }[how]()
        )
        await asyncio.sleep(0)
        starts.release(*names)
        await wanted
        await eventually(lambda: len(starts.noted("ready")) == len(names))
        assert starts.noted("start") == ["a", "d", "b", "c"]


async def test_the_server_whose_tools_are_listed_first_is_started_before_the_others(starts: Starts) -> None:
    names = ["a", "b", "c", "d"]
    hub = Hub({name: starts.server(name, until=0) for name in names}, max_parallel_starts=1)
    assert [tool.name for tool in await hub.list_tools(server="d")] == ["mcp__d__who"]
    await eventually(lambda: len(starts.noted("ready")) == len(names))
    assert starts.noted("start") == ["a", "d", "b", "c"]
    await hub.close()


async def test_a_server_that_is_added_starts_before_those_that_wait(starts: Starts) -> None:
    async with Hub(
        {name: starts.server(name) for name in ("a", "b", "c")}, max_parallel_starts=1, start_timeout=0.01
    ) as hub:
        adding = asyncio.ensure_future(hub.add_server("late", starts.server("late")))
        await eventually(lambda: len(hub.list_servers()) == 4)
        await eventually(lambda: state(hub, "late").status.reason == WAITING)
        starts.release("a", "b", "c", "late")
        assert (await adding).connected
        assert starts.noted("start")[:2] == ["a", "late"]


async def test_a_server_that_is_removed_while_it_waits_is_never_started(starts: Starts) -> None:
    async with Hub(
        {name: starts.server(name) for name in ("a", "b", "c")}, max_parallel_starts=1, start_timeout=0.01
    ) as hub:
        await eventually(lambda: starts.noted("start"))
        calling = asyncio.ensure_future(hub.call_tool("mcp__b__who"))
        await asyncio.sleep(0)  # the call begins to wait
        await hub.remove_server("b")
        with pytest.raises(tc.ConnectionLost, match="removed"):
            await calling
        starts.release("a", "c")
        await eventually(lambda: state(hub, "c").connected)
        assert starts.noted("start") == ["a", "c"]


async def test_servers_that_fail_make_room_for_the_next_and_wait_for_a_turn_to_try_again(starts: Starts) -> None:
    servers: dict[str, tc.StdioServer] = {f"bad{n}": tc.StdioServer("no-such-program") for n in range(3)}
    async with Hub({**servers, "good": starts.server("good", until=0)}, max_parallel_starts=1, reconnect=FAST) as hub:
        assert state(hub, "good").connected
        results = await outcomes(*(hub.call_tool(f"mcp__bad{n}__x") for n in range(3)))
        assert [type(each) for each in results] == [tc.StartError] * 3


async def test_servers_that_were_lost_reconnect_in_turns_and_one_that_a_call_needs_goes_first(starts: Starts) -> None:
    names = ["a", "b", "c", "d"]
    starts.release(*names)
    servers = {name: starts.server(name) for name in names}
    async with Hub(servers, max_parallel_starts=1, start_timeout=None, reconnect=FAST, max_attempts=1) as hub:
        starts.hold(*names)
        for name in names:
            with pytest.raises(tc.ToolcribError):
                await hub.read_resource(name, "x://die")
            await eventually(lambda: starts.noted("start")[4:] == ["a"])
        await eventually(lambda: [state(hub, name).status.reason for name in names[1:]] == [WAITING] * 3)
        calling = asyncio.ensure_future(hub.call_tool("mcp__d__who", timeout=30))
        await asyncio.sleep(0)
        starts.release(*names)
        assert (await calling).text == "d"
        await eventually(lambda: all(each.connected for each in hub.list_servers()))
        assert starts.noted("start")[4:] == ["a", "d", "b", "c"]
        assert starts.most_at_a_time() == 1


async def test_a_start_that_hangs_does_not_keep_the_others_waiting(
    starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_queue, "MAX_SLOT_SECONDS", 0.05)
    servers = {"hangs": starts.server("hangs"), "good": starts.server("good", until=0)}
    async with Hub(servers, max_parallel_starts=1, start_timeout=0) as hub:
        await eventually(lambda: state(hub, "good").connected)
        assert not state(hub, "hangs").connected


# ---- the queue -----------------------------------------------------------------------------------------------


async def test_a_slot_that_was_granted_to_a_cancelled_waiter_goes_to_the_next() -> None:
    queue, order = StartQueue(1), list[str]()
    end = asyncio.Event()

    async def hold(name: str) -> None:
        async with queue.slot(name):
            order.append(name)
            await end.wait()

    tasks = [asyncio.ensure_future(hold(name)) for name in ("a", "b", "c", "d")]
    await asyncio.sleep(0)
    tasks[2].cancel()  # while it waits
    tasks[0].cancel()  # its slot is granted to b ...
    await asyncio.sleep(0)
    tasks[1].cancel()  # ... which is cancelled before it runs
    await asyncio.wait(tasks[:3])
    await eventually(lambda: order == ["a", "d"])
    end.set()
    await tasks[3]
    async with asyncio.timeout(1), queue.slot("e"):
        assert not queue.is_waiting("e")


# ---- commands that may download ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "of_hub, of_server, expected",
    [({}, {}, 120.0), ({"connect_timeout": 7.0}, {}, 7.0), ({"connect_timeout": 7.0}, {"connect_timeout": 3.0}, 3.0)],
)
async def test_a_server_that_may_have_to_be_downloaded_gets_more_time_in_a_hub_too(
    of_hub: dict[str, float], of_server: dict[str, float], expected: float
) -> None:
    hub = Hub({"npx": (tc.StdioServer("npx", ["-y", "some-server"]), of_server)}, start="lazy", **of_hub)
    clients = hub._servers.by_name["npx"].clients
    assert clients is not None
    assert clients.client._settings.connect_timeout == expected
    await hub.close()


# ---- an incomplete hub ---------------------------------------------------------------------------------------


async def test_ready_waits_for_every_server_and_returns_states_of_failed_ones(starts: Starts) -> None:
    servers = {"slow": starts.server("slow"), "typo": tc.StdioServer("no-such-program"), "math": math_server()}
    async with Hub({**servers, "lazy": (starts.server("lazy"), {"start": "lazy"})}, start_timeout=0.01) as hub:
        early = await hub.ready(timeout=0.05)
        assert {each.name: each.status.state for each in early}["slow"] == ConnectionState.CONNECTING
        waiting = asyncio.create_task(hub.ready())
        await eventually(lambda: starts.noted("start"))
        assert not waiting.done()
        starts.release("slow")
        states = {each.name: each for each in await asyncio.wait_for(waiting, 30)}
        assert {name: str(each.status.state) for name, each in states.items()} == {
            "slow": "connected",
            "typo": "failed",
            "math": "connected",
            "lazy": "disconnected",
        }
        assert isinstance(states["typo"].last_error, tc.StartError)
        assert "mcp__slow__who" in [tool.name for tool in await hub.list_tools(server="slow")]
        assert starts.noted("start") == ["slow"]


async def test_ready_starts_the_hub_and_waits_for_servers_that_are_added_meanwhile(starts: Starts) -> None:
    hub = Hub({"a": starts.server("a")})
    waiting = asyncio.create_task(hub.ready())
    await eventually(lambda: starts.noted("start"))
    adding = asyncio.create_task(hub.add_server("b", starts.server("b")))
    await eventually(lambda: starts.noted("start") == ["a", "b"])
    starts.release("a")
    await eventually(lambda: state(hub, "a").connected)
    assert not waiting.done()
    starts.release("b")
    assert [each.connected for each in await asyncio.wait_for(waiting, 30)] == [True, True]
    await adding
    await hub.close()


async def test_ready_ends_when_the_hub_is_closed(starts: Starts) -> None:
    hub = Hub({"a": starts.server("a")})
    waiting = asyncio.create_task(hub.ready())
    await eventually(lambda: starts.noted("start"))
    await hub.close()
    with pytest.raises(tc.ConnectionLost, match="the hub was closed"):
        await waiting
    with pytest.raises(tc.UsageError, match="closed"):
        await hub.ready()


async def test_the_timeout_of_ready_is_checked() -> None:
    async with Hub({"math": math_server()}) as hub:
        with pytest.raises(tc.ConfigError, match="timeout"):
            await hub.ready(timeout=-1)


async def test_one_warning_names_the_servers_that_are_missing(starts: Starts, caplog: pytest.LogCaptureFixture) -> None:
    servers = {
        "slow": starts.server("slow"),
        "typo": tc.StdioServer("no-such-program"),
        "math": math_server(),
    }
    with caplog.at_level(logging.WARNING, "toolcrib.hub"):
        async with Hub(servers, start_timeout=0.5) as hub:
            await hub.list_tools()
            assert repr(hub) == "<Hub servers=3 tools=2 starting=1 failed=1>"
            starts.release("slow")
            await hub.ready()
            assert repr(hub) == "<Hub servers=3 tools=3 failed=1>"
    summaries = [line for line in caplog.messages if "goes on without" in line]
    expected = (
        "the hub goes on without some servers (still starting: slow; failed: typo); "
        "hub.ready() waits for those that are starting, hub.list_servers() shows the reasons"
    )
    assert summaries == [expected]


async def test_a_complete_hub_logs_no_warning(starts: Starts, caplog: pytest.LogCaptureFixture) -> None:
    starts.release("a")
    with caplog.at_level(logging.WARNING, "toolcrib"):
        servers = {"a": starts.server("a"), "lazy": (starts.server("lazy"), {"start": "lazy"})}
        async with Hub(servers, start_timeout=None) as hub:
            assert repr(hub) == "<Hub servers=2 tools=1>"
    assert caplog.messages == []
