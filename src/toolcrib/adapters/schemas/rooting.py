"""The root of a schema: an object, since the arguments of a tool are one."""

from __future__ import annotations

from typing import Final

from .compiled import REPLACED_BY_OBJECT, LossList
from .merging import ANNOTATIONS, Node, is_nothing, merge, types_in
from .normalizing import NormalSchema

_BRANCHES: Final = ("anyOf", "oneOf")
_WRAPPERS: Final = ("input", "arguments")


def object_root(normal: NormalSchema, losses: LossList) -> Node:
    """Return the root in normal form as an object; what is not about objects is left out."""
    root = dict(normal.root)
    types = types_in(root)
    if "$ref" in root or (types and "object" not in types):
        losses.add("", "$ref" if "$ref" in root else "type", REPLACED_BY_OBJECT)
        root = {key: value for key, value in root.items() if key in ANNOTATIONS}
    for word in _BRANCHES:
        if word in root:
            fitting = [branch for branch in root[word] if "object" in (types_in(branch) or ("object",))]
            merged = merge({key: root[key] for key in root if key != word}, fitting[0]) if len(fitting) == 1 else None
            if merged is not None and not is_nothing(merged):
                root = dict(merged)
            elif fitting:
                root[word] = fitting
            else:
                losses.add("", word, REPLACED_BY_OBJECT)
                del root[word]
    return {**root, "type": "object"}


def wrapper_of(root: Node) -> str | None:
    """Return the name of the property that the root has to be wrapped in; None if it need not be.

    A root whose branches have properties of their own can only be expressed below the root.
    """
    own = root.get("properties", {}).keys()
    names: set[str] = set()
    for word in _BRANCHES:
        for branch in root.get(word, ()):
            names |= _names(branch)
    if not names - own:
        return None
    taken = names | own
    name = next((each for each in _WRAPPERS if each not in taken), _WRAPPERS[0])
    while name in taken:
        name += "_"
    return name


def _names(branch: Node) -> set[str]:
    """Return the names of the properties of a branch, and of its own branches."""
    if "$ref" in branch:
        return {"$ref"}
    names = set(branch.get("properties", ()))
    for word in _BRANCHES:
        for inner in branch.get(word, ()):
            names |= _names(inner)
    return names
