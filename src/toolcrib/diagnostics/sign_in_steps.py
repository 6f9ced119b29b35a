"""Checks each step of the way to a sign-in: resource metadata, authorisation server, stored tokens."""

from __future__ import annotations

import time
from urllib.parse import urlsplit

from .._util.proxies import proxy_of_environment
from ..config import HttpServer, SecretMask, ServerConfig, SseServer, mask_urls
from ..errors import AuthError, ConfigError, ToolcribError
from ..oauth.challenge import parse_challenges
from ..oauth.http import Fetch
from ..oauth.issuer_discovery import fetch_resource_metadata, is_local
from ..oauth.providers import OAuth
from ..oauth.well_known import PKCE_METHOD, ServerMetadata, fetch_server_metadata, origin_of
from ..transports.http.auth_requests import AuthRequests
from .report import ServerReport

Web = HttpServer | SseServer


async def stored_provider(config: ServerConfig) -> OAuth | None:
    """Return a provider with the stored sign-in of a server; None if there is none, or it has other credentials."""
    if not isinstance(config, Web) or any(name.lower() == "authorization" for name in config.headers or ()):
        return None
    provider = OAuth(interact=None, **(config.oauth or {}))
    try:
        return provider if await provider.status(config.url) is not None else None
    except ConfigError:
        return None  # the step `sign-in` reports it


async def examine_sign_in(report: ServerReport, config: Web, error: AuthError) -> None:
    """Report how a person can sign in to a server that requires it, step by step."""
    requests = AuthRequests(config, None, lambda url: config.proxy or proxy_of_environment(url), SecretMask())
    try:
        issuers = await _examine_resource(report, config, requests.fetch, error)
        for issuer in issuers:
            await _examine_issuer(report, config, requests.fetch, issuer)
    finally:
        await requests.close()
    await _examine_stored(report, config)


async def _examine_resource(report: ServerReport, config: Web, fetch: Fetch, error: AuthError) -> tuple[str, ...]:
    report.on_step("resource")
    challenge = parse_challenges([error.challenge or ""])
    try:
        found = await fetch_resource_metadata(fetch, config.url, challenge)
    except ToolcribError as exc:
        report.broken("resource", report.said(exc.message), "ask its operator to correct the resource metadata")
        return ()
    if found is None:
        path = urlsplit(config.url).path
        text = f"no metadata at /.well-known/oauth-protected-resource{path}; its own origin is tried"
        report.warn("resource", text, "ask its operator to publish resource metadata (RFC 9728)")
        return (origin_of(config.url),)
    if not found.authorization_servers:
        report.broken("resource", "its metadata name no authorization_servers", "ask its operator to add them")
        return ()
    scopes = f"; scopes: {' '.join(found.scopes_supported)}" if found.scopes_supported else ""
    report.fine("resource", report.said(f"{mask_urls(found.resource)}{scopes}"))
    return found.authorization_servers


async def _examine_issuer(report: ServerReport, config: Web, fetch: Fetch, issuer: str) -> None:
    report.on_step("issuer")
    shown = report.said(mask_urls(issuer))
    assume_pkce = bool((config.oauth or {}).get("assume_pkce"))
    try:
        found = await fetch_server_metadata(
            fetch, issuer, allow_loopback=is_local(config.url), needs_pkce=not assume_pkce
        )
    except ToolcribError as exc:
        report.broken(
            "issuer", report.said(exc.message), "ask its operator to correct the metadata, or try again later"
        )
        return
    if found is None:
        report.broken(
            "issuer", f"{shown} publishes no metadata", "ask the operator of the server to correct its issuer"
        )
    elif not found.has_pkce and not assume_pkce:
        text = f"{shown} does not state that it supports PKCE with {PKCE_METHOD}"
        report.broken("issuer", text, "if you know that it does, set assume_pkce = true in oauth")
    elif (way := _identification(found, config)) is None:
        text = f"{shown} registers no clients by itself"
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
    try:
        status = await OAuth(interact=None, **(config.oauth or {})).status(config.url)
    except ConfigError as exc:
        report.broken("sign-in", exc.message, f"use {exc.expected}" if exc.expected else "correct its settings")
        return
    if status is None:
        report.skip("sign-in", "no tokens are stored")
    elif status.expires_at is not None and status.expires_at < time.time() and not status.can_renew:
        report.broken("sign-in", "the stored token has expired", f"run `toolcrib auth login {report.server}`")
    else:
        fix = f"run `toolcrib auth login {report.server}`"
        report.warn("sign-in", f"the server does not accept the token from {mask_urls(status.issuer)}", fix)
