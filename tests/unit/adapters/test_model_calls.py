"""What all modules for model APIs do alike: tools, calls, and results."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.adapters.showcase import FORMATS, Showcase, answers, response
from tests.unit.kit import eventually
from toolcrib.adapters import Toolbox
from toolcrib.adapters.model_calls import ModelCall
from toolcrib.errors import UsageError
from toolcrib.sync import Hub as SyncHub
from toolcrib.types import Tool

pytestmark = pytest.mark.parametrize("format", FORMATS)


def names_in(format: str, tools: list[dict[str, Any]]) -> list[str]:
    """Return the names of the tools of a request."""
    match format:
        case "chat":
            return [tool["function"]["name"] for tool in tools]
        case "gemini":
            return [tool["name"] for entry in tools for tool in entry["functionDeclarations"]]
        case "bedrock":
            return [tool["toolSpec"]["name"] for tool in tools]
        case _:
            return [tool.get("name", tool.get("type")) for tool in tools]


def objects(value: Any) -> Any:
    """Return dicts as objects with attributes, as an SDK would."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: objects(each) for key, each in value.items()})
    return [objects(each) for each in value] if isinstance(value, list) else value


async def run(format: str, source: Any, *calls: tuple[str, Any], **options: Any) -> list[dict[str, Any]]:
    return answers(format, await FORMATS[format].results(source, response(format, *calls), **options))


async def test_a_source_a_toolbox_and_a_list_give_the_same_tools(format: str) -> None:
    server = tc.ToolServer("shop")

    @server.tool
    def price(fruit: str, count: int = 1) -> float:
        """Return the price."""
        return 1.5 * count

    async with tc.Hub({"shop": server}) as hub:
        tools = FORMATS[format].tools(hub)
        assert names_in(format, tools) == ["mcp__shop__price"]
        assert tools == FORMATS[format].tools(await hub.list_tools()) == FORMATS[format].tools(Toolbox(hub))
        assert tools == FORMATS[format].tools(hub.view())
        assert json.loads(json.dumps(tools)) == tools


async def test_losses_name_the_tool_and_the_place(format: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "not": {"enum": ["x"]}}}, "required": ["a"]}
    tools = FORMATS[format].tools([Tool("t", input_schema=schema)], strict=True)
    assert {(loss.tool, type(loss.action)) for loss in tools.losses} == {("t", str)}


async def test_an_empty_source_has_no_tools(format: str) -> None:
    assert FORMATS[format].tools([]) == []
    with pytest.raises(UsageError, match="expected a source or a list"):
        FORMATS[format].tools([{"name": "no"}])


async def test_names_fit_every_api_and_lead_back_to_the_tool(format: str) -> None:
    source = Showcase(Tool("1 bad.name", input_schema={"type": "object"}), Tool("x" * 80))
    names = names_in(format, FORMATS[format].tools(source.tools))
    assert all(len(name) <= 64 and name.replace("_", "a").replace("-", "a").isalnum() for name in names)
    bad = next(name for name in names if "bad" in name)
    await run(format, source, (bad, {}))
    assert source.calls[0][0] == "1 bad.name"


async def test_calls_come_from_dicts_objects_messages_and_lists(format: str) -> None:
    whole = response(format, ("echo", {"text": "a"}), ("text", {}))
    calls = FORMATS[format].calls(whole)
    assert [(call.id, call.name) for call in calls] == [("c1", "echo"), ("c2", "text")]
    assert calls[0].arguments in ({"text": "a"}, '{"text": "a"}')
    inner: Any = {
        "anthropic": lambda: whole["content"],
        "chat": lambda: whole["choices"][0]["message"],
        "responses": lambda: whole["output"],
        "gemini": lambda: whole["candidates"][0]["content"],
        "bedrock": lambda: whole["output"]["message"],
    }[format]()
    assert FORMATS[format].calls(inner) == calls == FORMATS[format].calls(calls)
    found = FORMATS[format].calls(objects(whole))
    assert [(call.id, call.name) for call in found] == [("c1", "echo"), ("c2", "text")]


