"""Variables in settings files: `${VAR}`, `${VAR:-default}`, `${env:VAR}`.

`$VAR` is plain text, except in files of programs that treat it as a variable (`braced`). `$${` is a literal `${`. A
default may contain variables, and is expanded only if it is used. Values from the environment are not expanded again.
The depth of nesting, the length of chains and the size of the result are limited.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..config import Expanded
from ..errors import ConfigError

MAX_NESTING = 16
"""Levels of nested defaults, and the length of a chain of `env` variables that refer to each other."""

MAX_TEXT = 1_000_000
"""Characters of a text after its variables are replaced."""

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = re.compile(rf"(env:)?({_NAME}|/)(:-|\}})")
_INPUT = re.compile(r"input:([\w.-]{1,60})\}")
_OTHER = re.compile(r"([A-Za-z]{1,20}):")
_OPENING = re.compile(r"\$\$\{|\$\{")
_OPENING_OR_END = re.compile(r"\$\$\{|\$\{|\}")
_BARE = re.compile(rf"(?<!\$)\$({_NAME})")


@dataclass(frozen=True, slots=True)
class Reference:
    """One `${...}`; `default` is None if it has no default."""

    name: str
    default: tuple[Any, ...] | None
    of_environment: bool
    """Whether it is written as `${env:NAME}`, which never means a name that the format defines."""


def braced(value: Any) -> Any:
    """Return the value with every bare `$NAME` in its strings written as `${NAME}`."""
    if isinstance(value, str):
        return _BARE.sub(r"${\1}", value)
    if isinstance(value, list | tuple):
        return [braced(item) for item in value]
    if isinstance(value, Mapping):
        return {name: braced(item) for name, item in value.items()}
    return value


def parse(text: str) -> tuple[str | Reference, ...]:
    """Split a text into plain pieces and references; a malformed reference raises `ConfigError`."""
    return _pieces(text, 0, 0)[0]


def _pieces(text: str, at: int, depth: int) -> tuple[tuple[str | Reference, ...], int]:
    """Return the pieces, and their end: that of the text or, in a default (`depth` > 0), of its closing brace."""
    pieces: list[str | Reference] = []
    marks = _OPENING_OR_END if depth else _OPENING
    while mark := marks.search(text, at):
        if mark.start() > at:
            pieces.append(text[at : mark.start()])
        at = mark.end()
        if mark[0] == "}":
            return tuple(pieces), at
        if mark[0] == "$${":
            pieces.append("${")
            continue
        reference, at = _reference(text, at, depth + 1)
        pieces.append(reference)
    if depth:
        raise _no_end()
    if at < len(text):
        pieces.append(text[at:])
    return tuple(pieces), len(text)


def _reference(text: str, at: int, depth: int) -> tuple[Reference, int]:
    if depth > MAX_NESTING:
        expected = f"at most {MAX_NESTING} nested variables"
        raise ConfigError(f"expected {expected}", expected=expected)
    found = _REFERENCE.match(text, at)
    if found is None:
        raise _malformed(text, at)
    default, at = _pieces(text, found.end(), depth) if found[3] == ":-" else (None, found.end())
    return Reference(found[2], default, found[1] is not None), at


def _malformed(text: str, at: int) -> ConfigError:
    if asked := _INPUT.match(text, at):
        expected = "an environment variable, as in ${env:NAME}"
        message = f"${{input:{asked[1]}}} prompts the user, which is not supported: expected {expected}"
        return ConfigError(message, expected=expected)
    if text.find("}", at) < 0:
        return _no_end()
    expected = "${NAME}, ${NAME:-default} or ${env:NAME}; $${ is a literal ${"
    other = _OTHER.match(text, at)
    what = f"${{{other[1]}:...}} is not supported: " if other and other[1] != "env" else ""
    return ConfigError(f"{what}expected {expected}", expected=expected)


def _no_end() -> ConfigError:
    expected = "} at the end of a variable; $${ is a literal ${"
    return ConfigError(f"expected {expected}", expected=expected)


class Scope:
    """The values of the variables of one server.

    Variables are looked up in the process's environment, then in `own`, the other entries of the server's `env`. So
    `"TOKEN": "${TOKEN}"` passes a variable on. A default takes precedence over `own`, because programs without such a
    lookup use the default. `known` are names that the file's format defines, such as `workspaceFolder`.
    """

    def __init__(
        self, environ: Mapping[str, str], own: Mapping[str, Any] | None = None, known: Mapping[str, str] | None = None
    ) -> None:
        self._environ = environ
        self._own = {name: value for name, value in (own or {}).items() if isinstance(value, str)}
        self._known = known or {}
        self._resolved: dict[str, str] = {}

    def expand(self, text: str, inside: str | None = None) -> str:
        """Return the text with its variables replaced; `inside` is the entry of `env` whose value the text is."""
        pieces = parse(text)
        whole = self._joined(pieces, (inside,) if inside is not None else ())
        return whole if all(isinstance(piece, str) for piece in pieces) else Expanded(whole, text)

    def _joined(self, pieces: tuple[str | Reference, ...], chain: tuple[str, ...]) -> str:
        texts: list[str] = []
        size = 0
        for piece in pieces:
            text = piece if isinstance(piece, str) else self._value(piece, chain)
            size += len(text)
            if size > MAX_TEXT:
                expected = f"at most {MAX_TEXT} characters after replacing variables"
                raise ConfigError(f"expected {expected}", expected=expected)
            texts.append(text)
        return "".join(texts)

    def _value(self, reference: Reference, chain: tuple[str, ...]) -> str:
        name = reference.name
        if name in self._known and not reference.of_environment:
            return self._known[name]
        if name in self._environ:
            return self._environ[name]
        if reference.default is not None:
            return self._joined(reference.default, chain)
        if name in self._own and chain[-1:] != (name,):
            return self._of_own(name, chain)
        expected = f"the variable {name} in the environment, or a default as in ${{{name}:-default}}"
        raise ConfigError(f"{name} is not set: expected {expected}", expected=expected)

    def _of_own(self, name: str, chain: tuple[str, ...]) -> str:
        if name in chain:
            ring = " -> ".join((*chain[chain.index(name) :], name))
            expected = "variables without circular references"
            raise ConfigError(f"circular reference {ring}: expected {expected}", expected=expected)
        if len(chain) >= MAX_NESTING:
            expected = f"a chain of at most {MAX_NESTING} variables"
            raise ConfigError(f"expected {expected}", expected=expected)
        if name not in self._resolved:
            self._resolved[name] = self._joined(parse(self._own[name]), (*chain, name))
        return self._resolved[name]
