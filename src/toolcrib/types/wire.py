"""Base classes of values from the protocol, and functions to read its JSON."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

Wire = dict[str, Any]


class Unset(enum.Enum):
    """The type of `UNSET`, the value of an option that was not given, where `None` has a meaning."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET


def text_of(value: Any) -> str:
    """Return a string unchanged, and an empty string for anything else."""
    return value if isinstance(value, str) else ""


def object_of(value: Any) -> Wire:
    """Return a dict unchanged, and an empty dict for anything else."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[Wire]:
    """Return the dicts of a list; an empty list for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


class WireValue:
    """A value with read access by the protocol's names, beside its attributes.

    `raw` is what the server sent, unchanged. `[]`, `get` and `to_dict` combine `raw` and the attributes; attributes
    that are not empty take precedence, so `tool["name"]` is `tool.name`, also if a hub has qualified the name.
    """

    __slots__ = ()
    raw: Wire
    _fields: ClassVar[Mapping[str, str]] = {}
    """The protocol's names of fields, each with the attribute that has its value."""

    def _parts(self) -> Wire:
        """Return the fields that are not plain values; called only if `raw` is empty."""
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
    """A `WireValue` that is also a read-only mapping: `"name" in tool`, `dict(tool)`, `len(tool)`.

    It is always true. Values of the same type are compared by their attributes; no value equals a dict.
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
