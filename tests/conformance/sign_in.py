"""How the client under test authorises: Toolcrib's own providers, and a user who agrees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp

import toolcrib as tc

REDIRECT = "http://localhost:3000/callback"  # the port is closed: the person reads the address it is sent to
METADATA = "https://conformance-test.local/client-metadata.json"


class Person:
    """Agrees to everything: opens the authorisation page and reads where it is sent from there."""

    def __init__(self) -> None:
        self._visits = 0

    async def open(self, url: str) -> str:
        self._visits += 1
        async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as page:
            return page.headers["Location"]

    def report(self) -> dict[str, Any]:
        return {"authorised": self._visits}


async def provider(scenario: str, url: str, context: Mapping[str, Any], person: Person) -> Any:
    """The client that the scenario expects: a program with its own credentials, or a person at a browser."""
    if scenario in PROGRAMS:
        return PROGRAMS[scenario](await _issuer_of(url), context)
    return tc.OAuth(
        client_id=context.get("client_id"),
        client_secret=context.get("client_secret"),
        client_metadata_url=METADATA,
        redirect_uri=REDIRECT,
        interact=person.open,
        store=tc.MemoryTokenStore(),
    )


async def _issuer_of(url: str) -> str:
    """Return the issuer, which is configuration for a program; the suite does not say it."""
    parts = urlsplit(url)
    well_known = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    async with aiohttp.ClientSession() as session, session.get(well_known) as answer:
        return str((await answer.json())["authorization_servers"][0])


def _program_with_a_key(issuer: str, context: Mapping[str, Any]) -> Any:
    return tc.ClientCredentials(issuer=issuer, client_id=context["client_id"], private_key=context["private_key_pem"])


def _program_with_a_secret(issuer: str, context: Mapping[str, Any]) -> Any:
    return tc.ClientCredentials(issuer=issuer, client_id=context["client_id"], client_secret=context["client_secret"])


def _workload(issuer: str, context: Mapping[str, Any]) -> Any:
    return tc.JwtBearer(issuer=issuer, client_id=context["client_id"], assertion=lambda _: context["valid_jwt"])


def _program_of_an_enterprise(issuer: str, context: Mapping[str, Any]) -> Any:
    return tc.CrossAppAccess(
        issuer=issuer,
        client_id=context["client_id"],
        client_secret=context["client_secret"],
        idp_issuer=context["idp_issuer"],
        idp_client_id=context["idp_client_id"],
        idp_token_endpoint=context["idp_token_endpoint"],
        subject_token=context["idp_id_token"],
    )


PROGRAMS = {
    "auth/client-credentials-jwt": _program_with_a_key,
    "auth/client-credentials-basic": _program_with_a_secret,
    "auth/wif-jwt-bearer": _workload,
    "auth/enterprise-managed-authorization": _program_of_an_enterprise,
}
