"""Editing JSON in place: everything else stays the same, byte by byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib.settings.documents import Document
from toolcrib.settings.edit.jsonc import put, remove

NEW = {"command": "npx", "args": ["-y", "x"]}


def added(text: str, name: str = "new", value: Any = None) -> str:
    return put(Document(None, text), ("mcpServers", name), NEW if value is None else value)


def removed(text: str, name: str) -> str:
    return remove(Document(None, text), ("mcpServers", name))


def test_a_new_entry_takes_over_the_indentation_of_its_neighbours() -> None:
    text = '{\n\t"mcpServers": {\n\t\t"a": {}\n\t}\n}\n'
    new = '\t\t"new": {\n\t\t\t"command": "npx",\n\t\t\t"args": ["-y", "x"]\n\t\t}\n'
    assert added(text) == f'{{\n\t"mcpServers": {{\n\t\t"a": {{}},\n{new}\t}}\n}}\n'


def test_a_trailing_comma_is_kept_as_a_habit_of_the_file() -> None:
    text = '{\n  "mcpServers": {\n    "a": {},\n  },\n}\n'
    assert added(text, value={}) == '{\n  "mcpServers": {\n    "a": {},\n    "new": {},\n  },\n}\n'


def test_the_comma_is_put_before_a_comment_and_the_entry_after_it() -> None:
    text = '{"mcpServers": {\n  "a": {} // the first, {really}\n  // and no more\n}}'
    assert added(text, value={}) == (
        '{"mcpServers": {\n  "a": {}, // the first, {really}\n  "new": {}\n  // and no more\n}}'
    )


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{"mcpServers":{"a":1}}', '{"mcpServers":{"a":1,"new":{"x":[1,2]}}}'),
        ('{"mcpServers": {"a": 1}}', '{"mcpServers": {"a": 1, "new": {"x": [1, 2]}}}'),
        ('{ "mcpServers": { "a": 1, } }', '{ "mcpServers": { "a": 1, "new": {"x": [1, 2]}, } }'),
    ],
)
def test_an_entry_on_one_line_stays_on_one_line(text: str, expected: str) -> None:
    assert added(text, value={"x": [1, 2]}) == expected


def test_windows_line_ends_are_used_where_the_file_has_them() -> None:
    text = '{\r\n  "mcpServers": {}\r\n}\r\n'
    assert added(text, value={"x": 1}) == (
        '{\r\n  "mcpServers": {\r\n    "new": {\r\n      "x": 1\r\n    }\r\n  }\r\n}\r\n'
    )


@pytest.mark.parametrize("text", ["{}", "{\n}\n", "// mine\n{ /* nothing */ }", '{"mcpServers": null}'])
def test_a_section_that_is_missing_is_made(text: str) -> None:
    new = added(text)
    assert "mine" not in text or new.startswith("// mine\n{ /* nothing */\n")
    assert '"mcpServers"' in new and '"npx"' in new


def test_a_long_list_and_objects_are_written_by_lines() -> None:
    words = [f"a-long-word-{n}" for n in range(9)]
    new = added("{}", value={"args": words, "env": {"A": "1"}, "empty": {}, "none": []})
    assert '\n        "a-long-word-0",\n' in new
    assert '"env": {\n        "A": "1"\n      }' in new
    assert '"empty": {}' in new and '"none": []' in new
    assert json.loads(new)["mcpServers"]["new"]["args"] == words


def test_an_entry_is_replaced_in_place() -> None:
    text = '{"mcpServers": {\n  /* one */ "a": {"command": "x" /* gone */}, // two\n  "b": 2\n}}'
    new = added(text, "a", {})
    assert new == '{"mcpServers": {\n  /* one */ "a": {}, // two\n  "b": 2\n}}'


@pytest.mark.parametrize(
    "text, name, expected",
    [
        ('{"mcpServers": {"a": 1, "b": 2, "c": 3}}', "a", '{"mcpServers": {"b": 2, "c": 3}}'),
        ('{"mcpServers": {"a": 1, "b": 2, "c": 3}}', "b", '{"mcpServers": {"a": 1, "c": 3}}'),
        ('{"mcpServers": {"a": 1, "b": 2, "c": 3}}', "c", '{"mcpServers": {"a": 1, "b": 2}}'),
        ('{"mcpServers": {"a": 1}}', "a", '{"mcpServers": {}}'),
        ('{"mcpServers": {"a": 1,}}', "a", '{"mcpServers": {}}'),
        ('{"mcpServers": {"a": 1, "b": 2,}}', "b", '{"mcpServers": {"a": 1,}}'),
        ('{"mcpServers": {\n  "a": 1\n}}', "a", '{"mcpServers": {}}'),
        ('{"mcpServers": {\n  "a": 1,\n  "b": 2\n}}', "b", '{"mcpServers": {\n  "a": 1\n}}'),
        ('{"mcpServers": {\n  "a": 1,\n\n  "b": 2\n}}', "a", '{"mcpServers": {\n\n  "b": 2\n}}'),
        ('{"mcpServers": {"a": 1, "a": 2}}', "a", '{"mcpServers": {}}'),
        ('{"mcpServers": {\n"a": {"x": "//"},\n"b": 2}}', "b", '{"mcpServers": {\n"a": {"x": "//"}}}'),
        ('{"mcpServers": {"a": 1\n, "b": 2\n}}', "b", '{"mcpServers": {"a": 1\n\n}}'),
    ],
)
def test_an_entry_goes_with_its_comma_and_nothing_else(text: str, name: str, expected: str) -> None:
    assert removed(text, name) == expected


def test_comments_stay_but_the_one_at_the_end_of_a_removed_line() -> None:
    text = '{"mcpServers": {\n  // above a\n  "a": 1, // of a\n  // above b\n  "b": 2 // of b\n  // below\n}}'
    assert removed(text, "a") == '{"mcpServers": {\n  // above a\n  // above b\n  "b": 2 // of b\n  // below\n}}'
    assert removed(text, "b") == '{"mcpServers": {\n  // above a\n  "a": 1 // of a\n  // above b\n  // below\n}}'


def test_names_with_quotes_and_escapes_are_found() -> None:
    text = '{"mcpServers": {"a\\u0062": 1, "b": 2}}'
    assert removed(text, "ab") == '{"mcpServers": {"b": 2}}'
    assert json.loads(added("{}", 'q"\\\n'))["mcpServers"] == {'q"\\\n': NEW}
