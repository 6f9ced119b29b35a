"""The hub without an event loop: the same names, answers and errors as those of the async one."""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import run_python, until
from tests.hub.kit import DEMO, FAST, bad, echo_server, math_server, names, played
from toolcrib.hub import hub as aio
from toolcrib.hub import resources, view
from toolcrib.hub.resources import BinaryResource, ResourceQuery
from toolcrib.hub.toolsets import Toolset
from toolcrib.sync import Hub, HubView, Resources

BOUND = 20.0
PAIRS = [(Hub, aio.Hub), (HubView, view.HubView), (Resources, resources.Resources)]


def demo() -> tc.StdioServer:
    return tc.StdioServer(sys.executable, [DEMO])


# ---- the same face -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours, twin", PAIRS)
def test_every_public_name_of_the_async_twin_is_there(ours: type, twin: type) -> None:
    public = {name for name in dir(twin) if not name.startswith("_")}
    assert sorted(public - set(dir(ours))) == []
    for name in public:
        assert not inspect.iscoroutinefunction(getattr(ours, name))
        assert getattr(ours, name).__doc__, name


@pytest.mark.parametrize("name", ["call_tool", "list_tools", "read_resource", "get_prompt", "list_servers", "explain"])
def test_a_method_has_the_name_and_documentation_of_its_async_twin(name: str) -> None:
    ours, twin = getattr(Hub, name), getattr(aio.Hub, name)
    assert (ours.__doc__, ours.__name__, ours.__qualname__) == (twin.__doc__, name, f"Hub.{name}")


def test_the_tour_without_an_event_loop(tmp_path: Path) -> None:
    server = math_server()
    with Hub({"math": server, "demo": demo()}, disallowed_tools=["mcp__demo__fail"]) as hub:
        assert names(hub.list_tools(server="math")) == ["mcp__math__add", "mcp__math__fail"]
        assert hub.call_tool("mcp__math__add", {"a": 1, "b": 2}, timeout=10).data == 3
        assert hub.call_tool("mcp__demo__add", {"a": 1, "b": 2}).data == {"sum": 3}
        assert [(s.name, str(s.status), s.last_error) for s in hub.list_servers()] == [
            ("math", "connected", None),
            ("demo", "connected", None),
        ]
        assert hub.explain("mcp__demo__fail") == "denied by disallowed_tools: mcp__demo__fail"
        with pytest.raises(tc.AccessDenied):
            hub.call_tool("mcp__demo__fail")
        assert hub.add_server("more", echo_server("one")).name == "more"
        assert hub.call_tool("mcp__more__one", {"x": 1}).data == {"x": 1}
        hub.remove_server("more")
        with pytest.raises(tc.ServerNotFound):
            hub.remove_server("more")
        assert names(hub.search_tools("counts slowly", limit=1)) == ["mcp__demo__slow_count"]
        assert hub.alias("mcp__math__add") == "mcp__math__add"
        assert hub.start() is hub
        assert "Hub servers=2" in repr(hub)


def test_prompts_resources_templates_and_completions() -> None:
    server = math_server()

    @server.completion("explain", "topic")
    def topics(value: str) -> list[str]:
        return [value + "!"]

    with Hub({"math": server}) as hub:
        assert [prompt.name for prompt in hub.list_prompts()] == ["mcp__math__explain"]
        assert hub.get_prompt("mcp__math__explain", {"topic": "tea"}).text == "Explain tea"
        assert hub.complete("mcp__math__explain", "topic", "x").values == ("x!",)
        assert [template.uri_template for template in hub.list_resource_templates()] == ["note:///{name}"]
        assert [resource.uri for resource in hub.list_resources("math")] == ["config://app"]
        assert hub.read_resource("math", "note:///x").text == "note x"
        hub.refresh()


def test_resources_and_queries() -> None:
    server = math_server()

    @server.resource("blob://b", mime_type="application/octet-stream")
    def blob() -> bytes:
        return b"\x00"

    with Hub({"math": server, "demo": demo()}) as hub:
        assert len(hub.resources.list_all()) == 3
        assert [each.uri for each in hub.resources.list_from_server("demo")] == ["demo://status"]
        assert [each.uri for each in hub.resources.find_by_pattern("*://*")] == [
            "config://app",
            "blob://b",
            "demo://status",
        ]
        found = ResourceQuery().server("math").mime_type("application/json").execute(hub.resources)
        assert [each.uri for each in found] == ["config://app"]
        assert json.loads(hub.resources.read_text("demo", "demo://status"))["calls"] == 0
        assert hub.resources.read("math", "blob://b").data == hub.resources.read_bytes("math", "blob://b") == b"\x00"
        with pytest.raises(BinaryResource, match="read_bytes"):
            hub.resources.read_text("math", "blob://b")


