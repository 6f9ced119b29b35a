"""Why can't I see this tool? One sentence: the rule, status or setting that decides."""

from __future__ import annotations

from .._util.suggest import did_you_mean
from ..protocol.text import one_line
from ..types import FilterContext, State
from .access import Access
from .catalog import Route, nearest
from .member import Member
from .offer import Offer
from .roster import Roster


def explain(name: str, roster: Roster, access: Access, offer: Offer, context: FilterContext | None) -> str:
    """What decides of this tool, for who asks. A ban is a ban, whether or not there is such a tool."""
    route = roster.catalog.routes.get(name)
    decision = access.permissions.decide(name) if route is None else route.decision
    if decision.kind == "deny":
        return str(decision)
    if route is None:
        return _not_there(name, roster, offer, context)
    if (rule := access.refusal(route, context)) is not None:
        if rule != route.decision.rule:
            return f"hidden by the {rule}"
        return f"{decision}, and nobody is there to approve"
    said = str(decision)
    if offer.is_deferred(route):
        said += f"; deferred by the toolset {route.owner.name}: search_tools finds it"
    return said + _named(name, route, roster) + _standing(route.owner)


def _not_there(name: str, roster: Roster, offer: Offer, context: FilterContext | None) -> str:
    owner = roster.owner_of(name)
    if owner is None:
        return f"no server of this hub has a name that {name!r} could begin with; its servers: " + (
            ", ".join(roster.members) or "none"
        )
    if not owner.listed:
        return f"the tools of {owner.name} are not known: it is {owner.status}"
    own = [tool.name for tool in offer.tools(context, deferred=True, of=owner)]
    return f"{owner.name} lists no such tool{did_you_mean(nearest(name, own))}"


def _named(name: str, route: Route[Member], roster: Roster) -> str:
    alias = roster.catalog.alias(route.tool.name)
    if alias == route.tool.name:
        return ""
    own = one_line(route.tool.name)
    return f"; {alias} is an alias of {own}" if name == alias else f"; its alias is {alias}"


def _standing(member: Member) -> str:
    status = member.status
    return "" if status.state is State.CONNECTED else f"; {member.name} is {status}"
