"""A function as something that takes JSON arguments, and how it is called."""

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
    """A function as something that takes JSON arguments."""

    __slots__ = (
        *("_arguments", "context_parameter", "description", "function", "inline", "is_async", "name", "returns"),
        *("schema",),
    )

    def __init__(
        self, function: Callable[..., Any], *, inline: bool = False, method: bool = False, known_as: str | None = None
    ) -> None:
        """Read a function.

        `method`: its first parameter is the instance, which is given later with `bound_to`. `known_as`: the name that
        callers use, if it is not the function's own. Raises `UsageError` if the function has a parameter that cannot be
        passed by name, or an annotation that cannot be resolved.
        """
        self.function = function
        self.name = name_of(function)
        self.inline = inline
        self.is_async = _is_async(function)
        parameters, self.returns = _parameters(function, method)
        """The return annotation, resolved; `inspect.Signature.empty` where it says nothing."""
        self.context_parameter = self._context_parameter(parameters)
        """The parameter that gets the `Context`; no part of the schema."""
        doc = docstrings.parse(_doc_of(function), parameters)
        if self.context_parameter is not None:
            del parameters[self.context_parameter]
        self.description = doc.text
        """The docstring without what it says of parameters, returns and exceptions; empty if there is none."""
        self._arguments = Arguments(known_as or self.name, parameters, doc.parameters)
        self.schema: Wire = self._arguments.schema
        """The JSON schema of the arguments."""

    def bound_to(self, function: Callable[..., Any]) -> Signature:
        """The same for another function of these parameters: a method, bound to its instance."""
        bound = copy.copy(self)
        bound.function = function
        return bound

    def bind(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The function's keyword arguments, by JSON arguments; raises `BadArguments`."""
        return self._arguments.bind(arguments)

    async def call(self, arguments: dict[str, Any], context: CallContext | None) -> Any:
        """Call with what `bind` gave. An async function is awaited, another runs in a thread unless `inline`."""
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
        return context._for_thread()  # noqa: SLF001  # hidden from the authors of tools, who get the context

    def _context_parameter(self, parameters: Mapping[str, inspect.Parameter]) -> str | None:
        found = {
            name: kind
            for name, parameter in parameters.items()
            for kind in type_hints.alternatives(parameter.annotation)
            if inspect.isclass(kind) and issubclass(kind, CallContext)
        }
        if len(found) > 1:
            raise UsageError(f"{self.name}: {' and '.join(found)} are each a context; one is enough")
        for name, kind in found.items():
            blocking = kind._blocking  # noqa: SLF001  # as above
            if blocking and (self.is_async or self.inline):
                raise UsageError(f"{self.name}: {name} would block the event loop; annotate it with Context")
            return name
        return None


# ---- reading a function --------------------------------------------------------------------------------------


def name_of(function: Callable[..., Any]) -> str:
    """What a function is called: of a partial its function's name, of an object its class's."""
    inner = _without_partials(function)
    return str(getattr(inner, "__name__", None) or type(inner).__name__)


def _without_partials(function: Callable[..., Any]) -> Any:
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inner


def _is_plain(function: Any) -> bool:
    """Whether it is a function, method or class itself, not an object that can be called."""
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
    """The parameters by name and the return annotation, all annotations resolved."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as exc:
        raise UsageError(f"{name_of(function)} does not tell its parameters ({exc}); wrap it in a def") from None
    found = list(signature.parameters.values())[1 if method else 0 :]
    for parameter in found:
        _check_kind(function, parameter)
    resolved = {p.name: p.replace(annotation=_resolved(function, p)) for p in found}
    return resolved, _returned(function, signature.return_annotation)


def _check_kind(function: Callable[..., Any], parameter: inspect.Parameter) -> None:
    name = parameter.name
    if parameter.kind is parameter.VAR_POSITIONAL:
        what, way = f"*{name}", f"take {name}: list[...] instead"
    elif parameter.kind is parameter.POSITIONAL_ONLY:
        what, way = f"the positional-only {name}", "let it be given by name too: remove the `/`, or wrap the function"
    else:
        return
    raise UsageError(f"{name_of(function)}: arguments come by name, and {what} cannot; {way}")


def _resolved(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if parameter.annotation is parameter.empty:
        return Any
    return type_hints.readable(type_hints.resolve(function, parameter.name, parameter.annotation))


def _returned(function: Callable[..., Any], annotation: Any) -> Any:
    if annotation is inspect.Signature.empty:
        return annotation
    try:
        return type_hints.readable(type_hints.resolve(function, "return", annotation))
    except UsageError as exc:
        # The function works all the same, only its output has no schema.
        logger.warning("no output schema: %s", exc)
        return inspect.Signature.empty
