"""Validation against JSON schemas that the user of the library provides."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any, Final, NoReturn

import jsonschema_rs

from ...errors import ConfigError
from ...protocol.sanitize import one_line
from ...types import Wire

_MAX_PROBLEMS: Final = 10


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
