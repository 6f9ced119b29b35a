"""The frozen values that Toolyard takes and gives.

What came over the wire keeps its wire form in `raw` and also answers `value["wireName"]` and `value.get("wireName")`, so code
written for plain dicts goes on working and no field that a newer server sends is lost.
"""

from __future__ import annotations

import binascii
import enum
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from .errors import ToolFailed

Wire = dict[str, Any]


class Unset(enum.Enum):
    """The type of `UNSET`: an option that was not given, where `None` means something of its own."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> Wire:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Wire]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class _FromWire:
    """Reading by the wire's own names."""

    __slots__ = ()
    raw: Wire

    def __getitem__(self, key: str) -> Any:
        return self.raw[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The wire's field of that name, or `default`."""
        return self.raw.get(key, default)


def _raw() -> Any:
    return field(default_factory=dict, repr=False, compare=False)


# ---- content blocks ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A block of text."""

    text: str
    raw: Wire = _raw()

    def to_wire(self) -> Wire:
        """The block as the protocol writes it."""
        return self.raw or {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class Image:
    """A picture: its bytes and its MIME type."""

    data: bytes = field(repr=False)
    mime_type: str = "image/png"
    raw: Wire = _raw()

    def to_wire(self) -> Wire:
        """The block as the protocol writes it."""
        return self.raw or {"type": "image", "data": b64encode(self.data).decode(), "mimeType": self.mime_type}


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound: its bytes and its MIME type."""

    data: bytes = field(repr=False)
    mime_type: str = "audio/wav"
    raw: Wire = _raw()

    def to_wire(self) -> Wire:
        """The block as the protocol writes it."""
        return self.raw or {"type": "audio", "data": b64encode(self.data).decode(), "mimeType": self.mime_type}


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A pointer to a resource that can be read from the same server."""

    uri: str
    name: str = ""
    mime_type: str | None = None
    description: str = ""
    raw: Wire = _raw()

    def to_wire(self) -> Wire:
        """The block as the protocol writes it."""
        if self.raw:
            return self.raw
        wire: Wire = {"type": "resource_link", "uri": self.uri, "name": self.name or self.uri}
        if self.mime_type:
            wire["mimeType"] = self.mime_type
        if self.description:
            wire["description"] = self.description
        return wire


@dataclass(frozen=True, slots=True)
class ResourceContent:
    """One piece of a resource: `text`, or `blob` when it is binary."""

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: bytes | None = field(default=None, repr=False)
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, raw: Wire) -> ResourceContent:
        """Read one entry of `contents`; base64 that does not decode leaves `blob` empty, `raw` whole."""
        text, blob = raw.get("text"), raw.get("blob")
        return cls(
            uri=_text(raw.get("uri")),
            mime_type=raw.get("mimeType"),
            text=text if isinstance(text, str) else None,
            blob=_decoded(blob) if isinstance(blob, str) else None,
            raw=raw,
        )

    def to_wire(self) -> Wire:
        """The piece as the protocol writes it."""
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
class EmbeddedResource:
    """A resource that travels inside of a result."""

    resource: ResourceContent
    raw: Wire = _raw()

    def to_wire(self) -> Wire:
        """The block as the protocol writes it."""
        return self.raw or {"type": "resource", "resource": self.resource.to_wire()}


@dataclass(frozen=True, slots=True)
class UnknownBlock:
    """A block that this version does not know or that is malformed: kept as it came."""

    type: str
    raw: Wire = _raw()

    def to_wire(self) -> Wire:
        """The block as it came."""
        return self.raw


Block = Text | Image | Audio | ResourceLink | EmbeddedResource | UnknownBlock


def _decoded(data: str) -> bytes | None:
    try:
        return b64decode(data)
    except (binascii.Error, ValueError):
        return None


def block_from_wire(raw: Any) -> Block:
    """One content block; what cannot be understood becomes an `UnknownBlock`, never nothing."""
    if not isinstance(raw, dict):
        return UnknownBlock("", {"value": raw})
    kind = raw.get("type")
    if kind == "text" and isinstance(raw.get("text"), str):
        return Text(raw["text"], raw)
    if kind in ("image", "audio") and isinstance(raw.get("data"), str):
        data = _decoded(raw["data"])
        if data is not None:
            return (Image if kind == "image" else Audio)(data, _text(raw.get("mimeType")), raw)
    if kind == "resource_link" and isinstance(raw.get("uri"), str):
        return ResourceLink(raw["uri"], _text(raw.get("name")), raw.get("mimeType"), _text(raw.get("description")), raw)
    if kind == "resource" and isinstance(raw.get("resource"), dict):
        return EmbeddedResource(ResourceContent.from_wire(raw["resource"]), raw)
    return UnknownBlock(_text(kind), raw)


# ---- tools ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tool(_FromWire):
    """A tool as its server describes it. In a hub, `name` is the qualified name and `original_name` the server's own."""

    name: str
    title: str | None = None
    description: str = ""
    input_schema: Wire = field(default_factory=dict, hash=False)
    output_schema: Wire | None = field(default=None, hash=False)
    annotations: Wire = field(default_factory=dict, hash=False)
    meta: Wire = field(default_factory=dict, hash=False)
    server: str | None = None
    original_name: str | None = None
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, raw: Wire) -> Tool:
        """Read an entry of a tools list; a tool without a name gets an empty one."""
        output = raw.get("outputSchema")
        return cls(
            name=_text(raw.get("name")),
            title=raw.get("title"),
            description=_text(raw.get("description")),
            input_schema=_object(raw.get("inputSchema")),
            output_schema=output if isinstance(output, dict) else None,
            annotations=_object(raw.get("annotations")),
            meta=_object(raw.get("_meta")),
            raw=raw,
        )

    @property
    def wraps_result(self) -> bool:
        """Whether a scalar result travels inside of `{"result": ...}`, as the output schema marks it."""
        return self.output_schema is not None and any(self.output_schema.get(mark) is True for mark in _WRAP_MARKS)


