"""The signature of a function that is called with JSON arguments, and the call itself."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import UsageError
from ...types import Wire
from . import docstrings, type_hints
from .arguments import Arguments, BadArguments
from .call_context import CallContext
from .worker_threads import in_thread

__all__ = ["BadArguments", "Signature", "name_of"]

logger = logging.getLogger("toolcrib.server.tools")


class Signature:
    """A function, the schema of its JSON arguments, and how to call it."""

    __slots__ = (
        *("_arguments", "context_parameter", "description", "function", "inline", "is_async", "name", "returns"),
        *("schema",),
    )

    def __init__(
        self, function: Callable[..., Any], *, inline: bool = False, method: bool = False, known_as: str | None = None
    ) -> None:
        """Inspect a function.

        `method`: its first parameter is the instance, which `bind_to` adds later. `known_as`: the name that callers
        use, if it differs from the function's own. Raises `UsageError` if a parameter cannot be passed by name, or an
        annotation cannot be resolved.
        """
        self.function = function
        self.name = name_of(function)
        self.inline = inline
        self.is_async = _is_async(function)
        parameters, self.returns = _parameters(function, method)
        """The resolved return annotation; `inspect.Signature.empty` if there is none."""
        self.context_parameter = self._context_parameter(parameters)
        """The parameter that receives the `Context`; not part of the schema."""
        doc = docstrings.parse(_doc_of(function), parameters)
        if self.context_parameter is not None:
            del parameters[self.context_parameter]
        self.description = doc.text
        """The docstring without its sections on parameters, returns and exceptions; empty if there is none."""
        self._arguments = Arguments(known_as or self.name, parameters, doc.parameters)
        self.schema: Wire = self._arguments.schema
        """The JSON schema of the arguments."""

    def bind_to(self, function: Callable[..., Any]) -> Signature:
        """Return a copy for another function with these parameters: a method bound to its instance."""
        bound = copy.copy(self)
        bound.function = function
        return bound

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the function's keyword arguments for JSON arguments; raises `BadArguments`."""
        return self._arguments.bind(arguments)

    async def call(self, arguments: dict[str, Any], context: CallContext | None) -> Any:
        """Call the function with the result of `bind`. Sync functions run in a thread, unless `inline` is set."""
        if self.context_parameter is not None:
            arguments = {**arguments, self.context_parameter: self._given(context)}
        if self.is_async:
            return await self.function(**arguments)
        result = (
            self.function(**arguments)
            if self.inline
            else await in_thread(functools.partial(self.function, **arguments))
        )
        return await result if inspect.isawaitable(result) else result

    def _given(self, context: CallContext | None) -> CallContext | None:
        if context is None or self.is_async or self.inline:
            return context
        return context._for_thread()  # noqa: SLF001  # not for tools, which receive the context

    def _context_parameter(self, parameters: Mapping[str, inspect.Parameter]) -> str | None:
        found = {
            name: kind
            for name, parameter in parameters.items()
            for kind in type_hints.alternatives(parameter.annotation)
            if inspect.isclass(kind) and issubclass(kind, CallContext)
        }
        if len(found) > 1:
            raise UsageError(f"{self.name}: expected one context parameter, got {' and '.join(found)}")
        for name, kind in found.items():
            blocking = kind._blocking  # noqa: SLF001  # as above
            if blocking and (self.is_async or self.inline):
                raise UsageError(f"{self.name}: {name} would block the event loop; annotate it with Context")
            return name
        return None


# ---- reading a function --------------------------------------------------------------------------------------


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function; for a partial that of its function, for a callable object that of its class."""
    inner = _without_partials(function)
    return str(getattr(inner, "__name__", None) or type(inner).__name__)


def _without_partials(function: Callable[..., Any]) -> Any:
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inner


def _is_plain(function: Any) -> bool:
    """Return whether it is a function, method or class itself, not a callable object."""
    return inspect.isroutine(function) or inspect.isclass(function) or hasattr(function, "__wrapped__")


def _doc_of(function: Callable[..., Any]) -> str | None:
    inner = _without_partials(function)
    if _is_plain(inner):
        return inspect.getdoc(inner)
    return type(inner).__call__.__doc__ or inspect.getdoc(type(inner))


def _is_async(function: Callable[..., Any]) -> bool:
    inner = _without_partials(function)
    return inspect.iscoroutinefunction(inner if _is_plain(inner) else type(inner).__call__)


def _parameters(function: Callable[..., Any], method: bool) -> tuple[dict[str, inspect.Parameter], Any]:
    """Return the parameters by name and the return annotation, with all annotations resolved."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"{name_of(function)}: cannot inspect the signature ({exc}); wrap it in a function") from None
    found = list(signature.parameters.values())[1 if method else 0 :]
    for parameter in found:
        _check_kind(function, parameter)
    resolved = {p.name: p.replace(annotation=_resolve_annotation(function, p)) for p in found}
    return resolved, _resolve_return(function, signature.return_annotation)


def _check_kind(function: Callable[..., Any], parameter: inspect.Parameter) -> None:
    name = parameter.name
    if parameter.kind is parameter.VAR_POSITIONAL:
        what, way = f"*{name}", f"use {name}: list[...] instead"
    elif parameter.kind is parameter.POSITIONAL_ONLY:
        what, way = f"the positional-only {name}", "remove the `/`, or wrap the function"
    else:
        return
    raise UsageError(f"{name_of(function)}: arguments are passed by name, but {what} cannot be; {way}")


def _resolve_annotation(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is parameter.empty:
        return Any
    return type_hints.readable(type_hints.resolve(function, parameter.name, parameter.annotation))


def _resolve_return(function: Callable[..., Any], annotation: Any) -> Any:
    if annotation is inspect.Signature.empty:
        return annotation
    try:
        return type_hints.readable(type_hints.resolve(function, "return", annotation))
    except UsageError as exc:
        # The function can still be called; only its output has no schema.
        logger.warning("no output schema: %s", exc)
        return inspect.Signature.empty
