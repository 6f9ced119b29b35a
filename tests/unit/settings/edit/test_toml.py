"""Editing TOML in place, for every notation of a table."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from toolcrib.errors import ConfigError
from toolcrib.settings.documents import Document
from toolcrib.settings.edit.toml import put, remove

NEW = {"command": "npx"}


def added(text: str, name: str = "new", value: Any = None) -> str:
    return put(Document(None, text), ("servers", name), NEW if value is None else value)


def removed(text: str, name: str = "a") -> str:
    return remove(Document(None, text), ("servers", name))


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", '[servers.new]\ncommand = "npx"\n'),
        ("# only a comment\n", '# only a comment\n\n[servers.new]\ncommand = "npx"\n'),
        ("[hub]\n\n\n", '[hub]\n\n[servers.new]\ncommand = "npx"\n\n\n'),
        ("[servers.a]\nx = 1", '[servers.a]\nx = 1\n\n[servers.new]\ncommand = "npx"'),
        ("[servers.a]\r\nx = 1\r\n", '[servers.a]\r\nx = 1\r\n\r\n[servers.new]\r\ncommand = "npx"\r\n'),
        ("[servers.a]\nx = 1\n\n[hub]\n", '[servers.a]\nx = 1\n\n[servers.new]\ncommand = "npx"\n\n[hub]\n'),
        ("[servers.a]\nx = 1\n# y\n\n[hub]\n", '[servers.a]\nx = 1\n# y\n\n[servers.new]\ncommand = "npx"\n\n[hub]\n'),
        ("[servers.a]\nx = 1\n# hub\n[hub]\n", '[servers.a]\nx = 1\n\n[servers.new]\ncommand = "npx"\n# hub\n[hub]\n'),
        ("servers.a.x = 1\n", 'servers.a.x = 1\n\n[servers.new]\ncommand = "npx"\n'),
        ("servers = {}\n", 'servers = { new = { command = "npx" } }\n'),
        ("servers = { a = {x = 1} } # c\n", 'servers = { a = {x = 1}, new = { command = "npx" } } # c\n'),
    ],
)
def test_a_new_table_is_added_after_its_neighbours(text: str, expected: str) -> None:
    assert added(text) == expected
    assert removed(expected, "new") == text


@pytest.mark.parametrize(
    "text, expected",
    [
        ("[servers.a]\nx = 1\n\n[servers.b]\ny = 2\n", "\n[servers.b]\ny = 2\n"),
        ("[servers.b]\ny = 2\n\n[servers.a]\nx = 1\n", "[servers.b]\ny = 2\n"),
        ("[servers.b]\ny = 2\n\n[servers.a]\nx = 1", "[servers.b]\ny = 2"),
        ("[servers.a]\nx = 1\n# in a\ny = 2\n\n# above b\n[servers.b]\n", "\n# above b\n[servers.b]\n"),
        ("[servers.a]\nx = 1\n[servers.a.env]\ny = 2\n[hub]\n", "[hub]\n"),
        ("[servers.a.env]\ny = 2\n[hub]\n[servers.a]\nx = 1\n", "[hub]\n"),
        ("servers.a.x = 1\nservers.b.x = 2\nservers.a.y = 3\n", "servers.b.x = 2\n"),
        ("[servers]\na.x = 1\nb = {}\na.y = [\n  1, # ]\n]\n", "[servers]\nb = {}\n"),
        ("[servers]\na = { x = 1 }\nb = {}\n", "[servers]\nb = {}\n"),
        ("servers = { a = 1, b = 2, c = 3 }", "servers = { b = 2, c = 3 }"),
        ("servers = { b = 2, a = 1, c = 3 }", "servers = { b = 2, c = 3 }"),
        ("servers = { b = 2, a = 1 }", "servers = { b = 2 }"),
        ("servers = { a.x = 1, b = 2, a.y = { z = '}' } }", "servers = { b = 2 }"),
        ("servers.a = 1\n[servers.b]\nx = 2\n", "[servers.b]\nx = 2\n"),
        ('["servers"."a"]\nx = 1\n[servers.b]\n', "[servers.b]\n"),
        ("['servers'.\"\\u0061\"]\nx = 1\n", ""),
    ],
)
def test_a_table_goes_in_whatever_ways_it_is_written(text: str, expected: str) -> None:
    assert tomllib.loads(text)["servers"]["a"]
    assert removed(text) == expected


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
def test_nothing_moves_around_arrays_of_tables_and_tables_out_of_order(newline: str, end: str) -> None:
    others = ["[[list]] # one", "x = 1", "[list.more]", "[servers.b]", "[[list]]", "x = 2", "# below", "[[list.deep]]"]
    table, end = newline.join(["[servers.a]", "x = 1"]), end.replace("\n", newline)
    for place in (0, 2, 3, 4, 7, 8):
        text = newline.join([*others[:place], table, *others[place:]]) + end
        assert removed(text) == newline.join(others) + end
        assert added(text, "a", {"y": 2}) == text.replace(table, newline.join(["[servers.a]", "y = 2"]))
        assert removed(added(text), "new") == text


def test_strings_do_not_look_like_headers() -> None:
    text = 'a = """\n[servers.a]\nx = 1 \\""" still\n""""\nb = \'\'\'\n[servers.a]\n\'\'\'\n[servers.a]\nc = "[x]#"\n'
    assert removed(text) == text.removesuffix('[servers.a]\nc = "[x]#"\n')


@pytest.mark.parametrize(
    "text, expected",
    [
        ("[servers.a]\nx = 1\n\n[servers.b]\n", '[servers.a]\ncommand = "npx"\n\n[servers.b]\n'),
        ("[servers.a] # c\n[servers.a.env]\ny = 1\n[hub]\n", '[servers.a]\ncommand = "npx"\n[hub]\n'),
        ("[servers.a]\nx = 1", '[servers.a]\ncommand = "npx"'),
        ("servers.a = { x = 1 } # c\n", 'servers.a = { command = "npx" } # c\n'),
        ("[servers]\na = { x = 1 }\nb = 2\n", '[servers]\na = { command = "npx" }\nb = 2\n'),
        ("servers = { a = { x = 1 }, b = 2 }\n", 'servers = { a = { command = "npx" }, b = 2 }\n'),
        ("servers = { a.x = 1, b = 2 }\n", 'servers = { b = 2, a = { command = "npx" } }\n'),
        ("servers.a.x = 1\n", '[servers.a]\ncommand = "npx"\n'),
    ],
)
def test_a_table_is_replaced_in_place_if_possible(text: str, expected: str) -> None:
    assert added(text, "a") == expected


def test_every_value_is_read_back_as_it_was() -> None:
    value = {
        "text": 'q"\\\n\t\x7f\x01é\u2028',
        "key with blanks": 1,
        "": {"in\nline": {"deep": [1, [2.5, True], {"x": "y"}]}},
        "big": 10**20,
        "inf": float("inf"),
        "down": float("-inf"),
        "empty": {},
        "list": [],
        "long": ["a word of some length"] * 20,
    }
    assert tomllib.loads(added("", "my server", value)) == {"servers": {"my server": value}}


def test_values_that_toml_cannot_hold_are_reported() -> None:
    with pytest.raises(ConfigError, match="TOML cannot represent bytes"):
        added("", value={"x": b"1"})
