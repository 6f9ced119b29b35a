"""Tools for the OpenAI Agents SDK.

    async with toolcrib.Hub(servers) as hub:
        agent = Agent(name="helper", tools=openai_agents.tools(hub))  # a snapshot of the tools
        agent = Agent(name="helper", mcp_servers=[openai_agents.server(hub)])  # listed for every turn
        await Runner.run(agent, "...", run_config=RunConfig(tool_not_found_behavior="return_error_to_model"))

The run ends if the model calls a tool that does not exist, unless `RunConfig` has this `tool_not_found_behavior`.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Unpack

from ..errors import UsageError
from .answers import ContentPart, ToolAnswer
from .model_content import DOCUMENT_FORMATS, describe, file_name, is_image, media_type
from .run_tools import RunTools, RunToolsRegistry
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from agents.mcp import MCPServer
    from agents.tool import FunctionTool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
except ImportError as exc:
    raise ImportError(
        "toolcrib.adapters.openai_agents needs the package openai-agents: pip install openai-agents"
    ) from exc


def tools(
    source: AnySource | Toolbox, *, strict: bool = False, **options: Unpack[ToolboxOptions]
) -> list[FunctionTool]:
    """Return a snapshot of the tools, for `Agent(tools=...)`.

    `strict` compiles the schemas for OpenAI's strict mode and uses it for the tools whose schemas allow it. Tools that
    need an approval interrupt the run until `RunState.approve`. With `deferred=True`, deferred tools have
    `defer_loading`; add the SDK's `ToolSearchTool()` to the agent.
    """
    box = as_toolbox(source, target="openai-strict" if strict else "openai", **options)
    return [_function_tool(box, spec) for spec in box.tools()]


def server(source: AnySource | Toolbox, *, strict: bool = False, **options: Unpack[ToolboxOptions]) -> MCPServer:
    """Return a server for `Agent(mcp_servers=[...])`, whose tools are listed for every turn.

    Filters of a hub receive the agent and the SDK's `RunContextWrapper`. The SDK takes text and images from such a
    server; other content becomes text, and errors begin with `Error:`. `strict` is for agents with
    `mcp_config={"convert_schemas_to_strict": True}`, which otherwise makes optional arguments mandatory.
    The source must be open: the `connect` and `cleanup` of this server do nothing.
    """
    return ToolboxServer(as_toolbox(source, target="openai-strict" if strict else "openai", **options))


def _function_tool(box: Toolbox, spec: ToolSpec) -> FunctionTool:
    async def invoke(_context: Any, arguments: str) -> Any:
        return _output_of(await box.call(spec.name, arguments, approved=spec.needs_approval))

    return FunctionTool(
        name=spec.name,
        description=spec.description,
        params_json_schema=spec.input_schema,
        on_invoke_tool=invoke,
        strict_json_schema=spec.strict,  # else the SDK makes every argument mandatory, or refuses the schema
        needs_approval=spec.needs_approval,
        defer_loading=spec.deferred,
    )


def _output_of(answer: ToolAnswer) -> Any:
    """Return the output of a tool. An error begins with `Error:`, as outputs have no flag for it."""
    if answer.is_text:
        return f"Error: {answer.text}" if answer.is_error else answer.text
    outputs = [_output_part(part) for part in answer.parts]
    return [ToolOutputText(text="Error:"), *outputs] if answer.is_error else outputs


def _output_part(part: ContentPart) -> Any:
    mime_type = media_type(part)
    url = f"data:{mime_type};base64,{part.base64}"
    if is_image(part):
        return ToolOutputImage(image_url=url)
    if part.kind == "file" and part.data and mime_type in DOCUMENT_FORMATS:
        return ToolOutputFileContent(file_data=url, filename=file_name(part, DOCUMENT_FORMATS[mime_type]))
    return ToolOutputText(text=describe(part))


class ToolboxServer(MCPServer):
    """A toolbox as a server of the Agents SDK; see `server`."""

    def __init__(self, box: Toolbox) -> None:
        self._runs = RunToolsRegistry(box)
        self._calling: ContextVar[RunTools] = ContextVar("calling", default=self._runs.shared)
        self._asking: set[str] = set()
        super().__init__(
            require_approval=self._needs_approval,
            tool_meta_resolver=self._note_run,
            failure_error_function=_explain_failure,
        )

    @property
    def name(self) -> str:
        """The name of the server in traces."""
        return "toolcrib"

    async def connect(self) -> None:
        """Do nothing: the source is open."""

    async def cleanup(self) -> None:
        """Do nothing: the source closes itself."""

    async def list_tools(self, run_context: Any = None, agent: Any = None) -> list[Any]:
        """Return the tools of this agent, or the last ones if the source cannot list them."""
        run = await self._run_of(run_context, agent)
        specs = await run.list_tools()
        self._asking.update(spec.name for spec in specs if spec.needs_approval)
        return [_mcp_tool(spec) for spec in specs]

    async def call_tool(self, tool_name: str, arguments: dict[str, Any] | None, meta: Any = None) -> Any:  # noqa: ARG002  # the SDK sends the tool's own metadata back
        """Call a tool and return its result in the SDK's type."""
        run = self._calling.get()
        return _mcp_result(await run.box.call(tool_name, arguments, approved=run.needs_approval(tool_name)))

    async def list_prompts(self) -> Any:
        """Return the prompts of the source."""
        prompts = await self._ask("list_prompts")
        return _mcp_type("ListPromptsResult").model_validate({"prompts": [dict(prompt) for prompt in prompts]})

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Return a prompt with its arguments filled in."""
        prompt = await self._ask("get_prompt", name, arguments)
        return _mcp_type("GetPromptResult").model_validate(
            {"description": prompt.description, "messages": [message.to_dict() for message in prompt.messages]}
        )

    async def _ask(self, method: str, *arguments: Any) -> Any:
        bound = self._runs.shared.box.source

        def ask() -> Coroutine[Any, Any, Any]:
            asked: Coroutine[Any, Any, Any] = getattr(bound.source, method)(*arguments)
            return asked

        return await bound.home.run(ask)

    async def _run_of(self, run_context: Any, agent: Any) -> RunTools:
        if run_context is None:
            return self._runs.shared
        usage = run_context.usage  # all contexts of a run, those of its calls too, share this object
        key = (id(agent), id(usage))
        return await self._runs.get(key, agent=agent, run_context=run_context, owner=(agent, usage))

    async def _note_run(self, context: Any) -> None:
        """Remember the run of a call: the SDK asks for metadata immediately before it calls, in the same context."""
        self._calling.set(await self._run_of(context.run_context, context.run_context.agent))

    async def _needs_approval(self, run_context: Any, agent: Any, tool: Any) -> bool:
        run = await self._run_of(run_context, agent)
        return run.needs_approval(tool.name)

    def _get_needs_approval_for_tool(self, tool: Any, agent: Any) -> Any:
        """Answer for tools that never ask: else the SDK interrupts the run to ask about calls with broken JSON."""
        return super()._get_needs_approval_for_tool(tool, agent) if tool.name in self._asking else False


def _explain_failure(_context: Any, error: Exception) -> str:
    """Return the text for a call that failed before it reached the toolbox; raise a `UsageError` as it is."""
    if isinstance(error.__cause__, UsageError):
        raise error.__cause__
    return f"Error: {error}"


def _mcp_type(name: str) -> Any:
    """Return a type of the `mcp` package that the SDK has loaded; 1.x and 2.x differ in all but the wire form."""
    return getattr(sys.modules["mcp.types"], name)


def _mcp_tool(spec: ToolSpec) -> Any:
    needed = {"name": spec.name, "description": spec.description, "inputSchema": spec.input_schema}
    tool_type = _mcp_type("Tool")
    try:
        return tool_type.model_validate({**spec.tool, **needed})
    except ValueError:  # what the server says beyond this does not fit the types of this version
        return tool_type.model_validate(needed)


def _mcp_result(answer: ToolAnswer) -> Any:
    if answer.is_text:
        content = [{"type": "text", "text": f"Error: {answer.text}" if answer.is_error else answer.text}]
    else:
        content = [{"type": "text", "text": "Error:"}] if answer.is_error else []
        content += map(_mcp_content, answer.parts)
    wire: dict[str, Any] = {"content": content, "isError": answer.is_error}
    if isinstance(answer.data, dict):
        wire["structuredContent"] = answer.data
    return _mcp_type("CallToolResult").model_validate(wire)


def _mcp_content(part: ContentPart) -> dict[str, str]:
    if is_image(part):
        return {"type": "image", "data": part.base64, "mimeType": media_type(part)}
    return {"type": "text", "text": describe(part)}
