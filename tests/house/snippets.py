"""Runs the Python snippets of a Markdown file: `python snippets.py FILE [PACKAGE ...]`.

The snippets of one file share one namespace and one event loop, as in a notebook, and may use `await` at the top.
A `text` block right after a snippet is what the snippet must print; `...` in it stands for anything. A snippet that
needs another package names it behind the language (`python mcp`) and runs only if that is among the arguments.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^```(\w*) ?(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    language: str
    needs: str
    body: str
    line: int
    follows: bool
    """Nothing but blank lines lies between this block and the one before it."""


def blocks(text: str) -> Iterator[Block]:
    end = 0
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start(3)) + 1
        yield Block(match[1], match[2], match[3], line, follows=not text[end : match.start()].strip() and end > 0)
        end = match.end()


def looks_like(expected: str, printed: str) -> bool:
    """Whether the two are equal line by line, trailing blanks aside, where `...` matches anything within a line."""
    want, got = ([line.rstrip() for line in text.strip().splitlines()] for text in (expected, printed))
    return len(want) == len(got) and all(
        re.fullmatch(".*".join(map(re.escape, pattern.split("..."))), line)
        for pattern, line in zip(want, got, strict=True)
    )


def run(path: Path, *packages: str) -> int:
    """Run the snippets of the file that can run; gives back how many there were."""
    found = list(blocks(path.read_text()))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    with asyncio.Runner() as runner:
        for block, after in zip(found, [*found[1:], None], strict=True):
            if block.language != "python" or block.needs not in ("", *packages):
                continue
            count += 1
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                _execute(block, path, namespace, runner)
            if after is not None and after.language == "text" and after.follows:
                assert looks_like(after.body, printed.getvalue()), (
                    f"{path}:{after.line}: expected\n{after.body}\nbut the snippet printed\n{printed.getvalue()}"
                )
    return count


def _execute(block: Block, path: Path, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    # Blank lines in front, so that a traceback names the line of the Markdown file.
    source = "\n" * (block.line - 1) + block.body
    code = compile(source, str(path), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    outcome = eval(code, namespace)
    if inspect.iscoroutine(outcome):
        runner.run(outcome)


if __name__ == "__main__":
    print(f"{run(Path(sys.argv[1]), *sys.argv[2:])} snippets ran")
