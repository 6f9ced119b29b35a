"""Which tools of a hub a caller may see and call: the server's filter, the hub's filter, the hub's permissions. Pure.

Decisions that depend on names alone are made once for each tool and kept on its route. A filter that is a function is
called each time, for a list as well as before a call, so that a hidden tool cannot be called.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ..catalog.routing import Route
from ..errors import UsageError
from ..policy.filters import AnyFilter, StaticFilter, allows, describe
from ..policy.permissions import Permissions
from ..tool_names import alias
from ..types import FilterContext, Tool

ASK_FIRST: Final = "the caller has to ask for approval, and then call it with approved=True"
"""What is said of a tool that needs approval in a hub with approve="caller"."""


class Live(NamedTuple):
    """A filter that is called each time, and the form of the tool that it receives."""

    tool_filter: AnyFilter
    tool: Tool


class Access:
    """The rules of a hub.

    `can_ask`: calls can be approved, by a function of the hub or, with `caller_asks`, by the caller.
    """

    def __init__(
        self, permissions: Permissions, tool_filter: AnyFilter | None, *, can_ask: bool, caller_asks: bool = False
    ) -> None:
        self.caller_asks = caller_asks
        """Whether the caller asks for approval, and says so with each call."""
        self._permissions = permissions
        self._can_ask = can_ask
        self._tool_filter = tool_filter

    @property
    def permissions(self) -> Permissions:
        """The permissions in force."""
        return self._permissions

    def replace_permissions(self, permissions: Permissions) -> None:
        """Put other permissions in force. Routes that were judged before have to be judged again."""
        self._permissions = permissions

    def judge(self, route: Route[Any], server_filter: AnyFilter | None) -> None:
        """Decide what holds for every caller, and keep it on the route.

        The server's filter receives the tool as its server names it, the hub's filter as the hub does.
        """
        decision = self._permissions.decide(route.tool.name, alias(route.tool.name))
        refusal = None if decision.lets_through(can_ask=self._can_ask) else decision.rule
        live = []
        for tool_filter, tool in ((server_filter, route.source), (self._tool_filter, route.tool)):
            if tool_filter is None:
                continue
            if not isinstance(tool_filter, StaticFilter):
                live.append(Live(tool_filter, tool))
            elif refusal is None and not tool_filter(tool):
                refusal = tool_filter.describe()
        route.set_access(decision, refusal, tuple(live))

    def needs_approval(self, name: str, route: Route[Any] | None) -> bool:
        """Return whether the caller has to ask before it calls the tool of this name, listed or not."""
        if not self.caller_asks:
            return False
        decision = self._permissions.decide(name) if route is None else route.decision
        return bool(decision.kind == "ask")

    def refusal(self, route: Route[Any], context: FilterContext | None) -> str | None:
        """Return the rule that hides the tool from this caller; None if the caller may see and call it."""
        if route.refusal is not None or not route.live:
            return route.refusal
        return find_hiding_filter(route, scope_context(context, route.tool.server))


def describe_refusal(route: Route[Any], rule: str) -> str:
    """Return why a tool is hidden, as text; `rule` is the rule that hides it."""
    if rule != route.decision.rule:
        return f"hidden by the {rule}"
    missing = ", but the hub has no approve= function" if route.decision.kind == "ask" else ""
    return f"{route.decision}{missing}"


def find_hiding_filter(route: Route[Any], context: FilterContext) -> str | None:
    """Return the first filter, of those that are called each time, that hides the tool in this context."""
    for tool_filter, tool in route.live:
        if not allows(tool_filter, tool, context):
            return describe(tool_filter)
    return None


def scope_context(context: object, server: str | None) -> FilterContext:
    """Return the context that the filters of one server receive."""
    if context is None:
        return FilterContext(server_name=server)
    if not isinstance(context, FilterContext):
        expected = "a FilterContext, as hub.view(agent=...) makes one"
        raise UsageError(f"context: expected {expected}, not {type(context).__name__}")
    return FilterContext(context.agent, server, context.run_context)
