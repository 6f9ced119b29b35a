"""Showing configs without what can be a secret.

Such are values of headers and variables, user info and query values of URLs, and what a settings file takes from the
environment.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote, unquote, urlsplit

MASK = "<masked>"

V = TypeVar("V")

_URL = re.compile(
    # The length of a scheme is bounded, or a long text without any URL would take quadratic time.
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,31}://)(?P<authority>[^\s/?#]*)(?P<path>[^\s?#]*)(?P<query>\?[^\s#]*)?(?P<rest>#\S*)?"
)

_SECRET_NAME: Final = re.compile(
    r"(?:^|[^a-z])(?:api_?key|access_?key|private_?key|key|token|secret|passw(?:or)?d|passphrase|pat|credentials?|"
    r"authorization|auth|cookie|dsn)$",
    re.IGNORECASE,
)


class Expanded(str):
    """A text in which variables were replaced. It is shown as it was written: what they stand for may be a secret."""

    __slots__ = ("written",)

    written: str

    def __new__(cls, text: str, written: str) -> Self:
        made = super().__new__(cls, text)
        made.written = written
        return made

    def __repr__(self) -> str:
        return repr(mask_urls(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Expanded, (str(self), self.written))


def mask_urls(text: str) -> str:
    """The text with the user info, query values and fragments of all URLs in it masked."""
    if not isinstance(text, Expanded):
        return _URL.sub(_masked_url, text)
    plain, written = str(text), mask_urls(text.written)
    # A variable can hide that what is written behind it belongs to a URL.
    return MASK if written == text.written and mask_urls(plain) != plain else written


def _masked_url(url: re.Match[str]) -> str:
    _, at, host = url["authority"].rpartition("@")
    user = f"{MASK}@" if at else ""
    query = "?" + re.sub(r"[^&]+", _masked_pair, url["query"][1:]) if url["query"] else ""
    rest = f"#{MASK}" if url["rest"] else ""
    return f"{url['scheme']}{user}{host}{url['path']}{query}{rest}"


def _masked_pair(pair: re.Match[str]) -> str:
    name, _, value = pair[0].partition("=")
    # `?dG9rZW4=` is a token with its padding, not a name without a value.
    return f"{name}={MASK}" if value.strip("=") else MASK


class MaskedMapping(Mapping[str, V]):
    """A read-only mapping that shows its names, never its values."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, V]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> V:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"[{', '.join(f'{name}={MASK}' for name in self._values)}]"


def identifier(*parts: str) -> str:
    # It goes to logs and cache keys, so it must not hold a secret; and nothing in it may steer a terminal.
    text = ":".join(map(mask_urls, parts))
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(value: Any) -> str:
    match value:
        case str():
            return repr(mask_urls(value))
        case tuple():
            return f"[{', '.join(map(shown, value))}]"
        case frozenset():
            return shown(tuple(sorted(value)))
        case _ if callable(value):
            # Not its repr: a partial shows its arguments.
            return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"
        case _:
            return repr(value)


_TOKEN: Final = re.compile(
    r"^(?:sk-|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|AKIA|AIza|hf_|npm_|pypi-|eyJ)[\w.-]{10,}", re.ASCII
)


def names_a_secret(name: str) -> bool:
    """Return whether the name of a variable, a header or an option says that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


def looks_like_token(value: str) -> bool:
    """Return whether a value begins as the tokens of well-known services do."""
    return _TOKEN.match(value) is not None


# ---- secrets in the text of others


SHORTEST_SECRET: Final = 4
"""Characters from which on a value can be a secret; shorter ones are switches and numbers."""
SHORTEST_UNNAMED_SECRET: Final = 8
"""The same for a header or a query value whose name does not say that it is a secret: `?mode=read` is none."""
KEPT_TOKENS: Final = 4
"""Values of one header that were used one after the other: so many of the last ones are masked."""
LONGEST_PART: Final = 4_096
"""Characters of a part of a secret that are looked for where a text was cut."""


class SecretMask:
    """The secrets of one server: hides them in what the server says.

    Servers print their settings when they fail, and quote the headers that they refuse.
    """

    __slots__ = ("_secrets", "_tokens")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(spelling for secret in secrets for spelling in _spellings(secret))
        self._tokens: dict[str, deque[frozenset[str]]] = {}

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Mask the values of these headers from now on: credentials that were put on a request."""
        for name, value in headers.items():
            kept = self._tokens.setdefault(name.lower(), deque(maxlen=KEPT_TOKENS))
            spellings = frozenset(s for secret in secrets_of_headers({name: value}) for s in _spellings(secret))
            if spellings and spellings not in kept:
                kept.append(spellings)

    def _all(self) -> Iterator[str]:
        yield from self._secrets
        for kept in self._tokens.values():
            for spellings in kept:
                yield from spellings

    def mask(self, text: str, *, cut: bool = False, cut_start: bool = False) -> str:
        """Return `text` without secrets.

        `cut` and `cut_start` say that its end or its beginning is missing: then a part of a secret there is hidden too.
        """
        places: list[tuple[int, int]] = []
        for secret in self._all():
            size, at = len(secret), text.find(secret)
            while at >= 0:
                places.append((at, at + size))
                at = text.find(secret, at + size)
            parts = range(min(size - 1, len(text), LONGEST_PART), SHORTEST_SECRET - 1, -1)
            if cut and (n := next((n for n in parts if text.endswith(secret[:n])), 0)):
                places.append((len(text) - n, len(text)))
            if cut_start and (n := next((n for n in parts if text.startswith(secret[-n:])), 0)):
                places.append((0, n))
        if not places:
            return text
        pieces: list[str] = []
        done = 0
        for start, end in sorted(places):
            if start > done or not pieces:
                pieces += [text[done:start], MASK]
            done = max(done, end)
        return "".join(pieces) + text[done:]

    def mask_data(self, value: Any) -> Any:
        """Return a JSON value without secrets in its strings, keys included."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            return {self.mask(key): self.mask_data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_data(item) for item in value]
        return value

    def __or__(self, other: SecretMask) -> SecretMask:
        """Return a mask that hides the secrets of both."""
        return SecretMask([*self._all(), *other._all()])

    @property
    def is_empty(self) -> bool:
        """Return whether there is no secret to hide."""
        return next(self._all(), None) is None

    def is_in(self, text: str) -> bool:
        """Return whether a secret is in the text."""
        return any(secret in text for secret in self._all())


def _spellings(secret: str) -> set[str]:
    """Return how a secret may be written: as it is, its lines, and quoted for URLs and for JSON."""
    written = {secret, *secret.splitlines()}
    written |= {quote(each, safe="", errors="replace") for each in written} | {unquote(each) for each in written}
    written |= {json.dumps(each, ensure_ascii=flag)[1:-1] for each in written for flag in (True, False)}
    return {each for each in written if len(each) >= SHORTEST_SECRET}


_OPTION: Final = re.compile(r"--?([\w-]+)(?:=(.*))?", re.DOTALL)


def argument_values(args: Iterable[Any]) -> Iterator[tuple[int, str, str]]:
    """Yield the values among the arguments of a command: position, name of the option, value.

    `--token=X` and `--token X` are values of the option `token`. All other words have the name ``.
    """
    name = ""
    for position, argument in enumerate(args):
        option = _OPTION.fullmatch(argument) if isinstance(argument, str) else None
        if option is not None and option[2] is None:
            name = option[1]
            continue
        if option is not None:
            yield position, option[1], option[2]
        elif isinstance(argument, str):
            yield position, name, argument
        name = ""


def secret_arguments(args: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield position and value of the secrets among arguments: by the option's name, or by their look."""
    for position, name, value in argument_values(args):
        if names_a_secret(name) or looks_like_token(value):
            yield position, value


