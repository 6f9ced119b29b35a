"""Tools for crewAI.

    with toolcrib.sync.Hub.from_config(".mcp.json") as hub:
        agent = Agent(role="...", goal="...", backstory="...", tools=crewai.tools(hub))

    with crewai.tools([MCPServerStdio(command="uvx", args=["mcp-server-time"])]) as tools:
        agent = Agent(role="...", goal="...", backstory="...", tools=tools)

crewAI calls tools in threads: use a `toolcrib.sync.Hub`, or start the crew with `await crew.kickoff_async()`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any, Final, Unpack

from ..errors import InvalidArguments, RateLimited, ToolcribError, ToolNotFound, TransportError, UsageError
from .answers import ToolAnswer
from .owned_hub import OwnedHub
from .server_references import read_servers
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from crewai.tools import BaseTool
    from crewai.tools.tool_failure import ToolFailure, ToolFailureReason
    from crewai.utilities.string_utils import sanitize_tool_name
    from pydantic import BaseModel, ConfigDict, PrivateAttr
except ImportError as exc:
    raise ImportError("toolcrib.adapters.crewai needs crewAI 1.15 or later: pip install -U crewai") from exc

MAX_NAME_LENGTH: Final = 64
"""Characters of a tool's name that crewAI keeps."""


class CrewTools(list[BaseTool]):
    """The tools, a list for `Agent(tools=...)`. If it opened the servers, `close` or the `with` block closes them."""

    def __init__(self, tools: Iterable[BaseTool], owned: OwnedHub | None = None) -> None:
        super().__init__(tools)
        self._owned = owned

    def close(self) -> None:
        """Close the servers that were opened for these tools; does nothing for the tools of a hub."""
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> CrewTools:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def tools(
    source: AnySource | Toolbox | Iterable[Any] | Mapping[str, Any],
    *,
    cache_read_only: bool = False,
    agent: Any = None,
    run_context: Any = None,
    **options: Unpack[ToolboxOptions],
) -> CrewTools:
    """Return a snapshot of the tools of a hub, view or client, or of a list of servers, for `Agent(tools=...)`.

    A list holds configs of Toolcrib, `MCPServerStdio`, `MCPServerHTTP` and `MCPServerSSE` of crewAI, tool servers, and
    URLs (`https://example.com/mcp`, or `...#search` for one tool); a mapping also names them. Its servers are connected
    here, and closed by `close()`, a `with` block, with the last of the tools, or when the interpreter exits. Dynamic
    filters of these servers receive `agent` and `run_context`.

    `cache_read_only` lets crewAI answer a repeated call of a read-only tool from its cache. Other calls are never
    cached.
    """
    if not isinstance(source, list | tuple | Mapping):
        box = as_toolbox(_check(source), target="openai-strict", **options)
        return CrewTools(_make_tools(box, cache_read_only))
    owned = OwnedHub(read_servers(source))
    try:
        view = owned.hub.view(agent=agent, run_context=run_context)
        box = as_toolbox(view, target="openai-strict", **options)
        made = CrewTools(_make_tools(box, cache_read_only), owned)
    except BaseException:
        owned.close()
        raise
    owned.close_with(box)
    return made


class CrewTool(BaseTool):
    """One tool of a toolbox."""

    _box: Toolbox | None = PrivateAttr(default=None)
    _tool_name: str = PrivateAttr(default="")

    @classmethod
    def from_spec(cls, box: Toolbox, spec: ToolSpec, name: str, cached: bool) -> CrewTool:
        """Return the tool under a name of crewAI."""
        cache = _cache_success if cached else _cache_never
        tool = cls(name=name, description=spec.description, args_schema=_model_of(spec, name), cache_function=cache)
        tool._box, tool._tool_name = box, spec.name
        return tool

    def _run(self, /, **arguments: Any) -> str | ToolFailure:
        return _as_output(self._connected().call_sync(self._tool_name, arguments))

    async def _arun(self, /, **arguments: Any) -> str | ToolFailure:
        return _as_output(await self._connected().call(self._tool_name, arguments))

    def _connected(self) -> Toolbox:
        if self._box is None:
            raise UsageError("a tool from a checkpoint has no connection; give the agent new tools: crewai.tools(hub)")
        return self._box


def _check(source: Any) -> AnySource | Toolbox:
    if hasattr(source, "__iter__"):
        raise UsageError(f"source: expected a hub, or a list of servers, got {type(source).__name__}")
    checked: AnySource | Toolbox = source
    return checked


def _make_tools(box: Toolbox, cache_read_only: bool) -> list[CrewTool]:
    made: dict[str, CrewTool] = {}
    for spec in box.tools():
        name = _unique_name(sanitize_tool_name(spec.name), made)
        cached = cache_read_only and spec.tool.annotations.get("readOnlyHint") is True
        made[name] = CrewTool.from_spec(box, spec, name, cached)
    return list(made.values())


def _unique_name(name: str, taken: Mapping[str, Any]) -> str:
    """Return a name that stays different when crewAI writes it in lower case, with single underscores."""
    unique, count = name, 1
    while unique in taken:
        count += 1
        unique = f"{name[: MAX_NAME_LENGTH - 1 - len(str(count))]}_{count}"
    return unique


def _model_of(spec: ToolSpec, name: str) -> type[BaseModel]:
    """Return a model whose JSON schema is that of the tool; it has no fields, so crewAI passes arguments unchecked."""

    class Arguments(BaseModel):
        model_config = ConfigDict(extra="allow", title=name)

        @classmethod
        def model_json_schema(cls, *_args: Any, **_options: Any) -> dict[str, Any]:
            """Return the schema; crewAI changes the one that it gets."""
            return copy.deepcopy(spec.input_schema)

    return Arguments


def _as_output(answer: ToolAnswer) -> str | ToolFailure:
    if not answer.is_error:
        return answer.text
    error = answer.error
    code = None if error is None else type(error).__name__
    retryable = isinstance(error, TransportError | RateLimited) and error.sent is False
    return ToolFailure(message=answer.text, reason=_reason_of(error), code=code, retryable=retryable)


def _reason_of(error: ToolcribError | None) -> ToolFailureReason:
    match error:
        case None:
            return ToolFailureReason.MCP_ERROR
        case InvalidArguments():
            return ToolFailureReason.INVALID_INPUT
        case ToolNotFound():
            return ToolFailureReason.UNKNOWN_TOOL
        case _:
            return ToolFailureReason.EXCEPTION


def _cache_never(arguments: Any = None, result: Any = None) -> bool:  # noqa: ARG001  # crewAI passes both
    return False


def _cache_success(arguments: Any = None, result: Any = None) -> bool:  # noqa: ARG001  # crewAI passes both
    return not isinstance(result, ToolFailure)
