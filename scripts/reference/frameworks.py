"""docs/reference/frameworks.md: the agent frameworks that the adapters were tested with, and what each can do.

The versions are those of tests/frameworks/locks, the abilities those of the drivers in tests/frameworks/drivers, which
the tests rely on. Drivers import their frameworks, so they are read, not imported.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

from .markdown import code, document, table

TESTS: Final = Path(__file__).parents[2] / "tests/frameworks"
ADAPTERS: Final = TESTS.parents[1] / "src/toolcrib/adapters"
TITLES: Final = {
    "strands": "Strands",
    "crewai": "crewAI",
    "pydantic_ai": "Pydantic AI",
    "langchain": "LangChain, LangGraph",
    "openai_agents": "OpenAI Agents SDK",
    "claude_agent": "Claude Agent SDK",
    "fastmcp": "FastMCP",
    "adk": "Google ADK",
    "agent_framework": "Microsoft Agent Framework",
    "llama_index": "LlamaIndex",
    "agno": "Agno",
    "haystack": "Haystack",
    "smolagents": "smolagents",
    "autogen": "AutoGen",
    "dspy": "DSPy",
    "ag2": "ag2",
    "semantic_kernel": "Semantic Kernel",
}
"""The environments that are frameworks, in the order of the page."""
ABILITIES: Final = {
    "images": "images",
    "structured": "structured data",
    "error-flag": "errors",
    "progress": "progress",
    "cancel": "cancellation",
    "live": "live tools",
    "approval": "approval",
}


ARRIVES: Final = """
## What arrives

A dash means that the framework, or its adapter, has no place for it. Images and structured data then arrive as text,
and errors as the text of a result; progress is not reported, a cancelled run does not cancel the call, tools that are
added or removed during a run are not noticed, and a call that needs approval is denied.
"""
MEANING: Final = """
- images: the model sees an image, not a description of it.
- structured data: the framework gets it as data.
- errors: the framework, or the model, gets an error marked as one.
- progress: the framework reports it, by an event or a callback.
- cancellation: a cancelled run cancels the call on the server.
- live tools: the adapter has a form that notices tools that are added or removed while the agent runs.
- approval: the framework asks before a call, if the hub has `approve="caller"`.
"""
VERSIONS: Final = """
## Versions

The tests ran with these versions, the newest that could be installed with their dependencies. Toolcrib has no upper
bound for any of them. Those without an adapter use `Toolbox`: [any other framework](../how-to/any-framework.md).
"""


def page() -> str:
    """Return the page."""
    what = table(("framework", *ABILITIES.values()), abilities())
    link = "The code is in [agent frameworks](../how-to/agent-frameworks.md)."
    versions_table = table(("framework", "adapter", "packages"), versions())
    return document("Agent frameworks", link, ARRIVES, what, MEANING, VERSIONS, versions_table)


def abilities() -> list[tuple[str, ...]]:
    """Return a row for each framework with an adapter."""
    rows = []
    for name, title in TITLES.items():
        driver = TESTS / "drivers" / f"{name}.py"
        if driver.exists():
            has = read_abilities(driver)
            rows.append((title, *("yes" if ability in has else "-" for ability in ABILITIES)))
    return rows


def read_abilities(driver: Path) -> frozenset[str]:
    """Return the abilities that a driver declares."""
    for node in ast.walk(ast.parse(driver.read_text())):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "abilities" for target in targets):
            return frozenset(
                leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant) and leaf.value in ABILITIES
            )
    raise ValueError(f"{driver.name}: expected a class with `abilities`")


def versions() -> list[tuple[str, ...]]:
    """Return a row for each framework that is tested."""
    lines = (TESTS / "packages.txt").read_text().splitlines()
    packages = {name: rest for name, *rest in (line.split() for line in lines if not line.startswith("#"))}
    rows = []
    for name, title in TITLES.items():
        lock = (TESTS / "locks" / f"{name}.txt").read_text()
        locked = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", lock, re.MULTILINE))
        adapter = code(f"toolcrib.adapters.{name}") if (ADAPTERS / f"{name}.py").exists() else ""
        rows.append((title, adapter, ", ".join(f"{code(package)} {locked[package]}" for package in packages[name])))
    return rows
