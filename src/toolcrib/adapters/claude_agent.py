"""Tools for the Claude Agent SDK.

    from claude_agent_sdk import ClaudeAgentOptions, query
    from toolcrib.adapters import claude_agent

    async with Hub.from_config(".mcp.json") as hub:
        servers, allowed = claude_agent.servers(hub), claude_agent.allowed_tools(hub)
        options = ClaudeAgentOptions(mcp_servers=servers, allowed_tools=allowed)
        async for message in query(prompt="...", options=options):
            print(message)

Each server of a hub becomes an in-process server of the SDK, so Claude's names of its tools are the qualified names of
the hub, `mcp__{server}__{tool}`. The list of tools is live: the SDK gets the current one whenever it lists the tools.
The SDK does not pass on progress, log messages and change notifications of in-process servers, nor their requests to
the client (sampling, elicitation, roots). Of a hub, it gets the tools; of a `ToolServer`, resources and prompts too.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, Unpack

from .. import tool_names
from .._version import __version__
from ..client.client import Client
from ..config import HttpServer, ServerConfig, SseServer, StdioServer, server_from_dict
from ..errors import AccessDenied, ConfigError, RemoteError, UsageError
from ..hub.interceptors import Approve, ToolCall, ask_approver
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from ..protocol.param_headers import Declaration
from ..server.changes import ChangeWatch, ChangeWatchers
from ..server.handler import Deliver, Peer, RequestContext, RequestHandler, Watch
from ..server.registry import ServerRegistry
from ..server.server import ToolServer
from ..server.serving.message_stream import serve_stream
from ..transports.sdk_streams import StreamPair
from ..types import Wire
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

try:
    from claude_agent_sdk import PermissionResultAllow, PermissionResultDeny, ToolPermissionContext
except ImportError as exc:
    raise ImportError(
        "toolcrib.adapters.claude_agent: expected claude-agent-sdk 0.1 or later. "
        "Install it with `pip install -U claude-agent-sdk`"
    ) from exc

log = logging.getLogger("toolcrib.adapters")

MAX_SERVER_NAME: Final = 41
"""Characters of a server's name that leave room for the names of its tools: a name for a model has at most 64."""
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
        for tools in _servers_of(source, options):
            _add(found, tools.name, {"type": "sdk", "name": tools.name, "instance": InProcessInstance(tools)})
    for name, config in (external or {}).items():
        _add(found, name, _external(name, config))
    return found


def allowed_tools(*sources: Source, **options: Unpack[ToolboxOptions]) -> list[str]:
    """Return `allowed_tools` for `ClaudeAgentOptions`: the tools that Claude may call without asking.

    They are all tools that the sources list now, except for those that need an approval by the framework
    (`Hub(..., approve="caller")`): Claude asks about these, see `can_use_tool`.
    """
    every = (spec for source in sources for tools in _servers_of(source, options) for spec in tools.now())
    return [name for name, spec in every if not spec.needs_approval]


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


# ---- names ---------------------------------------------------------------------------------------------------------


def _add(found: dict[str, dict[str, Any]], name: str, config: dict[str, Any]) -> None:
    if not tool_names.is_server_name(name) or len(name) > MAX_SERVER_NAME:
        raise ConfigError(
            f"server name: expected {tool_names.SERVER_NAME_RULE}, at most {MAX_SERVER_NAME} characters, got {name!r}. "
            "Rename the server",
            key="name",
            expected=tool_names.SERVER_NAME_RULE,
        )
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


def _servers_of(source: Source, options: ToolboxOptions) -> Iterator[_ServerTools]:
    if isinstance(source, ServerRegistry):
        for server in source:
            yield _ToolServerTools(server)
        return
    if isinstance(source, ToolServer):
        yield _ToolServerTools(source)
        return
    box = as_toolbox(source, target="anthropic", **options)
    if isinstance(source, Toolbox):
        name, known = UNNAMED, []
    else:
        name = tool_names.slug(getattr(source, "name", UNNAMED))
        known = [state.name for state in source.list_servers()] if hasattr(source, "list_servers") else []
    listed = [spec.tool.server for spec in box.tools()]
    for server in dict.fromkeys([*known, *listed]):
        yield _ServerTools(box, server, name)


# ---- servers -------------------------------------------------------------------------------------------------------