@pytest.mark.parametrize("nothing", [None, {}, [], "text", {"content": "text"}, {"choices": []}, {"candidates": None}])
async def test_what_has_no_calls_gives_empty_lists(format: str, nothing: Any) -> None:
    assert FORMATS[format].calls(nothing) == []
    assert await FORMATS[format].results(Showcase(), nothing) == []
    assert await FORMATS[format].results(Showcase(), response(format)) == []


async def test_calls_run_at_once_and_are_answered_in_their_order(format: str) -> None:
    source = Showcase()
    work = asyncio.create_task(run(format, source, ("wait", {}), ("text", {}), ("wait", {})))
    await eventually(lambda: source.waiting == 2 and len(source.calls) == 3)
    source.go.set()
    assert [(each["id"], each["text"]) for each in await work] == [("c1", "waited"), ("c2", "hello"), ("c3", "waited")]


async def test_a_cancelled_waiter_cancels_all_calls(format: str) -> None:
    source = Showcase()
    work = asyncio.create_task(run(format, source, ("wait", {}), ("wait", {})))
    await eventually(lambda: source.waiting == 2)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert source.cancelled == 2


async def test_calls_that_fail_are_errors_and_do_not_affect_the_others(format: str) -> None:
    calls = (("fail", {}), ("text", {}), ("denied", {}), ("no_such_tool", {}), ("echo", [1]))
    found = await run(format, Showcase(), *calls)
    assert [each["error"] for each in found] == [True, False, True, True, True]
    assert "the disk is full" in found[0]["text"] and found[1]["text"] == "hello"
    assert "a rule forbids it" in found[2]["text"] and "did not run" in found[2]["text"]
    assert "no tool of this name" in found[3]["text"] and "expected a JSON object" in found[4]["text"]


async def test_arguments_may_be_text_and_broken_text_is_an_error(format: str) -> None:
    calls = (("echo", '{"text": "a"}'), ("echo", '{"text": '), ("text", ""))
    found = answers(format, await FORMATS[format].results(Showcase(), response(format, *calls, text=True)))
    assert json.loads(found[0]["text"]) == {"text": "a"}
    assert found[1]["error"] and "expected a JSON object" in found[1]["text"]
    assert found[2]["text"] == "hello"


async def test_nulls_of_a_strict_schema_are_removed(format: str) -> None:
    source = Showcase()
    found = await run(format, source, ("echo", {"text": "a", "limit": None}))
    assert json.loads(found[0]["text"]) == {"text": "a"}


async def test_a_timeout_is_passed_on(format: str) -> None:
    source = Showcase()
    await run(format, source, ("text", {}), timeout=1.5)
    assert source.calls[0][2] == {"timeout": 1.5}


async def test_wrong_types_and_timeouts_of_a_real_server_are_errors(format: str) -> None:
    server = tc.ToolServer("shop")
    started = asyncio.Event()

    @server.tool
    async def price(count: int) -> int:
        started.set()
        await asyncio.Event().wait()
        return count

    async with tc.Hub({"shop": server}) as hub:
        [wrong] = await run(format, hub, ("mcp__shop__price", {"count": "many"}))
        assert wrong["error"] and "count" in wrong["text"] and not started.is_set()
        [slow] = await run(format, hub, ("mcp__shop__price", {"count": 1}), timeout=0.05)
        assert slow["error"] and "may have run" in slow["text"]


async def test_after_the_block_the_error_is_raised(format: str) -> None:
    async with tc.Hub({"shop": tc.ToolServer("shop")}) as hub:
        pass
    with pytest.raises(UsageError):
        await run(format, hub, ("mcp__shop__price", {}))


async def test_tools_are_listed_and_compiled_once_for_a_source(format: str) -> None:
    source = Showcase()
    for _ in range(3):
        await run(format, source, ("text", {}), ("echo", {"text": "a"}))
    assert source.lists <= 2


async def test_nothing_keeps_a_source_alive(format: str) -> None:
    source = Showcase()
    await run(format, source, ("long", {}), max_result_tokens=10)
    gone = weakref.ref(source)
    del source
    gc.collect()
    assert gone() is None


