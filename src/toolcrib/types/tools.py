"""Tools and their results."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from ..errors import ToolFailed
from .content import (
    AudioContent,
    Block,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    block_from_wire,
)
from .wire import UNSET, Wire, WireMapping, object_of, text_of


@dataclass(frozen=True, slots=True)
class Tool(WireMapping):
    """A tool as its server describes it; also a mapping with the protocol's names, such as `tool["inputSchema"]`.

    In a hub, `name` and `tool["name"]` are the qualified name; `original_name` and `raw["name"]` are the server's name.
    """

    name: str
    title: str | None = None
    description: str = ""
    input_schema: Wire = field(default_factory=dict, hash=False)
    output_schema: Wire | None = field(default=None, hash=False)
    annotations: Wire = field(default_factory=dict, hash=False)
    meta: Wire = field(default_factory=dict, hash=False)
    server: str | None = None
    original_name: str | None = None
    raw: Wire = field(default_factory=dict, repr=False, compare=False)

    _fields: ClassVar = {
        "name": "name",
        "title": "title",
        "description": "description",
        "inputSchema": "input_schema",
        "outputSchema": "output_schema",
        "annotations": "annotations",
        "_meta": "meta",
    }

    @classmethod
    def from_wire(cls, raw: Wire) -> Tool:
        """Return a tool from an entry of `tools/list`; a missing name becomes an empty one."""
        output = raw.get("outputSchema")
        return cls(
            name=text_of(raw.get("name")),
            title=raw.get("title"),
            description=text_of(raw.get("description")),
            input_schema=object_of(raw.get("inputSchema")),
            output_schema=output if isinstance(output, dict) else None,
            annotations=object_of(raw.get("annotations")),
            meta=object_of(raw.get("_meta")),
            raw=raw,
        )

    @property
    def wraps_result(self) -> bool:
        """Whether the output schema says that a scalar result is wrapped in `{"result": ...}`."""
        return self.output_schema is not None and any(self.output_schema.get(mark) is True for mark in _WRAP_MARKS)


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


_WRAP_MARKS = ("x-toolcrib-wrap-result", "x-fastmcp-wrap-result")

WRAPPED = "dev.toolcrib/wrapped"
"""The key in a result's `_meta` that marks a wrapped scalar, for callers without the output schema."""


