"""The options of a sign-in by a person."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..types import UNSET, Unset
from .client_auth import ClientIdentity, PrivateKey
from .client_registration import is_usable
from .interaction import Interact
from .stored_sign_in import StoredSignIn, TokenSet


@dataclass(frozen=True, slots=True)
class SignInOptions:
    """The options of `OAuth`."""

    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    private_key: PrivateKey | None = field(default=None, repr=False)
    client_metadata_url: str | None = None
    client_name: str = "Toolcrib"
    scopes: tuple[str, ...] | None = None
    issuer: str | None = None
    resource: str | Unset | None = UNSET
    """UNSET: use the value in the resource metadata."""
    redirect_uri: str | None = None
    interact: Interact = "auto"
    assume_pkce: bool = False


def client_of(options: SignInOptions, tokens: TokenSet, stored: StoredSignIn) -> ClientIdentity | None:
    """Return the client that tokens were issued to; None if it is another one than the configured one."""
    if options.client_id is not None:
        # The secret belongs to the configured issuer: no other one must see it.
        if options.client_id != tokens.client_id or options.issuer not in (None, tokens.issuer):
            return None
        return ClientIdentity(
            options.client_id, options.client_secret, tokens.auth_method, private_key=options.private_key
        )
    if tokens.client_id == options.client_metadata_url:
        return ClientIdentity(tokens.client_id, origin="metadata_url")
    client = stored.client_for(tokens.issuer, tokens.client_id)
    return client if client is not None and is_usable(client) else None
