"""Resources, resource templates, and the contents of resources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from .content import ResourceContents
from .wire import Wire, WireMapping, WireValue, objects_of, text_of


@dataclass(frozen=True, slots=True)
class Resource(WireMapping):
    """A resource that a server lists."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    server: str | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {
        "uri": "uri",
        "name": "name",
        "title": "title",
        "description": "description",
        "mimeType": "mime_type",
        "size": "size",
    }

    @classmethod
    def from_wire(cls, raw: Wire) -> Resource:
        """Return a resource from an entry of `resources/list`."""
        return cls(
            uri=text_of(raw.get("uri")),
            name=text_of(raw.get("name")),
            title=raw.get("title"),
            description=text_of(raw.get("description")),
            mime_type=raw.get("mimeType"),
            size=raw.get("size"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class ResourceTemplate(WireMapping):
    """A URI template with `{variables}`, which describes a set of resources."""

    uri_template: str
    name: str = ""
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    server: str | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {
        "uriTemplate": "uri_template",
        "name": "name",
        "title": "title",
        "description": "description",
        "mimeType": "mime_type",
    }

    @classmethod
    def from_wire(cls, raw: Wire) -> ResourceTemplate:
        """Return a template from an entry of `resources/templates/list`."""
        return cls(
            uri_template=text_of(raw.get("uriTemplate")),
            name=text_of(raw.get("name")),
            title=raw.get("title"),
            description=text_of(raw.get("description")),
            mime_type=raw.get("mimeType"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class ReadResourceResult(WireValue):
    """The contents of a resource: one piece or several.

    Iteration yields the pieces, so it is not a mapping; `result["contents"]` and `to_dict()` are the protocol's form.
    """

    contents: tuple[ResourceContents, ...]
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_wire(cls, raw: Wire) -> ReadResourceResult:
        """Return the contents from the response to `resources/read`."""
        return cls(tuple(map(ResourceContents.from_wire, objects_of(raw.get("contents")))), raw)

    @property
    def text(self) -> str:
        """All text pieces, joined by newlines."""
        return "\n".join(piece.text for piece in self.contents if piece.text is not None)

    @property
    def data(self) -> bytes:
        """All pieces as bytes, concatenated, with text in UTF-8."""
        return b"".join((p.text or "").encode() if p.blob is None else p.blob for p in self.contents)

    def _parts(self) -> Wire:
        return {"contents": [piece.to_dict() for piece in self.contents]}

    def __iter__(self) -> Iterator[ResourceContents]:
        return iter(self.contents)

    def __len__(self) -> int:
        return len(self.contents)
