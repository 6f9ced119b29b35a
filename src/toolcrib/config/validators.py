"""Validators for the fields of configs: each returns the value to keep, or raises `ConfigError`.

Errors never quote the value, nor chain an error that does, because it may be a secret.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final
from urllib.parse import urlsplit

from .._util.suggest import suggest
from ..errors import ConfigError
from ..types import ReconnectPolicy, Unset
from .masking import MaskedMapping
from .oauth_options import OAUTH_KEYS, OAuthOptions

# A value, or a function, sync or async, that returns it for each request.
HeaderValue = str | Callable[[], Any]
Timeout = float | Unset | None


# Most values are from files, so errors use the names of JSON types. A bool is an int, so it is first.
_KINDS = (
    (bool, "a boolean"),
    (int | float, "a number"),
    (str, "a string"),
    (Mapping, "an object"),
    (list | tuple, "a list"),
    (type, "a class"),
)


def wrong(key: str, expected: str, value: object, advice: str = "") -> ConfigError:
    """Return an error for a field; it names the type of the value and never the value, which may be a secret."""
    kind = next((word for kind, word in _KINDS if isinstance(value, kind)), type(value).__name__)
    end = f". {advice}" if advice else ""
    return ConfigError(f"{key}: expected {expected}, got {kind} (value hidden){end}", key=key, expected=expected)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_passable(value: Any) -> bool:
    """Return whether a string can be passed to a process; file names that are not UTF-8 can: Python escapes them."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


def check_text(key: str, value: Any) -> str:
    """Check a string that must not be empty."""
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not value or not _is_passable(value):
        raise wrong(key, "a non-empty string without NUL and lone surrogates", value)
    return value  # type: ignore[no-any-return]


def _optional_text(key: str, value: Any) -> str | None:
    return None if value is None else check_text(key, value)


def check_arguments(key: str, value: Any) -> tuple[str, ...]:
    """Check the arguments of a command."""
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise wrong(key, "a list of strings, one for each argument, such as ['-m', 'server']", value)
    given = [os.fspath(arg) if isinstance(arg, os.PathLike) else arg for arg in value]
    for place, arg in enumerate(given):
        if not _is_passable(arg):
            raise wrong(f"{key}[{place}]", "a string without NUL and lone surrogates", arg)
    return tuple(given)


def _env(key: str, value: Any) -> MaskedMapping[str] | None:
    # An invalid name is not quoted either: `KEY=secret` as a name contains the secret.
    expected = "a mapping of names, without =, to strings"
    return _masked(key, value, expected, lambda name: name.isprintable() and "=" not in name, _env_value)


def _env_value(key: str, value: Any) -> None:
    if not _is_passable(value):
        raise wrong(key, "a string without NUL and lone surrogates", value)


def _headers(key: str, value: Any) -> MaskedMapping[HeaderValue] | None:
    expected = "a mapping of header names to strings or functions that return one"
    return _masked(key, value, expected, lambda name: bool(_HEADER_NAME.fullmatch(name)), check_header)


_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_HEADER = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")


def check_header(key: str, value: Any) -> None:
    """Check a header's value, or the function that returns it."""
    if not callable(value) and not (isinstance(value, str) and not _NO_HEADER.search(value)):
        raise wrong(key, "a string without line breaks and control characters, or a function that returns one", value)


def _masked(
    key: str, value: Any, expected: str, is_name: Callable[[str], bool], check: Callable[[str, Any], None]
) -> MaskedMapping[Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name and is_name(name) for name in value):
        raise wrong(key, expected, value)
    for name, item in value.items():
        check(f"{key}.{name}", item)
    return MaskedMapping(value)


def _url(key: str, value: Any) -> str:
    if isinstance(value, str) and not re.search(r"[\x00-\x20\x7f\s\ud800-\udfff]", value) and _is_web_url(value):
        return value
    raise wrong(key, "an absolute http:// or https:// URL", value)


def _is_web_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port or [host]
        return False


def _proxy(key: str, value: Any) -> str | None:
    return None if value is None else _url(key, value)


def _client_cert(key: str, value: Any) -> str | tuple[str, str] | None:
    if value is None:
        return None
    if isinstance(value, str | os.PathLike):
        return check_text(key, value)
    if not isinstance(value, Sequence) or len(value) != 2:
        raise wrong(key, "the path of a PEM file, or a pair of paths: certificate and key", value)
    return check_text(f"{key}[0]", value[0]), check_text(f"{key}[1]", value[1])


def _oauth(key: str, value: Any) -> OAuthOptions | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise wrong(key, "a mapping of sign-in options; an empty one means the defaults", value)
    check_known(value, list(OAUTH_KEYS), f"{key}.")
    return check_oauth_options(value, f"{key}.")


def check_oauth_options(values: Mapping[str, Any], prefix: str = "") -> OAuthOptions:
    """Check the options of a sign-in; errors name them with this prefix."""
    # None is the same as absent, except for `resource`: there it means that the parameter is not sent.
    given = {name: item for name, item in values.items() if item is not None or name == "resource"}
    return OAuthOptions({name: _OAUTH_CHECKS[name](f"{prefix}{name}", item) for name, item in given.items()})


