"""Tools for LangChain and LangGraph.

    async with toolcrib.Hub.from_config(".mcp.json") as hub:
        agent = create_agent(model, langchain.tools(hub))  # a snapshot of the tools
        agent = create_agent(model, middleware=[langchain.middleware(hub)])  # the tools at each turn
        await agent.ainvoke({"messages": [("user", "...")]})

With a `toolcrib.sync.Hub`, `agent.invoke` and `agent.ainvoke` both work; with an async `Hub`, `ainvoke`.
A `ToolMessage` has the tool's result as its artifact, in the protocol's form: `toolcrib.ToolResult(message.artifact)`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Unpack

from ..transports.channel import ProgressHandler
from .answers import ContentPart, ToolAnswer
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from langchain_core.callbacks import adispatch_custom_event
    from langchain_core.messages.content import create_file_block, create_image_block, create_text_block
    from langchain_core.runnables.config import ensure_config
    from langchain_core.tools import BaseTool, ToolException
    from langgraph.config import get_stream_writer
    from langgraph.types import interrupt
    from pydantic import PrivateAttr
except ImportError as exc:
    raise ImportError("toolcrib.adapters.langchain needs LangChain 1.0 or later: pip install -U langchain") from exc

PROGRESS_EVENT = "toolcrib_progress"
"""The `type` of progress reports in the stream `custom`, and the name of LangChain's custom events for them."""


def tools(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> list[BaseTool]:
    """Return a snapshot of the tools, for `create_agent(model, tools)`, a `ToolNode`, or `bind_tools`."""
    box = as_toolbox(source, **options)
    return [HubTool.from_spec(box, spec) for spec in box.tools()]


def middleware(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> Any:
    """Return a middleware for `create_agent` that offers the tools that the source has at each turn of the model."""
    from .langchain_middleware import LiveTools  # noqa: PLC0415  # LangGraph without LangChain has no middleware

    return LiveTools(as_toolbox(source, **options), HubTool.from_spec)


class HubTool(BaseTool):
    """One tool of a toolbox."""

    _box: Toolbox = PrivateAttr()
    _spec: ToolSpec = PrivateAttr()

    @classmethod
    def from_spec(cls, box: Toolbox, spec: ToolSpec) -> HubTool:
        """Return the tool for LangChain."""
        tool = cls(
            name=spec.name,
            description=spec.description,
            args_schema=spec.input_schema,
            response_format="content_and_artifact",
            handle_tool_error=_content_of_error,
            metadata={"mcp_server": spec.tool.server, "annotations": dict(spec.tool.annotations)},
            extras={"defer_loading": True} if spec.deferred else None,
        )
        tool._box, tool._spec = box, spec
        return tool

    # No named parameters: LangChain would put values of its own in place of arguments of the same name.
    def _run(self, /, **arguments: Any) -> tuple[Any, Any]:
        arguments, approved = self._review(arguments)
        report = self._report_to_graph()
        answer = self._box.call_sync(self._spec.name, arguments, on_progress=report, approved=approved)
        return _content_and_artifact(answer)

    async def _arun(self, /, **arguments: Any) -> tuple[Any, Any]:
        arguments, approved = self._review(arguments)
        report = self._report_to_graph() or self._report_to_callbacks()
        answer = await self._box.call(self._spec.name, arguments, on_progress=report, approved=approved)
        return _content_and_artifact(answer)

    def _review(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Interrupt the graph for a tool that needs approval; return the arguments, and whether they are approved.

        Request and decisions have the form of LangChain's `HumanInTheLoopMiddleware`.
        """
        if not self._spec.needs_approval:
            return arguments, False
        try:
            decision = interrupt(_review_request(self._spec, arguments))
        except (RuntimeError, KeyError):
            return arguments, False  # outside a graph, where only the hub can decide
        if isinstance(decision, Mapping) and decision.get("decisions"):
            decision = decision["decisions"][0]
        kind = decision.get("type") if isinstance(decision, Mapping) else decision
        if kind in (True, "approve"):
            return arguments, True
        if isinstance(decision, Mapping) and kind == "edit":
            edited = decision["edited_action"]
            if edited.get("name", self.name) != self.name:
                raise ToolException(f"the user wants {edited['name']} instead of {self.name}, which did not run.")
            return dict(edited["args"]), True
        reason = decision.get("message") if isinstance(decision, Mapping) else None
        raise ToolException(reason or f"the user rejected the call of {self.name}. The tool did not run.")

    def _report_to_graph(self) -> ProgressHandler | None:
        try:
            write = get_stream_writer()
        except (RuntimeError, KeyError):  # outside a graph
            return None
        return lambda *progress: write({"type": PROGRESS_EVENT, **self._progress_data(*progress)})

    def _report_to_callbacks(self) -> ProgressHandler:
        config = ensure_config()

        async def report(*progress: Any) -> None:
            with contextlib.suppress(RuntimeError):  # without callbacks there is no run to report to
                await adispatch_custom_event(PROGRESS_EVENT, self._progress_data(*progress), config=config)

        return report

    def _progress_data(self, progress: float, total: float | None, message: str | None) -> dict[str, Any]:
        return {"tool": self.name, "progress": progress, "total": total, "message": message}


class CallFailed(ToolException):
    """The error of a call, with its answer."""

    def __init__(self, answer: ToolAnswer) -> None:
        super().__init__(answer.text)
        self.answer = answer


def _content_and_artifact(answer: ToolAnswer) -> tuple[Any, Any]:
    if answer.is_error:
        raise CallFailed(answer)
    # Checkpoints keep JSON types; they cannot keep a ToolResult.
    return _content_of(answer), None if answer.result is None else dict(answer.result.raw)


def _content_of_error(error: ToolException) -> Any:
    return _content_of(error.answer) if isinstance(error, CallFailed) else str(error)


def _content_of(answer: ToolAnswer) -> Any:
    return answer.text if answer.is_text else list(map(_block_of, answer.parts))


def _block_of(part: ContentPart) -> Any:
    match part.kind:
        case "image":
            return create_image_block(base64=part.base64, mime_type=part.mime_type)
        case "file" if part.mime_type == "application/pdf":
            return create_file_block(base64=part.base64, mime_type=part.mime_type)
        case _:
            return create_text_block(text=part.as_text())


def _review_request(spec: ToolSpec, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "action_requests": [{"name": spec.name, "args": arguments, "description": spec.description}],
        "review_configs": [{"action_name": spec.name, "allowed_decisions": ["approve", "edit", "reject"]}],
    }
