"""Tools for Pydantic AI.

    async with toolcrib.Hub.from_config(".mcp.json") as hub:
        agent = Agent("anthropic:claude-sonnet-5", toolsets=[pydantic_ai.toolset(hub)])
        print((await agent.run("What is in my notes?")).output)

The toolset is live: it lists the tools before every request to the model. `tools(hub)` is a snapshot for
`Agent(tools=...)`. The `ToolResult` of a call is in the `metadata` of its `ToolReturnPart`. Progress is emitted as
`ToolcribProgressEvent`. A tool that needs approval (`Hub(..., approve="caller")`) is deferred by Pydantic AI: its
approval arrives as `DeferredToolResults`, or through `HandleDeferredToolCalls`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Unpack

try:
    from pydantic_ai import BinaryContent, CustomEvent, RunContext, ToolReturn
    from pydantic_ai.exceptions import ModelRetry, ToolFailed
    from pydantic_ai.tools import Tool, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ImportError as exc:
    raise ImportError(
        "toolcrib.adapters.pydantic_ai needs pydantic-ai-slim 2.66 or later: pip install -U pydantic-ai-slim"
    ) from exc
from pydantic_core import SchemaValidator, core_schema

from .answers import ContentPart, ToolAnswer
from .run_tools import RunTools, RunToolsRegistry
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

MODEL_MEDIA_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})
"""What is sent as binary content. Some models of Pydantic AI raise for other types, which would end the run."""

_ANY_ARGUMENTS: Final = SchemaValidator(core_schema.any_schema())


@dataclass(kw_only=True)
class ToolcribProgressEvent(CustomEvent):
    """Progress of a tool; it has the `tool_call_id` and `tool_name` of its call."""

    progress: float
    total: float | None = None
    message: str | None = None


def toolset(
    source: AnySource | Toolbox, *, id: str | None = "toolcrib", retry: bool = False, **options: Unpack[ToolboxOptions]
) -> PydanticAiToolset:
    """Return a toolset for `Agent(toolsets=[...])`, which follows the tools of the source.

    Filters of a hub receive the agent, and the `deps` of the run as `run_context`.
    An error is shown to the model as a failed call. With `retry` it counts as a retry instead, and Pydantic AI ends
    the run when a tool has used its retries.
    """
    return PydanticAiToolset(as_toolbox(source, **options), id, retry)


def tools(source: AnySource | Toolbox, *, retry: bool = False, **options: Unpack[ToolboxOptions]) -> list[Tool[Any]]:
    """Return a snapshot of the tools, for `Agent(tools=...)`; `retry` as for `toolset`."""
    box = as_toolbox(source, **options)
    return [_tool_of(box, spec, retry) for spec in box.tools()]


class PydanticAiToolset(AbstractToolset[Any]):
    """The tools of a source, listed before every request to the model. Made by `toolset`."""

    def __init__(self, box: Toolbox, id: str | None, retry: bool) -> None:
        self._runs = RunToolsRegistry(box)
        self._id = id
        self._retry = retry

    @property
    def id(self) -> str | None:
        """The id of the toolset, which must be unique in an agent."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools of the source now."""
        run = await self._run_of(ctx)
        return {spec.name: self._tool_of(spec, ctx) for spec in await run.list_tools()}

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002  # part of the interface
    ) -> ToolReturn[Any]:
        """Call a tool of the source."""
        run = await self._run_of(ctx)
        return await _call(run.box, name, tool_args, ctx, self._retry)

    async def _run_of(self, ctx: RunContext[Any]) -> RunTools:
        if ctx.run_id is None:
            return self._runs.shared
        return await self._runs.get(ctx.run_id, agent=ctx.agent, run_context=ctx.deps)

    def _tool_of(self, spec: ToolSpec, ctx: RunContext[Any]) -> ToolsetTool[Any]:
        definition = ToolDefinition(
            name=spec.name,
            description=spec.description,
            parameters_json_schema=spec.input_schema,
            metadata=_metadata(spec),
            defer_loading=spec.deferred,
            kind="unapproved" if spec.needs_approval else "function",
        )
        retries = 1 if ctx.max_retries is None else ctx.max_retries
        return ToolsetTool(toolset=self, tool_def=definition, max_retries=retries, args_validator=_ANY_ARGUMENTS)


def _tool_of(box: Toolbox, spec: ToolSpec, retry: bool) -> Tool[Any]:
    async def call(ctx: RunContext[Any], /, **arguments: Any) -> ToolReturn[Any]:
        return await _call(box, spec.name, arguments, ctx, retry)

    tool: Tool[Any] = Tool.from_schema(call, spec.name, spec.description, spec.input_schema, takes_ctx=True)
    tool.metadata = _metadata(spec)
    tool.defer_loading = spec.deferred
    tool.requires_approval = spec.needs_approval
    return tool


def _metadata(spec: ToolSpec) -> dict[str, Any]:
    return {"server": spec.tool.server, "annotations": spec.tool.annotations}


async def _call(
    box: Toolbox, name: str, arguments: Mapping[str, Any], ctx: RunContext[Any], retry: bool
) -> ToolReturn[Any]:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        await ctx.emit(ToolcribProgressEvent(progress=progress, total=total, message=message))

    answer = await box.call(name, arguments, on_progress=report, approved=ctx.tool_call_approved)
    if answer.is_error:
        raise ModelRetry(answer.text) if retry else ToolFailed(answer.text)
    return ToolReturn(_value_of(answer), metadata=answer.result)


def _value_of(answer: ToolAnswer) -> Any:
    if answer.is_text:
        return answer.value
    content = [_content_of(part) for part in answer.parts]
    return content[0] if len(content) == 1 else content


def _content_of(part: ContentPart) -> str | BinaryContent:
    if part.data and part.mime_type in MODEL_MEDIA_TYPES:
        return BinaryContent(part.data, media_type=part.mime_type)
    return part.as_text()
