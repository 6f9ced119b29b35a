"""Limits how much of a result a model gets at once, and keeps the rest, so that the model can read on."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ..catalog.tokens import BYTES_PER_TOKEN
from ..errors import UsageError
from ..types import Tool
from .answers import ContentPart, ToolAnswer
from .model_content import describe, is_image, shown_parts

MAX_KEPT_RESULTS: Final = 64
"""Cut texts and left-out files that are kept for one source; the oldest are forgotten first."""
MAX_KEPT_BYTES: Final = 16 * 2**20
"""Their total size for one source."""
IMAGE_TOKENS: Final = 1600
"""What an image costs at most in common models, which scale larger ones down."""

_TEXTUAL: Final = frozenset({"text", "link"})

READ_MORE: Final = Tool(
    "read_more",
    description="Read the rest of a tool result that was cut, or a file that was left out of it. "
    "The result says which handle and offset to use.",
    input_schema={
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "The handle that the result gave"},
            "offset": {"type": "integer", "minimum": 0, "description": "The character at which to continue"},
        },
        "required": ["handle"],
    },
    annotations={"readOnlyHint": True},
)


class KeptResults:
    """What models did not get of the results of one source, by handle; bounded in number and size."""

    def __init__(self, max_results: int = MAX_KEPT_RESULTS, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_results = max_results
        self._max_bytes = max_bytes
        self._parts: OrderedDict[str, ContentPart] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, part: ContentPart) -> str | None:
        """Keep a part and return its handle; None if it is larger than all that may be kept."""
        size = _size(part)
        if size > self._max_bytes:
            return None
        handle = secrets.token_hex(8)
        with self._lock:
            self._parts[handle] = part
            self._bytes += size
            while self._bytes > self._max_bytes or len(self._parts) > self._max_results:
                self._bytes -= _size(self._parts.popitem(last=False)[1])
        return handle

    def get(self, handle: object) -> ContentPart | None:
        """Return a part by its handle, if it is still kept."""
        with self._lock:
            if not isinstance(handle, str) or handle not in self._parts:
                return None
            self._parts.move_to_end(handle)
            return self._parts[handle]


def check_budget(max_tokens: object) -> None:
    """Raise `UsageError` for an invalid budget."""
    if max_tokens is not None and (isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1):
        raise UsageError(f"max_result_tokens: expected a whole number from 1 on, or None, got {max_tokens!r}")


def limit_answer(
    answer: ToolAnswer, max_tokens: int | None, kept: KeptResults, reader: str = READ_MORE.name
) -> ToolAnswer:
    """Return an answer that fits the budget, apart from the notes that say how to read the rest.

    `reader` is the name under which the model has `READ_MORE`. An answer that fits is returned unchanged. Otherwise its
    text is cut, and images and files that do not fit are replaced by notes. What was left out is kept.
    """
    parts = shown_parts(answer)
    if max_tokens is None or sum(map(_cost, parts)) <= max_tokens:
        return answer
    texts = [part for part in parts if part.kind in _TEXTUAL]
    shown: list[ContentPart] = []
    left = float(max_tokens)
    if sum(map(_cost, texts)) > left:
        whole = ContentPart("text", "\n".join(map(describe, texts)))
        shown.append(ContentPart("text", _piece(whole.text, 0, max_tokens, kept.add(whole), reader)))
        parts = [part for part in parts if part.kind not in _TEXTUAL]
        left = 0
    for part in parts:
        if part.kind in _TEXTUAL or _cost(part) <= left:
            left -= _cost(part)
            shown.append(part)
        else:
            shown.append(_left_out(part, max_tokens, kept, reader))
    return replace(answer, parts=tuple(shown), result=None)


def answer_read_more(
    arguments: Mapping[str, Any], max_tokens: int | None, kept: KeptResults, reader: str = READ_MORE.name
) -> ToolAnswer:
    """Return the answer to a call of `READ_MORE`: the next piece of a text that fits the budget, or a whole file."""
    handle, offset = arguments.get("handle"), arguments.get("offset")
    part = kept.get(handle)
    if part is None:
        return _error(f"handle: {handle!r} is not known, or its result is no longer kept. Call the tool again.")
    if part.kind != "text":
        return ToolAnswer((part,))
    offset = 0 if offset is None else offset
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < len(part.text):
        return _error(f"offset: expected a number from 0 to {len(part.text) - 1}, got {offset!r}")
    return ToolAnswer((ContentPart("text", _piece(part.text, offset, max_tokens, str(handle), reader)),))


def _piece(text: str, start: int, max_tokens: int | None, handle: str | None, reader: str) -> str:
    """Return the text from `start` on, as much as fits the budget, and a note if it is not the end."""
    if max_tokens is None:
        return text[start:]
    size = max(4, int(max_tokens * BYTES_PER_TOKEN))  # at least one character
    window = text[start : start + size].encode("utf-8", "replace")
    end = start + len(window[:size].decode("utf-8", "ignore"))
    if end >= len(text):
        return text[start:]
    read = (
        "The rest is too large to be kept: ask the tool for less."
        if handle is None
        else f'Read on with {reader}: {{"handle": "{handle}", "offset": {end}}}'
    )
    return f"{text[start:end]}\n[Cut: characters {start} to {end} of {len(text)}. {read}]"


def _left_out(part: ContentPart, max_tokens: int, kept: KeptResults, reader: str) -> ContentPart:
    handle = kept.add(part)
    read = "" if handle is None else f' Get it with {reader}: {{"handle": "{handle}"}}'
    return ContentPart("text", f"{part.as_text()} [Left out: more than {max_tokens} tokens.{read}]")


def _cost(part: ContentPart) -> float:
    """Return an estimate of the tokens of a part."""
    if is_image(part):
        return IMAGE_TOKENS
    data = part.data if part.kind in ("image", "audio", "file") else describe(part).encode("utf-8", "replace")
    return len(data) / BYTES_PER_TOKEN


def _size(part: ContentPart) -> int:
    return len(part.data) + 4 * len(part.text)  # a character takes up to four bytes


def _error(text: str) -> ToolAnswer:
    return ToolAnswer((ContentPart("text", f"{READ_MORE.name}: {text}"),), is_error=True)