def test_a_view_sees_what_its_agent_may_see_and_loads_for_itself() -> None:
    only_admins = tc.dynamic_filter(lambda context, tool: context.agent == "admin" or "write" not in tool.name)
    with Hub({"s": echo_server("read", "write", "rare")}, tool_filter=only_admins) as hub:
        hub.toolsets.register(Toolset("s").defer_all().keep_loaded("read", "write"))
        admin, guest = hub.view(agent="admin"), hub.view(agent="guest", run_context=7)
        assert names(admin.list_tools()) == ["mcp__s__read", "mcp__s__write"]
        assert names(guest.list_tools()) == ["mcp__s__read"]
        with pytest.raises(tc.AccessDenied):
            guest.call_tool("mcp__s__write")
        assert admin.call_tool("mcp__s__write", {"x": 1}).data == {"x": 1}
        assert "hidden by" in guest.explain("mcp__s__write")
        assert names(guest.search_tools("rare", load=True)) == ["mcp__s__rare"]
        assert list(guest.loaded) == ["mcp__s__rare"] and not admin.loaded
        guest.unload_tools()
        assert names(guest.load_tools("mcp__s__rare")) == ["mcp__s__rare"]
        assert guest.context.run_context == 7
        assert guest.resources.list_all() == guest.list_resources() == []
        assert "View of" in repr(guest)
        meta = hub.view(meta_tools=True)
        assert meta.call_tool("search_tools", {"query": "rare"}).data["tools"][0]["name"] == "mcp__s__rare"


def test_a_hub_from_a_settings_file(tmp_path: Path) -> None:
    settings = tmp_path / ".mcp.json"
    entry = {"command": sys.executable, "args": [DEMO]}
    settings.write_text(json.dumps({"mcpServers": {"one": entry}}))
    with Hub.from_config(settings, disallowed_tools=["mcp__*__fail"]) as hub:
        assert hub.call_tool("mcp__one__echo", {"text": "x"}).text == "x"
        assert "mcp__one__fail" not in names(hub.list_tools())
        settings.write_text(json.dumps({"mcpServers": {"one": entry, "two": entry}}))
        assert hub.reload().added == ("two",)
        assert hub.call_tool("mcp__two__echo", {"text": "y"}).text == "y"


# ---- where it cannot be used ---------------------------------------------------------------------------------


