"""Calls of tools: checks before the call, events and tracing around it, and the meaning of failures."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import Any

from .._util.suggest import did_you_mean, similar_names
from ..errors import (
    AccessDenied,
    CallTimeout,
    ConnectionLost,
    OutcomeUnknown,
    RemoteError,
    ToolcribError,
    ToolNotFound,
    UsageError,
)
from ..events import Listeners, ToolExecutionCompleted, ToolExecutionFailed, ToolExecutionStarted
from ..policy.argument_cleaning import clean, clean_for_schema
from ..policy.filters import StaticFilter, allows, describe
from ..policy.retry import is_repeatable
from ..protocol.jsonrpc import INVALID_PARAMS
from ..protocol.metadata import with_meta
from ..protocol.param_headers import parameter_headers
from ..protocol.sanitize import one_line
from ..protocol.versions import HEADER_MISMATCH
from ..transports.channel import RequestOptions
from ..types import FilterContext, Tool, ToolResult, Wire
from .listing import TOOLS, Lister, Use
from .options import ResolvedOptions
from .request_executor import RequestExecutor
from .supervisor import Supervisor
from .telemetry import call_span

log = logging.getLogger("toolcrib.client")


@contextlib.contextmanager
def listing_before_call() -> Iterator[None]:
    """Raise errors of a list that is fetched before a call as errors of the call, which was not sent."""
    try:
        yield
    except OutcomeUnknown as exc:
        kind = CallTimeout if isinstance(exc, CallTimeout) else ConnectionLost
        raise kind("the tools could not be listed before the call, which was not sent") from exc
    except ToolcribError as exc:
        exc.sent = False
        raise


class ToolCaller:
    """Calls tools: from arguments to a `ToolResult`."""

    def __init__(
        self,
        settings: ResolvedOptions,
        supervisor: Supervisor,
        executor: RequestExecutor,
        lister: Lister,
        listeners: Listeners,
        over_http: bool = False,
    ) -> None:
        self._settings = settings
        self._supervisor = supervisor
        self._executor = executor
        self._lister = lister
        self._listeners = listeners
        self._over_http = over_http
        self._context = FilterContext(server_name=settings.name)

    async def check_filter(self, name: str, deadline: float | None) -> None:
        """Raise `AccessDenied` if the filter hides the tool.

        A static filter decides by the name alone. Any other filter must see the whole tool as the server lists it now:
        a tool that is not in the list is rejected, because the filter has nothing to decide by.
        """
        tool_filter = self._settings.tool_filter
        if isinstance(tool_filter, StaticFilter):
            tool = self._lister.tools.get(name) or Tool(name, raw={"name": name})
        else:
            await self._list_before_call(deadline)
            listed = self._lister.tools.get(name)
            if listed is None:
                raise self._not_found(name, "the server does not list it")
            tool = listed
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
        """Return the params of the request, and whether it may be sent twice."""
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

    async def execute_observed(self, name: str, params: Wire, options: RequestOptions, repeatable: bool) -> ToolResult:
        """Run `execute`, with events for the listeners and a span for tracing."""
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
        """Send the call and return its result, or raise exactly one error."""
        began = monotonic()
        if self._over_http and self._may_want_headers(name):
            options = await self._with_headers(name, params, options)
        try:
            raw = await self._executor.request("tools/call", params, options=options, repeatable=repeatable)
        except RemoteError as exc:
            raw = await self._handle_rejection(name, params, options, repeatable, exc)
        # An error result stays a result, even if the tool is not listed: the tool may have run.
        tool = self._lister.tools.get(name)
        return ToolResult(raw, elapsed=monotonic() - began, wrapped=tool is not None and tool.wraps_result)

    def _may_want_headers(self, name: str) -> bool:
        session = self._supervisor.session
        unknown = session is None or (session.mirrors and name not in self._lister.tools)
        return unknown or bool(self._lister.mirrored.get(name))

    async def _with_headers(self, name: str, params: Wire, options: RequestOptions) -> RequestOptions:
        """Add the arguments that a modern tool requires in HTTP headers; the list of tools declares them."""
        session = await self._executor.reach(options.deadline)
        if session.mirrors and name not in self._lister.tools:
            try:
                await self._list_before_call(options.deadline)
            except RemoteError as exc:
                log.debug("%s: the tools could not be listed before a call: %s", self._settings.name, exc)
        declared = self._lister.mirrored.get(name)
        if not declared:
            return options
        return options._replace(headers=parameter_headers(declared, params["arguments"]))

    async def _list_before_call(self, deadline: float | None, *, fresh: bool = False) -> None:
        """Fetch the list of tools if it is stale, or in any case if `fresh`.

        If that fails, the error says that the call itself was not sent.
        """
        with listing_before_call():
            if fresh:
                await self._lister.fetch(TOOLS, Use.NEVER, deadline)
            else:
                await self._lister.ensure_tools(deadline)

    async def _handle_rejection(
        self, name: str, params: Wire, options: RequestOptions, repeatable: bool, exc: RemoteError
    ) -> Wire:
        """Handle an error answer to a call, which may mean that the client's list of tools is outdated.

        Sends the call again with new headers, or raises `ToolNotFound` or the error itself.
        """
        if exc.code == INVALID_PARAMS:
            await self._check_listed(name, options.deadline, exc)
        if exc.code != HEADER_MISMATCH:
            raise exc
        await self._list_before_call(options.deadline, fresh=True)
        options = await self._with_headers(name, params, options._replace(headers=None))
        return await self._executor.request("tools/call", params, options=options, repeatable=repeatable)

    def _cleaned(self, arguments: Mapping[str, Any] | None, tool: Tool | None) -> Wire:
        if arguments is not None and not isinstance(arguments, Mapping):
            raise UsageError(
                f"arguments: expected a mapping of names to values, got {type(arguments).__name__}. "
                "Decode JSON text with json.loads first"
            )
        given: Wire = dict(arguments) if arguments else {}
        mode = self._settings.clean_arguments
        if mode == "always":
            return clean(given)
        if mode == "schema" and tool is not None:
            return clean_for_schema(given, tool.input_schema)
        return given

    def allowed(self, tool: Tool) -> bool:
        """Return whether the filter allows the tool."""
        return allows(self._settings.tool_filter, tool, self._context)

    async def _check_listed(self, name: str, deadline: float | None, refusal: RemoteError) -> None:
        """Raise `ToolNotFound` if the server rejected the call and a fresh list does not have the tool."""
        if self._lister.complete and name in self._lister.tools:
            return
        try:
            await self._lister.fetch(TOOLS, Use.NEVER, deadline)
        except ToolcribError:
            return  # the outcome of the call is its error answer, not the failed listing
        if name not in self._lister.tools:
            raise self._not_found(name, one_line(refusal.message), sent=True) from refusal

    def _not_found(self, name: str, reason: str, *, sent: bool = False) -> ToolNotFound:
        visible = [tool.name for tool in self._lister.tools.values() if self.allowed(tool)]
        own = _own_name(name, visible)
        nearest = similar_names(name, visible) if own is None else (own,)
        if own is not None:
            hint = f"; a Client calls a tool by its plain name, {own!r}: only a Hub has qualified names"
        else:  # a server may have suggested a name already
            hint = "" if "did you mean" in reason else did_you_mean(nearest)
        return ToolNotFound(f"tool not found ({reason}){hint}", tool=name, nearest=nearest, sent=sent)


def _own_name(name: str, visible: Iterable[str]) -> str | None:
    """Return the tool whose qualified name in a hub `name` is, if there is one."""
    if not name.startswith("mcp__"):
        return None
    return max((each for each in visible if name.endswith(f"__{each}")), key=len, default=None)


def _check_callable(tool: Tool) -> None:
    execution = tool.raw.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        raise AccessDenied(
            "this tool runs only as a task, which this client does not support", rule="taskSupport: required"
        )
