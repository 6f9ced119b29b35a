"""The reference is generated from the code, is up to date, and covers every public name."""

from __future__ import annotations

import ast
import functools
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib
from scripts.reference import __main__ as reference
from scripts.reference import markdown
from toolcrib import adapters, errors, events, provider
from toolcrib.cli.command_table import COMMANDS
from toolcrib.provider.outcomes import OUTCOMES

ROOT = Path(__file__).parents[2]


@functools.cache
def pages() -> dict[Path, str]:
    return reference.pages()


def test_every_page_of_the_reference_is_what_the_code_says_now() -> None:
    for page, text in pages().items():
        assert page.read_text() == text, f"{page.name} is out of date: run scripts/docs"


def test_every_page_of_the_reference_is_made() -> None:
    pictures = {module.PICTURE for module in reference.PICTURES}
    assert {*(ROOT / "docs/reference").glob("*.md"), *pictures} == set(pages())


def text_of(name: str) -> str:
    return pages()[ROOT / "docs/reference" / name]


def test_every_public_name_is_in_the_reference() -> None:
    listed, described = text_of("errors.md"), text_of("api.md")
    is_error = {name: hasattr(errors, name) for name in toolcrib._HOME}
    assert [name for name, yes in is_error.items() if yes and f"| `{name}` |" not in listed] == []
    assert [name for name, yes in is_error.items() if not yes and f"\n### {name}\n" not in described] == []


def test_every_name_of_the_provider_is_in_the_reference() -> None:
    described = text_of("provider.md")
    assert [name for name in provider.__all__ if f"\n### {name}\n" not in described] == []
    assert [row.code for row in OUTCOMES if f"| `{row.code}` | {row.status} |" not in described] == []


def test_every_name_and_module_of_the_adapters_is_in_the_reference() -> None:
    described = text_of("adapters.md")
    assert [name for name in adapters.__all__ if f"\n### {name}\n" not in described] == []
    with_tools = [
        path.stem
        for path in (ROOT / "src/toolcrib/adapters").glob("*.py")
        if re.search(r"^def (tools|servers|provider)\(", path.read_text(), re.MULTILINE)
    ]
    assert len(with_tools) == 16
    assert [name for name in with_tools if f"\n### {name}\n\n" not in described] == []
    assert not re.search(r"ForwardRef|<function|0x[0-9a-f]{6}", described)


def test_every_option_of_clients_and_servers_has_a_meaning() -> None:
    described = text_of("api.md")
    for name in ("ClientOptions", "StdioServer", "HttpServer", "SseServer", "PythonServer", "ServerState"):
        section = described.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        rows = re.findall(r"^\| `.+ \|$", section, re.MULTILINE)
        assert rows, name
        assert [row for row in rows if row.endswith("|  |")] == [], name


def test_every_error_is_in_the_reference_with_what_to_do() -> None:
    kinds = [k for k in vars(errors).values() if inspect.isclass(k) and issubclass(k, Exception)]
    rows = [row for row in text_of("errors.md").splitlines() if row.startswith("| `")]
    assert {row.split("`")[1] for row in rows} == {kind.__name__ for kind in kinds}
    assert [row for row in rows if not row.rsplit(" | ", 1)[1].strip(" |")] == []


def test_every_event_is_in_the_reference() -> None:
    kinds = [k for k in vars(events).values() if inspect.isclass(k) and issubclass(k, events.Event)]
    assert kinds
    assert [kind.__name__ for kind in kinds if f"| `{kind.__name__}` |" not in text_of("events.md")] == []


def test_every_option_of_every_command_is_in_the_reference(tmp_path: Path) -> None:
    """Compares the page with the `--help` of each command, which the generator does not produce."""
    # One process for all: most of the time of a command's help is the start of Python.
    code = "import sys; from toolcrib.cli.app import run; [run([*name.split(), '--help']) for name in sys.argv[1:]]"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "NO_COLOR": "1", "COLUMNS": "200"}
    command = [sys.executable, "-c", code, *COMMANDS]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=True)
    helps = re.split(r"Usage: toolcrib ([a-z ]+) \[OPTIONS\]", ran.stdout)[1:]
    assert helps[::2] == list(COMMANDS)
    for name, text in zip(helps[::2], helps[1::2], strict=True):
        section = text_of("cli.md").partition(f"\n## toolcrib {name}\n")[2].partition("\n## ")[0]
        options = set(re.findall(r"--[a-z][a-z-]*", text)) - {"--help"}
        assert [option for option in options if option not in section] == [], name


def test_a_stale_page_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(reference, "FOLDER", tmp_path)
    assert reference.main(["--check"]) == 1
    assert "stale: api.md" in capsys.readouterr().out
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
    (tmp_path / "errors.md").write_text("something else")
    assert [path.name for path in reference.stale()] == ["errors.md"]


def test_a_parsed_signature_is_that_of_the_function() -> None:
    source = (
        "async def f(self, a: int, /, b: str = 'x', *c: int, d: m.D | None = None, **e: Unpack[Options]) -> x.Y: ..."
    )
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.AsyncFunctionDef)
    shown = "async def f(a: int, /, b: str = 'x', *c: int, d: D | None = None, **e: Unpack[Options]) -> Y"
    assert markdown.parsed_signature(function, "f") == shown


def test_examples_in_docstrings_become_blocks_of_code() -> None:
    text = "Do it.\n\n    with a:\n        b\n\n    c\n\nMore.\n\n    d"
    fenced = "Do it.\n\n```py\nwith a:\n    b\n\nc\n```\n\nMore.\n\n```py\nd\n```"
    assert markdown.fenced(text) == fenced


def test_a_long_signature_has_a_line_for_each_parameter() -> None:
    def short(a: int, /, b: str = ",", *, c: tuple[int, ...] = (1, 2)) -> None: ...

    def long(
        arguments_by_name: dict[str, tuple[int, str]], *, of_a_long_name: int = 1, another_of_a_long_name: str = "(,)"
    ) -> list[int]: ...

    assert markdown.signature("f", short) == "def f(a: int, /, b: str = ',', *, c: tuple[int, ...] = (1, 2)) -> None"
    assert markdown.signature("f", long).splitlines() == [
        "def f(",
        "    arguments_by_name: dict[str, tuple[int, str]],",
        "    *,",
        "    of_a_long_name: int = 1,",
        "    another_of_a_long_name: str = '(,)',",
        ") -> list[int]",
    ]
