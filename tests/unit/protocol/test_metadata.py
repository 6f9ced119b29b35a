"""The `_meta` of requests: added and merged, without changing the caller's object."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol import metadata
from toolcrib.protocol.metadata import stamp, subscription_of, with_meta

INFO = {"name": "toolcrib", "version": "1"}
METAS = st.dictionaries(st.sampled_from("abc"), st.integers())
PARAMS = st.none() | st.dictionaries(st.sampled_from("xyz"), st.lists(st.integers())) | st.builds(dict, _meta=METAS)


def test_a_stamp_says_version_client_and_capabilities_by_their_names_on_the_wire() -> None:
    assert stamp("2026-07-28", INFO, {"roots": {}}, None) == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": INFO,
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    }


def test_a_log_level_rides_along_only_if_there_is_one() -> None:
    assert metadata.LOG_LEVEL not in stamp("2026-07-28", INFO, {}, None)
    assert stamp("2026-07-28", INFO, {}, "debug")["io.modelcontextprotocol/logLevel"] == "debug"


@given(PARAMS, METAS, METAS)
def test_layers_lie_over_the_callers_own_and_the_caller_keeps_what_he_gave(
    params: dict[str, Any] | None, below: dict[str, int], above: dict[str, int]
) -> None:
    before = copy.deepcopy((params, below, above))
    merged = with_meta(params, below, None, above)
    assert (params, below, above) == before
    assert merged.get("_meta", {}) == {**((params or {}).get("_meta") or {}), **below, **above}
    assert {**merged, "_meta": None} == {**(params or {}), "_meta": None}
    if merged.get("_meta"):
        merged["_meta"]["new"] = 1
        assert (params, below, above) == before


def test_without_layers_no_meta_appears() -> None:
    assert with_meta(None) == with_meta({}, None, {}) == {}
    assert with_meta({"a": 1}, None) == {"a": 1}


def test_a_meta_that_is_not_an_object_is_replaced() -> None:
    assert with_meta({"_meta": "nonsense"}, {"a": 1}) == {"_meta": {"a": 1}}


@pytest.mark.parametrize("params", [None, [], {}, {"_meta": None}, {"_meta": []}, {"_meta": {}}])
def test_a_notification_without_a_subscription_belongs_to_none(params: Any) -> None:
    assert subscription_of(params) is None


def test_a_notification_names_its_subscription() -> None:
    assert subscription_of({"_meta": {"io.modelcontextprotocol/subscriptionId": 7}}) == 7
