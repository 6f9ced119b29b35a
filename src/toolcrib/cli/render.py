"""The output of results: text is printed, images and sounds are saved to files, data is printed as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from ..tool_names import slug
from ..types import (
    AudioContent,
    Block,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResult,
)
from .console import cell, is_terminal, say, show_json, show_text, stdout
from .exit_codes import CliError, Exit

_LONGEST: Final = 60
# Not from `mimetypes`, whose table differs from machine to machine.
_EXTENSIONS: Final = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "audio/wav": ".wav",
    "audio/x-wav": ".wav",
    "audio/mpeg": ".mp3",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "video/mp4": ".mp4",
    "application/pdf": ".pdf",
    "application/json": ".json",
    "application/zip": ".zip",
    "application/gzip": ".gz",
    "text/plain": ".txt",
    "text/html": ".html",
    "text/csv": ".csv",
    "text/markdown": ".md",
}


def show_result(result: ToolResult, folder: Path, name: str) -> None:
    """Print every block and the structured data, without the one that only repeats the other."""
    data = _only_text(result.data)
    is_text = isinstance(data, str)
    repeats = [
        isinstance(block, TextContent) and result.has_data and _says(block.text, result) for block in result.content
    ]
    for block, repeated in zip(result.content, repeats, strict=True):
        if is_text or not repeated:
            show_block(block, folder, name)
    if result.has_data and not (is_text and any(repeats)):
        show_json(result.data)


def _only_text(data: Any) -> Any:
    """Return the text if the data consists of nothing else; else the data."""
    values = list(data.values()) if isinstance(data, dict) else []
    return values[0] if len(values) == 1 and isinstance(values[0], str) else data


def _says(text: str, result: ToolResult) -> bool:
    if text == _only_text(result.data):
        return True
    try:
        return bool(json.loads(text) in (result.data, result.raw["structuredContent"]))
    except ValueError:
        return False


def show_block(block: Block, folder: Path, name: str) -> None:
    """Print a block, or save it to a file named after `name`."""
    match block:
        case TextContent(text=text):
            show_text(text)
        case ImageContent(data=data, mime_type=mime_type) | AudioContent(data=data, mime_type=mime_type):
            save(data, mime_type, folder, name)
        case ResourceLink(uri=uri, name=called, description=description):
            about = " - ".join(part for part in (called, description) if part and part != uri)
            say(f"{cell(uri)}  {cell(about)}".rstrip())
        case EmbeddedResource(resource=resource):
            show_piece(resource, folder)
        case _:
            show_json(block.to_wire())


def show_piece(piece: ResourceContents, folder: Path) -> None:
    """Print a part of a resource, or save it to a file."""
    if piece.blob is not None:
        save(piece.blob, piece.mime_type, folder, _name_in(piece.uri))
    elif piece.text is not None:
        show_text(piece.text)
    else:
        show_json(piece.to_wire())


def save(data: bytes, mime_type: str | None, folder: Path, name: str) -> Path:
    """Save bytes to a new file in the folder and print its name. Never overwrites a file."""
    base, extension = slug(name)[:_LONGEST].lstrip("-") or "file", extension_of(mime_type)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        count = 1
        while True:
            path = folder / f"{base}{'' if count == 1 else f'-{count}'}{extension}"
            try:
                with path.open("xb") as file:
                    file.write(data)
            except FileExistsError:
                count += 1
                continue
            break
    except OSError as exc:
        message = f"cannot save to {folder}: {exc.strerror}"
        raise CliError(
            message,
            hint="--output of call and read names another place; prompt saves in the current folder",
            code=Exit.FAILED,
        ) from None
    say(f"saved {path} ({cell(mime_type or 'unknown type')}, {len(data):,} bytes)")
    return path


def write_bytes(data: bytes, path: Path) -> None:
    """Write bytes unchanged to a file, or to standard output if `path` is `-`."""
    if str(path) == "-":
        if is_terminal():
            message = "refusing to write raw bytes to a terminal: they may contain control sequences"
            raise CliError(message, hint="-o FILE saves them; or redirect the output")
        stdout().flush()
        stdout().buffer.write(data)
        stdout().buffer.flush()
        return
    try:
        path.write_bytes(data)
    except OSError as exc:
        raise CliError(f"cannot write {path}: {exc.strerror}", code=Exit.FAILED) from None


def extension_of(mime_type: Any) -> str:
    """Return the extension of files of this type; only harmless ones, so that no server can create executable files."""
    essence = str(mime_type or "").partition(";")[0].strip().lower()
    return _EXTENSIONS.get(essence, ".bin")


def _name_in(uri: str) -> str:
    """Return the last meaningful part of a URI's path, without its extension."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return "resource"
    words = [word for word in re.split(r"[/\\]", unquote(f"{parts.netloc}/{parts.path}")) if word.strip(".")]
    return Path(words[-1]).stem if words else "resource"
