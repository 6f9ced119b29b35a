"""The metadata documents of the authorisation server of the tests and of its protected resource."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, RedirectResponse, Response

if TYPE_CHECKING:
    from tests.oauth.authorization_server import AuthorizationServer

CUSTOM_PATH = "/custom/resource-metadata"
HUGE_BYTES = 2 * 1024 * 1024
DEPTH = 500


def resource_metadata_path(server: AuthorizationServer) -> str | None:
    """Return the path of the resource's metadata."""
    return {
        "path": "/.well-known/oauth-protected-resource/mcp",
        "root": "/.well-known/oauth-protected-resource",
        "custom": CUSTOM_PATH,
        "none": None,
    }[server.behaviour.resource_metadata]


def resource_metadata(server: AuthorizationServer) -> Response:
    """Answer with the metadata of the resource (RFC 9728)."""
    behaviour = server.behaviour
    document: dict[str, Any] = {"resource": server.resource, "bearer_methods_supported": ["header"]}
    servers = behaviour.authorization_servers
    document["authorization_servers"] = (
        [server.issuer] if servers is None else [server.expand(each) for each in servers]
    )
    if behaviour.resource_scopes is not None:
        document["scopes_supported"] = list(behaviour.resource_scopes)
    return JSONResponse(document)


def server_metadata_kind(server: AuthorizationServer, path: str) -> str | None:
    """Return whether this path is that of the `oauth` or of the `oidc` document; None for all others."""
    behaviour = server.behaviour
    issuer_path, known = behaviour.issuer_path, behaviour.server_metadata
    appended = f"{issuer_path}/.well-known/openid-configuration"
    inserted = f"/.well-known/openid-configuration{issuer_path}"
    if path == f"/.well-known/oauth-authorization-server{issuer_path}":
        return "oauth" if known in ("oauth", "both") else None
    if path == (appended if behaviour.oidc_place == "appended" else inserted):
        return "oidc" if known in ("oidc", "both") else None
    return None


def server_metadata(server: AuthorizationServer, path: str) -> Response:
    """Answer with the metadata of the authorisation server, or with what the behaviour has in its place."""
    kind = server_metadata_kind(server, path)
    if kind is None:  # the target of a redirect
        return JSONResponse(_document(server, path.removeprefix("/moved/")))
    document = _document(server, kind)
    text = json.dumps(document)
    match server.behaviour.metadata_answer:
        case "unavailable":
            return Response("try later", 503, {"Retry-After": "1"})
        case "redirect":
            return RedirectResponse(f"{server.base}/moved/{kind}", 302)
        case "redirect_away":
            return RedirectResponse(f"http://localhost:{server.port}/moved/{kind}", 302)
        case "huge":
            return _json(json.dumps({**document, "padding": "x" * HUGE_BYTES}))
        case "not_json":
            return Response("<html>Not here</html>", media_type="text/html")
        case "deep":
            return _json(f'{text[:-1]}, "deep": {"[" * DEPTH}{"]" * DEPTH}}}')
        case "array":
            return _json(f"[{text}]")
        case _:
            return _json(text)


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


def _document(server: AuthorizationServer, kind: str) -> dict[str, Any]:
    behaviour, issuer = server.behaviour, server.issuer
    document: dict[str, Any] = {
        "issuer": issuer if behaviour.claimed_issuer is None else server.expand(behaviour.claimed_issuer),
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "introspection_endpoint": f"{issuer}/introspect",
        "jwks_uri": f"{issuer}/jwks",
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "token_endpoint_auth_methods_supported": [
            "none",
            "client_secret_basic",
            "client_secret_post",
            "private_key_jwt",
        ],
        "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256", "PS256", "EdDSA"],
    }
    if behaviour.registration:
        document["registration_endpoint"] = f"{issuer}/register"
    if behaviour.revocation:
        document["revocation_endpoint"] = f"{issuer}/revoke"
    if behaviour.pkce in ("both", kind):
        document["code_challenge_methods_supported"] = ["S256"]
    if behaviour.iss_advertised:
        document["authorization_response_iss_parameter_supported"] = True
    if behaviour.client_metadata_documents:
        document["client_id_metadata_document_supported"] = True
    if behaviour.server_scopes is not None:
        document["scopes_supported"] = list(behaviour.server_scopes)
    if kind == "oidc":
        document |= {"subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"]}
    for name, value in behaviour.metadata_changes.items():
        document[name] = server.expand(value) if isinstance(value, str) else value
    return {name: value for name, value in document.items() if value is not None}
