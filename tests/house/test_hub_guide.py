"""The guide to the hub: nothing that a hub takes, tells or can do is left out."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import toolyard as ty
from tests.house import snippets
from tests.house.guides import parameters, public, tells
from toolyard.hub.calls import CallOptions
from toolyard.hub.plan import checked_options
from toolyard.hub.resources import Resources
from toolyard.hub.toolsets import Toolsets
from toolyard.settings.hub import OPTIONS as IN_SETTINGS

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/hub.md").read_text()
SETTINGS = (ROOT / "docs/settings.md").read_text()


def of_all() -> set[str]:
    """The options that a hub takes for all of its servers, as its own error lists them."""
    with pytest.raises(ty.ConfigError) as caught:
        checked_options({"no such option": 1}, "a Hub")
    assert caught.value.expected is not None
    return set(caught.value.expected.removeprefix("one of ").split(", "))


@pytest.mark.parametrize("name", sorted(parameters(ty.Hub) | of_all()))
def test_every_option_of_a_hub_is_in_its_table(name: str) -> None:
    options = GUIDE.partition("\n## Options\n")[2].partition("\n## ")[0]
    assert re.search(rf"^\| [^|]*`{name}`[^|]* \|", options, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(parameters(ty.Hub.from_config) - {"config"}))
def test_every_option_of_a_hub_from_settings_is_in_the_guide(name: str) -> None:
    assert tells(GUIDE, name)


@pytest.mark.parametrize("name", sorted(IN_SETTINGS))
def test_every_option_of_a_hub_that_settings_may_have_is_in_their_guide(name: str) -> None:
    assert tells(SETTINGS, name)


# What values are made of: their methods say it.
INNER = {"default", "of_name", "of_server", "of_type", "of_uri", "tools", "version"}


@pytest.mark.parametrize("kind", [ty.Hub, ty.View, Resources, ty.ResourceQuery, Toolsets, ty.Toolset])
def test_every_method_is_in_the_guide(kind: type) -> None:
    code = " ".join(block.body for block in snippets.blocks(GUIDE) if block.language == "python")
    missing = [name for name in public(kind) - INNER if not tells(GUIDE, name) and f".{name}" not in code]
    assert missing == []


@pytest.mark.parametrize("kind", [ty.ServerState, ty.Call, ty.FilterContext, ty.ToolLoadConfig])
def test_every_field_is_in_the_guide(kind: type) -> None:
    names = {f.name for f in fields(kind)} | {name for name, value in vars(kind).items() if isinstance(value, property)}
    code = " ".join(re.findall(r"`[^`\n]+`", GUIDE))
    assert [name for name in names if not re.search(rf"\b{name}\b", code)] == []


@pytest.mark.parametrize("name", sorted(CallOptions.__annotations__))
def test_every_option_of_a_call_is_in_the_guide(name: str) -> None:
    assert tells(GUIDE, name)


@pytest.mark.parametrize("state", ty.State)
def test_every_state_of_a_server_is_in_the_guide(state: ty.State) -> None:
    assert re.search(rf"^\| `{state}` \|", GUIDE, re.MULTILINE)
