"""Tools for LlamaIndex.

    async with Hub(servers) as hub:
        agent = FunctionAgent(tools=llama_index.tools(hub), llm=llm)
        print(await agent.run("..."))

`tools` is a snapshot. `FunctionAgent(tool_retriever=llama_index.retriever(hub))` lists the tools again in every turn.

Progress arrives as `ToolProgress` in the events of a run. A tool that needs approval emits an `ApprovalRequested` event
and waits for its `answer`: `handler.ctx.send_event(event.answer(True))`.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, Unpack

from .answers import ContentPart, ToolAnswer, to_json
from .run_tools import RunTools
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from llama_index.core.base.llms.types import AudioBlock, DocumentBlock, ImageBlock, TextBlock
    from llama_index.core.objects import ObjectRetriever
    from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
    from llama_index.core.workflow import Context, Event, HumanResponseEvent, InputRequiredEvent
    from pydantic import BaseModel, ConfigDict
except ImportError as exc:
    raise ImportError(f"toolcrib.adapters.llama_index needs LlamaIndex: pip install llama-index-core ({exc})") from exc

try:
    from workflows.runtime.types.results import StepWorkerStateContextVar
except ImportError:  # a version without it: calls that are equal, and wait at the same time, share their approval
    StepWorkerStateContextVar = ContextVar("step_worker")

MAX_OPENAI_DESCRIPTION: Final = 1024
"""Characters of a description that LlamaIndex allows for OpenAI."""

_CONTEXT: Final = "_toolcrib_context"
_DENIED: Final = "The call was denied. The tool did not run."


def tools(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> list[FunctionTool]:
    """Return a snapshot of the tools, for `FunctionAgent(tools=...)` and every other agent of LlamaIndex."""
    box = as_toolbox(source, **options)
    return [LlamaIndexTool(box, spec) for spec in box.tools()]


def retriever(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> ObjectRetriever[FunctionTool]:
    """Return a live list of the tools of a source, for `FunctionAgent(tool_retriever=...)`."""
    return ToolboxRetriever(as_toolbox(source, **options))


class ToolProgress(Event):
    """Progress of a running tool, in `handler.stream_events()`."""

    tool_name: str
    progress: float
    total: float | None = None
    message: str | None = None


class ApprovalRequested(InputRequiredEvent):
    """A call that waits for approval, in `handler.stream_events()`."""

    call_id: str
    tool_name: str
    arguments: dict[str, Any]

    def answer(self, approved: bool) -> HumanResponseEvent:
        """Return the event for `handler.ctx.send_event` that approves or denies the call."""
        return HumanResponseEvent(call_id=self.call_id, response=approved)


class LlamaIndexTool(FunctionTool):
    """One tool of a toolbox. It is a `FunctionTool` because only those get the context of the run."""

    def __init__(self, box: Toolbox, spec: ToolSpec) -> None:
        super().__init__(fn=_any_arguments, metadata=_Metadata(spec))
        self.requires_context = True
        self.ctx_param_name = _CONTEXT
        self._box = box
        self._spec = spec

    def call(self, /, *_: Any, **arguments: Any) -> ToolOutput:
        """Call the tool and block this thread."""
        arguments.pop(_CONTEXT, None)
        return self._output(arguments, self._box.call_sync(self._spec.name, arguments))

    async def acall(self, /, *_: Any, **arguments: Any) -> ToolOutput:
        """Call the tool."""
        context: Context | None = arguments.pop(_CONTEXT, None)
        name = self._spec.name
        if context is None:
            return self._output(arguments, await self._box.call(name, arguments))
        approved = self._spec.needs_approval
        if approved and not await _ask(context, name, arguments):
            return ToolOutput(name, _DENIED, raw_input=arguments, raw_output=_DENIED, is_error=True)

        def report(progress: float, total: float | None, message: str | None) -> None:
            event = ToolProgress(tool_name=name, progress=progress, total=total, message=message)
            context.write_event_to_stream(event)

        answer = await self._box.call(name, arguments, on_progress=report, approved=approved)
        return self._output(arguments, answer)

    def _output(self, arguments: dict[str, Any], answer: ToolAnswer) -> ToolOutput:
        return ToolOutput(
            self._spec.name,
            blocks=[block for part in answer.parts for block in _to_blocks(part)],
            raw_input=arguments,
            raw_output=answer.data if answer.has_data else answer.text,
            is_error=answer.is_error,
            exception=answer.error,
        )


class ToolboxRetriever(ObjectRetriever[FunctionTool]):
    """Retrieves all tools of a toolbox, whatever the query is."""

    def __init__(self, box: Toolbox) -> None:
        self._tools = RunTools(box)

    def retrieve(self, str_or_query_bundle: Any) -> list[FunctionTool]:  # noqa: ARG002
        """Return the tools now."""
        return [LlamaIndexTool(self._tools.box, spec) for spec in self._tools.tools()]

    async def aretrieve(self, str_or_query_bundle: Any) -> list[FunctionTool]:  # noqa: ARG002
        """Return the tools now."""
        return [LlamaIndexTool(self._tools.box, spec) for spec in await self._tools.list_tools()]


class _Metadata(ToolMetadata):
    """Metadata with the whole schema; that of LlamaIndex keeps only five keywords at the root."""

    def __init__(self, spec: ToolSpec) -> None:
        class Arguments(BaseModel):
            model_config = ConfigDict(extra="allow", title=spec.name)

            @classmethod
            def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
                return spec.input_schema

        super().__init__(description=spec.description, name=spec.name, fn_schema=Arguments)
        self._schema = spec.input_schema

    def get_parameters_dict(self) -> dict[str, Any]:
        return self._schema

    def to_openai_tool(self, skip_length_check: bool = False) -> dict[str, Any]:
        tool: dict[str, Any] = super().to_openai_tool(skip_length_check=True)
        if not skip_length_check and len(self.description) > MAX_OPENAI_DESCRIPTION:
            tool["function"]["description"] = self.description[: MAX_OPENAI_DESCRIPTION - 3] + "..."
        return tool


def _any_arguments(**_: Any) -> None:
    """Have a signature that accepts any keywords: LlamaIndex passes the arguments by position otherwise."""


async def _ask(context: Context, name: str, arguments: dict[str, Any]) -> bool:
    """Emit an `ApprovalRequested` event and wait for its answer; LlamaIndex runs the step again when it is there."""
    # The id of the step, which stays the same when the step runs again, tells equal calls apart.
    step = getattr(StepWorkerStateContextVar.get(None), "state", None)
    call_id = f"{getattr(step, 'work_item_id', '')} {name} {to_json(arguments)}"
    request = ApprovalRequested(call_id=call_id, tool_name=name, arguments=arguments)
    event = await context.wait_for_event(
        HumanResponseEvent, request, waiter_id=call_id, requirements={"call_id": call_id}, timeout=None
    )
    return event.get("response", False) is True


def _to_blocks(part: ContentPart) -> list[TextBlock | ImageBlock | AudioBlock | DocumentBlock]:
    """Return the part, and its description for agents that show their models only text."""
    text = TextBlock(text=part.as_text())
    match part.kind:
        case "image":
            return [text, ImageBlock(image=part.data, image_mimetype=part.mime_type)]
        case "audio":
            return [text, AudioBlock(audio=part.data, format=part.mime_type.rpartition("/")[2])]
        case "file":
            return [text, DocumentBlock(data=part.data, document_mimetype=part.mime_type, title=part.uri)]
        case _:
            return [text]