class ToolResult(WireMapping):
    """The result of a tool call. Blocks are parsed on access, and unknown ones are kept.

    `elapsed` is the time of the whole call in seconds, including waiting and retries. A result is also a mapping with
    the protocol's names: `result["content"]`, `result.get("isError")`.
    """

    __slots__ = ("_content", "_wrapped", "elapsed", "raw")

    def __init__(self, raw: Wire, *, elapsed: float = 0.0, wrapped: bool = False) -> None:
        self.raw = raw
        self.elapsed = elapsed
        self._wrapped = wrapped
        self._content: tuple[Block, ...] | None = None

    @classmethod
    def from_text(cls, text: str, *, is_error: bool = False) -> ToolResult:
        """Return a result with one block of text."""
        return cls.from_blocks([TextContent(text)], is_error=is_error)

    @classmethod
    def from_error(cls, message: str) -> ToolResult:
        """Return a result that reports an error of the tool, which the model can read and react to."""
        return cls.from_text(message, is_error=True)

    @classmethod
    def from_blocks(cls, blocks: Iterable[Block], *, data: Any = UNSET, is_error: bool = False) -> ToolResult:
        """Return a result with these blocks and, if given, structured data."""
        raw: Wire = {"content": [block.to_wire() for block in blocks]}
        if data is not UNSET:
            raw["structuredContent"] = data
        if is_error:
            raw["isError"] = True
        return cls(raw)

    @property
    def content(self) -> tuple[Block, ...]:
        """All blocks, in order."""
        if self._content is None:
            blocks = self.raw.get("content")
            self._content = tuple(map(block_from_wire, blocks)) if isinstance(blocks, list) else ()
        return self._content

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        blocks = self.raw.get("content")
        if not isinstance(blocks, list):
            return ""
        # Most results are one text, so it is read from `raw` without creating blocks.
        return "\n".join([b["text"] for b in blocks if _is_text(b)])

    @property
    def has_data(self) -> bool:
        """Whether the result has structured data; if so, `data` may still be None, for null."""
        return "structuredContent" in self.raw

    @property
    def data(self) -> Any:
        """The structured data, with a wrapped scalar unwrapped; None if there is none."""
        data = self.raw.get("structuredContent")
        if isinstance(data, dict) and data.keys() == {"result"} and (self._wrapped or self._marked_as_wrapped()):
            return data["result"]
        return data

    def _marked_as_wrapped(self) -> bool:
        meta = self.meta
        return meta.get(WRAPPED) is True or object_of(meta.get("fastmcp")).get("wrap_result") is True

    @property
    def is_error(self) -> bool:
        """Whether the tool reported an error."""
        return self.raw.get("isError") is True

    @property
    def meta(self) -> Wire:
        """The result's `_meta`."""
        return object_of(self.raw.get("_meta"))

    def raise_for_error(self) -> ToolResult:
        """Raise `ToolFailed` if the tool reported an error; else return the result itself."""
        if self.is_error:
            raise ToolFailed(self.text or "the tool reported an error without a text", result=self)
        return self

    def to_tool_result(self, tool_use_id: str) -> Wire:
        """Return the result for Bedrock's Converse API and Strands: `{"status", "toolUseId", "content"}`.

        Text becomes `{"text": ...}`, a PNG, JPEG, GIF or WebP image `{"image": {"format", "source": {"bytes"}}}`. All
        other blocks become text; for binary data, the text has only the type and the size. Structured data without
        blocks becomes JSON text.
        """
        content = [_converse(block) for block in self.content]
        if not content and self.has_data:
            content = [{"text": _json(self.data)}]
        return {"status": "error" if self.is_error else "success", "toolUseId": tool_use_id, "content": content}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolResult) and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]  # its wire form is a dict

    def __repr__(self) -> str:
        shown = self.text if len(self.text) <= 80 else self.text[:77] + "..."
        return f"ToolResult(text={shown!r}, is_error={self.is_error}, blocks={len(self.content)})"


_FORMATS: Final = {
    "image/gif": "gif",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/png": "png",
    "image/webp": "webp",
}
"""The image formats that models accept, by MIME type; an image of another type makes the API reject the request."""


def _converse(block: Block) -> Wire:
    match block:
        case TextContent(text=text):
            return {"text": text}
        case ImageContent(data=data, mime_type=mime_type):
            return _converse_bytes("image", data, mime_type)
        case AudioContent(data=data, mime_type=mime_type):
            return {"text": _summary("audio", data, mime_type)}
        case ResourceLink(uri=uri, name=name, description=description):
            called = ": ".join(part for part in (name, description) if part and part != uri)
            return {"text": f"{called} <{uri}>" if called else uri}
        case EmbeddedResource(resource=resource) if resource.text is not None:
            return {"text": resource.text}
        case EmbeddedResource(resource=resource) if resource.blob is not None:
            return _converse_bytes(resource.uri or "resource", resource.blob, resource.mime_type)
        case _:
            return {"text": _json(block.to_wire())}


def _converse_bytes(what: str, data: bytes, mime_type: Any) -> Wire:
    essence = text_of(mime_type).partition(";")[0].strip().lower()
    if essence in _FORMATS:
        return {"image": {"format": _FORMATS[essence], "source": {"bytes": data}}}
    if essence.startswith("text/") or essence.endswith(("json", "xml")):
        with contextlib.suppress(UnicodeDecodeError):
            return {"text": data.decode()}
    return {"text": _summary(what, data, mime_type)}


def _summary(what: str, data: bytes, mime_type: Any) -> str:
    return f"[{what}: {text_of(mime_type) or 'unknown type'}, {len(data)} bytes]"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
