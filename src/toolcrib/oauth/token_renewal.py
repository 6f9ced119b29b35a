"""Renews the tokens of a person with their refresh token, once for all processes."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Final

from .._util.tasks import run_to_end
from ..config import mask_urls
from ..errors import AuthError, ConnectError
from .account import Account, ConnectionContext
from .challenge import Challenge
from .client_auth import ClientIdentity
from .issuer_discovery import fetch_resource_metadata
from .sign_in_options import SignInOptions, client_of
from .stored_sign_in import StoredSignIn, TokenSet
from .token_requests import REFRESH, TokenRequestRejected, request_tokens

log = logging.getLogger("toolcrib.oauth")

MISCONFIGURED: Final = frozenset(
    {"invalid_client", "invalid_request", "invalid_response", "invalid_scope", "invalid_target"}
)
"""Errors of a refresh that are reported, since a sign-in would fail as well; after others a person signs in again."""


class TokenRenewal:
    """Renews the tokens of one account over one connection."""

    def __init__(self, options: SignInOptions, account: Account, connection: ConnectionContext) -> None:
        self._options = options
        self._account = account
        self._connection = connection

    async def renew(self, used: TokenSet) -> TokenSet | None:
        """Return newer tokens than `used`: stored by another process, or refreshed. None if a person must sign in.

        The lock makes all processes together present a refresh token once.
        """
        async with self._account.lock():
            stored = await self._account.load()
            current = self._account.choose(stored)
            if current is None:
                return None
            if current.access_token != used.access_token:
                self._account.refresh_error = ""
                return current
            if current.refresh_token is None or current.token_endpoint is None:
                return None
            client = client_of(self._options, current, stored)
            if client is None:
                return None
            try:
                # Not cancellable: the refresh token can be used only once, and the answer may have a new one.
                return await run_to_end(self._refresh(current, stored, client))
            except (ConnectError, TokenRequestRejected) as exc:
                failure = exc
        # Without the lock, as this may take long.
        is_former = self._options.issuer is None and not await self._names_issuer(current)
        async with self._account.lock():
            stored = await self._account.load()
            newest = self._account.choose(stored)
            if newest is not None and newest.access_token != current.access_token:
                return newest
            if not is_former:
                raise failure
            await self._account.save(replace(stored, issuer=None))
            return None

    async def _names_issuer(self, tokens: TokenSet) -> bool:
        """Return whether the server still names the issuer of these tokens; True if that is not known."""
        challenge = Challenge(tokens.resource_metadata_url)
        try:
            found = await fetch_resource_metadata(self._connection.fetch, self._connection.server_url, challenge)
        except (AuthError, ConnectError):
            return True
        return found is None or not found.authorization_servers or tokens.issuer in found.authorization_servers

    async def _refresh(self, current: TokenSet, stored: StoredSignIn, client: ClientIdentity) -> TokenSet | None:
        metadata = current.issuer_metadata
        form = {"grant_type": REFRESH, "refresh_token": current.refresh_token, "resource": current.resource}
        try:
            answer = await request_tokens(self._connection.fetch, metadata, client, form)
        except TokenRequestRejected as exc:
            log.info("%s: the tokens could not be renewed: %s", mask_urls(self._account.server), exc.error)
            if exc.error == "invalid_grant":
                return await self._remove_rejected(current)
            if exc.error in MISCONFIGURED and not (exc.rejects_client and client.is_registered):
                raise
            self._account.refresh_error = exc.error
            if exc.error == "invalid_client":
                await self._account.save(stored.without_client(current.issuer))
            return None
        self._account.refresh_error = ""
        renewed = current.with_response(answer)
        # The issuer of the last sign-in stays: other programs may use it, and this one another one (`issuer=`).
        await self._account.save(replace(stored.with_tokens(renewed), issuer=stored.issuer))
        return renewed

    async def _remove_rejected(self, tokens: TokenSet) -> TokenSet | None:
        """Remove tokens whose refresh token the server rejects; this process uses the access token while it is valid.

        Returns the tokens that another process has stored, if the lock of the store did not keep it from that.
        """
        stored = await self._account.load()
        newest = self._account.choose(stored)
        if newest is not None and newest.refresh_token != tokens.refresh_token:
            return newest
        self._account.refresh_error = "invalid_grant"
        await self._account.save(stored.without_tokens(tokens))
        if tokens.is_valid(time.time()):
            self._account.tokens = replace(tokens, refresh_token=None)
        return None
