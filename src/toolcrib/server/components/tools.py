"""A function as a tool: its entry in the list of tools, and its calls."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from types import MethodType
from typing import Any, Final, Literal, TypedDict, Unpack, overload

from ..._util.suggest import suggest
from ...errors import ConfigError, RemoteError, ToolFailed, UsageError
from ...policy.json_schema import Checker, object_schema
from ...protocol import jsonrpc
from ...protocol.param_headers import Declaration, InvalidDeclaration, declarations
from ...types import ToolResult, Wire
from ..functions.call_context import CallContext
from ..functions.signature import BadArguments, Signature, name_of
from .results import Output, error_result, exception_text, to_wire

logger = logging.getLogger("toolcrib.server.tools")

NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")

NameStyle = Literal["as_is", "dashed"]


class ToolOptions(TypedDict, total=False):
    """The options of a tool; those that are not set are derived from the function."""

    name: str | None
    title: str | None
    description: str | None
    annotations: Mapping[str, Any] | None
    icons: Sequence[Mapping[str, Any]] | None
    meta: Mapping[str, Any] | None
    input_schema: Wire | None
    """A schema to use instead of the signature: the function receives all arguments as one dict, validated by it."""
    output_schema: Wire | None
    structured: bool | None
    """Output schema: False for none, True for one also for a string, None for one if the return type has structure."""
    mime_type: str | None
    """The MIME type of bytes that the function returns."""
    inline: bool
    """Run a sync function on the event loop, not in a thread; only for functions that never block."""
    name_style: NameStyle
    """`dashed` replaces `_` by `-` in a name derived from the function."""


class ToolFunction:
    """A function as a tool. Calling it calls the function."""

    def __init__(self, function: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> None:
        """Raise `UsageError` if the function cannot be a tool, and `ConfigError` if an option is invalid."""
        _check_options(options)
        if isinstance(function, staticmethod):
            function = function.__func__
        if isinstance(function, classmethod):
            raise UsageError(f"{function.__name__}: put @classmethod above the tool decorator, not below")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(f"{function.__name__}: expected a function, got a generator. Return a list instead")
        self.function = function
        self.unbound = _is_method(function)
        """Whether it is a method that is not bound yet; it can be called as a tool only when bound to an instance."""
        self._options = options
        schema = options.get("input_schema")
        self.name = _checked_name(function, options)
        signature = Signature(function, inline=options.get("inline", False), method=self.unbound, known_as=self.name)
        self.signature = signature if schema is None else None
        self._taker = signature if schema is None else _Handler(self.name, signature, schema)
        self.takes_context = signature.context_parameter is not None
        self.title = options.get("title")
        self.description = options.get("description") or signature.description or f"Tool: {self.name}"
        self.input_schema = self._taker.schema
        output = options.get("output_schema")
        self.output = (
            Output.given(output) if output is not None else Output.of(signature.returns, options.get("structured"))
        )
        self.output_schema = self.output.schema if self.output is not None else None
        self.annotations = _plain(options.get("annotations"))
        self.meta = _plain(options.get("meta"))
        self.mime_type = options.get("mime_type")
        self.headers = _declared(self.name, self.input_schema)
        """The arguments that modern HTTP requests repeat in headers."""
        self.wire = self._make_entry(options.get("icons"))
        """Its entry in the list of tools."""
        functools.update_wrapper(self, function)

    def _make_entry(self, icons: Sequence[Mapping[str, Any]] | None) -> Wire:
        wire: Wire = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": self.annotations or None,
            "icons": [_plain(icon) for icon in icons or ()] or None,
            "_meta": self.meta or None,
        }
        wire = {key: value for key, value in wire.items() if value is not None}
        try:
            jsonrpc.encode(wire)
        except UsageError as exc:
            raise ConfigError(f"{self.name}: {exc}") from None
        return wire

    async def call(self, arguments: Wire, context: CallContext | None = None, mask_errors: bool = False) -> Wire:
        """Call the tool and return its result. Exceptions become error results for the model; tracebacks are logged.

        `RemoteError` is raised: the function chose it as the answer. `mask_errors` hides the messages of all other
        exceptions except `ToolFailed`.
        """
        try:
            value = await self._taker.call(self._taker.bind(arguments), context)
            return to_wire(value, output=self.output, mime_type=self.mime_type)
        except (RemoteError, asyncio.CancelledError, KeyboardInterrupt):
            raise
        except BadArguments as exc:
            return error_result(str(exc))
        except BaseException as exc:  # noqa: BLE001  # the user's function may raise anything
            return self._failure(exc, mask_errors)

    def _failure(self, exc: BaseException, mask_errors: bool) -> Wire:
        cause = exc
        while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
            cause = cause.exceptions[0]
        if isinstance(cause, RemoteError):
            raise cause
        if isinstance(cause, ToolFailed):
            return (
                to_wire(cause.result)
                if isinstance(cause.result, ToolResult)
                else error_result(cause.message or "failed")
            )
        if not isinstance(cause, GeneratorExit):  # also raised when the call was abandoned
            logger.error("%s failed: %s", self.name, type(cause).__name__, exc_info=exc)
        return error_result(f"{self.name} failed" if mask_errors else exception_text(cause))

    def replaced(self, **options: Unpack[ToolOptions]) -> ToolFunction:
        """Return a tool of the same function with changed options; itself if nothing changes."""
        merged: ToolOptions = {**self._options, **options}
        return self if merged == self._options else ToolFunction(self.function, **merged)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function directly."""
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> ToolFunction:
        if instance is None or not self.unbound:
            return self
        bound = copy.copy(self)
        bound.function = MethodType(self.function, instance)
        bound.unbound = False
        taker = self._taker.bind_to(bound.function)
        bound._taker = taker  # noqa: SLF001  # a copy of this object
        bound.signature = taker if isinstance(taker, Signature) else None
        return bound

    def __repr__(self) -> str:
        return f"ToolFunction({self.name!r})"


