"""The output of results: text is printed, images and sounds are saved to files, data is printed as JSON."""

from __future__ import annotations

import contextlib
import itertools
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

_MAX_NAME: Final = 60
_SUFFIX: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}")  # of a file; a folder may be called v1.2
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


def names_file(path: Path) -> bool:
    """Return whether a path looks like that of a file: it has a suffix such as .png, and is not a folder."""
    return _SUFFIX.fullmatch(path.suffix) is not None and not path.is_dir()


def count_files(result: ToolResult) -> int:
    """Return how many blocks of a result are saved to files."""
    embedded = (block.resource for block in result.content if isinstance(block, EmbeddedResource))
    blobs = sum(resource.blob is not None for resource in embedded)
    return blobs + sum(isinstance(block, ImageContent | AudioContent) for block in result.content)


def save(data: bytes, mime_type: str | None, place: Path, name: str) -> Path:
    """Save bytes and print where. In a folder a new file is made; a file that `place` names itself is overwritten."""
    folder = place.parent if names_file(place) else place
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if names_file(place):
            place.write_bytes(data)
            path = place
        else:
            path = _write_new(data, folder, slug(name)[:_MAX_NAME].lstrip("-") or "file", extension_of(mime_type))
    except OSError as exc:
        message = f"cannot save to {folder}: {exc.strerror}"
        raise CliError(
            message,
            hint="--output of call and read names another place; prompt saves in the current folder",
            code=Exit.FAILED,
        ) from None
    say(f"saved {path} ({cell(mime_type or 'unknown type')}, {len(data):,} bytes)")
    return path


def _write_new(data: bytes, folder: Path, base: str, extension: str) -> Path:
    """Write bytes to a new file, with a number in its name if the name is taken, and return its path."""
    for count in itertools.count(1):
        path = folder / f"{base}{'' if count == 1 else f'-{count}'}{extension}"
        with contextlib.suppress(FileExistsError), path.open("xb") as file:
            file.write(data)
            return path
    raise AssertionError  # the loop has no end


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