def check_scopes(key: str, value: Any) -> tuple[str, ...]:
    """Check OAuth scopes: a list, or a space-separated string."""
    given = value.split() if isinstance(value, str) else value
    expected = "a list of scopes, or a string of scopes separated by spaces"
    if not isinstance(given, Collection) or isinstance(given, Mapping | bytes):
        raise wrong(key, expected, value)
    for at, scope in enumerate(given):
        if not isinstance(scope, str) or not _SCOPE.fullmatch(scope):
            raise wrong(f"{key}[{at}]", "a scope: ASCII without spaces, quotes and backslashes", scope)
    return tuple(dict.fromkeys(given))


_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def check_resource(key: str, value: Any) -> str | None:
    """Check the OAuth resource parameter; None and False omit it."""
    if value is None or value is False:
        return None
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s#\x00-\x20\x7f]+", value):
        raise wrong(key, "an absolute URI without a fragment, or False to leave the parameter out", value)
    return value


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong(key, "True or False", value)
    return value


def _timeout(key: str, value: Any) -> float | None:
    if value is None or (_is_number(value) and 0 < value < 1e9):
        return value  # type: ignore[no-any-return]
    raise wrong(key, "a positive number of seconds, or None for no time-out", value)


def _attempts(key: str, value: Any) -> int:
    if not _is_whole(value) or value < 1:
        raise wrong(key, "a whole number of attempts, 1 or more", value)
    return int(value)


def _max_in_flight(key: str, value: Any) -> int | None:
    if value is not None and (not _is_whole(value) or value < 1):
        raise wrong(key, "a whole number, 1 or more, or None for no limit", value)
    return value  # type: ignore[no-any-return]


def _reconnect(key: str, value: Any) -> ReconnectPolicy:
    if not isinstance(value, ReconnectPolicy | Mapping):
        raise wrong(key, "a ReconnectPolicy, or a mapping of its fields", value)
    values = asdict(value) if isinstance(value, ReconnectPolicy) else dict(value)
    check_known(values, [f.name for f in fields(ReconnectPolicy)], f"{key}.")
    policy = ReconnectPolicy(**values)
    if policy.max_retries is not None and (not _is_whole(policy.max_retries) or policy.max_retries < 0):
        expected = "a whole number, 0 or more, or None to keep trying"
        raise wrong(f"{key}.max_retries", expected, policy.max_retries)
    for name, most in (("base_delay", 1e9), ("max_delay", 1e9), ("jitter_factor", 1.0)):
        delay = getattr(policy, name)
        if not _is_number(delay) or not 0 <= delay <= most:
            raise wrong(f"{key}.{name}", "a number from 0 to 1" if most == 1.0 else "seconds, 0 or more", delay)
    return policy


def _retry_safe(key: str, value: Any) -> bool | frozenset[str]:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(name, str) for name in value):
        raise wrong(key, "True, False or a list of tool names", value)
    return frozenset(value)


def one_of(*choices: str) -> Callable[[str, Any], str]:
    """Return a check that accepts only these words."""

    def check(key: str, value: Any) -> str:
        if value not in choices:
            raise wrong(key, f"one of {', '.join(choices)}", value)
        return str(value)

    return check


def _tool_filter(key: str, value: Any) -> Callable[..., bool] | None:
    if value is not None and not callable(value):
        raise wrong(key, "a function of a tool, or a filter made by static_filter or dynamic_filter", value)
    return value  # type: ignore[no-any-return]


def check_known(values: Mapping[Any, Any], known: list[str], prefix: str) -> None:
    for name in values:
        if name in known:
            continue
        shown = prefix + (name if isinstance(name, str) and name.isidentifier() else ascii(name))[:60]
        hint = suggest(str(name), known) or f"; expected one of {', '.join(known)}"
        raise ConfigError(f"{shown}: unknown setting{hint}", key=shown, expected=f"one of {', '.join(known)}")


_OAUTH_CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "client_id": check_text,
    "client_secret": check_text,
    "client_metadata_url": _url,
    "scopes": check_scopes,
    "issuer": _url,
    "redirect_uri": _url,
    "resource": check_resource,
    "assume_pkce": _flag,
}

CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "command": check_text,
    "args": check_arguments,
    "env": _env,
    "cwd": _optional_text,
    "python": check_text,
    "url": _url,
    "headers": _headers,
    "streamable": _flag,
    "ca": _optional_text,
    "client_cert": _client_cert,
    "proxy": _proxy,
    "oauth": _oauth,
    "verify": _flag,
    "max_connections": _max_in_flight,
    "tool_filter": _tool_filter,
    "cache_tools_list": _flag,
    "connect_timeout": _timeout,
    "discovery_timeout": _timeout,
    "execution_timeout": _timeout,
    "idle_timeout": _timeout,
    "max_attempts": _attempts,
    "reconnect": _reconnect,
    "max_in_flight": _max_in_flight,
    "lifecycle": one_of("singleton", "transient"),
    "retry_safe": _retry_safe,
    "trusted": _flag,
    "clean_arguments": one_of("schema", "always", "never"),
}

ALIASES: Final = {"max_retries": "max_attempts"}
"""Other programs' names of options, and Toolcrib's names."""


def with_own_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with aliases replaced by Toolcrib's names."""
    options = dict(given)
    for alias, name in ALIASES.items():
        if alias not in options:
            continue
        if name in options:
            raise ConfigError(f"{alias} is another name of {name}: use only one of them", key=alias, expected=name)
        options[name] = options.pop(alias)
    return options
