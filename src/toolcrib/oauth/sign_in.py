"""Signs a person in with the authorisation code flow."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import replace

from .._util.tasks import run_to_end
from ..config import mask_urls
from ..errors import AuthError, ConsentRefused
from ..protocol.sanitize import one_line
from ..types import Unset
from .account import Account, ConnectionContext
from .authorization import (
    OFFLINE_ACCESS,
    AuthorizationAttempt,
    first_scopes,
    with_offline_access,
)
from .challenge import Challenge
from .client_auth import ClientIdentity, choose_method
from .client_registration import is_same_redirect, is_usable, register_client
from .http import Fetch
from .interaction import PASTE_REDIRECT_URI, Interact, ask_person, choose_interaction, open_listener
from .issuer_discovery import Discovery, discover, limit_requests
from .loopback_listener import LoopbackListener
from .sign_in_options import SignInOptions
from .stored_sign_in import StoredSignIn, TokenSet
from .token_renewal import TokenRenewal
from .token_requests import CODE, TokenRequestRejected, request_tokens
from .well_known import ServerMetadata

log = logging.getLogger("toolcrib.oauth")


class SignInFlow:
    """Obtains tokens for one account, with a person or with a refresh token."""

    def __init__(self, options: SignInOptions, account: Account, connection: ConnectionContext) -> None:
        self._options = options
        self._account = account
        self._connection = connection
        self._renewal = TokenRenewal(options, account, connection)

    async def renew(self, used: TokenSet) -> TokenSet | None:
        """Return newer tokens than `used`; None if a person must sign in."""
        return await self._renewal.renew(used)

    @property
    def _interact(self) -> Interact:
        return choose_interaction(self._options.interact, self._options.redirect_uri)

    # ---- a person --------------------------------------------------------------------------------------------

    async def sign_in(
        self, challenge: Challenge | None, used: TokenSet | None, *, more_scopes: bool, allow_legacy: bool
    ) -> TokenSet:
        """Return the tokens of a new authorisation. `more_scopes`: the current ones lack scopes of the challenge."""
        async with AsyncExitStack() as stack:
            if self._interact is not None:
                with self._connection.hold():  # another process may be waiting for the person
                    await stack.enter_async_context(self._account.lock_sign_in())
            stored = await self._account.load()
            current = self._account.choose(stored)
            lacking = set(challenge.scope) if more_scopes and challenge is not None else set()
            is_newer = current is not None and (used is None or current.access_token != used.access_token)
            if current is not None and is_newer and current.covers(lacking):
                return current  # another process, or another event loop, has signed in
            if current is not None and more_scopes:
                current.check_new_scopes(lacking)
            allow_legacy = allow_legacy and self._connection.allow_legacy
            return await self._authorize(challenge, stored, more_scopes, allow_legacy)

    async def _authorize(
        self, challenge: Challenge | None, stored: StoredSignIn, more_scopes: bool, allow_legacy: bool
    ) -> TokenSet:
        options = self._options
        fetch = limit_requests(self._connection.fetch)
        found = await discover(
            fetch,
            self._connection.server_url,
            challenge,
            issuer=options.issuer,
            known_issuers={
                *(each.issuer for each in stored.token_sets),
                *(str(each.issuer) for each in stored.clients),
            },
            assume_pkce=options.assume_pkce,
            allow_legacy=allow_legacy,
        )
        challenged = challenge.scope if challenge is not None else ()
        scopes = first_scopes(options.scopes, challenged, found.scopes_supported)
        missing: tuple[str, ...] = ()
        if more_scopes:
            known = self._account.choose(stored)
            before, granted = (known.scopes_requested, known.scopes_granted) if known is not None else (scopes, ())
            missing = tuple(each for each in challenged if each not in granted)
            # `offline_access` is added again if the issuer, which may be another one now, supports it.
            kept = (each for each in before if each != OFFLINE_ACCESS or each in (options.scopes or ()))
            scopes = tuple(dict.fromkeys((*kept, *challenged)))
        scopes = with_offline_access(scopes, found.metadata)
        pending = self._account.find_pending(found.metadata, scopes)
        if self._interact is None and pending is not None:
            raise self._needs_person(pending, missing)
        for is_last in (False, True):
            attempt, listener = await self._begin(fetch, found, stored, scopes)
            if self._interact is None:
                raise self._needs_person(attempt, missing)
            try:
                return await self._complete(fetch, attempt, listener)
            except TokenRequestRejected as exc:
                if not exc.rejects_client or not attempt.client.is_registered or is_last:
                    raise AuthError(exc.message, status=401) from exc
                # The authorisation server has forgotten the client: register another one, once.
                async with self._account.lock():
                    stored = await self._account.load()
                    if stored.client_for(found.metadata.issuer, attempt.client.client_id) is not None:
                        stored = stored.without_client(found.metadata.issuer)
                        await self._account.save(stored)
            finally:
                if listener is not None:
                    await listener.close()
        raise AssertionError("unreachable")

    async def _begin(
        self, fetch: Fetch, found: Discovery, stored: StoredSignIn, scopes: tuple[str, ...]
    ) -> tuple[AuthorizationAttempt, LoopbackListener | None]:
        """Choose the client and open the listener for the redirect."""
        interact = self._interact
        if interact is not None:
            self._account.check_sign_in(scopes)  # before a client is registered needlessly
        known = self._known_client(found.metadata, stored)
        listener: LoopbackListener | None = None
        try:
            listener = await open_listener(interact, self._redirect_of(known))
        except OSError as exc:
            if known is None or not known.is_registered or self._options.redirect_uri is not None:
                raise AuthError(
                    f"redirect_uri: the port of {self._redirect_of(known)} is in use. Stop the program that uses it, "
                    "or set another redirect_uri=",
                    status=401,
                ) from exc
            known = None  # register another client, with a free port
            listener = await open_listener(interact, self._options.redirect_uri)
        try:
            redirect_uri = listener.redirect_uri if listener is not None else self._redirect_of(known)
            redirect_uri = redirect_uri or PASTE_REDIRECT_URI
            if known is None:
                client = await self._register(fetch, found.metadata, redirect_uri)
            else:
                client = known
                await self._mark_unconfirmed(client)
            redirect_uri = client.redirect_uri or redirect_uri
            attempt = AuthorizationAttempt(
                found.metadata, client, redirect_uri, self._resource(found), scopes, found.resource_metadata_url
            )
            if interact is not None:
                self._account.begin_sign_in(scopes)
        except BaseException:
            if listener is not None:
                await listener.close()
            raise
        return attempt, listener

    async def _mark_unconfirmed(self, client: ClientIdentity) -> None:
        """Use a registered client for no further sign-in, unless this one, which stores it again, is completed.

        An authorisation server that has forgotten the client shows a page to the person, and this program gets no
        answer.
        """
        if client.is_registered:
            async with self._account.lock():
                stored = await self._account.load()
                # Another process may have replaced it.
                if stored.client_for(str(client.issuer), client.client_id) is not None:
                    await self._account.save(stored.with_client(replace(client, is_unconfirmed=True)))

    def _redirect_of(self, client: ClientIdentity | None) -> str | None:
        return self._options.redirect_uri or (client.redirect_uri if client is not None else None)

    def _resource(self, found: Discovery) -> str | None:
        resource = self._options.resource
        return found.resource if isinstance(resource, Unset) else resource

    def _known_client(self, metadata: ServerMetadata, stored: StoredSignIn) -> ClientIdentity | None:
        """Return the configured client, the metadata document, or the registered client; None to register one."""
        options = self._options
        if options.client_id is not None:
            _check_binding(options.client_id, options.issuer, metadata.issuer, stored)
            method = choose_method(options.client_secret, options.private_key, metadata.token_endpoint_auth_methods)
            return ClientIdentity(
                options.client_id, options.client_secret, method, metadata.issuer, private_key=options.private_key
            )
        if options.client_metadata_url is not None and metadata.takes_client_metadata_url:
            return ClientIdentity(options.client_metadata_url, issuer=metadata.issuer, origin="metadata_url")
        client = stored.client_for(metadata.issuer)
        # A registration that never led to tokens may be unusable, so it is not tried again.
        if client is None or client.is_unconfirmed or not is_usable(client):
            return None
        if options.redirect_uri is not None and not is_same_redirect(options.redirect_uri, client.redirect_uri):
            return None  # registered with another address, at which nothing would listen
        return client if any(each.client_id == client.client_id for each in stored.token_sets) else None

    async def _register(self, fetch: Fetch, metadata: ServerMetadata, redirect_uri: str) -> ClientIdentity:
        if metadata.registration_endpoint is None:
            raise AuthError(
                f"{mask_urls(metadata.issuer)}: the authorisation server does not support client registration. "
                "Register a client there by hand and set client_id=, or set client_metadata_url= if the server accepts "
                "such documents",
                status=401,
            )
        return await register_client(fetch, metadata, redirect_uri, client_name=self._options.client_name)

    def _needs_person(self, attempt: AuthorizationAttempt, missing: tuple[str, ...]) -> AuthError:
        kept = self._account.keep_pending(attempt)
        error = self._account.refresh_error
        ended = f"the former sign-in has ended ({error}): " if error else ""
        why = f"the token lacks {one_line(' '.join(missing))}: " if missing else ended
        reason = f"{why}a person must sign in at {attempt.metadata.issuer}"
        command = f"Sign in with `{self._account.login_command}`, or open" if self._account.login_command else "Open"
        return AuthError(
            f"{reason}. {command} the URL in `authorization_url` and pass the redirect to `OAuth.finish_sign_in`",
            status=401,
            authorization_url=kept.url,
            reason=reason,
        )

    async def _complete(
        self, fetch: Fetch, attempt: AuthorizationAttempt, listener: LoopbackListener | None
    ) -> TokenSet:
        log.info("waiting for a person to sign in: %s", attempt.shown_url)
        self._connection.on_waiting(attempt.metadata.issuer)
        try:
            with self._connection.hold():
                answer = await ask_person(self._interact, attempt, listener)
        finally:
            self._connection.on_waiting(None)
        try:
            code = attempt.read_code(answer)
        except ConsentRefused as exc:
            if exc.error == "access_denied":
                self._account.refuse_sign_ins(exc.message)
            raise
        # Not cancellable: the code is used up, and the person would have to sign in again.
        return await run_to_end(redeem(fetch, self._account, attempt, code))


async def redeem(fetch: Fetch, account: Account, attempt: AuthorizationAttempt, code: str) -> TokenSet:
    """Exchange the code of an attempt for tokens and store them."""
    form = {
        "grant_type": CODE,
        "code": code,
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier,
        "resource": attempt.resource,
    }
    answer = await request_tokens(fetch, attempt.metadata, attempt.client, form)
    tokens = TokenSet.from_response(
        attempt.metadata,
        attempt.client,
        attempt.resource,
        attempt.scopes,
        answer,
        resource_metadata_url=attempt.resource_metadata_url,
    )
    async with account.lock():
        stored = await account.load()
        if attempt.client.is_registered:
            stored = stored.with_client(attempt.client)
        elif attempt.client.origin == "configured":  # without the secret: only the issuer that it belongs to
            stored = stored.with_client(ClientIdentity(attempt.client.client_id, issuer=attempt.metadata.issuer))
        account.signed_in_with, account.refresh_error = tokens.access_token, ""
        await account.save(stored.with_tokens(tokens))
    return tokens


def _check_binding(client_id: str, configured: str | None, issuer: str, stored: StoredSignIn) -> None:
    """Raise `AuthError` if the client was used with another issuer: its secret must not be sent elsewhere."""
    bound = {each.issuer for each in stored.token_sets if each.client_id == client_id}
    bound |= {each.issuer for each in stored.clients if each.client_id == client_id and each.issuer is not None}
    if configured is None and bound and issuer not in bound:
        raise AuthError(
            f"client_id: bound to the issuer {', '.join(sorted(bound))}, but the server now names {mask_urls(issuer)}. "
            "If you trust it, set issuer= and a client_id that is registered there",
            status=401,
        )
