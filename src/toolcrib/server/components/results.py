"""Converts the return values of functions to results of tools."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Callable
from typing import Any, Final, get_args

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..._util.schema_document import SchemaDocument
from ...errors import ConfigError, UsageError
from ...policy.json_schema import Checker
from ...protocol import jsonrpc
from ...protocol.sanitize import one_line
from ...types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResult,
    UnknownContent,
    Wire,
)
from ...types.tools import WRAPPED
from ..functions import type_hints
from ..json_copy import copied

logger = logging.getLogger("toolcrib.server.tools")

WRAP_MARK: Final = "x-toolcrib-wrap-result"
"""Mark of an output schema whose value is sent as `{"result": value}`, because older revisions allow only objects."""

BLOB_URI: Final = "urn:toolcrib:result"
"""The URI of an embedded resource for bytes that are neither image nor audio: it must have one."""

_BLOCKS: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent)
_BYTES: Final = (bytes, bytearray, memoryview)
_PIECES: Final = (*_BLOCKS, ResourceContents, *_BYTES)
_AS_IT_IS: Final = (*_BLOCKS, ResourceContents, ToolResult)
_WIDE: Final = 1 << 63
# Types without structure, alone or as members of a union.
_SHAPELESS: Final = frozenset({str, None, type(None), Any, object, inspect.Signature.empty})


class BadReturn(Exception):
    """A function returned a value that its annotation does not allow, or that has no JSON form."""


class Output:
    """The structured output of a tool: its schema, and the conversion of values to it."""

    __slots__ = ("_structure", "exact", "schema", "wraps")

    def __init__(self, schema: Wire, structure: Callable[[Any], Any], exact: type | None = None) -> None:
        self.exact = exact
        """A type whose values need no validation or conversion, if there is one."""
        self.wraps = not _is_object(schema)
        self.schema = _wrapped(schema) if self.wraps else {"type": "object", **schema}
        self._structure = structure

    @classmethod
    def of(cls, annotation: Any, structured: bool | None = None) -> Output | None:
        """Return the output for a return annotation; None if it has no structure, or if `structured` is False.

        `structured=True` makes a schema also for a string; raises `ConfigError` if that is not possible.
        """
        if structured is False or not (structured or _has_structure(annotation)):
            return None
        try:
            adapter, schema = type_hints.describe(Any if annotation in _NOTHING else annotation, "serialization")
        except Exception as exc:
            if structured is None and type_hints.is_beyond(exc):
                return None
            raise ConfigError(f"cannot make an output schema for {annotation!r}: {exc}", key="structured") from exc
        check, write = adapter.validator.validate_python, adapter.serializer.to_python

        def structure(value: Any) -> Any:
            # Validation accepts an instance without looking at its fields; serialization reports invalid ones.
            return write(check(value), mode="json", by_alias=True, warnings="error")

        return cls(schema, structure, annotation if annotation is int or annotation is bool else None)

    @classmethod
    def given(cls, schema: Wire) -> Output:
        """Return the output for the user's own schema; raises `ConfigError` if it is invalid."""
        checker = Checker(schema, "output_schema")

        def structure(value: Any) -> Any:
            made = to_jsonable_python(value)
            if problems := checker.problems(made):
                raise BadReturn(f"the value does not fit the output schema: {'; '.join(problems)}")
            return made

        return cls(copy.deepcopy(schema), structure)

    def structure(self, value: Any) -> Any:
        """Return the value as JSON that the schema allows; raises `BadReturn`."""
        try:
            return self._structure(value)
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
            place = "".join(f"{part}: " for part in first["loc"])
            message = f"the returned {type(value).__name__} does not match the annotation: {place}{first['msg']}"
            raise BadReturn(one_line(message)) from None
        except PydanticSerializationError as exc:
            reason = one_line(str(exc))
            raise BadReturn(f"the returned {type(value).__name__} does not match the annotation: {reason}") from None


_NOTHING: Final = (inspect.Signature.empty, Any)


def to_wire(value: Any, *, output: Output | None = None, mime_type: str | None = None) -> Wire:
    """Return the result of a call whose function returned `value`; raises if it has no JSON form.

    `mime_type` is the type of bytes.
    """
    if output is not None and output.exact is type(value) and (text := _exact_text(value)) is not None:
        return _wrapping(text, value)
    if isinstance(value, _AS_IT_IS):
        return _as_it_is(value)
    if output is not None:
        data = output.structure(value)
        if type(data) is str:
            data = _writable(data)
        if output.wraps:
            return _wrapping(_text(data), data)
        return {"content": [_text_block(_text(data))], "structuredContent": data}
    if value is None:
        return {"content": []}
    if isinstance(value, _BYTES):
        return {"content": [_piece(value, mime_type)]}
    if isinstance(value, list | tuple) and _holds_pieces(value):
        return {"content": [_piece(piece, mime_type) for piece in value]}
    return {"content": [_text_block(value if type(value) is str else _text(to_jsonable_python(value)))]}


