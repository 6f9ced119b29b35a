"""Edits settings files in place: only the given servers change, every other byte stays.

An invalid file is never written to. The new text is parsed and compared with the intended settings before it replaces
the file atomically. Changes that other programs make at the same time are not lost.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ...errors import ConfigError
from ...protocol.sanitize import one_line
from ..documents import UNEDITABLE, Document, Table, decode_document, place_of, read_content
from ..formats import find_sections, format_named, format_of, section_for_new
from ..keys import NULLABLE, NULLABLE_RETRIES
from ..load import read_root
from . import jsonc as edit_jsonc

_LOCK_TIMEOUT: Final = 10.0
"""Seconds to wait for another Toolcrib process that is writing in the same folder."""

_MAX_ATTEMPTS: Final = 10
"""Attempts at an edit while other programs keep writing to the file."""


def put_servers(
    path: Path,
    servers: Mapping[str, Mapping[str, Any]],
    *,
    format: str | None = None,
    replace: bool = False,
    private: bool = False,
) -> dict[str, int]:
    """Write these entries to the file, which is created if it is missing; return the line of each.

    A name that exists already raises `ConfigError`, unless `replace` is True. With `private`, a new file is readable by
    its owner only.
    """
    kind = format_named(format) if format is not None else format_of(path)
    wanted = {name: _plain(values, _is_toml(path)) for name, values in servers.items()}
    places: dict[str, tuple[str, ...]] = {}

    def change(document: Document) -> str:
        if not document.text.strip() and not _is_toml(path):
            document = Document(path, "{}\n")
        for name, values in wanted.items():
            root = read_root(document)
            section = next((each.path for each in find_sections(kind, root, document, None)), None)
            places[name] = (*(section_for_new(kind, path) if section is None else section), name)
            _check_place(document, root, places[name], replace)
            document = _changed(document, root, places[name], values)
        return document.text

    document = edit(path, change, private=private)
    root = read_root(document)
    return {name: document.line(place_of(root, *place)) or 1 for name, place in places.items()}


def remove_servers(path: Path, names: Collection[str], *, format: str | None = None) -> None:
    """Remove these entries from the file; if one is missing, raise `ConfigError` and change nothing."""
    kind = format_named(format) if format is not None else format_of(path)

    def change(document: Document) -> str:
        for name in names:
            root = read_root(document)
            # If several sections have the server, the last one is in force.
            paths = [each.path for each in find_sections(kind, root, document, Path.cwd()) if name in each.servers]
            if not paths:
                raise document.error(f"no server {one_line(name, 80)}", expected="a server of this file")
            document = _changed(document, root, (*paths[-1], name), None)
        return document.text

    edit(path, change)


def edit(path: Path, change: Callable[[Document], str], *, private: bool = False) -> Document:
    """Replace a file's text by the result of `change`, atomically, and return the new document.

    `change` gets an empty document if the file is missing, and is called again if another program wrote to the file in
    the meantime. Symbolic links and the file's permissions are kept.
    """
    target = _real(path)
    try:
        with _locked(target.parent):
            for _ in range(_MAX_ATTEMPTS):
                before = read_content(path) if target.exists() else None
                document = decode_document(path, before or b"")
                text = change(document)
                if before is not None and text == document.text:
                    return document
                mark = BOM_UTF8 if (before or b"").startswith(BOM_UTF8) else b""
                if _exchanged(target, before, mark + _encoded(document, text), private):
                    return Document(path, text)
    except OSError as exc:
        message = f"cannot be written: {exc.strerror or type(exc).__name__}"
        raise Document(path).error(message, expected="a file that can be written") from exc
    raise Document(path).error("other programs keep writing to it: try again", expected="no concurrent writes")


def _real(path: Path) -> Path:
    """Return the path with all symbolic links resolved."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError):  # a circle of links; since Python 3.13, `resolve` returns the link instead
        target = path
    if target.is_symlink():
        raise Document(path).error("cannot be written: circular symbolic links", expected="a file")
    return target


