"""The authorisation server of the tests checks what it is told: otherwise tests of clients would prove nothing."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
from typing import Any
from urllib.parse import quote_plus, urlencode

import aiohttp
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.clients import ASSERTION_TYPE
from tests.oauth.person import agree, query_of
from tests.oauth.server_process import authorization_server_process
from tests.oauth.token_endpoint import JWT_BEARER, TOKEN_EXCHANGE, TOKEN_TYPE

REDIRECT = "http://127.0.0.1:1/callback"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


async def post(url: str, data: Any = None, *, basic: tuple[str, str] | None = None, **options: Any) -> tuple[int, Any]:
    """Send a form and return the status and the JSON of the answer."""
    headers = {}
    if basic is not None:
        pair = ":".join(quote_plus(each) for each in basic)
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=data, headers=headers, **options) as answer,
    ):
        body = await answer.read()
        return answer.status, json.loads(body) if answer.content_type == "application/json" else body.decode()


class SmallClient:
    """A client that does what a test tells it to do, right or wrong."""

    def __init__(self, server: AuthorizationServer, client_id: str = "") -> None:
        self.server = server
        self.client_id = client_id
        self.verifier = secrets.token_urlsafe(48)

    async def register(self, method: str = "none") -> dict[str, Any]:
        document = {"redirect_uris": [REDIRECT], "token_endpoint_auth_method": method}
        status, answer = await post(f"{self.server.issuer}/register", json=document)
        assert status == 201, answer
        self.client_id = answer["client_id"]
        return dict(answer)

    def authorization_url(self, **changes: str) -> str:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "state": "state-1",
            "scope": "mcp:read",
            "resource": self.server.resource,
            **changes,
        }
        return f"{self.server.issuer}/authorize?{urlencode(query)}"

    async def get_code(self, **changes: str) -> str:
        return query_of(await agree(self.authorization_url(**changes)))["code"]

    async def ask(self, basic: tuple[str, str] | None = None, **params: str) -> tuple[int, Any]:
        data = {"resource": self.server.resource, **({} if basic else {"client_id": self.client_id}), **params}
        return await post(f"{self.server.issuer}/token", data, basic=basic)

    async def exchange(self, code: str, basic: tuple[str, str] | None = None, /, **changes: str) -> tuple[int, Any]:
        params = {"code": code, "redirect_uri": REDIRECT, "code_verifier": self.verifier, **changes}
        return await self.ask(basic, grant_type="authorization_code", **params)

    async def sign_in(self) -> dict[str, Any]:
        await self.register()
        status, answer = await self.exchange(await self.get_code())
        assert status == 200, answer
        return dict(answer)

    async def refresh(self, refresh_token: str) -> tuple[int, Any]:
        return await self.ask(grant_type="refresh_token", refresh_token=refresh_token)


async def call(url: str, token: str, tool: str = "whoami", **arguments: Any) -> str:
    config = tc.HttpServer(url, headers={"Authorization": f"Bearer {token}"})
    async with tc.Client(config) as client:
        return (await client.call_tool(tool, arguments)).text


async def test_a_token_of_the_code_flow_opens_the_mcp_server() -> None:
    async with AuthorizationServer() as server:
        token = (await SmallClient(server).sign_in())["access_token"]
        assert await call(server.url, token) == "alice"
        assert server.counters["register"] == server.counters["authorize"] == server.counters["token"] == 1
        server.expire_tokens()
        with pytest.raises(tc.AuthError):
            await call(server.url, token)


async def test_the_challenge_and_the_metadata_lead_to_the_endpoints() -> None:
    async with (
        AuthorizationServer(issuer_path="/tenant1", resource_metadata="custom") as server,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(server.url, json=INITIALIZE) as refused:
            assert refused.status == 401
            hint = f'Bearer scope="mcp:read", resource_metadata="{server.base}/custom/resource-metadata"'
            assert refused.headers["WWW-Authenticate"] == hint
        async with session.get(f"{server.base}/custom/resource-metadata") as answer:
            assert (await answer.json())["authorization_servers"] == [f"{server.base}/tenant1"]
        async with session.get(f"{server.base}/.well-known/oauth-authorization-server/tenant1") as answer:
            assert (await answer.json())["token_endpoint"] == f"{server.base}/tenant1/token"
        async with session.get(f"{server.base}/.well-known/oauth-authorization-server") as answer:
            assert answer.status == 404
    assert [each.endpoint for each in server.requests] == ["mcp", "resource_metadata", "metadata", "unknown"]


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"code_verifier": "x" * 43}, "invalid_grant"),
        ({"code": "another"}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:2/callback"}, "invalid_grant"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"client_id": "another"}, "invalid_client"),
        ({"client_secret": "secret"}, "invalid_client"),
    ],
)
async def test_a_wrong_code_request_gets_no_token(changes: dict[str, str], error: str) -> None:
    async with AuthorizationServer() as server:
        client = SmallClient(server)
        await client.register()
        status, answer = await client.exchange(await client.get_code(), **changes)
        assert status == (401 if error == "invalid_client" else 400)
        assert answer["error"] == error


async def test_a_code_is_accepted_once() -> None:
    async with AuthorizationServer() as server:
        client = SmallClient(server)
        await client.register()
        code = await client.get_code()
        assert (await client.exchange(code))[0] == 200
        assert (await client.exchange(code))[1]["error"] == "invalid_grant"


async def test_an_authorisation_without_pkce_is_refused_and_unknown_redirects_show_a_page() -> None:
    async with AuthorizationServer(exact_redirects=True) as server:
        client = SmallClient(server)
        await client.register()
        answer = query_of(await agree(client.authorization_url(code_challenge_method="plain")))
        assert answer["error"] == "invalid_request"
        assert answer["iss"] == server.issuer
        for wrong in ({"redirect_uri": "http://127.0.0.1:2/callback"}, {"client_id": "another"}):
            with pytest.raises(ValueError, match="400"):
                await agree(client.authorization_url(**wrong))


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_secrets_are_checked_and_only_by_the_registered_method(method: str) -> None:
    async with AuthorizationServer(registered_method=method) as server:
        client = SmallClient(server)
        registered = await client.register()
        secret = registered["client_secret"]
        assert registered["token_endpoint_auth_method"] == method
        by_basic, by_post = (registered["client_id"], secret), {"client_secret": secret}
        wrong = await client.exchange(await client.get_code(), (registered["client_id"], secret + "x"))
        other_basic = await client.exchange(await client.get_code(), by_basic)
        other_post = await client.exchange(await client.get_code(), **by_post)
        assert wrong[1]["error"] == "invalid_client"
        assert (other_basic[0], other_post[0]) == ((200, 401) if method == "client_secret_basic" else (401, 200))
        server.prune_clients()
        assert (await client.ask(by_basic, grant_type="client_credentials"))[1]["error"] == "invalid_client"


@pytest.mark.parametrize("key", [ECKey.generate_key("P-256"), RSAKey.generate_key(2048)], ids=["ES256", "RS256"])
async def test_assertions_of_clients_are_verified(key: ECKey | RSAKey) -> None:
    async with AuthorizationServer() as server:
        server.add_client("program", "private_key_jwt", public_key=key)
        client = SmallClient(server, "program")

        async def ask(signer: ECKey | RSAKey = key, **changes: Any) -> tuple[int, Any]:
            now = int(time.time())
            claims = {"iss": "program", "sub": "program", "aud": server.issuer, "iat": now, "exp": now + 60}
            claims |= {"jti": secrets.token_hex(8), **changes}
            algorithm = "ES256" if isinstance(signer, ECKey) else "RS256"
            assertion = jwt.encode({"alg": algorithm}, claims, signer)
            return await client.ask(
                grant_type="client_credentials", client_assertion=assertion, client_assertion_type=ASSERTION_TYPE
            )

        status, answer = await ask(jti="first")
        assert status == 200
        assert await call(server.url, answer["access_token"]) == "program"
        assert (await ask(jti="first"))[1]["error"] == "invalid_client"
        assert (await ask(aud="https://other.example"))[1]["error"] == "invalid_client"
        assert (await ask(ECKey.generate_key("P-256")))[1]["error"] == "invalid_client"


async def test_reuse_of_a_refresh_token_revokes_its_family() -> None:
    async with AuthorizationServer() as server:
        client = SmallClient(server)
        first = (await client.sign_in())["refresh_token"]
        second = (await client.refresh(first))[1]
        assert second["refresh_token"] != first
        assert (await client.refresh(first))[1]["error"] == "invalid_grant"
        assert (await client.refresh(second["refresh_token"]))[1]["error"] == "invalid_grant"
        assert server.families["family-1"].is_revoked
        assert server.presentations[first] == 2
        with pytest.raises(tc.AuthError):
            await call(server.url, second["access_token"])


async def test_within_the_grace_window_a_replaced_refresh_token_is_accepted() -> None:
    async with AuthorizationServer(reuse_grace_seconds=60) as server:
        client = SmallClient(server)
        first = (await client.sign_in())["refresh_token"]
        second = (await client.refresh(first))[1]["refresh_token"]
        again = (await client.refresh(first))[1]["refresh_token"]
        assert again == second
        assert not server.families["family-1"].is_revoked


async def test_revocation_ends_the_family_of_the_token() -> None:
    async with AuthorizationServer(revokes_access_tokens=False) as server:
        client = SmallClient(server)
        tokens = await client.sign_in()
        form = {"token": tokens["access_token"], "client_id": client.client_id}
        assert (await post(f"{server.issuer}/revoke", form))[1]["error"] == "unsupported_token_type"
        form = {"token": tokens["refresh_token"], "client_id": client.client_id}
        assert (await post(f"{server.issuer}/revoke", form))[0] == 200
        assert (await client.refresh(tokens["refresh_token"]))[1]["error"] == "invalid_grant"


async def test_introspection_needs_credentials_and_knows_opaque_tokens() -> None:
    async with AuthorizationServer(access_tokens="opaque") as server:
        token = server.issue_token(scope="mcp:read")
        where, resource_server = f"{server.issuer}/introspect", ("resource-server", "introspection-secret")
        status, answer = await post(where, {"token": token}, basic=resource_server)
        assert (status, answer["active"], answer["aud"]) == (200, True, server.resource)
        assert (await post(where, {"token": token}))[0] == 401
        server.expire_tokens()
        assert (await post(where, {"token": token}, basic=resource_server))[1] == {"active": False}


async def test_writing_needs_a_scope() -> None:
    async with AuthorizationServer() as server:
        assert await call(server.url, server.issue_token(scope="mcp:read mcp:write"), "write", text="x") == "wrote x"
        with pytest.raises(tc.AuthError) as caught:
            await call(server.url, server.issue_token(scope="mcp:read"), "write", text="x")
        assert caught.value.status == 403
        assert caught.value.challenge is not None
        assert 'error="insufficient_scope", scope="mcp:write"' in caught.value.challenge


async def test_an_id_token_becomes_an_id_jag_and_that_an_access_token_once() -> None:
    async with AuthorizationServer() as idp, AuthorizationServer() as server:
        server.trusted.append(idp)
        for each in (idp, server):
            each.add_client("agent", "client_secret_basic", secret="s")
        exchange = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": f"{TOKEN_TYPE}id-jag",
            "subject_token": idp.issue_id_token("bob"),
            "subject_token_type": f"{TOKEN_TYPE}id_token",
            "audience": server.issuer,
            "resource": server.resource,
        }
        status, answer = await post(f"{idp.issuer}/token", exchange, basic=("agent", "s"))
        assert (status, answer["token_type"]) == (200, "N_A")
        bearer = {"grant_type": JWT_BEARER, "assertion": answer["access_token"], "scope": "mcp:read"}
        status, answer = await post(f"{server.issuer}/token", bearer, basic=("agent", "s"))
        assert status == 200
        assert await call(server.url, answer["access_token"]) == "bob"
        assert (await post(f"{server.issuer}/token", bearer, basic=("agent", "s")))[1]["error"] == "invalid_grant"


async def test_a_page_asks_the_person() -> None:
    async with AuthorizationServer(consent="page") as server, aiohttp.ClientSession() as browser:
        client = SmallClient(server)
        await client.register()
        async with browser.get(client.authorization_url()) as page:
            text = await page.text()
        form = {"request": text.partition('name="request" value="')[2].partition('"')[0], "decision": "deny"}
        async with browser.post(f"{server.issuer}/consent", data=form, allow_redirects=False) as answer:
            assert query_of(answer.headers["Location"])["error"] == "access_denied"


async def test_gates_and_failures_hold_and_refuse_requests() -> None:
    async with AuthorizationServer() as server:
        client = SmallClient(server)
        token = (await client.sign_in())["refresh_token"]
        server.fail_next("token", times=2, status=503, Retry_After="1")
        assert [(await client.refresh(token))[0] for _ in range(3)] == [503, 503, 200]
        token = server.families["family-1"].tokens[-1]
        gate = server.hold("token-after")
        refreshing = asyncio.create_task(client.refresh(token))
        async with asyncio.timeout(10):
            await gate.reached.wait()
            assert server.families["family-1"].tokens[-1] != token  # the server has replaced it
            gate.open()
            assert (await refreshing)[0] == 200


async def test_the_server_runs_as_a_process_that_others_control() -> None:
    async with authorization_server_process(challenge_scope=None) as server:
        state = await server.control(change={"registration": False}, hold="token", expire_tokens=True)
        assert state["counters"] == {}
        assert (await post(f"{server.issuer}/register", json={}))[0] == 404
        waiting = asyncio.create_task(post(f"{server.issuer}/token", {"grant_type": "refresh_token"}))
        state = await server.control(wait="token")
        assert state["waiting"] == {"token": 1}
        await server.control(open="token")
        assert (await waiting)[1]["error"] == "invalid_client"
