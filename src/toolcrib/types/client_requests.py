"""What servers ask and tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from .content import Block, TextContent, block_from_wire
from .wire import Wire, WireMapping, object_of, objects_of, text_of


@dataclass(frozen=True, slots=True)
class SamplingRequest(WireMapping):
    """A server asks for a completion by the client's model."""

    messages: tuple[Wire, ...] = field(hash=False)
    system_prompt: str | None = None
    max_tokens: int | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {"systemPrompt": "system_prompt", "maxTokens": "max_tokens"}

    def _parts(self) -> Wire:
        return {"messages": list(self.messages)}

    @classmethod
    def from_wire(cls, raw: Wire) -> SamplingRequest:
        """Read the params of `sampling/createMessage`."""
        return cls(tuple(objects_of(raw.get("messages"))), raw.get("systemPrompt"), raw.get("maxTokens"), raw)

    @property
    def text(self) -> str:
        """All text of the messages, joined by newlines."""
        contents = (m.get("content") for m in self.messages)
        blocks = (b for c in contents for b in (c if isinstance(c, list) else [c]) if isinstance(b, dict))
        return "\n".join(text_of(b.get("text")) for b in blocks if b.get("type") == "text")


@dataclass(frozen=True, slots=True)
class ElicitRequest(WireMapping):
    """A server asks the person: to fill in a form (`schema`), or to visit `url`, which is never fetched by us."""

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
        """Read the params of `elicitation/create`; no mode means a form."""
        return cls(
            text_of(raw.get("message")),
            object_of(raw.get("requestedSchema")),
            raw.get("mode") or "form",
            raw.get("url"),
            raw,
        )


@dataclass(frozen=True, slots=True)
class ElicitResult:
    """The person's answer."""

    action: Literal["accept", "decline", "cancel"]
    content: Wire | None = field(default=None, hash=False)
    data: Any = field(default=None, hash=False, compare=False)
    """To the server that asked: the content as the type that it asked for, or the content itself."""

    def to_wire(self) -> Wire:
        """The answer as the protocol writes it."""
        wire: Wire = {"action": self.action}
        if self.action == "accept" and self.content is not None:
            wire["content"] = self.content
        return wire

    def to_dict(self) -> Wire:
        """Return the answer as the protocol writes it."""
        return self.to_wire()


@dataclass(frozen=True, slots=True)
class SamplingResult(WireMapping):
    """What the client's model said."""

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
        """Read the answer of `sampling/createMessage`; its content is one block or several."""
        said = raw.get("content")
        blocks = said if isinstance(said, list) else [] if said is None else [said]
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
        """Read an entry of `roots/list`."""
        return cls(text_of(raw.get("uri")), raw.get("name"), raw)


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
