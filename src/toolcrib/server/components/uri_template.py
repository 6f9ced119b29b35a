"""URI templates: which resources one function stands for.

Of RFC 6570: `{name}`, `{+name}` and `{name*}` for values with slashes in them, and `{?a,b}` for a query. One variable
of a template takes what the others leave; everything else is found by looking for literals from both ends towards it,
so that matching takes linear time whatever the URI is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

from ...errors import ConfigError, UsageError

_EXPRESSION: Final = re.compile(r"\{([^{}]*)\}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_UPWARDS: Final = re.compile(r"(?:^|[/\\])\.\.(?:[/\\]|\Z)")
_KINDS: Final = "{name}, {+name}, {name*} and, at the end, {?a,b}"

# What a value cannot hold as it is. It may hold it percent-encoded, as the RFC's expansion of {name} writes it.
_IN_PATH: Final = "/?#"
_AT_END: Final = "?#"
_IN_QUERY: Final = "?#&"

_RESERVED: Final = ":/?#[]@!$&'()*+,;="


class _Variable(NamedTuple):
    name: str
    stops: str
    safe: str
    """What `expand` leaves as it is, besides letters, digits and `_.-~`."""
    in_path: bool
    absolute: bool
    """Whether a value may begin with a slash: in `file://{path}` only, where the path has no other."""


def check_uri(uri: str) -> str:
    """The URI as it was given; raises `ConfigError` where it cannot be one."""
    if not _SCHEME.match(uri):
        raise _wrong(uri, "a URI with a scheme, such as config://app")
    if any(c.isspace() or not c.isprintable() for c in uri):
        raise _wrong(uri, "a URI without spaces and control characters")
    return uri


def is_template(uri: str) -> bool:
    """Whether a resource's address has variables."""
    return "{" in uri or "}" in uri


class UriTemplate:
    """A URI with variables. Values are taken percent-decoded, and never empty but in a query.

    A `{name}` that ends the path also takes slashes, if nothing before it does: `file:///{path}`. A value that would
    lead out of its place in a path (a `..` segment, a slash in front, a NUL) is no match.
    """

    __slots__ = ("_left", "_pivot", "_prefix", "_query", "_right", "_suffix", "text", "variables", "weight")

    def __init__(self, text: str) -> None:
        """Raises `ConfigError` where the template is malformed or ambiguous."""
        self.text = check_uri(text)
        literals, expressions = _parts(text)
        self._query = _query_names(text, literals, expressions)
        names = [_plain_name(text, expression) for expression in expressions]
        self.variables: tuple[str, ...] = (*(name for name, _ in names), *(self._query or ()))
        """Their names, in order."""
        self.weight = sum(map(len, literals))
        """How many characters it says itself: of two templates that match, the one that says more is meant."""
        _check_order(text, literals, self.variables)
        wide = [index for index, (_, operator) in enumerate(names) if operator]
        if len(wide) > 1:
            raise _wrong(text, "one variable at most that takes slashes")
        pivot = wide[0] if wide else len(names) - 1
        variables = [
            _variable(name, operator, "".join(literals[: index + 1]), has_query=self._query is not None)
            for index, (name, operator) in enumerate(names)
        ]
        if not wide and variables and not literals[-1] and variables[-1].stops == _IN_PATH:
            variables[-1] = variables[-1]._replace(stops=_AT_END, safe="/")
        self._prefix = literals[0]
        self._suffix = literals[-1] if variables else ""
        self._pivot = variables[pivot] if variables else None
        self._left = tuple(zip(variables[:pivot], literals[1:], strict=False)) if variables else ()
        self._right = tuple(zip(variables[pivot + 1 :], literals[pivot + 1 :], strict=False))[::-1] if variables else ()

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables of a URI of this family, or None if it is not one."""
        path, asked = uri, ""
        if self._query is not None:
            path, _, asked = uri.partition("?")
        cuts = self._cuts(path)
        if cuts is None:
            return None
        values: dict[str, str] = {}
        try:
            for variable, raw in cuts:
                values[variable.name] = value = unquote(raw, errors="strict")
                if any(stop in raw for stop in variable.stops) or not _harmless(variable, value):
                    return None
            found = _read_query(self._query or (), asked)
        except UnicodeDecodeError:
            return None
        return None if found is None else values | found

    def expand(self, variables: Mapping[str, str]) -> str:
        """The URI for these variables, such that `match` gives them back; those of a query may be left out."""
        if unknown := [name for name in variables if name not in self.variables]:
            raise UsageError(f"{self.text} has no variable {unknown[0]!r}, but {', '.join(self.variables)}")
        written = [self._prefix]
        for variable, literal in self._left:
            written += (_written(self.text, variable, variables), literal)
        if self._pivot is not None:
            written.append(_written(self.text, self._pivot, variables))
        for variable, literal in reversed(self._right):
            written += (literal, _written(self.text, variable, variables))
        pairs = (f"{name}={quote(variables[name], safe='')}" for name in self._query or () if name in variables)
        query = "&".join(pairs)
        return "".join(written) + self._suffix + (f"?{query}" if query else "")

    def _cuts(self, path: str) -> list[tuple[_Variable, str]] | None:
        """Which piece of the path each variable takes, if all literals are where they belong.

        Taking the first place of a literal from the left (the last from the right) loses no match: what is not taken
        goes to the next variable, up to the pivot, and a literal with a character that the variable beside it cannot
        hold has one place only.
        """
        if self._pivot is None:
            return [] if path == self._prefix else None
        start, end = len(self._prefix), len(path) - len(self._suffix)
        if start >= end or not path.startswith(self._prefix) or not path.endswith(self._suffix):
            return None
        cuts = []
        for variable, literal in self._left:
            place = path.find(literal, start + 1, end)
            if place < 0:
                return None
            cuts.append((variable, path[start:place]))
            start = place + len(literal)
        for variable, literal in self._right:
            place = path.rfind(literal, start, end - 1)
            if place < 0:
                return None
            cuts.append((variable, path[place + len(literal) : end]))
            end = place
        if start >= end:
            return None
        cuts.append((self._pivot, path[start:end]))
        return cuts


# ---- reading a template --------------------------------------------------------------------------------------


def _wrong(uri: object, expected: str) -> ConfigError:
    return ConfigError(f"{uri!r} cannot be a resource's address: expected {expected}", key="uri", expected=expected)


def _parts(text: str) -> tuple[list[str], list[str]]:
    """Literals and the expressions between them: always one literal more."""
    pieces = _EXPRESSION.split(text)
    literals = pieces[::2]
    if any("{" in literal or "}" in literal for literal in literals):
        raise _wrong(text, "every { to have its }")
    return literals, pieces[1::2]


def _query_names(text: str, literals: list[str], expressions: list[str]) -> tuple[str, ...] | None:
    """Take the query's expression from the end, if there is one; a `*` there changes nothing for a single value."""
    if not expressions or not expressions[-1].startswith("?"):
        return None
    if literals[-1] or any("?" in literal for literal in literals):
        raise _wrong(text, "{?...} to be the end, and the only query")
    names = tuple(name.removesuffix("*") for name in expressions.pop()[1:].split(","))
    literals.pop()
    if not all(map(str.isidentifier, names)):
        raise _wrong(text, f"expressions such as {_KINDS}")
    return names


