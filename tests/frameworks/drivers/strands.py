"""Drives Strands with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from strands import Agent
from strands.models.model import Model

import toolcrib as tc
import toolcrib.sync
from tests.frameworks.cases import only_answer, open_bench
from tests.frameworks.driver import Ability, Call, Driver, Script, Seen, Transcript
from tests.frameworks.guide import load_ask
from tests.frameworks.lab import Lab
from tests.unit.kit import eventually
from toolcrib.adapters import Toolbox, strands


class ScriptedModel(Model):
    """Says what the script has, in the chunks of Bedrock's Converse API."""

    def __init__(self, script: Script, transcript: Transcript) -> None:
        self.script = script
        self.transcript = transcript

    def update_config(self, **config: Any) -> None:
        pass

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *arguments: Any, **keywords: Any) -> AsyncIterator[Any]:
        yield {}

    async def stream(
        self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **keywords: Any
    ) -> AsyncIterator[Any]:
        turn = len(self.transcript.offered)
        self.transcript.offered.append([spec["name"] for spec in tool_specs or []])
        self.transcript.schemas.update({spec["name"]: spec["inputSchema"]["json"] for spec in tool_specs or []})
        if turn:
            results = [block["toolResult"] for block in messages[-1]["content"] if "toolResult" in block]
            results.sort(key=lambda result: int(result["toolUseId"].rpartition("-")[2]))
            self.transcript.answers.append(list(map(_seen, results)))
        await self.script.prepare(turn)
        yield {"messageStart": {"role": "assistant"}}
        calls = self.script.turns[turn] if turn < len(self.script.turns) else []
        for number, call in enumerate(calls):
            arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            start = {"toolUse": {"name": call.name, "toolUseId": f"call-{turn}-{number}"}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


def _seen(result: dict[str, Any]) -> Seen:
    texts = [block["text"] for block in result["content"] if "text" in block]
    images = [f"image/{block['image']['format']}" for block in result["content"] if "image" in block]
    return Seen("\n".join(texts), result["status"] == "error", images, result.get("structuredContent"))


class StrandsDriver:
    package = "strands-agents"
    source = "async"
    abilities: frozenset[Ability] = frozenset(
        {"images", "error-flag", "structured", "progress", "cancel", "live", "approval"}
    )

    async def run(self, hub: Any, script: Script) -> Transcript:
        transcript = Transcript()
        options = (
            {"hooks": [strands.live_tools(hub)]} if script.live else {"tools": strands.tools(await Toolbox.load(hub))}
        )
        agent = Agent(model=ScriptedModel(script, transcript), callback_handler=None, **options)
        try:
            result = await _stream(agent, "go", transcript)
            while result.stop_reason == "interrupt":
                result = await _stream(
                    agent, [_decide(interrupt, transcript) for interrupt in result.interrupts], transcript
                )
        except Exception as exc:  # noqa: BLE001  # the transcript has it
            transcript.error = f"{type(exc).__name__}: {exc}"
        else:
            transcript.final = result.message["content"][-1].get("text", "")
        return transcript


async def _stream(agent: Agent, prompt: Any, transcript: Transcript) -> Any:
    result = None
    async for event in agent.stream_async(prompt):
        if "tool_stream_event" in event:
            transcript.progress.append(event["tool_stream_event"]["data"])
        result = event.get("result", result)
    return result


def _decide(interrupt: Any, transcript: Transcript) -> dict[str, Any]:
    tool = interrupt.reason["tool"]
    transcript.approvals.append(tool)
    return {"interruptResponse": {"interruptId": interrupt.id, "response": "yes" if tool.endswith("add") else "no"}}


driver: Driver = StrandsDriver()


def _agent(hub: Any, *turns: list[Call], **options: Any) -> tuple[Agent, Transcript]:
    transcript = Transcript()
    return Agent(model=ScriptedModel(Script(list(turns)), transcript), callback_handler=None, **options), transcript


async def a_sync_agent_uses_a_sync_hub(driver: Driver) -> None:
    lab = Lab()

    def run() -> Transcript:
        with toolcrib.sync.Hub({"lab": lab.server}) as hub:
            agent, transcript = _agent(hub, [Call("mcp__lab__add", {"a": 3, "b": 4})], tools=strands.tools(hub))
            transcript.final = str(agent("go")).strip()
            return transcript

    assert "7" in only_answer(await asyncio.to_thread(run)).text


async def a_tool_can_be_called_directly(driver: Driver) -> None:
    lab = Lab()

    def run() -> Any:
        with toolcrib.sync.Hub({"lab": lab.server}) as hub:
            agent, _ = _agent(hub, tools=strands.tools(hub))
            return agent.tool.mcp__lab__add(a=3, b=4), agent.tool.mcp__lab__fail(reason="the disk is full")

    added, failed = await asyncio.to_thread(run)
    assert (added["status"], added["content"]) == ("success", [{"text": "7"}])
    assert (failed["status"], failed["content"]) == ("error", [{"text": "the disk is full"}])


async def a_sync_agent_on_the_loop_of_an_async_hub_gets_a_usage_error(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        tools = strands.tools(await Toolbox.load(bench.hub))
        agent, transcript = _agent(bench.hub, [Call("mcp__lab__add", {"a": 3, "b": 4})], tools=tools)
        agent("go")  # blocks the loop of the hub
        assert "toolcrib.sync.Hub" in transcript.answers[0][0].text, transcript


async def the_cancel_signal_cancels_the_call(driver: Driver) -> None:
    lab = Lab()

    def run() -> str:
        with toolcrib.sync.Hub({"lab": lab.server}) as hub:
            agent, _ = _agent(hub, [Call("mcp__lab__wait")], tools=strands.tools(hub))
            agents.append(agent)
            return str(agent("go").stop_reason)

    agents: list[Agent] = []
    running = asyncio.create_task(asyncio.to_thread(run))
    await eventually(lambda: lab.is_waiting or running.done())
    agents[0].cancel()
    assert await running == "cancelled"
    assert lab.was_cancelled


async def names_that_differ_only_in_a_hyphen_are_told_apart(driver: Driver) -> None:
    server = tc.ToolServer("lab")
    server.add_tool(lambda: "one", name="a-b", description="One.")
    server.add_tool(lambda: "two", name="a_b", description="Two.")
    async with tc.Hub({"lab": server}) as hub:
        tools = strands.tools(await Toolbox.load(hub))
        calls = [Call(tool.tool_name) for tool in tools]
        agent, transcript = _agent(hub, calls, tools=tools)
        await agent.invoke_async("go")
        assert [seen.text for seen in transcript.answers[0]] == ["one", "two"]


async def live_tools_can_be_called_directly(driver: Driver) -> None:
    lab = Lab()

    def run() -> Any:
        with toolcrib.sync.Hub({"lab": lab.server}) as hub:
            agent, _ = _agent(hub, hooks=[strands.live_tools(hub)])
            return agent.tool.mcp__lab__add(a=3, b=4)

    assert (await asyncio.to_thread(run))["structuredContent"] == {"result": 7}


async def the_snippet_of_the_guide_works(driver: Driver) -> None:
    lab, transcript = Lab(), Transcript()
    model = ScriptedModel(Script([[Call("mcp__lab__add", {"a": 3, "b": 4})]]), transcript)
    said = await asyncio.to_thread(load_ask("strands"), model, {"lab": lab.server}, "go")
    assert said.strip() == "done"
    assert "7" in transcript.answers[0][0].text, transcript


extra_cases = {
    case.__name__: case
    for case in (
        a_sync_agent_uses_a_sync_hub,
        a_tool_can_be_called_directly,
        a_sync_agent_on_the_loop_of_an_async_hub_gets_a_usage_error,
        the_cancel_signal_cancels_the_call,
        names_that_differ_only_in_a_hyphen_are_told_apart,
        live_tools_can_be_called_directly,
        the_snippet_of_the_guide_works,
    )
}
