"""What all values from the wire have in common."""

from __future__ import annotations

import enum
from typing import Any, Final

Wire = dict[str, Any]


class Unset(enum.Enum):
    """The type of `UNSET`: an option that was not given, where `None` means something of its own."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


def text_of(value: Any) -> str:
    """A text, or an empty one where the wire has something else."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Wire:
    """An object, or an empty one."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[Wire]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class FromWire:
    """Reading by the wire's own names."""

    __slots__ = ()
    raw: Wire

    def __getitem__(self, key: str) -> Any:
        return self.raw[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The wire's field of that name, or `default`."""
        return self.raw.get(key, default)
