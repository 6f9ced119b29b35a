"""Drives Pydantic AI with a `FunctionModel`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from pydantic_ai import Agent, BinaryContent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import DeferredToolRequests, DeferredToolResults, ToolDenied

import toolcrib as tc
from tests.frameworks.cases import open_bench
from tests.frameworks.driver import Ability, Call, Driver, Script, Seen, Transcript
from tests.frameworks.guide import load_ask
from tests.frameworks.lab import Lab
from toolcrib.adapters import pydantic_ai
from toolcrib.adapters.toolbox import as_toolbox


class PydanticAiDriver:
    package = "pydantic-ai-slim"
    source = "async"
    abilities: frozenset[Ability] = frozenset(
        {"images", "error-flag", "structured", "json-text", "progress", "cancel", "live", "approval"}
    )

    async def run(self, hub: Any, script: Script) -> Transcript:
        box = as_toolbox(hub)
        await box.list_tools()
        options = {"toolsets": [pydantic_ai.toolset(hub)]} if script.live else {"tools": pydantic_ai.tools(box)}
        return await run_agent(script, options)


async def run_agent(script: Script, options: dict[str, Any]) -> Transcript:
    """Run an agent with these options; approve `add` and deny the rest."""
    transcript = Transcript()
    agent = Agent(_scripted_model(script, transcript), output_type=[str, DeferredToolRequests], **options)

    async def collect(ctx: RunContext[Any], events: Any) -> None:
        async for event in events:
            if isinstance(event, pydantic_ai.ToolcribProgressEvent):
                transcript.progress.append(event)

    try:
        result = await agent.run("go", event_stream_handler=collect)
        while isinstance(result.output, DeferredToolRequests):
            decisions = DeferredToolResults()
            for call in result.output.approvals:
                transcript.approvals.append(call.tool_name)
                decisions.approvals[call.tool_call_id] = (
                    True if call.tool_name.endswith("add") else ToolDenied("a person denied it")
                )
            result = await agent.run(
                message_history=result.all_messages(), deferred_tool_results=decisions, event_stream_handler=collect
            )
    except Exception as exc:  # noqa: BLE001  # the transcript has it
        transcript.error = f"{type(exc).__name__}: {exc}"
    else:
        transcript.final = result.output
    return transcript


def _scripted_model(script: Script, transcript: Transcript) -> FunctionModel:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        turn = len(transcript.offered)
        transcript.offered.append([tool.name for tool in info.function_tools])
        transcript.schemas.update({tool.name: tool.parameters_json_schema for tool in info.function_tools})
        if turn:
            parts = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
            order = {f"{turn - 1}-{number}": number for number in range(len(parts))}
            transcript.answers.append(
                [_seen(part) for part in sorted(parts, key=lambda part: order[part.tool_call_id])]
            )
        await script.prepare(turn)
        if turn == len(script.turns):
            yield "done"
            return
        for number, call in enumerate(script.turns[turn]):
            arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
            yield {number: DeltaToolCall(call.name, arguments, tool_call_id=f"{turn}-{number}")}

    return FunctionModel(stream_function=stream)


def _seen(part: ToolReturnPart | RetryPromptPart) -> Seen:
    if isinstance(part, RetryPromptPart):
        return Seen(part.model_response(), is_error=True)
    images = [file.media_type for file in part.files if file.media_type.startswith("image/")]
    others = [file.media_type for file in part.files if not file.media_type.startswith("image/")]
    data = None if isinstance(part.content, str | list | BinaryContent) else part.content
    text = "\n".join([part.model_response_str(), *others])
    return Seen(text, part.outcome != "success", images, data)


driver: Driver = PydanticAiDriver()


async def a_toolset_has_the_same_results_as_the_snapshot(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        script = Script([[Call("mcp__lab__weather", {"city": "Bern"}), Call("mcp__lab__plot")]], live=True)
        transcript = await driver.run(bench.hub, script)
        data, image = transcript.answers[0]
        assert data.data == {"city": "Bern", "degrees": 7}
        assert image.images == ["image/png"]


async def retry_counts_errors(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        failing = [[Call("mcp__lab__fail", {"reason": "no"})]] * 3
        transcript = await run_agent(Script(failing), {"toolsets": [pydantic_ai.toolset(bench.hub, retry=True)]})
        assert transcript.error.startswith("UnexpectedModelBehavior"), transcript
        assert bench.lab.ran("fail") == 2


async def the_result_is_in_the_metadata(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        model = _scripted_model(Script([[Call("mcp__lab__mixed")]]), Transcript())
        async with Agent(model, toolsets=[pydantic_ai.toolset(bench.hub)]).run_stream("go") as result:
            assert await result.get_output() == "done"
        parts = [part for message in result.all_messages() for part in message.parts]
        (answer,) = [part for part in parts if isinstance(part, ToolReturnPart)]
        assert len(answer.metadata.content) == 6


async def a_toolset_asks_for_approval(driver: Driver) -> None:
    asked = {"require_approval": ["mcp__lab__add", "mcp__lab__fail"], "approve": "caller"}
    async with open_bench(driver, **asked) as bench:
        calls = [Call("mcp__lab__add", {"a": 1, "b": 2}), Call("mcp__lab__fail", {"reason": "it ran"})]
        transcript = await driver.run(bench.hub, Script([calls], live=True))
        assert not transcript.error, transcript
        assert len(transcript.approvals) == 2
        assert [name for name, _ in bench.lab.calls] == ["add"]


async def the_snippet_of_the_guide_works(driver: Driver) -> None:
    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        return ModelResponse([TextPart(f"done: {seen}") if seen else ToolCallPart("mcp__lab__add", {"a": 3, "b": 4})])

    servers = {"lab": Lab().server}
    assert await load_ask("pydantic_ai")(FunctionModel(respond), servers, "go") == "done: [7]"


async def filters_get_agent_and_deps(_driver: Driver) -> None:
    """A filter of the hub gets the agent and the `deps` of the run, for lists and for calls."""
    lab = Lab()
    agents = set()

    def only_staff(context: tc.FilterContext, tool: tc.Tool) -> bool:
        agents.add(None if context.agent is None else context.agent.name)
        return context.run_context == "staff" or not tool.name.endswith("secret")

    async with tc.Hub({"lab": lab.server}, tool_filter=tc.dynamic_filter(only_staff)) as hub:
        toolset = pydantic_ai.toolset(hub)
        offered: list[bool] = []

        def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            offered.append(any(tool.name == "mcp__lab__secret" for tool in info.function_tools))
            if len(messages) == 1:
                return ModelResponse([ToolCallPart("mcp__lab__secret", {})])
            return ModelResponse([TextPart("done")])

        agent = Agent(FunctionModel(respond), toolsets=[toolset], name="helper", deps_type=str)
        for deps in ("staff", "guest"):
            await agent.run("go", deps=deps)
        assert offered == [True, True, False, False], offered
        assert lab.ran("secret") == 1
        assert agents == {"helper"}


extra_cases = {
    case.__name__: case
    for case in (
        a_toolset_has_the_same_results_as_the_snapshot,
        retry_counts_errors,
        the_result_is_in_the_metadata,
        a_toolset_asks_for_approval,
        filters_get_agent_and_deps,
        the_snippet_of_the_guide_works,
    )
}