def _plain_name(text: str, expression: str) -> tuple[str, str]:
    operator = "+" if expression.startswith("+") else "*" if expression.endswith("*") else ""
    name = expression.removeprefix("+").removesuffix("*")
    if not name.isidentifier():
        raise _wrong(text, f"expressions such as {_KINDS}")
    return name, operator


def _check_order(text: str, literals: list[str], variables: tuple[str, ...]) -> None:
    if not _SCHEME.match(literals[0]):
        raise _wrong(text, "a scheme without variables")
    if not all(literals[1:-1]):
        raise _wrong(text, "something between two variables that tells where one ends")
    if len(set(variables)) < len(variables):
        raise _wrong(text, "each variable once")


def _variable(name: str, operator: str, before: str, *, has_query: bool) -> _Variable:
    in_path = "?" not in before
    absolute = before.lower() == "file://"
    match operator:
        case "+":
            safe = "".join(c for c in _RESERVED if not (has_query and c in _AT_END))
            return _Variable(name, "", safe, in_path, absolute)
        case "*":
            return _Variable(name, "", "/", in_path, absolute)
        case _:
            return _Variable(name, _IN_PATH if in_path else _IN_QUERY, "", in_path, absolute)


# ---- values --------------------------------------------------------------------------------------------------


def _harmless(variable: _Variable, value: str) -> bool:
    if not variable.in_path:
        return True
    if "\0" in value or (not variable.absolute and value.startswith(("/", "\\"))):
        return False
    return not _UPWARDS.search(value)


def _written(text: str, variable: _Variable, variables: Mapping[str, str]) -> str:
    value = variables.get(variable.name, "")
    if not value or not _harmless(variable, value):
        raise UsageError(f"{text} needs a value for {variable.name!r} that stays in its place, not {value!r}")
    return quote(value, safe=variable.safe)


def _read_query(names: tuple[str, ...], query: str) -> dict[str, str] | None:
    """The query's variables. One that the template does not know makes another URI: it is no slip to pass over."""
    found: dict[str, str] = {}
    if not query:
        return found
    if "#" in query:
        return None
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        name = unquote_plus(name, errors="strict")
        if name not in names or name in found:
            return None
        found[name] = unquote_plus(value, errors="strict")
    return found
