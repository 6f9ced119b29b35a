"""Tools for the Microsoft Agent Framework.

    async with toolcrib.Hub(servers) as hub:
        agent = Agent(client=client, tools=agent_framework.tools(hub))

The framework hides the messages of exceptions from the model, so errors are returned as text that begins with `Error:`.
"""

from __future__ import annotations

import copy
from typing import Any, Unpack

from ..errors import UsageError
from .answers import ContentPart, ToolAnswer
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from agent_framework import Content, FunctionTool, MiddlewareFailure
    from pydantic import BaseModel, ConfigDict
except ImportError as exc:
    raise ImportError(
        "toolcrib.adapters.agent_framework needs the package agent-framework-core: pip install agent-framework-core"
    ) from exc


def tools(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> list[FunctionTool]:
    """Return a snapshot of the tools, for `Agent(tools=...)`.

    Tools that need an approval have `approval_mode="always_require"`.
    """
    box = as_toolbox(source, target="openai", **options)
    return [_function_tool(box, spec) for spec in box.tools()]


def _function_tool(box: Toolbox, spec: ToolSpec) -> FunctionTool:
    async def call(**arguments: Any) -> ToolAnswer:
        try:
            return await box.call(spec.name, arguments, approved=spec.needs_approval)
        except UsageError as exc:
            raise _UsageFailure(str(exc)) from exc

    return FunctionTool(
        name=spec.name,
        description=spec.description,
        func=call,
        input_model=_unchecked_model(spec),
        result_parser=_contents_of,
        approval_mode="always_require" if spec.needs_approval else "never_require",
    )


class _UsageFailure(UsageError, MiddlewareFailure):
    """A `UsageError` that the framework does not turn into a result of the tool."""


def _unchecked_model(spec: ToolSpec) -> type[BaseModel]:
    """Return a model that has the schema of a tool and accepts all arguments.

    The framework's own check of a plain schema refuses the null of an optional argument, and the model reads only that
    "argument parsing failed". The source removes such nulls, and its errors say what is wrong.
    """

    class Input(BaseModel):
        model_config = ConfigDict(extra="allow")

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return copy.deepcopy(spec.input_schema)

    return Input


def _contents_of(answer: ToolAnswer) -> list[Content]:
    if answer.is_text:
        return [Content.from_text(f"Error: {answer.text}" if answer.is_error else answer.text)]
    contents = [_content_of(part) for part in answer.parts]
    return [Content.from_text("Error:"), *contents] if answer.is_error else contents


def _content_of(part: ContentPart) -> Content:
    if part.data and part.mime_type:
        return Content.from_data(data=part.data, media_type=part.mime_type)
    return Content.from_text(part.as_text())
