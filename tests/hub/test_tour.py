"""The tour of many servers, line by line, by the names of the package: three real servers, of each kind one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import FaultyServer, bad, echo_server, math_server
from tests.serving import served
from tests.unit.kit import eventually

FILESYSTEM = str(Path(__file__).parents[1] / "contracts" / "filesystem_server.py")
GITHUB = ("create_issue", "create_pull_request", "delete_repo", "list_issues")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that the file server serves."""
    place = tmp_path / "data"
    place.mkdir()
    (place / "a.txt").write_text("text of a")
    (place / "b.bin").write_bytes(b"\x00\xff")
    return place


@contextlib.asynccontextmanager
async def tour(folder: Path, **options: Any) -> AsyncIterator[tc.Hub]:
    """The hub of the tour."""
    async with served(echo_server(*GITHUB, name="github").asgi()) as url:
        hub = tc.Hub(
            {
                "fs": tc.StdioServer(sys.executable, [FILESYSTEM, str(folder)]),
                "github": tc.HttpServer(f"{url}/mcp", headers={"Authorization": "Bearer x"}),
                "math": math_server(),
            },
            **options,
        )
        async with hub:
            yield hub


async def test_the_hub_with_its_permissions(folder: Path) -> None:
    asked: list[tc.ToolCall] = []

    async def ask_a_person(call: tc.ToolCall) -> bool:
        asked.append(call)
        return call.tool == "create_issue"

    async with tour(
        folder,
        allowed_tools=["mcp__fs__read_*", "mcp__github__*", "mcp__math__*"],
        disallowed_tools=["mcp__github__delete_*"],
        require_approval={"mcp__github__create_*": "always"},
        approve=ask_a_person,
        on_error="skip",
    ) as hub:
        tools = {tool.name: tool for tool in await hub.list_tools()}
        add = tools["mcp__math__add"]
        assert (add.server, add.original_name) == ("math", "add")
        assert "mcp__github__delete_repo" not in tools
        assert (await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})).data == 3
        assert asked == []
        assert (await hub.call_tool("mcp__github__create_issue", {"title": "t"})).data == {"title": "t"}
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool("mcp__github__create_pull_request")
        assert [call.name for call in asked] == ["mcp__github__create_issue", "mcp__github__create_pull_request"]
        told = hub.explain("mcp__github__delete_repo")
        assert told == "denied by disallowed_tools: mcp__github__delete_*"


async def test_a_tool_outside_the_allowed_is_neither_listed_nor_callable_without_an_approver() -> None:
    servers = {"fs": echo_server("read_file", "write_file"), "math": math_server()}
    reading = ["mcp__fs__read_*"]
    async with tc.Hub(servers, allowed_tools=reading) as hub:
        assert [tool.name for tool in await hub.list_tools()] == ["mcp__fs__read_file"]
        with pytest.raises(tc.AccessDenied):
            await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})
    async with tc.Hub(servers, allowed_tools=reading, approve=lambda call: True) as hub:
        assert (await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})).data == 3
    async with tc.Hub(servers, allowed_tools=[]) as hub:
        assert await hub.list_tools() == []
    async with tc.Hub(servers, allowed_tools=None) as hub:
        assert len(await hub.list_tools()) == 4


async def test_the_servers_and_their_status(folder: Path, tmp_path: Path) -> None:
    faulty = bad(tmp_path, "db")
    async with tour(folder) as hub:
        assert [(s.name, str(s.status.state), s.last_error) for s in hub.list_servers()] == [
            (name, "connected", None) for name in ("fs", "github", "math")
        ]
        await hub.add_server("db", faulty.server())
        assert (await hub.call_tool("mcp__db__echo", {"nonce": "n"})).text == "n"
        await hub.remove_server("db")
        assert [s.name for s in hub.list_servers()] == ["fs", "github", "math"]
        assert faulty.living() == []


async def test_a_view_is_what_dynamic_filters_see(folder: Path) -> None:
    only_admins = tc.dynamic_filter(lambda ctx, tool: ctx.agent["role"] == "admin")
    run = object()
    async with tour(folder, tool_filter=only_admins) as hub:
        scoped = hub.view(agent={"role": "admin"}, run_context=run)
        assert isinstance(scoped, tc.HubView)
        assert scoped.context == tc.FilterContext({"role": "admin"}, None, run)
        assert len(await scoped.list_tools()) == 8
        assert (await scoped.call_tool("mcp__math__add", {"a": 1, "b": 2})).data == 3
        assert await hub.view(agent={"role": "guest"}).list_tools() == []
    async with tour(folder, tool_filter=tc.static_filter(allowed=["mcp__math__add"], blocked=["b"])) as hub:
        assert [tool.name for tool in await hub.list_tools()] == ["mcp__math__add"]


