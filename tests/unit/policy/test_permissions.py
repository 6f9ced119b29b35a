"""Permissions: which calls are allowed, and by which rule."""

from __future__ import annotations

import pickle
from fnmatch import fnmatchcase
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.policy.permissions import Decision, Permissions
from toolcrib.tool_names import is_server_name, make

servers = st.sampled_from(["fs", "github", "git_hub", "a-b", "a", "mcp"])
own_names = st.sampled_from(["read", "read_file", "delete_repo", "create", "a__b", "", "*", "é"])
qualified = st.builds(make, servers, own_names)
patterns = st.sampled_from(
    [
        "*",
        "mcp__*",
        "m*",
        "mcp__fs",
        "mcp__git*",
        "mcp__github__*",
        "mcp__git_hub",
        "mcp__*__read*",
        "*delete*",
        "mcp__fs__read",
        "mcp__fs__read_*",
        "mcp__github__delete_repo",
        "mcp__a-b__a__b",
    ]
)
rules = st.lists(patterns, max_size=4)
approvals = st.none() | rules | st.dictionaries(patterns, st.sampled_from(["always", "never"]), max_size=4)

TOUR = Permissions(
    ["mcp__fs__read_*", "mcp__github__*", "mcp__math__*"],
    ["mcp__github__delete_*"],
    {"mcp__github__create_*": "always"},
)


@pytest.mark.parametrize(
    "name,kind,said",
    [
        ("mcp__github__delete_repo", "deny", "denied by disallowed_tools: mcp__github__delete_*"),
        ("mcp__github__create_issue", "ask", "needs approval by require_approval: mcp__github__create_*"),
        ("mcp__github__list_issues", "allow", "allowed by allowed_tools: mcp__github__*"),
        ("mcp__fs__read_file", "allow", "allowed by allowed_tools: mcp__fs__read_*"),
        ("mcp__fs__write_file", "ask", "needs approval: not in allowed_tools"),
    ],
)
def test_a_decision_names_the_rule_that_decides(name: str, kind: str, said: str) -> None:
    decision = TOUR.decide(name)
    assert decision.kind == kind
    assert decision.explain() == str(decision) == said
    assert said.endswith(decision.rule)


def test_without_rules_everything_is_allowed() -> None:
    decision = Permissions().decide("mcp__fs__read")
    assert decision == Decision("allow", "")
    assert decision.explain() == "allowed (no rule applies)"


def test_an_empty_allow_list_allows_none_and_no_list_allows_all() -> None:
    assert Permissions(allowed_tools=[]).decide("mcp__fs__read").kind == "ask"
    assert Permissions(allowed_tools=None).decide("mcp__fs__read").kind == "allow"
    assert Permissions(disallowed_tools=[]).decide("mcp__fs__read").kind == "allow"
    assert Permissions(require_approval=[]).decide("mcp__fs__read").kind == "allow"


def test_without_an_approver_a_tool_that_needs_approval_is_denied() -> None:
    allowed, asked, denied = Decision("allow"), Decision("ask", "allowed_tools"), Decision("deny", "x")
    assert [d.lets_through(can_ask=False) for d in (allowed, asked, denied)] == [True, False, False]
    assert [d.lets_through(can_ask=True) for d in (allowed, asked, denied)] == [True, True, False]


def test_a_server_alone_means_all_of_its_tools_and_no_other_servers() -> None:
    rules = Permissions(disallowed_tools=["mcp__git"])
    assert rules.decide("mcp__git__push").explain() == "denied by disallowed_tools: mcp__git__*"
    assert rules.decide("mcp__git__").kind == "deny"
    assert rules.decide("mcp__github__push").kind == "allow"
    assert rules.decide("mcp__git_hub__push").kind == "allow"
    assert rules == Permissions(disallowed_tools=["mcp__git__*"])


def test_the_approval_that_says_most_decides_and_of_equals_the_stricter() -> None:
    rules = Permissions(
        require_approval={
            "mcp__fs": "always",
            "mcp__fs__read_*": "never",
            "mcp__fs__read_secret": "always",
            "mcp__fs__stat": "never",
            "mcp__fs__stat*": "always",
            "mcp__fs__*_x": "always",
            "mcp__fs__x_*": "never",
        }
    )
    assert rules.decide("mcp__fs__write").kind == "ask"
    assert rules.decide("mcp__fs__read_file").kind == "allow"
    assert rules.decide("mcp__fs__read_secret").kind == "ask"
    assert rules.decide("mcp__fs__stat").kind == "allow"
    assert rules.decide("mcp__fs__stats").kind == "ask"
    assert rules.decide("mcp__fs__x_x").kind == "ask"
    assert rules.decide("mcp__db__query").kind == "allow"


def test_never_does_not_permit_tools_outside_the_allowed_ones() -> None:
    rules = Permissions(["mcp__fs__*"], require_approval={"mcp__db__*": "never"})
    assert rules.decide("mcp__db__query") == Decision("ask", "allowed_tools")


def test_approval_can_be_a_list_of_patterns_or_one_word_for_all() -> None:
    assert Permissions(require_approval=["mcp__fs"]) == Permissions(require_approval={"mcp__fs": "always"})
    assert Permissions(require_approval="always").decide("mcp__fs__read").rule == "require_approval: *"
    assert Permissions(require_approval="never").decide("mcp__fs__read").kind == "allow"


