"""A person at a shell in a terminal, in a home of their own where `toolcrib` and `python3` are on the PATH."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.kit import PATIENCE, ROOT, Terminal, terminal

WIDTH = 100
PROMPT = "$"
BROKEN = "import sys\nsys.exit('Error: the variable ISSUES_TOKEN is required')\n"
"""A server that does not start."""


class Shell:
    """Types into the shell and reads what it shows."""

    def __init__(self, screen: Terminal) -> None:
        self.screen = screen
        self._typed = 0

    def run(self, command: str, timeout: float = PATIENCE) -> str:
        """Type a command and wait for its end: what it wrote."""
        self.type(command)
        self.until(lambda text: text.endswith(f"\n{PROMPT}"), timeout)
        return self._answer()

    def type(self, command: str) -> None:
        """Type a command and wait until it is on the screen."""
        self._typed += 1
        self.screen.type(command)
        self.screen.until(lambda _: self._commands() == self._typed)

    def clear(self) -> None:
        """An empty screen."""
        self.screen.type("clear")
        self.screen.until(lambda text: text == PROMPT)
        self._typed = 0

    def until(self, wanted: str | Callable[[str], object], timeout: float = PATIENCE) -> str:
        """Wait until what the last command wrote is like this."""
        holds = wanted if callable(wanted) else lambda text: wanted in text
        self.screen.until(lambda _: holds(self._answer() + self._ending()), timeout)
        return self._answer()

    def _commands(self) -> int:
        return sum(line.startswith(f"{PROMPT} ") for line in self.screen.lines)

    def _answer(self) -> str:
        """Return the text below the last command, without the next prompt."""
        lines = self.screen.text.splitlines()
        last = max(at for at, line in enumerate(lines) if line.startswith(f"{PROMPT} "))
        return "\n".join(line for line in lines[last + 1 :] if line != PROMPT).strip("\n")

    def _ending(self) -> str:
        return "\n" + self.screen.text.splitlines()[-1]


def make_home(home: Path) -> Path:
    """A home with the two programs, and a folder in it with two servers: one that is well, and one that is not."""
    programs, project = home / ".local/bin", home / "project"
    programs.mkdir(parents=True)
    project.mkdir()
    for name, command in (
        ("toolcrib", f"{shlex.quote(sys.executable)} -m toolcrib"),
        ("python3", shlex.quote(sys.executable)),
    ):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o700)
    shutil.copy(ROOT / "examples/demo_server.py", project)
    (project / "issues_server.py").write_text(BROKEN)
    return project


@contextmanager
def shell(home: Path, height: int = 60) -> Iterator[Shell]:
    """A shell in the folder of such a home."""
    project = make_home(home)
    path = os.pathsep.join((str(home / ".local/bin"), os.environ["PATH"]))
    env = {"HOME": str(home), "PATH": path, "PS1": f"{PROMPT} ", "BASH_SILENCE_DEPRECATION_WARNING": "1"}
    program = ("bash", "--norc", "--noprofile", "--noediting")
    with terminal(program=program, cwd=project, env=env, width=WIDTH, height=height) as screen:
        screen.until(PROMPT)
        yield Shell(screen)