_WRAP_MARKS = ("x-toolyard-wrap-result", "x-fastmcp-wrap-result")


class ToolResult:
    """What a tool answered. Blocks are parsed when they are looked at; nothing is dropped.

    `elapsed` is the time of the whole call in seconds, waiting and retries included.
    """

    __slots__ = ("_content", "_wrapped", "elapsed", "raw")

    def __init__(self, raw: Wire, *, elapsed: float = 0.0, wrapped: bool = False) -> None:
        self.raw = raw
        self.elapsed = elapsed
        self._wrapped = wrapped
        self._content: tuple[Block, ...] | None = None

    @classmethod
    def from_text(cls, text: str, *, is_error: bool = False) -> ToolResult:
        """A result of one block of text."""
        return cls.from_blocks([Text(text)], is_error=is_error)

    @classmethod
    def from_error(cls, message: str) -> ToolResult:
        """A tool's own error, which a model can read and mend."""
        return cls.from_text(message, is_error=True)

    @classmethod
    def from_blocks(cls, blocks: Iterable[Block], *, data: Any = UNSET, is_error: bool = False) -> ToolResult:
        """A result of any blocks, with structured data beside them if given."""
        raw: Wire = {"content": [block.to_wire() for block in blocks]}
        if data is not UNSET:
            raw["structuredContent"] = data
        if is_error:
            raw["isError"] = True
        return cls(raw)

    @property
    def content(self) -> tuple[Block, ...]:
        """Every block, in order."""
        if self._content is None:
            blocks = self.raw.get("content")
            self._content = tuple(map(block_from_wire, blocks)) if isinstance(blocks, list) else ()
        return self._content

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def has_data(self) -> bool:
        """Whether structured data came; `data` may be a null that means something."""
        return "structuredContent" in self.raw

    @property
    def data(self) -> Any:
        """The structured data, a wrapped scalar unwrapped; None if there is none."""
        data = self.raw.get("structuredContent")
        if isinstance(data, dict) and data.keys() == {"result"} and (self._wrapped or self._marked_as_wrapped()):
            return data["result"]
        return data

    def _marked_as_wrapped(self) -> bool:
        mark = _object(_object(self.raw.get("_meta")).get("fastmcp"))
        return mark.get("wrap_result") is True

    @property
    def is_error(self) -> bool:
        """Whether the tool said that it failed."""
        return self.raw.get("isError") is True

    @property
    def meta(self) -> Wire:
        """The result's `_meta`."""
        return _object(self.raw.get("_meta"))

    def raise_for_error(self) -> ToolResult:
        """Raise `ToolFailed` if the tool said that it failed; else give the result itself."""
        if self.is_error:
            raise ToolFailed(self.text or "the tool reported an error without a text", result=self)
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolResult) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]  # its wire form is a dict

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return f"ToolResult(text={shown!r}, is_error={self.is_error}, blocks={len(self.content)})"


