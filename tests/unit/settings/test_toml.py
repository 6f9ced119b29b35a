"""The TOML format: every field of the configs, options of the hub, and line numbers in errors."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings.files import load
from toolcrib.config import HttpServer, StdioServer
from toolcrib.errors import ConfigError
from toolcrib.settings import parse_settings
from toolcrib.types import ReconnectPolicy

WHOLE = """
# all of it
[hub]
on_error = "raise"
start = "lazy"
allowed_tools = ["mcp__fs__*"]
disallowed_tools = []
require_approval = { "mcp__fs__write_*" = "always" }
execution_timeout = "none"
reconnect = { max_delay = 5 }

[servers.fs]
command = "fs"
args = [
  "--root",
  "${TOKEN}",
]
lifecycle = "transient"
blocked_tools = ["delete"]

[servers.fs.env]
A = "b"

[servers."My Server"]
url = "https://h/mcp"
connect_timeout = 2.5
max_connections = "none"
"""


def refused(folder: Path, text: str) -> Any:
    with pytest.raises(ConfigError) as caught:
        load(folder / "toolcrib.toml", text)
    assert caught.value.file == str(folder / "toolcrib.toml")
    return caught.value


def test_servers_and_options_of_the_hub(tmp_path: Path) -> None:
    settings = load(tmp_path / "toolcrib.toml", WHOLE)
    assert settings.failed == ()
    assert settings.servers == {
        "fs": StdioServer("fs", ["--root", "t0ken"], env={"A": "b"}, lifecycle="transient"),
        "My-Server": HttpServer("https://h/mcp", connect_timeout=2.5, max_connections=None),
    }
    assert settings.entries[0].blocked_tools == ("delete",)
    assert [entry.line for entry in settings.entries] == [12, 24]
    assert settings.defaults == {
        "on_error": "raise",
        "start": "lazy",
        "allowed_tools": ("mcp__fs__*",),
        "disallowed_tools": (),
        "require_approval": {"mcp__fs__write_*": "always"},
        "execution_timeout": None,
        "reconnect": ReconnectPolicy(max_delay=5),
    }


def test_a_wrong_server_is_named_with_its_line_and_the_others_are_there(tmp_path: Path) -> None:
    text = WHOLE.replace('A = "b"', 'A = "b"\nB = "${NO}"').replace("connect_timeout = 2.5", "connect_timeout = 0")
    first, second = (entry.error for entry in load(tmp_path / "toolcrib.toml", text).failed)
    assert (first.line, first.key) == (23, "servers.fs.env.B")  # type: ignore[union-attr]
    assert (second.line, second.key) == (27, "servers.My Server.connect_timeout")  # type: ignore[union-attr]


def test_a_key_behind_a_text_of_several_lines_is_found(tmp_path: Path) -> None:
    text = '[servers.a]\ncommand = """\n[servers.b]\ncwd = 1\n"""\ncwd = 3\n'
    error: Any = load(tmp_path / "toolcrib.toml", text).failed[0].error
    assert (error.line, error.key) == (6, "servers.a.cwd")


@pytest.mark.parametrize(
    "text, line, column",
    [
        ("[servers.a\n", 1, 11),
        ('[servers.a]\ncommand = "x', 2, 13),
        ("[servers.a]\ncommand = x\n", 2, 11),
        ('[servers.a]\ncommand = "x"\n[servers.a]\n', 3, 11),
        ('[servers.a]\ncommand = "x"\ncommand = "y"\n', 3, 14),
    ],
)
def test_broken_toml_is_reported_with_its_place(tmp_path: Path, text: str, line: int, column: int) -> None:
    error = refused(tmp_path, text)
    assert (error.line, error.column, error.expected) == (line, column, "TOML")


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a." * 1000 + "b = 1", "a = " + "[" * 70 + "]" * 70])
def test_nesting_ends_at_a_depth(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text).expected == "at most 64 nested containers"


@pytest.mark.parametrize(
    "line, key, expected",
    [
        ('on_error = "ignore"', "hub.on_error", "one of skip, raise"),
        ('start = "late"', "hub.start", "one of eager, lazy"),
        ('allowed_tools = "x"', "hub.allowed_tools", "a list of qualified names or patterns"),
        ("disallowed_tools = [1]", "hub.disallowed_tools", "a list of qualified names or patterns"),
        ('require_approval = { x = "maybe" }', "hub.require_approval", "always, never, a list"),
        ('require_approval = "maybe"', "hub.require_approval", "always, never, a list"),
        ("execution_timeout = 0", "hub.execution_timeout", "a positive number of seconds"),
        ("reconnect = { max_delay = -1 }", "hub.reconnect.max_delay", "seconds"),
        ("on_eror = 1", "hub.on_eror", "an option of the hub"),
    ],
)
def test_a_wrong_option_of_the_hub_is_an_error_of_the_file(tmp_path: Path, line: str, key: str, expected: str) -> None:
    error = refused(tmp_path, f"[hub]\n\n{line}\n")
    assert (error.line, error.key) == (3, key)
    assert error.expected.startswith(expected)
    assert f": {key}: " in str(error)


def test_the_options_of_the_hub_must_be_a_table(tmp_path: Path) -> None:
    error = refused(tmp_path, '[servers.a]\ncommand = "x"\n[[hub]]\nstart = "lazy"\n')
    assert (error.line, error.key, error.expected) == (3, "hub", "a table of options")


def test_an_unknown_option_is_reported_with_the_nearest(tmp_path: Path) -> None:
    assert "hub.on_eror: unknown option; did you mean 'on_error'?" in str(refused(tmp_path, "[hub]\non_eror = 1"))


def test_options_without_servers_are_kept(tmp_path: Path) -> None:
    settings = load(tmp_path / "toolcrib.toml", '[hub]\nstart = "lazy"')
    assert (settings.entries, settings.defaults) == ((), {"start": "lazy"})


def test_a_mapping_may_have_options_too() -> None:
    settings = parse_settings({"servers": {"a": {"command": "x"}}, "hub": {"start": "lazy"}})
    assert settings.defaults == {"start": "lazy"}


def test_an_unknown_table_is_warned_about(tmp_path: Path) -> None:
    settings = load(tmp_path / "toolcrib.toml", '[servers.a]\ncommand = "x"\n[other]\nx = 1')
    assert settings.warnings == (f"{tmp_path / 'toolcrib.toml'}:3:1: other: unknown key, has no effect",)


def test_a_misspelt_table_is_reported_with_the_right_one(tmp_path: Path) -> None:
    error = refused(tmp_path, '[server.a]\ncommand = "x"')
    assert "did you mean 'servers' instead of 'server'?" in str(error)


@pytest.mark.parametrize("value", ["1979-05-27", "[1]", "{ a = 1 }"])
def test_a_value_of_another_type_fails_its_server(tmp_path: Path, value: str) -> None:
    (failed,) = load(tmp_path / "toolcrib.toml", f"[servers.a]\ncommand = {value}").failed
    assert failed.error.key == "servers.a.command"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "before",
    [
        '# """',
        "# a 'quote', a \"quote\" and '''",
        "x = \"# ''' \\\" [servers.a]\"",
        'y = \'# """\'',
        'z = """one " two "" three \\""" [servers.b]\n[servers.a]\ncwd = 1\n"""""',
        "z = '''\\\n[servers.a]\n''''  # '''",
        'list = [\n  ["servers"],\n  ["b"], # ]\n  { cwd = "]" },\n]',
    ],
)
def test_a_place_is_right_behind_what_only_looks_like_a_table_or_a_key(tmp_path: Path, before: str) -> None:
    text = f'[servers.b]\ncommand = "x"\n{before}\n[servers.a]\ncommand = "x"\ncwd = 3\n'
    settings = load(tmp_path / "toolcrib.toml", text)
    (failed,) = settings.failed
    error: Any = failed.error
    assert (error.key, error.line, error.column) == ("servers.a.cwd", text.count("\n"), 1)
    assert [entry.line for entry in settings.entries] == [1, text.count("\n") - 2]


