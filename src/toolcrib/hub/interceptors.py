"""Interceptors and approval: functions that observe, change, answer or reject the calls of a hub.

An interceptor is `async def f(call, proceed)`: it returns the result of `await proceed(call)`, of another call, or one
that it made itself. The first registered is the outermost. Permissions are checked and arguments are cleaned before the
first one runs; approval is asked for after the last one, so that the approved call is the one that is sent.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .._util.threads import call_function, is_async
from ..catalog.routing import Route
from ..errors import AccessDenied, ToolcribError, UsageError
from ..policy.globs import Glob
from ..policy.permissions import checked_pattern
from ..types import FilterContext, ToolResult


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: `server` and `tool` as the server knows it, `name` as the hub does; `dataclasses.replace` changes it.

    To send it to another tool, change all three together. `context` describes the caller, `options` are the keywords
    of the call: `timeout`, `idle_timeout`, `on_progress`, `meta`, `retry_safe`.
    """

    server: str
    tool: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    context: FilterContext = field(default_factory=FilterContext, hash=False)
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)


CallNext = Callable[[ToolCall], Awaitable[ToolResult]]
Interceptor = Callable[[ToolCall, CallNext], Awaitable[ToolResult]]
Approve = Callable[[ToolCall], "Awaitable[bool | ToolCall] | bool | ToolCall"]
Approver = Approve | Literal["caller"]
"""What approves calls: a function, or the caller, which asks before the call."""


class Interceptors:
    """The interceptors of a hub, in their order."""

    def __init__(self) -> None:
        self._entries: tuple[tuple[Glob | None, Interceptor], ...] = ()

    def add(self, pattern: str | None, function: Interceptor) -> None:
        """Add the innermost interceptor, for all calls or for tools whose qualified name matches the pattern."""
        if not is_async(function):
            raise UsageError("an interceptor is an async function of two arguments: async def f(call, proceed)")
        glob = None if pattern is None else Glob(checked_pattern("intercept", pattern))
        self._entries = (*self._entries, (glob, function))

    def remove(self, function: Interceptor) -> None:
        """Remove an interceptor."""
        kept = tuple(entry for entry in self._entries if entry[1] != function)
        if len(kept) == len(self._entries):
            raise UsageError("this function is not an interceptor of this hub")
        self._entries = kept

    def of(self, route: Route[Any]) -> tuple[Interceptor, ...]:
        """Return the interceptors of a tool. They are chosen once and kept on its route."""
        if route.chosen is not self._entries:
            name = route.tool.name
            route.set_chain(tuple(f for glob, f in self._entries if glob is None or glob.matches(name)), self._entries)
        return route.chain


async def run(chain: tuple[Interceptor, ...], call: ToolCall, end: CallNext) -> ToolResult:
    """Pass the call through all interceptors to `end`."""
    return await _from(chain, 0, end)(call)


def _from(chain: tuple[Interceptor, ...], place: int, end: CallNext) -> CallNext:
    if place == len(chain):
        return end

    async def proceed(call: ToolCall) -> ToolResult:
        result = await chain[place](call, _checked(_from(chain, place + 1, end)))
        if not isinstance(result, ToolResult):
            raise UsageError(
                f"an interceptor returned {type(result).__name__}; return the result of `await proceed(call)`"
            )
        return result

    return proceed


def _checked(proceed: CallNext) -> CallNext:
    async def checked(call: ToolCall) -> ToolResult:
        if not isinstance(call, ToolCall):
            raise UsageError(f"proceed: expected the call, got {type(call).__name__}; write `await proceed(call)`")
        return await proceed(call)

    return checked


class Approval:
    """The approvals within one call of a caller, so that an interceptor that retries does not cause a second question.

    An approval is valid for exactly the call that was approved, not for other arguments; denials are not kept. The
    approver receives a copy of the arguments, which no interceptor can change while the approver decides.
    """

    def __init__(self, approve: Approve) -> None:
        self._approve = approve
        self._given: list[tuple[ToolCall, ToolCall]] = []
        self._turn = asyncio.Lock()

    async def ask(self, call: ToolCall, rule: str) -> ToolCall:
        """Return the call that may be sent in its place; raise `AccessDenied` if it is not approved."""
        async with self._turn:
            for asked, allowed in self._given:
                if asked == call:
                    return _copy_call(allowed)
            asked = _copy_call(call)
            allowed = await ask_approver(self._approve, _copy_call(call), rule)
            self._given.append((asked, _copy_call(allowed)))
            return allowed


def _copy_call(call: ToolCall) -> ToolCall:
    return replace(call, arguments=copy.deepcopy(dict(call.arguments)))


async def ask_approver(approve: Approve, call: ToolCall, rule: str) -> ToolCall:
    """Return the call that may be sent: this one, or as the approver edited it. Raise `AccessDenied` otherwise.

    An approver that is not async runs in a thread, because it may block until a person answers. If the caller is
    cancelled meanwhile, the call ends at once and the answer is ignored.

    Only True and a `ToolCall` approve; any other value, and an exception, denies.
    """
    try:
        verdict: object = await call_function(approve, call)
    except ToolcribError:
        raise
    except Exception as exc:
        message = f"the call was not approved: {type(exc).__name__} in the approver"
        raise AccessDenied(message, server=call.server, tool=call.tool, rule=rule) from exc
    if verdict is True:
        return call
    if isinstance(verdict, ToolCall):
        return verdict
    message = "the call was not approved"
    if verdict not in (False, None):
        message += f": the approver returned {type(verdict).__name__}; expected True, False or an edited call"
    raise AccessDenied(message, server=call.server, tool=call.tool, rule=rule)
