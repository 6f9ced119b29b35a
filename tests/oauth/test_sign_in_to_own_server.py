"""Clients sign in to a `ToolServer` that a `TokenVerifier` protects: our own, and that of the SDK."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree
from tests.serving import LateApp, served

SDK_PYTHON = Path(__file__).parents[2] / ".peers/sdk2/bin/python"


@contextlib.asynccontextmanager
async def protected_server(issuer: AuthorizationServer, transport: Any = "http", **options: Any) -> AsyncIterator[str]:
    """The URL of a tool server that takes the tokens of the issuer."""
    tools = tc.ToolServer("protected")

    @tools.tool
    def whoami(context: tc.Context) -> str:
        """Return who calls, and with which scopes."""
        caller = context.principal
        return json.dumps([caller.issuer, caller.subject or f"client {caller.client_id}", sorted(caller.scopes)])

    late = LateApp()
    async with served(late) as origin:
        url = f"{origin}/mcp"
        issuer.change(resource=url)
        verifier = tc.TokenVerifier(issuer=issuer.issuer, resource=url, **options)
        late.app = tools.asgi(transport=transport, path="/mcp", auth=verifier)
        yield url


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("tokens", ["jwt", "opaque"])
async def test_our_client_signs_in(mode: str, tokens: str) -> None:
    async with AuthorizationServer(access_tokens=tokens) as issuer:
        introspection = tc.Introspection(client_id="resource-server", client_secret="introspection-secret")
        options = {"introspection": introspection} if tokens == "opaque" else {}
        async with protected_server(issuer, scopes=["mcp:read"], **options) as url:
            auth = tc.OAuth(interact=agree, store=tc.MemoryTokenStore())
            async with tc.Client(url, auth=auth, mode=mode) as client:
                answer = json.loads((await client.call_tool("whoami")).text)

    assert answer == [issuer.issuer, "alice", ["mcp:read"]]
    assert issuer.counters["authorize"] == 1


async def test_a_program_signs_in_and_is_its_own_principal() -> None:
    async with AuthorizationServer() as issuer, protected_server(issuer) as url:
        issuer.add_client("ci", "client_secret_basic", secret="secret")
        auth = tc.ClientCredentials(issuer=issuer.issuer, client_id="ci", client_secret="secret")
        async with tc.Client(url, auth=auth) as client:
            answer = json.loads((await client.call_tool("whoami")).text)

    assert answer[:2] == [issuer.issuer, "client ci"]


async def test_a_missing_scope_leads_to_a_second_consent_for_all_of_them() -> None:
    async with AuthorizationServer() as issuer, protected_server(issuer, scopes=["mcp:read", "mcp:write"]) as url:
        auth = tc.OAuth(interact=agree, scopes=["mcp:read"], store=tc.MemoryTokenStore())
        async with tc.Client(url, auth=auth) as client:
            answer = json.loads((await client.call_tool("whoami")).text)

    assert answer[2] == ["mcp:read", "mcp:write"]
    assert [each.params["scope"] for each in issuer.seen("authorize")] == ["mcp:read", "mcp:read mcp:write"]


@pytest.mark.parametrize("transport, mode", [("http", "legacy"), ("http", "2026-07-28"), ("sse", "legacy")])
async def test_a_tool_that_requires_more_scopes_leads_to_a_second_consent(transport: str, mode: str) -> None:
    tool_scopes = {"who*": ["mcp:write"]}
    async with (
        AuthorizationServer() as issuer,
        protected_server(issuer, transport, scopes=["mcp:read"], tool_scopes=tool_scopes) as url,
    ):
        config = tc.SseServer(url) if transport == "sse" else tc.HttpServer(url)
        auth = tc.OAuth(interact=agree, store=tc.MemoryTokenStore())
        async with tc.Client(config, auth=auth, mode=mode) as client:
            await client.list_tools()
            assert issuer.counters["authorize"] == 1
            answer = json.loads((await client.call_tool("whoami")).text)

    assert answer[2] == ["mcp:read", "mcp:write"]
    assert issuer.counters["authorize"] == 2


async def test_the_client_of_the_sdk_signs_in() -> None:
    if not SDK_PYTHON.exists():
        pytest.fail("the SDK is not installed; run scripts/test once, it prepares the peers", pytrace=False)
    async with AuthorizationServer() as issuer, protected_server(issuer, scopes=["mcp:read"]) as url:
        command = [SDK_PYTHON, Path(__file__).with_name("sdk_client.py"), url]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr

    seen = json.loads(done.stdout)
    assert json.loads(seen["text"])[:2] == [issuer.issuer, "alice"]
    assert seen["asked"] == 1
