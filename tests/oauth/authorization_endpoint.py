"""The authorisation endpoint of the tests' authorisation server, and the page on which a person agrees."""

from __future__ import annotations

import html
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.responses import HTMLResponse, RedirectResponse, Response

from tests.oauth.tokens import Grant

if TYPE_CHECKING:
    from tests.oauth.authorization_server import AuthorizationServer


@dataclass(frozen=True, slots=True)
class IssuedCode:
    """An authorisation code: what it is for, and what the token request must prove."""

    grant: Grant
    redirect_uri: str
    challenge: str


def authorize(server: AuthorizationServer, params: Mapping[str, str]) -> Response:
    """Answer an authorisation request: with a redirect, the page, or an error page if the client is not known."""
    behaviour = server.behaviour
    client = server.clients.find(params.get("client_id", ""), behaviour)
    redirect = params.get("redirect_uri", "")
    if client is None:
        return HTMLResponse("Unknown client", 400)
    if not server.clients.allows_redirect(client, redirect, behaviour):
        return HTMLResponse("Unknown redirect URI", 400)
    if problem := _problem(server, params):
        return _redirect(server, params, problem)
    if behaviour.consent == "page":
        return _page(server, params)
    return decide(server, params, granted=behaviour.consent == "granted")


def _problem(server: AuthorizationServer, params: Mapping[str, str]) -> dict[str, str] | None:
    if params.get("response_type") != "code":
        return {"error": "unsupported_response_type"}
    if params.get("code_challenge_method") != "S256" or not params.get("code_challenge"):
        return {"error": "invalid_request", "error_description": "PKCE with S256 is required"}
    return resource_problem(server, params)


def resource_problem(server: AuthorizationServer, params: Mapping[str, str]) -> dict[str, str] | None:
    """Return the error for a wrong, missing or forbidden `resource`."""
    behaviour, resource = server.behaviour, params.get("resource")
    if behaviour.rejects_resource:
        if resource is None:
            return None
        text = "AADSTS9010010: The resource parameter provided in the request doesn't match with the requested scopes."
        return {"error": "invalid_target", "error_description": text}
    if behaviour.requires_resource and resource not in server.resources:
        return {"error": "invalid_target", "error_description": "resource: expected that of the metadata"}
    return None


def decide(server: AuthorizationServer, params: Mapping[str, str], *, granted: bool) -> Response:
    """Redirect to the client with a new code, or with the refusal of the person."""
    if not granted:
        return _redirect(server, params, {"error": "access_denied", "error_description": "the person refused"})
    code = secrets.token_urlsafe(24)
    grant = Grant(
        params["client_id"], server.behaviour.subject, params.get("scope", ""), params.get("resource") or None
    )
    server.codes[code] = IssuedCode(grant, params["redirect_uri"], params["code_challenge"])
    return _redirect(server, params, {"code": code})


def _redirect(server: AuthorizationServer, params: Mapping[str, str], answer: Mapping[str, str]) -> Response:
    behaviour, query = server.behaviour, dict(answer)
    if "state" in params:
        query["state"] = "another" if behaviour.wrong_state else params["state"]
    if behaviour.iss != "absent":
        issuer = server.issuer
        query["iss"] = {"right": issuer, "wrong": "https://attacker.example", "slash": f"{issuer}/"}[behaviour.iss]
    uri = params["redirect_uri"]
    return RedirectResponse(f"{uri}{'&' if '?' in uri else '?'}{urlencode(query)}", 302, {"Cache-Control": "no-store"})


def _page(server: AuthorizationServer, params: Mapping[str, str]) -> Response:
    name = secrets.token_urlsafe(8)
    server.pending[name] = dict(params)
    return HTMLResponse(
        f"""<!doctype html><title>Sign in</title><h1>{html.escape(params["client_id"])} asks for access</h1>
<p>{html.escape(params.get("scope", ""))}</p>
<form method="post" action="{server.issuer}/consent"><input type="hidden" name="request" value="{name}">
<button id="allow" name="decision" value="allow">Allow</button>
<button id="deny" name="decision" value="deny">Deny</button></form>"""
    )


def consent(server: AuthorizationServer, params: Mapping[str, str]) -> Response:
    """Answer the button that a person pressed on the page."""
    pending = server.pending.pop(params.get("request", ""), None)
    if pending is None:
        return HTMLResponse("Unknown request", 400)
    return decide(server, pending, granted=params.get("decision") == "allow")
