"""Changing a settings file in place: only the server that is meant changes, every other byte stays.

A broken file is never written to. What was written means what was wanted and nothing else: it is read back before it
takes the old one's place, which it does in one step. Who writes at the same time does not lose anything.
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
from ..documents import UNEDITABLE, Document, Table, decoded, place_of, read_content
from ..formats import find_sections, format_named, format_of, section_for_new
from ..keys import NULLABLE, NULLABLE_RETRIES
from ..load import read_root
from . import jsonc as edit_jsonc

_PATIENCE: Final = 10.0
"""Seconds to wait for somebody else of us who is writing into the same folder."""

_TRIES: Final = 10
"""How often an edit is made anew because another program wrote meanwhile."""


def put_servers(
    path: Path,
    servers: Mapping[str, Mapping[str, Any]],
    *,
    format: str | None = None,
    replace: bool = False,
    private: bool = False,
) -> dict[str, int]:
    """Put these entries into the file, which is made where there is none: the line of each.

    A name that is there already is a `ConfigError`, unless `replace` is given. `private`: a new file is for its owner's
    eyes only.
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
    """Take these entries out of the file. One that is not there is a `ConfigError`, and nothing is changed then."""
    kind = format_named(format) if format is not None else format_of(path)

    def change(document: Document) -> str:
        for name in names:
            root = read_root(document)
            # Of several sections the last one is the one that holds.
            paths = [each.path for each in find_sections(kind, root, document, Path.cwd()) if name in each.servers]
            if not paths:
                raise document.error(f"there is no server {one_line(name, 80)}", expected="a server of this file")
            document = _changed(document, root, (*paths[-1], name), None)
        return document.text

    edit(path, change)


def edit(path: Path, change: Callable[[Document], str], *, private: bool = False) -> Document:
    """Change a file's text, in one step; a file that is not there is empty before. What it holds then.

    A symbolic link stays one, and the file keeps its permissions. `change` is asked again if another program writes
    meanwhile.
    """
    target = _real(path)
    try:
        with _locked(target.parent):
            for _ in range(_TRIES):
                before = read_content(path) if target.exists() else None
                document = decoded(path, before or b"")
                text = change(document)
                if before is not None and text == document.text:
                    return document
                mark = BOM_UTF8 if (before or b"").startswith(BOM_UTF8) else b""
                if _exchanged(target, before, mark + _encoded(document, text), private):
                    return Document(path, text)
    except OSError as exc:
        message = f"cannot be written: {exc.strerror or type(exc).__name__}"
        raise Document(path).error(message, expected="a file that can be written") from exc
    raise Document(path).error("other programs write to it all the time: try again", expected="nobody else's writes")


def _real(path: Path) -> Path:
    """The file itself, behind links."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError):  # before Python 3.13, which gives what it has got
        target = path
    if target.is_symlink():
        raise Document(path).error("cannot be written: its links go in a circle", expected="a file")
    return target


def _encoded(document: Document, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    # Raised out here, because an encode error carries the whole text.
    raise document.error("cannot hold what is no Unicode text", expected="Unicode text")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone among us in this folder. Where no lock can be had, the comparison before the last step has to do."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + _PATIENCE
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
    """Whether the file has this content now; not if it is not what it was `before`."""
    seen = target.stat() if before is not None else None
    if seen is not None and not os.access(target, os.W_OK):
        raise PermissionError(None, "it is read-only")
    new = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    mode = 0o600 if private or seen is not None else 0o666
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            if seen is not None:
                with suppress(PermissionError):  # somebody else's file in a folder of ours
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
        raise document.error(f"{name} is there twice: expected it once", offset=offset, expected="it once")
    if place[-1] in above and not replace:
        raise document.error(f"there is a server {name} already", offset=offset, expected="another name")


def _changed(document: Document, root: Any, place: tuple[str, ...], values: Mapping[str, Any] | None) -> Document:
    """Return the document with these values at this place, or with nothing there, and with nothing else changed.

    The new text is read back: if it does not mean exactly that, `ConfigError`.
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
        message = "changing TOML needs tomlkit, the extra `cli`: pip install tomlkit"
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
    """Without the section, if nothing is in it: in TOML it is there by its servers alone."""
    if not section or not isinstance(root.get(section[0]), dict):
        return root
    inner = _without_empty(root[section[0]], section[1:])
    others = {key: item for key, item in root.items() if key != section[0]}
    return {**others, section[0]: inner} if inner else others


def _plain(values: Any, is_toml: bool) -> Any:
    """Dicts and lists of what the format can hold: TOML has no null, and says none where nothing means something."""
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
