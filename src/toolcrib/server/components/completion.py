"""Suggestions for the arguments of prompts and the variables of templates."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from ..._util.suggest import did_you_mean, similar_names
from ...errors import ConfigError, RemoteError, ResourceNotFound
from ...protocol import jsonrpc
from ...protocol.sanitize import one_line
from ...types import Completion, Wire
from ...types.wire import object_of
from ..functions.call_context import CallContext
from ..functions.signature import Signature
from .prompts import PromptFunction
from .resources import TemplateFunction, call_function, choices, entry, log_failure, to_text

log = logging.getLogger("toolcrib.server")

T_co = TypeVar("T_co", covariant=True)

MAX_VALUES: Final = 100
"""Maximum number of suggestions in one answer, set by the protocol."""


class CompletionFunction:
    """A function that suggests values for one argument. Calling it calls the function."""

    def __init__(self, ref: str, argument: str, signature: Signature) -> None:
        self.ref = ref
        """The name of a prompt, or the URI of a template."""
        self.argument = argument
        self.signature = signature
        self.takes_context = signature.context_parameter is not None
        self._parameters = _parameters(signature)
        functools.update_wrapper(self, signature.function, updated=())

    async def complete(
        self, value: str, given: Mapping[str, str], context: CallContext | None, *, mask_errors: bool = False
    ) -> Wire:
        """Return the `completion` of the answer for the typed `value` and the arguments already `given`."""
        what = f"completion of {self.argument} for {self.ref}"
        arguments = dict(zip(self._parameters, (value, dict(given)), strict=False))
        try:
            found = await call_function(self.signature, arguments, context, what, mask_errors=mask_errors)
            # A function without parameters returns all values: filter them by the typed text.
            return _completion(found, "" if self._parameters else value)
        except (ResourceNotFound, _BadCompletion) as exc:
            raise log_failure(exc, what, mask_errors=mask_errors) from exc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.signature.function(*args, **kwargs)


def completion(ref: str, argument: str) -> Callable[[Callable[..., Any]], CompletionFunction]:
    """Make a function suggest values for an argument of a prompt (by name) or a variable of a template (by its URI).

    The function is called with the text typed so far and, if it has a second parameter, with a dict of the arguments
    already given. It returns strings or a `Completion`, best first. A function without parameters returns all values;
    the server filters them by the typed text.
    """

    def decorate(function: Callable[..., Any]) -> CompletionFunction:
        return CompletionFunction(ref, argument, Signature(function))

    return decorate


class Offered(Protocol[T_co]):
    """A collection of prompts or templates, by name."""

    def get(self, name: str, /) -> T_co | None:
        """Return the prompt or template with this name, or None."""
        ...


class Completions:
    """The completion functions of a server."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], CompletionFunction] = {}

    def __len__(self) -> int:
        return len(self._functions)

    def add(self, ref: str, argument: str, function: Callable[..., Any]) -> CompletionFunction:
        """Add the function that completes this argument; it replaces an earlier one."""
        made = function if isinstance(function, CompletionFunction) else completion(ref, argument)(function)
        if (ref, argument) in self._functions:
            log.warning("the completion of %r for %r already existed and was replaced", argument, ref)
        self._functions[ref, argument] = made
        return made

    def offers(self, *listed: Iterable[PromptFunction | TemplateFunction]) -> bool:
        """Return whether any argument can be completed: by a function, or by the type of a parameter."""
        return bool(self._functions) or any(offered.completes for part in listed for offered in part)

    def takes_context(self, params: Wire) -> bool:
        """Return whether the function for this request takes a context."""
        function = self._functions.get(_read(params)[:2])
        return function is not None and function.takes_context

    async def complete(
        self,
        params: Wire,
        prompts: Offered[PromptFunction],
        templates: Offered[TemplateFunction],
        context: CallContext | None = None,
        *,
        mask_errors: bool = False,
    ) -> Wire:
        """Return the result of `completion/complete`.

        Without a completion function, a parameter that lists its values (Literal, Enum) is completed by prefix; any
        other has no suggestions. Raises `RemoteError` -32602 for an unknown prompt, template or argument.
        """
        ref, argument, value = _read(params)
        function = self._functions.get((ref, argument))
        if function is not None:
            given = object_of(object_of(params.get("context")).get("arguments"))
            return {"completion": await function.complete(value, given, context, mask_errors=mask_errors)}
        if params["ref"]["type"] == "ref/prompt":
            return {"completion": _by_type("prompt", ref, prompts.get(ref), argument, value)}
        return {"completion": _by_type("resource template", ref, templates.get(ref), argument, value)}


def _by_type(kind: str, ref: str, offered: PromptFunction | TemplateFunction | None, argument: str, value: str) -> Wire:
    if offered is None:
        raise RemoteError(jsonrpc.INVALID_PARAMS, f"Unknown {kind}: {one_line(ref)}")
    properties = offered.signature.schema.get("properties", {})
    if argument not in properties:
        hint = did_you_mean(similar_names(argument, properties))
        raise RemoteError(jsonrpc.INVALID_PARAMS, f"Unknown argument of {kind} {ref}: {one_line(argument)}{hint}")
    return _completion(choices(offered.signature, properties[argument]), value)


def _parameters(signature: Signature) -> tuple[str, ...]:
    names = tuple(signature.schema.get("properties", {}))
    required = signature.schema.get("required", ())
    if any(name in required for name in names[2:]):
        raise ConfigError(
            f"{signature.name}: expected at most two parameters (the typed text, and a dict of the other arguments), "
            f"got {names[2]!r} as the third",
            key=names[2],
            expected="at most two parameters",
        )
    return names[:2]


def _read(params: Wire) -> tuple[str, str, str]:
    """Return the prompt's name or the template's URI, the name of the argument, and the text typed so far."""
    match params:
        case {
            "ref": {"type": "ref/prompt", "name": str(ref)} | {"type": "ref/resource", "uri": str(ref)},
            "argument": {"name": str(name), "value": str(value)},
        }:
            return ref, name, value
    expected = "ref (ref/prompt with a name, or ref/resource with a uri) and argument (a name and a value)"
    raise RemoteError(jsonrpc.INVALID_PARAMS, f"Invalid params: expected {expected}")


class _BadCompletion(Exception):
    """The function did not return suggestions."""


def _completion(found: Any, typed: str) -> Wire:
    """Return the suggestions that start with the typed text: at most `MAX_VALUES`, and their total number."""
    total, more = None, False
    if isinstance(found, Completion):
        found, total, more = found.values, found.total, found.has_more
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable | None):
        raise _BadCompletion(f"completion: expected strings or a Completion, got {type(found).__name__}")
    values = [text for text in map(to_text, found or ()) if text.lower().startswith(typed.lower())]
    if total is None and not more:
        total = len(values)
    return entry({"values": values[:MAX_VALUES]}, total=total, hasMore=more or len(values) > MAX_VALUES)
