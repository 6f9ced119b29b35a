"""Shared by the reference pages: inspects code and writes Markdown."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, is_typeddict

GENERATED = "<!-- Generated from the code by scripts/docs. Do not edit: change the code and run scripts/docs. -->"
WIDTH = 96
"""Longer code lines do not fit on a page of GitHub."""


def document(title: str, *parts: str) -> str:
    """Return a page with its title, the note that it is generated, and its parts."""
    return "\n\n".join((f"# {title}", GENERATED, *(part.strip() for part in parts if part.strip()))) + "\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table, or an empty text without rows."""
    lines = ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    return "\n".join(("| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads), *lines)) if lines else ""


def cell(value: Any) -> str:
    """Return a value as the text of a cell: on one line, with bars escaped."""
    return re.sub(r"\s+", " ", str(value)).strip().replace("|", r"\|")


def code(text: Any) -> str:
    """Return text as inline code; an empty text stays empty."""
    return f"`{text}`" if str(text) else ""


def codes(names: Iterable[Any]) -> str:
    """Return several names as inline code, separated by commas."""
    return ", ".join(code(name) for name in names)


def doc(thing: Any) -> str:
    """Return the docstring of `thing`, or an empty text."""
    return inspect.getdoc(thing) or ""


def signature(name: str, function: Any) -> str:
    """Return the signature of a function or class, on one line if it fits, otherwise one line per parameter."""
    # A `__new__` that only checks its arguments would hide the parameters of `__init__`.
    found = inspect.signature(function.__init__ if {"__init__", "__new__"} <= vars(function).keys() else function)
    public = [p for p in found.parameters.values() if p.name != "self" and not p.name.startswith("_")]
    given = [p.replace(annotation=_Bare.of(p.annotation)) for p in public]
    gives = found.empty if inspect.isclass(function) else _Bare.of(found.return_annotation)
    kind = "" if inspect.isclass(function) else "async def " if inspect.iscoroutinefunction(function) else "def "
    return _wrapped(f"{kind}{name}{found.replace(parameters=given, return_annotation=gives)}")


def parsed_signature(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> str:
    """Return the signature of a function that was parsed and not imported."""
    args = function.args
    given = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(given) - len(args.defaults)) + args.defaults
    kinds = [inspect.Parameter.POSITIONAL_ONLY] * len(args.posonlyargs)
    kinds += [inspect.Parameter.POSITIONAL_OR_KEYWORD] * len(args.args)
    found = [*zip(given, kinds, defaults, strict=True)]
    if args.vararg is not None:
        found.append((args.vararg, inspect.Parameter.VAR_POSITIONAL, None))
    found += [
        (each, inspect.Parameter.KEYWORD_ONLY, default)
        for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg is not None:
        found.append((args.kwarg, inspect.Parameter.VAR_KEYWORD, None))
    parameters = [
        inspect.Parameter(
            each.arg, kind, annotation=_Bare.parsed(each.annotation), default=_Bare.parsed(default, quoted=True)
        )
        for each, kind, default in found
        if each.arg != "self"
    ]
    shown = inspect.Signature(parameters, return_annotation=_Bare.parsed(function.returns))
    return _wrapped(f"{'async ' * isinstance(function, ast.AsyncFunctionDef)}def {name}{shown}")


def _wrapped(line: str) -> str:
    if len(line) <= WIDTH:
        return line
    opening, inner, closing = _taken_apart(line)
    return f"{opening}\n" + "".join(f"    {part},\n" for part in inner) + closing


def _taken_apart(line: str) -> tuple[str, list[str], str]:
    """Split `f(a, b) -> c` into the text before the parameters, the parameters, and the text after them."""
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
    """An annotation that is shown without quotes in a signature."""

    def __init__(self, text: str) -> None:
        self.text = text

    @classmethod
    def of(cls, annotation: Any) -> Any:
        return annotation if annotation is inspect.Signature.empty else cls(bare(annotation))

    @classmethod
    def parsed(cls, node: ast.expr | None, *, quoted: bool = False) -> Any:
        if node is None:
            return inspect.Signature.empty
        return cls(ast.unparse(node) if quoted else bare(ast.unparse(node)))

    def __repr__(self) -> str:
        return self.text


def fenced(text: str) -> str:
    """Return a docstring with its indented examples as blocks of code."""
    parts = re.split(r"\n\n((?:(?: {4}.*)?\n)* {4}.*)(?=\n\n|\Z)", text)
    for at in range(1, len(parts), 2):
        parts[at] = f"\n\n```py\n{textwrap.dedent(parts[at])}\n```"
    return "".join(parts)


def bare(annotation: Any) -> str:
    """Return an annotation as the code writes it, without module names."""
    annotation = getattr(annotation, "__forward_arg__", annotation)  # of a named tuple
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text.strip("\"'"))


def attribute_docs(kind: type) -> dict[str, str]:
    """Return the docstrings below the attributes of a class, which Python does not keep."""
    found: dict[str, str] = {}
    for each in reversed([base for base in _bases(kind) if base.__module__.startswith("toolcrib")]):
        tree = _class_definition(each)
        for one, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else None
            if isinstance(text, str):
                found |= dict.fromkeys(_targets(one), inspect.cleandoc(text))
    return found


def _bases(kind: type) -> list[type]:
    """Return a class and its bases. A `TypedDict` does not keep its bases, so they are read from its source."""
    if not is_typeddict(kind):
        return list(kind.__mro__)
    names = [base.id for base in _class_definition(kind).bases if isinstance(base, ast.Name)]
    module = vars(sys.modules[kind.__module__])
    return [kind, *(found for name in names if is_typeddict(module[name]) for found in _bases(module[name]))]


def _class_definition(kind: type) -> ast.ClassDef:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return tree


def _targets(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.Assign(targets=targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
