"""LlamaIndex: `FunctionAgent` with a scripted model that is one of LlamaIndex's own."""

from __future__ import annotations

from typing import Any, Literal

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, ImageBlock, TextBlock, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import ToolOutput

import toolcrib as tc
from tests.frameworks.driver import Ability, Driver, Script, Seen, Transcript
from toolcrib.adapters import llama_index


class LlamaIndexDriver:
    package = "llama-index-core"
    source: Literal["async", "sync"] = "async"
    abilities: frozenset[Ability] = frozenset(
        {"images", "error-flag", "structured", "progress", "cancel", "live", "approval"}
    )

    async def run(self, hub: Any, script: Script) -> Transcript:
        transcript = Transcript()
        options = {"tool_retriever": llama_index.retriever(hub)} if script.live else {"tools": llama_index.tools(hub)}
        model = ScriptedModel(script, transcript)
        handler = FunctionAgent(llm=model, streaming=False, **options).run("go", max_iterations=50)
        results: dict[str, ToolOutput] = {}
        try:
            async for event in handler.stream_events():
                if isinstance(event, ToolCallResult):
                    results[event.tool_id] = event.tool_output
                elif isinstance(event, llama_index.ToolProgress):
                    transcript.progress.append((event.progress, event.total, event.message))
                elif isinstance(event, llama_index.ApprovalRequested):
                    transcript.approvals.append(event.tool_name)
                    handler.ctx.send_event(event.answer("fail" not in event.tool_name))
            transcript.final = str(await handler)
        except Exception as exc:  # noqa: BLE001  # the transcript has it
            transcript.error = f"{type(exc).__name__}: {exc}"
        finally:
            if not handler.done():
                await handler.cancel_run()
        for turn, calls in enumerate(script.turns):
            outputs = [results.get(f"{turn}-{n}") for n in range(len(calls))]
            transcript.answers.append([_seen(output) for output in outputs if output is not None])
        return transcript


class ScriptedModel(MockFunctionCallingLLM):  # type: ignore[misc]  # the framework is not installed here
    """Makes the calls of a script."""

    def __init__(self, script: Script, transcript: Transcript) -> None:
        super().__init__()
        self._script = script
        self._transcript = transcript

    async def achat_with_tools(self, tools: Any, *_: Any, **__: Any) -> ChatResponse:
        turn = len(self._transcript.offered)
        functions = [tool.metadata.to_openai_tool()["function"] for tool in tools]
        self._transcript.offered.append([function["name"] for function in functions])
        self._transcript.schemas = {function["name"]: function["parameters"] for function in functions}
        await self._script.prepare(turn)
        blocks: list[Any] = [TextBlock(text="done")]
        if turn < len(self._script.turns):
            blocks = [
                ToolCallBlock(tool_call_id=f"{turn}-{n}", tool_name=call.name, tool_kwargs=call.arguments)
                for n, call in enumerate(self._script.turns[turn])
            ]
        return ChatResponse(message=ChatMessage(role="assistant", blocks=blocks))


def _seen(output: ToolOutput) -> Seen:
    images = [str(block.image_mimetype) for block in output.blocks if isinstance(block, ImageBlock)]
    data = None if isinstance(output.raw_output, str) else output.raw_output
    return Seen(output.content, output.is_error, images, data)


driver: Driver = LlamaIndexDriver()


async def check_long_descriptions_and_whole_schemas(driver: Driver) -> None:
    """A description over the limit of LlamaIndex is shortened for OpenAI only, and no part of a schema is lost."""
    schema = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/point"}},
        "$defs": {"point": {"type": "integer"}},
        "additionalProperties": False,
        "description": "One number.",
    }
    server = tc.ToolServer("lab")
    server.add_tool(lambda arguments: f"{len(arguments)}", name="long", description="x" * 2000, input_schema=schema)
    async with tc.Hub({"lab": server}) as hub:
        (tool,) = llama_index.tools(hub)
        assert tool.metadata.description == "x" * 2000
        shown = tool.metadata.to_openai_tool()["function"]
        assert len(shown["description"]) == llama_index.MAX_OPENAI_DESCRIPTION
        assert shown["parameters"]["additionalProperties"] is False
        assert tool.metadata.fn_schema.model_json_schema() == shown["parameters"]


extra_cases = {"long descriptions and whole schemas": check_long_descriptions_and_whole_schemas}
