"""Writes a schema in normal form in the language of a target, by the rules of the target.

Longer than 400 lines: one walk over the schema, with a method for each rule, which share its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor
from typing import Any, Final

from ..._util.schema_document import MAX_ALTERNATIVES, SchemaDocument
from .compiled import (
    AMBIGUOUS,
    DROPPED,
    MOVED,
    NOT_ALL_OFFERED,
    RENAMED,
    REPLACED_BY_ANY_OF,
    REPLACED_BY_ANYTHING,
    LossList,
)
from .merging import ANNOTATIONS, Node, is_nothing, types_in
from .normalizing import MAX_LEVELS, MAX_NODES
from .notes import describe_with, note
from .rules import TargetRules
from .unions import accepts_null, are_disjoint, distribute, infer_types, keep_relevant, split_types
from .values import copy_json, escape_pointer, text_of

_REFERENCE: Final = "#/$defs/"
_ROOT_ONLY_WITHOUT: Final = ("enum", "const", "not", "allOf", "anyOf", "oneOf")
_PLAIN_TYPES: Final = ("string", "number", "boolean")
_LOOK_AROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")
_IF_TRUE: Final = frozenset({"uniqueItems", "deprecated", "readOnly", "writeOnly"})
"""Keywords that mean nothing if their value is False."""
_CONDITIONS: Final = frozenset({"if", "not", "allOf", "dependentSchemas", "dependentRequired", "minProperties"})
"""Keywords beside which it matters whether an optional property is present."""
_WITHOUT_NULLS: Final = frozenset(
    {"not", "if", "then", "else", "propertyNames", "contains", "unevaluatedProperties", "unevaluatedItems"}
)
"""Keywords whose subschemas decide about other parts, so that no nulls are added to them."""
_BRANCHES: Final = ("anyOf", "oneOf", "allOf")


class NotStrictError(Exception):
    """A schema cannot be strict."""

    def __init__(self, pointer: str, keyword: str, reason: str) -> None:
        super().__init__(reason)
        self.pointer = pointer
        self.keyword = keyword
        self.reason = reason


class Fitter:
    """Fits one schema to the rules of a target."""

    def __init__(
        self,
        rules: TargetRules,
        document: SchemaDocument,
        definitions: Mapping[str, Node],
        names: Mapping[str, str],
        losses: LossList,
    ) -> None:
        self._rules = rules
        self._document = document
        self._definitions = definitions
        self._names = names
        self._losses = losses
        self._nodes = 0
        self._used: dict[str, None] = {}  # definitions that are referred to
        self._open: list[str] = []  # definitions around the current schema
        self._in_definition = False
        self._optional_levels = 0  # optional properties around the current schema, in the definition
        self._adds_nulls = rules.requires_all or rules.optional_nulls
        self._nulls_added = 0
        self._nulls_accepted = 0
        self._texts_made = 0
        self._strings_accepted = 0

    def fit(self, root: Node, wrapper: str | None) -> dict[str, Any]:
        """Return the schema, with its definitions; raises `NotStrictError`."""
        if wrapper is None:
            fitted = self._schema(self._restrict_root(root), "", 0, is_root=True)
        else:
            inner = self._schema(root, "", 1)
            fitted = {"type": "object", "properties": {wrapper: inner}, "required": [wrapper]}
            fitted["additionalProperties"] = False
            if self._rules.openapi:
                fitted["type"] = "OBJECT"
        definitions: dict[str, Any] = {}
        self._in_definition = True
        while missing := [name for name in self._used if name not in definitions]:
            for name in missing:
                self._open, self._optional_levels = [name], 0
                definitions[name] = self._schema(self._definitions[name], f"/$defs/{escape_pointer(name)}", 0)
        return {**fitted, "$defs": definitions} if definitions else fitted

    def _restrict_root(self, root: Node) -> Node:
        if not self._rules.restricts_root:
            return root
        root = dict(root)
        notes = []
        for keyword in _ROOT_ONLY_WITHOUT:
            if keyword in root:
                notes.append(note(keyword, root.pop(keyword)))
                self._losses.add("", keyword, MOVED)
        if notes:
            root["description"] = describe_with(root.get("description"), notes) or ""
        return root

    # ---- one schema --------------------------------------------------------------------------------------------

    def _schema(self, source: Node, pointer: str, level: int, *, is_root: bool = False) -> dict[str, Any]:
        self._nodes += 1
        if level > 2 * MAX_LEVELS or self._nodes > MAX_NODES:
            self._losses.add(pointer, "", REPLACED_BY_ANYTHING)
            return self._any_value(pointer)
        if "$ref" in source:
            return self._reference(source, pointer, level)
        node = dict(source)
        notes: list[str] = []
        node = self._unite(node, notes, pointer)
        if "$ref" in node:
            return self._reference(node, pointer, level)
        if "anyOf" not in node and "oneOf" not in node:
            node = self._give_type(node, pointer, is_root=is_root)
        self._replace_keywords(node, notes, pointer)
        node = self._split(node)
        self._move_keywords(node, notes, pointer)
        adds_nulls = self._adds_nulls
        self._adds_nulls = adds_nulls and "allOf" not in node
        out = self._with_subschemas(node, pointer, level, is_root=is_root)
        self._adds_nulls = adds_nulls
        text = describe_with(out.get("description"), notes)
        if text is not None:
            out["description"] = text
        return self._to_openapi(out) if self._rules.openapi else out

    def _any_value(self, pointer: str) -> dict[str, Any]:
        """Return a schema for any value."""
        if self._rules.untyped == "keep":
            return {}
        if self._rules.untyped == "refuse":
            raise NotStrictError(pointer, "type", "a schema without a type")
        self._losses.add(pointer, "type", NOT_ALL_OFFERED)
        return {"anyOf": [{"type": name.upper()} for name in _PLAIN_TYPES]}

    # ---- references --------------------------------------------------------------------------------------------

    def _reference(self, source: Node, pointer: str, level: int) -> dict[str, Any]:
        name = source["$ref"].removeprefix(_REFERENCE)
        beside = {key: value for key, value in source.items() if key in ANNOTATIONS and key in self._rules.keywords}
        kept = self._rules.references == "any" or (
            self._rules.references == "optional" and (not self._in_definition or self._optional_levels > 0)
        )
        if kept:
            self._used[name] = None
            reference = {"$ref": f"{_REFERENCE}{name}"}
            if not beside:
                return reference
            return {**beside, "anyOf": [reference]} if self._rules.pure_unions else {**reference, **beside}
        if name in self._open:
            if not self._rules.recursive:
                raise NotStrictError(pointer, "$ref", "a schema that contains itself")
            self._losses.add(pointer, "$ref", REPLACED_BY_ANYTHING)
            return self._any_value(pointer)
        self._open.append(name)
        found = self._schema({**self._definitions[name], **beside}, pointer, level + 1)
        self._open.pop()
        return found

    # ---- unions and types --------------------------------------------------------------------------------------

    def _unite(self, node: Node, notes: list[str], pointer: str) -> Node:
        """Return a schema with at most one union, of the form that the target accepts."""
        keywords = self._rules.keywords
        for word in ("allOf", "oneOf"):
            if word in node and word not in keywords and (word == "allOf" or "anyOf" in node):
                notes.append(note(word, node.pop(word)))
                self._losses.add(pointer, word, MOVED)
        if "oneOf" in node and "oneOf" not in keywords:
            branches = node.pop("oneOf")
            if not are_disjoint(branches):
                self._losses.add(pointer, "oneOf", REPLACED_BY_ANY_OF)
            node["anyOf"] = branches
        if "anyOf" in node and self._rules.pure_unions:
            node, left = distribute(node, "anyOf")
            for keyword in left:
                self._losses.add(pointer, keyword, DROPPED)
            if left or "anyOf" in node:
                return node
            return self._unite(dict(node), notes, pointer)  # one branch is left, which may be a union
        return node

    def _give_type(self, node: Node, pointer: str, *, is_root: bool) -> Node:
        if not self._rules.infers_types:
            return node
        types = types_in(node)
        if not types:
            types = infer_types(node)
            if not types:
                if self._rules.untyped == "keep" or is_root:
                    return node
                return {**node, **_lower(self._any_value(pointer))}
            node["type"] = types[0] if len(types) == 1 else list(types)
        keep_relevant(node, types)
        return node

    def _split(self, node: Node) -> Node:
        """Return a schema with only such lists of types as the target accepts."""
        types = types_in(node)
        if len(types) < 2 or self._rules.type_lists == "any":
            return node
        enum_of_null = self._rules.enum_types is not None and "enum" in node
        if self._rules.type_lists == "null" and len(types) == 2 and "null" in types and not enum_of_null:
            node["type"] = sorted(types, key=lambda name: name == "null")
            return node
        return split_types(node, types)

    # ---- keywords ----------------------------------------------------------------------------------------------

    def _replace_keywords(self, node: Node, notes: list[str], pointer: str) -> None:
        """Write keywords by others that the target accepts, with the same meaning where there is one."""
        keywords = self._rules.keywords
        if "const" in node and "const" not in keywords:
            value = node.pop("const")
            if "enum" not in node or value in node["enum"]:
                node["enum"] = [value]
            else:
                self._losses.add(pointer, "const", DROPPED)
        if "enum" in node and self._rules.enum_types is not None:
            self._make_texts(node, pointer)
        elif "string" in types_in(node) or not types_in(node):
            self._strings_accepted += 1
        if node.get("type") == "integer":
            if "exclusiveMinimum" in node and "exclusiveMinimum" not in keywords and "minimum" in keywords:
                least = floor(node.pop("exclusiveMinimum")) + 1
                node["minimum"] = max(least, node.get("minimum", least))
            if "exclusiveMaximum" in node and "exclusiveMaximum" not in keywords and "maximum" in keywords:
                most = ceil(node.pop("exclusiveMaximum")) - 1
                node["maximum"] = min(most, node.get("maximum", most))
        if "prefixItems" in node and "prefixItems" not in keywords:
            self._replace_tuple(node, pointer)
        if is_nothing(node.get("items", {})) and "not" not in keywords:
            del node["items"]
            if "maxItems" in keywords:
                node["maxItems"] = len(node.get("prefixItems", ()))
            else:
                notes.append("at most 0 items")
                self._losses.add(pointer, "items", MOVED)

    def _make_texts(self, node: Node, pointer: str) -> None:
        """Write the values of an enum as text if the target does not accept them."""
        accepted = self._rules.enum_types or frozenset()
        types = types_in(node)
        values = [value for value in node["enum"] if value is not None]
        has_null = len(values) < len(node["enum"]) and (not types or "null" in types)
        if not values:
            node.pop("enum")
            node["type"] = "null"
            return
        are_texts = all(isinstance(value, str) for value in values)
        are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        node["enum"] = [*values, None] if has_null else values
        if are_texts:
            self._strings_accepted += 1
            return
        if are_numbers and "number" in accepted:
            return
        self._texts_made += 1
        texts = {value: None for value in values if isinstance(value, str)}
        for value in values:
            text = text_of(value)
            if not isinstance(value, str) and text in texts:
                self._losses.add(pointer, "enum", NOT_ALL_OFFERED)
            elif not isinstance(value, str):
                texts[text] = None
        node["enum"] = [*texts, None] if has_null else list(texts)
        node["type"] = ["string", "null"] if has_null else "string"

    def _replace_tuple(self, node: Node, pointer: str) -> None:
        prefix = node.pop("prefixItems")
        items = node.get("items")
        rest = [] if items is None or is_nothing(items) else [items]
        if not rest:
            node["maxItems"] = min(len(prefix), node.get("maxItems", len(prefix)))
        branches = list({text_of(each): each for each in (*prefix, *rest)}.values())
        node["items"] = branches[0] if len(branches) == 1 else {"anyOf": branches}
        if len(branches) > 1 or len(prefix) == 0:
            self._losses.add(pointer, "prefixItems", REPLACED_BY_ANY_OF)

    def _move_keywords(self, node: Node, notes: list[str], pointer: str) -> None:
        """Move keywords that the target does not accept into the description."""
        for keyword in [key for key, value in node.items() if not self._accepts(key, value)]:
            value = node.pop(keyword)
            if keyword in _IF_TRUE and not value:
                continue
            if self._rules.closes and keyword in ("patternProperties", "unevaluatedProperties"):
                if value is False:
                    node["additionalProperties"] = False
                    continue
                raise NotStrictError(pointer, keyword, "an open object")
            if keyword == "title":
                self._losses.add(pointer, keyword, DROPPED)
                continue
            notes.append(note(keyword, value))
            self._losses.add(pointer, keyword, MOVED)

    def _accepts(self, keyword: str, value: Any) -> bool:
        rules = self._rules
        if keyword not in rules.keywords:
            return False
        if keyword == "format":
            return rules.formats is None or value in rules.formats
        if keyword == "minItems":
            return rules.min_items is None or value <= rules.min_items
        if keyword == "pattern":
            return rules.look_around or not any(part in value for part in _LOOK_AROUND)
        return True

    # ---- subschemas --------------------------------------------------------------------------------------------

    def _with_subschemas(self, node: Node, pointer: str, level: int, *, is_root: bool) -> dict[str, Any]:
        out = {
            keyword: self._value(node, keyword, value, pointer, level)
            for keyword, value in node.items()
            if keyword not in ("properties", "required")
        }
        self._add_properties(node, out, pointer, level, is_root=is_root)
        if self._names:
            self._rename_rules(node, out, pointer)
        if self._rules.needs_items and "array" in types_in(node) and "items" not in out:
            out["items"] = self._any_value(f"{pointer}/items")
        elif self._rules.closes and "array" in types_in(node) and "items" not in out:
            raise NotStrictError(pointer, "items", "an array without a type of its items")
        return out

    def _value(self, node: Node, keyword: str, value: Any, pointer: str, level: int) -> Any:
        """Return the value of a keyword with its subschemas fitted."""
        place = f"{pointer}/{keyword}"
        if keyword in _BRANCHES:
            return self._branches(node, keyword, pointer, level)
        if keyword == "prefixItems":
            return [self._schema(each, f"{place}/{index}", level + 1) for index, each in enumerate(value)]
        if keyword in ("items", "additionalProperties") and isinstance(value, dict):
            return self._schema(value, place, level + 1)
        if keyword in _WITHOUT_NULLS and isinstance(value, dict):
            return self._without_nulls(value, place, level + 1)
        if keyword in ("patternProperties", "dependentSchemas"):
            return {
                name: self._without_nulls(each, f"{place}/{escape_pointer(name)}", level + 1)
                for name, each in value.items()
            }
        return copy_json(value)

    def _rename_rules(self, node: Node, out: dict[str, Any], pointer: str) -> None:
        """Use the new names of arguments in keywords that are about names."""
        for keyword in ("dependentRequired", "dependentSchemas"):
            if keyword in out:
                out[keyword] = {self._names.get(name, name): value for name, value in out[keyword].items()}
        for name, names in out.get("dependentRequired", {}).items():
            out["dependentRequired"][name] = self._renamed(names)
        if node.get("properties", {}).keys() & self._names.keys():
            for keyword in ("patternProperties", "propertyNames"):
                if keyword in out:  # it is about the original names
                    self._losses.add(pointer, keyword, DROPPED)
                    del out[keyword]

    def _renamed(self, names: list[str]) -> list[str]:
        return [self._names.get(name, name) for name in names] if self._names else list(names)

    def _without_nulls(self, source: Node, pointer: str, level: int) -> dict[str, Any]:
        """Fit a schema that decides about the meaning of another, without adding nulls to it."""
        before, self._adds_nulls = self._adds_nulls, False
        try:
            return self._schema(source, pointer, level)
        finally:
            self._adds_nulls = before

    def _branches(self, node: Node, word: str, pointer: str, level: int) -> list[dict[str, Any]]:
        before = (self._nulls_added, self._nulls_accepted, self._texts_made, self._strings_accepted)
        sources = node[word]
        is_mixed = not self._rules.pure_unions and ("properties" in node or "required" in node)
        fit = self._without_nulls if is_mixed or word == "allOf" else self._schema
        found = [fit(each, f"{pointer}/{word}/{index}", level + 1) for index, each in enumerate(sources)]
        self._note_ambiguity(node, word, pointer, before)
        return found

    def _note_ambiguity(self, node: Node, word: str, pointer: str, before: tuple[int, int, int, int]) -> None:
        """Add a loss if `restore` cannot always tell which branch a value was written for."""
        nulls, accepted, texts, strings = before
        added = self._nulls_added > nulls
        containers = sum(
            not types_in(each) or not {"object", "array"}.isdisjoint(types_in(each)) for each in node[word]
        )
        if word == "oneOf" and containers > 1 and not are_disjoint(node[word]):
            self._losses.add(pointer, word, AMBIGUOUS)  # a null that is removed may make two branches fit
            return
        if not added and self._texts_made == texts:
            return
        if len(self._document.alternatives({word: node[word]})) >= MAX_ALTERNATIVES:
            self._losses.add(pointer, word, AMBIGUOUS)
            return
        is_null_unclear = added and self._nulls_accepted > accepted
        is_text_unclear = self._texts_made > texts and self._strings_accepted > strings
        if is_text_unclear or (is_null_unclear and not are_disjoint(node[word])):
            self._losses.add(pointer, word, AMBIGUOUS)

    # ---- objects -----------------------------------------------------------------------------------------------

    def _add_properties(self, node: Node, out: dict[str, Any], pointer: str, level: int, *, is_root: bool) -> None:
        rules = self._rules
        is_object = "object" in types_in(node)
        if rules.closes and is_object:
            self._check_closed(node, pointer, is_root=is_root)
            out["additionalProperties"] = False
        required = node.get("required", [])
        if "properties" in node or is_root or (rules.closes and is_object):
            sources = node.get("properties", {})
            needed = set(required)
            with_null = set(sources) - needed - self._without_null(node) if self._adds_nulls else set()
            out["properties"] = {}
            for name, source in sources.items():
                place = f"{pointer}/properties/{escape_pointer(name)}"
                if is_nothing(source) and "not" not in rules.keywords:
                    if not rules.closes:
                        self._losses.add(place, "not", DROPPED)
                    continue
                if name in self._names:
                    self._losses.add(place, "properties", RENAMED)
                out["properties"][self._names.get(name, name)] = self._property(
                    source, place, level, is_optional=name not in needed, with_null=name in with_null
                )
            if rules.requires_all:
                required = list(sources)
        names = self._renamed(required)
        if rules.pure_unions:
            names = [name for name in names if name in out.get("properties", {})]
            if len(names) < len(required) and not rules.closes:
                self._losses.add(pointer, "required", DROPPED)
        if names or (rules.requires_all and is_object):
            out["required"] = names

    def _property(self, source: Node, pointer: str, level: int, *, is_optional: bool, with_null: bool) -> Any:
        self._optional_levels += is_optional
        fitted = self._schema(source, pointer, level + 1)
        self._optional_levels -= is_optional
        if accepts_null(self._document, source):
            self._nulls_accepted += 1
        elif with_null:
            self._nulls_added += 1
            return allow_null(fitted, self._rules)
        return fitted

    def _without_null(self, node: Node) -> set[str]:
        """Return the names of properties that must not be null, because something depends on their presence."""
        if self._rules.requires_all:
            return set()
        if _CONDITIONS & node.keys():
            return set(node.get("properties", ()))
        return _required_in_branches(node)

    def _check_closed(self, node: Node, pointer: str, *, is_root: bool) -> None:
        rest = node.get("additionalProperties", False)
        if rest is not False and not (isinstance(rest, dict) and is_nothing(rest)):
            raise NotStrictError(pointer, "additionalProperties", "an open object")
        properties = node.get("properties", {})
        if not properties and not is_root and "additionalProperties" not in node:
            raise NotStrictError(pointer, "properties", "an open object")
        if not properties.keys() >= set(node.get("required", ())):
            raise NotStrictError(pointer, "required", "a required property without a schema")

    # ---- OpenAPI -----------------------------------------------------------------------------------------------

    def _to_openapi(self, out: dict[str, Any]) -> dict[str, Any]:
        """Replace the type null by `nullable`, and write the type in upper case."""
        if "anyOf" in out:
            branches = [each for each in out["anyOf"] if each.get("type") != "NULL"]
            if len(branches) < len(out["anyOf"]):
                if len(branches) == 1:
                    out.pop("anyOf")
                    out = {**branches[0], **out}
                elif branches:
                    out["anyOf"] = branches
                out["nullable"] = True
        if isinstance(out.get("type"), str):
            out["type"] = out["type"].upper()
        return out


def allow_null(schema: dict[str, Any], rules: TargetRules) -> dict[str, Any]:
    """Return a fitted schema that also accepts null."""
    named = schema.get("type")
    plain = not schema.keys() & {"const", "anyOf", "oneOf", "allOf", "$ref", "not", "if"}
    if named is not None and plain and rules.type_lists != "none":
        schema["type"] = [*([named] if isinstance(named, str) else named), "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        return schema
    if "anyOf" in schema and schema.keys() <= ANNOTATIONS | {"anyOf"}:
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
        return schema
    outer: dict[str, Any] = {key: schema.pop(key) for key in ("title", "description") if key in schema}
    return {**outer, "anyOf": [schema, {"type": "null"}]}


def _required_in_branches(node: Node) -> set[str]:
    """Return the names that the branches of a schema require."""
    names: set[str] = set()
    waiting = [branch for word in ("anyOf", "oneOf") for branch in node.get(word, ())]
    while waiting:
        branch = waiting.pop()
        names.update(branch.get("required", ()))
        names.update(branch.get("properties", ()))
        waiting += [inner for word in _BRANCHES for inner in branch.get(word, ())]
    return names


def _lower(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [{"type": each["type"].lower()} for each in schema["anyOf"]]}
