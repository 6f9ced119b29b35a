"""The token endpoint of the tests' authorisation server, with revocation and introspection."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from starlette.responses import JSONResponse, Response

from tests.oauth.authorization_endpoint import resource_problem
from tests.oauth.clients import RegisteredClient
from tests.oauth.tokens import ID_JAG, Family, Grant, OAuthFailure

if TYPE_CHECKING:
    from tests.oauth.authorization_server import AuthorizationServer

NO_STORE = {"Cache-Control": "no-store"}
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"

Answer = dict[str, Any]


def token(server: AuthorizationServer, params: Mapping[str, str], headers: Mapping[str, str]) -> Response:
    """Answer a token request."""
    try:
        client = authenticate(server, params, headers)
        grant_type = params.get("grant_type", "")
        if grant_type not in GRANTS:
            raise OAuthFailure("unsupported_grant_type")
        answer = GRANTS[grant_type](server, client, params)
    except OAuthFailure as exc:
        return failure(server, exc)
    if server.behaviour.form_encoded:
        return Response(
            urlencode(answer), server.behaviour.token_status, NO_STORE, media_type="application/x-www-form-urlencoded"
        )
    return JSONResponse(answer, server.behaviour.token_status, NO_STORE)


def authenticate(
    server: AuthorizationServer, params: Mapping[str, str], headers: Mapping[str, str]
) -> RegisteredClient:
    """Return the client that sent the request."""
    audiences = (server.issuer, f"{server.issuer}/token")
    return server.clients.authenticate(params, headers.get("authorization"), server.behaviour, audiences)


def failure(server: AuthorizationServer, exc: OAuthFailure) -> Response:
    """Return the answer for an OAuth error."""
    status = server.behaviour.error_status
    if exc.error == "invalid_client" and status != 200:
        status = 401
    body = {"error": exc.error, "error_description": exc.description}
    return JSONResponse({name: text for name, text in body.items() if text}, status, NO_STORE)


# ---- grants ----------------------------------------------------------------------------------------------------


def _exchange_code(server: AuthorizationServer, client: RegisteredClient, params: Mapping[str, str]) -> Answer:
    issued = server.codes.pop(params.get("code", ""), None)
    if issued is None or issued.grant.client_id != client.client_id:
        raise OAuthFailure("invalid_grant", "unknown code")
    if params.get("redirect_uri") != issued.redirect_uri:
        raise OAuthFailure("invalid_grant", "redirect_uri: not that of the authorisation request")
    verifier = params.get("code_verifier", "")
    digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    if not 43 <= len(verifier) <= 128 or not secrets.compare_digest(digest, issued.challenge):
        raise OAuthFailure("invalid_grant", "code_verifier does not match")
    _check_resource(server, params)
    if params.get("resource") != issued.grant.resource:
        raise OAuthFailure("invalid_target", "resource: not that of the authorisation request")
    if server.behaviour.refresh_tokens == "none":
        return _answer(server, issued.grant)
    family, refresh_token = server.tokens.start_family(issued.grant)
    return _answer(server, issued.grant, family, refresh_token)


def _refresh(server: AuthorizationServer, client: RegisteredClient, params: Mapping[str, str]) -> Answer:
    behaviour = server.behaviour
    _check_resource(server, params)
    presented = params.get("refresh_token", "")
    keeps = behaviour.refresh_tokens == "same" or "refresh_token" in behaviour.omitted
    family, following = server.tokens.present(
        presented, client.client_id, rotate=not keeps, grace_seconds=behaviour.reuse_grace_seconds
    )
    asked = params.get("scope")
    if asked is not None and not set(asked.split()) <= set(family.grant.scope.split()):
        raise OAuthFailure("invalid_scope", "a refresh request cannot ask for more")
    answer = _answer(server, family.grant, family, following)
    return {name: value for name, value in answer.items() if name not in behaviour.omitted}


def _client_credentials(server: AuthorizationServer, client: RegisteredClient, params: Mapping[str, str]) -> Answer:
    if client.method == "none":
        raise OAuthFailure("unauthorized_client", "public clients have no credentials")
    _check_resource(server, params)
    grant = Grant(client.client_id, client.client_id, params.get("scope", ""), params.get("resource"))
    return _answer(server, grant)


def _jwt_bearer(server: AuthorizationServer, client: RegisteredClient, params: Mapping[str, str]) -> Answer:
    """Accept an ID-JAG of this server or of a trusted one, or an assertion of a trusted workload."""
    assertion = params.get("assertion", "")
    found = server.read_assertion(assertion)
    if found is None:
        raise OAuthFailure("invalid_grant", "assertion: unknown key or malformed")
    claims, audience = found.claims, found.claims.get("aud")
    if audience != server.issuer or claims.get("exp", 0) < time.time():
        raise OAuthFailure("invalid_grant", "assertion: wrong aud or expired")
    if assertion in server.used_assertions:
        raise OAuthFailure("invalid_grant", "assertion: was used already")
    server.used_assertions.add(assertion)
    resource = params.get("resource")
    if found.header.get("typ") == ID_JAG:
        if claims.get("client_id") != client.client_id or claims.get("resource") not in server.resources:
            raise OAuthFailure("invalid_grant", "assertion: wrong client_id or resource")
        resource = claims["resource"]
    else:
        _check_resource(server, params)
    scope = params.get("scope", claims.get("scope", ""))
    return _answer(server, Grant(client.client_id, str(claims.get("sub", "")), scope, resource))


def _exchange_token(server: AuthorizationServer, client: RegisteredClient, params: Mapping[str, str]) -> Answer:
    """Exchange an ID token or a SAML assertion for an ID-JAG."""
    if params.get("requested_token_type") != f"{TOKEN_TYPE}id-jag":
        raise OAuthFailure("invalid_request", "requested_token_type: expected id-jag")
    if not params.get("audience") or not params.get("resource"):
        raise OAuthFailure("invalid_request", "audience and resource are required")
    subject_token, kind = params.get("subject_token", ""), params.get("subject_token_type")
    if kind == f"{TOKEN_TYPE}id_token":
        known = server.tokens.read(subject_token)
        subject = known.claims.get("sub") if known is not None else None
    else:
        subject = server.saml_assertions.get(subject_token) if kind == f"{TOKEN_TYPE}saml2" else None
    if subject is None:
        raise OAuthFailure("invalid_grant", "subject_token: unknown")
    claims = {
        "iss": server.issuer,
        "sub": subject,
        "aud": params["audience"],
        "client_id": server.id_jag_clients.get(client.client_id, client.client_id),
        "resource": params["resource"],
        "scope": params.get("scope"),
        "jti": secrets.token_urlsafe(8),
        "iat": int(time.time()),
        "exp": int(time.time()) + 300,
    }
    value = server.tokens.sign({name: each for name, each in claims.items() if each is not None}, typ=ID_JAG)
    answer: Answer = {"issued_token_type": f"{TOKEN_TYPE}id-jag", "access_token": value, "token_type": "N_A"}
    return _changed(server, answer | {"expires_in": 300})


GRANTS: dict[str, Callable[[AuthorizationServer, RegisteredClient, Mapping[str, str]], Answer]] = {
    "authorization_code": _exchange_code,
    "refresh_token": _refresh,
    "client_credentials": _client_credentials,
    JWT_BEARER: _jwt_bearer,
    TOKEN_EXCHANGE: _exchange_token,
}


def _check_resource(server: AuthorizationServer, params: Mapping[str, str]) -> None:
    if problem := resource_problem(server, params):
        raise OAuthFailure(problem["error"], problem["error_description"])


def _answer(
    server: AuthorizationServer, grant: Grant, family: Family | None = None, refresh_token: str | None = None
) -> Answer:
    behaviour = server.behaviour
    scope = grant.scope if behaviour.granted_scope is None else behaviour.granted_scope
    granted = Grant(grant.client_id, grant.subject, scope, grant.resource)
    seconds = behaviour.access_token_seconds
    issued = server.tokens.issue_access(
        server.issuer, granted, seconds=seconds, opaque=behaviour.access_tokens == "opaque", family=family
    )
    answer: Answer = {"access_token": issued.value, "token_type": behaviour.token_type}
    if behaviour.expires_in != "absent":
        answer["expires_in"] = int(seconds) if behaviour.expires_in == "number" else str(int(seconds))
    if refresh_token is not None:
        answer["refresh_token"] = refresh_token
    if scope:
        answer["scope"] = scope
    return _changed(server, answer)


def _changed(server: AuthorizationServer, answer: Answer) -> Answer:
    changed = {**answer, **server.behaviour.token_changes}
    return {name: value for name, value in changed.items() if value is not None}


# ---- revocation and introspection ------------------------------------------------------------------------------


def revoke(server: AuthorizationServer, params: Mapping[str, str], headers: Mapping[str, str]) -> Response:
    """Answer a revocation request (RFC 7009)."""
    try:
        client = authenticate(server, params, headers)
        if params.get("token") in server.tokens.access and not server.behaviour.revokes_access_tokens:
            raise OAuthFailure("unsupported_token_type")
    except OAuthFailure as exc:
        return failure(server, exc)
    server.tokens.revoke(params.get("token", ""), client.client_id)
    return Response(status_code=200, headers=NO_STORE)


def introspect(server: AuthorizationServer, params: Mapping[str, str], headers: Mapping[str, str]) -> Response:
    """Answer an introspection request (RFC 7662) of a client with credentials."""
    try:
        client = authenticate(server, params, headers)
        if client.method == "none":
            raise OAuthFailure("invalid_client", "introspection needs credentials")
    except OAuthFailure as exc:
        return failure(server, exc)
    found = server.tokens.find_access(params.get("token", ""))
    if found is None:
        return JSONResponse({"active": False}, headers=NO_STORE)
    grant = found.grant
    answer = {
        "active": True,
        "iss": server.issuer,
        "sub": grant.subject,
        "aud": grant.resource,
        "client_id": grant.client_id,
        "scope": grant.scope,
        "exp": int(found.expires_at),
        "token_type": "Bearer",
    }
    return JSONResponse({name: value for name, value in answer.items() if value is not None}, headers=NO_STORE)
