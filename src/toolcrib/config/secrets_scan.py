"""Finds secrets in plain text, and placeholders that have to be replaced, in entries of settings files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from .masking import SHORTEST_SECRET, argument_values, looks_like_token, names_a_secret
from .servers import URLS

_SCHEME: Final = re.compile(r"[A-Za-z]+ (?=\S)")
"""The scheme before the credentials in a header, such as `Bearer `."""


_TABLES: Final = ("env", "headers", "oauth", "auth")
"""Keys of an entry that hold tables of values."""
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""The start of a word in a name such as `clientSecret`."""

_PLACEHOLDER: Final = re.compile(
    r"<[A-Za-z][^<>/]{0,60}>"  # <YOUR KEY>
    r"|\[your[^\]]{0,60}\]|\{\{[^{}]{1,60}\}\}"
    r"|(?<![a-z])your(?:[-_][\w-]|[a-z]*(?:key|token|secret|password|name|domain|company))",
    re.IGNORECASE,
)
"""A text that makes a value that contains it a placeholder."""
_DUMMY: Final = re.compile(
    r"(?:[\w-]*[-_])?(?:x{3,}|\.{3,}|\u2026|\*{3,})"  # xxx, sk-..., ghp_xxxx
    r"|your \w[\w ]*|change[-_ ]?me|replace[-_ ]?(?:me|this)|placeholder|fixme|todo|tbd"
    r"|(?:insert|enter|put|add|paste)[-_ ].*|.*[-_ ]here|my[-_]?(?:api[-_]?)?(?:key|token|secret|password)",
    re.IGNORECASE,
)
"""A whole value that is a placeholder."""


class PlainSecret(NamedTuple):
    """A secret that an entry contains in plain text."""

    key: str
    variable: str
    """A name for an environment variable with the secret as its value."""
    instead: str
    """The text to write instead of the secret, such as `${TOKEN}`."""


def is_placeholder(value: Any) -> bool:
    """Return whether a value is a placeholder that the user has to replace: `<YOUR KEY>`, `sk-...`, `changeme`."""
    if not isinstance(value, str) or "${" in value:
        return False
    bare = _SCHEME.sub("", value.strip(), count=1) if re.match(r"(?i)(bearer|basic|token) ", value) else value.strip()
    return _PLACEHOLDER.search(bare) is not None or _DUMMY.fullmatch(bare) is not None


def placeholders(raw: Mapping[str, Any]) -> list[str]:
    """Return the keys of an entry whose values are placeholders."""
    found = []
    for key in _TABLES:
        values = raw.get(key)
        if isinstance(values, Mapping):
            found += [f"{key}.{name}" for name, value in values.items() if is_placeholder(value)]
    for at, option, value in argument_values(_args_of(raw)):
        # A word alone may be meant literally: `todo`, `...`.
        if _PLACEHOLDER.search(value) or (is_placeholder(value) and (looks_like_token(f"{value}xxxxxxxxxx") or option)):
            found.append(f"args[{at}]")
    found += [key for key in URLS if isinstance(raw.get(key), str) and _PLACEHOLDER.search(raw[key])]
    return found


def written_plainly(raw: Mapping[str, Any]) -> list[PlainSecret]:
    """Return the secrets that an entry contains in plain text."""
    found = [secret for key in _TABLES for secret in _of_mapping(key, raw.get(key))]
    args = _args_of(raw)
    for at, option, value in argument_values(args):
        if is_secret(option, value):
            variable = variable_for(option) if option else "TOKEN"
            found.append(_plain(f"args[{at}]", variable, args[at].removesuffix(value)))
    for key in URLS:
        if isinstance(raw.get(key), str):
            found += [_plain(key, name) for name in _of_url(raw[key])]
    return found


def _args_of(raw: Mapping[str, Any]) -> Sequence[Any]:
    args = raw.get("args")
    return args if isinstance(args, list | tuple) else ()


def is_secret(name: str, value: Any) -> bool:
    """Return whether a value is a secret, by its name or its form; a reference such as `${TOKEN}` is not."""
    if not isinstance(value, str) or "${" in value or len(value) < SHORTEST_SECRET:
        return False
    return (names_a_secret(name) or looks_like_token(value)) and not is_placeholder(value)


def variable_for(name: str) -> str:
    """Return a legal name of an environment variable for this name."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper() or "SECRET"


def _plain(key: str, variable: str, kept: str = "") -> PlainSecret:
    return PlainSecret(key, variable, f"{kept}${{{variable}}}")


def _of_mapping(key: str, values: Any) -> Iterator[PlainSecret]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            spaced = _HUMP.sub("_", name) if isinstance(name, str) and key in ("oauth", "auth") else name
            if isinstance(name, str) and is_secret(spaced, value):
                scheme = _SCHEME.match(value) if name.lower().endswith("authorization") else None
                given = ("TOKEN", scheme[0]) if scheme else (variable_for(spaced),)
                yield _plain(f"{key}.{name}", *given)


def _of_url(url: str) -> Iterator[str]:
    """Yield names of variables for the passwords and tokens in a URL."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return
    if password and "${" not in password:
        yield "PASSWORD"
    for name, value in parse_qsl(parts.query):
        if is_secret(name, value):
            yield variable_for(name)