USES: dict[str, Callable[[Any], Any]] = {
    "list": lambda hub: hub.list_tools(),
    "call": lambda hub: hub.call_tool("mcp__math__add"),
    "start": lambda hub: hub.start(),
    "add": lambda hub: hub.add_server("b", math_server()),
    "view": lambda hub: hub.view().list_tools(),
    "resources": lambda hub: hub.resources.list_all(),
    "query": lambda hub: ResourceQuery().execute(hub.resources),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("when", ["before", "after", "after a failed start"])
def test_outside_the_with_block_the_error_says_so(use: str, when: str) -> None:
    hub = Hub({"math": math_server()})
    if when == "after":
        with hub:
            pass
    elif when == "after a failed start":
        hub = Hub({"gone": tc.StdioServer("no-such-command-here")}, on_error="raise")
        with pytest.raises(tc.StartError), hub:
            pytest.fail("never entered")
    with pytest.raises(tc.UsageError, match="with Hub"):
        USES[use](hub)


def test_what_needs_no_server_works_outside_the_block_too() -> None:
    hub = Hub({"math": math_server(), "My server": echo_server()})
    heard: list[Any] = []
    stop = hub.on(tc.events.ConnectionCompleted, heard.append)
    assert [state.display_name for state in hub.list_servers()] == ["math", "My server"]
    assert "does not begin with the name of a server" in hub.explain("mcp__nothing__x")
    hub.toolsets.register(Toolset("math").defer_all())
    with hub:
        assert [tool.server for tool in hub.list_tools()] == [hub.list_servers()[1].name]
        until(lambda: len(heard) == 2)
        stop()
        hub.add_server("late", echo_server())
    assert len(heard) == 2
    assert len(hub.list_servers()) == 3


def test_on_the_portals_own_thread_the_error_says_so_instead_of_waiting_for_ever() -> None:
    seen: list[BaseException] = []
    states: list[Any] = []

    def listener(event: tc.events.ToolExecutionCompleted) -> None:
        states.extend(hub.list_servers())  # what waits for nothing is good there too
        try:
            hub.call_tool("mcp__s__one")
        except tc.UsageError as exc:
            seen.append(exc)

    with Hub({"s": played("one")}) as hub:
        hub.on(tc.events.ToolExecutionCompleted, listener)
        assert hub.call_tool("mcp__s__one").text == "one"
    assert "portal's thread" in str(seen[0])
    assert [state.name for state in states] == ["s"]


@pytest.mark.parametrize("travel", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_hub_does_not_travel(travel: Callable[[Any], Any]) -> None:
    with pytest.raises(tc.UsageError, match="pickle the configs"):
        travel(Hub({"math": math_server()}))


def test_wrong_options_raise_the_same_errors_as_in_the_async_hub() -> None:
    with pytest.raises(tc.ConfigError, match="execution_timeout"):
        Hub({}, execution_timout=3)
    with pytest.raises(tc.ConfigError, match="from_config"):
        Hub("a.json")  # type: ignore[arg-type]
    with pytest.raises(tc.ConfigError, match="approve"):
        Hub({}, approve=7)


# ---- threads, trouble, the end -------------------------------------------------------------------------------


def test_many_threads_share_one_hub_and_get_their_own_answers() -> None:
    with Hub({"s": echo_server(), "demo": demo()}) as hub, ThreadPoolExecutor(16) as pool:

        def work(thread: int) -> list[Any]:
            found = []
            for n in range(20):
                found.append(hub.call_tool("mcp__s__echo", {"n": f"{thread}-{n}"}).data["n"])
                found.append(hub.call_tool("mcp__demo__echo", {"text": f"{thread}-{n}"}).text)
                assert len(hub.list_servers()) >= 2
            return found

        for thread, found in enumerate(pool.map(work, range(16))):
            assert found == [f"{thread}-{n}" for n in range(20) for _ in range(2)]


def test_servers_come_and_go_while_other_threads_look() -> None:
    stop = threading.Event()

    def look() -> int:
        looks = 0
        while not stop.is_set():
            hub.list_servers()
            hub.list_tools()
            repr(hub)
            hub.explain("mcp__x1__echo")
            looks += 1
        return looks

    with Hub({"s": echo_server()}) as hub, ThreadPoolExecutor(4) as pool:
        looking = [pool.submit(look) for _ in range(4)]
        try:
            for n in range(20):
                hub.add_server(f"x{n}", echo_server())
                hub.remove_server(f"x{n}")
        finally:
            stop.set()
        assert all(each.result(BOUND) for each in looking)


def test_one_dead_server_affects_no_other(tmp_path: Path) -> None:
    faulty = bad(tmp_path, "well")
    servers = {"well": faulty.server(), "dead": tc.StdioServer(str(tmp_path / "nothing"))}
    with Hub(servers, reconnect=FAST) as hub:
        assert hub.call_tool("mcp__well__echo", {"nonce": "a"}).text == "a"
        with pytest.raises(tc.StartError):
            hub.call_tool("mcp__dead__echo")
        assert {state.name: state.connected for state in hub.list_servers()} == {"well": True, "dead": False}


async def test_a_loop_that_runs_elsewhere_does_not_matter() -> None:
    assert asyncio.get_running_loop().is_running()
    with Hub({"math": math_server()}) as hub:
        assert hub.call_tool("mcp__math__add", {"a": 1, "b": 2}).data == 3


FORGETS = """
import sys
import toolcrib as tc
from toolcrib.sync import Hub
server = tc.StdioServer(sys.executable, sys.argv[1:])
hub = Hub({"a": server, "b": server}).__enter__()
hub.intercept(lambda call, proceed: proceed(call))
print(hub.call_tool("mcp__b__echo", {"text": "x"}).text)
"""
FORKS = """
import os, sys, warnings
warnings.filterwarnings("ignore", "This process", DeprecationWarning)  # of a fork beside a thread
import toolcrib as tc
from toolcrib.sync import Hub
with Hub({"a": tc.StdioServer(sys.executable, sys.argv[1:])}) as hub:
    view = hub.view()
    child = os.fork()
    if child == 0:
        uses = {
            "call": lambda: hub.list_tools(),
            "list_servers": lambda: hub.list_servers(),
            "explain": lambda: view.explain("mcp__a__echo"),
            "on": lambda: hub.on(tc.events.Event, print),
            "intercept": lambda: hub.intercept(lambda call, proceed: proceed(call)),
            "enter": lambda: hub.__enter__(),
        }
        for name, use in uses.items():
            try:
                use()
            except tc.UsageError as exc:
                print(name, exc, flush=True)
        hub.close()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    print(hub.call_tool("mcp__a__echo", {"text": "alive"}).text)
"""


FORKED = [f"{use} this process was forked" for use in ("call", "list_servers", "explain", "on", "intercept", "enter")]


@pytest.mark.parametrize("program, words", [(FORGETS, ["x"]), (FORKS, [*FORKED, "alive"])])
def test_a_program_that_leaves_its_hub_open_or_forks_ends_well(program: str, words: list[str]) -> None:
    """That no process is left is looked at when all tests are over."""
    ran = run_python(program, DEMO)
    try:
        out, err = ran.communicate(timeout=60)
    finally:
        ran.kill()
        ran.wait()
    assert (ran.returncode, err) == (0, "")
    assert all(word in line for word, line in zip(words, out.splitlines(), strict=True))


def test_ready_waits_for_all_servers_without_an_event_loop() -> None:
    servers = {"demo": demo(), "typo": tc.StdioServer("no-such-program")}
    with Hub(servers, start_timeout=0) as hub:
        states = {each.name: each for each in hub.ready(timeout=BOUND)}
        assert states["demo"].connected
        assert isinstance(states["typo"].last_error, tc.StartError)
        assert repr(hub) == "<Hub servers=2 tools=5 failed=1>"
