"""Tools for Google's Agent Development Kit.

    async with toolcrib.Hub(servers) as hub:
        agent = LlmAgent(name="helper", model="gemini-3-pro", tools=[adk.toolset(hub)])  # listed for every turn
        agent = LlmAgent(name="helper", model="gemini-3-pro", tools=adk.tools(hub))  # a snapshot

A model gets `{"result": ...}`, or `{"error": ...}`; images, audio and files are media parts of the function response.
Schemas are compiled for Gemini, whose language other models understand too.
"""

from __future__ import annotations

from typing import Any, Unpack

from .answers import ContentPart, ToolAnswer
from .model_content import is_gemini_media, media_type
from .run_tools import RunToolsRegistry
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.base_toolset import BaseToolset
    from google.genai import types
except ImportError as exc:
    raise ImportError("toolcrib.adapters.adk needs the package google-adk: pip install google-adk") from exc


def tools(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> list[BaseTool]:
    """Return a snapshot of the tools, for `LlmAgent(tools=...)`.

    Tools that need an approval ask for ADK's tool confirmation before they run.
    """
    box = as_toolbox(source, target="gemini", **options)
    return [AdkTool(box, spec) for spec in box.tools()]


def toolset(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> BaseToolset:
    """Return a toolset for `LlmAgent(tools=[...])`, whose tools are listed for every turn.

    Filters of a hub receive the name of the agent and ADK's `ReadonlyContext`. The source must be open; closing the
    toolset does nothing.
    """
    return AdkToolset(as_toolbox(source, target="gemini", **options))


class AdkTool(BaseTool):
    """One tool; see `tools`."""

    def __init__(self, box: Toolbox, spec: ToolSpec) -> None:
        super().__init__(name=spec.name, description=spec.description)
        self._box = box
        self._spec = spec

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self._spec.input_schema
        )

    async def check_require_confirmation(self, args: dict[str, Any], tool_context: Any) -> bool:  # noqa: ARG002  # the interface of ADK
        """Return whether the call needs a confirmation."""
        return self._spec.needs_approval

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> dict[str, Any]:
        """Call the tool, after ADK's confirmation if it needs an approval."""
        if self._spec.needs_approval:
            confirmation = tool_context.tool_confirmation
            if confirmation is None:
                tool_context.request_confirmation(hint=f"Approve or reject the call of {self.name}.")
                tool_context.actions.skip_summarization = True  # else the model answers before the user does
                return {"error": "This tool call requires confirmation, please approve or reject."}
            if not confirmation.confirmed:
                return {"error": "This tool call is rejected. The tool did not run."}
        return _response_of(await self._box.call(self._spec.name, args, approved=self._spec.needs_approval))


class AdkToolset(BaseToolset):
    """A live list of tools; see `toolset`."""

    def __init__(self, box: Toolbox) -> None:
        super().__init__()
        self._use_invocation_cache = False  # the base class's switch: else the first list counts for the whole run
        self._runs = RunToolsRegistry(box)

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        """Return the tools, or the last ones if the source cannot list them: else ADK drops the whole toolset."""
        run = self._runs.shared
        if readonly_context is not None:
            agent = readonly_context.agent_name
            key = (agent, readonly_context.invocation_id)
            run = await self._runs.get(key, agent=agent, run_context=readonly_context)
        return [AdkTool(run.box, spec) for spec in await run.list_tools()]


def _response_of(answer: ToolAnswer) -> dict[str, Any]:
    """Return the response to a function call. ADK moves the media in it to the parts of the `FunctionResponse`."""
    response: dict[str, Any] = {"error": answer.text} if answer.is_error else {"result": answer.value}
    media = [_media_of(part) for part in answer.parts if is_gemini_media(part)]
    return {**response, "media": media} if media else response


def _media_of(part: ContentPart) -> types.Part:
    return types.Part(inline_data=types.Blob(data=part.data, mime_type=media_type(part)))
