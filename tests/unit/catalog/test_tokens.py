"""The estimated number of tokens that a tool takes in a model's context."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog.tokens import estimate_tokens, tokens_by_server
from toolcrib.types import Tool

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
any_text = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates too


def test_an_estimate_counts_what_a_model_is_given_and_nothing_else() -> None:
    plain = Tool("mcp__fs__read", description="Read a file", input_schema={"type": "object"})
    hidden = Tool(
        "mcp__fs__read",
        title="A title" * 50,
        description="Read a file",
        input_schema={"type": "object"},
        output_schema={"type": "object", "description": "x" * 1_000},
        annotations={"readOnlyHint": True},
        meta={"a": "b" * 1_000},
        raw={"c": "d" * 1_000},
    )
    assert estimate_tokens(hidden) == estimate_tokens(plain)
    shown = '{"name":"mcp__fs__read","description":"Read a file","input_schema":{"type":"object"}}'
    assert estimate_tokens(plain) == round(len(shown) / 3.5)


@pytest.mark.parametrize("text,low,high", [("word " * 400, 400, 800), ("日本語" * 100, 200, 450), ("é" * 100, 40, 120)])
def test_an_estimate_is_near_what_tokenizers_say(text: str, low: int, high: int) -> None:
    """English has at most a token per one and a half words, Japanese about one per character."""
    empty = estimate_tokens(Tool("t"))
    assert low <= estimate_tokens(Tool("t", description=text)) - empty <= high


@given(st.text(max_size=30), st.text(max_size=30))
def test_more_text_never_costs_less(text: str, more: str) -> None:
    assert estimate_tokens(Tool("t", description=text + more)) >= estimate_tokens(Tool("t", description=text)) >= 1


@given(any_text, any_text, st.dictionaries(st.text(max_size=8), json_values, max_size=4))
def test_no_tool_is_too_strange_to_be_estimated(name: str, description: str, schema: dict[str, Any]) -> None:
    assert estimate_tokens(Tool(name, description=description, input_schema=schema)) >= 1


@pytest.mark.parametrize("strange", [math.nan, 2**70, object(), {1: 2}, "\ud800", {"a", "b"}])
def test_a_tool_made_by_hand_may_hold_what_json_cannot_say(strange: Any) -> None:
    assert estimate_tokens(Tool("t", input_schema={"default": strange})) > estimate_tokens(Tool("t"))


def test_a_servers_cost_is_the_sum_of_its_tools() -> None:
    tools = [
        Tool("mcp__a__x", server="a"),
        Tool("mcp__b__y", server="b"),
        Tool("mcp__a__zzzzzzzz", server="a"),
        Tool("t"),
    ]
    costs = [estimate_tokens(tool) for tool in tools]
    assert tokens_by_server(tools) == {"a": costs[0] + costs[2], "b": costs[1], "": costs[3]}
    assert tokens_by_server([]) == {}
