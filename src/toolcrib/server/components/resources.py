"""Functions as resources: a single resource with a URI, or a family of resources with a URI template."""

from __future__ import annotations

import enum
import functools
import logging
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, cast

from pydantic_core import to_json

from ..._util.schema_document import SchemaDocument
from ...errors import ConfigError, ProtocolError, RemoteError, ResourceNotFound, UsageError
from ...protocol import jsonrpc
from ...protocol.sanitize import one_line
from ...protocol.versions import OLD_NOT_FOUND
from ...types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    ResourceContents,
    TextContent,
    Wire,
)
from ..functions.call_context import CallContext
from ..functions.signature import BadArguments, Signature
from .results import exception_text
from .uri_template import UriTemplate, check_uri, is_template

log = logging.getLogger("toolcrib.server.tools")

_BYTES = (bytes, bytearray, memoryview)
_PIECES = (ResourceContents, EmbeddedResource, TextContent, ImageContent, AudioContent, *_BYTES)


class ResourceFunction:
    """A function as a resource. Calling it calls the function."""

    def __init__(self, signature: Signature, wire: Wire) -> None:
        if required := signature.schema.get("required"):
            raise ConfigError(
                f"{signature.name}: the resource {wire['uri']} has no variable for the required parameter "
                f"{required[0]!r}; give it a default, or add {{{required[0]}}} to the URI",
                key=required[0],
                expected="a function without parameters",
            )
        self.uri: str = wire["uri"]
        self.signature = signature
        self.wire = wire
        """Its entry of `resources/list`."""
        self.takes_context = signature.context_parameter is not None
        functools.update_wrapper(self, signature.function, updated=())

    async def read(self, context: CallContext | None, *, mask_errors: bool = False) -> list[Wire]:
        """Call the function and return the entries of `contents`."""
        return await _read(self.signature, {}, context, self.wire, self.uri, mask_errors=mask_errors)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.signature.function(*args, **kwargs)


