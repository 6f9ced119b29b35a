"""A client and a server in one process: the same outcomes as over a wire, without one."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import Clock, eventually, turns
from tests.unit.server.in_process_kit import ERAS, SampleServer, both
from toolcrib.types import Wire

# ---- calls ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["auto", *ERAS])
async def test_a_call_gives_what_the_function_returns(mode: Any) -> None:
    async with tc.Client(SampleServer().server, mode=mode) as client:
        assert (await client.call_tool("add", {"a": 2, "b": 3})).data == 5
        assert client.name == "crib"
        info = client.server_info
        assert info is not None and (info.name, info.version, info.instructions) == ("crib", "1.0.0", "Be kind")
        assert info.protocol_version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
        assert "add" in [tool.name for tool in await client.list_tools()]
        assert await client.ping() >= 0


@both
async def test_the_same_errors_come_as_over_a_wire(mode: Any) -> None:
    server = SampleServer().server

    @server.tool
    async def refuse() -> None:
        raise tc.RemoteError(-32050 if mode == "legacy" else 17, "no", {"why": [1]})

    @server.tool
    async def fail() -> None:
        raise tc.ToolFailed("bad luck")

    async with tc.Client(server, mode=mode) as client:
        with pytest.raises(tc.ToolNotFound) as missing:
            await client.call_tool("ad", {})
        assert missing.value.nearest == ("add",)
        wrong = await client.call_tool("add", {"a": "x", "b": 3})
        assert wrong.is_error and "a:" in wrong.text
        failed = await client.call_tool("fail")
        assert failed.is_error and failed.text == "bad luck"
        with pytest.raises(tc.RemoteError) as refused:
            await client.call_tool("refuse")
        assert (refused.value.message, refused.value.data) == ("no", {"why": [1]})
        with pytest.raises(tc.RemoteError) as unknown:
            await client.request("tools/fly")
        assert unknown.value.code == -32601
        with pytest.raises(tc.ResourceNotFound):
            await client.read_resource("nowhere://x")


@both
async def test_each_era_has_only_its_own_methods(mode: Any) -> None:
    gone = {"legacy": ["server/discover", "subscriptions/listen"], "2026-07-28": ["initialize", "ping"]}
    async with tc.Client(SampleServer().server, mode=mode) as client:
        for method in gone[mode]:
            with pytest.raises(tc.RemoteError) as caught:
                await client.request(method)
            assert caught.value.code == -32601


async def test_an_error_that_a_tool_keeps_is_not_changed_by_its_callers() -> None:
    server, kept = tc.ToolServer("s"), tc.RemoteError(17, "always the same")

    @server.tool
    async def refuse() -> None:
        raise kept

    async with tc.Client(server) as client:
        with pytest.raises(tc.RemoteError) as caught:
            await client.call_tool("refuse")
    assert caught.value is not kept
    assert (kept.server, kept.tool) == (None, None)


async def test_an_internal_error_reveals_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SampleServer()
    monkeypatch.setattr(sample.server, "page_size", "many")
    async with tc.Client(sample.server) as client:
        with pytest.raises(tc.RemoteError, match="Internal error") as caught:
            await client.list_tools()
        assert caught.value.code == -32603
    assert "TypeError" in caplog.text


@both
async def test_resources_prompts_and_completions_are_there_too(mode: Any) -> None:
    server = SampleServer().server
    server.add_resource(lambda: "text", "a:b", name="r")
    server.add_resource(lambda x: f"<{x}>", "t:{x}", name="t")
    server.add_prompt(lambda topic: f"Explain {topic}", name="explain")
    server.completion("explain", "topic")(lambda: ["tides", "moon"])
    async with tc.Client(server, mode=mode) as client:
        assert (await client.read_resource("a:b")).text == "text"
        assert (await client.read_resource("t:1")).text == "<1>"
        assert [r.uri for r in await client.list_resources()] == ["a:b"]
        assert [t.uri_template for t in await client.list_resource_templates()] == ["t:{x}"]
        assert (await client.get_prompt("explain", {"topic": "tides"})).text == "Explain tides"
        assert [p.name for p in await client.list_prompts()] == ["explain"]
        assert (await client.complete("explain", "topic", "ti")).values == ("tides",)


# ---- isolation of values -------------------------------------------------------------------------------------


@both
async def test_arguments_are_the_tools_own(mode: Any) -> None:
    sample = SampleServer()
    given: Wire = {"list": [1, {"deep": []}], "pair": (1, 2)}
    async with tc.Client(sample.server, mode=mode, clean_arguments="never") as client:
        await client.call_tool("keep", {"value": given})
        given["list"][1]["deep"].append("later")
        sample.seen[0]["mine"] = True
    assert sample.seen == [{"list": [1, {"deep": []}], "pair": [1, 2], "mine": True}]
    assert "mine" not in given


async def test_what_json_cannot_say_is_the_callers_mistake_here_too() -> None:
    sample = SampleServer()
    async with tc.Client(sample.server) as client:
        for value in (object(), float("nan"), {1, 2}):
            with pytest.raises(tc.UsageError, match="JSON"):
                await client.call_tool("keep", {"value": value})
    assert sample.seen == []


@both
async def test_a_list_that_was_given_out_is_not_the_servers(mode: Any) -> None:
    sample = SampleServer()
    async with tc.Client(sample.server, mode=mode) as client:
        for _ in range(2):
            tool = next(tool for tool in await client.list_tools(use_cache=False) if tool.name == "add")
            assert tool.input_schema["required"] == ["a", "b"]
            tool.raw["inputSchema"].clear()


async def test_a_call_makes_no_task_and_leaves_no_timer() -> None:
    sample = SampleServer()
    async with tc.Client(sample.server) as client:
        await client.call_tool("add", {"a": 1, "b": 1})
        await turns()
        loop, made = asyncio.get_running_loop(), []

        def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
            made.append(work)
            return asyncio.Task(work, loop=loop, **options)

        loop.set_task_factory(factory)
        try:
            for _ in range(100):
                assert (await client.call_tool("add", {"a": 2, "b": 3}, timeout=30)).data == 5
                assert (await client.call_tool("talk", {"times": 0}, timeout=None)).text == "said"
        finally:
            loop.set_task_factory(None)
        assert made == []
        timers = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        assert len(timers) <= 2


async def test_a_tool_sees_what_its_caller_has_set() -> None:
    server, user = tc.ToolServer("s"), contextvars.ContextVar("user", default="nobody")

    @server.tool
    def who() -> str:
        return user.get()

    user.set("ann")
    async with tc.Client(server) as client:
        assert (await client.call_tool("who")).text == "ann"


# ---- talking back --------------------------------------------------------------------------------------------


@both
async def test_progress_and_logs_arrive_while_the_tool_runs(mode: Any) -> None:
    progress: list[Any] = []
    logs: list[tc.LogMessage] = []
    async with tc.Client(SampleServer().server, mode=mode, log_handler=logs.append) as client:
        await turns()  # the legacy era sets its level beside the calls
        result = await client.call_tool("talk", {"times": 2}, on_progress=lambda *step: progress.append(step))
    assert result.text == "said"
    assert progress == [(0, 2, "step 0"), (1, 2, "step 1")]
    assert logs == [tc.LogMessage("info", f"line {number}", "crib") for number in range(2)]


@both
async def test_a_client_that_requests_no_progress_and_no_logs_gets_none(mode: Any) -> None:
    async with tc.Client(SampleServer().server, mode=mode, log_handler=pytest.fail, log_level="error") as client:
        await turns()
        assert (await client.call_tool("talk", {"times": 2})).text == "said"


@both
async def test_the_answer_waits_for_a_slow_progress_handler(mode: Any) -> None:
    reported: list[float] = []

    async def slow(progress: float, total: float | None, message: str | None) -> None:
        await turns()
        reported.append(progress)

    async with tc.Client(SampleServer().server, mode=mode) as client:
        await client.call_tool("talk", {"times": 3}, on_progress=slow)
        assert reported == [0, 1, 2]


@both
async def test_a_tool_asks_the_clients_handlers(mode: Any) -> None:
    async def person(request: tc.ElicitRequest) -> Wire:
        assert request.message == "Go on?"
        return {"ok": True}

    options: Any = {
        "mode": mode,
        "elicitation_handler": person,
        "sampling_handler": lambda request: f"answer to {request.text}",
        "roots": ["file:///a"],
    }
    async with tc.Client(SampleServer().server, **options) as client:
        assert (await client.call_tool("question", {"kind": "elicit"})).text == '{"ok":true}'
        assert (await client.call_tool("question", {"kind": "sample"})).text == "answer to Capital of France?"
        assert (await client.call_tool("question", {"kind": "roots"})).text == '["file:///a"]'


async def test_what_the_client_cannot_answer_is_not_asked() -> None:
    async with tc.Client(SampleServer().server, mode="legacy") as client:
        result = await client.call_tool("question", {"kind": "sample"})
        assert result.is_error and "sampling" in result.text
    async with tc.Client(SampleServer().server, mode="2026-07-28") as client:
        with pytest.raises(tc.RemoteError) as caught:
            await client.call_tool("question", {"kind": "sample"})
        assert (caught.value.code, caught.value.data) == (-32021, {"requiredCapabilities": {"sampling": {}}})


@both
async def test_no_deadline_passes_while_a_person_is_asked(mode: Any) -> None:
    clock = Clock()

    async def person(request: tc.ElicitRequest) -> bool:
        await clock.advance(3600)
        return True

    async with tc.Client(SampleServer().server, mode=mode, elicitation_handler=person) as client:
        result = await client.call_tool("question", {"kind": "elicit"}, timeout=5)
        assert not result.is_error


# ---- changes -------------------------------------------------------------------------------------------------


@both
async def test_a_changed_list_is_reported_and_the_cached_one_dropped(mode: Any) -> None:
    sample = SampleServer()
    async with tc.Client(sample.server, mode=mode, cache_tools_list=True) as client, client.listen() as changes:
        before = len(await client.list_tools())
        sample.server.add_tool(lambda: None, name="new")
        async with asyncio.timeout(10):
            assert (await anext(changes)).kind == "tools"
        assert len(await client.list_tools()) == before + 1


@both
async def test_an_updated_resource_is_reported_to_subscribers(mode: Any) -> None:
    server = SampleServer().server
    server.add_resource(lambda: "x", "a:b", name="r")
    async with tc.Client(server, mode=mode) as client, client.listen("a:b", tools=False) as changes:
        server.notify_resource_updated("a:c")
        await asyncio.to_thread(server.notify_resource_updated, "a:b")
        async with asyncio.timeout(10):
            assert await anext(changes) == tc.Change("resource", "a:b")


@both
async def test_a_closed_client_watches_nothing(mode: Any) -> None:
    server = SampleServer().server
    server.add_resource(lambda: "x", "a:b", name="r")
    async with tc.Client(server, mode=mode) as client, client.listen("a:b"):
        await eventually(lambda: len(server.changes) > 0)
    await turns()
    assert len(server.changes) == 0
