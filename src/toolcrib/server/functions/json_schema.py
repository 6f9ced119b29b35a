"""Values against JSON schemas that somebody wrote by hand."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any, Final, NoReturn

import jsonschema_rs

from ...errors import ConfigError
from ...protocol.sanitize import one_line
from ...types import Wire

_TOLD: Final = 10


class Checker:
    """One schema, compiled. It fetches nothing, and its patterns take linear time."""

    __slots__ = ("_validator",)

    def __init__(self, schema: Any, key: str) -> None:
        """`key` is the option that the schema came by; raises `ConfigError` if it is no schema."""
        if not isinstance(schema, dict):
            raise ConfigError(f"{key} must be a JSON schema: expected an object, not {type(schema).__name__}", key=key)
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, retriever=_refuse, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, TypeError) as exc:
            reason = getattr(exc, "message", None) or str(exc)
            raise ConfigError(f"{key} is no JSON schema that can be used: {one_line(reason)}", key=key) from None

    def problems(self, value: Any) -> list[str]:
        """What is wrong with a value, the first ten of it; empty if nothing is."""
        try:
            if self._validator.is_valid(value):
                return []
            return [_problem(error) for error in islice(self._validator.iter_errors(value), _TOLD)]
        except ValueError as exc:  # what JSON cannot say, or nested beyond measure
            return [one_line(str(exc))]


def _refuse(uri: str) -> NoReturn:  # noqa: ARG001  # as the validator calls it
    raise ValueError("nothing is fetched")


def _problem(error: jsonschema_rs.ValidationError) -> str:
    place = one_line(".".join(map(str, error.instance_path)), 60)
    message = one_line(error.message)
    return f"{place}: {message}" if place else message


def object_schema(schema: Any, key: str) -> Wire:
    """A copy of a schema for an object; raises `ConfigError` if it is for something else."""
    if not isinstance(schema, dict) or schema.get("type", "object") != "object":
        raise ConfigError(f'{key} must be a JSON schema of "type": "object"', key=key, expected='"type": "object"')
    return {"type": "object", **copy.deepcopy(schema)}
