"""The clients of the authorisation server of the tests: registration, redirect URIs and client authentication."""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from tests.oauth.behaviour import Behaviour
from tests.oauth.tokens import ALGORITHMS, OAuthFailure

PublicKey = ECKey | OKPKey | RSAKey
LOOPBACK = ("127.0.0.1", "localhost", "::1")
ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MAX_ASSERTION_SECONDS = 300


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """A client that the server knows."""

    client_id: str
    method: str = "none"
    secret: str | None = None
    redirect_uris: tuple[str, ...] = ()
    public_key: PublicKey | None = None
    secret_expires_at: float = 0
    is_pruned_with_others: bool = False
    """Whether `prune` forgets it, as it does all clients that registered themselves."""


class ClientRegistry:
    """Knows the clients and checks who they are."""

    def __init__(self) -> None:
        self.clients: dict[str, RegisteredClient] = {}
        self._assertion_ids: set[str] = set()

    def add(self, client: RegisteredClient) -> None:
        """Add a client, as its operator would by hand."""
        self.clients[client.client_id] = client

    def prune(self) -> None:
        """Forget the clients that registered themselves."""
        self.clients = {name: each for name, each in self.clients.items() if not each.is_pruned_with_others}

    def register(self, document: Mapping[str, Any], behaviour: Behaviour) -> dict[str, Any]:
        """Register a client (RFC 7591) and return the answer."""
        redirects = document.get("redirect_uris")
        if not isinstance(redirects, list) or not all(isinstance(each, str) for each in redirects):
            raise OAuthFailure("invalid_client_metadata", "redirect_uris: expected an array of URLs")
        for each in redirects:
            if urlsplit(each).hostname in behaviour.refused_redirect_hosts:
                raise OAuthFailure("invalid_redirect_uri", f"redirect_uris: {each} is not allowed")
        method = behaviour.registered_method or document.get("token_endpoint_auth_method") or "client_secret_basic"
        # Characters that form encoding changes: clients that do not encode them before Basic are refused.
        secret = f"{secrets.token_urlsafe(16)}+/=%: x" if method.startswith("client_secret") else None
        expires_at = 0.0
        if secret is not None and behaviour.secret_seconds is not None:
            expires_at = time.time() + behaviour.secret_seconds
        client = RegisteredClient(
            f"client-{secrets.token_hex(6)}:+", method, secret, tuple(redirects), None, expires_at, True
        )
        self.add(client)
        answer = {**document, "client_id": client.client_id, "token_endpoint_auth_method": method}
        if secret is not None:
            answer |= {"client_secret": secret, "client_secret_expires_at": int(expires_at)}
        return {**answer, **behaviour.registration_changes}

    def find(self, client_id: str, behaviour: Behaviour) -> RegisteredClient | None:
        """Return the client with this id; a URL of a client metadata document is one where these are accepted."""
        known = self.clients.get(client_id)
        if known is None and behaviour.client_metadata_documents and client_id.startswith("https://"):
            return RegisteredClient(client_id, redirect_uris=tuple(f"http://{host}/" for host in LOOPBACK[:2]))
        return known

    def allows_redirect(self, client: RegisteredClient, uri: str, behaviour: Behaviour) -> bool:
        """Return whether the client may be answered at this URI: loopback URIs may have another port (RFC 8252)."""
        if uri in client.redirect_uris:
            return True
        parts = urlsplit(uri)
        if behaviour.exact_redirects or parts.hostname not in LOOPBACK:
            return False
        is_document = client.client_id.startswith("https://")
        known = [urlsplit(each) for each in client.redirect_uris]
        return any(each.hostname == parts.hostname and (is_document or each.path == parts.path) for each in known)

    # ---- client authentication ---------------------------------------------------------------------------------

    def authenticate(
        self, params: Mapping[str, str], authorization: str | None, behaviour: Behaviour, audiences: tuple[str, ...]
    ) -> RegisteredClient:
        """Return the client that sent this request to the token endpoint, by exactly the method it registered."""
        method, client_id, proof = _presented(params, authorization)
        client = self.find(client_id, behaviour)
        if client is None:
            raise OAuthFailure("invalid_client", "unknown client")
        if method != client.method:
            raise OAuthFailure("invalid_client", f"expected {client.method}, got {method}")
        if method == "private_key_jwt":
            self._check_assertion(client, proof, audiences)
        elif method != "none":
            if client.secret is None or not hmac.compare_digest(proof.encode(), client.secret.encode()):
                raise OAuthFailure("invalid_client", "wrong secret")
            if client.secret_expires_at and client.secret_expires_at < time.time():
                raise OAuthFailure("invalid_client", "the secret is expired")
        return client

    def _check_assertion(self, client: RegisteredClient, assertion: str, audiences: tuple[str, ...]) -> None:
        if client.public_key is None:
            raise OAuthFailure("invalid_client", "no key is registered")
        try:
            claims = jwt.decode(assertion, client.public_key, algorithms=list(ALGORITHMS)).claims
        except (JoseError, ValueError) as exc:
            raise OAuthFailure("invalid_client", f"client_assertion: {type(exc).__name__}") from exc
        now, expires, name = time.time(), claims.get("exp", 0), claims.get("jti")
        if claims.get("iss") != client.client_id or claims.get("sub") != client.client_id:
            raise OAuthFailure("invalid_client", "client_assertion: iss and sub must be the client id")
        if claims.get("aud") not in audiences:
            raise OAuthFailure("invalid_client", "client_assertion: wrong aud")
        if not now < expires <= now + MAX_ASSERTION_SECONDS + 5 or "iat" not in claims:
            raise OAuthFailure("invalid_client", "client_assertion: wrong exp or no iat")
        if not isinstance(name, str) or name in self._assertion_ids:
            raise OAuthFailure("invalid_client", "client_assertion: jti is missing or was used already")
        self._assertion_ids.add(name)


def _presented(params: Mapping[str, str], authorization: str | None) -> tuple[str, str, str]:
    """Return the method, the client id and the proof that a request has; two methods at once are an error."""
    has_assertion, has_secret = "client_assertion" in params, "client_secret" in params
    if (authorization is not None) + has_assertion + has_secret > 1:
        raise OAuthFailure("invalid_request", "more than one client authentication")
    if authorization is not None:
        try:
            scheme, _, encoded = authorization.partition(" ")
            client_id, colon, secret = base64.b64decode(encoded, validate=True).decode("ascii").partition(":")
        except ValueError as exc:
            raise OAuthFailure("invalid_client", "malformed Authorization") from exc
        if scheme.lower() != "basic" or not colon:
            raise OAuthFailure("invalid_client", "malformed Authorization")
        return "client_secret_basic", unquote_plus(client_id), unquote_plus(secret)
    client_id = params.get("client_id", "")
    if has_assertion:
        if params.get("client_assertion_type") != ASSERTION_TYPE:
            raise OAuthFailure("invalid_client", "wrong client_assertion_type")
        return "private_key_jwt", client_id or _subject(params["client_assertion"]), params["client_assertion"]
    if has_secret:
        return "client_secret_post", client_id, params["client_secret"]
    return "none", client_id, ""


def _subject(assertion: str) -> str:
    """Return `sub` of an assertion, unverified: it says which key to verify it with."""
    try:
        payload = assertion.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, IndexError):
        return ""
    return str(claims.get("sub", "")) if isinstance(claims, dict) else ""
