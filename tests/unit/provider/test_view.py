"""Views of the provider. The table of a view's methods runs on a hub's view, too: both must behave the same."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import Hub, echo_server, math_server, names
from tests.unit.kit import eventually
from tests.unit.provider.kit import make_definition, make_snapshot_source, make_source_row, make_state_row
from toolcrib.hub.toolsets import Toolset
from toolcrib.hub.view import HubView
from toolcrib.provider.groups import Group, NameMode, Override
from toolcrib.provider.inventory import ToolState, definition_of, diff, diff_items
from toolcrib.provider.review import block
from toolcrib.provider.snapshot import Snapshot, Source
from toolcrib.provider.source_config import ReviewPolicy
from toolcrib.provider.store.rows import PromptRow, ResourceRow, TemplateRow
from toolcrib.provider.view import ProviderView, Views


class Sources:
    """The interface that views need, over clients of real servers in this process."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.snapshot = snapshot or Snapshot()
        self.clients: dict[str, tc.Client] = {}
        self.personal: dict[str, dict[str, Source]] = {}
        self.calls: list[tuple[str, str, Any, str, Any]] = []
        self.listeners: list[Callable[[Any], None]] = []

    async def add(self, slug: str, server: tc.ToolServer) -> Source:
        row = make_source_row(slug)
        client = self.clients[row.id] = await tc.Client(server, name=slug).connect()
        tools = [definition_of(tool) for tool in await client.list_tools()]
        common: dict[str, Any] = {"source_id": row.id, "now": 1.0}
        lists = [
            diff_items(kind, (), [item.to_dict() for item in listed], **common).rows
            for kind, listed in (
                (PromptRow, await client.list_prompts()),
                (ResourceRow, await client.list_resources()),
                (TemplateRow, await client.list_resource_templates()),
            )
        ]
        records = diff((), tools, source=slug, policy=ReviewPolicy.FOLLOW, first=True, **common).tools
        source = Source(row, make_state_row(row.id), records, *lists)
        self.snapshot = self.snapshot.with_source(source)
        return source

    async def call(self, source_id: str, tool: str, arguments: Any, principal: str, options: Any) -> tc.ToolResult:
        self.calls.append((source_id, tool, arguments, principal, options))
        return await self.clients[source_id].call_tool(tool, arguments, **options)

    @asynccontextmanager
    async def request_client(
        self, source_id: str, principal: str, timeout: Any
    ) -> AsyncIterator[tuple[tc.Client, Any]]:
        yield self.clients[source_id], timeout

    async def list_personal(self, principal: str) -> Mapping[str, Source]:
        return self.personal.get(principal, {})

    def on_lists_changed(self, source_id: str, listener: Callable[[Any], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)


@asynccontextmanager
async def open_sources(**servers: tc.ToolServer) -> AsyncIterator[Sources]:
    sources = Sources()
    async with contextlib.AsyncExitStack() as stack:
        for slug, server in servers.items():
            await sources.add(slug, server)
            stack.push_async_callback(sources.clients[f"id-{slug}"].close)
        yield sources


@asynccontextmanager
async def open_view(kind: str, toolsets: tuple[Toolset, ...] = (), *, meta_tools: bool = False, **servers: Any) -> Any:
    if kind == "hub":
        async with Hub(servers) as hub:
            for toolset in toolsets:
                hub.toolsets.register(toolset)
            yield hub.view(agent="ann", meta_tools=meta_tools)
    else:
        async with open_sources(**servers) as sources:
            views = Views(sources)
            for toolset in toolsets:
                views.toolsets.register(toolset)
            yield views.view("ann", meta_tools=meta_tools)


both = pytest.mark.parametrize("kind", ["hub", "provider"])


@both
async def test_tools_are_listed_searched_and_called(kind: str) -> None:
    long = "x" * 70
    async with open_view(kind, math=math_server(), files=echo_server("read", "write.all", long)) as view:
        listed = await view.list_tools()
        assert names(listed) == [
            *("mcp__math__add", "mcp__math__fail", "mcp__files__read", "mcp__files__write.all", f"mcp__files__{long}")
        ]
        assert names(await view.list_tools(server="math")) == ["mcp__math__add", "mcp__math__fail"]
        assert [(tool.server, tool.original_name) for tool in listed][:1] == [("math", "add")]
        result = await view.call_tool("mcp__math__add", {"a": 2, "b": 3}, timeout=5.0)
        assert (result.data, result.text) == (5, "5")
        assert (await view.call_tool("mcp__math__fail")).is_error
        alias = view.alias("mcp__files__write.all")
        assert alias != "mcp__files__write.all" and len(view.alias(f"mcp__files__{long}")) <= 64
        assert (await view.call_tool(alias, {"a": 1})).data == {"a": 1}
        assert names(await view.search_tools("add two numbers", limit=1)) == ["mcp__math__add"]
        assert view.explain("mcp__math__add").startswith("allowed")
        assert alias in view.explain("mcp__files__write.all")
        assert view.context.agent == "ann" and view.loaded == ()


@both
@pytest.mark.parametrize("name", ["mcp__math__ad", "add", "mcp__other__add", "", "mcp__math__"])
async def test_an_unknown_tool_is_not_found_in_every_method(kind: str, name: str) -> None:
    async with open_view(kind, math=math_server()) as view:
        with pytest.raises(tc.ToolNotFound) as caught:
            await view.call_tool(name)
        assert caught.value.sent is False
        with pytest.raises(tc.ToolNotFound):
            await view.load_tools(name)
        if name in ("mcp__math__ad", "add"):
            assert caught.value.nearest == ("mcp__math__add",)
        assert not view.explain(name).startswith("allowed")
        assert view.alias(name) == name


@both
async def test_wrong_types_are_usage_errors(kind: str) -> None:
    async with open_view(kind, math=math_server()) as view:
        with pytest.raises(tc.UsageError, match="name: expected"):
            await view.call_tool(3)
        with pytest.raises(tc.UsageError, match="arguments: expected"):
            await view.call_tool("mcp__math__add", "{}")
        with pytest.raises(tc.UsageError, match="server: expected"):
            await view.list_resources(3)
        with pytest.raises(tc.UsageError, match="server= is required"):
            await view.complete("note:///{name}", "name")


@both
async def test_deferred_tools_are_loaded(kind: str) -> None:
    toolsets = (Toolset("db").defer_all(),)
    async with open_view(kind, toolsets, meta_tools=True, db=echo_server("drop", "query"), s=echo_server("a")) as view:
        assert names(await view.list_tools()) == ["mcp__s__a", "search_tools", "call_tool"]
        assert names(await view.list_tools(deferred=True))[:2] == ["mcp__db__drop", "mcp__db__query"]
        assert "deferred by the toolset db" in view.explain("mcp__db__query")
        assert names(await view.load_tools("mcp__db__drop")) == ["mcp__db__drop"]
        await view.call_tool("call_tool", {"name": "mcp__db__query", "arguments": {"a": 1}})
        assert view.loaded == ("mcp__db__drop", "mcp__db__query")
        assert names(await view.list_tools())[:3] == ["mcp__s__a", "mcp__db__drop", "mcp__db__query"]
        view.unload_tools("mcp__db__drop")
        assert view.loaded == ("mcp__db__query",)
        view.unload_tools()
        found = await view.call_tool("search_tools", {"query": "query"})
        assert "mcp__db__query" in found.text and view.loaded == ("mcp__db__query",)
        assert (await view.call_tool("call_tool", {"name": "mcp__db__no"})).is_error


@both
async def test_resources_and_prompts(kind: str) -> None:
    async with open_view(kind, math=math_server(), s=echo_server()) as view:
        assert [(each.uri, each.server) for each in await view.list_resources()] == [("config://app", "math")]
        assert await view.list_resources("s") == []
        assert [each.uri_template for each in await view.list_resource_templates("math")] == ["note:///{name}"]
        assert (await view.read_resource("math", "config://app")).text == '{"of": "math"}'
        assert await view.resources.read_text("math", "note:///a") == "note a"
        assert [each.uri for each in await view.resources.find_by_pattern("config:*")] == ["config://app"]
        with pytest.raises(tc.ResourceNotFound) as caught:
            await view.read_resource("math", "config://ap")
        assert (caught.value.nearest, caught.value.sent) == (("config://app",), True)
        (prompt,) = await view.list_prompts()
        assert (prompt.name, prompt.server) == ("mcp__math__explain", "math")
        assert (await view.get_prompt(prompt.name, {"topic": "x"})).text == "Explain x"
        assert (await view.complete(prompt, "topic")).values == ()
        (template,) = await view.list_resource_templates()
        assert (await view.complete(template, "name")).values == ()
        with pytest.raises(tc.NotFound) as missing:
            await view.get_prompt("mcp__math__explai")
        assert missing.value.nearest == ("mcp__math__explain",)
        for method in (view.list_resources, view.list_prompts, view.list_resource_templates):
            with pytest.raises(tc.ServerNotFound):
                await method("no")
        with pytest.raises(tc.ServerNotFound):
            await view.read_resource("no", "config://app")
        with pytest.raises(tc.ServerNotFound):
            view.listen("no")
        async with view.listen("math"):
            pass


def test_the_methods_are_those_of_a_hubs_view() -> None:
    public = [name for name in dir(HubView) if not name.startswith("_")]
    assert [name for name in dir(ProviderView) if not name.startswith("_")] == public
    for name in public:
        one, other = getattr(HubView, name), getattr(ProviderView, name)
        if callable(one):
            mine, theirs = (list(inspect.signature(each).parameters.values()) for each in (one, other))
            assert [(p.name, p.kind, p.default) for p in mine] == [(p.name, p.kind, p.default) for p in theirs]
            assert inspect.iscoroutinefunction(one) == inspect.iscoroutinefunction(other)


# ---- what only a provider has ------------------------------------------------------------------------------------


def put(sources: Sources, slug: str, tool: str, **changes: Any) -> None:
    """Change the record of a tool."""
    source = sources.snapshot.by_slug[slug]
    sources.snapshot = sources.snapshot.with_source(source.with_tools([replace(source.records[tool], **changes)]))


HIDDEN: list[tuple[dict[str, Any], str]] = [
    ({"state": ToolState.PENDING}, "never approved"),
    ({"state": ToolState.WITHHELD}, "withheld"),
    ({"state": ToolState.BLOCKED}, "blocked"),
    ({"state": ToolState.REMOVED}, "no longer lists it"),
    ({"enabled": False}, "it is disabled"),
]


@pytest.mark.parametrize("changes, reason", HIDDEN)
async def test_a_tool_that_may_not_be_used_does_not_exist(changes: dict[str, Any], reason: str) -> None:
    async with open_sources(s=echo_server("read", "write")) as sources:
        view = Views(sources).view("ann")
        assert len(await view.search_tools("write")) == 1
        put(sources, "s", "write", **changes)
        assert names(await view.list_tools()) == names(await view.list_tools(deferred=True)) == ["mcp__s__read"]
        assert names(await view.search_tools("write")) == []
        for attempt in (view.call_tool, view.load_tools):
            with pytest.raises(tc.ToolNotFound) as caught:
                await attempt("mcp__s__write")
            assert "mcp__s__write" not in caught.value.nearest
        assert sources.calls == []
        explained = view.explain("mcp__s__write")
        assert explained.startswith("hidden: ") and reason in explained
        put(sources, "s", "write", state=ToolState.ACTIVE, enabled=True)
        assert (await view.call_tool("mcp__s__write", {"a": 1})).data == {"a": 1}


async def test_a_disabled_source_does_not_exist() -> None:
    async with open_sources(math=math_server(), s=echo_server("a")) as sources:
        view = Views(sources).view("ann")
        assert len(await view.list_tools()) == 3
        math = sources.snapshot.by_slug["math"]
        sources.snapshot = sources.snapshot.with_source(replace(math, row=replace(math.row, enabled=False)))
        assert names(await view.list_tools()) == ["mcp__s__a"]
        assert await view.list_resources() == await view.list_prompts() == await view.list_resource_templates() == []
        with pytest.raises(tc.ServerNotFound) as caught:
            await view.list_tools(server="math")
        assert "math" not in caught.value.message
        with pytest.raises(tc.ToolNotFound) as missing:
            await view.call_tool("mcp__math__add")
        assert missing.value.server is None
        for attempt in (view.read_resource("math", "config://app"), view.get_prompt("mcp__math__explain")):
            with pytest.raises(tc.NotFound):
                await attempt
        assert "the source math is disabled" in view.explain("mcp__math__add")
        sources.snapshot = sources.snapshot.with_source(math)
        assert len(await view.list_tools()) == 3


async def test_a_group_limits_every_method() -> None:
    async with open_sources(math=math_server(), files=echo_server("read", "write")) as sources:
        group = Group("g", include=("files/*", "math/add"), exclude=("*/write",))
        sources.snapshot = sources.snapshot.with_group(group)
        view, everything = (Views(sources).view("ann", name) for name in ("g", None))
        assert names(await view.list_tools()) == ["mcp__math__add", "mcp__files__read"]
        assert names(await view.search_tools("write fail read")) == ["mcp__files__read"]
        assert len(await everything.list_tools()) == 4
        assert "the group g excludes files/write by '*/write'" in view.explain("mcp__files__write")
        assert "the group g does not include math/fail" in view.explain("mcp__math__fail")
        assert "includes it by 'math/add'" in view.explain("mcp__math__add")
        for name in ("mcp__files__write", "mcp__math__fail"):
            with pytest.raises(tc.ToolNotFound):
                await view.call_tool(name)
        # A group with some tools of a source has none of its resources and prompts.
        assert await view.list_resources() == await view.list_prompts() == []
        with pytest.raises(tc.ResourceNotFound):
            await view.read_resource("math", "config://app")
        with pytest.raises(tc.NotFound):
            await view.get_prompt("mcp__math__explain", {"topic": "x"})
        with pytest.raises(tc.NotFound):
            await view.complete("note:///{name}", "name", server="math")
        with pytest.raises(tc.NotFound):
            view.listen("math", "config://app")
        sources.snapshot = sources.snapshot.with_group(replace(group, include=("source:math",)))
        assert len(await view.list_resources()) == 1
        with pytest.raises(tc.ServerNotFound):
            await view.list_tools(server="files")
        sources.snapshot = sources.snapshot.with_group(replace(group, include=()))
        assert await view.list_tools() == []
        sources.snapshot = sources.snapshot.without_group("g")
        with pytest.raises(tc.NotFound, match="no group 'g'"):
            await view.list_tools()
        with pytest.raises(tc.NotFound, match="no group 'x'"):
            Views(sources).view("ann", "x")


async def test_a_group_renames_and_fills_in() -> None:
    async with open_sources(math=math_server(), s=echo_server("add", "other")) as sources:
        overrides = {"math/add": Override(description="Add one.", arguments={"b": 1}), "s/other": Override(name="more")}
        group = Group("g", include=("*/*",), overrides=overrides, name_mode=NameMode.PLAIN)
        sources.snapshot = sources.snapshot.with_group(group)
        view = Views(sources).view("ann", "g")
        listed = {tool.name: tool for tool in await view.list_tools()}
        assert list(listed) == ["add", "fail", "more"]
        assert listed["add"].description == "Add one." and list(listed["add"].input_schema["properties"]) == ["a"]
        assert (await view.call_tool("add", {"a": 2})).data == 3
        with pytest.raises(tc.InvalidArguments):
            await view.call_tool("add", {"a": 2, "b": 5})
        assert (await view.call_tool("more", {"x": 1})).data == {"x": 1}
        assert sources.calls[-1][:2] == ("id-s", "other")
        assert (await view.list_prompts())[0].name == "explain"
        assert (await view.get_prompt("explain", {"topic": "x"})).text == "Explain x"
        # The tool that has the name keeps it while it is blocked: the name must not mean another tool.
        put(sources, "math", "add", state=ToolState.BLOCKED)
        assert [tool.name for tool in await view.list_tools()] == ["fail", "more"]
        assert "blocked" in view.explain("add")
        sources.snapshot = sources.snapshot.with_group(replace(group, include=("s/*",)))
        assert [tool.name for tool in await view.list_tools()] == ["add", "more"]


async def test_names_follow_the_sources_in_auto_mode() -> None:
    a, b = (make_snapshot_source(slug, ["x", slug]) for slug in ("a", "b"))
    group = Group("g", include=("*/*",), name_mode=NameMode.AUTO)
    sources = Sources(Snapshot().with_group(group).with_source(a))
    view = Views(sources).view("ann", "g")
    assert names(await view.list_tools()) == ["x", "a"]
    sources.snapshot = sources.snapshot.with_source(b)
    assert names(await view.list_tools()) == ["mcp__a__x", "a", "mcp__b__x", "b"]
    sources.snapshot = sources.snapshot.without_source(a.id)
    assert names(await view.list_tools()) == ["x", "b"]
    with pytest.raises(tc.ToolNotFound):
        await view.call_tool("mcp__b__x")


async def test_personal_lists_are_seen_by_their_principal_alone() -> None:
    async with open_sources(s=echo_server("read")) as sources:
        client = await tc.Client(math_server(), name="mail").connect()
        sources.clients["id-mail"] = client
        mail = make_snapshot_source("mail", [make_definition("add", "Add numbers")])
        sources.snapshot = sources.snapshot.with_source(replace(mail, records={}))
        sources.personal["ann"] = {mail.id: mail}
        views = Views(sources)
        ann, bob = views.view("ann"), views.view("bob")
        assert names(await ann.list_tools()) == ["mcp__s__read", "mcp__mail__add"]
        assert names(await ann.list_tools(server="mail")) == ["mcp__mail__add"]
        assert names(await bob.list_tools()) == ["mcp__s__read"]
        assert names(await ann.search_tools("add numbers")) == ["mcp__mail__add"]
        assert await bob.search_tools("add numbers") == []
        fresh = views.view("ann")
        assert (await fresh.call_tool("mcp__mail__add", {"a": 1, "b": 2})).text == "3"
        assert ann.explain("mcp__mail__add").startswith("allowed")
        with pytest.raises(tc.ToolNotFound):
            await bob.call_tool("mcp__mail__add", {"a": 1, "b": 2})
        assert [call[3] for call in sources.calls] == ["ann"]
        await client.close()


async def test_changes_of_lists_start_nothing_and_resources_hold_a_connection() -> None:
    async with open_sources(math=math_server()) as sources:
        view = Views(sources).view("ann")
        async with view.listen("math", prompts=False) as changes:
            for listener in sources.listeners:
                listener("prompts")
                listener("tools")
            assert (await anext(changes)).kind == "tools"
            changes.end()
            assert [change async for change in changes] == []
        assert sources.listeners == []
        async with view.listen("math", "config://app", tools=False) as changes:
            await eventually(lambda: sources.listeners)
        with pytest.raises(tc.UsageError, match="not entered"):
            await anext(view.listen("math"))


async def test_only_changed_sources_are_read_again() -> None:
    sources = Sources(Snapshot())
    for slug in ("a", "b"):
        sources.snapshot = sources.snapshot.with_source(make_snapshot_source(slug, ["x", "y"]))
    views = Views(sources)
    view = views.view("ann")
    before = {tool.name: tool for tool in await view.list_tools()}
    lists = views.catalog_of(None)
    put(sources, "a", "x", definition=make_definition("x", "Other."))
    after = {tool.name: tool for tool in await view.list_tools()}
    assert views.catalog_of(None) is lists
    assert [name for name in before if before[name] is not after[name]] == ["mcp__a__x"]
    assert after["mcp__a__x"].description == "Other."


async def test_a_blocked_tool_is_gone_for_views_that_exist_already() -> None:
    async with open_sources(s=echo_server("a")) as sources:
        views = [Views(sources).view("ann"), Views(sources).view("bob")]
        source = sources.snapshot.by_slug["s"]
        blocked = block(source.records["a"], by="op", now=1.0).tool
        sources.snapshot = sources.snapshot.with_source(source.with_tools([blocked]), change=7)
        assert sources.snapshot.change == 7
        for view in views:
            with pytest.raises(tc.ToolNotFound):
                await view.call_tool("mcp__s__a")


def test_a_view_needs_a_principal() -> None:
    for wrong in ("", None, 3):
        with pytest.raises(tc.UsageError, match="principal"):
            Views(Sources()).view(wrong)  # type: ignore[arg-type]  # wrong types are the test
    assert repr(Views(Sources()).view("ann")) == "<ProviderView of 'ann'>"
