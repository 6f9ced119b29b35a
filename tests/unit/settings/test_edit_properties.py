"""For any file: an edit changes only the given server, and no other byte."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.settings.documents import Document
from toolcrib.settings.edit import jsonc as edit_jsonc
from toolcrib.settings.edit import toml as edit_toml
from toolcrib.settings.jsonc import read_jsonc

Servers = dict[str, dict[str, Any]]

signs = st.sampled_from("ab\"\\'#{}[],.=/* \n\t\x7fé😀")
names = st.text(signs, min_size=1, max_size=3)
texts = st.text(signs, max_size=5)
plain = texts | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
values = plain | st.lists(plain, max_size=2) | st.dictionaries(names, plain | st.lists(plain, max_size=2), max_size=2)
entries = st.dictionaries(names, values, max_size=3)
servers = st.dictionaries(names, entries, max_size=3)
gaps = st.sampled_from(["", " ", "\n", "\n    ", "\t", "\r\n", " /* } , */ ", " // {\n", '\n// "x": 1,\n  '])


@st.composite
def jsonc(draw: st.DrawFn, value: Any) -> str:
    """Generate JSON as users may write it."""
    gap = lambda: draw(gaps)  # noqa: E731  # a new one each time
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}{gap()}:{gap()}{draw(jsonc(item))}" for key, item in value.items()]
    else:
        items = [draw(jsonc(item)) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = f"{gap()},{gap()}".join(items) + (f"{gap()}," if items and draw(st.booleans()) else "")
    return f"{opening}{gap()}{body}{gap()}{closing}"


def toml_key(key: str) -> str:
    return json.dumps(key, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_key(key)}= {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[\n  # ] not yet\n" + "".join(f"  {toml_value(item)} , # [\n" for item in value) + "]"
    if isinstance(value, str) and value.isascii() and value.isalnum():
        return f"'''{value}'''"
    return repr(value) if isinstance(value, float) else toml_key(value) if isinstance(value, str) else json.dumps(value)


def flat(value: Any) -> Any:
    """Return the value with lists replaced by strings: `toml_value` writes lists with comments over several lines."""
    if isinstance(value, dict):
        return {key: flat(item) for key, item in value.items()}
    return str(value) if isinstance(value, list) else value


@st.composite
def toml(draw: st.DrawFn, root: Servers) -> str:
    """Generate TOML as users may write it, each server in a different notation."""
    dotted, lines, tables = [], [], []
    for name, entry in root.items():
        key = toml_key(name)
        way = draw(st.sampled_from(["table", "inline", "dotted", "parts"] if entry else ["table", "inline"]))
        if way == "inline":
            lines.append(f"{key} = {toml_value(flat(entry))} # {name!a}")
        elif way == "dotted":
            dotted += [f"servers.{key}.{toml_key(field)} = {toml_value(item)}" for field, item in entry.items()]
        elif way == "parts":
            lines += [f"  {key} . {toml_key(field)}={toml_value(item)}" for field, item in entry.items()]
        else:
            body = [f"{toml_key(field)} = {toml_value(item)}" for field, item in entry.items()]
            tables.append(
                "\n".join([draw(st.sampled_from(["", "# about it", "\n"])), f"[ servers . {key} ] # c", *body])
            )
    if lines and not dotted:
        lines = ["[servers]", *lines]
    elif lines:
        dotted, lines = [], ["[servers]", *lines, *(line.removeprefix("servers.") for line in dotted)]
    parts = ["# [servers.no]", *dotted, *lines, *tables, draw(st.sampled_from(["", "[hub]\nstart = 'lazy'", "# end"]))]
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return "\n".join(parts).replace("\n", newline) + draw(st.sampled_from(["", newline, newline * 3]))


def without(text: str, pieces: str) -> str:
    """Return the rest of `pieces` that is not a subsequence of the text; empty if all of it is."""
    for char in text:
        pieces = pieces[1:] if pieces.startswith(char) else pieces
    return pieces


@given(data=st.data(), root=servers, name=names, entry=entries)
def test_json_gets_exactly_the_entry_that_is_put(data: st.DataObject, root: Servers, name: str, entry: Any) -> None:
    text = data.draw(jsonc({"before": 1, "mcpServers": root, "after": [2]}))
    new = edit_jsonc.put(Document(None, text), ("mcpServers", name), entry)
    assert read_jsonc(Document(None, new)) == {"before": 1, "mcpServers": {**root, name: entry}, "after": [2]}
    if name not in root:
        # Blanks in an empty object are lost; every other byte is restored.
        back = edit_jsonc.remove(Document(None, new), ("mcpServers", name))
        assert (back == text and not without(new, text)) if root else "".join(back.split()) == "".join(text.split())


@given(data=st.data(), root=servers)
def test_json_loses_exactly_the_entry_that_is_removed(data: st.DataObject, root: Servers) -> None:
    text = data.draw(jsonc({"mcpServers": root}))
    for name in root:
        new = edit_jsonc.remove(Document(None, text), ("mcpServers", name))
        rest = {key: value for key, value in root.items() if key != name}
        assert read_jsonc(Document(None, new)) == {"mcpServers": rest}
        assert not without(text, new)


@given(data=st.data(), root=servers, name=names, entry=entries)
def test_toml_gets_exactly_the_entry_that_is_put(data: st.DataObject, root: Servers, name: str, entry: Any) -> None:
    text = data.draw(toml(root))
    before = tomllib.loads(text)
    new = edit_toml.put(Document(None, text), ("servers", name), entry)
    assert tomllib.loads(new) == {**before, "servers": {**before.get("servers", {}), name: entry}}
    if name not in root:
        assert not without(new, text)
        assert edit_toml.remove(Document(None, new), ("servers", name)) == text


@given(data=st.data(), root=servers)
def test_toml_loses_exactly_the_entry_that_is_removed(data: st.DataObject, root: Servers) -> None:
    text = data.draw(toml(root))
    before = tomllib.loads(text)
    for name in root:
        new = edit_toml.remove(Document(None, text), ("servers", name))
        rest = {key: value for key, value in before["servers"].items() if key != name}
        assert tomllib.loads(new).get("servers", {}) == rest
        assert not without(text, new)