def config(path: Path, **faulty_servers: FaultyServer) -> Path:
    entries = {name: faulty.command() for name, faulty in faulty_servers.items()}
    servers = {name: {"command": command, "args": rest} for name, (command, *rest) in entries.items()}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"mcpServers": servers}))
    return draft.replace(path)


async def test_a_hub_from_the_file_of_the_current_folder_reloads_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = bad(tmp_path, "one"), bad(tmp_path, "two")
    monkeypatch.chdir(tmp_path)
    config(tmp_path / ".mcp.json", one=one)
    async with tc.Hub.from_config(".mcp.json", watch=True) as hub:
        config(tmp_path / ".mcp.json", one=one, two=two)
        await eventually(lambda: [s.name for s in hub.list_servers() if s.tools] == ["one", "two"], within=20)
        assert one.record.lives == 1


async def test_deferred_tools_are_found_by_a_search() -> None:
    events = echo_server("search_events", "drop_table", "create_issue", name="db")
    async with tc.Hub({"db": events}) as hub:
        hub.toolsets.register(tc.Toolset("db").defer_all().keep_loaded("search_events"))
        assert [tool.name for tool in await hub.list_tools()] == ["mcp__db__search_events"]
        assert len(await hub.list_tools(deferred=True)) == 3
        found = await hub.search_tools("create an issue", limit=5, token_budget=2000)
        assert found[0].name == "mcp__db__create_issue"
        assert await hub.search_tools("create an issue", token_budget=1) == []


async def test_resources_and_queries(folder: Path) -> None:
    async with tour(folder) as hub:
        uri = (folder / "a.txt").as_uri()
        assert {(r.server, r.name) for r in await hub.resources.list_all()} == {
            ("fs", "a.txt"), ("fs", "b.bin"), ("math", "config"),
        }  # fmt: skip
        assert [r.name for r in await hub.resources.list_from_server("fs")] == ["a.txt", "b.bin"]
        assert await hub.resources.read_text("fs", uri) == "text of a"
        with pytest.raises(tc.BinaryResource):
            await hub.resources.read_text("fs", (folder / "b.bin").as_uri())
        assert await hub.resources.read_bytes("fs", (folder / "b.bin").as_uri()) == b"\x00\xff"
        assert [r.name for r in await hub.resources.find_by_pattern("file://*")] == ["a.txt", "b.bin"]
        query = tc.ResourceQuery().server("fs").pattern("file://*").mime_type("text/plain")
        assert [r.uri for r in await query.execute(hub.resources)] == [uri]


async def test_interceptors_and_events(folder: Path, tmp_path: Path) -> None:
    faulty = bad(tmp_path, "db")
    log: list[Any] = []
    async with tour(folder) as hub:

        @hub.intercept
        async def audit(call: tc.ToolCall, proceed: Any) -> tc.ToolResult:
            result: tc.ToolResult = await proceed(call)
            log.append((call.server, call.tool, result.elapsed > 0, result.is_error))
            return result

        @hub.intercept("mcp__fs__*")
        async def files_only(call: tc.ToolCall, proceed: Any) -> tc.ToolResult:
            log.append("files")
            return await proceed(call)  # type: ignore[no-any-return]

        await hub.call_tool("mcp__math__add", {"a": 1, "b": 2})
        await hub.call_tool("mcp__fs__read_file", {"path": str(folder / "a.txt")})
        assert log == [("math", "add", True, False), "files", ("fs", "read_file", True, False)]
        gone: list[tuple[str, str]] = []
        stop = hub.on(tc.events.Disconnected, lambda e: gone.append((e.server, e.reason)))
        await hub.add_server("db", faulty.server())
        faulty.kill()
        await eventually(lambda: gone)
        assert gone == [("db", "the server's process was killed by signal 9")]
        stop()
        count = len(gone)
        await hub.remove_server("db")
        assert len(gone) == count


async def test_a_client_has_on_too() -> None:
    made = asyncio.Event()
    async with tc.Client(math_server()) as client:
        stop = client.on(tc.events.ToolExecutionCompleted, lambda e: made.set())
        await client.call_tool("add", {"a": 1, "b": 2})
        async with asyncio.timeout(10):
            await made.wait()
        stop()
