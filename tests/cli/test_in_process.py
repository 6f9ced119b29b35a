"""A command that runs in the test process finds what a new process has, and leaves nothing behind."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.in_process import SIGNALS
from tests.cli.kit import run_cli, show_cli, write_settings

COUNTING = """
import os, signal, sys
import toolcrib as tc
import beside

server = tc.ToolServer("counting")
calls = []

@server.tool
def count() -> int:
    calls.append(1)
    return len(calls)

@server.tool
def around() -> list[str]:
    return [os.getcwd(), sys.argv[0], *sorted(set(os.environ) - {"PATH", "LANG", "SSL_CERT_FILE", "TMPDIR"})]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "beside.py").write_text("")
    (tmp_path / "broken.py").write_text("import beside\n1 / 0\n")
    write_settings(tmp_path, {"counting": {"python": "counting.py"}})
    return tmp_path


def state() -> dict[str, Any]:
    root = logging.getLogger()
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "path": [*sys.path],
        "arguments": [*sys.argv],
        "modules": sorted(name for name in sys.modules if "counting" in name or name in ("beside", "broken")),
        "streams": (sys.stdin, sys.stdout, sys.stderr),
        "descriptors": [os.fstat(number).st_ino for number in range(3)],
        "signals": [signal.getsignal(number) for number in SIGNALS],
        "logging": ([*root.handlers], root.level, logging.lastResort),
        "threads": [thread for thread in threading.enumerate() if not thread.daemon],
    }


@pytest.mark.parametrize(
    "words, code",
    [
        (("tools",), 0),
        (("tools", "--debug"), 0),
        (("call", "count"), 0),
        (("call", "nothing"), 4),
        (("run", "broken.py"), 3),
        (("frob",), 2),
    ],
    ids=["lists", "debug", "calls", "nothing", "broken", "usage"],
)
def test_nothing_of_the_test_process_is_changed(folder: Path, words: tuple[str, ...], code: int) -> None:
    before = state()
    assert run_cli(*words, cwd=folder).code == code
    assert show_cli(*words, cwd=folder).code == code
    assert state() == before


def test_a_bug_in_a_command_changes_nothing_either(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise GeneratorExit  # as unlikely as anything that passes all handlers of the command line

    monkeypatch.setattr("tests.cli.in_process.main", interrupted)
    before = state()
    with pytest.raises(GeneratorExit):
        run_cli("tools", cwd=folder)
    with pytest.raises(GeneratorExit):
        show_cli("tools", cwd=folder)
    assert state() == before


def test_every_command_loads_the_files_anew(folder: Path) -> None:
    assert [run_cli("call", "count", cwd=folder).out for _ in range(2)] == ["1\n", "1\n"]


def test_a_command_finds_its_own_folder_arguments_and_environment(folder: Path) -> None:
    found = run_cli("call", "around", "--json", cwd=folder, env={"SOME": "thing"}).json["structuredContent"]["result"]
    assert found == [str(folder), "toolcrib", "HOME", "SOME"]


async def test_a_coroutine_gets_an_error_that_says_to_start_a_process(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="run_process"):
        run_cli("tools", cwd=folder)
