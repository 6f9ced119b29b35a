"""URI templates of RFC 6570, levels 1 to 3: expanding them, and finding the variables in a URI.

| expression | expands to | in a URI that is matched |
| --- | --- | --- |
| `{x}`, `{x,y}` | `1,2`, all reserved characters encoded | not empty, without a slash |
| `{+x}` | `1/2`, reserved characters as they are | not empty, takes slashes |
| `{.x,y}` | `.1.2` | not empty |
| `{/x,y}` | `/1/2` | not empty, without a slash |
| `{;x,y}` | `;x=1;y=2` | may be empty |
| `{?x,y}`, `{&x,y}` | `?x=1&y=2`, `&x=1&y=2` | in any order; each may be missing or empty |
| `{#x}` | `#1`, reserved characters as they are | may be missing or empty |

`{x*}`, which does not belong to levels 1 to 3, takes slashes like `{+x}` and encodes everything else.

The RFC does not define matching. One variable of a template, the pivot, takes the rest of the URI. The values of the
others are found by searching for the literal text between two variables, from both ends towards the pivot, so matching
takes linear time for any URI.
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
_KINDS: Final = "{name}, {+name}, {name*}, {.name}, {/name}, {;name} and, at the end, {?a,b}, {&a,b}, {#name}"

# Characters that a value can contain only percent-encoded, as the RFC's expansion of {name} writes them.
_IN_PATH: Final = "/?#"
_AT_END: Final = "?#"
_IN_QUERY: Final = "?#&"

_RESERVED: Final = ":/?#[]@!$&'()*+,;="


class _Operator(NamedTuple):
    """How the variables of an expression are written (RFC 6570, appendix A)."""

    first: str = ""
    separator: str = ","
    named: bool = False
    if_empty: str = ""
    safe: str = ""
    """The characters that are not encoded, besides letters, digits and `_.-~`."""


_OPERATORS: Final = {
    "": _Operator(),
    "+": _Operator(safe=_RESERVED),
    "#": _Operator("#", safe=_RESERVED),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", named=True),
    "?": _Operator("?", "&", named=True, if_empty="="),
    "&": _Operator("&", "&", named=True, if_empty="="),
}


_OPTIONAL: Final = frozenset("?&#")
"""Operators of expressions at the end of a template, whose variables may be missing in a URI."""


class _Expression(NamedTuple):
    operator: str
    names: tuple[str, ...]
    exploded: bool
    """Whether it is `{name*}`."""

    def expand(self, variables: Mapping[str, str], safe: Mapping[str, str]) -> str:
        """Return the text for the variables that are defined. `safe` replaces the operator's for some of them."""
        rule = _OPERATORS[self.operator]
        written = []
        for name in self.names:
            value = variables.get(name)
            if value is None:
                continue
            text = quote(value, safe=safe.get(name, rule.safe))
            written.append(f"{name}={text}" if rule.named and text else name + rule.if_empty if rule.named else text)
        return rule.first + rule.separator.join(written) if written else ""


class _Variable(NamedTuple):
    """A variable of the path, as it is found in a URI."""

    name: str
    stops: str
    in_path: bool
    absolute: bool
    """Whether a value may begin with a slash: in `file://{path}` only, where the path has no other."""
    named: bool
    """Whether the value is written as `=value`, or as nothing if it is empty."""

    @property
    def least(self) -> int:
        """The minimum number of characters of its value."""
        return 0 if self.named else 1


def check_uri(uri: str) -> str:
    """Return `uri`; raises `ConfigError` if it cannot be the address of a resource."""
    if not _SCHEME.match(uri):
        raise _wrong(uri, "a URI with a scheme, such as config://app")
    if any(c.isspace() or not c.isprintable() for c in uri):
        raise _wrong(uri, "a URI without spaces and control characters")
    return uri


def is_template(uri: str) -> bool:
    """Return whether the address of a resource has variables."""
    return "{" in uri or "}" in uri


