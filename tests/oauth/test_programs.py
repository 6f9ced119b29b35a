"""Programs get tokens without a person: client credentials, assertions of workloads, cross-app access."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from toolcrib.oauth import programs
from toolcrib.oauth.account import MAX_SIGN_INS
from toolcrib.oauth.issuer_discovery import limit_requests

BOUND = 20.0
pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")

KEYS = {
    "RSA": lambda: RSAKey.generate_key(2048, {"kid": "rsa"}),
    "P-256": lambda: ECKey.generate_key("P-256", {"kid": "ec"}),
    "Ed25519": lambda: OKPKey.generate_key("Ed25519", {"kid": "ed"}),
}
FORMS = {
    "PEM": lambda key, _: key.as_pem(private=True).decode(),
    "a PEM file": lambda key, folder: _write(folder / "key.pem", key.as_pem(private=True)),
    "JWK": lambda key, _: key.as_dict(private=True),
}


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


async def whoami(server: AuthorizationServer, auth: Any) -> str:
    async with tc.Client(server.url, auth=auth) as client:
        return (await client.call_tool("whoami")).text


def credentials(server: AuthorizationServer, **given: Any) -> tc.ClientCredentials:
    return tc.ClientCredentials(**{"issuer": server.issuer, "client_id": "ci", **given})


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_program_with_a_secret_gets_a_token_by_the_method_of_the_server(method: str) -> None:
    async with AuthorizationServer(metadata_changes={"token_endpoint_auth_methods_supported": [method]}) as server:
        server.add_client("ci", method, secret="s%cret +")

        assert await whoami(server, credentials(server, client_secret="s%cret +"))

    (request,) = server.seen("token")
    assert request.params["grant_type"] == "client_credentials"
    assert request.params["resource"] == server.resource
    assert request.params["scope"] == "mcp:read"
    assert server.counters["authorize"] == 0


@pytest.mark.parametrize(
    "given, behaviour, resource, scope",
    [
        ({"scopes": ["mine", "other"]}, {}, "{base}/mcp", "mine other"),
        ({"scopes": []}, {}, "{base}/mcp", None),
        ({}, {"challenge_scope": None}, "{base}/mcp", "mcp:read mcp:write"),
        ({}, {"challenge_scope": None, "resource_scopes": None}, "{base}/mcp", None),
        ({}, {"resource_metadata": "none"}, "{base}/mcp", "mcp:read"),
        ({"resource": "api://x"}, {}, "api://x", "mcp:read"),
        ({"resource": None}, {"rejects_resource": True}, None, "mcp:read"),
    ],
)
async def test_a_program_requests_the_configured_resource_and_scopes_else_those_of_the_server(
    given: dict[str, Any], behaviour: dict[str, Any], resource: str | None, scope: str | None
) -> None:
    async with AuthorizationServer(**behaviour) as server:
        server.add_client("ci", "client_secret_basic", secret="secret")
        server.trusted.append(AuthorizationServer(resource="api://x"))  # tokens for this resource are accepted too
        assert await whoami(server, credentials(server, client_secret="secret", **given)) == "ci"

    (request,) = server.seen("token")
    assert request.params.get("resource") == (resource and server.expand(resource))
    assert request.params.get("scope") == scope


@pytest.mark.parametrize("kind, form", list(zip(KEYS, FORMS, strict=True)))
async def test_a_program_with_a_key_signs_an_assertion(kind: str, form: str, tmp_path: Path) -> None:
    key = KEYS[kind]()
    async with AuthorizationServer() as server:
        server.add_client("ci", "private_key_jwt", public_key=_public(key))

        assert await whoami(server, credentials(server, private_key=FORMS[form](key, tmp_path)))

    (request,) = server.seen("token")
    token = jwt.decode(request.params["client_assertion"], key, algorithms=["RS256", "ES256", "EdDSA"])
    claims = token.claims
    assert claims["iss"] == claims["sub"] == "ci"
    assert claims["aud"] == server.issuer
    assert claims["jti"] and claims["exp"] - claims["iat"] <= 300


@pytest.mark.parametrize("kind", ["client credentials", "JWT bearer", "cross-app access"])
async def test_a_secret_goes_to_no_other_issuer_whatever_the_server_says(kind: str) -> None:
    audiences: list[str] = []

    def secret(audience: str) -> str:
        audiences.append(audience)
        return "a.b.c"

    async with AuthorizationServer() as other, AuthorizationServer(authorization_servers=(other.issuer,)) as server:
        given: dict[str, Any] = {"issuer": server.issuer, "client_id": "ci"}
        auth: Any = {
            "client credentials": lambda: tc.ClientCredentials(**given, client_secret="secret"),
            "JWT bearer": lambda: tc.JwtBearer(**given, assertion=secret),
            "cross-app access": lambda: tc.CrossAppAccess(
                **given, idp_issuer=other.issuer, idp_client_id="app", subject_token=secret
            ),
        }[kind]()
        with pytest.raises(tc.AuthError, match="issuer: expected one of those that the server names"):
            await whoami(server, auth)

    assert other.requests == [] == audiences
    assert server.counters["token"] == 0


async def test_a_token_that_has_expired_is_replaced_without_a_refresh_token() -> None:
    async with AuthorizationServer() as server:
        server.add_client("ci", "client_secret_basic", secret="secret")
        async with tc.Client(server.url, auth=credentials(server, client_secret="secret")) as client:
            await client.call_tool("whoami")
            server.expire_tokens()
            await client.call_tool("whoami")

    assert [each.params["grant_type"] for each in server.seen("token")] == ["client_credentials"] * 2


async def test_a_later_connection_renews_for_the_same_resource_though_only_a_challenge_names_its_metadata() -> None:
    async with AuthorizationServer(resource_metadata="custom", resource="{base}") as server:
        server.add_client("ci", "client_secret_basic", secret="secret")
        auth = credentials(server, client_secret="secret")
        await whoami(server, auth)
        server.expire_tokens()
        assert await whoami(server, auth) == "ci"

    assert [each.params["resource"] for each in server.seen("token")] == [server.resource] * 2


async def test_a_program_gets_a_token_with_more_scopes_for_a_call_that_needs_them() -> None:
    async with AuthorizationServer() as server:
        server.add_client("ci", "client_secret_basic", secret="secret")
        async with tc.Client(server.url, auth=credentials(server, client_secret="secret")) as client:
            assert (await client.call_tool("write", {"text": "x"})).text == "wrote x"

    assert [each.params["scope"] for each in server.seen("token")] == ["mcp:read", "mcp:read mcp:write"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_program_whose_tokens_are_all_rejected_stops_requesting_them(status: int) -> None:
    async with AuthorizationServer(granted_scope="mcp:read") as server, asyncio.timeout(BOUND):
        server.add_client("ci", "client_secret_basic", secret="secret")
        async with tc.Client(server.url, auth=credentials(server, client_secret="secret")) as client:
            if status == 401:
                server.fail_next("mcp", times=1_000_000, status=401, WWW_Authenticate="Bearer")
            for _ in range(6):
                before = server.counters["token"]
                with pytest.raises(tc.AuthError) as caught:
                    await client.call_tool("write", {"text": "x"})
                assert caught.value.status == status
                assert server.counters["token"] <= before + 2  # a renewal and an authorisation

    assert "3 authorisations within 10 minutes did not help" in str(caught.value)
    renewals = 6 if status == 401 else 0  # one for each call
    assert server.counters["token"] <= 1 + MAX_SIGN_INS + renewals


async def test_the_requests_for_a_token_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "limit_requests", partial(limit_requests, count=2))
    async with AuthorizationServer() as server:
        with pytest.raises(tc.AuthError, match="more than 2 requests"):
            await whoami(server, credentials(server, client_secret="secret"))


async def test_programs_that_start_together_share_one_token() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        server.add_client("ci", "client_secret_basic", secret="secret")
        auth = credentials(server, client_secret="secret")
        assert await asyncio.gather(*(whoami(server, auth) for _ in range(6))) == ["ci"] * 6
    assert server.counters["token"] == 1


async def test_an_issuer_that_fails_for_a_while_does_not_use_up_the_authorisations() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        server.add_client("ci", "client_secret_basic", secret="secret")
        auth = credentials(server, client_secret="secret")
        server.fail_next("token", times=1_000_000)
        for _ in range(MAX_SIGN_INS + 2):
            with pytest.raises(tc.ConnectError, match="the authorisation server is not available"):
                await whoami(server, auth)
        server.fail_next("token", times=0)

        assert await whoami(server, auth) == "ci"


@pytest.mark.parametrize(
    "given, key",
    [
        ({}, "client_secret"),
        ({"client_secret": "s", "private_key": "k"}, "client_secret"),
        ({"client_secret": "s", "issuer": "http://login.example.com"}, "issuer"),
        ({"client_secret": "s", "auth_method": "tls_client_auth"}, "auth_method"),
        ({"client_secret": "s", "auth_method": "private_key_jwt"}, "auth_method"),
        ({"client_secret": "s", "auth_method": "none"}, "auth_method"),
        ({"private_key": "k", "auth_method": "client_secret_basic"}, "auth_method"),
        ({"private_key": "k", "auth_method": "private_key_jwt"}, "auth_method"),
        ({"client_secret": "s", "scopes": ["two words"]}, "scopes[0]"),
        ({"client_secret": 5}, "client_secret"),
        ({"client_secret": "s", "client_id": ""}, "client_id"),
        ({"client_secret": "s", "client_id": 5}, "client_id"),
        ({"client_secret": "s", "scopes": 5}, "scopes"),
        ({"private_key": 5}, "private_key"),
        ({"private_key": ""}, "private_key"),
        ({"private_key": {}}, "private_key"),
        ({"client_secret": "s", "resource": 5}, "resource"),
        ({"client_secret": "s", "resource": "no uri"}, "resource"),
    ],
)
def test_wrong_options_of_a_program_are_rejected(given: dict[str, Any], key: str) -> None:
    with pytest.raises(tc.ConfigError) as caught:
        tc.ClientCredentials(**{"issuer": "https://login.example.com", "client_id": "ci", **given})

    assert caught.value.key == key


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_chosen_method_is_used_whatever_the_server_lists(method: str) -> None:
    others = {"token_endpoint_auth_methods_supported": ["private_key_jwt"]}
    async with AuthorizationServer(metadata_changes=others) as server:
        server.add_client("ci", method, secret="secret")
        assert await whoami(server, credentials(server, client_secret="secret", auth_method=method)) == "ci"


def test_a_secret_of_a_workload_needs_a_client_id() -> None:
    with pytest.raises(tc.ConfigError, match="client_id: expected one, because a client_secret is set") as caught:
        tc.JwtBearer(issuer="https://login.example", assertion="a.b.c", client_secret="s")
    assert caught.value.key == "client_id"


async def test_a_public_key_is_rejected_before_a_token_is_requested() -> None:
    key = KEYS["P-256"]()
    async with AuthorizationServer() as server:
        with pytest.raises(tc.ConfigError, match=r"private_key: expected a private key .*, got a public key") as caught:
            await whoami(server, credentials(server, private_key=key.as_dict(private=False)))

    assert caught.value.key == "private_key"
    assert server.counters["token"] == 0


async def test_a_key_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing.pem"
    async with AuthorizationServer() as server:
        with pytest.raises(tc.ConfigError, match=r"private_key: expected .*No such file") as caught:
            await whoami(server, credentials(server, private_key=path))

    assert str(path) in str(caught.value)
    assert server.counters["token"] == 0


async def test_a_text_that_is_neither_a_key_nor_a_file_is_not_shown() -> None:
    text = "canary".upper()  # source lines are in the traceback
    async with AuthorizationServer() as server:
        with pytest.raises(tc.ConfigError, match="private_key: expected") as caught:
            await whoami(server, credentials(server, private_key=text))

    assert text not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("returned", [None, b"a.b.c", 5])
async def test_a_function_that_signs_must_return_a_text(returned: Any) -> None:
    async with AuthorizationServer() as server:
        with pytest.raises(tc.AuthError, match="private_key: expected a function that returns a JWT"):
            await whoami(server, credentials(server, private_key=lambda _: returned))

    assert server.counters["token"] == 0


class BlockingFunction:
    """Blocks until the event loop, which calls it, has run another task."""

    def __init__(self, returns: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._released = threading.Event()
        self._returns = returns

    def __call__(self, given: Any) -> str:
        self._loop.call_soon_threadsafe(self._released.set)
        assert self._released.wait(BOUND / 2), "the event loop does not run"
        return str(self._returns(given))


async def test_a_function_that_signs_may_block() -> None:
    key = KEYS["P-256"]()
    async with AuthorizationServer() as server:
        server.add_client("ci", "private_key_jwt", public_key=_public(key))
        function = BlockingFunction(lambda claims: jwt.encode({"alg": "ES256"}, dict(claims), key))

        assert await whoami(server, credentials(server, private_key=function)) == "ci"


# ---- workloads -----------------------------------------------------------------------------------------------


def _assertion(key: Any, audience: str, **claims: Any) -> str:
    now = int(time.time())
    content = {"iss": "https://platform", "sub": "job", "aud": audience, "iat": now, "exp": now + 60, **claims}
    return jwt.encode({"alg": "ES256"}, content, key)


async def test_a_workload_is_asked_for_an_assertion_for_each_token() -> None:
    key, audiences = KEYS["P-256"](), []
    async with AuthorizationServer() as server:
        server.trusted_keys.append(_public(key))
        server.add_client("job")

        async def assertion(audience: str) -> str:
            audiences.append(audience)
            return _assertion(key, audience, jti=str(len(audiences)))

        auth = tc.JwtBearer(issuer=server.issuer, client_id="job", assertion=assertion)
        async with tc.Client(server.url, auth=auth) as client:
            await client.call_tool("whoami")
            server.expire_tokens()
            await client.call_tool("whoami")

    assert audiences == [server.issuer] * 2
    assert {each.params["grant_type"] for each in server.seen("token")} == {
        "urn:ietf:params:oauth:grant-type:jwt-bearer"
    }


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_scope", "unauthorized_client"])
async def test_a_rejected_assertion_is_reported_at_once_without_another_try(error: str) -> None:
    async with AuthorizationServer() as server:
        server.fail_next("token", times=9, status=400, error=error, description="not for you")
        auth = tc.JwtBearer(issuer=server.issuer, client_id="job", assertion="a.b.c")

        with pytest.raises(tc.AuthError, match=f"{error}: not for you"):
            await whoami(server, auth)

    assert server.counters["token"] == 1


async def test_an_assertion_that_is_rejected_for_a_later_token_is_not_tried_again() -> None:
    key = KEYS["P-256"]()
    async with AuthorizationServer() as server:
        server.trusted_keys.append(_public(key))
        server.add_client("job")
        auth = tc.JwtBearer(issuer=server.issuer, client_id="job", assertion=_assertion(key, server.issuer))
        async with tc.Client(server.url, auth=auth) as client:
            await client.call_tool("whoami")
            server.expire_tokens()
            with pytest.raises(tc.AuthError, match="invalid_grant: assertion: was used already"):
                await client.call_tool("whoami")

    assert server.counters["token"] == 2


async def test_a_function_that_returns_an_assertion_may_block() -> None:
    key = KEYS["P-256"]()
    async with AuthorizationServer() as server:
        server.trusted_keys.append(_public(key))
        server.add_client("job")
        function = BlockingFunction(lambda audience: _assertion(key, audience, jti="1"))

        assert await whoami(server, tc.JwtBearer(issuer=server.issuer, client_id="job", assertion=function)) == "job"


@pytest.mark.parametrize("returned", [None, "", b"a.b.c"])
async def test_a_function_without_an_assertion_is_an_error_and_nothing_is_sent(returned: Any) -> None:
    async def later(_: str) -> Any:
        return returned

    async with AuthorizationServer() as server:
        for function in (lambda _: returned, later):
            auth = tc.JwtBearer(issuer=server.issuer, client_id="job", assertion=function)
            with pytest.raises(tc.AuthError, match="expected a function that returns a token, got"):
                await whoami(server, auth)

    assert server.counters["token"] == 0


@pytest.mark.parametrize("assertion", [5, "", None, b"a.b.c"])
def test_an_assertion_is_a_text_or_a_function(assertion: Any) -> None:
    given: dict[str, Any] = {"issuer": "https://login.example", "client_id": "app"}
    with pytest.raises(tc.ConfigError) as caught:
        tc.JwtBearer(**given, assertion=assertion)
    assert caught.value.key == "assertion"
    with pytest.raises(tc.ConfigError) as caught:
        tc.CrossAppAccess(**given, idp_issuer="https://idp.example", idp_client_id="app", subject_token=assertion)
    assert caught.value.key == "subject_token"


# ---- cross-app access ----------------------------------------------------------------------------------------


async def test_a_program_of_an_enterprise_exchanges_the_persons_token() -> None:
    async with AuthorizationServer() as idp, AuthorizationServer(resource="{base}") as server:
        server.trusted.append(idp)
        idp.trusted.append(server)
        idp.add_client("idp-app", "client_secret_basic", secret="idp-secret")
        server.add_client("app", "client_secret_basic", secret="app-secret")
        idp.id_jag_clients["idp-app"] = "app"
        auth = tc.CrossAppAccess(
            issuer=server.issuer,
            client_id="app",
            client_secret="app-secret",
            idp_issuer=idp.issuer,
            idp_client_id="idp-app",
            idp_client_secret="idp-secret",
            subject_token=lambda _: idp.issue_id_token("carol", "idp-app"),
        )

        assert "carol" in await whoami(server, auth)

    (exchange,), (redeemed,) = idp.seen("token"), server.seen("token")
    assert exchange.params["audience"] == server.issuer
    for request in (exchange, redeemed):
        assert (request.params["resource"], request.params["scope"]) == (server.resource, "mcp:read")
    assert exchange.params["requested_token_type"] == "urn:ietf:params:oauth:token-type:id-jag"
    assert redeemed.params["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"


async def test_a_saml_assertion_is_exchanged_and_each_identity_assertion_is_used_once() -> None:
    async with AuthorizationServer() as idp, AuthorizationServer() as server:
        server.trusted.append(idp)
        idp.trusted.append(server)
        idp.add_client("idp-app")
        idp.saml_assertions["<saml/>"] = "dave"
        server.add_client("idp-app", "client_secret_basic", secret="app-secret")
        auth = tc.CrossAppAccess(
            issuer=server.issuer,
            client_id="idp-app",
            client_secret="app-secret",
            idp_issuer="https://idp.example.com",
            idp_token_endpoint=f"{idp.issuer}/token",
            idp_client_id="idp-app",
            subject_token="<saml/>",
            subject_token_type="saml2",
        )
        async with tc.Client(server.url, auth=auth) as client:
            assert "dave" in (await client.call_tool("whoami")).text
            server.expire_tokens()
            assert "dave" in (await client.call_tool("whoami")).text

    exchanges = idp.seen("token")
    assert {each.params["subject_token_type"] for each in exchanges} == {"urn:ietf:params:oauth:token-type:saml2"}
    assertions = [each.params["assertion"] for each in server.seen("token")]
    assert len(exchanges) == len(assertions) == len(set(assertions)) == 2
    assert idp.counters["metadata"] == 0  # its token endpoint is configured


@pytest.mark.parametrize(
    "given, key",
    [
        ({"idp_token_endpoint": "http://idp.example/token"}, "idp_token_endpoint"),
        ({"idp_issuer": "http://idp.example"}, "idp_issuer"),
        ({"idp_client_id": 5}, "idp_client_id"),
        ({"idp_client_secret": 5}, "idp_client_secret"),
        ({"client_secret": "s", "private_key": "k"}, "client_secret"),
        ({"subject_token_type": "access_token"}, "subject_token_type"),
        ({"subject_token_type": []}, "subject_token_type"),
        ({"subject_token": None}, "subject_token"),
    ],
)
def test_wrong_options_of_cross_app_access_are_rejected(given: dict[str, Any], key: str) -> None:
    valid = {
        "issuer": "https://login.example",
        "client_id": "app",
        "idp_issuer": "https://idp.example",
        "idp_client_id": "app",
        "subject_token": "token",
    }
    with pytest.raises(tc.ConfigError) as caught:
        tc.CrossAppAccess(**{**valid, **given})

    assert caught.value.key == key


@pytest.mark.parametrize(
    "changes",
    [
        {"token_type": "Bearer"},
        {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"},
        {"issued_token_type": None},
    ],
    ids=["another token_type", "another issued_token_type", "no issued_token_type"],
)
async def test_an_identity_provider_that_issues_another_token_is_rejected(changes: dict[str, Any]) -> None:
    async with AuthorizationServer(token_changes=changes) as idp, AuthorizationServer() as server:
        idp.trusted.append(server)
        idp.add_client("idp-app")
        auth = tc.CrossAppAccess(
            issuer=server.issuer,
            client_id="app",
            client_secret="app-secret",
            idp_issuer=idp.issuer,
            idp_client_id="idp-app",
            subject_token=idp.issue_id_token("carol", "idp-app"),
        )

        with pytest.raises(tc.AuthError, match="expected an ID-JAG"):
            await whoami(server, auth)

    assert server.counters["token"] == 0


@pytest.mark.parametrize(
    "kind, sent",
    [
        ("client credentials", "CANARY-1"),
        ("a function that signs", "CANARY.2"),
        ("JWT bearer", "CANARY.2"),
        ("JWT bearer by a function", "CANARY.2"),
        ("cross-app access", "CANARY-1 CANARY.2"),
    ],
)
async def test_no_secret_of_a_program_is_shown_in_logs_reprs_and_errors(
    kind: str, sent: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with AuthorizationServer() as server:
        given: dict[str, Any] = {"issuer": server.issuer, "client_id": "app"}
        idp: dict[str, Any] = {"idp_issuer": server.issuer, "idp_client_id": "app", "idp_client_secret": "CANARY-1"}
        auth: Any = {
            "client credentials": lambda: tc.ClientCredentials(**given, client_secret="CANARY-1"),
            "a function that signs": lambda: tc.ClientCredentials(**given, private_key=lambda _: "CANARY.2"),
            "JWT bearer": lambda: tc.JwtBearer(**given, assertion="CANARY.2"),
            "JWT bearer by a function": lambda: tc.JwtBearer(**given, assertion=lambda _: "CANARY.2"),
            "cross-app access": lambda: tc.CrossAppAccess(**given, **idp, subject_token="CANARY.2"),
        }[kind]()
        server.fail_next("token", status=400, error="invalid_grant", description=f"no: {sent}")

        with pytest.raises(tc.AuthError, match="invalid_grant: no:") as caught:
            await whoami(server, auth)

    assert server.counters["token"] == 1
    own = [each for each in caplog.records if each.name.partition(".")[0] not in ("uvicorn", "aiohttp")]
    logged = [each.getMessage() + str(each.exc_info) for each in own]
    text = "\n".join([repr(auth), repr(caught.value), *traceback.format_exception(caught.value), *logged])
    assert "CANARY" not in text


def test_assertions_are_not_in_the_reprs_of_the_parts_of_a_provider() -> None:
    given: dict[str, Any] = {"issuer": "https://login.example", "client_id": "app"}
    workload = tc.JwtBearer(**given, assertion="CANARY")
    app = tc.CrossAppAccess(**given, idp_issuer="https://idp.example", idp_client_id="app", subject_token="CANARY")
    assert "CANARY" not in repr(vars(workload)) + repr(vars(app))


def _public(key: Any) -> Any:
    return type(key).import_key(key.as_dict(private=False))
