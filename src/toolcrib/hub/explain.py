"""Explains in one sentence why a tool is visible or not: the rule, status or setting that decides."""

from __future__ import annotations

from .._util.suggest import did_you_mean
from ..catalog.routing import Route, nearest
from ..protocol.sanitize import one_line
from ..types import ConnectionState, FilterContext
from .access import ASK_FIRST, Access, describe_refusal
from .managed_server import ManagedServer
from .servers import ServerSet
from .visible_tools import VisibleTools


def explain(
    name: str,
    servers: ServerSet,
    access: Access,
    visible_tools: VisibleTools[ManagedServer],
    context: FilterContext | None,
) -> str:
    """Return why this caller can or cannot use a tool. A deny rule is reported even if the tool does not exist."""
    route = servers.catalog.routes.get(name)
    decision = access.permissions.decide(name) if route is None else route.decision
    if decision.kind == "deny":
        return str(decision)
    if route is None:
        return _explain_missing(name, servers, visible_tools, context)
    if (rule := access.refusal(route, context)) is not None:
        return describe_refusal(route, rule)
    reason = str(decision)
    if access.caller_asks and decision.kind == "ask":
        reason += f": {ASK_FIRST}"
    if visible_tools.is_deferred(route):
        reason += f"; deferred by the toolset {route.owner.name}: search_tools finds it"
    return reason + _explain_alias(name, route, servers) + _explain_status(route.owner)


def _explain_missing(
    name: str, servers: ServerSet, visible_tools: VisibleTools[ManagedServer], context: FilterContext | None
) -> str:
    owner = servers.find_owner(name)
    if owner is None:
        return f"{name!r} does not begin with the name of a server of this hub; its servers: " + (
            ", ".join(servers.by_name) or "none"
        )
    if not owner.listed:
        return f"{owner.name} has not listed its tools yet; its status is {owner.status}"
    own = [tool.name for tool in visible_tools.tools(context, deferred=True, of=owner)]
    return f"{owner.name} does not list this tool{did_you_mean(nearest(name, own))}"


def _explain_alias(name: str, route: Route[ManagedServer], servers: ServerSet) -> str:
    alias = servers.catalog.alias(route.tool.name)
    if alias == route.tool.name:
        return ""
    own = one_line(route.tool.name)
    return f"; {alias} is an alias of {own}" if name == alias else f"; its alias is {alias}"


def _explain_status(managed: ManagedServer) -> str:
    status = managed.status
    return "" if status.state is ConnectionState.CONNECTED else f"; {managed.name} is {status}"