def mask_arguments(args: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments of a command without their secrets. A variable is shown by its name anyway."""
    masked = list(args)
    for position, secret in secret_arguments(masked):
        if not isinstance(masked[position], Expanded):
            masked[position] = masked[position].removesuffix(secret) + MASK
    return tuple(masked)


def secrets_of_process(env: Mapping[str, str] | None, args: Iterable[str] = ()) -> SecretMask:
    """Return the secrets among the variables and arguments that a server's process is given.

    A variable that is only passed on from our own environment is one if its name says so: HOME is in every other text.
    So is a folder or file that exists: hiding it would hide where the server's own log file is.
    """
    found = [
        value
        for name, value in (env or {}).items()
        if names_a_secret(name) or (os.environ.get(name) != value and not _is_ordinary(value))
    ]
    return SecretMask([*found, *(secret for _, secret in secret_arguments(args))])


_ORDINARY: Final = re.compile(r"[A-Za-z]{1,12}|[\d.,:+-]{1,12}|[a-z][a-z0-9+.-]*://[A-Za-z0-9.:\[\]-]+/?")
"""A word, a number or version, or a URL of a host alone: values that are not chosen as secrets."""


def _is_ordinary(value: str) -> bool:
    if _ORDINARY.fullmatch(value):
        return True
    return value.startswith(("/", "~/")) and os.path.exists(os.path.expanduser(value))


def secrets_of_web(url: str, headers: Mapping[str, Any] | None, proxy: str | None = None) -> SecretMask:
    """Return the secrets of a server behind a URL: values of its headers, user info and query values of URLs."""
    found = secrets_of_headers({name: value for name, value in (headers or {}).items() if isinstance(value, str)})
    for each in (str(url), str(proxy or "")):
        parts = urlsplit(each)
        user, password = (unquote(part or "") for part in (parts.username, parts.password))
        found += [user, password]
        if user or password:
            found.append(base64.b64encode(f"{user}:{password}".encode()).decode())
        for pair in parts.query.split("&"):
            name, _, value = pair.partition("=")
            # `?dG9rZW4=` is a token with its padding, not a name without a value.
            found.append(_if_likely(name, unquote(value)) if value.strip("=") else _if_likely("", pair))
    return SecretMask(found)


def secrets_of_headers(headers: Mapping[str, str]) -> list[str]:
    """Return the secrets in headers: their values, and of credentials what follows the scheme."""
    found = []
    for name, value in headers.items():
        found.append(_if_likely(name, value))
        scheme, _, credentials = value.partition(" ")
        if credentials and names_a_secret(name):
            found.append(credentials.strip())
            if scheme.lower() == "basic":
                found += _user_and_password(credentials.strip())
        if name.lower() == "cookie":
            found += [_if_likely("", pair.partition("=")[2]) for pair in value.split("; ")]
    return found


def _if_likely(name: str, value: str) -> str:
    if names_a_secret(name):
        return value
    return value if len(value) >= SHORTEST_UNNAMED_SECRET and not _is_ordinary(value) else ""


def _user_and_password(credentials: str) -> list[str]:
    try:
        user, _, password = base64.b64decode(credentials, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return []
    return [_if_likely("", user), password]
