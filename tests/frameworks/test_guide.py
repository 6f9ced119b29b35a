"""The page about agent frameworks names functions that exist, and has a section for every adapter."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from tests.house import snippets

ROOT: Final = Path(__file__).parents[2]
ADAPTERS: Final = ROOT / "src/toolcrib/adapters"
TEXT: Final = (ROOT / "docs/how-to/agent-frameworks.md").read_text()
FRAMEWORKS: Final = sorted(
    path.stem
    for path in (ROOT / "tests/frameworks/locks").glob("*.txt")
    if (ADAPTERS / path.name).with_suffix(".py").exists()
)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_adapter_has_a_snippet(framework: str) -> None:
    blocks = [block.body for block in snippets.blocks(TEXT) if block.needs == framework]
    assert len(blocks) == 1
    assert f"from toolcrib.adapters import {framework}\n" in blocks[0]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_function_that_the_page_names_exists(framework: str) -> None:
    tree = ast.parse((ADAPTERS / f"{framework}.py").read_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    named = set(re.findall(rf"(?<![\w.]){framework}\.(\w+)\(", TEXT))
    assert named
    assert named <= defined
