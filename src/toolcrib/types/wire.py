"""What all values from the wire have in common."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

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


class WireValue:
    """Read access by the names that the protocol uses, next to the attributes.

    `raw` is what the server sent, unchanged. `[]`, `get` and `to_dict` answer with `raw` and the attributes: an
    attribute that is not empty wins, so `tool["name"]` is `tool.name`, also where a hub has qualified the name.
    """

    __slots__ = ()
    raw: Wire
    _fields: ClassVar[Mapping[str, str]] = {}
    """The protocol's name of a field -> the attribute that holds it."""

    def _parts(self) -> Wire:
        """Return the fields that are not plain values; called only if there is no `raw` to take them from."""
        return {}

    def __getitem__(self, key: str) -> Any:
        attribute = self._fields.get(key)
        if attribute is not None:
            value = getattr(self, attribute)
            if value is not None and value != "" and value != {}:
                return value
        return (self.raw or self._parts())[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return the field with the protocol's name `key`, or `default`."""
        try:
            return self[key]
        except KeyError:
            return default

    def to_dict(self) -> Wire:
        """Return the protocol's form as a new dict that `json.dumps` accepts. Nested values are not copied."""
        wire = dict(self.raw or self._parts())
        for key, attribute in self._fields.items():
            value = getattr(self, attribute)
            if value is not None and value != "" and value != {}:
                wire[key] = value
        return wire


class WireMapping(WireValue, Mapping[str, Any]):
    """A `WireValue` that is a read-only mapping as a whole: `"name" in tool`, `dict(tool)`, `len(tool)`.

    Always true, as a value without `len` is. Values of the same type compare by their attributes; no value equals a
    dict.
    """

    __slots__ = ()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the field with the protocol's name `key`, or `default`."""
        return WireValue.get(self, key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())

    def __bool__(self) -> bool:
        return True
