"""The `oauth` field of remote servers: the options of their sign-in, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .masking import MASK, MaskedMapping, shown

OAUTH_KEYS: Final = (
    "client_id",
    "client_secret",
    "client_metadata_url",
    "scopes",
    "issuer",
    "redirect_uri",
    "resource",
    "assume_pkce",
)
"""The options of a sign-in that a config can hold: parameters of `OAuth`."""


class OAuthOptions(MaskedMapping[Any]):
    """The options of a server's sign-in: a read-only mapping that never shows the client's secret."""

    __slots__ = ()

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({name: values[name] for name in OAUTH_KEYS if name in values})

    def __repr__(self) -> str:
        given = (f"{name}={MASK if name == 'client_secret' else shown(value)}" for name, value in self.items())
        return f"[{', '.join(given)}]"

    def as_json(self) -> dict[str, Any]:
        """Return the options as JSON types, including the secret."""
        return {name: _plain(value) for name, value in self.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(map(str, value))
    return str(value) if isinstance(value, str) else value
