"""What the pages have in common: how code is looked at, and how it is written down."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

MADE = "<!-- Made from the code by scripts/docs. Do not edit: change the code, and run it again. -->"
WIDTH = 100


def document(title: str, *parts: str) -> str:
    """A page: its title, the note that it is made, and its parts."""
    return "\n\n".join((f"# {title}", MADE, *(part.strip() for part in parts if part.strip()))) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table; empty if there are no rows."""
    lines = ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(("| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), *lines)) if lines else ""


def cell(value: Any) -> str:
    """Anything as a cell: on one line, and no bar in it ends the cell."""
    return re.sub(r"\s+", " ", str(value)).strip().replace("|", r"\|")


def code(text: Any) -> str:
    """A piece of code in a line; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def codes(names: Iterable[Any]) -> str:
    """Several, with commas."""
    return ", ".join(code(name) for name in names)


def doc(thing: Any) -> str:
    """Its docstring."""
    return inspect.getdoc(thing) or ""


def signature(name: str, function: Any) -> str:
    """A function's or class's signature, on one line where it fits, else one line a parameter."""
    found = inspect.signature(function)
    given = [p.replace(annotation=_Bare.of(p.annotation)) for p in found.parameters.values() if p.name != "self"]
    gives = found.empty if inspect.isclass(function) else _Bare.of(found.return_annotation)
    kind = "" if inspect.isclass(function) else "async def " if inspect.iscoroutinefunction(function) else "def "
    line = f"{kind}{name}{found.replace(parameters=given, return_annotation=gives)}"
    if len(line) <= WIDTH:
        return line
    opening, inner, closing = _taken_apart(line)
    return f"{opening}\n" + "".join(f"    {part},\n" for part in inner) + closing


def _taken_apart(line: str) -> tuple[str, list[str], str]:
    """`f(a, b) -> c` as what is before the parameters, the parameters, and what is behind them."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(line):
        depth += (char in "([{") - (char in ")]}")
        if char == "(" and depth == 1 and not start:
            start = begin = at + 1
        elif start and ((char == "," and depth == 1) or (char == ")" and depth == 0)):
            parts.append(line[begin:at].strip())
            begin = at + 1
            if depth == 0:
                return line[:start], parts, line[at:]
    raise ValueError(line)


class _Bare:
    """An annotation that shows without quotes in a signature."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def of(cls, annotation: Any) -> Any:
        return annotation if annotation is inspect.Signature.empty else cls(bare(annotation))

    def __repr__(self) -> str:
        return self.text


def bare(annotation: Any) -> str:
    """An annotation, as short as the code has it."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text.strip("\"'"))


def attribute_docs(kind: type) -> dict[str, str]:
    """The texts that stand below the attributes of a class; Python itself forgets them."""
    found: dict[str, str] = {}
    for each in reversed([base for base in kind.__mro__ if base.__module__.startswith("toolcrib")]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for one, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
            if isinstance(text, str):
                found |= dict.fromkeys(_targets(one), inspect.cleandoc(text))
    return found


def _targets(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
