"""The objects that `auth=` takes for programs: `ClientCredentials`, `JwtBearer` and `CrossAppAccess`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..config import check_resource, check_scopes, wrong
from ..errors import ConfigError
from ..types import UNSET, Unset
from .account import Account, ConnectionContext
from .authorizer import Flow
from .client_auth import BASIC, POST, PrivateKey, one_credential
from .http import check_secure
from .programs import (
    Assertion,
    ClientCredentialsGrant,
    CrossAppGrant,
    JwtBearerGrant,
    ProgramFlow,
    ProgramGrant,
    program_client,
)
from .providers import AuthProvider
from .stored_sign_in import StoredSignIn, TokenSet
from .token_requests import SUBJECT_TYPES
from .token_store import MemoryTokenStore


class _Program(AuthProvider):
    """The base of providers without a person. Tokens are kept in memory: new ones can be requested at any time."""

    def __init__(self, grant: ProgramGrant, scopes: Sequence[str] | None, resource: str | Unset | None) -> None:
        super().__init__(MemoryTokenStore(), "")
        check_secure("issuer", grant.issuer)
        self._grant = grant
        self._scopes = None if scopes is None else check_scopes("scopes", scopes)
        self._resource = resource if isinstance(resource, Unset) else check_resource("resource", resource)

    def __repr__(self) -> str:
        client_id = self._grant.client.client_id
        client = f", client_id={client_id!r}" if client_id else ""
        return f"{type(self).__name__}(issuer={self._grant.issuer!r}{client})"

    def _choose(self, stored: StoredSignIn) -> TokenSet | None:
        return next(iter(stored.token_sets), None)

    def _flow(self, account: Account, connection: ConnectionContext) -> Flow:
        return ProgramFlow(self._grant, account, connection, scopes=self._scopes, resource=self._resource)


class ClientCredentials(_Program):
    """A program that has a secret or key of its own: CI jobs, services, cron.

    `issuer` is required: the secret goes to no other authorisation server, whatever the MCP server says.
    """

    extensions = ("io.modelcontextprotocol/oauth-client-credentials",)

    def __init__(
        self,
        *,
        issuer: str,
        client_id: str,
        client_secret: str | None = None,
        private_key: PrivateKey | None = None,
        auth_method: str | None = None,
        scopes: Sequence[str] | None = None,
        resource: str | Unset | None = UNSET,
    ) -> None:
        """Create the provider; either `client_secret` or `private_key` is required.

        Args:
            issuer: The authorisation server.
            client_id: The id of this program there.
            client_secret: Its secret.
            private_key: Its key: PEM, a PEM file, a JWK, or a function that gets the claims and returns the signed JWT.
            auth_method: How the secret is sent, `"client_secret_basic"` or `"client_secret_post"`; default: as the
                authorisation server supports it.
            scopes: The scopes to request; default: those that the server asks for.
            resource: The resource parameter; default: what the server's metadata says. None omits it.
        """
        if (client_secret is None) == (private_key is None):
            raise one_credential()
        if auth_method is not None and (client_secret is None or auth_method not in (BASIC, POST)):
            raise wrong("auth_method", f"{BASIC} or {POST}, with a client_secret", auth_method)
        client = program_client(client_id, client_secret, private_key, auth_method)
        super().__init__(ClientCredentialsGrant(issuer, client), scopes, resource)


class JwtBearer(_Program):
    """A workload with an assertion about its identity, such as the token of its platform (RFC 7523)."""

    extensions = ("io.modelcontextprotocol/auth/wif",)

    def __init__(
        self,
        *,
        issuer: str,
        assertion: Assertion,
        client_id: str | None = None,
        client_secret: str | None = None,
        scopes: Sequence[str] | None = None,
        resource: str | Unset | None = UNSET,
    ) -> None:
        """Create the provider.

        Args:
            issuer: The authorisation server.
            assertion: A JWT, or a function that gets the audience (the issuer) and returns one, for each token.
            client_id: The id of this program there, if the authorisation server requires one.
            client_secret: Its secret.
            scopes: The scopes to request; default: those that the server asks for.
            resource: The resource parameter; default: what the server's metadata says. None omits it.
        """
        if client_id is None and client_secret is not None:
            raise ConfigError("client_id: expected one, because a client_secret is set", key="client_id")
        client = program_client(client_id, client_secret, None, None)
        super().__init__(JwtBearerGrant(issuer, client, _check_assertion("assertion", assertion)), scopes, resource)


class CrossAppAccess(_Program):
    """Access on behalf of a person who signed in to this program with an identity provider of the organisation.

    The identity provider exchanges the person's token for an identity assertion (ID-JAG), which the authorisation
    server of the MCP server accepts.
    """

    extensions = ("io.modelcontextprotocol/enterprise-managed-authorization",)

    def __init__(
        self,
        *,
        issuer: str,
        client_id: str,
        client_secret: str | None = None,
        private_key: PrivateKey | None = None,
        idp_issuer: str,
        idp_client_id: str,
        idp_client_secret: str | None = None,
        idp_token_endpoint: str | None = None,
        subject_token: Assertion,
        subject_token_type: str = "id_token",  # noqa: S107  # not a password
        scopes: Sequence[str] | None = None,
        resource: str | Unset | None = UNSET,
    ) -> None:
        """Create the provider.

        Args:
            issuer: The authorisation server of the MCP server.
            client_id: The id of this program there.
            client_secret: Its secret there.
            private_key: Its key there.
            idp_issuer: The identity provider.
            idp_client_id: The id of this program at the identity provider.
            idp_client_secret: Its secret there.
            idp_token_endpoint: The token endpoint of the identity provider; default: what its metadata says.
            subject_token: The person's token, or a function that gets the identity provider and returns it.
            subject_token_type: `"id_token"` or `"saml2"`.
            scopes: The scopes to request; default: those that the server asks for.
            resource: The resource parameter; default: what the server's metadata says. None omits it.
        """
        if client_secret is not None and private_key is not None:
            raise one_credential()
        if subject_token_type not in tuple(SUBJECT_TYPES):
            raise wrong("subject_token_type", " or ".join(SUBJECT_TYPES), subject_token_type)
        check_secure("idp_issuer", idp_issuer)
        if idp_token_endpoint is not None:
            check_secure("idp_token_endpoint", idp_token_endpoint)
        grant = CrossAppGrant(
            issuer,
            program_client(client_id, client_secret, private_key, None),
            idp_issuer,
            idp_token_endpoint,
            program_client(idp_client_id, idp_client_secret, None, None, prefix="idp_"),
            _check_assertion("subject_token", subject_token),
            subject_token_type,
        )
        super().__init__(grant, scopes, resource)


def _check_assertion(key: str, assertion: Any) -> Assertion:
    if not callable(assertion) and not (isinstance(assertion, str) and assertion):
        raise wrong(key, "a token, or a function that returns one", assertion)
    return assertion  # type: ignore[no-any-return]
