"""Tools for Agno.

    with toolcrib.sync.Hub(servers) as hub:
        Agent(model=model, tools=agno.tools(hub)).run("...")

    async with Hub(servers) as hub:
        await Agent(model=model, tools=agno.tools(hub)).arun("...")

`tools` is a snapshot. `Agent(tools=[agno.toolkit(hub)])` lists the tools again for every run. A tool that needs
approval pauses the run, as every tool with `requires_confirmation` does: see `agent.continue_run`.
"""

from __future__ import annotations

from typing import Any, Unpack

from .answers import ContentPart, PartKind, ToolAnswer
from .run_tools import RunTools
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from agno.media import Audio, File, Image
    from agno.tools import Toolkit
    from agno.tools.function import Function, ToolResult
except ImportError as exc:
    raise ImportError(f"toolcrib.adapters.agno needs Agno: pip install agno ({exc})") from exc


def tools(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> list[Toolkit]:
    """Return a snapshot of the tools, for `Agent(tools=...)`: a toolkit with functions for `run` and for `arun`."""
    box = as_toolbox(source, **options)
    found = ToolboxToolkit(box)
    specs = box.tools()
    found.functions.update(_functions(box, specs))
    found.async_functions.update(_async_functions(box, specs))
    return [found]


def toolkit(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> Toolkit:
    """Return a toolkit for `Agent(tools=[...])` whose tools are listed again for every run."""
    return LiveToolkit(as_toolbox(source, **options))


class ToolboxToolkit(Toolkit):
    """The tools of a toolbox. A copy of it uses the same connections."""

    def __init__(self, box: Toolbox) -> None:
        super().__init__(name="toolcrib", auto_register=False)
        self._box = box


class LiveToolkit(ToolboxToolkit):
    """The tools of a toolbox as they are now."""

    def __init__(self, box: Toolbox) -> None:
        super().__init__(box)
        self._run_tools = RunTools(box)

    def get_functions(self) -> dict[str, Function]:
        """Return the functions for `Agent.run`."""
        return _functions(self._box, self._run_tools.tools())

    def get_async_functions(self) -> dict[str, Function]:
        """Return the functions for `Agent.arun`."""
        return _async_functions(self._box, self._run_tools.tools())


def _functions(box: Toolbox, specs: list[ToolSpec]) -> dict[str, Function]:
    def make(spec: ToolSpec) -> Function:
        def call(**arguments: Any) -> Any:
            return _to_result(box.call_sync(spec.name, arguments, approved=spec.needs_approval))

        return _function(spec, call)

    return {spec.name: make(spec) for spec in specs}


def _async_functions(box: Toolbox, specs: list[ToolSpec]) -> dict[str, Function]:
    def make(spec: ToolSpec) -> Function:
        async def call(**arguments: Any) -> Any:
            return _to_result(await box.call(spec.name, arguments, approved=spec.needs_approval))

        return _function(spec, call)

    return {spec.name: make(spec) for spec in specs}


def _function(spec: ToolSpec, entrypoint: Any) -> Function:
    return Function(
        name=spec.name,
        description=spec.description,
        parameters=spec.input_schema,
        strict=False,  # else Agno makes optional arguments mandatory if the agent has an output schema
        entrypoint=entrypoint,
        skip_entrypoint_processing=True,
        requires_confirmation=spec.needs_approval or None,
    )


def _to_result(answer: ToolAnswer) -> ToolResult:
    """Return the answer as Agno's result; raise `RuntimeError` for an error, which Agno marks as one for the model."""
    if answer.is_error:
        raise RuntimeError(answer.text) from answer.error

    def of(kind: PartKind) -> list[ContentPart]:
        return [part for part in answer.parts if part.kind == kind and part.data]

    return ToolResult(
        content=answer.text,
        images=[Image(content=part.data, mime_type=part.mime_type) for part in of("image")] or None,
        audios=[Audio(content=part.data, mime_type=part.mime_type) for part in of("audio")] or None,
        files=[_to_file(part) for part in of("file")] or None,
        metadata=_metadata(answer),
    )


def _metadata(answer: ToolAnswer) -> dict[str, Any] | None:
    """Return the structured data as the server sent it, under the key that Agno's own MCP tools use."""
    if answer.result is None or not answer.has_data:
        return None
    return {"structured_content": answer.result.raw["structuredContent"]}


def _to_file(part: ContentPart) -> File:
    known = part.mime_type in File.valid_mime_types()
    return File(content=part.data, mime_type=part.mime_type if known else None, filename=part.uri)
