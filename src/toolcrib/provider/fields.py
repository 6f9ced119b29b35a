"""Reads typed fields of JSON objects. Errors name the path of the field, what is expected, and its line in the file.

Errors never quote a value, because it may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeVar

from .._util.suggest import find_misspelled, suggest
from ..config import wrong
from ..errors import ConfigError
from ..protocol.sanitize import one_line
from ..settings.documents import Document, Table, place_of

MAX_ITEMS: Final = 1_000
"""The most items of a list."""
MAX_TEXT: Final = 64 * 1024
"""The most characters of a text."""

T = TypeVar("T", bound=str)

_UNUSABLE: Final = re.compile("[\0\ud800-\udfff]")


def field_error(key: str, expected: str, advice: str = "", *, got: str = "") -> ConfigError:
    """Return an error `key: expected X, got Y. Advice`."""
    message = f"{key}: expected {expected}" + (f", got {got}" if got else "") + (f". {advice}" if advice else "")
    return ConfigError(message, key=key, expected=expected)


def is_text(value: Any) -> bool:
    """Return whether a value is a string that can be passed to a process and stored."""
    return isinstance(value, str) and len(value) <= MAX_TEXT and _UNUSABLE.search(value) is None


class Fields:
    """The fields of one JSON object, and where they are: `path` in the document, and the document itself."""

    def __init__(self, values: Any, path: str = "", document: Document | None = None) -> None:
        self.path = path
        self.document = document or Document()
        if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
            raise self._whole_error(values)
        if isinstance(values, Table) and values.repeats:
            name = next(iter(values.repeats))
            raise self.error(name, "each field once", got="the field twice", values=values)
        self.values: Mapping[str, Any] = values

    def key(self, name: str) -> str:
        """Return the path of a field in the document."""
        shown = one_line(name, 60)
        return f"{self.path}.{shown}" if self.path else shown

    def has(self, name: str) -> bool:
        """Return whether the field is present and not null."""
        return self.values.get(name) is not None

    def error(
        self, name: str, expected: str, advice: str = "", *, got: str = "", values: Mapping[str, Any] | None = None
    ) -> ConfigError:
        """Return an error about a field."""
        return self._placed(field_error(self.key(name), expected, advice, got=got), name, values)

    def wrong(self, name: str, expected: str) -> ConfigError:
        """Return an error about a field whose value has another type or form; the value is not shown."""
        if not self.has(name):
            return self.error(name, expected, got="nothing")
        return self._placed(wrong(self.key(name), expected, self.values[name]), name, None)

    def refuse_unknown(self, known: Collection[str], advice: str = "") -> None:
        """Raise an error about the first field that is not known."""
        for name in self.values:
            if name not in known:
                hint = suggest(name, known).removeprefix("; ")
                hint = hint[:1].upper() + hint[1:] or f"Known fields: {', '.join(known)}"
                expected = "a known field"
                raise self.error(name, expected, f"{hint} {advice}".strip(), got="an unknown one")

    def misspelled(self, known: Collection[str]) -> Iterable[str]:
        """Yield a warning if a field looks like a misspelled known one."""
        found = find_misspelled((name for name in self.values if len(name) <= 100), known)
        if found is not None:
            yield f"{self.key(found[0])}: unknown field, has no effect; did you mean {found[1]!r}?"

    def text(self, name: str, default: str | None = None, *, expected: str = "a string", empty: bool = True) -> str:
        """Return a string; a missing one is `default`, or an error if that is None."""
        if not self.has(name) and default is not None:
            return default
        value = self.values.get(name)
        if not is_text(value) or (not empty and not str(value).strip()):
            raise self.wrong(name, expected if empty else f"{expected}, not empty")
        return str(value)

    def optional_text(self, name: str, *, expected: str = "a string") -> str | None:
        """Return a string, None if it is missing."""
        return self.text(name, expected=expected) if self.has(name) else None

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def seconds(self, name: str, default: float | None, *, nullable: bool = True) -> float | None:
        """Return a positive number of seconds; null is None, if that is allowed."""
        if name not in self.values:
            return default
        value = self.values[name]
        if value is None and nullable:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
            raise self.wrong(name, "a positive number of seconds" + (", or null for never" if nullable else ""))
        return float(value)

    def choice(self, name: str, kind: type[T], default: T) -> T:
        """Return a member of an enumeration; case and the difference between `-` and `_` are ignored."""
        value = self.values.get(name)
        if value is None:
            return default
        plain = value.strip().lower().replace("-", "_") if isinstance(value, str) else None
        found = next((member for member in kind if member == plain), None)  # type: ignore[attr-defined]
        if found is None:
            choices = [str(member) for member in kind]  # type: ignore[attr-defined]
            raise self.one_of(name, choices)
        return found  # type: ignore[no-any-return]

    def one_of(self, name: str, choices: Collection[str]) -> ConfigError:
        """Return an error about a value that is not among the choices, with a suggestion."""
        value = self.values.get(name)
        hint = suggest(value, choices).removeprefix("; ") if isinstance(value, str) else ""
        exc = self.wrong(name, f"one of {', '.join(choices)}")
        if not hint:
            return exc
        message = f"{exc.message}. {hint[:1].upper()}{hint[1:]}"
        return ConfigError(message, file=exc.file, line=exc.line, column=exc.column, key=exc.key, expected=exc.expected)

    def texts(self, name: str, *, expected: str = "a list of strings") -> tuple[str, ...]:
        """Return a list of strings; a missing one is empty."""
        value = self.values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or len(value) > MAX_ITEMS:
            raise self.wrong(name, expected)
        for at, item in enumerate(value):
            if not is_text(item):
                raise self._placed(wrong(f"{self.key(name)}[{at}]", "a string without NUL", item), name, None)
        return tuple(str(item) if type(item) is str else item for item in value)

    def object(self, name: str) -> Fields:
        """Return the fields of an object; a missing one has no fields."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.wrong(name, "an object")
        return Fields({} if value is None else value, self.key(name), self.document)

    def objects(self, name: str) -> list[Fields]:
        """Return the fields of each object in a list; a missing list is empty."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list | tuple) or len(value) > MAX_ITEMS:
            raise self.wrong(name, f"a list of at most {MAX_ITEMS} objects")
        return [Fields(item, f"{self.key(name)}[{at}]", self.document) for at, item in enumerate(value)]

    def _placed(self, exc: ConfigError, name: str, values: Mapping[str, Any] | None) -> ConfigError:
        """Return the error with file and line, if the object is from a file."""
        offset = place_of(self.values if values is None else values, name)
        if offset is None and self.document.path is None:
            return exc
        return self.document.error(exc.message, offset=offset, key=exc.key, expected=exc.expected)

    def _whole_error(self, values: Any) -> ConfigError:
        expected = "an object with strings as names"
        if not self.path:
            return self.document.error(f"expected {expected}", expected=expected)
        exc = wrong(self.path, expected, values)
        return self.document.error(exc.message, key=exc.key, expected=exc.expected)
