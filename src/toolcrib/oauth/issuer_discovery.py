"""Finds the authorisation server of an MCP server, from the challenge of a 401 response."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from .._util.net import is_loopback
from ..config import mask_urls
from ..errors import AuthError, ConnectError
from ..protocol.sanitize import one_line
from .challenge import Challenge
from .http import Fetch, Headers, HttpParts, get_document, is_secure
from .well_known import (
    PKCE_METHOD,
    ResourceMetadata,
    ServerMetadata,
    fetch_server_metadata,
    origin_of,
    parse_resource_metadata,
    resource_metadata_urls,
)

MAX_REQUESTS: Final = 50
"""Maximum number of requests for one authorisation."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """The authorisation server of an MCP server, and what the server says about itself."""

    metadata: ServerMetadata
    resource: str
    scopes_supported: tuple[str, ...] = ()
    resource_metadata_url: str | None = None
    """Where the challenge says that the resource metadata is."""


def is_local(server_url: str) -> bool:
    """Return whether the server is on this machine, so that its authorisation server may be reached without TLS."""
    return is_loopback(urlsplit(server_url).hostname or "")


def canonical_resource(server_url: str) -> str:
    """Return the URL of a server as its resource identifier: without user info, fragment and bare trailing slash."""
    parts = urlsplit(server_url)
    netloc = parts.netloc.rpartition("@")[2]  # an authorisation server must not see the password
    return urlunsplit(parts._replace(netloc=netloc, fragment="", path="" if parts.path == "/" else parts.path))


def limit_requests(fetch: Fetch, count: int = MAX_REQUESTS) -> Fetch:
    """Return a `Fetch` that raises `AuthError` after `count` requests."""
    left = count

    async def limited(method: str, url: str, headers: Headers, body: bytes) -> HttpParts:
        nonlocal left
        left -= 1
        if left < 0:
            raise AuthError(f"the authorisation needs more than {count} requests", status=401)
        return await fetch(method, url, headers, body)

    return limited


async def fetch_resource_metadata(
    fetch: Fetch, server_url: str, challenge: Challenge | None
) -> ResourceMetadata | None:
    """Return the resource metadata of a server: the one that its challenge names, else a well-known one."""
    urls = resource_metadata_urls(server_url)
    if not is_secure(urls[0], allow_loopback=is_local(server_url)):
        raise AuthError(
            f"{mask_urls(server_url)}: expected an https URL: tokens must not be sent without encryption", status=401
        )
    hinted = challenge.resource_metadata if challenge is not None else None
    if hinted is not None:
        if not is_secure(hinted, allow_loopback=is_local(server_url)):
            shown = one_line(mask_urls(hinted))
            raise AuthError(f"resource_metadata of the challenge: expected an https URL, got {shown}", status=401)
        urls.insert(0, hinted)
    for url in dict.fromkeys(urls):
        status, document = await get_document(fetch, url)
        if document is not None:
            return parse_resource_metadata(document, server_url, where=url)
        if status == 200:
            raise AuthError(f"resource metadata at {mask_urls(url)}: expected a JSON object", status=401)
    return None


async def discover(
    fetch: Fetch,
    server_url: str,
    challenge: Challenge | None,
    *,
    issuer: str | None = None,
    known_issuers: Collection[str] = (),
    assume_pkce: bool = False,
    allow_legacy: bool = True,
) -> Discovery:
    """Return the authorisation server to sign in at.

    Of several, the one of `known_issuers` is preferred; `issuer` chooses one, which must be among them.
    """
    local = is_local(server_url)
    resource = await fetch_resource_metadata(fetch, server_url, challenge)
    if resource is None:
        if not allow_legacy:
            raise AuthError(
                f"{mask_urls(server_url)}: the server requires authorisation, but publishes no resource metadata; the "
                "authorisation server cannot be discovered",
                status=401,
            )
        found = await find_legacy_metadata(fetch, server_url, issuer, assume_pkce)
    else:
        issuers = _candidates(resource, issuer, known_issuers)
        found = await _first_usable(fetch, issuers, known_issuers, local, assume_pkce)
    return Discovery(
        found,
        resource.resource if resource is not None else canonical_resource(server_url),
        resource.scopes_supported if resource is not None else (),
        challenge.resource_metadata if challenge is not None else None,
    )


def _candidates(resource: ResourceMetadata, issuer: str | None, known: Collection[str]) -> list[str]:
    offered = list(resource.authorization_servers)
    if issuer is not None:
        if offered and issuer not in offered:
            names = ", ".join(one_line(mask_urls(each)) for each in offered)
            raise AuthError(f"issuer: expected one of those that the server names ({names}), got {issuer}", status=401)
        return [issuer]
    if not offered:
        raise AuthError("resource metadata: expected authorization_servers, got none. Set issuer=", status=401)
    return sorted(offered, key=lambda each: each not in known)


async def _first_usable(
    fetch: Fetch, issuers: list[str], known: Collection[str], local: bool, assume_pkce: bool
) -> ServerMetadata:
    problem: AuthError | ConnectError | None = None
    for issuer in issuers:
        try:
            found = await fetch_server_metadata(fetch, issuer, allow_loopback=local, needs_pkce=not assume_pkce)
            if found is not None:
                _check_usable(found, assume_pkce)
        except (AuthError, ConnectError) as exc:
            if isinstance(exc, ConnectError) and issuer in known:
                raise  # its credentials may work again soon: no reason to ask a person to sign in elsewhere
            problem = problem or exc
            continue
        if found is not None:
            return found
    raise problem or AuthError(
        f"{', '.join(one_line(mask_urls(each)) for each in issuers)}: the authorisation server publishes no metadata. "
        "`toolcrib doctor` shows each step",
        status=401,
    )


def _check_usable(metadata: ServerMetadata, assume_pkce: bool) -> None:
    for name in ("authorization_endpoint", "token_endpoint"):
        if getattr(metadata, name) is None:
            raise AuthError(f"{mask_urls(metadata.issuer)}: expected {name} in the metadata, got none", status=401)
    if not metadata.has_pkce and not assume_pkce:
        raise AuthError(
            f"{mask_urls(metadata.issuer)}: expected code_challenge_methods_supported with {PKCE_METHOD} in the "
            "metadata: without PKCE a code could be stolen. If you know that the server supports it, set "
            "OAuth(assume_pkce=True)",
            status=401,
        )


async def find_legacy_metadata(fetch: Fetch, server_url: str, issuer: str | None, assume_pkce: bool) -> ServerMetadata:
    """Return the metadata at the server's origin, else the default endpoints there (revision 2025-03-26).

    `issuer` replaces the origin. Raises `AuthError` if a sign-in cannot use what is found.
    """
    origin = origin_of(server_url)
    get = partial(fetch_server_metadata, fetch, allow_loopback=is_local(server_url), needs_pkce=not assume_pkce)
    try:
        found = await get(issuer or origin)
    except AuthError:
        if issuer is not None:
            raise
        found = await get(f"{origin}/")  # many servers of this revision write their issuer with a slash
    if found is not None:
        _check_usable(found, assume_pkce)
        return replace(found, is_legacy=True)
    if issuer is not None:
        raise AuthError(f"{mask_urls(issuer)}: the authorisation server publishes no metadata", status=401)
    if not is_secure(origin, allow_loopback=is_local(server_url)):
        raise AuthError(f"{mask_urls(server_url)}: expected an https URL to sign in at", status=401)
    return ServerMetadata(
        origin,
        authorization_endpoint=f"{origin}/authorize",
        token_endpoint=f"{origin}/token",
        registration_endpoint=f"{origin}/register",
        is_legacy=True,
    )
