"""Validation of values against JSON schemas: those of the library's user, and, within limits, those of servers."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn

import jsonschema_rs

from .._util.schema_document import SchemaDocument, subschemas
from ..errors import ConfigError
from ..protocol.sanitize import one_line
from ..types import Wire

_MAX_PROBLEMS: Final = 10
MAX_EXPANDED_NODES: Final = 10_000
"""Nodes of a server's schema, with all references followed, up to which values are validated against it."""
MAX_SCHEMA_DEPTH: Final = 200
"""Levels of nested subschemas and references of a server's schema up to which values are validated against it."""


class Checker:
    """A compiled schema. It never fetches references, and its patterns match in linear time."""

    __slots__ = ("_validator",)

    def __init__(self, schema: Any, key: str) -> None:
        """Compile the schema given as the option `key`; raises `ConfigError` if it is invalid."""
        if not isinstance(schema, dict):
            raise ConfigError(f"{key}: expected a JSON schema (an object), got {type(schema).__name__}", key=key)
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, retriever=_refuse, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as exc:
            reason = getattr(exc, "message", None) or str(exc)
            raise ConfigError(f"{key}: invalid JSON schema: {one_line(reason)}", key=key) from None

    def problems(self, value: Any) -> list[str]:
        """Return the first ten problems of a value; empty if it is valid."""
        try:
            if self._validator.is_valid(value):
                return []
            return [_problem(error) for error in islice(self._validator.iter_errors(value), _MAX_PROBLEMS)]
        except ValueError as exc:  # a value without a JSON form, or nested too deeply
            return [one_line(str(exc))]


class ArgumentValidator:
    """Validates arguments against the schema of a tool, which a server supplied.

    The work of a validator can be exponential in the size of the schema: ten levels of `anyOf` with four references
    each take more than a minute. A schema that is too large when its references are followed, or that is not valid, is
    not enforced; `reason` says why. The server then decides about the arguments.
    """

    __slots__ = ("_branches", "_checker", "reason")

    def __init__(self, schema: Any) -> None:
        self.reason: str | None = None
        """Why the schema is not enforced; None if it is."""
        self._checker: Checker | None = None
        size = _measure(schema)
        self._branches = size.recursive_references
        if size.nodes > MAX_EXPANDED_NODES:
            self.reason = f"the schema has more than {MAX_EXPANDED_NODES:,} nodes with its references followed"
            return
        try:
            self._checker = Checker(schema, "inputSchema")
        except ConfigError as exc:
            self.reason = exc.message

    def problems(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the first ten problems of the arguments; empty if they are valid, or the schema is not enforced."""
        if self._checker is None:
            return []
        if self._branches > 1 and self._branches ** _depth(arguments) > MAX_EXPANDED_NODES:
            return []  # each level of the value multiplies the work
        return self._checker.problems(arguments)


class _Size(NamedTuple):
    """The size of a schema: nodes with references followed, and references from a schema to one that contains it."""

    nodes: int
    recursive_references: int


def _measure(schema: Any) -> _Size:
    document = SchemaDocument(schema)
    sizes: dict[int, int] = {}
    open_schemas: set[int] = set()
    recursive = 0

    def measure(part: Any, depth: int) -> int:
        nonlocal recursive
        if not isinstance(part, Mapping):
            return 1
        if depth > MAX_SCHEMA_DEPTH:
            return MAX_EXPANDED_NODES + 1
        key = id(part)
        if key in open_schemas:
            recursive += 1
            return 1
        if key not in sizes:
            open_schemas.add(key)
            nodes = 1
            inner = [each for _, _, each in subschemas(part)]
            if "$ref" in part:
                inner.append(document.resolve(part["$ref"]))
            for each in inner:
                nodes += measure(each, depth + 1)
                if nodes > MAX_EXPANDED_NODES:
                    break
            open_schemas.discard(key)
            sizes[key] = nodes
        return sizes[key]

    return _Size(measure(schema, 0), recursive)


def _depth(value: Any) -> int:
    """Return the number of nested levels of a JSON value."""
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, level = waiting.pop()
        deepest = max(deepest, level)
        inner = each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
        waiting += [(part, level + 1) for part in inner]
    return deepest


def _refuse(uri: str) -> NoReturn:  # noqa: ARG001  # as the validator calls it
    raise ValueError("references to other documents are not fetched")


def _problem(error: jsonschema_rs.ValidationError) -> str:
    place = one_line(".".join(map(str, error.instance_path)), 60)
    message = one_line(error.message)
    return f"{place}: {message}" if place else message


def object_schema(schema: Any, key: str) -> Wire:
    """Return a copy of a schema of `"type": "object"`; raises `ConfigError` for any other schema."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise ConfigError(f'{key}: expected a JSON schema of "type": "object"', key=key, expected='"type": "object"')
    return {"type": "object", **copy.deepcopy(schema)}
