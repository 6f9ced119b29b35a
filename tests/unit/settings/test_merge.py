"""Merging settings, and the differences between two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.settings.files import load, write
from toolcrib.config import StdioServer
from toolcrib.errors import ConfigError
from toolcrib.settings import Settings, diff, load_settings, merge, parse_settings

commands = st.dictionaries(st.sampled_from(["a", "b", "c", "d e", "d-e"]), st.sampled_from(["x", "y", "${NO}", ""]))


def settings_of(servers: dict[str, Any], source: str | None = None) -> Settings:
    values = {name: {"command": value} if isinstance(value, str) else value for name, value in servers.items()}
    return parse_settings({"mcpServers": values}, source, environ={})


@given(commands, commands)
def test_a_difference_lists_the_steps_from_one_to_the_other(one: dict[str, str], two: dict[str, str]) -> None:
    old, new = settings_of(one), settings_of(two)
    added, removed, changed = diff(old, new)
    before = {entry.name: entry for entry in old.entries}
    after = {entry.name: entry for entry in new.entries}
    assert set(added) == after.keys() - before.keys()
    assert set(removed) == before.keys() - after.keys()
    both = before.keys() & after.keys()
    assert set(changed) == {name for name in both if before[name].raw["command"] != after[name].raw["command"]}
    assert diff(new, old) == (removed, added, tuple(name for name in before if name in changed))
    assert diff(old, old) == ((), (), ())


@pytest.mark.parametrize(
    "values",
    [
        {"command": "y"},
        {"command": "x", "args": ["a"]},
        {"command": "x", "env": {"A": "2"}},
        {"command": "x", "disabled": True},
        {"command": "x", "excludeTools": ["a"]},
        {"command": "x", "execution_timeout": 3},
        {"command": "${NO}"},
        {"url": "https://h/x"},
    ],
)
def test_whatever_matters_is_a_change(values: Any) -> None:
    assert diff(settings_of({"a": "x"}), settings_of({"a": values})).changed == ("a",)


def test_irrelevant_changes_are_not_a_difference(tmp_path: Path) -> None:
    old = load(tmp_path / "x.json", '{"a": {"command": "x", "note": 1}, "b": {"command": "${NO}"}}')
    new = load(tmp_path / "y.json", '// moved\n\n{"b": {"command": "${NO}"}, "a": {"args": [], "command": "x"}}')
    assert old.failed and new.failed
    assert diff(old, new) == ((), (), ())


def test_another_missing_variable_is_a_change() -> None:
    assert diff(settings_of({"a": "${NO}"}), settings_of({"a": "${NEITHER}"})).changed == ("a",)


@given(st.lists(commands, max_size=4))
def test_the_last_one_that_has_a_server_wins(all_of_them: list[dict[str, str]]) -> None:
    merged = merge(*map(settings_of, all_of_them))
    expected = {name: command for each in all_of_them for name, command in each.items()}
    assert {entry.display_name: entry.raw["command"] for entry in merged.entries} == expected
    assert len({entry.name for entry in merged.entries}) == len(expected)


def test_the_overridden_file_is_recorded(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", {"a": {"command": "1"}, "same": {"command": "x"}})
    two = write(tmp_path / "two.json", {"same": {"command": "x"}, "a": {"command": "2"}})
    merged = merge(load_settings(one), load_settings(two))
    assert merged.servers == {"a": StdioServer("2"), "same": StdioServer("x")}
    (record,) = merged.overridden
    assert str(record) == f"a: {two}:5 overrides {one}:2"
    assert (record.winner.config, record.loser.config) == (StdioServer("2"), StdioServer("1"))


def test_files_that_disagree_can_be_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", {"a": {"command": "1"}})
    two = write(tmp_path / "two.json", {"a": {"command": "2"}})
    with pytest.raises(ConfigError) as caught:
        merge(load_settings(one), load_settings(two), on_conflict="raise")
    assert f"{two}:2 and {one}:2 define a differently" in str(caught.value)
    assert (caught.value.file, caught.value.key, caught.value.server) == (str(two), "a", "a")


def test_files_that_agree_are_not_refused() -> None:
    merged = merge(settings_of({"a": "x"}), settings_of({"a": "x", "b": "y"}), on_conflict="raise")
    assert list(merged.servers) == ["a", "b"]
    assert merged.overridden == ()


def test_free_names_of_two_files_do_not_take_each_others(tmp_path: Path) -> None:
    merged = merge(settings_of({"my server": "1"}), settings_of({"my-server": "2"}))
    assert merged.servers == {"my-server-2": StdioServer("1"), "my-server": StdioServer("2")}
    assert merged.overridden == ()


def test_options_and_warnings_are_put_together() -> None:
    one = parse_settings({"servers": {"a": {"command": "x", "zzz": 1}}, "hub": {"start": "lazy", "max_attempts": 2}})
    two = parse_settings({"servers": {"a": {"command": "x", "zzz": 1}}, "hub": {"start": "eager"}})
    merged = merge(one, two)
    assert merged.defaults == {"start": "eager", "max_attempts": 2}
    assert merged.warnings == ("zzz: unknown key, has no effect",)


def test_nothing_merged_is_nothing() -> None:
    assert merge() == Settings()