@given(st.none() | rules, rules, approvals, patterns, qualified)
def test_what_is_disallowed_is_denied_whatever_else_is_said(
    allowed: list[str] | None, disallowed: list[str], approval: Any, banned: str, name: str
) -> None:
    alone = Permissions(disallowed_tools=[banned]).decide(name)
    together = Permissions(allowed, [*disallowed, banned], approval).decide(name)
    if alone.kind == "deny":
        assert together.kind == "deny"
    assert not (together.kind != "deny" and Permissions(disallowed_tools=disallowed).decide(name).kind == "deny")


@given(st.none() | rules, rules, approvals, qualified)
def test_a_tool_is_allowed_only_if_every_rule_lets_it_through(
    allowed: list[str] | None, disallowed: list[str], approval: Any, name: str
) -> None:
    parts = [Permissions(allowed), Permissions(disallowed_tools=disallowed), Permissions(require_approval=approval)]
    kinds = [part.decide(name).kind for part in parts]
    strictest = next((kind for kind in ("deny", "ask") if kind in kinds), "allow")
    assert Permissions(allowed, disallowed, approval).decide(name).kind == strictest


@given(st.none() | rules, rules, approvals, qualified, st.randoms(use_true_random=False))
def test_the_order_of_the_rules_does_not_matter(
    allowed: list[str] | None, disallowed: list[str], approval: Any, name: str, order: Random
) -> None:
    def shuffled(items: Any) -> Any:
        if items is None:
            return None
        mixed = list(items.items() if isinstance(items, dict) else items)
        order.shuffle(mixed)
        return dict(mixed) if isinstance(items, dict) else mixed

    one = Permissions(allowed, disallowed, approval)
    other = Permissions(shuffled(allowed), shuffled(disallowed), shuffled(approval))
    assert one == other
    assert hash(one) == hash(other)
    assert one.decide(name) == other.decide(name)


STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


@given(rules, rules, st.dictionaries(patterns, st.sampled_from(["always", "never"]), max_size=4), patterns, qualified)
def test_another_ban_or_another_approval_never_opens_anything(
    allowed: list[str], disallowed: list[str], approval: dict[str, Any], more: str, name: str
) -> None:
    before = STRICTNESS[Permissions(allowed, disallowed, approval).decide(name).kind]
    assert STRICTNESS[Permissions(allowed, [*disallowed, more], approval).decide(name).kind] >= before
    assert STRICTNESS[Permissions(allowed, disallowed, {**approval, more: "always"}).decide(name).kind] >= before


@pytest.mark.parametrize("key", ["allowed_tools", "disallowed_tools", "require_approval"])
@pytest.mark.parametrize(
    "wrong",
    [
        "mcp__fs__read",
        b"mcp__fs",
        7,
        [1],
        [None],
        [["mcp__fs"]],
        ["read_*"],
        ["delete_repo"],
        [""],
        ["mcp__"],
        ["mcp____x"],
        ["mcp__a b__*"],
        ["mcp__a b*"],
        ["mcp___*"],
        ["mcp__fs__read "],
        [" mcp__fs"],
        ["MCP__fs"],
        ["Bash(git:*)"],
    ],
)
def test_a_rule_that_can_match_no_tool_is_an_error_that_names_the_list(key: str, wrong: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Permissions(**{key: wrong})
    assert caught.value.key == key
    assert key in str(caught.value)
    assert caught.value.expected


@pytest.mark.parametrize("key", ["allowed_tools", "disallowed_tools"])
def test_a_map_is_not_a_list_of_patterns(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Permissions(**{key: {"mcp__fs": "always"}})  # type: ignore[arg-type]
    assert caught.value.key == key


@pytest.mark.parametrize("word", ["sometimes", True, None, ["always"]])
def test_an_unknown_word_of_approval_is_an_error_that_names_the_pattern(word: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Permissions(require_approval={"mcp__fs": word})
    assert caught.value.key == "require_approval"
    assert "mcp__fs" in str(caught.value)


@given(qualified, st.data())
def test_a_real_name_with_a_star_in_the_place_of_any_part_is_a_rule_that_matches_it(
    name: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(name)))
    pattern = f"{name[:start]}*{name[data.draw(st.integers(start, len(name))) :]}"
    assert Permissions(disallowed_tools=[pattern]).decide(name).kind == "deny"


@given(st.text(st.sampled_from("mcp_a*"), max_size=9).map(lambda text: text.replace("p", "mcp__")), qualified)
def test_a_pattern_that_is_refused_would_have_matched_no_tool(pattern: str, name: str) -> None:
    try:
        matched = Permissions(disallowed_tools=[pattern]).decide(name).kind == "deny"
    except ConfigError:
        matched = False
    assert matched == (fnmatchcase(name, pattern) or (fnmatchcase(name, f"{pattern}__*") and is_server(pattern)))


def is_server(pattern: str) -> bool:
    return pattern.startswith("mcp__") and is_server_name(pattern.removeprefix("mcp__"))


def test_permissions_are_a_value_that_shows_its_rules() -> None:
    assert pickle.loads(pickle.dumps(TOUR)) == TOUR
    assert Permissions() != TOUR
    assert repr(Permissions()) == "Permissions()"
    shown = repr(TOUR)
    assert "'mcp__github__delete_*'" in shown and "{'mcp__github__create_*': 'always'}" in shown
    assert repr(Permissions([])) == "Permissions(allowed_tools=[])"


def test_rules_can_come_from_any_iterable_once() -> None:
    assert Permissions(p for p in ["mcp__fs"]) == Permissions({"mcp__fs"}) == Permissions(("mcp__fs",))
