"""The path of a call through a hub: the table, the rules, cleaning, interceptors, approval, the server's client."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any, TypedDict

from .._util.suggest import did_you_mean
from ..catalog.routing import Route
from ..client.client import Timeout
from ..errors import AccessDenied, ConnectionLost, ToolcribError, ToolNotFound, UsageError
from ..events import ToolExecutionFailed
from ..policy.argument_cleaning import clean, clean_for_schema
from ..transports.channel import ProgressHandler
from ..types import UNSET, FilterContext, ToolResult
from .access import ASK_FIRST, Access, describe_refusal, scope_context
from .interceptors import Approval, Approver, CallNext, Interceptor, Interceptors, ToolCall, run
from .managed_server import ManagedServer, time_left
from .servers import ServerSet
from .visible_tools import VisibleTools


class CallOptions(TypedDict, total=False):
    """Keywords of a call, as `Client.call_tool` has them, and `approved`."""

    timeout: Timeout
    idle_timeout: Timeout
    on_progress: ProgressHandler | None
    meta: Mapping[str, Any] | None
    retry_safe: bool | None
    approved: bool
    """Whether the caller asked for approval and got it; for a `Hub(..., approve="caller")`."""


class Dispatcher:
    """Takes calls from a qualified name to a result."""

    def __init__(
        self, servers: ServerSet, access: Access, visible_tools: VisibleTools[ManagedServer], approve: Approver | None
    ) -> None:
        self.interceptors = Interceptors()
        self._servers = servers
        self._routes = servers.catalog.routes
        self._access = access
        self._visible_tools = visible_tools
        self._approve = approve

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        context: FilterContext | None,
        options: CallOptions,
    ) -> ToolResult:
        """Make one call; see `Hub.call_tool`."""
        approved = "approved" in options and options.pop("approved") is True
        route = self._routes.get(name) if type(name) is str else None
        if route is None or not self._servers.running:
            route, options = await self._find(name, options)
        if not route.open:
            self._admit(route, context)
        cleaned: Mapping[str, Any] = {}
        if arguments:
            mode = route.owner.spec.settings.clean_arguments
            if not isinstance(arguments, Mapping):
                raise UsageError(
                    f"arguments: expected a mapping of names to values, got {type(arguments).__name__}; "
                    "decode JSON text with json.loads"
                )
            cleaned = dict(arguments)
            if mode == "schema":
                cleaned = clean_for_schema(cleaned, route.tool.input_schema)
            elif mode == "always":
                cleaned = clean(cleaned)
        chain = self.interceptors.of(route)
        if chain or route.decision.kind == "ask":
            return await self._run_interceptors(chain, route, cleaned, context, options, approved)
        return await self._send(route, cleaned, options)

    async def _find(self, name: str, options: CallOptions) -> tuple[Route[ManagedServer], CallOptions]:
        """Return the route of a tool that the table does not have: its server may be starting.

        The wait counts against the time-out of the call.
        """
        if not isinstance(name, str):
            raise UsageError(f"name: expected a tool's name such as mcp__server__tool, got {type(name).__name__}")
        self._servers.begin()
        owner = None if name in self._routes else self._servers.find_owner(name)
        if owner is not None and not owner.listed:
            timeout, began = owner.resolve_timeout(options.get("timeout", UNSET)), monotonic()
            await owner.wait_until_listed(timeout)
            options = {**options, "timeout": time_left(timeout, began)}
        route = self._routes.get(name)
        if route is None:
            raise self._visible_tools.make_not_found(name)
        return route, options

    def _admit(self, route: Route[ManagedServer], context: FilterContext | None) -> None:
        """Raise `AccessDenied` if the tool is hidden from the caller, and emit the event of a failed call."""
        rule = self._access.refusal(route, context)
        if rule is None:
            return
        server, tool = route.owner.name, route.original
        message = describe_refusal(route, rule)
        raise self._emit_denied(AccessDenied(message, server=server, tool=tool, rule=rule))

    async def _run_interceptors(
        self,
        chain: tuple[Interceptor, ...],
        route: Route[ManagedServer],
        arguments: Mapping[str, Any],
        context: FilterContext | None,
        options: CallOptions,
        approved: bool,
    ) -> ToolResult:
        """Pass the call through the interceptors and the approval.

        An interceptor may send several calls. If one of them was handed to the server, every later error of this call
        says `sent`, a refusal too.
        """
        server, possibly_sent = route.owner.name, 0
        call = ToolCall(
            server, route.original, route.tool.name, arguments, scope_context(context, server), dict(options)
        )
        approval = Approval(self._approve) if callable(self._approve) else None

        def end(passed: tuple[Interceptor, ...]) -> CallNext:
            async def send(call: ToolCall) -> ToolResult:
                chosen = self._find_allowed(call)
                # If an interceptor chose another tool, the interceptors of that tool run, too.
                if missed := tuple(f for f in self.interceptors.of(chosen) if f not in passed):
                    return await run(missed, call, end((*passed, *missed)))
                if chosen.decision.kind == "ask":
                    if approval is None:
                        self._check_approved(chosen, route, approved)
                    else:
                        chosen, call = await self._ask_approval(approval, chosen, call)
                nonlocal possibly_sent
                possibly_sent += 1
                try:
                    return await self._send(chosen, call.arguments, call.options)
                except (ToolcribError, UsageError) as exc:
                    possibly_sent -= exc.sent is False
                    raise

            return send

        try:
            return await run(chain, call, end(chain))
        except (ToolcribError, UsageError) as exc:
            exc.sent = exc.sent or possibly_sent > 0
            raise

    async def _ask_approval(
        self, approval: Approval, asked: Route[ManagedServer], call: ToolCall
    ) -> tuple[Route[ManagedServer], ToolCall]:
        """Return the call as it was approved. The approval is valid for the tool that was asked for, not for one that
        took its name in the meantime.
        """
        try:
            allowed = await approval.ask(call, asked.decision.rule)
        except AccessDenied as exc:
            raise self._emit_denied(exc) from exc.__cause__
        chosen = self._find_allowed(allowed)
        if chosen is not asked and allowed.name == call.name:
            message = "the tool changed while the call was being approved; call it again"
            raise self._emit_denied(AccessDenied(message, server=call.server, tool=call.tool, rule=asked.decision.rule))
        return chosen, allowed

    def _check_approved(self, chosen: Route[ManagedServer], asked: Route[ManagedServer], approved: bool) -> None:
        """Raise `AccessDenied` unless the caller got approval for this tool, and not for one that took its name.

        Interceptors belong to the program: they may change the arguments, but not the tool.
        """
        if approved and chosen is asked:
            return
        if not approved:
            message = f"{chosen.decision}: {ASK_FIRST}"
        elif chosen.tool.name == asked.tool.name:
            message = "the tool changed while the call was being made; ask again, and call it again"
        else:
            message = f"{chosen.decision}: the caller got approval for {asked.tool.name}, not for this tool"
        server, tool = chosen.owner.name, chosen.original
        raise self._emit_denied(AccessDenied(message, server=server, tool=tool, rule=chosen.decision.rule))

    def _emit_denied(self, error: AccessDenied) -> AccessDenied:
        """Emit the event of a call that was refused. Returns the error."""
        self._servers.listeners.emit(ToolExecutionFailed(error.server or "", error.tool or "", 0.0, error))
        return error

    def _find_allowed(self, call: ToolCall) -> Route[ManagedServer]:
        """Return the route of a call that an interceptor or an approval may have changed.

        The tool must exist, be allowed, and its names must be consistent.
        """
        route = self._routes.get(call.name)
        if route is None:
            raise self._visible_tools.make_not_found(call.name)
        if (call.server, call.tool) != (route.owner.name, route.original):
            raise UsageError(f"{call.name} is not {call.tool} of {call.server}: change them together")
        if not route.open:
            self._admit(route, call.context)
        return route

    async def _send(
        self, route: Route[ManagedServer], arguments: Mapping[str, Any], options: Mapping[str, Any]
    ) -> ToolResult:
        managed = route.owner
        try:
            if managed.direct is not None:
                return await managed.direct.call_tool(route.original, arguments, **options)
            if managed.clients is None:
                raise ConnectionLost("the server was removed", server=managed.name, tool=route.original)
            managed.prioritize()
            timeout, began = managed.resolve_timeout(options.get("timeout", UNSET)), monotonic()
            async with managed.clients.lease(timeout) as client:
                options = {**options, "timeout": time_left(timeout, began)}
                result = await client.call_tool(route.original, arguments, **options)
            # A client that was made for this one call has not seen the list.
            return ToolResult(result.raw, elapsed=result.elapsed, wrapped=route.tool.wraps_result)
        except ToolNotFound as exc:
            # The tool was in the hub's list, which is therefore out of date.
            managed.mark_stale(["tools"])
            near = self._visible_tools.nearest(route.tool.name, but=route)
            message = f"the server no longer has this tool{did_you_mean(near)}"
            raise ToolNotFound(message, server=managed.name, tool=route.original, sent=True, nearest=near) from exc
        except UsageError as exc:
            if not managed.closed:
                raise
            raise ConnectionLost("the server was removed", server=managed.name, tool=route.original) from exc