class TemplateFunction:
    """A function as a family of resources; its arguments are the URI's variables. Calling it calls the function."""

    def __init__(self, signature: Signature, wire: Wire) -> None:
        self.template = UriTemplate(wire["uriTemplate"])
        _check_variables(signature, self.template)
        self.uri_template = self.template.text
        self.signature = signature
        self.wire = wire
        """Its entry of `resources/templates/list`."""
        self.completes = lists_values(signature)
        """Whether the type of a variable lists its values, so that they can be suggested."""
        self.takes_context = signature.context_parameter is not None
        functools.update_wrapper(self, signature.function, updated=())

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables of a URI of this family, or None if it is not one."""
        return self.template.match(uri)

    async def read(
        self, uri: str, variables: Mapping[str, str], context: CallContext | None, *, mask_errors: bool = False
    ) -> list[Wire]:
        """Call the function with the result of `match` and return the entries of `contents`.

        Raises `RemoteError` -32602 for a value of the wrong type.
        """
        arguments = bind_strings(self.signature, variables)
        return await _read(self.signature, arguments, context, self.wire, uri, mask_errors=mask_errors)

    def expand(self, **variables: str) -> str:
        """Return the URI of one resource of this family."""
        return self.template.expand(variables)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.signature.function(*args, **kwargs)


class ResourceOptions(TypedDict, total=False):
    """The options of a resource or a resource template."""

    name: str | None
    """Default: the name of the function."""
    title: str | None
    description: str | None
    """Default: the docstring of the function."""
    mime_type: str | None
    annotations: Mapping[str, Any] | None
    size: int | None
    """Size in bytes; only for a resource, not for a template."""
    icons: Iterable[Mapping[str, Any]] | None
    meta: Mapping[str, Any] | None


def resource(
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    size: int | None = None,
    icons: Iterable[Mapping[str, Any]] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], ResourceFunction | TemplateFunction]:
    """Make a function a resource, or a resource template if the URI has `{variables}`.

    The function returns str, bytes, a JSON value or model, `ResourceContents`, or a list of those; returning None, like
    raising `ResourceNotFound`, reports that the resource does not exist. Variables are strings, converted to the types
    of the parameters. Values with a `..` path segment are rejected before the function is called.
    """
    if callable(uri):
        raise UsageError('uri: expected a URI, got a function. Use @resource("config://app")')
    templated = is_template(uri)
    if templated and size is not None:
        raise ConfigError(f"size: not allowed for the template {uri}, which has many resources", key="size")

    def decorate(function: Callable[..., Any]) -> ResourceFunction | TemplateFunction:
        signature = Signature(function)
        wire = listing(
            {"uriTemplate" if templated else "uri": check_uri(uri)},
            name=name or signature.name,
            title=title,
            description=signature.description if description is None else description,
            mimeType=mime_type,
            annotations=annotations and dict(annotations),
            size=size,
            icons=icons and list(icons),
            _meta=meta and dict(meta),
        )
        return TemplateFunction(signature, wire) if templated else ResourceFunction(signature, wire)

    return decorate


def find_template(templates: Iterable[TemplateFunction], uri: str) -> tuple[TemplateFunction, dict[str, str]] | None:
    """Return the template that matches a URI, and its variables; of several, the one with the most literal text."""
    best: tuple[TemplateFunction, dict[str, str]] | None = None
    for template in templates:
        if best is not None and template.template.weight <= best[0].template.weight:
            continue
        variables = template.match(uri)
        if variables is not None:
            best = template, variables
    return best


def not_found(uri: str) -> RemoteError:
    """Return the error for a resource that does not exist."""
    return RemoteError(OLD_NOT_FOUND, f"Resource not found: {one_line(uri)}", {"uri": uri})


# ---- what resources, prompts and completions have in common --------------------------------------------------


def entry(wire: Wire, **fields: Any) -> Wire:
    """Return `wire` with the fields that are neither None nor empty strings."""
    return wire | {key: value for key, value in fields.items() if value is not None and value != ""}


def listing(wire: Wire, **fields: Any) -> Wire:
    """Return an entry of a list as an independent copy. Raises `ConfigError` if it cannot be sent as JSON."""
    wire = entry(wire, **fields)
    try:
        return cast(Wire, jsonrpc.decode(jsonrpc.encode(wire)))
    except (UsageError, ProtocolError) as exc:
        raise ConfigError(f"{wire['name']}: {exc}") from None


def bind_strings(signature: Signature, texts: Mapping[str, Any]) -> dict[str, Any]:
    """Convert strings to the function's arguments. Raises `RemoteError` -32602, which names the invalid ones."""
    properties = signature.schema.get("properties", {})
    try:
        return signature.bind({name: _convert(signature, properties.get(name), text) for name, text in texts.items()})
    except BadArguments as exc:
        raise RemoteError(jsonrpc.INVALID_PARAMS, str(exc)) from None


async def call_function(
    signature: Signature, arguments: dict[str, Any], context: CallContext | None, what: str, *, mask_errors: bool
) -> Any:
    """Call the function and return its result. Exceptions become errors for the caller; the traceback is logged."""
    try:
        return await signature.call(arguments, context)
    except (RemoteError, ResourceNotFound):
        raise
    except (Exception, SystemExit) as exc:
        cause: BaseException = exc
        while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
            cause = cause.exceptions[0]
        if isinstance(cause, RemoteError | ResourceNotFound):
            raise cause from exc
        raise log_failure(cause, what, mask_errors=mask_errors) from exc


def log_failure(exc: BaseException, what: str, *, mask_errors: bool) -> RemoteError:
    """Log the exception of a user's function with its traceback, and return the error for the caller."""
    log.error("%s failed: %s", one_line(what), type(exc).__name__, exc_info=exc)
    return RemoteError(jsonrpc.INTERNAL_ERROR, f"{what} failed" if mask_errors else exception_text(exc))


def choices(signature: Signature, schema: Any) -> list[Any] | None:
    """Return the possible values of a parameter if its type (Literal, Enum) lists them, else None."""
    schema = _dereference(signature, schema)
    if "const" in schema:
        return [schema["const"]]
    if isinstance(values := schema.get("enum"), list):
        return values
    found = [choices(signature, option) for option in schema.get("anyOf", ())]
    return [value for values in found if values is not None for value in values] or None


def lists_values(signature: Signature) -> bool:
    """Return whether the type of a parameter of the function lists its values."""
    return any(choices(signature, schema) for schema in signature.schema.get("properties", {}).values())