# ---- resources and prompts -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Resource(_FromWire):
    """A resource that a server lists."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    size: int | None = None
    server: str | None = None
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, raw: Wire) -> Resource:
        """Read an entry of a resources list."""
        return cls(
            uri=_text(raw.get("uri")),
            name=_text(raw.get("name")),
            title=raw.get("title"),
            description=_text(raw.get("description")),
            mime_type=raw.get("mimeType"),
            size=raw.get("size"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class ResourceTemplate(_FromWire):
    """A family of resources: a URI with `{variables}`."""

    uri_template: str
    name: str = ""
    title: str | None = None
    description: str = ""
    mime_type: str | None = None
    server: str | None = None
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, raw: Wire) -> ResourceTemplate:
        """Read an entry of a templates list."""
        return cls(
            uri_template=_text(raw.get("uriTemplate")),
            name=_text(raw.get("name")),
            title=raw.get("title"),
            description=_text(raw.get("description")),
            mime_type=raw.get("mimeType"),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class ResourceContents(_FromWire):
    """What reading a resource gave: one piece or several."""

    contents: tuple[ResourceContent, ...]
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, raw: Wire) -> ResourceContents:
        """Read the answer of `resources/read`."""
        return cls(tuple(map(ResourceContent.from_wire, _objects(raw.get("contents")))), raw)

    @property
    def text(self) -> str:
        """All text pieces, joined by newlines."""
        return "\n".join(piece.text for piece in self.contents if piece.text is not None)

    @property
    def data(self) -> bytes:
        """All pieces as bytes, text in UTF-8, one after the other."""
        return b"".join((p.text or "").encode() if p.blob is None else p.blob for p in self.contents)

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


@dataclass(frozen=True, slots=True)
class Prompt(_FromWire):
    """A prompt that a server lists."""

    name: str
    title: str | None = None
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    server: str | None = None
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, raw: Wire) -> Prompt:
        """Read an entry of a prompts list."""
        return cls(
            name=_text(raw.get("name")),
            title=raw.get("title"),
            description=_text(raw.get("description")),
            arguments=tuple(
                PromptArgument(_text(a.get("name")), _text(a.get("description")), a.get("required") is True)
                for a in _objects(raw.get("arguments"))
            ),
            raw=raw,
        )


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt."""

    role: str
    content: Block
    raw: Wire = _raw()


