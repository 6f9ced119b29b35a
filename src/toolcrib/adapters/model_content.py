"""Content of answers, prepared for model APIs: which parts are sent as images and documents, and the rest as text."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..types import UNSET, Unset
from .answers import ContentPart, ToolAnswer, shows, to_json

EMPTY: Final = "The tool returned no content."
"""The text of an answer without content: the APIs reject empty texts."""

IMAGE_FORMATS: Final = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
"""The images that all model APIs accept."""

_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
DOCUMENT_FORMATS: Final = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    f"{_OFFICE}.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    f"{_OFFICE}.spreadsheetml.sheet": "xlsx",
    "application/vnd.ms-powerpoint": "ppt",
    f"{_OFFICE}.presentationml.presentation": "pptx",
    "application/rtf": "rtf",
    "application/vnd.oasis.opendocument.text": "odt",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
"""MIME types of documents, with the endings of their files."""

_GEMINI_MEDIA: Final = ("image/", "audio/", "video/", "application/pdf")
"""The beginnings of the MIME types that Gemini's function responses take."""

_SIGNATURES: Final = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


def media_type(part: ContentPart) -> str:
    """Return the MIME type of a part without parameters, in lower case.

    The type of an image is read from its first bytes, if they are known: an API rejects the whole request if it differs
    from what the server says.
    """
    essence = part.mime_type.partition(";")[0].strip().lower()
    if part.kind != "image":
        return essence
    if part.data[:4] == b"RIFF" and part.data[8:12] == b"WEBP":
        return "image/webp"
    known = next((kind for signature, kind in _SIGNATURES if part.data.startswith(signature)), "")
    return known or {"image/jpg": "image/jpeg"}.get(essence, essence)


def is_image(part: ContentPart, max_bytes: int | None = None) -> bool:
    """Return whether all model APIs accept a part as an image; `max_bytes` is the limit of one API."""
    fits = max_bytes is None or len(part.data) <= max_bytes
    return part.kind == "image" and bool(part.data) and fits and media_type(part) in IMAGE_FORMATS


def is_gemini_media(part: ContentPart) -> bool:
    """Return whether Gemini accepts a part as media in the response of a function."""
    return is_image(part) or (bool(part.data) and part.kind != "image" and media_type(part).startswith(_GEMINI_MEDIA))


def describe(part: ContentPart) -> str:
    """Return a part as text: text with its address, binary data that is text decoded, and of other bytes the size."""
    text = part.as_text()
    if part.kind == "text":
        return f"{part.uri}:\n{text}" if part.uri else text
    if part.kind == "file" and re.match(r"text/|application/(.*\+)?(json|xml|yaml)$", media_type(part)):
        try:
            return f"{part.uri}:\n{part.data.decode()}" if part.uri else part.data.decode()
        except UnicodeDecodeError:
            return text
    return text


def file_name(part: ContentPart, ending: str) -> str:
    """Return the name of a document: the last part of its address, or `document`, with an ending."""
    path = unquote(urlsplit(part.uri).path) if part.uri else ""
    name = path.rstrip("/").rpartition("/")[2] or "document"
    return name if "." in name else f"{name}.{ending}"


def shown_parts(answer: ToolAnswer) -> list[ContentPart]:
    """Return the parts of an answer for an API that rejects empty texts; there is at least one part."""
    parts = [part for part in answer.parts if part.kind != "text" or part.text.strip()]
    return parts or [ContentPart("text", EMPTY)]


def split_data(answer: ToolAnswer) -> tuple[list[ContentPart], Any | Unset]:
    """Return the parts of an answer and its structured data, for an API that takes both.

    Texts that only repeat the data are left out. Without data, or in an error, it is `UNSET`.
    """
    parts = shown_parts(answer)
    if not answer.has_data or answer.is_error:
        return parts, UNSET
    shown = to_json(answer.data)
    parts = [part for part in parts if part.text != shown or part.kind != "text"]
    if shows(parts, answer.data):
        parts = [part for part in parts if part.kind != "text" or part.uri]
    return parts, answer.data


def answer_text(answer: ToolAnswer, parts: list[ContentPart] | None = None) -> str:
    """Return an answer, or these parts of it, as text that says if it is an error, for APIs without a flag for it."""
    text = "\n".join(map(describe, shown_parts(answer) if parts is None else parts))
    return f"Error: {text}" if answer.is_error and not text.lower().startswith("error") else text