class _Handler:
    """A function that takes all arguments as one dict, validated by the user's own schema."""

    def __init__(self, name: str, signature: Signature, schema: Wire) -> None:
        self._name = name
        self.schema = object_schema(schema, "input_schema")
        self._checker = Checker(self.schema, "input_schema")
        self._signature = signature
        taken = signature.schema
        if len(taken["properties"]) != 1 or "additionalProperties" in taken:
            raise UsageError(
                f"{name}: with input_schema= the function must take one dict of all arguments (and optionally a "
                f"Context), but it takes {', '.join(taken['properties']) or 'nothing'}"
            )
        (self._parameter,) = taken["properties"]

    def bind_to(self, function: Callable[..., Any]) -> _Handler:
        bound = copy.copy(self)
        bound._signature = self._signature.bind_to(function)  # noqa: SLF001  # a copy of this object
        return bound

    def bind(self, arguments: Wire) -> dict[str, Any]:
        if problems := self._checker.problems(arguments):
            raise BadArguments(f"Invalid arguments for {self._name}: {'; '.join(problems)}")
        return {self._parameter: dict(arguments)}

    async def call(self, arguments: dict[str, Any], context: CallContext | None) -> Any:
        return await self._signature.call(arguments, context)


@overload
def tool(function: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> ToolFunction: ...
@overload
def tool(function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[Callable[..., Any]], ToolFunction]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]
) -> ToolFunction | Callable[[Callable[..., Any]], ToolFunction]:
    """Make a function a tool without a server: `@tool`, or `@tool(name=..., ...)`.

    The tool can be added to several servers. Calling it calls the function.
    """
    _check_options(options)
    if function is not None:
        return made(function, **options)
    return lambda function: made(function, **options)


def made(thing: Any, /, **options: Unpack[ToolOptions]) -> ToolFunction:
    """Return the tool for a function, a method or an existing tool, with these options."""
    if inspect.ismethod(thing) and isinstance(thing.__func__, ToolFunction):
        thing = thing.__func__.__get__(thing.__self__)
    if isinstance(thing, ToolFunction):
        return thing.replaced(**options)
    if not callable(thing) and not isinstance(thing, classmethod):
        advice = ". Set the name with name=" if isinstance(thing, str) else ""
        raise UsageError(f"tool: expected a function, got {type(thing).__name__}{advice}")
    return ToolFunction(thing, **options)


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options.keys() - ToolOptions.__annotations__.keys():
        raise TypeError(f"a tool has no option {name!r}{suggest(name, ToolOptions.__annotations__)}")


def _is_method(function: Callable[..., Any]) -> bool:
    """Return whether a function is a method in a class body. Until it is bound, only names show that."""
    if not inspect.isfunction(function):
        return False
    around = function.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters.values()), None)
    wants = first is not None and first.name in ("self", "cls") and first.annotation is first.empty
    return wants and bool(around) and not around.endswith("<locals>")


def _checked_name(function: Callable[..., Any], options: ToolOptions) -> str:
    given: Any = options.get("name")
    style: Any = options.get("name_style", "as_is")
    if style not in ("as_is", "dashed"):
        raise ConfigError(f"name_style: expected 'as_is' or 'dashed', got {style!r}", key="name_style")
    name: Any = given if given is not None else name_of(function)
    if given is None and style == "dashed":
        name = name.replace("_", "-")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        expected = "1 to 128 of the characters A-Z a-z 0-9 _ . -"
        hint = "" if given is not None else ". Set name="
        raise ConfigError(f"name of a tool: expected {expected}, got {name!r}{hint}", key="name", expected=expected)
    return name


def _declared(name: str, schema: Wire) -> tuple[Declaration, ...]:
    try:
        return declarations(schema)
    except InvalidDeclaration as exc:
        raise ConfigError(f"{name}: {exc}", key="input_schema") from None


def _plain(given: Mapping[str, Any] | None) -> Wire:
    """Return a deep copy without nulls."""
    return {key: copy.deepcopy(value) for key, value in (given or {}).items() if value is not None}
