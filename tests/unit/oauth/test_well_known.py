"""Well-known URLs, and the checks of metadata documents."""

from __future__ import annotations

import json
from typing import Any

import pytest

import toolcrib as tc
from toolcrib.oauth.challenge import Challenge
from toolcrib.oauth.http import Headers, HttpParts, is_secure, read_object, same_origin
from toolcrib.oauth.issuer_discovery import canonical_resource, discover
from toolcrib.oauth.well_known import (
    ServerMetadata,
    covers,
    fetch_server_metadata,
    issuer_metadata_urls,
    parse_resource_metadata,
    parse_server_metadata,
    resource_metadata_urls,
)

ISSUER = "https://login.example"
OAUTH, OIDC, RESOURCE = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
    "/.well-known/oauth-protected-resource",
)


@pytest.mark.parametrize(
    "issuer, paths",
    [
        ("https://a.example", [OAUTH, OIDC]),
        ("https://a.example/", [OAUTH, OIDC]),
        ("https://a.example/tenant1", [f"{OAUTH}/tenant1", f"{OIDC}/tenant1", f"/tenant1{OIDC}"]),
        ("https://a.example/t/1/", [f"{OAUTH}/t/1", f"{OIDC}/t/1", f"/t/1{OIDC}"]),
    ],
)
def test_an_issuer_with_a_path_has_three_addresses_and_one_without_has_two(issuer: str, paths: list[str]) -> None:
    assert issuer_metadata_urls(issuer) == [f"https://a.example{path}" for path in paths]


@pytest.mark.parametrize(
    "url, paths",
    [
        ("https://a.example/mcp", [f"{RESOURCE}/mcp", RESOURCE]),
        ("https://a.example/v1/mcp/", [f"{RESOURCE}/v1/mcp", RESOURCE]),
        ("https://a.example", [RESOURCE]),
        ("https://a.example/", [RESOURCE]),
        ("https://user:password@a.example/mcp?key=x#y", [f"{RESOURCE}/mcp", RESOURCE]),
    ],
)
def test_resource_metadata_is_looked_for_at_the_path_and_then_at_the_root(url: str, paths: list[str]) -> None:
    assert resource_metadata_urls(url) == [f"https://a.example{path}" for path in paths]


@pytest.mark.parametrize(
    "resource, expected",
    [
        ("https://a.example/v1/mcp", True),
        ("https://a.example:443/v1/mcp/", True),
        ("https://A.example/v1", True),
        ("https://a.example", True),
        ("https://a.example/v1/mc", False),
        ("https://a.example/v1/mcp/more", False),
        ("https://a.example/v2", False),
        ("https://a.example/v1/../v1/mcp", False),
        ("http://a.example/v1/mcp", False),
        ("https://a.example:8443/v1/mcp", False),
        ("https://b.example/v1/mcp", False),
        ("https://a.example.evil.example/v1/mcp", False),
        ("https://a.example@evil.example/v1/mcp", False),
        ("https://user@a.example/v1/mcp", False),
        ("https://a.example/v1/mcp#fragment", False),
        ("https://a.example:port/v1/mcp", False),
        ("https://[a.example/v1/mcp", False),
        ("", False),
    ],
)
def test_a_resource_covers_the_server_and_what_is_below_it_by_segments(resource: str, expected: bool) -> None:
    assert covers(resource, "https://a.example/v1/mcp") is expected


@pytest.mark.parametrize("resource", [None, 7, "https://b.example/mcp"])
def test_metadata_of_another_resource_is_rejected(resource: Any) -> None:
    with pytest.raises(tc.AuthError, match=r"expected the resource https://a.example/mcp or a parent of it, got"):
        parse_resource_metadata({"resource": resource}, "https://a.example/mcp", where="https://a.example/w")


@pytest.mark.parametrize(
    "url, remote, local",
    [
        ("https://a.example/x", True, True),
        ("http://a.example/x", False, False),
        ("http://127.0.0.1:8000/x", False, True),
        ("http://localhost/x", False, True),
        ("http://[::1]:9/x", False, True),
        ("http://localhost.evil.example/x", False, False),
        ("https://user@a.example/x", False, False),
        ("https://a.example/x y", False, False),
        ("https://a.example\n.evil.example/", False, False),
        ("https:///x", False, False),
        ("https://a.example:99999/", False, False),
        ("javascript:alert(1)", False, False),
        ("file:///etc/passwd", False, False),
        ("//a.example", False, False),
        (None, False, False),
        (["https://a.example"], False, False),
        ({}, False, False),
    ],
)
def test_urls_need_tls_except_on_this_machine(url: Any, remote: bool, local: bool) -> None:
    assert (is_secure(url, allow_loopback=False), is_secure(url, allow_loopback=True)) == (remote, local)


