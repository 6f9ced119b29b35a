"""Runs the snippets of a Markdown file: `python snippets.py FILE [PACKAGE ...]`.

| block | treatment |
| --- | --- |
| `python` | run; all blocks of a file share one namespace and one event loop, and may use top-level `await` |
| `console` | each line that begins with `$ ` is run in a terminal, which must show the lines that follow |
| `text`, right after one of `python` | the expected output of that block |
| any block that begins with a comment with a file name | saved under that name in the current folder |

`...` in an output matches anything within a line, and any number of lines if it is alone in its line. A block that
needs a package or a framework names it after the language (`python mcp`, `python strands`, `console network`) and runs
only if this name is among the arguments. The project's `scripts/` are not run from here; other tests run them.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w*) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"(?:#|//) (\.?\w[\w.-]*\.(?:py|json|toml))\n")
LINES, COLUMNS = 150, 140  # of the terminal; longer lines are folded there as on any
PATIENCE = 60.0  # seconds for a command


@dataclass(frozen=True)
class Block:
    language: str
    needs: str
    body: str
    line: int
    follows: bool
    """Whether only blank lines are between this block and the one before it."""

    @property
    def file_name(self) -> str | None:
        named = FILE_NAME.match(self.body)
        return named[1] if named else None


@dataclass(frozen=True)
class Shown:
    """The output that a document shows, and the real one."""

    line: int
    expected: str
    printed: str

    def check(self, path: Path) -> None:
        assert looks_like(self.expected, self.printed), (
            f"{path}:{self.line}: expected\n{self.expected}\nbut the snippet printed\n{self.printed}"
        )


def blocks(text: str) -> Iterator[Block]:
    end = 0
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start(3)) + 1
        yield Block(match[1], match[2], match[3], line, follows=not text[end : match.start()].strip() and end > 0)
        end = match.end()


def runnable(text: str, *packages: str) -> list[Block]:
    """Return the blocks of a document that run if these packages are installed."""
    return [
        block
        for block in blocks(text)
        if block.needs in ("", *packages)
        and (block.language == "python" or (block.language == "console" and not block.body.startswith("$ scripts/")))
        and block.file_name is None
    ]


def looks_like(expected: str, printed: str) -> bool:
    """Return whether the two are equal line by line, except for trailing blanks, `...` and the widths of columns."""
    pattern = ""
    for line in expected.strip().splitlines():
        any_lines = line.strip() == "..."
        pattern += r"(?:.*\n)*" if any_lines else ".*".join(map(re.escape, _narrow(line).split("..."))) + r"\n"
    got = "".join(_narrow(line) + "\n" for line in printed.strip().splitlines())
    return re.fullmatch(pattern, got) is not None


def _narrow(line: str) -> str:
    """Return a line with two blanks between the columns of a table: their widths depend on times and paths."""
    return re.sub(r"(?<=\S) {2,}", "  ", line.rstrip())


def run(path: Path, *packages: str) -> int:
    """Run the runnable snippets of the file and return their number."""
    text = path.read_text()
    found, wanted = list(blocks(text)), set(runnable(text, *packages))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for block, after in zip(found, [*found[1:], None], strict=True):
            if block.file_name is not None and block.needs in ("", *packages):
                Path(block.file_name).write_text(block.body)
            elif block in wanted and block.language == "console":
                for shown in typed(block):
                    shown.check(path)
            elif block in wanted:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    _execute(block, path, namespace, runner)
                if after is not None and after.language == "text" and after.follows:
                    Shown(after.line, after.body, printed.getvalue()).check(path)
    return len(wanted)


def _execute(block: Block, path: Path, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    # Blank lines in front, so that a traceback names the line of the Markdown file.
    source = "\n" * (block.line - 1) + block.body
    code = compile(source, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    outcome = eval(code, namespace)
    if inspect.iscoroutine(outcome):
        runner.run(outcome)


def typed(block: Block) -> Iterator[Shown]:
    """Run each command of a console block in a terminal; `$?` is the exit code of the command before."""
    code, line = 0, block.line
    for session in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        command, _, expected = session.partition("\n")
        code, printed = at_terminal(f"(exit {code}); {command}")
        yield Shown(line, expected, printed)
        line += session.count("\n")


def at_terminal(command: str) -> tuple[int, str]:
    """Run a shell command in a terminal; return its exit code and the final text of the screen."""
    import pyte  # only where a document has such blocks

    here = os.path.dirname(sys.executable)
    aside = ("XDG_CONFIG_HOME", "COLUMNS", "LINES", "CI")
    env = {name: value for name, value in os.environ.items() if name not in aside}
    env |= {"PATH": f"{here}:{os.environ['PATH']}", "HOME": os.getcwd(), "TERM": "xterm", "NO_COLOR": "1"}
    env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # readers do not have the plugins of these tests
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, COLUMNS))
    process = subprocess.Popen(
        ["bash", "-c", command], stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
    )
    os.close(theirs)
    try:
        screen = pyte.Screen(COLUMNS, LINES)
        pyte.ByteStream(screen).feed(_everything(ours, time.monotonic() + PATIENCE, command))
        return process.wait(PATIENCE), "\n".join(screen.display)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(ours)


def _everything(terminal: int, deadline: float, command: str) -> bytes:
    read = b""
    while True:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{command} did not end; its output so far: {read.decode(errors='replace')}"
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux: the other end was closed
            return read
        if not piece:
            return read
        read += piece


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())  # as at a prompt: files that were saved can be imported
    print(f"{run(Path(sys.argv[1]), *sys.argv[2:])} snippets ran")
