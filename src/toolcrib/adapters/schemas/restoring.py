"""Turns arguments that fit a compiled schema into arguments for the original schema.

It depends on the schema and the provider alone, not on the variant: nulls of optional properties are removed where the
schema rejects null, wrapped roots are unwrapped, renamed arguments get their names back, and texts that stand for other
values of an enum become these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..._util.schema_document import SchemaDocument
from .merging import Node
from .unions import accepts_null, refuses
from .values import text_of

MAX_ARGUMENT_DEPTH: Final = 128
"""Levels of nested arguments that are restored; messages nested deeper are rejected when they are sent."""

_CONTAINERS: Final = (dict, list)


@dataclass(frozen=True)
class Restorer:
    """Restores the arguments of one tool. It is called with them; the input is not changed.

    The same object is returned if there is nothing to do.
    """

    root: Node = field(hash=False)
    definitions: Mapping[str, Node] = field(hash=False)
    wrapper: str | None
    names: Mapping[str, str] = field(hash=False)
    """The original names of renamed arguments, by their new ones."""
    has_texts: bool
    """Whether texts may stand for other values of an enum."""
    _document: SchemaDocument = field(init=False, repr=False, compare=False)
    _unions: dict[tuple[int, ...], Node] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_document", SchemaDocument({"$defs": self.definitions}))

    def __call__(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments for the original schema."""
        if self.wrapper is not None and len(arguments) == 1:
            inner = arguments.get(self.wrapper)
            if isinstance(inner, Mapping):
                arguments = inner
        if not self._may_change(arguments, 0):
            return arguments
        return self._object(arguments, self.root, 0)

    def _may_change(self, value: Any, depth: int) -> bool:
        """Return whether there may be anything to restore: a quick check without the schema."""
        if depth > MAX_ARGUMENT_DEPTH:
            return False
        if isinstance(value, Mapping):
            if self.names and any(key in self.names for key in value):
                return True
            value = value.values()
        for item in value:
            if item is None or (self.has_texts and isinstance(item, str)):
                return True
            if isinstance(item, _CONTAINERS) and self._may_change(item, depth + 1):
                return True
        return False

    def _value(self, value: Any, node: Node, depth: int) -> Any:
        if depth > MAX_ARGUMENT_DEPTH:
            return value
        if isinstance(value, dict):
            return self._object(value, node, depth)
        if isinstance(value, list):
            return self._list(value, node, depth)
        if self.has_texts and isinstance(value, str):
            return self._text(value, node)
        return value

    # ---- objects -----------------------------------------------------------------------------------------------

    def _object(self, value: Mapping[str, Any], node: Node, depth: int) -> Mapping[str, Any]:
        found = [each for each in self._document.alternatives(node) if each.get("type", "object") == "object"]
        if not found:
            return value
        renamed = self._rename(value, found)
        plain = self._plain_values(renamed, found)
        fitting = [each for each in found if self._fits(plain, each)] or found if len(found) > 1 else found
        restored: dict[str, Any] = {}
        changed = plain is not value
        for key, item in plain.items():
            if item is None:
                if self._is_left_out(key, fitting):
                    changed = True
                    continue
            elif isinstance(item, _CONTAINERS):
                below = self._below(key, fitting)
                if below is not None:
                    new = self._value(item, below, depth + 1)
                    changed = changed or new is not item
                    item = new
            restored[key] = item
        return restored if changed else value

    def _rename(self, value: Mapping[str, Any], found: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        if not self.names or not any(key in self.names for key in value):
            return value
        known: set[str] = set()
        for each in found:
            for part in (each, *_conditional(each)):
                known.update(part.get("properties", ()), part.get("required", ()), part.get("dependentRequired", ()))
        old = {key: self.names[key] for key in value if key in self.names}
        old = {key: name for key, name in old.items() if name in known and name not in value}
        return {old.get(key, key): item for key, item in value.items()} if old else value

    def _plain_values(self, value: Mapping[str, Any], found: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the object with texts replaced by the values of enums that they stand for."""
        if not self.has_texts:
            return value
        changes = {}
        for key, item in value.items():
            if isinstance(item, str):
                below = self._below(key, found)
                new = item if below is None else self._text(item, below)
                if new is not item:
                    changes[key] = new
        return {**value, **changes} if changes else value

    def _fits(self, value: Mapping[str, Any], plain: Mapping[str, Any]) -> bool:
        """Return whether an object may have been written for an alternative."""
        required = plain.get("required", ())
        if any(name not in value for name in required):
            return False
        properties = plain.get("properties", {})
        for key, item in value.items():
            node = properties.get(key)
            if node is None:
                if plain.get("additionalProperties") is False:
                    return False
            elif item is None:
                if key in required and not accepts_null(self._document, node):
                    return False
            elif all(refuses(each, item) for each in self._document.alternatives(node)):
                return False
        return True

    def _is_left_out(self, key: str, fitting: list[Mapping[str, Any]]) -> bool:
        """Return whether a null stands for a property that is left out."""
        named = [each for each in fitting if key in each.get("properties", ())]
        if not named or any(accepts_null(self._document, each["properties"][key]) for each in named):
            return False
        return any(key not in each.get("required", ()) for each in named)

    def _below(self, key: str, found: list[Mapping[str, Any]]) -> Node | None:
        """Return the schema of a property."""
        nodes: list[Any] = []
        for each in found:
            parts = (each, *_conditional(each))
            named = [part["properties"][key] for part in parts if key in part.get("properties", ())]
            if not named:
                named = [*each.get("patternProperties", {}).values(), each.get("additionalProperties")]
            nodes += named
        return self._union([node for node in nodes if isinstance(node, dict)])

    def _union(self, nodes: list[Node]) -> Node | None:
        if len(nodes) < 2:
            return nodes[0] if nodes else None
        key = tuple(dict.fromkeys(map(id, nodes)))
        if len(key) == 1:
            return nodes[0]
        # Its parts are kept alive by the union, so no other schema can get their identities.
        return self._unions.setdefault(key, {"anyOf": nodes})

    # ---- arrays and texts --------------------------------------------------------------------------------------

    def _list(self, value: list[Any], node: Node, depth: int) -> list[Any]:
        found = [each for each in self._document.alternatives(node) if each.get("type", "array") == "array"]
        if not any("items" in each or "prefixItems" in each for each in found):
            return value
        rest = self._union([each["items"] for each in found if "items" in each])
        has_prefix = any("prefixItems" in each for each in found)
        restored = []
        for index, item in enumerate(value):
            below = rest
            if has_prefix:
                below = self._union([each for plain in found if (each := _item_of(plain, index)) is not None])
            restored.append(item if below is None else self._value(item, below, depth + 1))
        return restored if any(new is not old for new, old in zip(restored, value, strict=True)) else value

    def _text(self, value: str, node: Node) -> Any:
        """Return the value of an enum that a text stands for; the text itself if the schema accepts it."""
        found = self._document.alternatives(node)
        if any(not refuses(each, value) for each in found):
            return value
        for each in found:
            for known in [each["const"]] if "const" in each else each.get("enum", ()):
                if known is not None and not isinstance(known, str) and text_of(known) == value:
                    return known
        return value


def _conditional(plain: Mapping[str, Any]) -> list[Node]:
    """Return the schemas that apply to the same object under a condition."""
    parts = [plain[word] for word in ("then", "else") if word in plain]
    return [*parts, *plain.get("dependentSchemas", {}).values()]


def _item_of(plain: Mapping[str, Any], index: int) -> Node | None:
    prefix = plain.get("prefixItems", ())
    found: Node | None = prefix[index] if index < len(prefix) else plain.get("items")
    return found
