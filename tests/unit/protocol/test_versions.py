"""The eras as tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol import versions

OURS = (*versions.MODERN_VERSIONS, *versions.LEGACY_VERSIONS)


def test_every_revision_that_we_speak_is_of_one_era() -> None:
    assert versions.MODERN_VERSIONS == ("2026-07-28",)
    assert versions.LEGACY_VERSIONS == ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")


def test_the_eras_differ_as_the_protocol_says() -> None:
    assert versions.LEGACY.server_asks
    assert not versions.MODERN.server_asks
    assert (versions.LEGACY.health_method, versions.MODERN.health_method) == ("ping", "server/discover")
    assert (versions.LEGACY.subscribe_method, versions.MODERN.subscribe_method) == ("resources/subscribe", None)
    assert (versions.LEGACY.log_level_method, versions.MODERN.log_level_method) == ("logging/setLevel", None)


def test_only_these_errors_prove_a_modern_server() -> None:
    assert sorted(versions.MODERN_ERRORS) == [-32022, -32021, -32020]
    assert sorted(versions.RESOURCE_NOT_FOUND) == [-32602, -32002]


@pytest.mark.parametrize(
    "offered, chosen",
    [
        (["2025-11-25", "2026-07-28"], "2026-07-28"),
        (["2024-11-05", "2025-06-18"], "2025-06-18"),
        (["2099-01-01", "2025-03-26"], "2025-03-26"),
        (["2099-01-01"], None),
        ([], None),
        ([None, 7, ["2026-07-28"], {}], None),
    ],
)
def test_the_newest_common_version_is_chosen(offered: list[Any], chosen: str | None) -> None:
    assert versions.choose(offered) == chosen


@given(st.permutations(OURS), st.integers(1, len(OURS)))
def test_the_order_of_the_offer_does_not_matter(offered: list[str], count: int) -> None:
    assert versions.choose(offered[:count]) == max(offered[:count])


def test_a_server_introduces_itself_in_the_place_of_its_era() -> None:
    handshake = versions.server_info(
        "2025-11-25",
        {
            "serverInfo": {"name": "a", "version": "1", "title": "A"},
            "capabilities": {"tools": {}},
            "instructions": "be kind",
        },
    )
    assert (handshake.name, handshake.version, handshake.title) == ("a", "1", "A")
    assert (handshake.protocol_version, handshake.capabilities, handshake.instructions) == (
        "2025-11-25",
        {"tools": {}},
        "be kind",
    )
    modern = versions.server_info("2026-07-28", {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "b"}}})
    assert (modern.name, modern.version, modern.capabilities) == ("b", "", {})


@pytest.mark.parametrize("nonsense", [None, 7, "x", [], [{}]])
def test_a_server_that_introduces_itself_badly_is_a_server_without_a_name(nonsense: Any) -> None:
    info = versions.server_info(
        "2025-11-25", {"serverInfo": nonsense, "capabilities": nonsense, "_meta": nonsense, "instructions": None}
    )
    assert (info.name, info.capabilities) == ("", {})
