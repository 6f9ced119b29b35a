"""Why can't I see this tool? One sentence: the rule, status or setting that decides."""

from __future__ import annotations

from .._util.suggest import did_you_mean
from ..catalog.routing import Route, nearest
from ..protocol.sanitize import one_line
from ..types import ConnectionState, FilterContext
from .access import Access
from .managed_server import ManagedServer
from .servers import ServerSet
from .visible_tools import VisibleTools


def explain(
    name: str, servers: ServerSet, access: Access, visible_tools: VisibleTools, context: FilterContext | None
) -> str:
    """Return what decides about a tool for this caller. A ban is reported whether or not the tool exists."""
    route = servers.catalog.routes.get(name)
    decision = access.permissions.decide(name) if route is None else route.decision
    if decision.kind == "deny":
        return str(decision)
    if route is None:
        return _explain_missing(name, servers, visible_tools, context)
    if (rule := access.refusal(route, context)) is not None:
        if rule != route.decision.rule:
            return f"hidden by the {rule}"
        return f"{decision}, and nobody is there to approve"
    said = str(decision)
    if visible_tools.is_deferred(route):
        said += f"; deferred by the toolset {route.owner.name}: search_tools finds it"
    return said + _explain_alias(name, route, servers) + _explain_status(route.owner)


def _explain_missing(name: str, servers: ServerSet, visible_tools: VisibleTools, context: FilterContext | None) -> str:
    owner = servers.find_owner(name)
    if owner is None:
        return f"no server of this hub has a name that {name!r} could begin with; its servers: " + (
            ", ".join(servers.by_name) or "none"
        )
    if not owner.listed:
        return f"the tools of {owner.name} are not known: it is {owner.status}"
    own = [tool.name for tool in visible_tools.tools(context, deferred=True, of=owner)]
    return f"{owner.name} lists no such tool{did_you_mean(nearest(name, own))}"


def _explain_alias(name: str, route: Route[ManagedServer], servers: ServerSet) -> str:
    alias = servers.catalog.alias(route.tool.name)
    if alias == route.tool.name:
        return ""
    own = one_line(route.tool.name)
    return f"; {alias} is an alias of {own}" if name == alias else f"; its alias is {alias}"


def _explain_status(managed: ManagedServer) -> str:
    status = managed.status
    return "" if status.state is ConnectionState.CONNECTED else f"; {managed.name} is {status}"
