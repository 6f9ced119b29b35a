"""The guide to the hub: no option, state or method of a hub is missing."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import toolcrib as tc
from tests.house import snippets
from tests.house.guides import missing, parameters, public
from toolcrib.hub.dispatch import CallOptions
from toolcrib.hub.resources import Resources
from toolcrib.hub.server_options import checked_options
from toolcrib.hub.toolsets import Toolsets
from toolcrib.settings.hub_table import OPTIONS as IN_SETTINGS

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/hub.md").read_text()
SETTINGS = (ROOT / "docs/settings.md").read_text()


def of_all() -> set[str]:
    """The options that a hub takes for all of its servers, as its own error lists them."""
    with pytest.raises(tc.ConfigError) as caught:
        checked_options({"no such option": 1}, "a Hub")
    assert caught.value.expected is not None
    return set(caught.value.expected.removeprefix("one of ").split(", "))


def test_every_option_of_a_hub_is_in_its_table() -> None:
    options = GUIDE.partition("\n## Options\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| ([^|]*) \|", options, re.MULTILINE))))
    assert sorted((parameters(tc.Hub) | of_all()) - listed) == []


def test_every_option_of_a_hub_from_settings_is_in_the_guide() -> None:
    assert missing(GUIDE, parameters(tc.Hub.from_config) - {"config"}) == []


def test_every_option_of_a_hub_that_settings_may_have_is_in_their_guide() -> None:
    assert missing(SETTINGS, IN_SETTINGS) == []


# What values are made of: their methods say it.
INNER = {"default", "of_name", "of_server", "of_type", "of_uri", "tools", "version"}


def test_every_method_is_in_the_guide() -> None:
    kinds = (tc.Hub, tc.HubView, Resources, tc.ResourceQuery, Toolsets, tc.Toolset)
    code = " ".join(block.body for block in snippets.blocks(GUIDE) if block.language == "python")
    names = {f"{kind.__name__}.{name}" for kind in kinds for name in public(kind) - INNER}
    names = {name for name in names if f".{name.partition('.')[2]}" not in code}
    assert [name for name in sorted(names) if missing(GUIDE, [name.partition(".")[2]])] == []


def test_every_field_is_in_the_guide() -> None:
    code = " ".join(re.findall(r"`[^`\n]+`", GUIDE))
    for kind in (tc.ServerState, tc.ToolCall, tc.FilterContext, tc.ToolLoadConfig):
        names = {f.name for f in fields(kind)} | {n for n, value in vars(kind).items() if isinstance(value, property)}
        assert [name for name in names if not re.search(rf"\b{name}\b", code)] == [], kind


def test_every_option_of_a_call_is_in_the_guide() -> None:
    assert missing(GUIDE, CallOptions.__annotations__) == []


def test_every_state_of_a_server_is_in_the_guide() -> None:
    assert [state for state in tc.ConnectionState if not re.search(rf"^\| `{state}` \|", GUIDE, re.MULTILINE)] == []
