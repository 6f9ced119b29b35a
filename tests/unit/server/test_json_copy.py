"""Copies of JSON values: equal to what a peer would decode, and not shared with the original."""

from __future__ import annotations

import datetime as dt
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolcrib as tc
from toolcrib.server.json_copy import copied, copied_value

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON, max_size=4))
def test_what_is_json_already_stays_equal(value: dict[str, Any]) -> None:
    assert copied(value) == value


def test_nothing_that_can_change_is_shared() -> None:
    inner = {"list": [1, {"deep": []}]}
    copy = copied({"inner": inner})
    inner["list"][1]["deep"].append("later")
    inner["list"].append(2)
    assert copy == {"inner": {"list": [1, {"deep": []}]}}


@pytest.mark.parametrize(
    "value",
    [(1, (2, 3)), {1: "a"}, dt.date(2026, 7, 28), {"at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}],
)
def test_what_json_says_differently_comes_as_json_says_it(value: Any) -> None:
    assert copied_value(value) == orjson.loads(orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS))


def itself() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["me"] = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [float("nan"), [float("inf")], {"a": {1, 2}}, b"bytes", object(), itself()],
    ids=["nan", "inf", "set", "bytes", "object", "itself"],
)
def test_what_json_cannot_say_is_refused_as_it_is_over_a_wire(value: Any) -> None:
    with pytest.raises(tc.UsageError, match="JSON"):
        copied_value(value)
