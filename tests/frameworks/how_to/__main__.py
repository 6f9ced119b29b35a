"""Runs a snippet of docs/how-to/any-framework.md with a scripted model: `python -m tests.frameworks.how_to NAME`.

It runs in the environment of the framework, where the modules beside this one are imported. Each defines `source`, the
kind of hub that the snippet is shown with, and `run(snippet, hub, calls)`, which gives an agent the tools of the
snippet and returns the names that the model was offered and what it saw.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from pathlib import Path
from typing import Any

import toolcrib as tc
from tests.house import snippets
from toolcrib import sync

PAGE = Path(__file__).parents[3] / "docs/how-to/any-framework.md"
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("mcp__lab__add", {"a": 2, "b": 3}),
    ("mcp__lab__greet", {"name": "Ada", "title": None}),
    ("mcp__lab__fail", {"reason": "the disk is full"}),
]


def load_snippet(name: str) -> dict[str, Any]:
    """Run the block of the page that needs this framework, and return its names."""
    (block,) = [block for block in snippets.blocks(PAGE.read_text()) if block.needs == name]
    names: dict[str, Any] = {"__name__": "snippet"}
    exec(compile("\n" * (block.line - 1) + block.body, str(PAGE), "exec", dont_inherit=True), names)
    return names


def make_server() -> tc.ToolServer:
    server = tc.ToolServer("lab")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool
    def greet(name: str, title: str = "Dr.") -> str:
        """Greet by name."""
        return f"Hello, {title} {name}"

    @server.tool
    def fail(reason: str) -> str:
        """Fail."""
        raise tc.ToolFailed(reason)

    return server


def check(offered: list[str], answers: list[str]) -> None:
    """Assert that the model was offered the tools, and saw the results and the error."""
    for (name, _), shown in zip(CALLS, sorted(offered, key=[name for name, _ in CALLS].index), strict=True):
        assert shown == name, offered
    total, greeting, failure = answers
    assert "5" in total, answers
    assert "Hello, Dr. Ada" in greeting, answers
    assert "the disk is full" in failure, answers


async def run_async(framework: Any, snippet: dict[str, Any]) -> None:
    async with tc.Hub({"lab": make_server()}) as hub:
        check(*await framework.run(snippet, hub, CALLS))


def main(name: str) -> None:
    framework = importlib.import_module(f"tests.frameworks.how_to.{name}")
    snippet = load_snippet(name)
    if framework.source == "async":
        asyncio.run(run_async(framework, snippet))
        return
    with sync.Hub({"lab": make_server()}) as hub:
        check(*framework.run(snippet, hub, CALLS))


if __name__ == "__main__":
    main(sys.argv[1])
    print("ok")