def _encoded(document: Document, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    # Raised outside the `except` block: a chained encode error would contain the whole text.
    raise document.error("the new text is not valid Unicode (it contains lone surrogates)", expected="Unicode text")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock this folder against other Toolcrib processes; if it cannot be locked, `_exchanged` still detects changes."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _LOCK_TIMEOUT
        while time.monotonic() < deadline:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:  # a file system without locks
                break
            else:
                break
        yield
    finally:
        os.close(descriptor)


def _exchanged(target: Path, before: bytes | None, content: bytes, private: bool) -> bool:
    """Replace the file's content; return False, and leave the file alone, if its content is no longer `before`."""
    seen = target.stat() if before is not None else None
    if seen is not None and not os.access(target, os.W_OK):
        raise PermissionError(None, "it is read-only")
    new = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    mode = 0o600 if private or seen is not None else 0o666
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            if seen is not None:
                with suppress(PermissionError):  # the file belongs to another user
                    os.fchown(descriptor, seen.st_uid, seen.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(seen.st_mode))
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        if (target.read_bytes() if target.exists() else None) != before:
            return False
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
    return True


def _check_place(document: Document, root: Any, place: tuple[str, ...], replace: bool) -> None:
    above = root
    for key in place[:-1]:
        above = above.get(key) or {}
    name, offset = one_line(place[-1], 80), place_of(root, *place)
    if isinstance(above, Table) and place[-1] in above.repeats:
        first = document.line(above.repeats[place[-1]])
        message = f"duplicate name {name} (first defined on line {first})"
        raise document.error(message, offset=offset, expected="each name once")
    if place[-1] in above and not replace:
        raise document.error(f"a server {name} exists already", offset=offset, expected="another name")


def _changed(document: Document, root: Any, place: tuple[str, ...], values: Mapping[str, Any] | None) -> Document:
    """Return the document with these values at this place, or without the place if `values` is None.

    The new text is parsed again: if anything else changed, `ConfigError` is raised.
    """
    editor = _toml_editor() if document.path is not None and _is_toml(document.path) else edit_jsonc
    text = editor.remove(document, place) if values is None else editor.put(document, place, values)
    changed = Document(document.path, text)
    section = place[:-1]
    if _without_empty(read_root(changed), section) != _without_empty(_expected(root, place, values), section):
        expected = "a file that can be edited in place"
        raise document.error(UNEDITABLE, offset=place_of(root, *place), expected=expected)
    return changed


def _toml_editor() -> ModuleType:
    try:
        from . import toml  # noqa: PLC0415  # tomlkit is an extra, and slow to load
    except ImportError as exc:
        message = "editing TOML needs tomlkit (the extra `cli`): pip install tomlkit"
        raise ConfigError(message, expected="tomlkit") from exc
    return toml


def _expected(root: Any, place: tuple[str, ...], values: Mapping[str, Any] | None) -> Any:
    above = wanted = deepcopy(root)
    for key in place[:-1]:
        if above.get(key) is None:
            above[key] = {}
        above = above[key]
    if values is None:
        above.pop(place[-1], None)
    else:
        above[place[-1]] = values
    return wanted


def _without_empty(root: Any, section: tuple[str, ...]) -> Any:
    """Return the value without the section if that is empty: in TOML, a section exists only with servers in it."""
    if not section or not isinstance(root.get(section[0]), dict):
        return root
    inner = _without_empty(root[section[0]], section[1:])
    others = {key: item for key, item in root.items() if key != section[0]}
    return {**others, section[0]: inner} if inner else others


def _plain(values: Any, is_toml: bool) -> Any:
    """Return the values as dicts and lists; TOML has no null, so there a meaningful None becomes `"none"`."""
    if isinstance(values, Mapping):
        kept = {key: _plain(item, is_toml) for key, item in values.items()}
        if is_toml:
            nullable = {*NULLABLE, NULLABLE_RETRIES[-1]}
            kept = {key: "none" if item is None and key in nullable else item for key, item in kept.items()}
            kept = {key: item for key, item in kept.items() if item is not None}
        return kept
    if isinstance(values, list | tuple):
        return [_plain(item, is_toml) for item in values]
    return values


def _is_toml(path: Path) -> bool:
    return path.suffix.lower() == ".toml"
