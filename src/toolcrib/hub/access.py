"""Who may see and call a tool of a hub: its server's filter, the hub's filter, the hub's permissions. Pure.

What names alone decide is decided once for each tool and noted on its route. A filter that is a function is asked each
time, in a list as before a call: hidden and not callable are one thing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..catalog.routing import Route
from ..errors import UsageError
from ..policy.filters import AnyFilter, StaticFilter, allows, describe
from ..policy.permissions import Permissions
from ..tool_names import alias
from ..types import FilterContext, Tool


class Live(NamedTuple):
    """A filter that is asked each time, and the form of the tool that it sees."""

    tool_filter: AnyFilter
    tool: Tool


class Access:
    """The rules of a hub. `can_ask`: there is somebody who can approve of a call."""

    def __init__(self, permissions: Permissions, tool_filter: AnyFilter | None, *, can_ask: bool) -> None:
        self.permissions = permissions
        self.can_ask = can_ask
        self._tool_filter = tool_filter

    def judge(self, route: Route[Any], server_filter: AnyFilter | None) -> None:
        """Note on a route what holds for everybody.

        The server's filter sees the tool as its server names it, the hub's filter as the hub does.
        """
        route.decision = decision = self.permissions.decide(route.tool.name, alias(route.tool.name))
        route.refusal = None if decision.lets_through(can_ask=self.can_ask) else decision.rule
        live = []
        for tool_filter, tool in ((server_filter, route.source), (self._tool_filter, route.tool)):
            if tool_filter is None:
                continue
            if not isinstance(tool_filter, StaticFilter):
                live.append(Live(tool_filter, tool))
            elif route.refusal is None and not tool_filter(tool):
                route.refusal = tool_filter.describe()
        route.live = tuple(live)
        route.open = route.refusal is None and not live and decision.kind == "allow"

    def refusal(self, route: Route[Any], context: FilterContext | None) -> str | None:
        """The rule that hides the tool from this one who asks; None if it may be seen and called."""
        if route.refusal is not None or not route.live:
            return route.refusal
        return hidden_by(route, scoped(context, route.tool.server))


def hidden_by(route: Route[Any], asking: FilterContext) -> str | None:
    """The first of the filters that are asked each time which does not let the tool through."""
    for tool_filter, tool in route.live:
        if not allows(tool_filter, tool, asking):
            return describe(tool_filter)
    return None


def scoped(context: object, server: str | None) -> FilterContext:
    """The context as the filters of one server see it."""
    if context is None:
        return FilterContext(server_name=server)
    if not isinstance(context, FilterContext):
        expected = "a FilterContext, as hub.view(agent=...) makes one"
        raise UsageError(f"context: expected {expected}, not {type(context).__name__}")
    return FilterContext(context.agent, server, context.run_context)