class _ServerTools:
    """The tools of a toolbox that belong to one server, or to none (`server` is None)."""

    def __init__(self, box: Toolbox | None, server: str | None, unnamed: str = UNNAMED) -> None:
        self.name = unnamed if server is None else server
        self._server = server
        self._box = box

    def now(self) -> list[tuple[str, ToolSpec]]:
        """Return the tools at this moment, by Claude's names."""
        assert self._box is not None
        return [(f"mcp__{self.name}__{short}", spec) for short, spec in self.select(self._box.tools()).items()]

    def select(self, specs: list[ToolSpec]) -> dict[str, ToolSpec]:
        """Return the tools of this server, by the names that it gives them."""
        prefix = f"mcp__{self.name}__"
        limit = tool_names.ALIAS_LIMIT - len(prefix)
        found: dict[str, ToolSpec] = {}
        for spec in specs:
            if spec.tool.server != self._server:
                continue
            short = spec.name.removeprefix(prefix)
            found[tool_names.alias(short, found, max(limit, tool_names.ALIAS_LIMIT // 4))] = spec
        return found

    def unlisted_name(self, short: str) -> str:
        """Return the name by which the source is asked about a tool that it does not list."""
        return short if self._server is None else f"mcp__{self._server}__{short}"

    def handler(self) -> AbstractAsyncContextManager[RequestHandler]:
        """Return the handler of the requests of one query."""
        assert self._box is not None
        return nullcontext(ToolRequests(self._box, self))


class _ToolServerTools(_ServerTools):
    """The tools of a `ToolServer`: each query has a client of its own, on the event loop of the query."""

    def __init__(self, server: ToolServer) -> None:
        super().__init__(None, None, server.name)
        self._tool_server = server

    def now(self) -> list[tuple[str, ToolSpec]]:
        specs = [ToolSpec(tool.name, tool.description, {}, tool) for tool in self._tool_server.list_tools()]
        return [(f"mcp__{self.name}__{short}", spec) for short, spec in self.select(specs).items()]

    @asynccontextmanager
    async def handler(self) -> AsyncIterator[RequestHandler]:
        async with Client(self._tool_server) as client:
            yield ToolRequests(as_toolbox(client, target="anthropic"), self, self._tool_server.router)


class InProcessInstance:
    """A server as the SDK expects it in `{"type": "sdk", "instance": ...}`: like the server class of the `mcp` SDK."""

    def __init__(self, tools: _ServerTools) -> None:
        self.name = tools.name
        self.version = __version__
        self._tools = tools

    def create_initialization_options(self) -> None:
        """Return nothing: there are no options. The SDK calls it before `run`."""

    async def run(self, read: Any, write: Any, options: Any = None, raise_exceptions: bool = False) -> None:  # noqa: ARG002
        """Answer the messages of one query until the SDK closes the streams."""
        async with self._tools.handler() as handler:
            await serve_stream(handler, StreamPair(read, write))


class ToolRequests:
    """A `RequestHandler` for the tools of one server. Other requests go to `rest`, if there is one."""

    def __init__(self, box: Toolbox, tools: _ServerTools, rest: RequestHandler | None = None) -> None:
        self._box = box
        self._tools = tools
        self._rest = rest
        self._specs: dict[str, ToolSpec] = {}
        self._changes = ChangeWatchers()

    def describe(self, peer: Peer) -> Wire:
        """Return name, version and capabilities."""
        if self._rest is not None:
            return self._rest.describe(peer)
        return {"serverInfo": {"name": self._tools.name, "version": __version__}, "capabilities": {"tools": {}}}

    def may_ask(self, method: str, params: Wire) -> bool:
        """Return whether a request may need the client: never for tools."""
        return self._rest is not None and method != "tools/call" and self._rest.may_ask(method, params)

    def mirrored(self, tool: str) -> tuple[Declaration, ...]:  # noqa: ARG002  # there are no headers
        """Return no declarations: there are no headers within a process."""
        return ()

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> Watch | ChangeWatch:  # noqa: ARG002
        """Watch nothing: the SDK drops notifications."""
        return self._changes.watch({}, deliver)

    async def answer(self, method: str, params: Wire, context: RequestContext) -> Wire:
        """Answer a request."""
        try:
            match method:
                case "tools/list":
                    return {"tools": [_describe(name, spec) for name, spec in (await self._list()).items()]}
                case "tools/call":
                    return await self._call(params)
        except UsageError as exc:  # a bug of the program, which only this answer and the log can show
            log.error("%s of the server %s failed: %s", method, self._tools.name, exc)
            raise RemoteError(INTERNAL_ERROR, str(exc)) from exc
        if self._rest is None:
            raise RemoteError(METHOD_NOT_FOUND, f"Method not found: {method}")
        return await self._rest.answer(method, params, context)

    async def _list(self) -> dict[str, ToolSpec]:
        self._specs = self._tools.select(await self._box.list_tools())
        return self._specs

    async def _call(self, params: Wire) -> Wire:
        name = params.get("name")
        if not isinstance(name, str):
            raise RemoteError(INVALID_PARAMS, "name: expected a string")
        spec = self._specs.get(name) or (await self._list()).get(name)
        # A tool that is not listed is called as well: the source knows why, and the answer says it. A call that the
        # framework has to approve has passed the permissions of the Claude CLI before it arrives here.
        called = self._tools.unlisted_name(name) if spec is None else spec.name
        answer = await self._box.call(
            called, params.get("arguments"), approved=spec is not None and spec.needs_approval
        )
        if answer.result is not None:
            return dict(answer.result.raw)
        return {"content": [{"type": "text", "text": answer.text}], "isError": True}


def _describe(name: str, spec: ToolSpec) -> Wire:
    """Return a tool as an entry of `tools/list`.

    It has no output schema: Claude does not see it, and the CLI would drop all tools of a server for an invalid one.
    """
    entry: Wire = {"name": name, "description": spec.description, "inputSchema": spec.input_schema}
    if spec.tool.title:
        entry["title"] = spec.tool.title
    if spec.tool.annotations:
        entry["annotations"] = spec.tool.annotations
    if spec.tool.meta:
        entry["_meta"] = spec.tool.meta
    return entry
