"""Tool filters: static, plain, dynamic, and what happens to broken ones."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.policy.filters import StaticFilter, allows, describe, dynamic_filter, static_filter
from toolcrib.types import FilterContext, Tool

tool_names = st.sampled_from(["a", "b", "c", "d"])
name_sets = st.frozensets(tool_names)


def tool(name: Any = "search", **more: Any) -> Tool:
    return Tool.from_wire({"name": name, "inputSchema": {"type": "object"}, **more})


def test_blocked_wins_over_allowed() -> None:
    both = static_filter(allowed=["a", "b"], blocked=["b"])
    assert both(tool("a"))
    assert not both(tool("b"))
    assert not both(tool("c"))


def test_an_empty_allow_list_allows_nothing_and_none_allows_all() -> None:
    assert not static_filter(allowed=[])(tool("a"))
    assert static_filter()(tool("a"))
    assert static_filter(blocked=[])(tool("a"))


@pytest.mark.parametrize("nameless", [{}, {"name": None}, {"name": ""}, {"name": 7}])
def test_a_nameless_tool_is_refused_by_every_static_filter(nameless: dict[str, Any]) -> None:
    for each in (static_filter(), static_filter(allowed=[""]), static_filter(blocked=["a"])):
        assert not each(nameless)
        assert not each(Tool.from_wire(nameless))


@given(st.none() | name_sets, st.none() | name_sets, tool_names)
def test_tools_and_plain_dicts_are_judged_alike_and_blocked_is_never_allowed(
    allowed: frozenset[str] | None, blocked: frozenset[str] | None, name: str
) -> None:
    made = static_filter(allowed, blocked)
    expected = name not in (blocked or ()) and (allowed is None or name in allowed)
    assert made(tool(name)) is made({"name": name}) is expected


@given(st.permutations(["a", "b", "c"]), st.permutations(["c", "d"]))
def test_the_order_of_the_names_does_not_matter(allowed: list[str], blocked: list[str]) -> None:
    assert static_filter(allowed, blocked) == static_filter(["a", "b", "c"], ["c", "d"])


@pytest.mark.parametrize("wrong", ["search", [1], [None]])
@pytest.mark.parametrize("key", ["allowed", "blocked"])
def test_a_plain_string_instead_of_a_list_is_an_error_that_names_the_list(key: str, wrong: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        static_filter(**{key: wrong})
    assert caught.value.key == key


def test_a_static_filter_is_a_value() -> None:
    made = static_filter(["a"], ["b"])
    assert made == StaticFilter(frozenset({"a"}), frozenset({"b"}))
    assert hash(made) == hash(static_filter(["a"], ["b"]))
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(AttributeError):
        made.allowed = None  # type: ignore[misc]


def test_no_filter_lets_everything_through() -> None:
    assert allows(None, tool())


def test_a_plain_function_sees_the_tool_as_an_object_and_as_its_wire_form() -> None:
    seen = tool("allowed_x", description="does x")
    assert allows(lambda t: t.name.startswith("allowed_"), seen)
    assert allows(lambda t: t["name"].startswith("allowed_") and bool(t.get("inputSchema")), seen)
    assert not allows(lambda t: "y" in t.description, seen)


def test_a_dynamic_filter_sees_the_caller() -> None:
    @dynamic_filter
    def admins_write(context: FilterContext, t: Tool) -> bool:
        return not t.name.startswith("write_") or context.agent["role"] == "admin"

    admin = FilterContext({"role": "admin"}, "files", {"run": 1})
    guest = FilterContext({"role": "guest"}, "files")
    assert allows(admins_write, tool("write_file"), admin)
    assert not allows(admins_write, tool("write_file"), guest)
    assert allows(admins_write, tool("read_file"), guest)
    assert admins_write(admin, tool("write_file"))


def test_a_dynamic_filter_without_a_context_gets_an_empty_one() -> None:
    seen: list[FilterContext] = []

    def look(context: FilterContext, _: Tool) -> bool:
        seen.append(context)
        return True

    assert allows(dynamic_filter(look), tool())
    assert seen == [FilterContext()]


def test_a_filter_that_raises_refuses_the_tool_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    def broken(t: Tool) -> bool:
        raise KeyError("owner")

    with caplog.at_level(logging.WARNING, "toolcrib.policy"):
        assert not allows(broken, tool("drop\x1b[31m"))
    (record,) = caplog.records
    assert record.name == "toolcrib.policy"
    assert "KeyError" in record.getMessage()
    assert "broken" in record.getMessage()
    assert "\x1b" not in record.getMessage()


def test_the_text_of_a_filters_error_never_steers_a_terminal(caplog: pytest.LogCaptureFixture) -> None:
    def broken(t: Tool) -> bool:
        raise ValueError(t.description)

    with caplog.at_level(logging.INFO, "toolcrib.policy"):
        assert not allows(broken, tool(description="\x1b[2J\u202e"))
    assert "\x1b" not in caplog.text
    assert "\u202e" not in caplog.text


async def test_an_async_filter_does_not_open_the_door(caplog: pytest.LogCaptureFixture) -> None:
    async def later(t: Tool) -> bool:
        return True

    assert not allows(later, tool())  # type: ignore[arg-type]
    assert "async" in caplog.text


@pytest.mark.parametrize("verdict,expected", [(1, True), (0, False), (None, False), ("yes", True)])
def test_a_verdict_counts_by_its_truth(verdict: Any, expected: bool) -> None:
    assert allows(lambda t: verdict, tool()) is expected


def test_each_filter_says_its_rule_in_words() -> None:
    assert describe(static_filter(["b", "a"], ["c"])) == "static filter: blocked 'c'; allowed 'a', 'b'"
    assert describe(static_filter(allowed=[])) == "static filter: allowed nothing"
    assert describe(static_filter()) == "static filter: all allowed"
    assert describe(static_filter([f"t{i:02}" for i in range(12)])).endswith("'t09' and 2 more")
    assert describe(dynamic_filter(test_no_filter_lets_everything_through)).startswith("dynamic filter test_no_filter")
    assert describe(tool) == "tool filter tool"  # type: ignore[arg-type]
    assert repr(static_filter(["a"])) == "<static filter: allowed 'a'>"


def test_a_filter_that_raises_on_every_tool_is_reported_once_per_kind_of_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(tool: Tool) -> bool:
        raise (KeyError if tool.name.startswith("k") else OSError)(tool.name)

    with caplog.at_level(logging.WARNING, "toolcrib.policy"):
        assert not any(allows(broken, Tool(f"{kind}{number}")) for number in range(50) for kind in "ko")
    assert [record.getMessage().partition(" for ")[0].rpartition(" ")[2] for record in caplog.records] == [
        "KeyError",
        "OSError",
    ]
