"""Explains why a server rejects a request, and checks each step of the way to a sign-in."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from ..config import HttpServer, ServerConfig, SseServer, mask_urls
from ..errors import AuthError, ConfigError, IssuerUnavailable, ToolcribError
from ..oauth.challenge import Challenge, parse_challenges
from ..oauth.http import Fetch, get_document, is_secure
from ..oauth.issuer_discovery import fetch_resource_metadata, find_legacy_metadata, is_local
from ..oauth.providers import OAuth
from ..oauth.well_known import (
    PKCE_METHOD,
    ServerMetadata,
    covers,
    fetch_server_metadata,
    issuer_metadata_urls,
    origin_of,
    resource_metadata_urls,
)
from ..protocol.sanitize import one_line
from ..settings import ServerEntry
from ..transports.http.auth_requests import open_fetch_for
from .causes import credentials_for, wants_oauth
from .report import ServerReport, Verdict
from .sign_in_state import (
    describe_status,
    find_stored_sign_in,
    has_own_credentials,
    is_usable,
    obstacle_to_sign_in,
    stored_status,
)

Web = HttpServer | SseServer

METADATA_TIMEOUT: Final = 5.0
"""Seconds for checking whether a server publishes OAuth metadata that its challenge does not name."""
CORRECT_RESOURCE_METADATA: Final = "ask its operator to correct the resource metadata"
ISSUER_UNAVAILABLE_FIX: Final = "the authorisation server does not answer: try again later, or check the network"


async def find_sign_in(report: ServerReport, entry: ServerEntry) -> OAuth | None:
    """Return a provider with the stored sign-in of a server, None if there is none; report settings that are wrong."""
    try:
        return await find_stored_sign_in(entry)
    except ConfigError as exc:
        text, fix = explain_config_error(exc)
        report.broken("sign-in", report.said(text), report.said(fix))
        return None


def explain_config_error(error: ConfigError) -> tuple[str, str]:
    """Return the problem, and the fix: the advice in the message if the token store cannot be used."""
    if error.key != "store" or not error.expected or error.file is None:
        return error.message, f"use {error.expected}" if error.expected else "correct its settings"
    before, expected, after = error.message.partition(error.expected)
    got, _, advice = after.partition(". ")
    advice = advice[:1].lower() + advice[1:]
    return f"{before}{expected}{got}", advice or f"correct or remove {error.file}, and sign in again"


async def note_sign_in(report: ServerReport, config: Web, provider: OAuth) -> None:
    """Report the sign-in that the server accepts."""
    status = await provider.status(config.url)
    if status is not None:
        report.fine("sign-in", report.said(f"signed in {describe_status(status)}"))


async def explain_refusal(
    report: ServerReport, step: str, config: ServerConfig, error: AuthError, seconds: float
) -> None:
    """Report why a server rejected the request and, if it requires a sign-in, each step of the way to that."""
    oauth = wants_oauth(error) or (error.status == 401 and await publishes_oauth_metadata(config))
    report.facts.update(status=error.status, challenge=report.said(error.challenge or ""), requires_sign_in=oauth)
    obstacle = obstacle_to_sign_in(report.entry) if report.entry is not None else None
    blocking: str | None = None
    if oauth and error.status == 401 and obstacle is None and isinstance(config, Web):
        blocking = await _examine_sign_in(report, config, error)
    fix = credentials_for(error, report.entry, oauth=oauth, login=report.login)
    if blocking is not None:
        fix = f"see the step {blocking}"
    report.broken(step, report.said(_describe_refusal(error, oauth, config)), report.said(fix), seconds)


def _describe_refusal(error: AuthError, oauth: bool, config: ServerConfig) -> str:
    challenge = f"; challenge: {error.challenge}" if error.challenge else ""
    what = "it rejects these credentials"
    if error.status == 401 and not has_own_credentials(config):
        what = "it requires an OAuth sign-in" if oauth else "it requires credentials"
    return f"{what} (HTTP {error.status}){challenge}"


async def publishes_oauth_metadata(config: ServerConfig) -> bool:
    """Return whether a server publishes OAuth metadata: its own, or those of an authorisation server at its origin.

    The latter are of revision 2025-03-26. Metadata that a sign-in cannot use counts too.
    """
    if not isinstance(config, Web):
        return False
    try:
        async with asyncio.timeout(METADATA_TIMEOUT), open_fetch_for(config) as fetch:
            for url in resource_metadata_urls(config.url):
                _, document = await get_document(fetch, url)
                if document is not None and ("authorization_servers" in document or "resource" in document):
                    return True
            for url in issuer_metadata_urls(origin_of(config.url)):
                _, document = await get_document(fetch, url)
                if document is not None and "authorization_endpoint" in document:
                    return True
    except (ToolcribError, TimeoutError):
        return False
    return False


async def _examine_sign_in(report: ServerReport, config: Web, error: AuthError) -> str | None:
    """Report how a person can sign in to a server, step by step; return the step that makes it impossible."""
    async with open_fetch_for(config) as fetch:
        for issuer in await _examine_resource(report, config, fetch, error):
            await _examine_issuer(report, config, fetch, issuer)
    blocking = next((step for step in ("resource", "issuer", "sign-in") if _is_broken(report, step)), None)
    if not _is_broken(report, "sign-in"):
        await _examine_stored(report, config)
    return blocking


def _is_broken(report: ServerReport, step: str) -> bool:
    """Return whether a step failed: for all issuers, if there are several, as the first usable one is taken."""
    verdicts = {finding.verdict for finding in report.findings if finding.step == step}
    return Verdict.BROKEN in verdicts and Verdict.FINE not in verdicts


async def _examine_resource(
    report: ServerReport, config: Web, fetch: Fetch, error: AuthError
) -> tuple[str | None, ...]:
    """Report the resource metadata of a server, and return its issuers; None is the origin of a legacy server."""
    report.on_step("resource")
    chosen = (config.oauth or {}).get("issuer")
    challenge = parse_challenges([error.challenge or ""])
    try:
        found = await fetch_resource_metadata(fetch, config.url, challenge)
    except ToolcribError as exc:
        named = await _find_other_resource(fetch, config.url, challenge)
        report.broken("resource", report.said(exc.message), report.said(_fix_of_url(config.url, named)))
        return ()
    if found is None:
        path = urlsplit(config.url).path
        text = f"no metadata at /.well-known/oauth-protected-resource{path}; its own origin is tried"
        report.warn("resource", text, "ask its operator to publish resource metadata (RFC 9728)")
        return (None,)
    if chosen is not None and found.authorization_servers and chosen not in found.authorization_servers:
        names = ", ".join(map(mask_urls, found.authorization_servers))
        text = f"the settings choose the issuer {mask_urls(chosen)}, but its metadata names {names}"
        report.broken("resource", report.said(text), "correct issuer in oauth, or remove it")
        return ()
    if not found.authorization_servers and chosen is None:
        fix = "ask its operator to add them, or set issuer in oauth"
        report.broken("resource", "its metadata names no authorization_servers", fix)
        return ()
    scopes = f"; scopes: {' '.join(found.scopes_supported)}" if found.scopes_supported else ""
    report.fine("resource", report.said(f"{mask_urls(found.resource)}{scopes}"))
    return found.authorization_servers if chosen is None else (chosen,)


async def _find_other_resource(fetch: Fetch, url: str, challenge: Challenge | None) -> str | None:
    """Return the resource in the metadata of a server if it is another one; None if there is none."""
    hinted = challenge.resource_metadata if challenge is not None else None
    for each in [hinted] if hinted is not None else resource_metadata_urls(url):
        if not is_secure(each, allow_loopback=is_local(url)):
            return None
        try:
            _, document = await get_document(fetch, each)
        except ToolcribError:
            return None
        if document is not None:
            resource = document.get("resource")
            return resource if isinstance(resource, str) and not covers(resource, url) else None
    return None


def _fix_of_url(url: str, resource: str | None) -> str:
    """Return a fix with the URL of the server that the metadata names, if a sign-in there is possible."""
    if resource is None or not is_secure(resource, allow_loopback=is_local(url)) or "#" in resource:
        return CORRECT_RESOURCE_METADATA
    there = urlsplit(resource)
    same_path = urlunsplit(urlsplit(url)._replace(scheme=there.scheme, netloc=there.netloc))
    named = same_path if covers(resource, same_path) else resource  # the resource may be a parent of the server
    shown = one_line(mask_urls(named))
    return f"use url = {shown} if that is the server that you mean, or {CORRECT_RESOURCE_METADATA}"


async def _examine_issuer(report: ServerReport, config: Web, fetch: Fetch, issuer: str | None) -> None:
    report.on_step("issuer")
    given = config.oauth or {}
    shown = report.said(mask_urls(issuer or given.get("issuer") or origin_of(config.url)))
    assume_pkce = bool(given.get("assume_pkce"))
    found: ServerMetadata | None
    try:
        if issuer is None:
            found = await find_legacy_metadata(fetch, config.url, given.get("issuer"), assume_pkce)
        else:
            local = is_local(config.url)
            found = await fetch_server_metadata(fetch, issuer, allow_loopback=local, needs_pkce=not assume_pkce)
    except IssuerUnavailable as exc:
        report.broken("issuer", report.said(exc.message), ISSUER_UNAVAILABLE_FIX)
        return
    except ToolcribError as exc:
        report.broken("issuer", report.said(exc.message), "ask its operator to correct the metadata")
        return
    if found is None:
        report.broken(
            "issuer", f"{shown} publishes no metadata", "ask the operator of the server to correct its issuer"
        )
    elif not found.has_pkce and not assume_pkce and issuer is not None:
        text = f"{shown} does not state that it supports PKCE with {PKCE_METHOD}"
        report.broken("issuer", text, "if you know that it does, set assume_pkce = true in oauth")
    elif (way := _identification(found, config)) is None:
        text = f"{shown} does not support client registration"
        report.broken("issuer", text, "register a client there by hand, and set client_id in oauth")
    else:
        report.fine("issuer", f"{shown}: {way}")


def _identification(metadata: ServerMetadata, config: Web) -> str | None:
    """Return how this program identifies itself there; None if it cannot."""
    given = config.oauth or {}
    if "client_id" in given:
        return "with the client_id of the settings"
    if "client_metadata_url" in given and metadata.takes_client_metadata_url:
        return "with the client metadata document of the settings"
    return "registers clients" if metadata.registration_endpoint is not None else None


async def _examine_stored(report: ServerReport, config: Web) -> None:
    report.on_step("sign-in")
    status = await stored_status(config)
    if status is None:
        report.skip("sign-in", "no tokens are stored")
    elif not is_usable(status):
        report.broken("sign-in", "the stored token has expired", f"run `{report.login}`")
    else:
        text = f"the server does not accept the token from {mask_urls(status.issuer)}"
        report.warn("sign-in", report.said(text), f"run `{report.login}`")
