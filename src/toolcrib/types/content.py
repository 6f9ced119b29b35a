"""Content blocks of results, prompts and resources."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Any

from ..errors import UsageError
from .wire import Wire, text_of


class _Content:
    """The base class of content blocks."""

    __slots__ = ()

    def to_wire(self) -> Wire:
        """Return the content in the protocol's form; it may be `raw` itself."""
        raise NotImplementedError

    def to_dict(self) -> Wire:
        """Return the content in the protocol's form, as a new dict that `json.dumps` accepts."""
        return dict(self.to_wire())


@dataclass(frozen=True, slots=True)
class TextContent(_Content):
    """A block of text."""

    text: str
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    def to_wire(self) -> Wire:
        """Return the block in the protocol's form."""
        return self.raw or {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class ImageContent(_Content):
    """An image: its bytes (base64 text is decoded) and its MIME type."""

    data: bytes = field(repr=False)
    mime_type: str = "image/png"
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.data) is not bytes:
            object.__setattr__(self, "data", _bytes_of(self.data, "ImageContent.data"))

    def to_wire(self) -> Wire:
        """Return the block in the protocol's form."""
        return self.raw or {"type": "image", "data": b64encode(self.data).decode(), "mimeType": self.mime_type}


@dataclass(frozen=True, slots=True)
class AudioContent(_Content):
    """Audio: its bytes (base64 text is decoded) and its MIME type."""

    data: bytes = field(repr=False)
    mime_type: str = "audio/wav"
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.data) is not bytes:
            object.__setattr__(self, "data", _bytes_of(self.data, "AudioContent.data"))

    def to_wire(self) -> Wire:
        """Return the block in the protocol's form."""
        return self.raw or {"type": "audio", "data": b64encode(self.data).decode(), "mimeType": self.mime_type}


@dataclass(frozen=True, slots=True)
class ResourceLink(_Content):
    """A link to a resource that can be read from the same server."""

    uri: str
    name: str = ""
    mime_type: str | None = None
    description: str = ""
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    def to_wire(self) -> Wire:
        """Return the block in the protocol's form."""
        if self.raw:
            return self.raw
        wire: Wire = {"type": "resource_link", "uri": self.uri, "name": self.name or self.uri}
        if self.mime_type:
            wire["mimeType"] = self.mime_type
        if self.description:
            wire["description"] = self.description
        return wire


@dataclass(frozen=True, slots=True)
class ResourceContents(_Content):
    """One piece of a resource: `text`, or `blob` if it is binary (base64 text is decoded)."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: bytes | None = field(default=None, repr=False)
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.blob is not None and type(self.blob) is not bytes:
            object.__setattr__(self, "blob", _bytes_of(self.blob, "ResourceContents.blob"))

    @classmethod
    def from_wire(cls, raw: Wire) -> ResourceContents:
        """Return a piece from an entry of `contents`; if its base64 is invalid, `blob` is None and `raw` is kept."""
        text, blob = raw.get("text"), raw.get("blob")
        return cls(
            uri=text_of(raw.get("uri")),
            mime_type=raw.get("mimeType"),
            text=text if isinstance(text, str) else None,
            blob=_decoded(blob) if isinstance(blob, str) else None,
            raw=raw,
        )

    def to_wire(self) -> Wire:
        """Return the piece in the protocol's form."""
        if self.raw:
            return self.raw
        wire: Wire = {"uri": self.uri}
        if self.mime_type:
            wire["mimeType"] = self.mime_type
        if self.blob is not None:
            wire["blob"] = b64encode(self.blob).decode()
        else:
            wire["text"] = self.text or ""
        return wire


@dataclass(frozen=True, slots=True)
class EmbeddedResource(_Content):
    """A resource that is embedded in a result."""

    resource: ResourceContents
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    def to_wire(self) -> Wire:
        """Return the block in the protocol's form."""
        return self.raw or {"type": "resource", "resource": self.resource.to_wire()}


@dataclass(frozen=True, slots=True)
class UnknownContent(_Content):
    """A block of an unknown type, or a malformed one, as it was received."""

    type: str
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    def to_wire(self) -> Wire:
        """Return the block as it was received."""
        return self.raw


Block = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource | UnknownContent


def _bytes_of(value: Any, field_name: str) -> bytes:
    """Return `value` as bytes, decoded if it is base64 text; raise `UsageError` for anything else."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise UsageError(f"{field_name}: expected bytes or base64 text, got {type(value).__name__}")
    decoded = _decoded(value)
    if decoded is None:
        raise UsageError(f"{field_name}: expected bytes or base64 text, got text that is not base64")
    return decoded


def _decoded(data: str) -> bytes | None:
    """Decode base64, with or without line breaks; return None if it contains other characters."""
    try:
        return b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def block_from_wire(raw: Any) -> Block:
    """Return a content block from its protocol form; an unknown or malformed one becomes an `UnknownContent`."""
    if not isinstance(raw, dict):
        return UnknownContent("", {"value": raw})
    kind = raw.get("type")
    if kind == "text" and isinstance(raw.get("text"), str):
        return TextContent(raw["text"], raw)
    if kind in ("image", "audio") and isinstance(raw.get("data"), str):
        data = _decoded(raw["data"])
        if data is not None:
            return (ImageContent if kind == "image" else AudioContent)(data, text_of(raw.get("mimeType")), raw)
    if kind == "resource_link" and isinstance(raw.get("uri"), str):
        return ResourceLink(
            raw["uri"], text_of(raw.get("name")), raw.get("mimeType"), text_of(raw.get("description")), raw
        )
    if kind == "resource" and isinstance(raw.get("resource"), dict):
        return EmbeddedResource(ResourceContents.from_wire(raw["resource"]), raw)
    return UnknownContent(text_of(kind), raw)
