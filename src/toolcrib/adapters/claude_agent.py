"""Tools for the Claude Agent SDK.

    from claude_agent_sdk import ClaudeAgentOptions, query
    from toolcrib.adapters import claude_agent

    async with Hub.from_config(".mcp.json") as hub:
        servers, allowed = claude_agent.servers(hub), claude_agent.allowed_tools(hub)
        options = ClaudeAgentOptions(mcp_servers=servers, allowed_tools=allowed)
        async for message in query(prompt="...", options=options):
            print(message)

Each server of a hub becomes an in-process server of the SDK, so Claude's names of its tools are the qualified names of
the hub, `mcp__{server}__{tool}`. Lists are live, but the Claude CLI lists the tools only once per query. The SDK does
not pass on progress, log messages and change notifications of in-process servers, nor their requests to the client
(sampling, elicitation, roots). Of a hub, Claude gets the tools; of a `ToolServer`, also resources and prompts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Unpack

from .. import tool_names
from .._version import __version__
from ..client.client import Client
from ..config import HttpServer, ServerConfig, SseServer, StdioServer, server_from_dict
from ..errors import AccessDenied, ConfigError
from ..hub.interceptors import Approve, ToolCall, ask_approver
from ..server.handler import RequestHandler
from ..server.registry import ServerRegistry
from ..server.server import ToolServer
from ..server.serving.stream_server import serve_stream
from ..transports.sdk_streams import StreamPair
from .schemas import Target
from .tool_requests import ServerTools, ToolRequests
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, ToolPermissionContext
except ImportError as exc:
    raise ImportError(
        "toolcrib.adapters.claude_agent: expected claude-agent-sdk 0.1 or later. "
        "Install it with `pip install -U claude-agent-sdk`"
    ) from exc

TARGET: Final[Target] = "anthropic"
UNNAMED: Final = "toolcrib"
"""The server of tools that belong to no server, such as the search tool of a view."""

_CLI_FIELDS: Final = {"type", "command", "args", "env", "url", "headers"}

Source = AnySource | Toolbox | ServerRegistry | ToolServer
"""What gives in-process servers: a hub, a view, a client, their sync twins, a toolbox; a registry, a tool server."""


def servers(
    *sources: Source,
    external: Mapping[str, ServerConfig | Mapping[str, Any]] | None = None,
    **options: Unpack[ToolboxOptions],
) -> dict[str, dict[str, Any]]:
    """Return `mcp_servers` for `ClaudeAgentOptions`.

    Each server of a hub, and each `ToolServer` of a registry, becomes an in-process server. The servers that the hub
    has now are taken; their tools are live. `external` are configs that are passed to the Claude CLI, which connects to
    these servers itself: filters, approvals, retries and events of a hub do not apply to them. The options are those of
    `Toolbox`, for sources other than tool servers.
    """
    found: dict[str, dict[str, Any]] = {}
    for source in sources:
        for served in _served_by(source, options):
            name = served.tools.name
            _add(found, name, {"type": "sdk", "name": name, "instance": InProcessInstance(served)})
    for name, config in (external or {}).items():
        _add(found, name, _external(name, config))
    return found


def allowed_tools(*sources: Source, **options: Unpack[ToolboxOptions]) -> list[str]:
    """Return `allowed_tools` for `ClaudeAgentOptions`: the tools that Claude may call without asking.

    They are all tools that the sources list now, except those that need approval by the framework
    (`Hub(..., approve="caller")`): Claude asks about these, see `can_use_tool`.
    """
    return [
        f"{served.tools.prefix}{short}"
        for source in sources
        for served in _served_by(source, options)
        for short, spec in served.tools.select(served.list_now()).items()
        if not spec.needs_approval
    ]


def disallowed_tools(*sources: Source, **options: Unpack[ToolboxOptions]) -> list[str]:
    """Return `disallowed_tools` for `ClaudeAgentOptions`: the tools of a hub that its rules, or `names`, hide.

    Hidden tools are never offered and never called; with this list, the Claude CLI says so itself. Only a hub knows
    the tools that it hides; other sources add nothing.
    """
    every_tool: ToolboxOptions = {**options, "deferred": True}
    hidden: list[str] = []
    for source in sources:
        if isinstance(source, Toolbox | ServerRegistry | ToolServer) or not hasattr(source, "list_servers"):
            continue
        shown = {spec.tool.name for spec in as_toolbox(source, **every_tool).tools()}
        every = (tool.name for state in source.list_servers() for tool in state.tools)
        hidden += [source.alias(name) for name in every if name not in shown]  # type: ignore[union-attr]  # a hub
    return hidden


def can_use_tool(approve: Approve) -> Callable[[str, dict[str, Any], ToolPermissionContext], Awaitable[Any]]:
    """Return `can_use_tool` for `ClaudeAgentOptions` from a function of a call, as `Hub(approve=...)` takes it.

    The function returns True, False or a call with edited arguments; if it is not async, it runs in a thread. The SDK
    asks about tools that are not in `allowed_tools`, also about Claude's own, for which `call.server` is empty.
    """

    async def ask(name: str, arguments: dict[str, Any], context: ToolPermissionContext) -> Any:  # noqa: ARG001
        server, _, tool = name.removeprefix("mcp__").partition("__") if name.startswith("mcp__") else ("", "", name)
        call = ToolCall(server, tool, name, arguments)
        try:
            allowed = await ask_approver(approve, call, "can_use_tool")
        except AccessDenied as exc:
            return PermissionResultDeny(message=exc.message)
        if allowed.name != name:
            return PermissionResultDeny(message=f"the call was not approved; call {allowed.name} instead")
        return PermissionResultAllow(updated_input=dict(allowed.arguments))

    return ask


# ---- what is passed to the SDK -------------------------------------------------------------------------------------


def _add(found: dict[str, dict[str, Any]], name: str, config: dict[str, Any]) -> None:
    if name in found:
        raise ConfigError(
            f"server name: {name!r} is used by two of the sources. Rename one of the servers",
            key="name",
            expected="a name for each server",
        )
    found[name] = config


def _external(name: str, config: ServerConfig | Mapping[str, Any]) -> dict[str, Any]:
    """Return a config in the form of the Claude CLI; raise `ConfigError` for settings that it does not have."""
    made = server_from_dict(config) if isinstance(config, Mapping) else config
    if not isinstance(made, StdioServer | HttpServer | SseServer):
        raise ConfigError(
            f"external.{name}: expected a StdioServer, HttpServer or SseServer, got {type(made).__name__}. "
            "Other servers are passed through a Hub",
            key=f"external.{name}",
            expected="StdioServer, HttpServer or SseServer",
        )
    values = made.to_dict(format="claude")
    extra = sorted({*values} - _CLI_FIELDS) + (["tool_filter"] if made.tool_filter is not None else [])
    if extra:
        raise ConfigError(
            f"external.{name}: the Claude CLI has no settings {', '.join(extra)}. Put this server into a Hub",
            key=f"external.{name}",
            expected=f"only {', '.join(sorted(_CLI_FIELDS))}",
        )
    return values


@dataclass(frozen=True)
class _Served:
    """One in-process server: its tools, how to list them now, and what opens a handler for one query."""

    tools: ServerTools
    list_now: Callable[[], list[ToolSpec]]
    open_handler: Callable[[], AbstractAsyncContextManager[RequestHandler]]


def _served_by(source: Source, options: ToolboxOptions) -> Iterator[_Served]:
    match source:
        case ServerRegistry():
            yield from map(_serve_tool_server, source)
        case ToolServer():
            yield _serve_tool_server(source)
        case _:
            yield from _serve_toolbox(source, as_toolbox(source, target=TARGET, **options))


def _serve_toolbox(source: AnySource | Toolbox, box: Toolbox) -> Iterator[_Served]:
    given = None if isinstance(source, Toolbox) else getattr(source, "name", None)
    if given is not None:  # a client, which is one server
        yield _serve_tools(box, ServerTools(tool_names.slug(given), None))
        return
    known = [] if isinstance(source, Toolbox) or not hasattr(source, "list_servers") else source.list_servers()
    listed = [spec.tool.server for spec in box.tools()]
    for server in dict.fromkeys([*(state.name for state in known), *listed]):
        yield _serve_tools(box, ServerTools(UNNAMED if server is None else server, server))


def _serve_tools(box: Toolbox, tools: ServerTools) -> _Served:
    def open_handler() -> AbstractAsyncContextManager[RequestHandler]:
        return nullcontext(ToolRequests(box, tools))

    return _Served(tools, box.tools, open_handler)


def _serve_tool_server(server: ToolServer) -> _Served:
    tools = ServerTools(server.name, None)

    def list_now() -> list[ToolSpec]:
        return [ToolSpec(tool.name, tool.description, {}, tool) for tool in server.list_tools()]

    @asynccontextmanager
    async def open_handler() -> AsyncIterator[RequestHandler]:
        async with Client(server) as client:  # one for each query, on the event loop of the query
            yield ToolRequests(as_toolbox(client, target=TARGET), tools, server.router)

    return _Served(tools, list_now, open_handler)


class InProcessInstance:
    """A server as the SDK expects it in `{"type": "sdk", "instance": ...}`: like the server class of the `mcp` SDK."""

    def __init__(self, served: _Served) -> None:
        self.name = served.tools.name
        self.version = __version__
        self._served = served

    def create_initialization_options(self) -> None:
        """Return nothing: there are no options. The SDK calls it before `run`."""

    async def run(self, read: Any, write: Any, options: Any = None, raise_exceptions: bool = False) -> None:  # noqa: ARG002
        """Answer the messages of one query until the SDK closes the streams."""
        async with self._served.open_handler() as handler:
            await serve_stream(handler, StreamPair(read, write))