def error_result(message: str) -> Wire:
    """Return the result of a failed call, with a message for the model."""
    return {"content": [_text_block(message)], "isError": True}


def _exact_text(value: Any) -> str | None:
    """Return a boolean or an integer of 64 bits as JSON; None for a larger integer."""
    if value is True or value is False:
        return "true" if value else "false"
    return str(value) if -_WIDE <= value < _WIDE else None


def _wrapping(text: str, data: Any) -> Wire:
    # The schema has a mark too, but not every client lists the tools before it calls one.
    return {"content": [_text_block(text)], "structuredContent": {"result": data}, "_meta": {WRAPPED: True}}


def _as_it_is(value: Any) -> Wire:
    if not isinstance(value, ToolResult):
        return {"content": [_piece(value, None)]}
    # A copy: the endpoint adds fields of its era, a caller in this process may change it, and the function may return
    # the same object again.
    wire = {"content": [], **copied(value.raw)}
    if wire.get("isError") is not True:
        wire.pop("isError", None)
    return wire


def _holds_pieces(values: list[Any] | tuple[Any, ...]) -> bool:
    """Return whether it is a list of blocks, possibly mixed with strings. A list of only strings is data."""
    return any(isinstance(value, _PIECES) for value in values) and all(
        isinstance(value, (*_PIECES, str)) for value in values
    )


def _piece(value: Any, mime_type: str | None) -> Wire:
    if isinstance(value, str):
        return _text_block(value)
    if isinstance(value, _BLOCKS):
        return value.to_wire()
    if isinstance(value, ResourceContents):
        return EmbeddedResource(value).to_wire()
    kind, data = mime_type or "application/octet-stream", bytes(value)
    if kind.startswith("image/"):
        return ImageContent(data, kind).to_wire()
    if kind.startswith("audio/"):
        return AudioContent(data, kind).to_wire()
    return EmbeddedResource(ResourceContents(BLOB_URI, kind, blob=data)).to_wire()


def _text_block(text: str) -> Wire:
    return {"type": "text", "text": _writable(text)}


def _writable(text: str) -> str:
    """Replace lone surrogates, as in file names that are not UTF-8: they could not be encoded in the answer."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _text(data: Any) -> str:
    """Return JSON as text for models; a string stays as it is."""
    if isinstance(data, str):
        return data
    try:
        return jsonrpc.encode(data).decode()
    except UsageError as exc:
        raise BadReturn(str(exc).replace("the message", "the returned value")) from None


# ---- the schema ----------------------------------------------------------------------------------------------


def _has_structure(annotation: Any) -> bool:
    """Return whether a return annotation has a structure: strings and content blocks have none."""
    if all(_is_shapeless(kind) for kind in type_hints.alternatives(annotation)):
        return False
    parts = type_hints.leaves(annotation)
    return not any(inspect.isclass(part) and issubclass(part, (*_AS_IT_IS, *_BYTES)) for part in parts)


def _is_shapeless(kind: Any) -> bool:
    # Whether a list of anything is content or data depends on its value.
    if type_hints.is_list(kind):
        elements = [element for part in get_args(kind) for element in type_hints.alternatives(part)]
        return not elements or Any in elements or object in elements
    return kind in _SHAPELESS


def _is_object(schema: Wire) -> bool:
    # Pydantic writes a reference for a type that contains itself.
    return SchemaDocument(schema).dereference(schema).get("type") == "object"


def _wrapped(schema: Wire) -> Wire:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    wrapper: Wire = {"type": "object", "properties": {"result": inner}, "required": ["result"], WRAP_MARK: True}
    if "$defs" in schema:
        wrapper["$defs"] = schema["$defs"]
    return wrapper


def exception_text(exc: BaseException) -> str:
    """Return the message of an exception, with its type if the message alone is not clear."""
    try:
        text = str(exc)
    except Exception as bad:  # an exception whose __str__ raises
        logger.debug("%s has no message", type(exc).__name__, exc_info=bad)
        text = ""
    # The message of these two is only a key or an exit code.
    if text and not isinstance(exc, KeyError | SystemExit):
        return text
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__
