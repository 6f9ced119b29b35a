"""Hidden is not callable, by whatever door; a ban wins; the order in which rules and servers come does not matter."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolcrib as tc
from tests.hub.kit import Hub, echo_server, names, outcomes

TOOLS = ("read_a", "read.b", "write_a", "w" * 70)
PATTERNS = st.sampled_from(
    ["mcp__s__read_a", "mcp__s__*", "mcp__t__read*", "mcp__*__w*", "mcp__t", "mcp__s", "*", "mcp__*_a", "mcp__s__*.b"]
)
RULES = st.fixed_dictionaries(
    {
        "allowed_tools": st.none() | st.lists(PATTERNS, max_size=4),
        "disallowed_tools": st.lists(PATTERNS, max_size=2),
        "require_approval": st.dictionaries(PATTERNS, st.sampled_from(["always", "never"]), max_size=2),
    }
)
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def servers(blocked: frozenset[str]) -> dict[str, Any]:
    own = {"tool_filter": tc.static_filter(blocked=blocked)}
    return {"s": (echo_server(*TOOLS, name="s"), own), "t": echo_server(*TOOLS, name="t")}


def everything() -> list[str]:
    return [f"mcp__{server}__{tool}" for server in ("s", "t") for tool in TOOLS]


async def is_refused(call: Any) -> bool:
    (outcome,) = await outcomes(call)
    if isinstance(outcome, tc.AccessDenied):
        assert outcome.rule
        return True
    assert not outcome.is_error
    return False


@few
@given(
    rules=RULES,
    blocked=st.frozensets(st.sampled_from(TOOLS)),
    secret=st.frozensets(st.sampled_from(everything())),
    deferred=st.booleans(),
    agent=st.sampled_from(["admin", "guest"]),
)
async def test_a_tool_that_is_hidden_is_closed_by_every_door(
    rules: dict[str, Any], blocked: frozenset[str], secret: frozenset[str], deferred: bool, agent: str
) -> None:
    by_agent = tc.dynamic_filter(lambda context, tool: context.agent == "admin" or tool.name not in secret)
    async with Hub(servers(blocked), tool_filter=by_agent, **rules) as hub:
        if deferred:
            hub.toolsets.register(tc.Toolset("s").defer_all())
        view = hub.view(agent=agent, meta_tools=True)
        seen = {*names(await view.list_tools(deferred=True))} - {"search_tools", "call_tool"}
        assert {*names(await hub.view(agent=agent).search_tools("read write w", limit=99))} <= seen
        for name in everything():
            hidden = name not in seen
            assert await is_refused(view.call_tool(name)) is hidden
            assert await is_refused(view.call_tool(hub.alias(name))) is hidden
            assert await is_refused(view.call_tool("call_tool", {"name": name, "arguments": {}})) is hidden
            if hidden:
                with pytest.raises(tc.ToolNotFound):
                    await view.load_tools(name)
                assert not view.explain(name).startswith("allowed")
            else:
                assert names(await view.load_tools(name)) == [name]
                assert view.explain(name).startswith("allowed")
        assert seen == {*names(await view.list_tools())} - {"search_tools", "call_tool"}, "loaded, all are listed"


@few
@given(rules=RULES, blocked=st.frozensets(st.sampled_from(TOOLS)), order=st.randoms(use_true_random=False))
async def test_a_ban_wins_and_no_order_matters(rules: dict[str, Any], blocked: frozenset[str], order: Random) -> None:
    def shuffled(given_: Any) -> Any:
        if given_ is None:
            return None
        items = list(given_.items() if isinstance(given_, dict) else given_)
        order.shuffle(items)
        return dict(items) if isinstance(given_, dict) else items

    others = {key: shuffled(rule) for key, rule in rules.items()}
    async with Hub(servers(blocked), **rules) as one, Hub(shuffled(servers(blocked)), **others) as two:
        first, second = names(await one.list_tools()), names(await two.list_tools())
        assert sorted(first) == sorted(second)
        assert [one.explain(name) for name in everything()] == [two.explain(name) for name in everything()]
    async with Hub(servers(blocked), disallowed_tools=rules["disallowed_tools"]) as only_bans:
        allowed = {*names(await only_bans.list_tools())}
    assert {*first} <= allowed, "nothing that is said besides opens what is banned"
