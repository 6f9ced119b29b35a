"""A toolbox offers the tools of any source to any loop and thread, and answers instead of raising."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import pickle
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import DEMO, echo_server
from tests.unit.adapters.conftest import Yard
from tests.unit.kit import LEGACY, PlayedServer, eventually
from toolcrib.adapters import Toolbox, ToolSpec
from toolcrib.adapters.tool_source import BoundSource
from toolcrib.adapters.toolbox import as_toolbox
from toolcrib.errors import UsageError
from toolcrib.provider import Provider
from toolcrib.sync import Client as SyncClient
from toolcrib.sync import Hub as SyncHub

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def in_other_loop(make: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
    """Await it on a loop of its own, in another thread."""

    async def main() -> Any:
        return await make()

    return asyncio.to_thread(lambda: asyncio.run(main()))


@asynccontextmanager
async def opened(kind: str, server: Any, tmp_path: Any = None) -> AsyncIterator[Any]:
    """Yield a source of this kind; its server is called `s`."""
    if kind == "client":
        async with tc.Client(server) as client:
            yield client
    elif kind == "provider view":
        async with Provider(f"sqlite:///{tmp_path}/tools.db") as provider:
            await provider.add_source("s", server)
            yield provider.view("alice")
    elif kind.startswith("sync"):
        context = SyncClient(server) if kind == "sync client" else SyncHub({"s": server})
        source = await asyncio.to_thread(context.__enter__)
        try:
            yield source.view() if kind == "sync view" else source
        finally:
            await asyncio.to_thread(context.__exit__)
    else:
        async with tc.Hub({"s": server}) as hub:
            yield hub.view() if kind == "view" else hub


ASYNC = ["hub", "view", "client"]
SYNC = ["sync hub", "sync view", "sync client"]


# ---- every kind of source ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ASYNC, *SYNC])
async def test_calls_from_everywhere_run_on_the_loop_of_the_source(kind: str) -> None:
    threads: list[tuple[int, str]] = []
    server = tc.ToolServer("s")

    @server.tool
    async def where() -> str:
        threads.append((threading.get_ident(), VARIABLE.get()))
        return "here"

    async with opened(kind, server) as source:
        VARIABLE.set("caller")
        box = await Toolbox.load(source)
        name = "where" if kind.endswith("client") else "mcp__s__where"
        assert [spec.name for spec in box.tools()] == [name]
        assert (await box.call(name)).text == "here"
        assert (await in_other_loop(lambda: box.call(name))).text == "here"
        assert (await asyncio.to_thread(box.call_sync, name)).text == "here"
        assert [spec.name for spec in await asyncio.to_thread(box.tools)] == [name]
        assert [spec.name for spec in await in_other_loop(box.list_tools)] == [name]
    homes = {thread for thread, _ in threads}
    assert len(homes) == 1 and (homes == {threading.get_ident()}) == (kind in ASYNC)
    assert [value for _, value in threads] == ["caller"] * 3, "context variables, a trace for example, reach the tool"


@pytest.mark.parametrize("kind", [*ASYNC, *SYNC])
async def test_after_the_block_everything_raises_usage_errors(kind: str) -> None:
    async with opened(kind, echo_server("a")) as source:
        box = await Toolbox.load(source)
        name = box.tools()[0].name
        stop = box.on_change(lambda: None)
    for call in (
        lambda: box.call(name),
        box.list_tools,
        lambda: in_other_loop(lambda: box.call(name)),
        lambda: asyncio.to_thread(box.call_sync, name),
        lambda: asyncio.to_thread(box.tools),
    ):
        with pytest.raises(UsageError):
            await call()
    with pytest.raises(UsageError):
        box.tools()
    stop()


async def test_a_view_of_a_provider(tmp_path: Any) -> None:
    server = tc.StdioServer(sys.executable, [DEMO])
    async with opened("provider view", server, tmp_path) as view:
        box = Toolbox(view)
        names = {spec.name for spec in box.tools()}
        assert "mcp__s__add" in names
        assert (await box.call("mcp__s__add", {"a": 1, "b": 2}, approved=True)).data == {"sum": 3}
        assert (await asyncio.to_thread(box.call_sync, "mcp__s__add", '{"a": 1, "b": 2}')).data == {"sum": 3}
    for use in (lambda: box.call("mcp__s__add", {}), box.list_tools):
        with pytest.raises(UsageError, match="provider is closed"):
            await use()
    with pytest.raises(UsageError, match="provider is closed"):
        box.tools()


async def test_a_real_process_over_stdio_cancelled_from_another_thread() -> None:
    async with tc.Client(tc.StdioServer(sys.executable, [DEMO])) as client:
        with pytest.raises(UsageError, match=r"await Toolbox\.load"):
            Toolbox(client).tools()
        box = await Toolbox.load(client)
        reports: list[float] = []

        async def count_and_cancel() -> None:
            steps = {"steps": 1000, "seconds": 0.01}
            call = box.call("slow_count", steps, on_progress=lambda done, *_: reports.append(done))
            task = asyncio.create_task(call)
            await eventually(lambda: reports)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        await in_other_loop(count_and_cancel)
        assert (await in_other_loop(lambda: box.call("add", {"a": 1, "b": 2}))).data == {"sum": 3}
        assert {spec.name for spec in box.tools()} >= {"add"}


def test_a_source_is_required() -> None:
    for wrong in ("hub", tc.Hub, None):
        with pytest.raises(UsageError, match="source: expected a Hub, a HubView, a Client"):
            Toolbox(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no running event loop"):
        Toolbox(tc.Hub({}))


# ---- lists -----------------------------------------------------------------------------------------------------


async def test_schemas_are_copies_that_a_framework_may_change(yard: Yard) -> None:
    async with tc.Hub({"yard": yard.server}) as hub:
        box = Toolbox(hub)
        before = copy.deepcopy(box.tools()[0].input_schema)
        spoiled = box.tools()[0].input_schema
        spoiled["properties"]["a"]["type"] = "string"
        spoiled["properties"]["a"]["added"] = ["x"]
        spoiled.clear()
        assert box.tools()[0].input_schema == before
        assert (await hub.list_tools())[0].input_schema["properties"]["a"]["type"] == "integer"
        assert (await box.call("mcp__yard__add", {"a": 1})).text == "2"


HARD = ["add", "1st", "_1st", "-dash", "a.b", "a_b", "a b", "日本", "日", "é", "", "x" * 64, "x" * 65, "x" * 66, "add "]


@pytest.mark.parametrize("order", [HARD, HARD[::-1]])
@pytest.mark.parametrize("kind", ["hub", "client"])
async def test_names_fit_every_model_api_and_are_never_equal(order: list[str], kind: str) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in [*order, "add"]]
    server = PlayedServer(
        initialize=LEGACY,
        tools__list={"tools": tools},
        tools__call=lambda params: {"content": [{"type": "text", "text": params["name"]}]},
    )
    context: Any = tc.Client(server, mode="legacy") if kind == "client" else tc.Hub({"s": server}, mode="legacy")
    async with context as source:
        box = await Toolbox.load(source)
        specs = box.tools()
        assert len({spec.name for spec in specs}) == len(specs) >= len(HARD) - 1
        assert all(NAME.fullmatch(spec.name) for spec in specs)
        for spec in specs:
            own = spec.tool.original_name or spec.tool.name
            assert (await box.call(spec.name)).text == own
            if kind == "client" and NAME.fullmatch(own):
                assert spec.name == own, "a valid name stays"


async def test_on_the_own_loop_a_list_never_starts_a_request() -> None:
    tools = [{"name": "a", "inputSchema": {"type": "object"}}]
    server = PlayedServer(initialize=LEGACY, tools__list={"tools": tools})
    async with tc.Client(server, mode="legacy") as client:
        box = Toolbox(client)
        with pytest.raises(UsageError, match=r"await Toolbox\.load\(source\)"):
            box.tools()
        assert not server.named("tools/list")
        await box.list_tools()
        assert [spec.name for spec in box.tools()] == ["a"]
        assert len(server.named("tools/list")) == 1
        await server.end.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        await eventually(lambda: client.peek_tools() is None)
        assert [spec.name for spec in box.tools()] == ["a"], "the last list"
        assert len(server.named("tools/list")) == 1


async def test_a_hub_whose_servers_are_not_listed_yet() -> None:
    async with tc.Hub({"s": echo_server("a")}, start="lazy") as hub:
        box = Toolbox(hub)
        with pytest.raises(UsageError, match=r"await Toolbox\.load"):
            box.tools()
        assert hub.peek_tools() is None and hub.view().peek_tools() is None
        assert [spec.name for spec in await box.list_tools()] == ["mcp__s__a"]
        await hub.add_server("t", echo_server("b"), start="eager")
        assert [spec.name for spec in box.tools()] == ["mcp__s__a", "mcp__t__b"], "an added server needs no wait"
        await hub.remove_server("s")
        assert [spec.name for spec in box.tools()] == ["mcp__t__b"]


async def test_names_limit_the_toolbox_and_what_can_be_called() -> None:
    dotted = "a.b"
    async with tc.Hub({"s": echo_server("read", "write", dotted), "t": echo_server("x")}) as hub:
        box = Toolbox(hub, names=(name for name in ["mcp__s__re*", "mcp__t"]))
        assert [spec.name for spec in box.tools()] == ["mcp__s__read", "mcp__t__x"]
        refused = await box.call("mcp__s__write", {})
        assert refused.is_error and isinstance(refused.error, tc.ToolNotFound) and refused.error.sent is False
        assert [spec.name for spec in box.derive(timeout=3).tools()] == ["mcp__s__read", "mcp__t__x"]
        wider = box.derive(names=None)
        assert len(wider.tools()) == 4
        alias = hub.alias(f"mcp__s__{dotted}")
        narrow = Toolbox(hub, names=["mcp__s__a_*"])
        assert [spec.name for spec in narrow.tools()] == [alias]
        assert (await Toolbox(hub, names=["mcp__s__read"]).call(alias)).is_error, "not by its alias either"
        with pytest.raises(tc.ConfigError, match="names: expected a list"):
            Toolbox(hub, names="mcp__s__read")
        with pytest.raises(tc.ConfigError):
            Toolbox(hub, timeout=-1)
        with pytest.raises(TypeError, match="timout"):
            Toolbox(hub, timout=1)  # type: ignore[call-arg]


async def test_names_limit_the_calls_of_a_meta_tool_too() -> None:
    server = tc.ToolServer("s")
    server.add_tool(lambda: "read", name="read")
    server.add_tool(lambda: "deleted", name="delete")
    async with tc.Hub({"s": server}) as hub:
        box = Toolbox(hub.view(meta_tools=True), names=["mcp__s__read", "call_tool"])
        assert (await box.call("call_tool", {"name": "mcp__s__read"})).text == "read"
        refused = await box.call("call_tool", {"name": "mcp__s__delete", "arguments": {}})
        assert isinstance(refused.error, tc.ToolNotFound) and refused.error.sent is False
        assert (await box.call("call_tool", {})).is_error


async def test_deferred_tools_are_marked() -> None:
    async with tc.Hub({"db": echo_server("query"), "s": echo_server("a")}) as hub:
        hub.toolsets.register(tc.Toolset("db").defer_all())
        assert [(spec.name, spec.deferred) for spec in Toolbox(hub).tools()] == [("mcp__s__a", False)]
        both = [("mcp__db__query", True), ("mcp__s__a", False)]
        box = Toolbox(hub, deferred=True)
        assert [(spec.name, spec.deferred) for spec in box.tools()] == both
        assert [(spec.name, spec.deferred) for spec in await box.list_tools()] == both
        assert (await Toolbox(hub).call("mcp__db__query", {"a": 1})).data == {"a": 1}
        hub.toolsets.register(tc.Toolset("s").defer_all())
        assert [spec.deferred for spec in box.tools()] == [True, True], "if all are deferred, all are marked"


async def test_approval_is_left_to_the_framework_if_the_hub_says_so() -> None:
    async with tc.Hub({"s": echo_server("a", "b")}, require_approval=["mcp__s__a"], approve="caller") as hub:
        box = Toolbox(hub)
        assert [spec.needs_approval for spec in box.tools()] == [True, False]
        denied = await box.call("mcp__s__a", {"x": 1})
        assert denied.is_error and isinstance(denied.error, tc.AccessDenied)
        assert "approved=True" in denied.text and denied.text.endswith("The tool did not run.")
        assert (await box.call("mcp__s__a", {"x": 1}, approved=True)).data == {"x": 1}
        assert (await asyncio.to_thread(lambda: box.call_sync("mcp__s__a", {}, approved=True))).data == {}
    async with tc.Client(echo_server("a")) as client:
        assert (await Toolbox(client).call("a", {"x": 1}, approved=True)).data == {"x": 1}


async def test_as_toolbox_keeps_a_toolbox_and_derives_others() -> None:
    async with tc.Hub({"s": echo_server("a")}) as hub:
        box = await Toolbox.load(hub)
        assert as_toolbox(box) is box
        other = as_toolbox(box, timeout=1, target="openai")
        assert other is not box and [spec.name for spec in other.tools()] == ["mcp__s__a"]
        assert copy.deepcopy(box) is box and copy.copy(box) is box
        with pytest.raises(UsageError, match="cannot be pickled"):
            pickle.dumps(box)
        assert repr(box) == "<Toolbox tools=1>" and isinstance(box.tools()[0], ToolSpec) and box.losses == []


# ---- calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"a": 1}, {"a": 1}),
        ('{"a": 1}', {"a": 1}),
        (b'{"a": "\xc3\xa9"}', {"a": "é"}),
        ("", {}),
        ("  \n", {}),
        (None, {}),
        ("null", {}),
        ("{}", {}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
    ],
)
async def test_arguments(arguments: Any, expected: Any) -> None:
    async with tc.Hub({"s": echo_server("a")}) as hub:
        assert (await Toolbox(hub).call("mcp__s__a", arguments)).data == expected


@pytest.mark.parametrize(
    "arguments, reason",
    [
        ('{"a": 1', "not JSON"),
        ("{'a': 1}", "not JSON"),
        (b"\xff", "not JSON"),
        ("[1]", "got an array"),
        ([1], "got an array"),
        ('"text"', "got a string"),
        ("true", "got a boolean"),
        ("3", "got a number"),
        ("[" * 5000, "arguments: expected a JSON object"),
    ],
)
async def test_arguments_that_are_no_object_are_an_error_answer(arguments: Any, reason: str) -> None:
    async with tc.Hub({"s": echo_server("a")}) as hub:
        answer = await Toolbox(hub).call("mcp__s__a", arguments)
    assert answer.is_error and isinstance(answer.error, tc.InvalidArguments)
    assert reason in answer.text and answer.text.endswith("The tool did not run.")


async def test_failures_are_answers_that_say_whether_the_tool_ran(yard: Yard) -> None:
    async with tc.Hub({"yard": yard.server}, disallowed_tools=["mcp__yard__count"]) as hub:
        box = Toolbox(hub)
        failed = await box.call("mcp__yard__fail")
        assert failed.is_error and failed.text == "as it should" and failed.error is None
        unknown = await box.call("mcp__yard__ad", {"a": 1})
        assert "did you mean" in unknown.text and unknown.text.endswith("The tool did not run.")
        denied = await box.call("mcp__yard__count")
        assert "disallowed_tools" in denied.text and denied.text.endswith("The tool did not run.")
        late = await box.call("mcp__yard__hang", timeout=0.05)
        assert isinstance(late.error, tc.CallTimeout)
        assert late.text.endswith("The tool may have run: check before you call it again.")
        also_late = await Toolbox(hub, timeout=0.05).call("mcp__yard__hang")
        assert isinstance(also_late.error, tc.CallTimeout)


async def test_a_list_that_fails_before_a_call_says_that_the_call_was_not_sent() -> None:
    server = PlayedServer(initialize=LEGACY, tools__list=tc.RemoteError(-32603, "no list today"))
    async with tc.Client(server, mode="legacy") as client:
        answer = await Toolbox(client).call("a", {})
    assert "no list today" in answer.text and answer.text.endswith("The tool did not run.")


async def test_tools_that_appear_change_and_disappear_between_list_and_call() -> None:
    server = echo_server("a")
    async with tc.Hub({"s": server}) as hub:
        box = Toolbox(hub)
        assert [spec.name for spec in box.tools()] == ["mcp__s__a"]
        server.remove_tool("a")

        async def changed(count: int) -> str:
            return f"{count} in the new form"

        server.add_tool(changed, name="a")
        server.add_tool(changed, name="b")
        await hub.refresh("s")
        assert (await box.call("mcp__s__a", {"count": 2})).text == "2 in the new form"
        assert (await box.call("mcp__s__b", {"count": 2})).text == "2 in the new form", "a new tool is found"
        assert "count" in box.tools()[0].input_schema["properties"]
        server.remove_tool("a")
        await hub.refresh("s")
        gone = await box.call("mcp__s__a", {"count": 2})
        assert isinstance(gone.error, tc.ToolNotFound) and gone.text.endswith("The tool did not run.")


@pytest.mark.parametrize("way", ["same loop", "other loop"])
async def test_a_cancelled_caller_cancels_the_tool(yard: Yard, way: str) -> None:
    async with tc.Hub({"yard": yard.server}) as hub:
        box = await Toolbox.load(hub)

        async def call_and_cancel() -> None:
            task = asyncio.create_task(box.call("mcp__yard__hang"))
            await eventually(lambda: yard.started)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        await (call_and_cancel() if way == "same loop" else in_other_loop(call_and_cancel))
        await eventually(lambda: yard.cancelled)


async def test_a_hub_that_closes_during_a_call_from_another_thread(yard: Yard) -> None:
    async with tc.Hub({"yard": yard.server}) as hub:
        box = await Toolbox.load(hub)
        waiting = asyncio.create_task(asyncio.to_thread(box.call_sync, "mcp__yard__hang"))
        await eventually(lambda: yard.started)
    answer = await waiting
    assert answer.is_error and answer.text.endswith("The tool may have run: check before you call it again.")


async def test_a_sync_agent_on_the_loop_of_the_hub_gets_an_error_instead_of_a_dead_lock() -> None:
    """As Strands does: the agent blocks the loop, and calls the tool in a loop of another thread."""
    async with tc.Hub({"s": echo_server("a")}) as hub:
        box = await Toolbox.load(BoundSource(hub, start_seconds=0.05))
        outcomes: list[Exception] = []

        def agent(call: Callable[[], object]) -> None:
            try:
                call()
            except UsageError as exc:
                outcomes.append(exc)

        for call in (lambda: asyncio.run(box.call("mcp__s__a")), lambda: box.call_sync("mcp__s__a"), box.tools):
            thread = threading.Thread(target=agent, args=[call])
            thread.start()
            thread.join(20)  # on the loop: it is blocked
        with pytest.raises(UsageError, match=r"toolcrib\.sync\.Hub"):
            box.call_sync("mcp__s__a")
        assert len(outcomes) == 3 and all("toolcrib.sync.Hub" in str(exc) for exc in outcomes)
        assert (await box.call("mcp__s__a", {"x": 1})).data == {"x": 1}, "the toolbox still works"


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("way", ["same loop", "other loop", "sync"])
async def test_progress_arrives_in_order_where_the_caller_is(yard: Yard, way: str, is_async: bool) -> None:
    reports: list[tuple[int, str, float, str | None]] = []

    def note(progress: float, _total: float | None, message: str | None) -> None:
        reports.append((threading.get_ident(), VARIABLE.get(), progress, message))

    async def note_later(progress: float, total: float | None, message: str | None) -> None:
        await asyncio.sleep(0)
        note(progress, total, message)

    handler = note_later if is_async else note
    async with tc.Hub({"yard": yard.server}) as hub:
        box, where = await Toolbox.load(hub), [threading.get_ident()]

        async def call() -> None:
            VARIABLE.set("of the caller")
            where.append(threading.get_ident())
            answer = await box.call("mcp__yard__count", on_progress=handler)
            assert answer.text == "counted" and len(reports) == 3

        def call_sync() -> None:
            VARIABLE.set("of the caller")
            where.append(where[0])  # there is no loop here: the handler runs on the loop of the hub
            assert box.call_sync("mcp__yard__count", on_progress=handler).text == "counted"

        await {"same loop": call, "other loop": lambda: in_other_loop(call)}.get(
            way, lambda: asyncio.to_thread(call_sync)
        )()
    assert reports == [(where[1], "of the caller", step, f"step {step}") for step in (1, 2, 3)]


async def test_a_progress_handler_that_raises_does_not_end_the_call(
    yard: Yard, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("of the handler")

    async with tc.Hub({"yard": yard.server}) as hub:
        box = Toolbox(hub)
        assert (await box.call("mcp__yard__count", on_progress=fail)).text == "counted"
        assert (await in_other_loop(lambda: box.call("mcp__yard__count", on_progress=fail))).text == "counted"
    assert caplog.text.count("ValueError: of the handler") == 6


async def test_many_threads_use_one_toolbox_while_its_tools_change(yard: Yard) -> None:
    async with tc.Hub({"yard": yard.server}) as hub:
        box = await Toolbox.load(hub)

        def work(number: int) -> list[str]:
            texts = []
            for step in range(20):
                assert any(spec.name == "mcp__yard__add" for spec in box.tools())
                texts.append(box.call_sync("mcp__yard__add", {"a": number, "b": step}).text)
            return texts

        async def change() -> None:
            for number in range(20):
                await hub.add_server(f"more{number}", echo_server("a"))
                await hub.remove_server(f"more{number}")

        *texts, _ = await asyncio.gather(*(asyncio.to_thread(work, number) for number in range(6)), change())
    assert texts == [[str(number + step) for step in range(20)] for number in range(6)]


# ---- changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["hub", "view", "sync hub", "sync view"])
async def test_servers_that_are_added_removed_or_changed_notify(kind: str) -> None:
    server = echo_server("a")
    context: Any = tc.Hub({"s": server}) if not kind.startswith("sync") else SyncHub({"s": server})

    async def do(method: Callable[..., Any], *args: Any) -> Any:
        return await (asyncio.to_thread(method, *args) if kind.startswith("sync") else method(*args))

    hub = await do(context.__enter__ if kind.startswith("sync") else context.__aenter__)
    try:
        box = Toolbox(hub.view() if kind.endswith("view") else hub)
        changes: list[int] = []
        stop = box.on_change(lambda: changes.append(threading.get_ident()))
        await do(hub.add_server, "t", echo_server("b"))
        await eventually(lambda: len(changes) == 1)
        await do(hub.remove_server, "t")
        await eventually(lambda: len(changes) == 2)
        server.remove_tool("a")
        await do(hub.refresh, "s")
        await eventually(lambda: len(changes) >= 3)
        assert (set(changes) == {threading.get_ident()}) == (not kind.startswith("sync"))
        await asyncio.to_thread(stop)
        before = len(changes)
        await do(hub.add_server, "u", echo_server("b"))
        assert len(changes) == before
    finally:
        await do(context.close)


@pytest.mark.parametrize("kind", ["client", "sync client"])
async def test_a_server_that_changes_its_list_notifies_through_a_client(kind: str) -> None:
    server = echo_server("a")
    async with opened(kind, server) as client:
        box, changes = await Toolbox.load(client), []
        box.on_change(lambda: changes.append(1))

        async def added() -> str:
            return "new"

        server.add_tool(added, name="b")
        await eventually(lambda: changes)
        assert [spec.name for spec in await box.list_tools()] == ["a", "b"]


async def test_a_view_notifies_of_what_is_loaded_in_it() -> None:
    async with tc.Hub({"db": echo_server("query", "drop")}) as hub:
        hub.toolsets.register(tc.Toolset("db").defer_all())
        view = hub.view()
        box, changes = Toolbox(view), []
        stop = box.on_change(lambda: changes.append([spec.name for spec in box.tools()]))
        await view.load_tools("mcp__db__query")
        await view.load_tools("mcp__db__query")
        await view.call_tool("mcp__db__drop")
        view.unload_tools()
        assert changes == [["mcp__db__query"], ["mcp__db__query", "mcp__db__drop"], []]
        stop()
        await view.search_tools("query", load=True)
        assert len(changes) == 3


async def test_a_view_of_a_provider_notifies_of_sources_and_groups(tmp_path: Any) -> None:
    async with Provider(f"sqlite:///{tmp_path}/tools.db") as provider:
        await provider.groups.create("all", include=["s/*"])
        view = provider.view("alice", group="all")
        box, changes = Toolbox(view), []
        stop = box.on_change(lambda: changes.append(len(box.tools())))
        await provider.add_source("s", tc.StdioServer(sys.executable, [DEMO]))
        await eventually(lambda: changes and changes[-1] > 1)
        await provider.groups.update("all", exclude=["s/*"])
        await eventually(lambda: changes[-1] == 0)
        await provider.groups.update("all", exclude=[])
        await eventually(lambda: changes[-1] > 1)
        await provider.remove_source("s")
        await eventually(lambda: changes[-1] == 0)
        stop()
        before = len(changes)
        await provider.groups.update("all", exclude=["x/*"])
        assert len(changes) == before


async def test_an_object_with_two_methods_is_a_source() -> None:
    class Own:
        async def list_tools(self) -> list[tc.Tool]:
            return [tc.Tool("a", input_schema={})]

        async def call_tool(self, name: str, arguments: Any, **options: Any) -> tc.ToolResult:
            return tc.ToolResult.from_blocks([tc.TextContent(f"{name} {arguments} {options}")])

    box = Toolbox(Own(), timeout=3)
    with pytest.raises(UsageError, match=r"Toolbox\.load"):
        box.tools()
    assert [spec.input_schema["type"] for spec in await box.list_tools()] == ["object"]
    assert (await box.call("a", {"x": 1}, approved=True)).text == "a {'x': 1} {'timeout': 3}"
    with pytest.raises(UsageError, match="announces no changes"):
        box.on_change(lambda: None)
