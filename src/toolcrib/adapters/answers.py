"""Answers to the calls of a model: content parts in a neutral form, which each adapter translates."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from ..errors import RemoteError, ToolcribError, ToolNotFound
from ..protocol.jsonrpc import INVALID_PARAMS
from ..types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolResult,
)
from ..types.content import Block

PartKind = Literal["text", "image", "audio", "file", "link"]


@dataclass(frozen=True, slots=True)
class ContentPart:
    """A piece of an answer: text, bytes or a link."""

    kind: PartKind
    text: str = ""
    """The text; the name and description of a link."""
    data: bytes = b""
    """The bytes of an image, audio or file."""
    mime_type: str = ""
    uri: str = ""
    """The address of a link, or of an embedded resource."""

    @property
    def base64(self) -> str:
        """The bytes in Base64."""
        return b64encode(self.data).decode()

    @property
    def data_url(self) -> str:
        """The bytes as a URL, `data:image/png;base64,...`."""
        return f"data:{self.mime_type};base64,{self.base64}"

    def as_text(self) -> str:
        """Return the part for a model that takes only text; of bytes it says type and size."""
        match self.kind:
            case "text":
                return self.text
            case "link":
                return f"{self.text} <{self.uri}>" if self.text else self.uri
            case _:
                return f"[{self.uri or self.kind}: {self.mime_type or 'unknown type'}, {len(self.data)} bytes]"


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The answer to one call: the result of the tool, or an error as text that a model can react to."""

    parts: tuple[ContentPart, ...]
    """The content, in order."""
    is_error: bool = False
    """Whether the tool reported an error, or the call failed without a result."""
    error: ToolcribError | None = None
    """The exception of a call without a result; its `sent` says whether the tool may have run."""
    result: ToolResult | None = None
    """The result of the tool, if there was one."""

    @classmethod
    def from_result(cls, result: ToolResult) -> ToolAnswer:
        """Return the answer for a result. Structured data that no text shows is added as JSON text."""
        parts = tuple(map(_part_of, result.content))
        if result.has_data and not shows(parts, result.data):
            parts = (*parts, ContentPart("text", to_json(result.data)))
        return cls(parts, result.is_error, None, result)

    @classmethod
    def from_error(cls, error: ToolcribError) -> ToolAnswer:
        """Return the answer for a call without a result."""
        return cls((ContentPart("text", describe_error(error)),), is_error=True, error=error)

    @property
    def text(self) -> str:
        """The whole answer as text."""
        return "\n".join(part.as_text() for part in self.parts)

    @property
    def is_text(self) -> bool:
        """Whether all parts are text."""
        return all(part.kind == "text" for part in self.parts)

    @property
    def has_data(self) -> bool:
        """Whether the result has structured data."""
        return self.result is not None and self.result.has_data

    @property
    def data(self) -> Any:
        """The structured data; None if there is none."""
        return None if self.result is None else self.result.data

    @property
    def value(self) -> Any:
        """The answer as one JSON value: the structured data if all content is text, else the text."""
        return self.data if self.has_data and self.is_text and not self.is_error else self.text


def describe_error(error: ToolcribError) -> str:
    """Return the text of an error for a model: what happened, and whether the tool ran."""
    text = str(error) or type(error).__name__
    return f"{text}{'' if text.endswith(('.', '!', '?')) else '.'} {_describe_outcome(error)}"


def _describe_outcome(error: ToolcribError) -> str:
    """Return in one sentence whether the tool ran."""
    if isinstance(error, RemoteError) and error.code == INVALID_PARAMS:
        return "The server rejected the call as invalid."
    if error.sent is None:
        return "It is not known whether the tool ran."
    if error.sent and not isinstance(error, ToolNotFound):
        return "The tool may have run: check before you call it again."
    return "The tool did not run."


def to_json(value: Any) -> str:
    """Return a value as JSON text."""
    return json.dumps(value, ensure_ascii=False, default=str)


def shows(parts: Iterable[ContentPart], data: Any) -> bool:
    """Return whether texts already contain the data: as one JSON text, as a string, or item by item."""
    texts = [part.text for part in parts if part.kind == "text" and not part.uri]
    if any(_is_value(text, data) for text in texts) or (len(texts) > 1 and _is_value("\n".join(texts), data)):
        return True
    return isinstance(data, list) and len(data) == len(texts) > 0 and all(map(_is_value, texts, data))


def _is_value(text: str, value: Any) -> bool:
    if isinstance(value, str):
        return text == value
    try:
        found = orjson.loads(text)
    except ValueError:
        return False
    # FastMCP wraps a value that is not an object; its text is the value itself.
    return bool(found == value or {"result": found} == value)


def _part_of(block: Block) -> ContentPart:
    match block:
        case TextContent(text=text):
            return ContentPart("text", text)
        case ImageContent(data=data, mime_type=mime_type):
            return ContentPart("image", data=data, mime_type=mime_type)
        case AudioContent(data=data, mime_type=mime_type):
            return ContentPart("audio", data=data, mime_type=mime_type)
        case ResourceLink(uri=uri, name=name, description=description, mime_type=mime_type):
            label = ": ".join(part for part in (name, description) if part and part != uri)
            return ContentPart("link", label, uri=uri, mime_type=mime_type or "")
        case EmbeddedResource(resource=resource) if resource.text is not None:
            return ContentPart("text", resource.text, uri=resource.uri, mime_type=resource.mime_type or "")
        case EmbeddedResource(resource=resource) if resource.blob is not None:
            mime_type = resource.mime_type or "application/octet-stream"
            family = mime_type.partition("/")[0]
            kind: PartKind = "image" if family == "image" else "audio" if family == "audio" else "file"
            return ContentPart(kind, data=resource.blob, mime_type=mime_type, uri=resource.uri)
        case _:
            return ContentPart("text", to_json(block.to_wire()))
