"""What is secret in a server's settings: what must not be shown, and what stands plainly in a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from . import MASK, HttpServer, ServerConfig, SseServer, StdioServer, names_a_secret
from .servers import URLS

SHORTEST: Final = 4
"""Characters from which on a value can be a secret; shorter ones are switches and numbers."""

_VALUE: Final = re.compile(
    r"^(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|AIza|hf_|npm_|pypi-|eyJ)[\w.-]{10,}", re.ASCII
)
_OPTION: Final = re.compile(r"^--?([\w-]+)(?:=(.*))?$", re.DOTALL)
_SCHEME: Final = re.compile(r"[A-Za-z]+ (?=\S)")
"""What stands before the credentials in a header for them, as `Bearer `."""


_PLACEHOLDER: Final = re.compile(
    r"<[A-Za-z][^<>/]{0,60}>"  # <YOUR KEY>
    r"|\[your[^\]]{0,60}\]|\{\{[^{}]{1,60}\}\}"
    r"|(?<![a-z])your(?:[-_][\w-]|[a-z]*(?:key|token|secret|password|name|domain|company))",
    re.IGNORECASE,
)
"""Found in a value, it makes the value one that is to be replaced."""
_DUMMY: Final = re.compile(
    r"(?:[\w-]*[-_])?(?:x{3,}|\.{3,}|\u2026|\*{3,})"  # xxx, sk-..., ghp_xxxx
    r"|your \w[\w ]*|change[-_ ]?me|replace[-_ ]?(?:me|this)|placeholder|fixme|todo|tbd"
    r"|(?:insert|enter|put|add|paste)[-_ ].*|.*[-_ ]here|my[-_]?(?:api[-_]?)?(?:key|token|secret|password)",
    re.IGNORECASE,
)
"""A whole value that is to be replaced."""


class PlainSecret(NamedTuple):
    """A secret that stands in an entry as it is."""

    key: str
    variable: str
    """A name for the variable that should hold it."""
    instead: str
    """What should stand there."""


def is_placeholder(value: Any) -> bool:
    """Return whether a value stands for one that a person has to put there: `<YOUR KEY>`, `sk-...`, `changeme`."""
    if not isinstance(value, str) or "${" in value:
        return False
    bare = _SCHEME.sub("", value.strip(), count=1) if re.match(r"(?i)(bearer|basic|token) ", value) else value.strip()
    return _PLACEHOLDER.search(bare) is not None or _DUMMY.fullmatch(bare) is not None


def placeholders(raw: Mapping[str, Any]) -> list[str]:
    """Return the keys of an entry whose values are still to be replaced."""
    found = []
    for key in ("env", "headers"):
        values = raw.get(key)
        if isinstance(values, Mapping):
            found += [f"{key}.{name}" for name, value in values.items() if is_placeholder(value)]
    args = raw.get("args")
    before = ""
    for at, arg in enumerate(args if isinstance(args, list | tuple) else ()):
        named = _OPTION.match(arg) if isinstance(arg, str) else None
        value, option = (named[2], named[1]) if named is not None and named[2] is not None else (arg, before)
        # A word by itself can mean what it says: `todo`, `...`.
        if isinstance(value, str) and (
            _PLACEHOLDER.search(value) or (is_placeholder(value) and (_VALUE.match(f"{value}xxxxxxxxxx") or option))
        ):
            found.append(f"args[{at}]")
        before = named[1] if named is not None and named[2] is None else ""
    found += [key for key in URLS if isinstance(raw.get(key), str) and _PLACEHOLDER.search(raw[key])]
    return found


def values_of(config: ServerConfig) -> tuple[str, ...]:
    """Everything in a config that may be one, the longest first, so that a part of one does not hide the rest."""
    given: list[str] = []
    if isinstance(config, StdioServer):
        # A variable that is only passed on is one if its name says so.
        env = (config.env or {}).items()
        own = [value for name, value in env if os.environ.get(name) != value or is_secret(name, value)]
        given = [*own, *(value for _, value in _of_args(list(config.args)))]
    elif isinstance(config, HttpServer | SseServer):
        texts = [value for value in (config.headers or {}).values() if isinstance(value, str)]
        given = [*texts, *(text.partition(" ")[2] for text in texts), *(value for _, value in _of_url(config.url))]
    lines = {line for value in given for line in (value, *value.splitlines())}
    return tuple(sorted((line for line in lines if len(line) >= SHORTEST), key=len, reverse=True))


def without(secrets: Iterable[str], value: Any) -> Any:
    """Return a JSON value without the secrets in its strings and keys."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, MASK)
        return value
    if isinstance(value, Mapping):
        return {without(secrets, key): without(secrets, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without(secrets, item) for item in value]
    return value


def written_plainly(raw: Mapping[str, Any]) -> list[PlainSecret]:
    """The secrets that stand in an entry as they are."""
    found = list(_of_mapping("env", raw.get("env"))) + list(_of_mapping("headers", raw.get("headers")))
    args = raw.get("args")
    if isinstance(args, list | tuple):
        found += [_plain(f"args[{at}]", name, _option(args[at])) for at, name in _places_in_args(list(args))]
    for key in URLS:
        if isinstance(raw.get(key), str):
            found += [_plain(key, name) for name, _ in _of_url(raw[key])]
    return found


def is_secret(name: str, value: Any) -> bool:
    """Whether this looks like one: by its name or by itself. What is taken from the environment is none."""
    if not isinstance(value, str) or "${" in value or len(value) < SHORTEST:
        return False
    return (names_a_secret(name) or _VALUE.match(value) is not None) and not is_placeholder(value)


def variable_for(name: str) -> str:
    """A name that a variable of the environment can have."""
    return re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_").upper() or "SECRET"


def _plain(key: str, variable: str, kept: str = "") -> PlainSecret:
    return PlainSecret(key, variable, f"{kept}${{{variable}}}")


def _option(arg: str) -> str:
    """`--token=` of `--token=...`."""
    named = _OPTION.match(arg)
    return arg[: named.start(2)] if named is not None else ""


def _of_mapping(key: str, values: Any) -> Iterator[PlainSecret]:
    if isinstance(values, Mapping):
        for name, value in values.items():
            if isinstance(name, str) and is_secret(name, value):
                scheme = _SCHEME.match(value) if name.lower().endswith("authorization") else None
                given = ("TOKEN", scheme[0]) if scheme else (variable_for(name),)
                yield _plain(f"{key}.{name}", *given)


def _places_in_args(args: list[Any]) -> Iterator[tuple[int, str]]:
    """`--token=...`, `--token ...`, and what looks like a token by itself."""
    option = ""
    for at, arg in enumerate(args):
        text = arg if isinstance(arg, str) else ""
        named = _OPTION.match(text)
        if named is None:
            if is_secret(option, text):
                yield at, variable_for(option) if option else "TOKEN"
            option = ""
        elif named[2] is not None:
            option = ""
            if is_secret(named[1], named[2]):
                yield at, variable_for(named[1])
        else:
            option = named[1]


def _of_args(args: list[str]) -> Iterator[tuple[str, str]]:
    for at, name in _places_in_args(args):
        named = _OPTION.match(args[at])
        yield name, (named[2] if named is not None else args[at])


def _of_url(url: str) -> Iterator[tuple[str, str]]:
    """Passwords and tokens in a URL."""
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return
    if password and "${" not in password:
        yield "PASSWORD", password
    for name, value in parse_qsl(parts.query):
        if is_secret(name, value):
            yield variable_for(name), value
