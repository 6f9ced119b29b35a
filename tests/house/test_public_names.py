"""Packages that load their names late list them twice, once for type checkers: both lists must be equal."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import ModuleType

import pytest

import toolcrib
import toolcrib.provider


def names_for_type_checkers(package: ModuleType) -> dict[str, str]:
    """Return the names that are imported under TYPE_CHECKING, with their modules, relative as written."""
    tree = ast.parse(Path(package.__file__ or "").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    return {
        alias.asname: "." * node.level + (node.module or "")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname is not None
    }


def test_type_checkers_see_the_names_that_programs_see() -> None:
    loaded = {**toolcrib._HOME, **dict.fromkeys(toolcrib._MODULES, "")}
    assert names_for_type_checkers(toolcrib) == {name: f".{module}" for name, module in loaded.items()}
    assert set(toolcrib.__all__) == {*loaded, "__version__"}


def test_type_checkers_see_the_names_of_the_provider() -> None:
    assert set(names_for_type_checkers(toolcrib.provider)) == set(toolcrib.provider.__all__)
    assert set(toolcrib.provider.__all__) <= set(dir(toolcrib.provider))
    with pytest.raises(AttributeError, match="no_such_name"):
        toolcrib.provider.no_such_name  # noqa: B018 - looking it up is the test


def test_every_name_of_the_provider_has_a_docstring() -> None:
    for name in toolcrib.provider.__all__:
        kind = getattr(toolcrib.provider, name)
        assert kind.__doc__ and not kind.__doc__.startswith(f"{name}("), name
        methods = {key: value for key, value in vars(kind).items() if inspect.isfunction(value) and key[0] != "_"}
        assert [key for key, value in methods.items() if not value.__doc__] == [], name
