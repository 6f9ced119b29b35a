"""Invalid input of a hub: typed errors with cause, place and fix; nothing else is affected."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.kit import FaultyServer
from toolcrib.settings import load_settings, merge

Ask = Callable[[tc.Hub], Awaitable[Any]]


def plain_server() -> tc.ToolServer:
    server = tc.ToolServer("files")
    server.add_tool(lambda: "x", name="read")
    server.add_resource(lambda: "text", uri="note://one", name="one")
    return server


def entry(faulty: FaultyServer, **more: Any) -> dict[str, Any]:
    command, *arguments = faulty.command()
    return {"command": command, "args": arguments, **more}


# ---- names ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["files", "My Files", "My-Files"])
async def test_a_name_that_is_taken_is_refused_and_the_first_server_stays(name: str) -> None:
    async with tc.Hub({"files": plain_server(), "My Files": plain_server()}) as hub:
        with pytest.raises(tc.ConfigError, match="already") as refused:
            await hub.add_server(name, tc.ToolServer("other"))
        assert (refused.value.key, refused.value.server) == ("name", name)
        assert len(hub.list_servers()) == 2
        assert (await hub.call_tool("mcp__files__read")).text == "x"


async def test_a_name_that_is_twice_in_a_file_fails_alone_and_names_both_lines(faulty: FaultyServer) -> None:
    file = faulty.path(".mcp.json")
    good = json.dumps(entry(faulty))
    file.write_text('{"mcpServers": {\n"a": {"command": "x"},\n"good": ' + good + ',\n"a": {"command": "y"}}}')
    async with tc.Hub.from_config(file) as hub:
        states = {each.name: each for each in hub.list_servers()}
        assert states["good"].connected
        error = states["a"].last_error
        assert isinstance(error, tc.ConfigError)
        assert (error.file, error.line) == (str(file), 4) and "line 2" in str(error), str(error)
        with pytest.raises(tc.ConfigError, match="line 2"):
            await hub.call_tool("mcp__a__anything")


@pytest.mark.parametrize("names", [{"": None}, {5: None}, {" ": None}, {None: None}])
def test_what_cannot_be_a_name_is_refused(names: dict[Any, Any]) -> None:
    with pytest.raises(tc.ConfigError) as refused:
        tc.Hub(dict.fromkeys(names, plain_server()))
    assert refused.value.key == "servers"


# ---- servers that are not there ------------------------------------------------------------------------------

UNKNOWN: dict[str, Ask] = {
    "remove_server": lambda hub: hub.remove_server("filez"),
    "refresh": lambda hub: hub.refresh("filez"),
    "list_tools": lambda hub: hub.list_tools(server="filez"),
    "list_resources": lambda hub: hub.list_resources("filez"),
    "list_resource_templates": lambda hub: hub.list_resource_templates("filez"),
    "list_prompts": lambda hub: hub.list_prompts("filez"),
    "read_resource": lambda hub: hub.read_resource("filez", "note://one"),
    "complete": lambda hub: hub.complete("note://{x}", "x", server="filez"),
    "resources.list_from_server": lambda hub: hub.resources.list_from_server("filez"),
    "resources.read": lambda hub: hub.resources.read("filez", "note://one"),
    "resources.read_text": lambda hub: hub.resources.read_text("filez", "note://one"),
    "resources.read_bytes": lambda hub: hub.resources.read_bytes("filez", "note://one"),
    "a query": lambda hub: tc.ResourceQuery().server("filez").execute(hub.resources),
    "a view": lambda hub: hub.view().list_tools(server="filez"),
}


@pytest.mark.parametrize("ask", UNKNOWN.values(), ids=UNKNOWN)
async def test_an_unknown_server_is_named_with_the_nearest(ask: Ask) -> None:
    async with tc.Hub({"files": plain_server(), "math": tc.ToolServer("math")}) as hub:
        with pytest.raises(tc.ServerNotFound, match=r"^filez: .*did you mean 'files'") as missing:
            await ask(hub)
        assert (missing.value.server, missing.value.nearest, missing.value.sent) == ("filez", ("files",), False)


async def test_a_tool_of_an_unknown_server_is_not_found() -> None:
    async with tc.Hub({"files": plain_server()}) as hub:
        with pytest.raises(tc.ToolNotFound, match="mcp__filez__read") as missing:
            await hub.call_tool("mcp__filez__read")
        assert missing.value.nearest == ("mcp__files__read",)
        with pytest.raises(tc.ToolNotFound, match="qualified") as short:
            await hub.call_tool("read")
        assert short.value.nearest == ("mcp__files__read",)


# ---- files that disagree, variables that run in a circle -----------------------------------------------------


async def test_of_files_that_disagree_the_last_one_wins_and_the_overridden_file_is_reported(
    faulty: FaultyServer,
) -> None:
    general, own = faulty.path("general.json"), faulty.path("own.json")
    general.write_text(json.dumps({"mcpServers": {"a": {"command": "no-such-command-here"}}}))
    own.write_text(json.dumps({"mcpServers": {"a": entry(faulty)}}))
    async with tc.Hub.from_config([general, own]) as hub:
        assert (await hub.call_tool("mcp__a__echo", {"nonce": "n"})).text == "n"
    (record,) = load_settings(general, own).overridden
    assert (record.name, record.winner.source, record.loser.source) == ("a", own, general)


def test_files_that_disagree_can_be_refused_by_name(faulty: FaultyServer) -> None:
    one, two = faulty.path("one.json"), faulty.path("two.json")
    for path, command in ((one, "1"), (two, "2")):
        path.write_text(json.dumps({"mcpServers": {"a": {"command": command}}}))
    with pytest.raises(tc.ConfigError, match="define a differently") as refused:
        merge(load_settings(one), load_settings(two), on_conflict="raise")
    assert (refused.value.file, refused.value.server) == (str(two), "a") and str(one) in str(refused.value)


@pytest.mark.parametrize(
    "env, circle",
    [
        ({"A": "${A2}", "A2": "${A}"}, "A -> A2 -> A"),
        ({"A": "x${B}", "B": "${C:-${A}}", "C": "${A}"}, "A -> B -> "),
    ],
)
async def test_variables_that_run_in_a_circle_fail_their_server_and_name_the_circle(
    faulty: FaultyServer, env: dict[str, str], circle: str
) -> None:
    file = faulty.path(".mcp.json")
    servers = {"round": {"command": "x", "env": env}, "good": entry(faulty)}
    file.write_text(json.dumps({"mcpServers": servers}, indent=1))
    async with tc.Hub.from_config(file, environ={}) as hub:
        assert {tool.server for tool in await hub.list_tools()} == {"good"}
        bad, good = hub.list_servers()
        assert (bad.status.state, good.status.state) == (tc.ConnectionState.FAILED, tc.ConnectionState.CONNECTED)
        assert isinstance(bad.last_error, tc.ConfigError) and circle in str(bad.last_error)
        assert bad.last_error.file == str(file) and bad.last_error.line
        for ask in (hub.call_tool("mcp__round__x"), hub.read_resource("round", "a:b"), hub.refresh("round")):
            with pytest.raises(tc.ConfigError, match="circular reference"):
                await ask
        assert "circular" in hub.explain("mcp__round__x")
    with pytest.raises(tc.ConfigError, match="circular reference"):
        await tc.Hub.from_config(file, environ={}, on_error="raise").start()


# ---- calls that are written wrong ----------------------------------------------------------------------------

WRONG: dict[str, Ask] = {
    "a name that is not a string": lambda hub: hub.call_tool(None),  # type: ignore[arg-type]
    "arguments that are a list": lambda hub: hub.call_tool("mcp__files__read", [1]),  # type: ignore[arg-type]
    "a context that is a dict": lambda hub: hub.call_tool("mcp__files__read", context={"role": "admin"}),  # type: ignore[arg-type]
    "a server's name that is not a string": lambda hub: hub.remove_server(None),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("ask", WRONG.values(), ids=WRONG)
async def test_a_mistake_of_the_program_is_a_usage_error(ask: Ask) -> None:
    everybody = tc.dynamic_filter(lambda context, tool: True)
    async with tc.Hub({"files": plain_server()}, tool_filter=everybody) as hub:
        with pytest.raises(tc.UsageError):
            await ask(hub)
