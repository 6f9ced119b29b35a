"""The JSON arguments of a function: their schema and their validation. Both are built once, at decoration."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import AliasChoices, AliasPath, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticSerializationError, to_json, to_jsonable_python

from ..._util.suggest import suggest
from ...errors import UsageError
from ...protocol.sanitize import one_line
from ...types import Wire
from . import type_hints

_MAX_PROBLEMS: Final = 10
"""Problems that an error lists; a model can correct those and call again."""
_MAX_LISTED: Final = 1000
"""Above this number of problems only their number is reported: listing them would take seconds."""
_MAX_SHOWN: Final = 60
# No parameter can have this name; while the schema is built it represents the arguments that `**kwargs` takes.
_OTHERS: Final = "**"


class BadArguments(Exception):
    """The arguments are invalid. The message names each one and what was expected, on one line, for a model to read."""

    @classmethod
    def from_problems(cls, function: str, problems: Iterable[str], count: int) -> BadArguments:
        """Make the error from the first problems; `count` is the number of all."""
        shown = [problem for problem, _ in zip(problems, range(_MAX_PROBLEMS), strict=False)]
        more = f"; and {count - len(shown)} more" if count > len(shown) else ""
        return cls(f"Invalid arguments for {function}: {'; '.join(shown)}{more}")


class Arguments:
    """The schema and the validator of a function's JSON arguments."""

    __slots__ = ("_keys", "_name", "_others", "_validator", "schema")

    def __init__(self, name: str, parameters: Mapping[str, inspect.Parameter], texts: Mapping[str, str]) -> None:
        """Build the schema and the validator. `texts` describes parameters whose annotation has no description.

        Raises `UsageError` if pydantic cannot use an annotation.
        """
        others = next((p for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
        named = {key: _Argument(name, p) for key, p in parameters.items() if p is not others}
        rest = Any if others is None else others.annotation
        try:
            adapter, schema = _describe(named, others is not None, rest)
        except Exception:  # noqa: BLE001  # the parameters are then tried one by one
            for key, argument in named.items():
                argument.annotation = _make_describable(name, key, argument.annotation)
            rest = _make_describable(name, _OTHERS, rest)
            adapter, schema = _describe(named, others is not None, rest)
        self._name = name
        self._keys = frozenset(schema["properties"]).union(*(argument.aliases for argument in named.values()))
        self._validator = adapter.validator
        self._others: TypeAdapter[dict[str, Any]] | None = None
        if others is not None:
            self._others = TypeAdapter(dict[str, rest])  # type: ignore[valid-type]
        self.schema = _finish_schema(schema, named, texts)

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments of a call; raises `BadArguments`."""
        try:
            bound: dict[str, Any] = self._validator.validate_python(arguments)
        except ValidationError as exc:
            if exc.error_count() > _MAX_LISTED:  # a second validation would take as long again
                raise self._complaint(arguments, exc) from None
            bound = self._bind_as_json(arguments, exc)
        if not arguments.keys() <= self._keys:
            bound.update(self._bind_others({key: arguments[key] for key in arguments if key not in self._keys}))
        return bound

    def _bind_others(self, unknown: dict[str, Any]) -> dict[str, Any]:
        if self._others is None:
            raise BadArguments.from_problems(self._name, map(self._unknown, unknown), len(unknown))
        try:
            return self._others.validate_python(unknown)
        except ValidationError as exc:
            raise self._complaint(unknown, exc) from None

    def _bind_as_json(self, arguments: Mapping[str, Any], failure: ValidationError) -> dict[str, Any]:
        """Validate again, in pydantic's JSON mode: a strict type accepts a date or a tuple only there."""
        try:
            bound: dict[str, Any] = self._validator.validate_json(to_json(arguments))
        except ValidationError as exc:
            # The JSON parser rejects very long numbers, which says nothing about the arguments.
            unread = exc.error_count() == 1 and exc.errors(include_url=False)[0]["type"] == "json_invalid"
            failure = failure if unread else exc
        except PydanticSerializationError:
            pass  # a value has no JSON form: the first failure counts
        else:
            return bound
        raise self._complaint(arguments, failure) from None

    def _complaint(self, arguments: Mapping[str, Any], failure: ValidationError) -> BadArguments:
        count = failure.error_count()
        if count > _MAX_LISTED:
            places = [str(key) for key, value in arguments.items() if isinstance(value, list | tuple | dict)]
            return BadArguments.from_problems(self._name, [f"{', '.join(places)}: {count} values do not fit"], 1)
        problems = map(self._problem, failure.errors(include_url=False, include_context=False))
        if self._others is not None or not isinstance(arguments, Mapping):
            return BadArguments.from_problems(self._name, problems, count)
        # Lazily, only as many as the error lists: searching for similar names takes time.
        unknown = [key for key in arguments if key not in self._keys]
        every = itertools.chain(problems, map(self._unknown, unknown))
        return BadArguments.from_problems(self._name, every, count + len(unknown))

    def _unknown(self, key: Any) -> str:
        place = one_line(str(key), _MAX_SHOWN)
        return f"{place}: unknown argument{suggest(place, self._keys, separator=', ')}"

    def _problem(self, error: ErrorDetails) -> str:
        place = one_line(".".join(map(str, error["loc"])), _MAX_SHOWN)
        prefix = f"{place}: " if place else ""
        if error["type"] == "missing":
            return f"{prefix}missing"
        return f"{prefix}{one_line(error['msg'])} (got {_shown(error['input'])})"


def _shown(value: Any) -> str:
    """Return a short form of a value for a message; only values whose `repr` is cheap and safe are written out."""
    if isinstance(value, str):
        return repr(one_line(value, _MAX_SHOWN) + ("..." if len(value) > _MAX_SHOWN else ""))
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and value.bit_length() < 200):
        return repr(value)
    return "an object" if isinstance(value, dict) else "an array" if isinstance(value, list) else type(value).__name__


class _Argument:
    """A parameter as a field of the arguments."""

    __slots__ = ("aliases", "annotation", "default", "optional", "required")

    def __init__(self, function: str, parameter: inspect.Parameter) -> None:
        annotation, self.default = parameter.annotation, parameter.default
        if isinstance(self.default, FieldInfo):
            annotation, self.default = Annotated[annotation, self.default], parameter.empty
        try:
            info = FieldInfo.from_annotation(annotation)
        except Exception as exc:
            raise UsageError(f"{function}: invalid annotation of {parameter.name}: {exc}") from exc
        self.optional = type(None) in type_hints.alternatives(info.annotation)
        self.required = self.default is parameter.empty and info.is_required()
        if self.required and self.optional:
            annotation, self.required = Annotated[annotation, Field(default=None)], False
        self.annotation: Any = annotation
        self.aliases = _aliases(info.validation_alias or info.alias)


def _aliases(alias: Any) -> list[str]:
    """Return the names that an alias has on the wire."""
    if isinstance(alias, AliasChoices | AliasPath):
        paths = alias.convert_to_aliases()
        return [str(path[0] if isinstance(path, list) else path) for path in paths]
    return []


def _describe(named: Mapping[str, _Argument], others: bool, rest: Any) -> tuple[TypeAdapter[Any], Wire]:
    fields = {
        key: type_hints.mark_required(argument.annotation, required=argument.required)
        for key, argument in named.items()
    }
    adapter, schema = type_hints.describe(type_hints.typed_dict("Arguments", fields), "validation")
    if others:
        # Temporarily one of the properties, so that the definitions of its type go into the same `$defs`.
        _, schema = type_hints.describe(type_hints.typed_dict("Arguments", {**fields, _OTHERS: rest}), "validation")
        schema["additionalProperties"] = schema["properties"].pop(_OTHERS) or True
        schema["required"].remove(_OTHERS)
    return adapter, schema


def _make_describable(function: str, name: str, annotation: Any) -> Any:
    try:
        return type_hints.make_describable(annotation)
    except Exception as exc:
        raise UsageError(f"{function}: cannot make a schema for {name}: {exc}") from exc


def _finish_schema(schema: Wire, named: Mapping[str, _Argument], texts: Mapping[str, str]) -> Wire:
    """Return the schema as it is listed: with descriptions and defaults, and without redundant nulls."""
    properties = schema["properties"]
    # The properties are in the order of the parameters; their keys are the names on the wire.
    for key, (name, argument) in zip(properties, named.items(), strict=True):
        shown = properties[key]
        if argument.optional:
            shown = properties[key] = _without_null(shown)
        if name in texts:
            shown.setdefault("description", texts[name])
        default = _jsonable(argument.default)
        if default is not None:
            shown["default"] = default
        elif shown.get("default", ...) is None:
            del shown["default"]
    required = {"required": schema["required"]} if schema.get("required") else {}
    rest = {key: value for key, value in schema.items() if key not in ("type", "properties", "required")}
    return {"type": "object", "properties": properties, **required, **rest}


def _without_null(shown: Wire) -> Wire:
    """Return the schema of T for `Optional[T]`: `required` says that the argument may be omitted."""
    members = [member for member in shown.get("anyOf", ()) if member != {"type": "null"}]
    if not members:
        return shown
    others = {key: value for key, value in shown.items() if key != "anyOf"}
    return {**members[0], **others} if len(members) == 1 else {"anyOf": members, **others}


def _jsonable(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return None
    try:
        return to_jsonable_python(default, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError):
        return None  # the default has no JSON form; the function applies it all the same
