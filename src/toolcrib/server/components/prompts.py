"""Functions as prompts: the parameters are the prompt's arguments, the return value its messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict, get_args, overload

from ...errors import ConfigError, RemoteError, ResourceNotFound
from ...protocol import jsonrpc
from ...types import Block, EmbeddedResource, GetPromptResult, PromptMessage, ResourceContents, Wire
from ..functions.call_context import CallContext
from ..functions.signature import Signature
from .resources import bind_strings, call_function, entry, listing, lists_values, log_failure, wants_json

_BLOCKS = get_args(Block)
_ROLES = ("user", "assistant")


class PromptFunction:
    """A function as a prompt. Calling it calls the function."""

    def __init__(self, signature: Signature, wire: Wire) -> None:
        self.name: str = wire["name"]
        self.signature = signature
        self.wire = wire
        """Its entry of `prompts/list`."""
        self.completes = lists_values(signature)
        """Whether the type of an argument lists its values, so that they can be suggested."""
        self.takes_context = signature.context_parameter is not None
        functools.update_wrapper(self, signature.function, updated=())

    async def get(
        self, arguments: Mapping[str, Any], context: CallContext | None, *, mask_errors: bool = False
    ) -> Wire:
        """Return the prompt's messages. Raises `RemoteError` -32602 if arguments are missing, unknown or invalid."""
        if not isinstance(arguments, Mapping):
            raise RemoteError(jsonrpc.INVALID_PARAMS, f"Invalid arguments for {self.name}: expected an object")
        what = f"prompt {self.name}"
        values = bind_strings(self.signature, arguments)
        try:
            value = await call_function(self.signature, values, context, what, mask_errors=mask_errors)
            return self._result(value)
        except (ResourceNotFound, _BadPrompt) as exc:
            raise log_failure(exc, what, mask_errors=mask_errors) from exc

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.signature.function(*args, **kwargs)

    def _result(self, value: Any) -> Wire:
        description = self.wire.get("description")
        if isinstance(value, GetPromptResult):
            description, value = value.description or description, value.messages
        elif isinstance(value, Mapping) and "messages" in value:
            description, value = value.get("description", description), value["messages"]
        messages = value if isinstance(value, list | tuple) else [value]
        return entry({}, description=description) | {"messages": list(map(_message, messages))}


class PromptOptions(TypedDict, total=False):
    """The options of a prompt."""

    name: str | None
    """Default: the name of the function."""
    title: str | None
    description: str | None
    """Default: the docstring of the function."""
    icons: Iterable[Mapping[str, Any]] | None
    meta: Mapping[str, Any] | None


@overload
def prompt(function: Callable[..., Any], /) -> PromptFunction: ...


@overload
def prompt(
    function: None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Iterable[Mapping[str, Any]] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], PromptFunction]: ...


def prompt(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Iterable[Mapping[str, Any]] | None = None,
    meta: Mapping[str, Any] | None = None,
) -> PromptFunction | Callable[[Callable[..., Any]], PromptFunction]:
    """Make a function a prompt.

    The function returns a str (one message of the user), a content block, a `PromptMessage`, a dict with role and
    content, or a list of those. Clients send the arguments as strings; they are converted to the annotated types.
    """

    def decorate(function: Callable[..., Any]) -> PromptFunction:
        signature = Signature(function)
        wire = listing(
            {"name": _checked_name(signature.name if name is None else name)},
            title=title,
            description=signature.description if description is None else description,
            arguments=_arguments(signature) or None,
            icons=icons and list(icons),
            _meta=meta and dict(meta),
        )
        return PromptFunction(signature, wire)

    return decorate if function is None else decorate(function)


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"name: expected a non-empty string, got {name!r}", key="name", expected="a non-empty string")
    return name


def _arguments(signature: Signature) -> list[Wire]:
    required = signature.schema.get("required", ())
    return [
        entry({"name": name}, description=_described(signature, schema), required=name in required)
        for name, schema in signature.schema.get("properties", {}).items()
    ]


def _described(signature: Signature, schema: Any) -> str:
    """Return the parameter's description, with "(JSON)" if it takes JSON: prompt arguments have no types."""
    text: str = schema.get("description", "") if isinstance(schema, Mapping) else ""
    return f"{text} (JSON)".lstrip() if wants_json(signature, schema) else text


# ---- messages ------------------------------------------------------------------------------------------------


class _BadPrompt(Exception):
    """The function returned a value that cannot be converted to a message."""


def _message(value: Any) -> Wire:
    match value:
        case PromptMessage():
            return _role_message(value.role, value.content)
        case {"role": role, "content": content}:
            return _role_message(role, content)
        case _:
            return _role_message("user", value)


def _role_message(role: Any, content: Any) -> Wire:
    if role not in _ROLES:
        raise _BadPrompt(f"role of a message: expected user or assistant, got {role!r}")
    return {"role": role, "content": _block(content)}


def _block(content: Any) -> Wire:
    match content:
        case str():
            return {"type": "text", "text": content}
        case ResourceContents():
            return EmbeddedResource(content).to_wire()
        case {"type": str()}:
            return dict(content)
        case _ if isinstance(content, _BLOCKS):
            block: Block = content
            return block.to_wire()
        case _:
            kind = type(content).__name__
            raise _BadPrompt(f"message: expected a str, a content block, or a dict with role and content, got {kind}")
