"""Requests of a function to the client: checking capabilities, building the params, and parsing the results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypedDict
from uuid import uuid4

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from .._util.schema_document import SchemaDocument
from ..errors import ProtocolError, RemoteError, UsageError
from ..protocol.versions import MISSING_CAPABILITY
from ..types import ElicitResult, PromptMessage, Root, Wire
from ..types.wire import objects_of
from .functions.type_hints import readable

EMPTY_FORM: Final[Wire] = {"type": "object", "properties": {}}


class SamplingOptions(TypedDict, total=False):
    """Options of `Context.sample` besides max_tokens and system_prompt."""

    temperature: float | None
    stop_sequences: Sequence[str] | None
    model_preferences: str | Sequence[str] | Mapping[str, Any] | None
    """Names of models, the preferred one first, or the object that the protocol defines."""
    include_context: str | None
    metadata: Mapping[str, Any] | None
    tools: Iterable[Any] | None
    """Tools that the model may call: tool objects, or dicts in the form of the protocol."""
    tool_choice: Mapping[str, Any] | None


SAMPLING_OPTIONS: Final = {
    "temperature": "temperature",
    "stop_sequences": "stopSequences",
    "model_preferences": "modelPreferences",
    "include_context": "includeContext",
    "metadata": "metadata",
    "tools": "tools",
    "tool_choice": "toolChoice",
}


def need(declared: Mapping[str, Any], capability: str, *parts: str) -> None:
    """Raise -32021 if the client did not declare a capability that the request needs."""
    have = declared.get(capability)
    if isinstance(have, dict):
        # `elicitation: {}` comes from clients of revisions with only one mode, and means forms.
        modes = have or ({"form": {}} if capability == "elicitation" else {})
        if all(isinstance(modes.get(part), dict) for part in parts):
            return
    required: Wire = {capability: {part: {} for part in parts}}
    name = ".".join((capability, *parts))
    raise RemoteError(
        MISSING_CAPABILITY,
        f"the client did not declare the capability {name}, which this request needs",
        {"requiredCapabilities": required},
    )


# ---- forms ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """The schema of a form for the user, and the adapter that validates its content."""

    schema: Wire
    adapter: TypeAdapter[Any] | None = None


def form_of(schema: Any) -> Form:
    """Return the form for a JSON schema or a type that describes a flat object; None is a form without fields."""
    if schema is None:
        return Form(EMPTY_FORM)
    if isinstance(schema, Mapping):
        return Form({**EMPTY_FORM, **schema})
    return _form_of_type(schema)


@lru_cache(maxsize=128)
def _form_of_type(kind: Any) -> Form:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(readable(kind))
        described = adapter.json_schema()
    except PydanticUserError as exc:
        raise UsageError(f"{kind!r} cannot be used as a form: {exc.message}") from None
    document = SchemaDocument(described)
    described = document.dereference(described)
    if described.get("type") != "object":
        raise UsageError(f"{kind!r} cannot be used as a form: expected a type with fields")
    fields = {name: _field(name, field, document) for name, field in described.get("properties", {}).items()}
    schema: Wire = {"type": "object", "properties": fields}
    if "required" in described:
        schema["required"] = described["required"]
    return Form(schema, adapter)


def _field(name: str, schema: Wire, document: SchemaDocument) -> Wire:
    """Return the schema of one field of a form, without references: a string, number, boolean or choice."""
    schema = document.dereference(schema)
    options = schema.get("anyOf")
    if isinstance(options, list):
        real = [document.dereference(option) for option in options if option != {"type": "null"}]
        if len(real) == 1:
            beside = {key: value for key, value in schema.items() if key != "anyOf"}
            schema = {**real[0], **beside}
    if schema.get("default", ...) is None:
        schema = {key: value for key, value in schema.items() if key != "default"}
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
        del schema["const"]
    if schema.get("type") == "array" and isinstance(schema.get("items"), dict):
        schema = {**schema, "items": document.dereference(schema["items"])}
        fits = "enum" in schema["items"]
    else:
        fits = schema.get("type") in ("string", "number", "integer", "boolean")
    if not fits:
        raise UsageError(f"field {name!r} cannot be used in a form: expected a string, number, boolean or choice")
    return schema


def parse_elicitation(answer: Wire, form: Form | None = None) -> ElicitResult:
    """Return the client's answer to an elicitation, validated by the form."""
    action, content = answer.get("action"), answer.get("content")
    if action not in ("accept", "decline", "cancel"):
        raise ProtocolError(f"the client answered an elicitation with the unknown action {action!r}")
    if action != "accept":
        return ElicitResult(action)
    content = content if isinstance(content, dict) else None
    if form is None or form.adapter is None:
        return ElicitResult(action, content, data=content)
    try:
        return ElicitResult(action, content, data=form.adapter.validate_python(content or {}))
    except ValidationError as exc:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors(include_url=False))
        raise ProtocolError(f"the client's answer does not match the form: {wrong}") from None


def visit(message: str, url: str, *, modern: bool) -> Wire:
    """Return the params of an elicitation that sends the user to a URL."""
    if "://" not in url:
        raise UsageError(f"url: expected an absolute URL, got {url!r}")
    params: Wire = {"mode": "url", "message": message, "url": url}
    if not modern:
        params["elicitationId"] = str(uuid4())
    return params


# ---- sampling and roots --------------------------------------------------------------------------------------


def sampling(
    messages: str | Iterable[Any], max_tokens: int, system_prompt: str | None, options: SamplingOptions
) -> Wire:
    """Return the params of `sampling/createMessage`."""
    given = [messages] if isinstance(messages, str | Mapping) else messages
    params: Wire = {"messages": [_message(message) for message in given], "maxTokens": max_tokens}
    if system_prompt is not None:
        params["systemPrompt"] = system_prompt
    for name, value in options.items():
        if name not in SAMPLING_OPTIONS:
            raise UsageError(f"sample(): unknown option {name!r}; expected one of {', '.join(SAMPLING_OPTIONS)}")
        if value is not None:
            params[SAMPLING_OPTIONS[name]] = value
    if "modelPreferences" in params:
        params["modelPreferences"] = _preferences(params["modelPreferences"])
    if "tools" in params:
        params["tools"] = [_tool(tool) for tool in params["tools"]]
    return params


def _message(message: Any) -> Wire:
    if isinstance(message, str):
        return {"role": "user", "content": {"type": "text", "text": message}}
    if isinstance(message, Mapping):
        return dict(message)
    if isinstance(message, PromptMessage):
        return {"role": message.role, "content": message.content.to_wire()}
    if hasattr(message, "to_wire"):
        return {"role": "user", "content": message.to_wire()}
    raise UsageError(
        f"messages: expected str, PromptMessage, content blocks or dicts, got an instance of {type(message).__name__}"
    )


def _preferences(given: Any) -> Any:
    names = [given] if isinstance(given, str) else given
    if isinstance(names, Mapping):
        return dict(names)
    return {"hints": [{"name": name} for name in names]}


def _tool(tool: Any) -> Wire:
    if isinstance(tool, Mapping):
        return dict(tool)
    wire = getattr(tool, "wire", None) or getattr(tool, "raw", None)
    if not isinstance(wire, dict):
        raise UsageError(f"tools: expected tools or dicts, got an instance of {type(tool).__name__}")
    return wire


def parse_roots(answer: Wire) -> list[Root]:
    """Return the roots in the client's answer to `roots/list`."""
    return [Root.from_wire(root) for root in objects_of(answer.get("roots"))]
