"""Requests and notifications from servers to clients, and the clients' responses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .content import Block, TextContent, block_from_wire
from .wire import Wire, WireMapping, object_of, objects_of, text_of


@dataclass(frozen=True, slots=True)
class SamplingRequest(WireMapping):
    """A server's request for a completion by the client's model."""

    messages: tuple[Wire, ...] = field(hash=False)
    system_prompt: str | None = None
    max_tokens: int | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {"systemPrompt": "system_prompt", "maxTokens": "max_tokens"}

    def _parts(self) -> Wire:
        return {"messages": list(self.messages)}

    @classmethod
    def from_wire(cls, raw: Wire) -> SamplingRequest:
        """Return a request from the params of `sampling/createMessage`."""
        return cls(tuple(objects_of(raw.get("messages"))), raw.get("systemPrompt"), raw.get("maxTokens"), raw)

    @property
    def text(self) -> str:
        """All text of the messages, joined by newlines."""
        contents = (m.get("content") for m in self.messages)
        blocks = (b for c in contents for b in (c if isinstance(c, list) else [c]) if isinstance(b, dict))
        return "\n".join(text_of(b.get("text")) for b in blocks if b.get("type") == "text")


@dataclass(frozen=True, slots=True)
class ElicitRequest(WireMapping):
    """A server's request to the user: to fill in a form (`schema`), or to visit `url`, which Toolcrib never fetches."""

    message: str
    schema: Wire = field(default_factory=dict, hash=False)
    mode: str = "form"
    url: str | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {"message": "message", "requestedSchema": "schema", "url": "url"}

    def _parts(self) -> Wire:
        return {"mode": self.mode}

    @classmethod
    def from_wire(cls, raw: Wire) -> ElicitRequest:
        """Return a request from the params of `elicitation/create`; the default mode is `form`."""
        return cls(
            text_of(raw.get("message")),
            object_of(raw.get("requestedSchema")),
            raw.get("mode") or "form",
            raw.get("url"),
            raw,
        )


@dataclass(frozen=True, slots=True)
class ElicitResult:
    """The user's answer to an `ElicitRequest`."""

    action: Literal["accept", "decline", "cancel"]
    content: Wire | None = field(default=None, hash=False)
    data: Any = field(default=None, hash=False, compare=False)
    """On the server side: the content converted to the requested type, or the content itself."""

    def to_wire(self) -> Wire:
        """Return the answer in the protocol's form."""
        wire: Wire = {"action": self.action}
        if self.action == "accept" and self.content is not None:
            wire["content"] = self.content
        return wire

    def to_dict(self) -> Wire:
        """Return the answer in the protocol's form."""
        return self.to_wire()


@dataclass(frozen=True, slots=True)
class SamplingResult(WireMapping):
    """The completion by the client's model, the answer to a `SamplingRequest`."""

    role: str
    content: tuple[Block, ...] = field(hash=False)
    model: str = ""
    stop_reason: str | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {"role": "role", "model": "model", "stopReason": "stop_reason"}

    def _parts(self) -> Wire:
        blocks = [block.to_dict() for block in self.content]
        return {"content": blocks[0] if len(blocks) == 1 else blocks}

    @classmethod
    def from_wire(cls, raw: Wire) -> SamplingResult:
        """Return a result from the response to `sampling/createMessage`, whose content is one block or a list."""
        content = raw.get("content")
        blocks = content if isinstance(content, list) else [] if content is None else [content]
        return cls(
            text_of(raw.get("role")),
            tuple(map(block_from_wire, blocks)),
            text_of(raw.get("model")),
            raw.get("stopReason"),
            raw,
        )

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextContent))


@dataclass(frozen=True, slots=True)
class Root(WireMapping):
    """A directory or file that the client works with."""

    uri: str
    name: str | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {"uri": "uri", "name": "name"}

    @classmethod
    def from_wire(cls, raw: Wire) -> Root:
        """Return a root from an entry of `roots/list`."""
        return cls(text_of(raw.get("uri")), raw.get("name"), raw)


@dataclass(frozen=True, slots=True)
class LogMessage:
    """A log message that the server sent to the client."""

    level: str
    data: Any = None
    logger: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """A change on the server: of a list (`tools`, `prompts`, `resources`), or of the `resource` at `uri`."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    uri: str | None = None
