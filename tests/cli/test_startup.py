"""Waiting for a server at a terminal: how long already, what it wrote, and that nothing of it stays on the screen."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.kit import COMMAND, DEMO, run_cli, terminal, write_settings

WAITS = "import sys, time; print('visit https://x.invalid/authorize', file=sys.stderr, flush=True); time.sleep(60)"
IMPATIENT = (
    sys.executable,
    "-c",
    (
        "import sys, toolcrib.cli.startup_progress as startup; startup.DETAIL_AFTER_SECONDS = 0.5\n"
        "import toolcrib.cli.commands.doctor as doctor; doctor.DETAIL_AFTER_SECONDS = 0.5\n"
        "from toolcrib.cli.app import run; sys.exit(run(sys.argv[1:]))"
    ),
)
"""The command line, with a shorter delay before it reports what it waits for."""


@pytest.mark.parametrize("command", ["tools", "servers", "doctor"])
def test_after_a_while_the_time_and_the_last_line_of_the_server_are_shown(tmp_path: Path, command: str) -> None:
    words = (command, "--", sys.executable, "-c", WAITS)
    with terminal(*words, cwd=tmp_path, program=IMPATIENT) as screen:
        screen.until("visit https://x.invalid/authorize")
        screen.until("(1 s)" if command != "doctor" else "0:00:01")
        screen.press("c")
        assert screen.exit_code() == 130
    assert "visit" not in screen.text


def test_a_launcher_that_may_be_downloading_is_reported_as_such_and_secrets_are_not_shown(tmp_path: Path) -> None:
    program = tmp_path / "npx"
    program.write_text('#!/bin/sh\necho "fetching with $SOME_TOKEN" >&2\nsleep 60\n')
    program.chmod(0o700)
    env = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "SOME_TOKEN": "do-not-show-this"}
    write_settings(tmp_path, {"one": {"command": "npx", "args": ["-y", "some-server"], "env": env}})
    with terminal("tools", cwd=tmp_path, program=IMPATIENT) as screen:
        screen.until("one: its package may still be downloading; fetching with <masked>")
        screen.press("c")
        assert screen.exit_code() == 130
    assert b"do-not-show" not in screen.bytes


@pytest.mark.parametrize("redirect", ["", "> out.txt"])
def test_ctrl_c_leaves_no_spinner_though_the_terminal_shows_it(tmp_path: Path, redirect: str) -> None:
    names = {f"some-server-with-a-long-name-{n}": (sys.executable, "-c", WAITS) for n in range(5)}
    write_settings(tmp_path, names)
    program = ("bash", "-c", f"{shlex.join(COMMAND)} tools {redirect}; echo left with $?")
    with terminal(program=program, cwd=tmp_path, width=80) as screen:
        screen.until("starting some")
        screen.press("c")
        screen.exit_code()
    assert "starting" not in screen.text and "some-server" not in screen.text


def test_ctrl_c_leaves_no_progress_bar(tmp_path: Path) -> None:
    with terminal("call", "slow_count", "steps=200", "--", *DEMO, cwd=tmp_path, width=60, echo=True) as screen:
        screen.until("%")
        screen.press("c")
        assert screen.exit_code() == 130
    assert "slow_count" not in screen.text and "%" not in screen.text


@pytest.mark.parametrize("command", ["tools", "servers", "call"])
def test_a_start_that_takes_too_long_is_reported_with_what_the_server_wrote(tmp_path: Path, command: str) -> None:
    words = (command, *(["echo"] if command == "call" else []), "--timeout", "1.5", "--")
    ran = run_cli(*words, sys.executable, "-c", WAITS, cwd=tmp_path)
    assert ran.code == 5
    if command == "servers":  # a line for a program, with the whole message at its end
        assert "visit https://x.invalid/authorize" in ran.out
    else:
        assert ran.err.splitlines()[1] == "  | visit https://x.invalid/authorize"
        assert ran.err.count("visit") == 1