def to_text(value: Any) -> str:
    """Return a value as it is written on the wire: its JSON, but a string without quotes."""
    value = value.value if isinstance(value, enum.Enum) else value
    return value if isinstance(value, str) else to_json(value).decode()


def wants_json(signature: Signature, schema: Any) -> bool:
    """Return whether a parameter takes only arrays or objects, so that a string for it is parsed as JSON."""
    schema = _dereference(signature, schema)
    if options := schema.get("anyOf"):
        kinds = [_dereference(signature, option) for option in options]
        rest = [kind for kind in kinds if kind.get("type") != "null"]
        return bool(rest) and all(wants_json(signature, kind) for kind in rest)
    return schema.get("type") in ("array", "object")


def _dereference(signature: Signature, schema: Any) -> Wire:
    return SchemaDocument(signature.schema).dereference(schema)


def _convert(signature: Signature, schema: Any, text: Any) -> Any:
    """Convert a string to a value of the parameter's type in the cases that validation does not handle."""
    if not isinstance(text, str):
        return text
    if wants_json(signature, schema):
        try:
            return jsonrpc.decode(text)
        except ProtocolError:
            return text  # the error of `bind` is more precise
    listed = choices(signature, schema) or ()
    return text if text in listed else next((value for value in listed if to_text(value) == text), text)


# ---- contents ------------------------------------------------------------------------------------------------


def _check_variables(signature: Signature, template: UriTemplate) -> None:
    properties = signature.schema.get("properties", {})
    takes_any = signature.schema.get("additionalProperties", False) is not False
    for name in template.variables:
        if name not in properties and not takes_any:
            raise ConfigError(
                f"{signature.name}: the function has no parameter for the variable {name!r} of {template.text}",
                key=name,
                expected=f"a parameter {name!r}",
            )
    for name in signature.schema.get("required", ()):
        if name not in template.variables:
            raise ConfigError(
                f"{signature.name}: {template.text} has no variable for the required parameter {name!r}; give it a "
                f"default, or add {{{name}}} to the URI",
                key=name,
                expected=f"one of {', '.join(template.variables)}",
            )


async def _read(
    signature: Signature,
    arguments: dict[str, Any],
    context: CallContext | None,
    wire: Wire,
    uri: str,
    *,
    mask_errors: bool,
) -> list[Wire]:
    what = f"resource {one_line(uri)}"
    try:
        value = await call_function(signature, arguments, context, what, mask_errors=mask_errors)
    except ResourceNotFound:
        raise not_found(uri) from None
    if value is None:
        raise not_found(uri)
    try:
        return _contents(value, uri, wire.get("mimeType"))
    except ValueError as exc:  # the value has no JSON form
        raise log_failure(exc, what, mask_errors=mask_errors) from exc


def _contents(value: Any, uri: str, mime_type: str | None) -> list[Wire]:
    if isinstance(value, ReadResourceResult):
        value = value.contents
    # A list of plain values is data, and so is an empty list: it is a list of pieces only if an item cannot be data.
    if isinstance(value, list | tuple) and any(isinstance(item, _PIECES) for item in value):
        return [_piece(item, uri, mime_type) for item in value]
    return [_piece(value, uri, mime_type)]


def _piece(value: Any, uri: str, mime_type: str | None) -> Wire:
    match value:
        case str() | TextContent():
            text = value if isinstance(value, str) else value.text
            return {"uri": uri, "mimeType": mime_type or "text/plain", "text": text}
        case bytes() | bytearray() | memoryview():
            return {"uri": uri, "mimeType": mime_type or "application/octet-stream", "blob": b64encode(value).decode()}
        case ImageContent() | AudioContent():
            return {"uri": uri, "mimeType": value.mime_type, "blob": b64encode(value.data).decode()}
        case EmbeddedResource():
            return _piece(value.resource, uri, mime_type)
        case ResourceContents():
            wire = value.to_wire()
            return wire | {"uri": value.uri or uri} | entry({}, mimeType=value.mime_type or mime_type)
        case _:
            text = to_json(value, inf_nan_mode="null").decode()
            return {"uri": uri, "mimeType": mime_type or "application/json", "text": text}