@pytest.mark.parametrize("server", ["https://tools.example/mcp", "http://127.0.0.1:8000/mcp"])
@pytest.mark.parametrize("place", ["hint", "issuer", "endpoint"])
async def test_only_a_server_on_this_machine_may_name_addresses_of_this_machine_without_tls(
    server: str, place: str
) -> None:
    local = "http://127.0.0.1:9"
    issuer = local if place == "issuer" else ISSUER
    hint = f"{local}/resource" if place == "hint" else f"{server.removesuffix('/mcp')}/resource"
    metadata = {
        "issuer": issuer,
        "authorization_endpoint": f"{local if place == 'endpoint' else issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "code_challenge_methods_supported": ["S256"],
    }
    documents = {hint: {"resource": server, "authorization_servers": [issuer]}, f"{issuer}{OAUTH}": metadata}
    asked: list[str] = []

    async def fetch(_method: str, url: str, _headers: Headers, _body: bytes) -> HttpParts:
        asked.append(url)
        return (200, [], json.dumps(documents[url]).encode()) if url in documents else (404, [], b"")

    if server.startswith("http:"):
        assert (await discover(fetch, server, Challenge(hint))).metadata.issuer == issuer
    else:
        with pytest.raises(tc.AuthError, match=r"expected an https URL, got http://127\.0\.0\.1:9"):
            await discover(fetch, server, Challenge(hint))
        assert not [url for url in asked if url.startswith(local)]


async def test_a_server_on_another_machine_without_tls_is_asked_nothing() -> None:
    asked: list[str] = []

    async def fetch(_method: str, url: str, _headers: Headers, _body: bytes) -> HttpParts:
        asked.append(url)
        return 404, [], b""

    with pytest.raises(tc.AuthError, match=r"http://tools\.example/mcp: expected an https URL"):
        await discover(fetch, "http://tools.example/mcp", Challenge("https://tools.example/resource"))
    assert asked == []


@pytest.mark.parametrize(
    "url, expected",
    [
        ("https://a.example", "https://a.example"),
        ("https://a.example/", "https://a.example"),
        ("https://a.example/mcp", "https://a.example/mcp"),
        ("https://a.example/mcp/", "https://a.example/mcp/"),
        ("https://a.example/mcp#part", "https://a.example/mcp"),
        ("https://A.example:443/a%2Fb/?x=%20", "https://A.example:443/a%2Fb/?x=%20"),
        ("https://user:password@a.example/mcp", "https://a.example/mcp"),
    ],
)
def test_the_resource_of_a_server_is_its_url_without_fragment_and_bare_slash(url: str, expected: str) -> None:
    assert canonical_resource(url) == expected


@pytest.mark.parametrize(
    "other, expected",
    [("https://A.example:443/y", True), ("http://a.example/", False), ("https://a.example:1/", False), ("//[", False)],
)
def test_origins_are_compared_by_scheme_host_and_port(other: str, expected: bool) -> None:
    assert same_origin("https://a.example/x", other) is expected


@pytest.mark.parametrize("issuer", [f"{ISSUER}/", "HTTPS://login.example", "https://login.example:443", None, 5])
def test_issuers_are_compared_as_strings_and_the_error_names_both(issuer: Any) -> None:
    found = parse_server_metadata({"issuer": issuer}, ISSUER, allow_loopback=False)
    assert isinstance(found, str)
    assert found.startswith(f"expected the issuer {ISSUER}, got ")
    assert not isinstance(issuer, str) or issuer in found


async def test_a_document_of_another_issuer_leaves_the_next_address_to_be_tried() -> None:
    documents = {f"{ISSUER}{OAUTH}": {"issuer": f"{ISSUER}/"}, f"{ISSUER}{OIDC}": {"issuer": ISSUER}}

    async def fetch(_method: str, url: str, _headers: Headers, _body: bytes) -> HttpParts:
        return 200, [], json.dumps(documents[url]).encode()

    assert await fetch_server_metadata(fetch, ISSUER, allow_loopback=False) == ServerMetadata(ISSUER)


@pytest.mark.parametrize(
    "name", ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint", "jwks_uri"]
)
@pytest.mark.parametrize("url", ["http://login.example/x", "http://127.0.0.1/x", "javascript:x", 5, ["x"]])
def test_endpoints_without_tls_are_rejected(name: str, url: Any) -> None:
    found = parse_server_metadata({"issuer": ISSUER, name: url}, ISSUER, allow_loopback=False)
    assert isinstance(found, str)
    assert found.startswith(f"{name}: expected an https URL")


def test_members_of_other_types_count_as_absent() -> None:
    document = {"issuer": ISSUER, "token_endpoint": "", "scopes_supported": "a b", "grant_types_supported": None}
    document |= {"code_challenge_methods_supported": ["plain", 7], "client_id_metadata_document_supported": "true"}
    found = parse_server_metadata(document, ISSUER, allow_loopback=False)
    assert found == ServerMetadata(ISSUER, code_challenge_methods=("plain",))
    assert not found.has_pkce


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'"x"', b"{", b"\xff", b'{"a":' * 65 + b"1" + b"}" * 65, b"[" * 99_999]
)
def test_bodies_that_are_no_json_objects_or_too_deep_are_not_read(body: bytes) -> None:
    assert read_object(body) is None


def test_a_document_of_64_levels_is_read() -> None:
    assert read_object(b'{"a":' * 63 + b"{}" + b"}" * 63) is not None
