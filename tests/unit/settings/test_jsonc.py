"""JSON with comments and trailing commas: its values, and the positions of errors."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.settings.documents import Document, Table, place_of
from toolcrib.settings.jsonc import read_jsonc

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
pieces = st.sampled_from(
    [
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "//",
        "/*",
        "*/",
        "\n",
        " ",
        "\\",
        "1",
        "-",
        "e",
        "true",
        "nul",
        '"a"',
        "\ud800",
        "\t",
    ]
)


def read(text: str) -> Any:
    return read_jsonc(Document(None, text))


def refused(text: str) -> Any:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return caught.value


@given(values, st.sampled_from([None, 0, 3]), st.booleans())
def test_plain_json_gives_what_json_gives(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert read(text) == json.loads(text) == value
    assert json.dumps(read(text)) == json.dumps(value)


def commented(value: Any, draw: Any) -> str:
    """Generate the value with comments and trailing commas wherever they are allowed."""

    def gap() -> str:
        return str(draw(st.sampled_from(["", " ", "\n", "/* , } */", '// ] "\n', "/***/\t", "\r\n"])))

    def comma(is_last: bool) -> str:
        return "," if not is_last or draw(st.booleans()) else ""

    if isinstance(value, dict):
        items = [f"{gap()}{json.dumps(key)}{gap()}:{commented(item, draw)}" for key, item in value.items()]
        brackets = "{}"
    elif isinstance(value, list):
        items = [commented(item, draw) for item in value]
        brackets = "[]"
    else:
        return f"{gap()}{json.dumps(value)}{gap()}"
    inner = "".join(text + comma(at == len(items) - 1) for at, text in enumerate(items))
    return f"{gap()}{brackets[0]}{inner}{gap()}{brackets[1]}{gap()}"


@given(values, st.data())
def test_comments_and_trailing_commas_change_nothing(value: Any, data: st.DataObject) -> None:
    assert read(commented(value, data.draw)) == value


@given(values, st.data())
def test_a_text_that_is_cut_off_is_a_value_or_an_error_with_a_line(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value, indent=1)
    cut = data.draw(st.integers(0, len(text)))
    assert_read_or_refused(text[:cut])


@given(st.lists(pieces).map("".join) | st.text())
def test_garbage_is_a_value_or_an_error_with_a_line(text: str) -> None:
    assert_read_or_refused(text)


def assert_read_or_refused(text: str) -> None:
    try:
        read(text)
    except ConfigError as exc:
        error: Any = exc
    else:
        return
    assert 1 <= error.line <= text.count("\n") + 1
    assert error.column >= 1
    assert error.expected
    assert error.message.startswith(f"line:{error.line}:{error.column}: ")


@pytest.mark.parametrize(
    "text, line, column, expected",
    [
        ("", 1, 1, "a value"),
        ("// only a comment", 1, 18, "a value"),
        ('{\n  "a": 1\n  "b": 2\n}', 3, 3, "a comma or }"),
        ('{"a" 1}', 1, 6, "a colon"),
        ("{a: 1}", 1, 2, "a key in double quotes"),
        ("{'a': 1}", 1, 2, "a key in double quotes"),
        ("[1 2]", 1, 4, "a comma or ]"),
        ("[,]", 1, 2, "a value"),
        ('{"a": 1,,}', 1, 9, "a key in double quotes"),
        ("[1]\n[2]", 2, 1, "the end of the file"),
        ('{"a": [1,\n2', 2, 2, "] before the end of the file (opened on line 1)"),
        ('{"a": 1', 1, 8, "} before the end of the file"),
        ('{"a": "x', 1, 7, "a string in double quotes"),
        ('{"a": "x\ny"}', 1, 9, "a string in double quotes"),
        ('{"a": "\\q"}', 1, 8, "a string in double quotes"),
        ("[1, /* never", 1, 5, "*/ at the end of the comment"),
        ("[NaN]", 1, 2, "a value"),
        ("[01]", 1, 3, "a comma or ]"),
        ("[tru]", 1, 2, "a value"),
        ("[\n" + "9" * 5000 + "]", 2, 1, "a number with fewer digits"),
        ("[" * 65, 1, 65, "at most 64 nested containers"),
        ('{"a":' * 65, 1, 321, "at most 64 nested containers"),
    ],
)
def test_invalid_json_is_reported_with_its_place(text: str, line: int, column: int, expected: str) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column)
    assert error.expected.startswith(expected)


def test_64_containers_inside_each_other_are_read() -> None:
    assert read("[" * 64 + "]" * 64) == json.loads("[" * 64 + "]" * 64)


def test_an_error_names_the_key_where_it_happened() -> None:
    error = refused('{"mcpServers": {"fs": {"args": ["a" "b"]}}}')
    assert error.key == "mcpServers.fs.args"
    assert "mcpServers.fs.args: expected a comma" in error.message


def test_an_error_repeats_nothing_of_a_value() -> None:
    error = refused('{"env": {"TOKEN": "canary-7f3a\n"}}')
    shown = "".join([str(error), repr(vars(error)), repr(error.__cause__), repr(error.__context__)])
    assert "canary" not in shown
    assert error.__context__ is None


def test_of_a_key_that_is_there_twice_the_last_counts_and_the_first_is_remembered() -> None:
    table = read('{"a": 1,\n"a": 2}')
    assert table == {"a": 2}
    assert table.repeats == {"a": 1}
    assert table.places == {"a": 9}


def test_every_key_knows_its_place() -> None:
    document = Document(None, '{\n  "a": {\n    "b": [1]\n  }\n}')
    table = read_jsonc(document)
    assert isinstance(table, Table)
    assert document.place(place_of(table, "a", "b") or 0) == (3, 5)
    assert document.place(place_of(table, "a", "unknown") or 0) == (2, 3), "the nearest above it"
    assert place_of(table, "unknown") is None


@pytest.mark.serial
@pytest.mark.parametrize(
    "one, many",
    [
        ("[", 200_000),
        ("/*", 100_000),
        ("//\n", 70_000),
        ("[1,\n", 50_000),
        ('"', 200_000),
        ("/**/ ", 40_000),
        ("\\", 200_000),
    ],
)
@pytest.mark.parametrize(
    "start", ["", '{"a":', pytest.param("[", marks=pytest.mark.nightly), pytest.param('"', marks=pytest.mark.nightly)]
)
def test_reading_takes_linear_time(start: str, one: str, many: int) -> None:
    """Quadratic work on these would take minutes."""
    began = time.perf_counter()
    for text in (start + one * many, start + one * many + "x"):
        assert_read_or_refused(text)
    assert time.perf_counter() - began < 10


@pytest.mark.serial
def test_a_large_document_is_read_with_the_place_of_each_key() -> None:
    began = time.perf_counter()
    document = Document(
        None, json.dumps({f"k{n}": {"command": "x", "args": ["a", n]} for n in range(40_000)}, indent=1)
    )
    table = read_jsonc(document)
    lines = [document.line(table.places[f"k{n}"]) for n in range(0, 40_000, 10)]
    assert lines == [2 + 7 * n for n in range(0, 40_000, 10)]
    assert time.perf_counter() - began < 20
