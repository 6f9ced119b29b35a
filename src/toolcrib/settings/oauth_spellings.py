"""The `oauth` and `auth` keys of entries: what other programs call the options of a sign-in, and Toolcrib's names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..config import wrong
from ..config.oauth_options import OAUTH_KEYS
from ..errors import ConfigError

OAUTH_ALIASES: Final = {
    "clientId": "client_id",
    "CLIENT_ID": "client_id",
    "clientSecret": "client_secret",
    "CLIENT_SECRET": "client_secret",
    "clientMetadataUrl": "client_metadata_url",
    "scope": "scopes",
    "redirectUri": "redirect_uri",
}
"""Other programs' names of options, and Toolcrib's names."""

CALLBACK_PORTS: Final = ("callbackPort", "callback_port")
"""Names of the port of Claude Code's redirect URI."""

OAUTH_WITHOUT_EFFECT: Final = {
    "authServerMetadataUrl": "authorisation servers are discovered; issuer chooses one of them",
    "authorizationUrl": "endpoints are discovered",
    "tokenUrl": "endpoints are discovered",
    "registrationUrl": "endpoints are discovered",
    "audiences": "resource sets the resource that the token is for",
    "tokenParamName": "tokens are sent in the Authorization header",
}
"""Options of other programs that Toolcrib does not have, with what it does instead."""

_CALLBACK: Final = re.compile(r"http://localhost:(\d+)/callback")


@dataclass(slots=True)
class OAuthReading:
    """The options of a sign-in by Toolcrib's names, as they are written: variables are not replaced."""

    options: dict[str, Any] | None
    """None if the entry turns the sign-in off."""
    spelled: dict[str, str] = field(default_factory=dict)
    """The key in the file by Toolcrib's name, for those that differ."""
    ignored: list[str] = field(default_factory=list)
    """Keys that are unknown, or have no effect."""


def read_oauth(key: str, value: Any) -> OAuthReading:
    """Return the options that the value of `oauth` or `auth` means; errors name the keys of the file."""
    if isinstance(value, bool):
        return OAuthReading({} if value else None)
    if value == "oauth":
        return OAuthReading({})
    if not isinstance(value, Mapping):
        raise wrong(key, "a table of sign-in options, true or false", value)
    if value.get("enabled") not in (None, True):
        if value["enabled"] is not False:
            raise wrong(f"{key}.enabled", "true or false", value["enabled"])
        return OAuthReading(None)
    found = OAuthReading({})
    for name, item in value.items():
        _read_option(found, key, str(name), item)
    for name in CALLBACK_PORTS:
        if value.get(name) is not None:
            _read_port(found, key, name, value[name])
    return found


def _read_option(found: OAuthReading, key: str, name: str, item: Any) -> None:
    own = OAUTH_ALIASES.get(name, name)
    if name == "enabled" or name in CALLBACK_PORTS:
        return
    if own not in OAUTH_KEYS:
        found.ignored.append(name)
        return
    # In a file, `resource` is turned off by null as well as by false.
    value = False if own == "resource" and item is None else item
    if value is None:
        return
    assert found.options is not None
    if own in found.options:
        other = found.spelled.get(own, own)
        raise ConfigError(
            f"{key}.{name}: another name of {other}: use only one of them", key=f"{key}.{name}", expected=other
        )
    found.options[own] = value
    if name != own:
        found.spelled[own] = name


def _read_port(found: OAuthReading, key: str, name: str, port: Any) -> None:
    is_number = isinstance(port, int) and not isinstance(port, bool) and 0 < port < 65536
    if not is_number and not (isinstance(port, str) and (port.isdecimal() or "${" in port)):
        raise wrong(f"{key}.{name}", "a port number", port)
    assert found.options is not None
    if "redirect_uri" not in found.options:
        found.options["redirect_uri"] = f"http://localhost:{port}/callback"
        found.spelled["redirect_uri"] = name


def convert_option(word: str, value: Any, format: str) -> Any:
    """Return the value of an option as the program with this format writes it; None if it cannot express the value."""
    if word == "callbackPort":
        match = _CALLBACK.fullmatch(value) if isinstance(value, str) else None
        return None if match is None else int(match[1])
    if word == "scopes" and format == "claude-code":
        return value if isinstance(value, str) else " ".join(value)
    if word == "scopes" and isinstance(value, str) and "${" not in value:
        return value.split()
    return value
