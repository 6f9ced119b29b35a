"""`toolcrib/__init__.py` lists the public names twice, once for type checkers: both lists must be equal."""

from __future__ import annotations

import ast
from pathlib import Path

import toolcrib


def test_type_checkers_see_the_names_that_programs_see() -> None:
    tree = ast.parse(Path(toolcrib.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    checked = {
        alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    loaded = {**toolcrib._HOME, **dict.fromkeys(toolcrib._MODULES, "")}
    assert checked == loaded
    assert set(toolcrib.__all__) == {*loaded, "__version__"}
