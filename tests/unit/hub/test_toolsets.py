"""Toolsets: which tools are loaded, which deferred."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.hub.toolsets import ToolLoadConfig, Toolset, Toolsets

names = st.sampled_from(["search_events", "query", "drop"])


def test_a_new_toolset_defers_nothing() -> None:
    assert not Toolset("db").is_deferred("query")


def test_all_but_the_kept_ones_are_deferred() -> None:
    toolset = Toolset("db").defer_all().keep_loaded("search_events")
    assert toolset.is_deferred("query")
    assert not toolset.is_deferred("search_events")


def test_tools_are_kept_loaded_by_names_and_by_lists_alike() -> None:
    assert Toolset("db").keep_loaded("a", "b") == Toolset("db").keep_loaded(["a", "b"])
    assert Toolset("db").keep_loaded("a", ["b"]) == Toolset("db").keep_loaded("b").keep_loaded(iter("a"))
    assert Toolset("db").keep_loaded() == Toolset("db")


def test_one_tool_is_configured_by_itself() -> None:
    toolset = Toolset("db").configure("drop", ToolLoadConfig(defer=True))
    assert toolset.is_deferred("drop")
    assert not toolset.is_deferred("query")
    assert not toolset.configure("drop", ToolLoadConfig(defer=False)).is_deferred("drop")
    assert toolset.load_config("drop") == ToolLoadConfig(defer=True)
    assert toolset.load_config("query") == ToolLoadConfig()


@given(st.lists(names, max_size=3), names)
def test_deferring_all_before_or_after_keeping_some_is_the_same(kept: list[str], name: str) -> None:
    before = Toolset("db").defer_all().keep_loaded(kept)
    after = Toolset("db").keep_loaded(kept).defer_all()
    assert before.is_deferred(name) == after.is_deferred(name) == (name not in kept)


def test_every_step_gives_a_new_value_and_leaves_the_old_one() -> None:
    first = Toolset("db")
    second = first.defer_all()
    third = second.keep_loaded("query")
    third.configure("query", ToolLoadConfig(defer=True))
    assert [toolset.is_deferred("query") for toolset in (first, second, third)] == [False, True, False]
    assert pickle.loads(pickle.dumps(third)) == third
    assert hash(first) == hash(Toolset("db"))
    with pytest.raises(AttributeError):
        first.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize("name", ["", "a__b", "my server", 7, None])
def test_a_toolset_needs_the_name_of_a_server(name: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        Toolset(name)
    assert caught.value.key == "name"
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize(
    "key,wrong",
    [
        ("keep_loaded", lambda: Toolset("db").keep_loaded([1])),  # type: ignore[list-item]
        ("keep_loaded", lambda: Toolset("db").keep_loaded(1)),  # type: ignore[arg-type]
        ("configure", lambda: Toolset("db").configure("x", True)),  # type: ignore[arg-type]
        ("configure", lambda: Toolset("db").configure(1, ToolLoadConfig())),  # type: ignore[arg-type]
        ("toolset", lambda: Toolsets().register("db")),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_kind_of_value_is_an_error_that_names_the_step(key: str, wrong: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        wrong()
    assert caught.value.key == key
    assert caught.value.expected


def test_servers_without_a_toolset_are_not_deferred() -> None:
    toolsets = Toolsets([Toolset("db").defer_all()])
    assert toolsets.is_deferred("db", "some_tool")
    assert not toolsets.is_deferred("fs", "some_tool")
    assert not Toolsets().is_deferred("db", "some_tool")


def test_the_registry_keeps_the_last_toolset_of_each_server() -> None:
    toolsets = Toolsets()
    toolsets.register(Toolset("db").defer_all())
    toolsets.register(Toolset("fs").defer_all())
    replaced = Toolset("db").defer_all().keep_loaded("query")
    toolsets.register(replaced)
    assert toolsets.get("db") == replaced
    assert [toolset.name for toolset in toolsets] == ["db", "fs"]
    assert len(toolsets) == 2
    assert "fs" in toolsets and "x" not in toolsets


def test_a_removed_toolset_defers_nothing() -> None:
    deferred = Toolset("db").defer_all()
    toolsets = Toolsets([deferred])
    assert toolsets.remove("db") == deferred
    assert not toolsets.is_deferred("db", "query")
    assert toolsets.get("db") is None
    assert toolsets.remove("db") is None


def test_the_version_counts_changes_and_nothing_else() -> None:
    toolsets = Toolsets()
    toolsets.remove("db")
    toolsets.is_deferred("db", "x")
    assert toolsets.version == 0
    toolsets.register(Toolset("db"))
    toolsets.remove("db")
    assert toolsets.version == 2
