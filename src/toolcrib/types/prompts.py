"""Prompts and completions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from .content import Block, TextContent, block_from_wire
from .wire import Wire, WireMapping, object_of, objects_of, text_of


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """One argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False

    def to_dict(self) -> Wire:
        """Return the argument in the protocol's form."""
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
        """Return a prompt from an entry of `prompts/list`."""
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
        """Return the message in the protocol's form."""
        return dict(self.raw) if self.raw else {"role": self.role, "content": self.content.to_dict()}


@dataclass(frozen=True, slots=True)
class GetPromptResult(WireMapping):
    """A prompt's messages, with its name and the arguments of the request."""

    name: str
    messages: tuple[PromptMessage, ...]
    arguments: Mapping[str, str] = field(default_factory=dict, hash=False)
    description: str = ""
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {"name": "name", "description": "description"}

    def _parts(self) -> Wire:
        return {"messages": [message.to_dict() for message in self.messages], "arguments": dict(self.arguments)}

    @classmethod
    def from_wire(cls, name: str, arguments: Mapping[str, str], raw: Wire) -> GetPromptResult:
        """Return a result from the response to `prompts/get`."""
        messages = tuple(
            PromptMessage(text_of(m.get("role")), block_from_wire(m.get("content")), m)
            for m in objects_of(raw.get("messages"))
        )
        wire = {**raw, "name": name, "arguments": dict(arguments)}
        return cls(name, messages, dict(arguments), text_of(raw.get("description")), wire)

    @property
    def text(self) -> str:
        """All text of the messages, joined by newlines."""
        return "\n".join(m.content.text for m in self.messages if isinstance(m.content, TextContent))


@dataclass(frozen=True, slots=True)
class Completion:
    """Suggestions for the value of an argument."""

    values: tuple[str, ...] = ()
    total: int | None = None
    has_more: bool = False

    @classmethod
    def from_wire(cls, raw: Wire) -> Completion:
        """Return a completion from the response to `completion/complete`."""
        found = object_of(raw.get("completion"))
        values = found.get("values")
        return cls(
            tuple(v for v in values if isinstance(v, str)) if isinstance(values, list) else (),
            found.get("total"),
            found.get("hasMore") is True,
        )

    def to_dict(self) -> Wire:
        """Return the completion in the protocol's form."""
        wire: Wire = {"values": list(self.values), "hasMore": self.has_more}
        if self.total is not None:
            wire["total"] = self.total
        return {"completion": wire}
