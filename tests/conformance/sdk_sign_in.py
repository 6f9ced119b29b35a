"""How the client under test authorises: the OAuth providers of the `mcp` SDK, 1.x or 2.x, and a user who agrees."""

from __future__ import annotations

import importlib.metadata
import logging
import warnings
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared import auth as shared
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

REDIRECT = "http://localhost:3000/callback"  # the port is closed: the person reads the address it is sent to
METADATA = "https://conformance-test.local/client-metadata.json"

# Failures of a provider are exceptions; that it also logs a traceback is between it and its users.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class Memory:
    """Tokens and registration, for the life of the process."""

    def __init__(self, info: OAuthClientInformationFull | None = None) -> None:
        self._tokens: Any = None
        self._info = info

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._info

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._info = client_info


class Person:
    """Agrees to everything: opens the authorisation page and notes where it is sent from there."""

    def __init__(self) -> None:
        self._visits = 0
        self._query: dict[str, str] = {}

    async def open(self, url: str) -> None:
        self._visits += 1
        async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as page:
            query = parse_qs(urlsplit(page.headers["Location"]).query)
        self._query = {name: values[0] for name, values in query.items()}

    def report(self) -> dict[str, Any]:
        return {"authorised": self._visits, "sdk": importlib.metadata.version("mcp")}

    async def come_back(self) -> Any:
        code, state, iss = self._query["code"], self._query.get("state"), self._query.get("iss")
        if hasattr(shared, "AuthorizationCodeResult"):
            return shared.AuthorizationCodeResult(code=code, state=state, iss=iss)
        return code, state  # SDK 1.x


async def provider(scenario: str, url: str, context: Mapping[str, Any], person: Person) -> Any:
    """The client that the scenario expects: a program with its own credentials, or a person at a browser."""
    if scenario in PROGRAMS:
        with warnings.catch_warnings():
            # The SDK needs the issuer; the suite does not provide it.
            warnings.simplefilter("ignore")
            return PROGRAMS[scenario](url, context)
    return OAuthClientProvider(
        url,
        OAuthClientMetadata(
            client_name="toolcrib",
            redirect_uris=[REDIRECT],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        Memory(_registered(context)),
        person.open,
        person.come_back,
        client_metadata_url=METADATA,
    )


def _signing_program(url: str, context: Mapping[str, Any]) -> Any:
    signer = SignedJWTParameters(
        issuer=context["client_id"],
        subject=context["client_id"],
        signing_algorithm=context["signing_algorithm"],
        signing_key=context["private_key_pem"],
    )
    return PrivateKeyJWTOAuthProvider(url, Memory(), context["client_id"], signer.create_assertion_provider())


def _program_with_a_secret(url: str, context: Mapping[str, Any]) -> Any:
    return ClientCredentialsOAuthProvider(url, Memory(), context["client_id"], context["client_secret"])


PROGRAMS = {
    "auth/client-credentials-jwt": _signing_program,
    "auth/client-credentials-basic": _program_with_a_secret,
}


def _registered(context: Mapping[str, Any]) -> OAuthClientInformationFull | None:
    """The registration that was made beforehand, if the scenario speaks of one."""
    if "client_id" not in context:
        return None
    return OAuthClientInformationFull(
        client_id=context["client_id"],
        client_secret=context["client_secret"],
        redirect_uris=[REDIRECT],
        token_endpoint_auth_method="client_secret_basic",
    )
