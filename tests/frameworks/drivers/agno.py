"""Agno: `Agent.arun` with an async hub, and `Agent.run` in a case of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.run.agent import RunOutput

import toolcrib as tc
from tests.frameworks.driver import Ability, Call, Driver, Script, Seen, Transcript
from toolcrib import sync
from toolcrib.adapters import agno
from toolcrib.events import ToolsChanged


class AgnoDriver:
    package = "agno"
    source: Literal["async", "sync"] = "async"
    abilities: frozenset[Ability] = frozenset({"images", "error-flag", "cancel", "approval"})

    async def run(self, hub: Any, script: Script) -> Transcript:
        model = ScriptedModel(script=script)
        tools = [agno.toolkit(hub)] if script.live else agno.tools(hub)
        agent = Agent(model=model, tools=tools, telemetry=False)
        try:
            output = await agent.arun("go")
            while output.is_paused:
                _decide(output, model.transcript)
                output = await agent.acontinue_run(run_response=output)
            _finish(output, model)
        except Exception as exc:  # noqa: BLE001  # the transcript has it
            model.transcript.error = f"{type(exc).__name__}: {exc}"
        return model.transcript


def run_sync(hub: sync.Hub, script: Script) -> Transcript:
    model = ScriptedModel(script=script)
    output = Agent(model=model, tools=agno.tools(hub), telemetry=False).run("go")
    _finish(output, model)
    return model.transcript


def _decide(output: RunOutput, transcript: Transcript) -> None:
    for requirement in output.active_requirements:
        name = requirement.tool_execution.tool_name
        transcript.approvals.append(name)
        if "fail" in name:
            requirement.reject()
        else:
            requirement.confirm()


def _finish(output: RunOutput, model: ScriptedModel) -> None:
    if output.status.value == "ERROR":
        model.transcript.error = str(output.content)
    else:
        model.transcript.final = str(output.content)
    seen: dict[str, Seen] = {}
    for message in output.messages or []:
        if message.role == "tool":
            seen[message.tool_call_id] = Seen(str(message.content), bool(message.tool_call_error))
        elif message.images:  # Agno sends images to the model in a user message after those of the tools
            next(reversed(seen.values())).images += [str(image.mime_type) for image in message.images]
    for turn, calls in enumerate(model.script.turns):
        found = [seen.get(f"{turn}-{n}") for n in range(len(calls))]
        model.transcript.answers.append([answer for answer in found if answer is not None])


@dataclass
class ScriptedModel(Model):  # type: ignore[misc]  # the framework is not installed here
    """Makes the calls of a script."""

    id: str = "scripted"
    script: Script = field(default_factory=lambda: Script([]))
    transcript: Transcript = field(default_factory=Transcript)

    def _answer(self, turn: int) -> ModelResponse:
        if turn >= len(self.script.turns):
            return ModelResponse(role="assistant", content="done")
        calls = [self._call(f"{turn}-{n}", call) for n, call in enumerate(self.script.turns[turn])]
        return ModelResponse(role="assistant", tool_calls=calls)

    def _call(self, identifier: str, call: Call) -> dict[str, Any]:
        text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
        return {"id": identifier, "type": "function", "function": {"name": call.name, "arguments": text}}

    def _offer(self, tools: list[Any] | None) -> int:
        functions = [tool["function"] for tool in tools or []]
        self.transcript.offered.append([function["name"] for function in functions])
        self.transcript.schemas = {function["name"]: function["parameters"] for function in functions}
        return len(self.transcript.offered) - 1

    def invoke(self, *_: Any, tools: list[Any] | None = None, **__: Any) -> ModelResponse:
        turn = self._offer(tools)
        self.script.prepare_sync(turn)
        return self._answer(turn)

    async def ainvoke(self, *_: Any, tools: list[Any] | None = None, **__: Any) -> ModelResponse:
        turn = self._offer(tools)
        await self.script.prepare(turn)
        return self._answer(turn)

    def invoke_stream(self, *arguments: Any, **options: Any) -> Iterator[ModelResponse]:
        yield self.invoke(*arguments, **options)

    async def ainvoke_stream(self, *arguments: Any, **options: Any) -> AsyncIterator[ModelResponse]:
        yield await self.ainvoke(*arguments, **options)

    def _parse_provider_response(self, response: ModelResponse, **_: Any) -> ModelResponse:
        return response

    def _parse_provider_response_delta(self, response: ModelResponse, **_: Any) -> ModelResponse:
        return response


driver: Driver = AgnoDriver()


def make_lab() -> tc.ToolServer:
    server = tc.ToolServer("lab")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


async def check_sync_runs(driver: Driver) -> None:
    """`Agent.run` calls the tools of a sync hub."""

    def run() -> Transcript:
        with sync.Hub({"lab": make_lab()}) as hub:
            return run_sync(hub, Script([[Call("mcp__lab__add", {"a": 2, "b": 3})]]))

    transcript = await asyncio.to_thread(run)
    assert transcript.answers == [[Seen("5", False)]], transcript


async def check_sync_hub_in_async_runs(driver: Driver) -> None:
    """`Agent.arun` calls the tools of a sync hub."""
    with await asyncio.to_thread(sync.Hub({"lab": make_lab()}).__enter__) as hub:
        transcript = await driver.run(hub, Script([[Call("mcp__lab__add", {"a": 2, "b": 3})]]))
    assert transcript.answers == [[Seen("5", False)]], transcript


async def check_live_toolkit(driver: Driver) -> None:
    """Every run of the live toolkit offers the tools of that moment."""
    server = make_lab()
    async with tc.Hub({"lab": server}) as hub:
        agent = Agent(model=ScriptedModel(script=Script([])), tools=[agno.toolkit(hub)], telemetry=False)
        await agent.arun("go")
        changed = asyncio.Event()
        hub.on(ToolsChanged, lambda _: changed.set())
        server.add_tool(lambda: "new", name="new")
        await asyncio.wait_for(changed.wait(), 10)
        await agent.arun("go")
        assert agent.model.transcript.offered == [["mcp__lab__add"], ["mcp__lab__add", "mcp__lab__new"]]


async def check_structured_data_is_in_the_metadata(driver: Driver) -> None:
    """The result of a function has the structured data beside the text for the model."""
    async with tc.Hub({"lab": make_lab()}) as hub:
        (toolkit,) = agno.tools(hub)
        result = await toolkit.get_async_functions()["mcp__lab__add"].entrypoint(a=2, b=3)
        assert (result.content, result.metadata) == ("5", {"structured_content": {"result": 5}})


extra_cases = {
    "sync runs": check_sync_runs,
    "sync hub in async runs": check_sync_hub_in_async_runs,
    "live toolkit": check_live_toolkit,
    "structured data": check_structured_data_is_in_the_metadata,
}