@dataclass(frozen=True, slots=True)
class PromptResult(_FromWire):
    """A prompt filled in: its name, the arguments it was asked for with, and the messages."""

    name: str
    messages: tuple[PromptMessage, ...]
    arguments: Mapping[str, str] = field(default_factory=dict, hash=False)
    description: str = ""
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, name: str, arguments: Mapping[str, str], raw: Wire) -> PromptResult:
        """Read the answer of `prompts/get`."""
        messages = tuple(
            PromptMessage(_text(m.get("role")), block_from_wire(m.get("content")), m)
            for m in _objects(raw.get("messages"))
        )
        wire = {**raw, "name": name, "arguments": dict(arguments)}
        return cls(name, messages, dict(arguments), _text(raw.get("description")), wire)

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
        found = _object(raw.get("completion"))
        values = found.get("values")
        return cls(
            tuple(v for v in values if isinstance(v, str)) if isinstance(values, list) else (),
            found.get("total"),
            found.get("hasMore") is True,
        )


# ---- the server, its connection ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Who answers at the other end, as it says itself. For people to read, not to decide by."""

    name: str = ""
    version: str = ""
    title: str | None = None
    protocol_version: str = ""
    capabilities: Wire = field(default_factory=dict, hash=False)
    instructions: str | None = None


class State(enum.StrEnum):
    """The one vocabulary for the state of a connection, a hub's server and a source."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DEGRADED = "degraded"
    FAILED = "failed"
    NEEDS_AUTH = "needs-auth"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Status:
    """A state, why, and since when (seconds of the epoch, for people; no deadline is measured by it)."""

    state: State
    reason: str = ""
    since: float = 0.0

    def __str__(self) -> str:
        return f"{self.state} ({self.reason})" if self.reason else str(self.state)


@dataclass(frozen=True, slots=True)
class ReconnectPolicy:
    """How a lost connection is made again: `base_delay`, doubled up to `max_delay`, give or take `jitter_factor`."""

    base_delay: float = 1.0
    max_delay: float = 30.0
    max_retries: int = 3
    jitter_factor: float = 0.3


@dataclass(frozen=True, slots=True)
class FilterContext:
    """What a dynamic tool filter sees of the one who asks."""

    agent: Any = None
    server_name: str | None = None
    run_context: Any = None


# ---- what servers ask and tell -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SamplingRequest(_FromWire):
    """A server asks for a completion by the client's model."""

    messages: tuple[Wire, ...] = field(hash=False)
    system_prompt: str | None = None
    max_tokens: int | None = None
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, raw: Wire) -> SamplingRequest:
        """Read the params of `sampling/createMessage`."""
        return cls(tuple(_objects(raw.get("messages"))), raw.get("systemPrompt"), raw.get("maxTokens"), raw)

    @property
    def text(self) -> str:
        """All text of the messages, joined by newlines."""
        contents = (m.get("content") for m in self.messages)
        blocks = (b for c in contents for b in (c if isinstance(c, list) else [c]) if isinstance(b, dict))
        return "\n".join(_text(b.get("text")) for b in blocks if b.get("type") == "text")


@dataclass(frozen=True, slots=True)
class ElicitRequest(_FromWire):
    """A server asks the person: to fill in a form (`schema`), or to visit `url`, which is never fetched by us."""

    message: str
    schema: Wire = field(default_factory=dict, hash=False)
    mode: str = "form"
    url: str | None = None
    raw: Wire = _raw()

    @classmethod
    def from_wire(cls, raw: Wire) -> ElicitRequest:
        """Read the params of `elicitation/create`; no mode means a form."""
        return cls(
            _text(raw.get("message")),
            _object(raw.get("requestedSchema")),
            raw.get("mode") or "form",
            raw.get("url"),
            raw,
        )


@dataclass(frozen=True, slots=True)
class ElicitResult:
    """The person's answer."""

    action: Literal["accept", "decline", "cancel"]
    content: Wire | None = field(default=None, hash=False)

    def to_wire(self) -> Wire:
        """The answer as the protocol writes it."""
        wire: Wire = {"action": self.action}
        if self.action == "accept" and self.content is not None:
            wire["content"] = self.content
        return wire


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A line that the server logs for us."""

    level: str
    data: Any = None
    logger: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Something changed at the server: a list (`tools`, `prompts`, `resources`), or the one `resource` at `uri`."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    uri: str | None = None
