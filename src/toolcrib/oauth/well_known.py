"""The metadata of protected resources (RFC 9728) and of authorisation servers (RFC 8414, OpenID Connect Discovery).

Issuers and resources are kept as the strings that were received, and compared as strings: URL classes normalise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from ..config import mask_urls
from ..errors import AuthError
from ..protocol.sanitize import one_line
from .http import Fetch, get_document, is_secure, same_origin

PKCE_METHOD: Final = "S256"
_ENDPOINTS: Final = (
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "introspection_endpoint",
    "jwks_uri",
)


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    """The metadata of a protected resource (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """The metadata of an authorisation server (RFC 8414); absent members are None."""

    issuer: str
    authorization_endpoint: str | None = None
    token_endpoint: str | None = None
    registration_endpoint: str | None = None
    revocation_endpoint: str | None = None
    introspection_endpoint: str | None = None
    jwks_uri: str | None = None
    scopes_supported: tuple[str, ...] = ()
    token_endpoint_auth_methods: tuple[str, ...] | None = None
    token_endpoint_auth_algorithms: tuple[str, ...] | None = None
    code_challenge_methods: tuple[str, ...] | None = None
    sends_iss: bool = False
    """Whether the answers of its authorisation endpoint have `iss` (RFC 9207)."""
    takes_client_metadata_url: bool = False
    """Whether it accepts URLs of client metadata documents as client ids."""
    is_legacy: bool = False
    """Whether it was found without resource metadata, as the revision 2025-03-26 of the protocol has it."""

    @property
    def has_pkce(self) -> bool:
        """Whether it states that it supports PKCE with S256."""
        return self.code_challenge_methods is not None and PKCE_METHOD in self.code_challenge_methods


def resource_metadata_urls(server_url: str) -> list[str]:
    """Return the well-known URLs of a server's resource metadata: that of its path first, then the root one."""
    parts = urlsplit(server_url)
    path = parts.path.rstrip("/")
    found = [_at(parts.scheme, parts.netloc, f"/.well-known/oauth-protected-resource{path}")]
    if path:
        found.append(_at(parts.scheme, parts.netloc, "/.well-known/oauth-protected-resource"))
    return found


def issuer_metadata_urls(issuer: str) -> list[str]:
    """Return the URLs of an issuer's metadata, in the order in which they are tried."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    paths = [f"/.well-known/oauth-authorization-server{path}", f"/.well-known/openid-configuration{path}"]
    if path:
        paths.append(f"{path}/.well-known/openid-configuration")
    return [_at(parts.scheme, parts.netloc, each) for each in paths]


def _at(scheme: str, netloc: str, path: str) -> str:
    return urlunsplit((scheme, netloc.rpartition("@")[2], path, "", ""))


def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL."""
    parts = urlsplit(url)
    return _at(parts.scheme, parts.netloc, "")


def covers(resource: str, server_url: str) -> bool:
    """Return whether `resource` is the server's URL or a parent of it, compared by path segments."""
    if not same_origin(resource, server_url):
        return False
    parts = urlsplit(resource)
    if "#" in resource or "@" in parts.netloc:  # RFC 8707 forbids fragments
        return False
    above = [part for part in parts.path.split("/") if part]
    below = [part for part in urlsplit(server_url).path.split("/") if part]
    return below[: len(above)] == above


def parse_resource_metadata(document: Mapping[str, Any], server_url: str, *, where: str) -> ResourceMetadata:
    """Return the metadata of the server's resource; raises `AuthError` if it is that of another one."""
    resource = document.get("resource")
    if not isinstance(resource, str) or not covers(resource, server_url):
        advice = " Use that URL if it is the server that you mean." if isinstance(resource, str) else ""
        raise AuthError(
            f"resource metadata at {mask_urls(where)}: expected the resource {mask_urls(server_url)} or a parent of "
            f"it, got {_shown(resource)}.{advice} Nothing was sent to an authorisation server",
            status=401,
        )
    return ResourceMetadata(
        resource,
        _strings(document.get("authorization_servers")) or (),
        _strings(document.get("scopes_supported")) or (),
    )


def parse_server_metadata(document: Mapping[str, Any], issuer: str, *, allow_loopback: bool) -> ServerMetadata | str:
    """Return the metadata of this issuer, or a text that says why the document cannot be used."""
    found = document.get("issuer")
    if found != issuer:
        return f"expected the issuer {one_line(issuer)}, got {_shown(found)}"
    for name in _ENDPOINTS:
        url = document.get(name)
        if url not in (None, "") and not is_secure(url, allow_loopback=allow_loopback):
            return f"{name}: expected an https URL, got {_shown(url)}"
    endpoints: dict[str, Any] = {name: document.get(name) or None for name in _ENDPOINTS}
    return ServerMetadata(
        issuer,
        **endpoints,
        scopes_supported=_strings(document.get("scopes_supported")) or (),
        token_endpoint_auth_methods=_strings(document.get("token_endpoint_auth_methods_supported")),
        token_endpoint_auth_algorithms=_strings(document.get("token_endpoint_auth_signing_alg_values_supported")),
        code_challenge_methods=_strings(document.get("code_challenge_methods_supported")),
        sends_iss=document.get("authorization_response_iss_parameter_supported") is True,
        takes_client_metadata_url=document.get("client_id_metadata_document_supported") is True,
    )


def _strings(value: Any) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(item for item in value if isinstance(item, str))


def _shown(value: Any) -> str:
    return one_line(mask_urls(value)) if isinstance(value, str) else "none" if value is None else "another type"


async def fetch_server_metadata(
    fetch: Fetch, issuer: str, *, allow_loopback: bool, needs_pkce: bool = False
) -> ServerMetadata | None:
    """Return the metadata of an issuer; None if it publishes none.

    Raises `AuthError` if all that it publishes is unusable. With `needs_pkce`, a document that does not state PKCE is
    returned only if no other one does: some issuers state it only in one of their documents.
    """
    if not is_secure(issuer, allow_loopback=allow_loopback):
        raise AuthError(f"issuer: expected an https URL, got {_shown(issuer)}", status=401)
    problem = ""
    without_pkce: ServerMetadata | None = None
    for url in issuer_metadata_urls(issuer):
        status, document = await get_document(fetch, url)
        if document is None:
            if status == 200:
                problem = problem or f"{mask_urls(url)}: expected a JSON object"
            continue
        found = parse_server_metadata(document, issuer, allow_loopback=allow_loopback)
        if isinstance(found, str):
            problem = problem or f"{mask_urls(url)}: {found}"
        elif needs_pkce and not found.has_pkce:
            without_pkce = without_pkce or found
        else:
            return found
    if without_pkce is None and problem:
        raise AuthError(f"authorisation server metadata: {problem}", status=401)
    return without_pkce
