"""The tools of one server of a toolbox, as a server of its own: names, lists, and the answers to MCP requests."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from .. import tool_names
from .._version import __version__
from ..errors import ConfigError, RemoteError, UsageError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from ..protocol.param_headers import Declaration
from ..server.changes import ChangeWatch, ChangeWatchers
from ..server.handler import Deliver, Peer, RequestContext, RequestHandler
from ..types import Wire
from .run_tools import RunTools
from .toolbox import Toolbox, ToolSpec

log = logging.getLogger("toolcrib.adapters")

MAX_SERVER_NAME: Final = 41
"""Characters of a server's name that leave room for the names of its tools: a name for a model has at most 64."""


class ServerTools:
    """The tools of a toolbox that belong to one server, or to none (`server` is None), under the name of a server.

    Their names for a model are `mcp__{name}__{tool}`, as in a hub.
    """

    def __init__(self, name: str, server: str | None) -> None:
        if not tool_names.is_server_name(name) or len(name) > MAX_SERVER_NAME:
            rule = f"{tool_names.SERVER_NAME_RULE}, at most {MAX_SERVER_NAME} characters"
            raise ConfigError(
                f"server name: expected {rule}, got {name!r}. Rename the server", key="name", expected=rule
            )
        self.name = name
        self.prefix = f"mcp__{name}__"
        self._server = server

    def select(self, specs: Iterable[ToolSpec]) -> dict[str, ToolSpec]:
        """Return the tools of this server, by their names without the prefix."""
        limit = tool_names.ALIAS_LIMIT - len(self.prefix)
        found: dict[str, ToolSpec] = {}
        for spec in specs:
            if spec.tool.server == self._server:
                short = spec.tool.name if self._server is None else spec.name.removeprefix(self.prefix)
                found[tool_names.alias(short, found, limit)] = spec
        return found

    def source_name(self, short: str) -> str:
        """Return the name by which the source is asked about a tool that it does not list."""
        return short if self._server is None else f"{self.prefix}{short}"


class ToolRequests:
    """A `RequestHandler` for the tools of one server. Other requests go to `rest`, if there is one."""

    def __init__(self, box: Toolbox, tools: ServerTools, rest: RequestHandler | None = None) -> None:
        self._box = box
        self._run_tools = RunTools(box)
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

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> ChangeWatch:  # noqa: ARG002
        """Watch nothing: the list is live, but changes are not announced."""
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
        self._specs = self._tools.select(await self._run_tools.list_tools())
        return self._specs

    async def _call(self, params: Wire) -> Wire:
        name = params.get("name")
        if not isinstance(name, str):
            raise RemoteError(INVALID_PARAMS, "name: expected a string")
        spec = self._specs.get(name) or (await self._list()).get(name)
        # A tool that is not listed is called as well: the source knows why, and the answer says it. A call that the
        # framework has to approve has passed the permissions of the framework before it arrives here.
        called = self._tools.source_name(name) if spec is None else spec.name
        answer = await self._box.call(
            called, params.get("arguments"), approved=spec is not None and spec.needs_approval
        )
        if answer.result is not None:
            return dict(answer.result.raw)
        return {"content": [{"type": "text", "text": answer.text}], "isError": True}


def _describe(name: str, spec: ToolSpec) -> Wire:
    """Return a tool as an entry of `tools/list`, without the output schema, which no model sees."""
    entry: Wire = {"name": name, "description": spec.description, "inputSchema": spec.input_schema}
    if spec.tool.title:
        entry["title"] = spec.tool.title
    if spec.tool.annotations:
        entry["annotations"] = spec.tool.annotations
    if spec.tool.meta:
        entry["_meta"] = spec.tool.meta
    return entry
