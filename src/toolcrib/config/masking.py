"""Masks possible secrets in configs and texts.

Possible secrets are the values of headers and environment variables, user info and query values of URLs, and the values
of variables in settings files.
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
    """A text with its variables replaced. Its repr shows it as written, because the values may be secrets."""

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
    """Return the text with user info, query values and fragments of all URLs in it masked."""
    if not isinstance(text, Expanded):
        return _URL.sub(_masked_url, text)
    plain, written = str(text), mask_urls(text.written)
    # A variable can hide that the text after it belongs to a URL.
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
    # Used in logs and cache keys, so it must contain neither secrets nor control characters.
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
    """Return whether the name of a variable, a header or an option suggests that its value is a secret."""
    return _SECRET_NAME.search(name) is not None


def looks_like_token(value: str) -> bool:
    """Return whether a value begins like the tokens of well-known services."""
    return _TOKEN.match(value) is not None


# ---- secrets in texts from servers


SHORTEST_SECRET: Final = 4
"""The fewest characters of a secret; shorter values are switches and numbers."""
SHORTEST_UNNAMED_SECRET: Final = 8
"""The fewest characters of a secret in a header or query value whose name does not suggest one, as in `?mode=read`."""
KEPT_TOKENS: Final = 4
"""The number of recent values of one header that are masked."""
LONGEST_PART: Final = 4_096
"""The most characters of a partial secret that are searched for at the cut end of a text."""


class SecretMask:
    """The secrets of one server, which it masks in texts from the server.

    Servers print their settings when they fail, and quote the headers that they reject.
    """

    __slots__ = ("_secrets", "_tokens")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets = frozenset(spelling for secret in secrets for spelling in _spellings(secret))
        self._tokens: dict[str, deque[frozenset[str]]] = {}

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Add the values of these request headers, such as credentials, to the secrets."""
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
        """Return `text` with all secrets masked.

        If its end is `cut` off, or its beginning (`cut_start`), a partial secret there is masked too.
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
        """Return a JSON value with all secrets in its strings and keys masked."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, Mapping):
            return {self.mask(key): self.mask_data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_data(item) for item in value]
        return value

    def __or__(self, other: SecretMask) -> SecretMask:
        """Return a mask for the secrets of both."""
        return SecretMask([*self._all(), *other._all()])

    @property
    def is_empty(self) -> bool:
        """Whether there are no secrets to mask."""
        return next(self._all(), None) is None

    def is_in(self, text: str) -> bool:
        """Return whether the text contains a secret."""
        return any(secret in text for secret in self._all())


def _spellings(secret: str) -> set[str]:
    """Return the forms of a secret: unchanged, its lines, and quoted for URLs and for JSON."""
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
    """Yield position and value of the secrets among arguments, recognised by the option's name or by their form."""
    for position, name, value in argument_values(args):
        if names_a_secret(name) or looks_like_token(value):
            yield position, value


def mask_arguments(args: Iterable[str]) -> tuple[str, ...]:
    """Return the arguments of a command with secrets masked; variables need no mask, as they are shown by name."""
    masked = list(args)
    for position, secret in secret_arguments(masked):
        if not isinstance(masked[position], Expanded):
            masked[position] = masked[position].removesuffix(secret) + MASK
    return tuple(masked)


def secrets_of_process(env: Mapping[str, str] | None, args: Iterable[str] = ()) -> SecretMask:
    """Return the secrets among the environment variables and arguments of a server's process.

    A value that is passed on from this process's environment is a secret only if its name suggests one: values such as
    HOME occur in many texts. The same holds for paths that exist: masking them would hide where the server's files are.
    """
    found = [
        value
        for name, value in (env or {}).items()
        if names_a_secret(name) or (os.environ.get(name) != value and not _is_ordinary(value))
    ]
    return SecretMask([*found, *(secret for _, secret in secret_arguments(args))])


_ORDINARY: Final = re.compile(r"[A-Za-z]{1,12}|[\d.,:+-]{1,12}|[a-z][a-z0-9+.-]*://[A-Za-z0-9.:\[\]-]+/?")
"""A word, a number or version, or the URL of a host without a path: values that are not secrets."""


def _is_ordinary(value: str) -> bool:
    if _ORDINARY.fullmatch(value):
        return True
    return value.startswith(("/", "~/")) and os.path.exists(os.path.expanduser(value))


def secrets_of_web(url: str, headers: Mapping[str, Any] | None, proxy: str | None = None) -> SecretMask:
    """Return the secrets of a remote server: values of its headers, user info and query values of its URLs."""
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
    """Return the secrets in headers: their values, and credentials without the scheme."""
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