def test_a_source_can_be_used_on_a_second_loop_after_the_first_has_ended(format: str) -> None:
    async def make() -> Showcase:
        return Showcase()

    source = asyncio.run(make())
    for _ in range(2):
        assert asyncio.run(run(format, source, ("text", {})))[0]["text"] == "hello"


def test_sync_sources_run_their_calls_at_once_too(format: str) -> None:
    server = tc.ToolServer("shop")
    both = threading.Barrier(2, timeout=10)

    @server.tool
    def meet(name: str) -> str:
        both.wait()
        return f"met {name}"

    with SyncHub({"shop": server}) as hub:
        assert names_in(format, FORMATS[format].tools(hub)) == ["mcp__shop__meet"]
        given = response(format, ("mcp__shop__meet", {"name": "a"}), ("mcp__shop__meet", {"name": "b"}))
        found = answers(format, FORMATS[format].results_sync(hub, given))
        assert [each["text"] for each in found] == ["met a", "met b"]
        assert FORMATS[format].results_sync(hub, response(format)) == []


async def test_the_caller_is_asked_before_calls_that_need_an_approval(format: str) -> None:
    source = Showcase()
    asked: list[ModelCall] = []

    async def approve(call: ModelCall) -> bool:
        assert not source.calls
        asked.append(call)
        return call.id == "c2"

    calls = (("delete", {}), ("delete", {}), ("text", {}))
    found = await run(format, source, *calls, approve=approve)
    assert [each["error"] for each in found] == [True, False, False]
    assert "did not approve" in found[0]["text"] and found[1]["text"] == "deleted"
    assert [call.id for call in asked] == ["c1", "c2"]
    assert [name for name, _, _ in source.calls] == ["delete", "text"]


async def test_a_call_that_needs_an_approval_is_an_error_without_a_way_to_ask(format: str) -> None:
    [found] = await run(format, Showcase(), ("delete", {}))
    assert found["error"] and "must approve" in found["text"]


async def test_call_tool_does_not_evade_an_approval(format: str) -> None:
    source = Showcase()
    calls = (("call_tool", {"name": "delete"}), ("call_tool", {"name": "echo", "arguments": {"text": "a"}}))
    found = await run(format, source, *calls, approve=lambda call: call.name != "delete")
    assert "did not approve" in found[0]["text"] and json.loads(found[1]["text"]) == {"text": "a"}
    assert [name for name, _, _ in source.calls] == ["echo"]


def deferring_hub() -> tc.Hub:
    server = tc.ToolServer("db")
    for name, text in {
        "find_rows": "Find rows",
        "vacuum": "Reclaim space on the disk",
        "grant": "Grant a role",
    }.items():
        server.add_tool(lambda table: f"done {table}", name=name, description=text)
    hub = tc.Hub({"db": server})
    hub.toolsets.register(tc.Toolset("db").defer_all().keep_loaded("find_rows"))
    return hub


async def test_deferred_tools_are_found_and_called_with_our_own_search(format: str) -> None:
    async with deferring_hub() as hub:
        assert names_in(format, FORMATS[format].tools(hub)) == ["mcp__db__find_rows"]
        names = names_in(format, FORMATS[format].tools(hub, deferred=True, search="own"))
        assert names[0] == "mcp__db__find_rows"
        given = response(format, ("search_tools", {"query": "disk space", "limit": 1}))
        [found] = await FORMATS[format].results(hub, given)
        assert "mcp__db__vacuum" in json.dumps(found) and "grant" not in json.dumps(found)
        call = ("call_tool", {"name": "mcp__db__vacuum", "arguments": {"table": "t"}})
        [done, direct] = await run(format, hub, call, ("mcp__db__grant", {"table": "u"}))
        assert (done["text"], direct["text"]) == ("done t", "done u")


async def test_all_tools_are_offered_without_a_search(format: str) -> None:
    async with deferring_hub() as hub:
        names = names_in(format, FORMATS[format].tools(hub, deferred=True, search=None))
        assert sorted(names) == ["mcp__db__find_rows", "mcp__db__grant", "mcp__db__vacuum"]