def expand(template: str, variables: Mapping[str, str]) -> str:
    """Expand any template of levels 1 to 3, also one that cannot be matched; undefined variables are omitted.

    A percent sign in a value is always encoded. Raises `ConfigError` for a malformed template.
    """
    literals, expressions = _parse(template)
    return _join(literals, [each.expand(variables, {}) for each in expressions])


class UriTemplate:
    """A template for the URIs of a family of resources. `match` returns percent-decoded values.

    A `{name}` that ends the path also takes slashes, if no variable before it does: `file:///{path}`. A value that
    could escape from its place in a path (a `..` segment, a leading slash, a NUL) does not match.
    """

    __slots__ = (
        *("_ampersands", "_expressions", "_fragment", "_left", "_literals", "_path", "_pivot", "_prefix", "_query"),
        *("_right", "_safe", "_suffix", "text", "variables", "weight"),
    )

    def __init__(self, text: str) -> None:
        """Raise `ConfigError` if the template is malformed, or ambiguous to match."""
        self.text = check_uri(text)
        self._literals, self._expressions = _merge_queries(*_parse(text))
        parts = _TemplateParts(text, self._literals, self._expressions)
        self.variables: tuple[str, ...] = parts.names
        """The names of the variables, in order."""
        self.weight = sum(map(len, parts.literals))
        """The number of literal characters: of several templates that match a URI, the one with the most is used."""
        self._query = parts.query
        self._ampersands = parts.ampersands
        self._fragment = parts.fragment
        self._safe = parts.safe
        path, literals, pivot = parts.variables, parts.literals, parts.pivot
        self._path = tuple(path)
        self._prefix = literals[0]
        self._suffix = literals[-1] if path else ""
        self._pivot = path[pivot] if path else None
        self._left = tuple(zip(path[:pivot], literals[1:], strict=False)) if path else ()
        self._right = tuple(zip(path[pivot + 1 :], literals[pivot + 1 :], strict=False))[::-1] if path else ()

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the variables of a URI of this family, or None if it is not one."""
        base, pairs, fragment = self._split(uri)
        cuts = self._cuts(base)
        if cuts is None:
            return None
        values: dict[str, str] = {}
        try:
            for variable, raw in cuts:
                if variable.named and raw[:1] not in ("", "="):
                    return None
                values[variable.name] = value = unquote(raw[variable.named :], errors="strict")
                if any(stop in raw for stop in variable.stops) or not _is_harmless(variable, value):
                    return None
            found = _read_query(self._query or (), pairs)
            if self._fragment is not None and fragment is not None:
                values[self._fragment] = unquote(fragment, errors="strict")
        except UnicodeDecodeError:
            return None
        return None if found is None else values | found

    def expand(self, variables: Mapping[str, str]) -> str:
        """Return the URI for these variables, from which `match` returns the same values.

        Variables of a query and of the fragment may be omitted. Raises `UsageError` if no such URI exists.
        """
        if unknown := [name for name in variables if name not in self.variables]:
            raise UsageError(f"{self.text}: unknown variable {unknown[0]!r}, expected {', '.join(self.variables)}")
        for variable in self._path:
            value = variables.get(variable.name)
            if value is None or (not value and variable.least) or not _is_harmless(variable, value):
                raise UsageError(f"{self.text}: invalid value for {variable.name!r}: {value!r}")
        uri = _join(self._literals, [each.expand(variables, self._safe) for each in self._expressions])
        if self.match(uri) != dict(variables):
            raise UsageError(f"{self.text}: ambiguous values: {uri!r} would be matched with other values")
        return uri

    def _split(self, uri: str) -> tuple[str, str, str | None]:
        """Split a URI into the part before the optional expressions, the pairs of the query, and the fragment."""
        fragment: str | None = None
        if self._fragment is not None:
            uri, mark, rest = uri.partition("#")
            fragment = rest if mark else None
        if self._query is None:
            return uri, "", fragment
        at = uri.find("?")
        for _ in range(self._ampersands):
            at = uri.find("&", at + 1) if at >= 0 else at
        return (uri, "", fragment) if at < 0 else (uri[:at], uri[at + 1 :], fragment)

    def _cuts(self, path: str) -> list[tuple[_Variable, str]] | None:
        """Return the piece of the path that each variable takes; None if a literal is not in its place.

        Taking the first occurrence of a literal from the left (the last from the right) loses no match: the rest goes
        to the next variable, up to the pivot, and a literal with a character that the variable next to it cannot
        contain has only one possible place.
        """
        if self._pivot is None:
            return [] if path == self._prefix else None
        start, end = len(self._prefix), len(path) - len(self._suffix)
        if start > end or not path.startswith(self._prefix) or not path.endswith(self._suffix):
            return None
        cuts = []
        for variable, literal in self._left:
            place = path.find(literal, start + variable.least, end)
            if place < 0:
                return None
            cuts.append((variable, path[start:place]))
            start = place + len(literal)
        for variable, literal in self._right:
            place = path.rfind(literal, start, end - variable.least)
            if place < 0:
                return None
            cuts.append((variable, path[place + len(literal) : end]))
            end = place
        if end - start < self._pivot.least:
            return None
        cuts.append((self._pivot, path[start:end]))
        return cuts


# ---- reading a template --------------------------------------------------------------------------------------


def _wrong(uri: object, expected: str) -> ConfigError:
    return ConfigError(f"uri: expected {expected}, got {uri!r}", key="uri", expected=expected)


def _join(literals: list[str], written: list[str]) -> str:
    return literals[0] + "".join(text + literal for text, literal in zip(written, literals[1:], strict=True))


def _parse(text: str) -> tuple[list[str], list[_Expression]]:
    """Return the literals and the expressions between them; there is always one literal more."""
    pieces = _EXPRESSION.split(text)
    literals = pieces[::2]
    if any("{" in literal or "}" in literal for literal in literals):
        raise _wrong(text, "a } for every {")
    return literals, [_parse_expression(text, piece) for piece in pieces[1::2]]


def _merge_queries(literals: list[str], expressions: list[_Expression]) -> tuple[list[str], list[_Expression]]:
    """Merge `{?a}{&b}` to `{?a,b}`: otherwise a missing `a` would leave a query without its `?`."""
    merged_literals, merged = literals[:1], expressions[:0]
    for expression, literal in zip(expressions, literals[1:], strict=True):
        if expression.operator == "&" and merged and merged[-1].operator in ("?", "&") and not merged_literals[-1]:
            merged[-1] = merged[-1]._replace(names=merged[-1].names + expression.names)
            merged_literals[-1] = literal
        else:
            merged.append(expression)
            merged_literals.append(literal)
    return merged_literals, merged


def _parse_expression(text: str, written: str) -> _Expression:
    operator = written[:1] if written[:1] in _OPERATORS else ""
    names = written.removeprefix(operator).split(",")
    exploded = False
    # In these expressions a single value is written in the same way with and without `*`, so `*` is accepted.
    if operator == "?" or (operator in ("", "+") and len(names) == 1):
        exploded = not operator and names[0].endswith("*")
        names = [name.removesuffix("*") for name in names]
    if any(name.endswith("*") or ":" in name for name in names):
        raise _wrong(text, f"no modifiers of RFC 6570's level 4, such as {{a:3}} and {{/a*}}, but {_KINDS}")
    if not all(map(str.isidentifier, names)):
        raise _wrong(text, f"expressions such as {_KINDS}")
    return _Expression(operator, tuple(names), exploded)


class _TemplateParts:
    """The parts of a template, for matching; raises `ConfigError` if a URI could match in more than one way."""

    def __init__(self, text: str, literals: list[str], expressions: list[_Expression]) -> None:
        self._text = text
        self._operators = {each.operator for each in expressions}
        kinds = [each.operator in _OPTIONAL for each in expressions]
        ends = kinds.index(True) if True in kinds else len(kinds)
        if not all(kinds[ends:]) or (ends < len(kinds) and any(literals[ends + 1 :])):
            raise _wrong(text, "{?...}, {&...} and {#...} only at the end")
        self.literals = [literals[0]]
        self._in_path = "?" not in literals[0]
        self.variables: list[_Variable] = []
        self.safe: dict[str, str] = {}
        for expression, literal in zip(expressions[:ends], literals[1:], strict=False):
            self._add(expression, literal)
        found = {each.operator: each.names for each in expressions[ends:]}
        self.query = found.get("?", found.get("&"))
        # {?...} starts at the first question mark; {&...} after the ampersands of the template itself.
        self.ampersands = 1 + "".join(self.literals).partition("?")[2].count("&") if "&" in found else 0
        fragment = found.get("#", ())
        self.fragment = fragment[0] if fragment else None
        path = (variable.name for variable in self.variables)
        self.names = (*path, *(self.query or ()), *fragment)
        wide = [index for index, variable in enumerate(self.variables) if not variable.stops]
        self._check("".join(each.operator for each in expressions[ends:]), fragment, wide)
        self.pivot = wide[0] if wide else len(self.variables) - 1
        if not wide and ends:
            self._widen_last(expressions[ends - 1])

    def _add(self, expression: _Expression, literal: str) -> None:
        """Add the variables of an expression in the path, each after the text that introduces it."""
        rule, is_plain = _OPERATORS[expression.operator], not expression.operator
        for index, name in enumerate(expression.names):
            self.literals[-1] += (rule.separator if index else rule.first) + (name if rule.named else "")
            stops = _IN_PATH if self._in_path else _IN_QUERY
            stops += ";" if ";" in self._operators else ""
            stops += "," if is_plain and len(expression.names) > 1 else ""
            if expression.operator == "+" or expression.exploded:
                stops = ""
                self.safe[name] = self._safe_in_wide() if expression.operator else "/"
            absolute = not self.variables and self.literals[0].lower() == "file://"
            self.variables.append(_Variable(name, stops, self._in_path, absolute, rule.named))
            self.literals.append("")
        self.literals[-1] += literal
        self._in_path = self._in_path and "?" not in literal

    def _safe_in_wide(self) -> str:
        """Return the characters that `{+name}` does not encode: none that can start an optional expression."""
        pairs = bool(self._operators & {"?", "&"})
        encoded = _AT_END if pairs else "#" if "#" in self._operators else ""
        encoded += "&" if pairs and not self._in_path else ""
        return "".join(c for c in _RESERVED if c not in encoded)

    def _check(self, ends: str, fragment: tuple[str, ...], wide: list[int]) -> None:
        """Raise `ConfigError` for the first rule that is broken. `ends` are the operators of optional expressions."""
        before = "".join(self.literals)
        broken = {
            "{#...} only at the end": "#" in ends[:-1],
            "{?...} as the only query ({&...} continues one)": "?" in ends and "?" in before + ends[1:],
            "a query before {&...}, such as ?a=b or {?a}": ends[:1] == "&" and "?" not in before,
            "{#...} as the only fragment": "#" in ends and "#" in before,
            "one variable in {#...} (a comma between two could belong to a value)": len(fragment) > 1,
            "a scheme without variables": not _SCHEME.match(self.literals[0]),
            "literal text between two variables": not all(self.literals[1:-1]),
            "each variable once": len(set(self.names)) < len(self.names),
            "at most one variable that takes slashes": len(wide) > 1,
        }
        for expected, is_broken in broken.items():
            if is_broken:
                raise _wrong(self._text, expected)

    def _widen_last(self, expression: _Expression) -> None:
        """Let a `{name}` that ends the path take slashes, as no other variable does."""
        last = self.variables[-1]
        if expression.names == (last.name,) and not expression.operator and not self.literals[-1] and last.in_path:
            self.variables[-1] = last._replace(stops=last.stops.replace("/", ""))
            self.safe[last.name] = "/"


# ---- values --------------------------------------------------------------------------------------------------


def _is_harmless(variable: _Variable, value: str) -> bool:
    """Return whether a value cannot escape from its place in the path."""
    if not variable.in_path:
        return True
    if "\0" in value or (not variable.absolute and value.startswith(("/", "\\"))):
        return False
    return not _UPWARDS.search(value)


def _read_query(names: tuple[str, ...], query: str) -> dict[str, str] | None:
    """Return the variables of a query; None if it has a duplicate name, or one that the template does not have."""
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
