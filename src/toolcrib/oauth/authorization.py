"""Authorisation requests with PKCE (RFC 7636) and the checks of their answers (RFC 9207)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ..config import SecretMask, mask_urls
from ..errors import AuthError, ConsentRefused
from ..protocol.sanitize import one_line
from .client_auth import ClientIdentity
from .http import describe_error
from .well_known import PKCE_METHOD, ServerMetadata

ATTEMPT_SECONDS: Final = 600.0
"""Seconds after which the answer to an authorisation request is no longer accepted."""
OFFLINE_ACCESS: Final = "offline_access"
_HIDDEN: Final = frozenset({"state", "code_challenge", "nonce"})


@dataclass(frozen=True, slots=True)
class AuthorizationAttempt:
    """One authorisation request, and what is needed to use its answer once."""

    metadata: ServerMetadata
    client: ClientIdentity
    redirect_uri: str
    resource: str | None
    scopes: tuple[str, ...]
    resource_metadata_url: str | None = None
    state: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)
    started: float = field(default_factory=time.monotonic)

    @property
    def url(self) -> str:
        """The URL that a person opens to sign in."""
        endpoint = urlsplit(self.metadata.authorization_endpoint or "")
        digest = hashlib.sha256(self.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": PKCE_METHOD,
        }
        if self.resource is not None:
            query["resource"] = self.resource
        if self.scopes:
            query["scope"] = " ".join(self.scopes)
        if OFFLINE_ACCESS in self.scopes:
            query["prompt"] = "consent"
        # The endpoint may have a query of its own, which stays; fragments are not sent.
        return urlunsplit(
            endpoint._replace(query="&".join(filter(None, (endpoint.query, urlencode(query)))), fragment="")
        )

    @property
    def shown_url(self) -> str:
        """The URL without `state` and `code_challenge`, for logs and errors."""
        parts = urlsplit(self.url)
        return urlunsplit(parts._replace(query=urlencode([p for p in parse_qsl(parts.query) if p[0] not in _HIDDEN])))

    @property
    def is_expired(self) -> bool:
        """Whether the answer comes too late."""
        return time.monotonic() - self.started > ATTEMPT_SECONDS

    def is_for(self, metadata: ServerMetadata, scopes: tuple[str, ...]) -> bool:
        """Return whether this attempt requests these scopes at this server and can still be answered."""
        return self.metadata.issuer == metadata.issuer and self.scopes == scopes and not self.is_expired

    def matches(self, answer: Mapping[str, str]) -> bool:
        """Return whether this is the answer to this attempt, by its `state`."""
        return hmac.compare_digest(answer.get("state", "").encode(errors="replace"), self.state.encode())

    def read_code(self, answer: Mapping[str, str]) -> str:
        """Return the code in the answer; raises `AuthError` if it is not the answer to this attempt, or an error."""
        if not self.matches(answer):
            known = "another state" if answer.keys() & {"code", "error", "state"} else "neither a code nor an error"
            raise AuthError(
                f"the answer to the sign-in has {known}. Pass the whole address that the person was sent to, or sign "
                "in again",
                status=401,
            )
        if self.is_expired:
            raise AuthError("the sign-in took too long. Sign in again", status=401)
        self._check_issuer(answer.get("iss"))
        if error := answer.get("error"):
            mask = SecretMask([self.state, self.verifier])  # the server may repeat the request
            described = one_line(mask_urls(answer.get("error_description", "")), mask=mask)
            words = describe_error(one_line(error, mask=mask), described)
            raise ConsentRefused(f"the sign-in was refused: {words}", error=error)
        if not answer.get("code"):
            raise AuthError("the answer to the sign-in has no code. Sign in again", status=401)
        return answer["code"]

    def _check_issuer(self, iss: str | None) -> None:
        # Nothing of the answer is shown: it may come from another server.
        if iss is None and self.metadata.sends_iss:
            raise AuthError(
                f"the answer to the sign-in does not name its issuer, as {self.metadata.issuer} always does. "
                "Nothing was sent to the token endpoint",
                status=401,
            )
        if iss is not None and iss != self.metadata.issuer:
            raise AuthError(
                f"the answer to the sign-in is not from {self.metadata.issuer}. Nothing was sent to the token endpoint",
                status=401,
            )


def read_redirect(text: str) -> dict[str, str]:
    """Return the parameters in a redirect URL, or in its query."""
    try:
        query = urlsplit(text.strip()).query if "://" in text else text.strip().lstrip("?")
    except ValueError:
        return {}
    return dict(parse_qsl(query, keep_blank_values=True))


def first_scopes(
    configured: Sequence[str] | None, challenged: Sequence[str], supported: Sequence[str]
) -> tuple[str, ...]:
    """Return the scopes of the first authorisation: those of the user, else of the challenge, else of the resource."""
    return tuple(dict.fromkeys(configured if configured is not None else challenged or supported))


def with_offline_access(scopes: tuple[str, ...], metadata: ServerMetadata) -> tuple[str, ...]:
    """Add `offline_access`, which grants a refresh token, if the server lists it and any scope is requested."""
    if scopes and OFFLINE_ACCESS in metadata.scopes_supported and OFFLINE_ACCESS not in scopes:
        return (*scopes, OFFLINE_ACCESS)
    return scopes