def test_a_place_that_cannot_be_determined_is_omitted(tmp_path: Path) -> None:
    (failed,) = load(tmp_path / "toolcrib.toml", '\n["\\u0073ervers"."\\u0061"]\ncommand = 1').failed
    assert (failed.line, failed.error.line) == (None, None)  # type: ignore[union-attr]


@pytest.mark.serial
@pytest.mark.parametrize("line", ["[{}]", "{} = 1", "a = {{ {} = 1 }}", "a = [{{ {} = 1 }}]"])
@pytest.mark.parametrize("part", ["a", pytest.param('"a.b"', marks=pytest.mark.nightly), " 'c' "])
def test_a_key_of_very_many_parts_is_refused_at_once(tmp_path: Path, line: str, part: str) -> None:
    began = time.perf_counter()
    error = refused(tmp_path, line.format(".".join([part] * 100_000)))
    assert error.expected == "at most 64 nested containers"
    assert time.perf_counter() - began < 5


@pytest.mark.serial
@pytest.mark.parametrize("one", ['"""', "'''", '\\"""', '" \\""" ', "a.", "a", "#", "[", '"'])
def test_any_text_takes_linear_time(one: str, tmp_path: Path) -> None:
    began = time.perf_counter()
    with contextlib.suppress(ConfigError):
        load(tmp_path / "toolcrib.toml", one * 100_000)
    assert time.perf_counter() - began < 10


def test_dots_in_values_are_not_nesting(tmp_path: Path) -> None:
    text = (
        f'[servers.a]\ncommand = "{"a." * 100}" # {"a." * 100}\nargs = ["""\n{"a." * 100}"""]\n[x]\nx = {[1.5] * 100}'
    )
    assert load(tmp_path / "toolcrib.toml", text).failed == ()


@pytest.mark.parametrize("word", ["always", "never"])
def test_approval_may_be_one_word_for_all(tmp_path: Path, word: str) -> None:
    settings = load(tmp_path / "toolcrib.toml", f'[hub]\nrequire_approval = "{word}"')
    assert settings.defaults == {"require_approval": word}


def test_none_means_nothing_only_where_nothing_means_something(tmp_path: Path) -> None:
    for option in ("allowed_tools", "disallowed_tools", "require_approval", "on_error", "reconnect"):
        error = refused(tmp_path, f'[hub]\n{option} = "none"')
        assert error.key == f"hub.{option}"
        assert "got a string (value hidden)" in str(error)
    assert "max_retries" in str(refused(tmp_path, '[hub]\nreconnect = { max_retries = "all" }'))
    text = '[hub]\nreconnect = { max_retries = "none" }'
    assert load(tmp_path / "toolcrib.toml", text).defaults == {"reconnect": ReconnectPolicy(max_retries=None)}
    text = '[hub]\nidle_timeout = "none"\nmax_in_flight = "none"'
    assert load(tmp_path / "toolcrib.toml", text).defaults == {"idle_timeout": None, "max_in_flight": None}
