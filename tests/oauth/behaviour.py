"""How the authorisation server of the tests behaves; the defaults are those of a server without faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

MetadataAnswer = Literal["normal", "unavailable", "redirect", "redirect_away", "huge", "not_json", "deep", "array"]


@dataclass(frozen=True, slots=True)
class Behaviour:
    """The behaviour of the server. In texts that are URLs, `{base}` stands for the origin of the server."""

    # ---- the protected resource --------------------------------------------------------------------------------
    resource_metadata: Literal["path", "root", "custom", "none"] = "path"
    """Where the metadata of the resource is: `custom` is `/custom/resource-metadata`, which no rule finds."""
    resource_metadata_hint: bool = True
    """Whether challenges name the URL of the metadata."""
    resource: str = "{base}/mcp"
    """The `resource` in the metadata."""
    authorization_servers: tuple[str, ...] | None = None
    """The `authorization_servers` in the metadata; None: the issuer of this server."""
    resource_scopes: tuple[str, ...] | None = ("mcp:read", "mcp:write")
    """The `scopes_supported` in the metadata of the resource."""
    challenge_scope: str | None = "mcp:read"
    """The `scope` in the challenge of a 401."""
    write_scope: str = "mcp:write"
    """The scopes that the tool `write` needs."""
    write_error: str = "insufficient_scope"
    """The `error` in the challenge of a 403."""
    write_always_refused: bool = False
    """Whether the tool `write` is refused whatever the scopes of the token are."""
    public_methods: tuple[str, ...] = ()
    """Methods that need no valid token."""
    rejects_streams: bool = False
    """Whether GET requests are answered with 401, as by proxies that pass on only POST requests."""

    # ---- metadata of the authorisation server ------------------------------------------------------------------
    server_metadata: Literal["oauth", "oidc", "both", "none"] = "oauth"
    issuer_path: str = ""
    """The path of the issuer and of all its endpoints, such as `/tenant1`."""
    oidc_place: Literal["appended", "inserted"] = "appended"
    """Whether `/.well-known/openid-configuration` comes after the path of the issuer, or before it."""
    claimed_issuer: str | None = None
    """The `issuer` in the metadata; None: the true one."""
    pkce: Literal["both", "oauth", "oidc", "none"] = "both"
    """The documents that state PKCE."""
    metadata_answer: MetadataAnswer = "normal"
    metadata_changes: Mapping[str, Any] = field(default_factory=dict)
    """Members of the metadata that are replaced, or removed with the value None."""
    server_scopes: tuple[str, ...] | None = None
    """The `scopes_supported` of the authorisation server."""
    registration: bool = True
    """Whether there is a registration endpoint."""
    revocation: bool = True
    """Whether there is a revocation endpoint."""
    revokes_access_tokens: bool = True
    """Whether that endpoint takes access tokens; else they are an `unsupported_token_type`, as JWTs are for many."""
    client_metadata_documents: bool = False
    """Whether https URLs are accepted as client ids."""

    # ---- registration ------------------------------------------------------------------------------------------
    registered_method: str | None = None
    """The `token_endpoint_auth_method` in the answer; None: the one that the client asked for."""
    registration_status: int = 201
    registration_changes: Mapping[str, Any] = field(default_factory=dict)
    """Members of the answer that are replaced, also by None."""
    secret_seconds: float | None = None
    """After how many seconds the secret expires; it may be in the past. None: never."""
    refused_redirect_hosts: tuple[str, ...] = ()
    """Hosts of redirect URIs for which the registration fails with `invalid_redirect_uri`."""
    exact_redirects: bool = False
    """Whether loopback redirect URIs must have the registered port."""

    # ---- authorisation -----------------------------------------------------------------------------------------
    consent: Literal["granted", "denied", "page"] = "granted"
    """Whether the server redirects at once, with a code or an error, or shows a page with two buttons."""
    iss: Literal["right", "absent", "wrong", "slash"] = "right"
    """The `iss` in authorisation responses; `slash` is the issuer with one more slash."""
    iss_advertised: bool = True
    wrong_state: bool = False
    subject: str = "alice"

    # ---- tokens ------------------------------------------------------------------------------------------------
    requires_resource: bool = True
    """Whether authorisation and token requests need the `resource` of the metadata."""
    rejects_resource: bool = False
    """Whether requests with `resource` fail with AADSTS9010010, as those to Entra do."""
    access_tokens: Literal["jwt", "opaque"] = "jwt"
    access_token_seconds: float = 3600
    refresh_tokens: Literal["rotate", "same", "none"] = "rotate"
    reuse_grace_seconds: float = 0
    """For how long a refresh token that was replaced is still accepted, without the revocation of its family."""
    granted_scope: str | None = None
    """The scope of the tokens, whatever was asked for; None: what was asked for."""
    token_status: int = 200
    error_status: int = 400
    """The status of errors of the token endpoint (401 for `invalid_client`, unless this is 200)."""
    token_type: str = "Bearer"
    expires_in: Literal["number", "text", "absent"] = "number"
    omitted: tuple[str, ...] = ()
    """Members that the answers to refresh requests do not have, such as `refresh_token`; tokens stay the same then."""
    token_changes: Mapping[str, Any] = field(default_factory=dict)
    """Members of all token answers that are replaced, or removed with the value None."""
    form_encoded: bool = False
    """Whether token answers are forms, as those of GitHub may be."""


def from_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a `Behaviour` from JSON: arrays become tuples. Raises `ValueError` for unknown names."""
    known = {each.name for each in fields(Behaviour)}
    if unknown := values.keys() - known:
        raise ValueError(f"unknown behaviour: {', '.join(sorted(unknown))}")
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
