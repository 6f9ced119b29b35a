"""Calling a tool: what is checked before, what is told around it, and what its failure means."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from time import monotonic
from typing import Any

from ..errors import AccessDenied, CallTimeout, ConnectionLost, OutcomeUnknown, RemoteError, ToolNotFound, ToolyardError
from ..events import Listeners, ToolExecutionCompleted, ToolExecutionFailed, ToolExecutionStarted
from ..policy.arguments import clean, clean_for_schema
from ..policy.filters import StaticFilter, allows, describe
from ..policy.retry import is_repeatable
from ..protocol.eras import HEADER_MISMATCH
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.metadata import with_meta
from ..protocol.mirroring import parameter_headers
from ..protocol.text import one_line
from ..transports.channel import RequestOptions
from ..types import FilterContext, Tool, ToolResult, Wire
from .cache import Use
from .connection import Connection
from .lists import TOOLS, Lister
from .options import Settings
from .telemetry import call_span

log = logging.getLogger("toolyard.client")


class Calls:
    """The way of a call from arguments to a `ToolResult`."""

    def __init__(
        self,
        settings: Settings,
        connection: Connection,
        lister: Lister,
        listeners: Listeners,
        over_http: bool = False,
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._lister = lister
        self._listeners = listeners
        self._over_http = over_http
        self._context = FilterContext(server_name=settings.name)

    async def check_filter(self, name: str, deadline: float | None) -> None:
        """A tool that is hidden is not callable. Names alone need no list; any other filter must see the whole tool."""
        tool_filter = self._settings.tool_filter
        if not isinstance(tool_filter, StaticFilter):
            await self._known(deadline)
            if self._lister.complete and name not in self._lister.tools:
                raise self._not_found(name, "the server does not list it")
        tool = self._lister.tools.get(name) or Tool(name, raw={"name": name})
        if tool_filter is not None and not self.allowed(tool):
            rule = describe(tool_filter)
            raise AccessDenied(f"this tool is hidden by the {rule}", rule=rule)

    def prepare(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        retry_safe: bool | None,
    ) -> tuple[Wire, bool]:
        """The params of the request, and whether it may be sent twice."""
        settings, tool = self._settings, self._lister.tools.get(name)
        if tool is not None and "execution" in tool.raw:
            _check_callable(tool)
        params: Wire = {"name": name, "arguments": self._cleaned(arguments, tool)}
        if meta:
            params["_meta"] = dict(meta)
        safe = settings.retry_safe if retry_safe is None else retry_safe
        repeatable = bool(safe or settings.trusted) and is_repeatable(
            "tools/call", tool=tool or name, retry_safe=safe, trusted=settings.trusted
        )
        return params, repeatable

    async def observed(self, name: str, params: Wire, options: RequestOptions, repeatable: bool) -> ToolResult:
        """`execute`, with listeners and tracing told."""
        began, server = monotonic(), self._settings.name
        self._listeners.emit(ToolExecutionStarted(server, name, params["arguments"]))
        try:
            with call_span(server, name) as span:
                result = await self.execute(name, with_meta(params, span.meta()), options, repeatable)
                span.result(result)
        except BaseException as exc:
            self._listeners.emit(ToolExecutionFailed(server, name, monotonic() - began, exc))
            raise
        self._listeners.emit(ToolExecutionCompleted(server, name, monotonic() - began, result.is_error))
        return result

    async def execute(self, name: str, params: Wire, options: RequestOptions, repeatable: bool) -> ToolResult:
        """One call, one outcome."""
        began = monotonic()
        if self._over_http and self._may_want_headers(name):
            options = await self._with_headers(name, params, options)
        try:
            raw = await self._connection.request("tools/call", params, options=options, repeatable=repeatable)
        except RemoteError as exc:
            raw = await self._second_chance(name, params, options, repeatable, exc)
        tool = self._lister.tools.get(name)
        result = ToolResult(raw, elapsed=monotonic() - began, wrapped=tool is not None and tool.wraps_result)
        if result.is_error and (tool is None or not self._lister.complete):
            await self._look_for(name, result.text, options.deadline)
        return result

    def _may_want_headers(self, name: str) -> bool:
        session = self._connection.session
        unknown = session is None or (session.mirrors and name not in self._lister.tools)
        return unknown or bool(self._lister.mirrored.get(name))

    async def _with_headers(self, name: str, params: Wire, options: RequestOptions) -> RequestOptions:
        """Over HTTP a modern tool may want some of its arguments in headers, and only the list says so."""
        session = await self._connection.reach(options.deadline)
        if session.mirrors and name not in self._lister.tools:
            try:
                await self._known(options.deadline)
            except RemoteError as exc:
                log.debug("%s: the tools could not be listed before a call: %s", self._settings.name, exc)
        declared = self._lister.mirrored.get(name)
        if not declared:
            return options
        return options._replace(headers=parameter_headers(declared, params["arguments"]))

    async def _known(self, deadline: float | None) -> None:
        """Have a list of tools. That its own outcome is not known says nothing about the call, which was not sent."""
        try:
            await self._lister.known(deadline)
        except OutcomeUnknown as exc:
            kind = CallTimeout if isinstance(exc, CallTimeout) else ConnectionLost
            raise kind("the tools could not be listed before the call, which was not sent") from exc

    async def _second_chance(
        self, name: str, params: Wire, options: RequestOptions, repeatable: bool, exc: RemoteError
    ) -> Wire:
        """The server refused the call. It may do so because our list of its tools is not its own any more."""
        if exc.code == INVALID_PARAMS:
            await self._look_for(name, exc.message, options.deadline, exc)
        if exc.code != HEADER_MISMATCH:
            raise exc
        await self._lister.fetch(TOOLS, Use.NEVER, options.deadline)
        options = await self._with_headers(name, params, options._replace(headers=None))
        return await self._connection.request("tools/call", params, options=options, repeatable=repeatable)

    def _cleaned(self, arguments: Mapping[str, Any] | None, tool: Tool | None) -> Wire:
        given: Wire = dict(arguments) if arguments else {}
        mode = self._settings.clean_arguments
        if mode == "always":
            return clean(given)
        if mode == "schema" and tool is not None:
            return clean_for_schema(given, tool.input_schema)
        return given

    def allowed(self, tool: Tool) -> bool:
        """Whether the filter lets the tool through."""
        return allows(self._settings.tool_filter, tool, self._context)

    async def _look_for(self, name: str, said: str, deadline: float | None, cause: RemoteError | None = None) -> None:
        """A tool that we do not know failed. Servers say "unknown" in many ways; a fresh list decides."""
        if self._lister.complete and name in self._lister.tools:
            return
        try:
            await self._lister.fetch(TOOLS, Use.NEVER, deadline)
        except ToolyardError:
            return  # the first outcome is the one to tell
        if name not in self._lister.tools:
            raise self._not_found(name, one_line(said)) from cause

    def _not_found(self, name: str, said: str) -> ToolNotFound:
        visible = [tool.name for tool in self._lister.tools.values() if self.allowed(tool)]
        nearest = tuple(difflib.get_close_matches(name, visible, 3))
        hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
        return ToolNotFound(f"there is no such tool ({said}){hint}", nearest=nearest)


def _check_callable(tool: Tool) -> None:
    execution = tool.raw.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise AccessDenied(
            "this tool runs only as a task, which this client does not offer", rule="taskSupport: required"
        )
