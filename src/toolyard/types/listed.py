"""Resources, prompts and completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from .blocks import Block, ResourceContent, Text, block_from_wire
from .wire import Wire, WireMapping, WireValue, object_of, objects_of, text_of


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
        """Read an entry of a resources list."""
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
    """A family of resources: a URI with `{variables}`."""

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
        """Read an entry of a templates list."""
        return cls(
            uri_template=text_of(raw.get("uriTemplate")),
            name=text_of(raw.get("name")),
            title=raw.get("title"),
            description=text_of(raw.get("description")),
            mime_type=raw.get("mimeType"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class ResourceContents(WireValue):
    """What reading a resource gave: one piece or several.

    Iterating it gives the pieces, so it is no mapping; `contents["contents"]` and `to_dict()` are the protocol's form.
    """

    contents: tuple[ResourceContent, ...]
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_wire(cls, raw: Wire) -> ResourceContents:
        """Read the answer of `resources/read`."""
        return cls(tuple(map(ResourceContent.from_wire, objects_of(raw.get("contents")))), raw)

    @property
    def text(self) -> str:
        """All text pieces, joined by newlines."""
        return "\n".join(piece.text for piece in self.contents if piece.text is not None)

    @property
    def data(self) -> bytes:
        """All pieces as bytes, text in UTF-8, one after the other."""
        return b"".join((p.text or "").encode() if p.blob is None else p.blob for p in self.contents)

    def _parts(self) -> Wire:
        return {"contents": [piece.to_dict() for piece in self.contents]}

    def __iter__(self) -> Iterator[ResourceContent]:
        return iter(self.contents)

    def __len__(self) -> int:
        return len(self.contents)


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument that a prompt takes."""

    name: str
    description: str = ""
    required: bool = False

    def to_dict(self) -> Wire:
        """Return the argument as the protocol writes it."""
        wire: Wire = {"name": self.name}
        if self.description:
            wire["description"] = self.description
        if self.required:
            wire["required"] = True
        return wire


@dataclass(frozen=True, slots=True)
class Prompt(WireMapping):
    """A prompt that a server lists."""

    name: str
    title: str | None = None
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    server: str | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {"name": "name", "title": "title", "description": "description"}

    def _parts(self) -> Wire:
        return {"arguments": [argument.to_dict() for argument in self.arguments]} if self.arguments else {}

    @classmethod
    def from_wire(cls, raw: Wire) -> Prompt:
        """Read an entry of a prompts list."""
        return cls(
            name=text_of(raw.get("name")),
            title=raw.get("title"),
            description=text_of(raw.get("description")),
            arguments=tuple(
                PromptArgument(text_of(a.get("name")), text_of(a.get("description")), a.get("required") is True)
                for a in objects_of(raw.get("arguments"))
            ),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt."""

    role: str
    content: Block
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    def to_dict(self) -> Wire:
        """Return the message as the protocol writes it."""
        return dict(self.raw) if self.raw else {"role": self.role, "content": self.content.to_dict()}


@dataclass(frozen=True, slots=True)
class PromptResult(WireMapping):
    """A prompt filled in: its name, the arguments it was asked for with, and the messages."""

    name: str
    messages: tuple[PromptMessage, ...]
    arguments: Mapping[str, str] = field(default_factory=dict, hash=False)
    description: str = ""
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {"name": "name", "description": "description"}

    def _parts(self) -> Wire:
        return {"messages": [message.to_dict() for message in self.messages], "arguments": dict(self.arguments)}

    @classmethod
    def from_wire(cls, name: str, arguments: Mapping[str, str], raw: Wire) -> PromptResult:
        """Read the answer of `prompts/get`."""
        messages = tuple(
            PromptMessage(text_of(m.get("role")), block_from_wire(m.get("content")), m)
            for m in objects_of(raw.get("messages"))
        )
        wire = {**raw, "name": name, "arguments": dict(arguments)}
        return cls(name, messages, dict(arguments), text_of(raw.get("description")), wire)

    @property
    def text(self) -> str:
        """All text of the messages, joined by newlines."""
        return "\n".join(m.content.text for m in self.messages if isinstance(m.content, Text))


@dataclass(frozen=True, slots=True)
class Completion:
    """Suggestions for the value of an argument."""

    values: tuple[str, ...] = ()
    total: int | None = None
    has_more: bool = False

    @classmethod
    def from_wire(cls, raw: Wire) -> Completion:
        """Read the answer of `completion/complete`."""
        found = object_of(raw.get("completion"))
        values = found.get("values")
        return cls(
            tuple(v for v in values if isinstance(v, str)) if isinstance(values, list) else (),
            found.get("total"),
            found.get("hasMore") is True,
        )

    def to_dict(self) -> Wire:
        """Return the answer of `completion/complete` as the protocol writes it."""
        wire: Wire = {"values": list(self.values), "hasMore": self.has_more}
        if self.total is not None:
            wire["total"] = self.total
        return {"completion": wire}
