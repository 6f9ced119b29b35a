"""A call on its way through a hub: what may look at it, change it, answer in its place.

An interceptor is `async def f(call, proceed)`: it gives the result of `await proceed(call)`, or of another call, or one
of its own. The first registered is the outermost. Before the first of them it has been decided whether the caller may
use the tool, and the arguments have been cleaned; after the last one somebody is asked for approval where the rules
want it, so that what is approved is what is sent.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .._util.threads import in_daemon_thread, is_async
from ..catalog.routing import Route
from ..errors import AccessDenied, ToolcribError, UsageError
from ..policy.globs import Glob
from ..policy.permissions import checked_pattern
from ..types import FilterContext, ToolResult


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: `server` and `tool` as the server knows it, `name` as the hub does; `dataclasses.replace` changes it.

    Who sends it to another tool changes all three together. `context` tells who calls, `options` are the keywords of
    the call: `timeout`, `idle_timeout`, `on_progress`, `meta`, `retry_safe`.
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


class Interceptors:
    """The interceptors of a hub, in their order."""

    def __init__(self) -> None:
        self._entries: tuple[tuple[Glob | None, Interceptor], ...] = ()

    def add(self, pattern: str | None, function: Interceptor) -> None:
        """One more, the innermost; for all calls, or for tools whose qualified name has this form."""
        if not is_async(function):
            raise UsageError("an interceptor is an async function of two arguments: async def f(call, proceed)")
        glob = None if pattern is None else Glob(checked_pattern("intercept", pattern))
        self._entries = (*self._entries, (glob, function))

    def remove(self, function: Interceptor) -> None:
        """Without this one from now on."""
        kept = tuple(entry for entry in self._entries if entry[1] != function)
        if len(kept) == len(self._entries):
            raise UsageError("this function is no interceptor of the hub")
        self._entries = kept

    def of(self, route: Route[Any]) -> tuple[Interceptor, ...]:
        """Those that concern a tool. Chosen once, then noted on its route."""
        if route.chosen is not self._entries:
            name = route.tool.name
            route.chain = tuple(f for glob, f in self._entries if glob is None or glob.matches(name))
            route.chosen = self._entries
        return route.chain


async def run(chain: tuple[Interceptor, ...], call: ToolCall, end: CallNext) -> ToolResult:
    """Through all of them to the end."""
    return await _from(chain, 0, end)(call)


def _from(chain: tuple[Interceptor, ...], place: int, end: CallNext) -> CallNext:
    if place == len(chain):
        return end

    async def proceed(call: ToolCall) -> ToolResult:
        result = await chain[place](call, _checked(_from(chain, place + 1, end)))
        if not isinstance(result, ToolResult):
            raise UsageError(f"an interceptor gave {type(result).__name__}; return what `await proceed(call)` gives")
        return result

    return proceed


def _checked(proceed: CallNext) -> CallNext:
    async def checked(call: ToolCall) -> ToolResult:
        if not isinstance(call, ToolCall):
            raise UsageError(f"proceed takes the call, not {type(call).__name__}: await proceed(call)")
        return await proceed(call)

    return checked


class Approval:
    """What somebody said to one call of a caller, so that an interceptor that tries again does not ask again.

    Only the very call that was let through is: with other arguments it is another one, and a no is never remembered as
    a yes. Who is asked gets arguments of their own, which nobody else can change while they think.
    """

    def __init__(self, approve: Approve) -> None:
        self._approve = approve
        self._given: list[tuple[ToolCall, ToolCall]] = []
        self._turn = asyncio.Lock()

    async def of(self, call: ToolCall, rule: str) -> ToolCall:
        """The call that may be sent in its place; `AccessDenied` if there is none."""
        async with self._turn:
            for asked, allowed in self._given:
                if asked == call:
                    return _apart(allowed)
            asked = _apart(call)
            allowed = await approved(self._approve, _apart(call), rule)
            self._given.append((asked, _apart(allowed)))
            return allowed


def _apart(call: ToolCall) -> ToolCall:
    return replace(call, arguments=copy.deepcopy(dict(call.arguments)))


async def approved(approve: Approve, call: ToolCall, rule: str) -> ToolCall:
    """The call that may be sent: this one, or what the approver made of it. `AccessDenied` if there is none.

    An approver that is not async runs in a thread, because it may block until a person answers. If the caller is
    cancelled meanwhile, the call ends at once and the answer is ignored.

    Nothing but True and a `ToolCall` opens the door: not a text that says "no", not an approver that broke.
    """
    try:
        verdict: object = approve(call) if is_async(approve) else await in_daemon_thread(lambda: approve(call))
        if inspect.isawaitable(verdict):
            verdict = await verdict
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
        message += f": the approver gave {type(verdict).__name__}, not True, False or a Call"
    raise AccessDenied(message, server=call.server, tool=call.tool, rule=rule)