async def test_wrong_calls_of_our_own_tools_are_errors(format: str) -> None:
    calls = (
        ("search_tools", {"query": " "}),
        ("call_tool", {"name": "call_tool"}),
        ("call_tool", {}),
        ("read_more", {"handle": "none"}),
    )
    found = await run(format, Showcase(), *calls)
    assert [each["error"] for each in found] == [True] * 4
    assert "query" in found[0]["text"] and "name" in found[1]["text"] and "no longer kept" in found[3]["text"]


async def test_a_servers_tool_may_have_the_name_of_our_own(format: str) -> None:
    server = tc.ToolServer("files")
    server.add_tool(lambda: "mine", name="read_more")
    async with tc.Client(server) as client:
        await client.list_tools()
        assert names_in(format, FORMATS[format].tools(await client.list_tools(), read_more=True)) == [
            "read_more",
            "toolcrib_read_more",
        ]
        found = await run(format, client, ("read_more", {}), ("toolcrib_read_more", {"handle": "x"}))
        assert found[0]["text"] == "mine" and "no longer kept" in found[1]["text"]
        server.add_tool(lambda: "a" * 1000, name="long")
        [cut] = await run(format, client, ("long", {}), max_result_tokens=20)
        assert "Read on with toolcrib_read_more:" in cut["text"]
        rest = json.loads(cut["text"][cut["text"].index("{") : cut["text"].rindex("}") + 1])
        [more] = await run(format, client, ("toolcrib_read_more", rest), max_result_tokens=20)
        assert not more["error"] and "Read on with toolcrib_read_more:" in more["text"]


async def test_a_long_result_is_cut_and_read_to_its_end(format: str) -> None:
    source = Showcase()
    [found] = await run(format, source, ("long", {}), max_result_tokens=5000)
    text, pieces = "", 0
    while "[Cut:" in found["text"]:
        piece, _, note = found["text"].rpartition("\n[Cut:")
        text += piece
        pieces += 1
        arguments = json.loads(note[note.index("{") : note.rindex("}") + 1])
        [found] = await run(format, source, ("read_more", arguments), max_result_tokens=5000)
    text += found["text"]
    assert text == "".join(f"line {n}\n" for n in range(10_000)) and 3 < pieces < 8
    other = Showcase()
    [foreign] = await run(format, other, ("read_more", arguments))
    assert foreign["error"] and "no longer kept" in foreign["text"]


async def test_an_image_over_the_budget_is_left_out_and_can_be_read(format: str) -> None:
    source = Showcase()
    module = FORMATS[format]
    assert "read_more" in names_in(format, module.tools(source.tools, read_more=True))
    [found] = await run(format, source, ("image", {}), max_result_tokens=100)
    assert "a dot" in found["text"] and "Left out" in found["text"]
    note = found["text"]
    handle = json.loads(note[note.index("{") : note.rindex("}") + 1])
    results = await module.results(source, response(format, ("read_more", handle)), max_result_tokens=100)
    assert "Left out" not in str(results) and ("iVBOR" in str(results) or "PNG" in str(results))


async def test_a_budget_must_be_a_positive_number(format: str) -> None:
    with pytest.raises(UsageError, match="max_result_tokens: expected"):
        await run(format, Showcase(), ("text", {}), max_result_tokens=0)


async def test_a_hub_that_leaves_approvals_to_the_caller(format: str) -> None:
    server = tc.ToolServer("files")
    server.add_tool(lambda name: f"deleted {name}", name="delete")
    async with tc.Hub({"files": server}, approve="caller", require_approval=["mcp__files__delete"]) as hub:
        call = ("mcp__files__delete", {"name": "a"})
        [denied] = await run(format, hub, call)
        assert denied["error"] and "did not run" in denied["text"]
        [refused] = await run(
            format, hub, ("call_tool", {"name": call[0], "arguments": call[1]}), approve=lambda _: False
        )
        assert refused["error"] and "did not approve" in refused["text"]
        [done] = await run(format, hub, call, approve=lambda given: given.name == call[0])
        assert done["text"] == "deleted a"
        [view] = await run(format, hub.view(meta_tools=True), ("call_tool", {"name": call[0]}), approve=lambda _: False)
        assert view["error"] and "did not approve" in view["text"]
