"""The tools, resources, templates or prompts of a server: by name, in order, in pages."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, Protocol, TypeVar

from ..._util.suggest import did_you_mean, similar_names
from ...errors import NotFound, RemoteError, ResourceNotFound, ToolNotFound
from ...protocol.jsonrpc import INVALID_PARAMS
from ...protocol.sanitize import one_line
from ...types import Wire

log = logging.getLogger("toolcrib.server")


class Component(Protocol):
    """A component of a server that has an entry in a list."""

    @property
    def wire(self) -> Wire:
        """The entry in the list, as it is sent."""
        ...


T = TypeVar("T", bound=Component)

_ERRORS: dict[str, type[NotFound]] = {"tool": ToolNotFound, "resource": ResourceNotFound}


MAX_SHOWN: Final = 128
"""Characters of an unknown name that an error repeats."""


class ComponentCollection(Generic[T]):
    """Components of one kind in the order of their addition. Thread-safe; calls `on_change` after each change."""

    __slots__ = ("_changed", "_items", "_last", "_serials", "kind")

    def __init__(self, kind: str, on_change: Callable[[], None]) -> None:
        self.kind = kind
        self._changed = on_change
        self._items: dict[str, T] = {}
        self._serials: dict[str, int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._items.values()))

    def get(self, name: Any) -> T | None:
        """Return the component with this name, or None."""
        return self._items.get(name) if type(name) is str else None

    def put(self, name: str, item: T) -> None:
        """Add a component. One that already has the name is replaced; its place in the order stays."""
        if name in self._items:
            log.warning("the %s %r already existed and was replaced", self.kind, name)
        else:
            self._last += 1
            self._serials[name] = self._last
        self._items[name] = item
        self._changed()

    def remove(self, name: str) -> None:
        """Remove the component with this name; raises `NotFound` if there is none."""
        if self._items.pop(name, None) is None:
            nearest = self.nearest(name)
            error = _ERRORS.get(self.kind, NotFound)
            raise error(f"there is no {self.kind} {name!r} to remove{did_you_mean(nearest)}", nearest=nearest)
        self._serials.pop(name, None)
        self._changed()

    def nearest(self, name: Any) -> tuple[str, ...]:
        """Return the names that are most similar to this one, best first."""
        return similar_names(name, tuple(self._items)) if isinstance(name, str) else ()

    def page(self, cursor: Any, size: int | None) -> tuple[list[Wire], str | None]:
        """Return the entries after a cursor, and the cursor of the next page if there is one.

        A cursor is the serial number of the last entry, so no entry is skipped if components are added or removed
        between two pages.
        """
        after = 0 if cursor is None else self._serial_of(cursor)
        serials = self._serials
        entries = [(serials.get(name, 0), item) for name, item in tuple(self._items.items())]
        if after:
            entries = [entry for entry in entries if entry[0] > after]
        if size is None or len(entries) <= size:
            return [item.wire for _, item in entries], None
        entries = entries[:size]
        return [item.wire for _, item in entries], _encode_cursor(self.kind, entries[-1][0])

    def _serial_of(self, cursor: Any) -> int:
        kind, _, serial = _decode_cursor(cursor).partition(":")
        if kind == self.kind and len(serial) < 19 and serial.isascii() and serial.isdigit():
            return int(serial)
        raise RemoteError(INVALID_PARAMS, "cursor: expected a cursor that this server returned")


def _encode_cursor(kind: str, serial: int) -> str:
    return base64.urlsafe_b64encode(f"{kind}:{serial}".encode()).decode()


def _decode_cursor(cursor: Any) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode() if isinstance(cursor, str) else ""
    except ValueError:
        return ""


def shown(name: Any) -> str:
    """Return a name of a request as an error repeats it: on one line, and cut if it is long."""
    return one_line(name, MAX_SHOWN) if isinstance(name, str) else type(name).__name__
