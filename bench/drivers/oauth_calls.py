"""Measures concurrent calls with and without an OAuth provider: Toolcrib's and the SDK's, with the clients of both.

The provider's storage holds a token, so the provider only has to add it to requests. The sessions with and without the
provider take turns, so that noise affects both equally. Calls that take 50 ms show whether they wait for each other;
calls that take no time show the cost of the provider. Then the token has expired: 100 callers at once need one that is
renewed, by a token endpoint that takes 20 ms. Prints one line of JSON.
"""

import argparse
import asyncio
import json
import statistics
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from time import perf_counter, time
from typing import Any

import mcp
from aiohttp import web
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
from measure import Session, checked, http_server, keep_apart, parse_options, warm_up

import toolcrib
from toolcrib.oauth.stored_sign_in import StoredSignIn, TokenSet

TOKEN = "bench"  # the token that the server accepts
CALLS = 64
CALLERS = 100
MIN_TURNS = 3
OURS, OURS_WITH_SDK, SDK = "toolcrib", "toolcrib with the SDK's provider", "mcp SDK"


class Storage:
    """A `TokenStorage` with a token."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = OAuthToken(access_token=TOKEN, refresh_token="again", expires_in=3600)
        self.client: OAuthClientInformationFull | None = OAuthClientInformationFull(
            client_id="bench", redirect_uris=["http://localhost:3000/callback"], token_endpoint_auth_method="none"
        )

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class TokenEndpoint:
    """Answers refresh requests after 20 ms, and counts them."""

    def __init__(self) -> None:
        self.requests = 0
        self.url = ""

    async def _answer(self, _: web.Request) -> web.Response:
        self.requests += 1
        await asyncio.sleep(0.02)
        return web.json_response(
            {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600, "refresh_token": f"r{self.requests}"}
        )

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/token", self._answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield
        finally:
            await runner.cleanup()


def sdk_provider(url: str, issuer: str) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(client_name="bench", redirect_uris=["http://localhost:3000/callback"])
    provider = OAuthClientProvider(url, metadata, Storage())
    provider.context.oauth_metadata = OAuthMetadata(
        issuer=issuer, authorization_endpoint=f"{issuer}/authorize", token_endpoint=f"{issuer}/token"
    )
    return provider


def own_provider(url: str, issuer: str) -> toolcrib.OAuth:
    provider = toolcrib.OAuth(client_id="bench", interact=None, store=toolcrib.MemoryTokenStore())
    _store(provider, url, TokenSet(issuer, "bench", TOKEN, refresh_token="again", token_endpoint=f"{issuer}/token"))
    return provider


def _store(provider: toolcrib.OAuth, url: str, tokens: TokenSet) -> None:
    account = provider._account(url)
    account.store._texts[account.key] = StoredSignIn(url).with_tokens(tokens).to_text()
    account.tokens, account.is_loaded = tokens, True


def expire(provider: Any, url: str) -> None:
    past = time() - 1
    if isinstance(provider, toolcrib.OAuth):
        _store(provider, url, replace(provider._account(url).tokens, expires_at=past))
    else:
        provider.context.token_expiry_time = past


@asynccontextmanager
async def ours(url: str, mode: str, auth: Any) -> AsyncIterator[Session]:
    async with toolcrib.Client(toolcrib.HttpServer(url), auth=auth, mode=mode) as client:

        async def call(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).text

        yield Session(client.list_tools, call)


@asynccontextmanager
async def sdk(url: str, mode: str, auth: Any) -> AsyncIterator[Session]:
    async with (
        create_mcp_http_client(auth=auth) as http,
        mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):

        async def call(text: str) -> str:
            result = await client.call_tool("echo", {"text": text})
            answer: str = result.content[0].text
            return answer

        yield Session(client.list_tools, call)


async def at_once(session: Session, count: int) -> float:
    start = perf_counter()
    await asyncio.gather(*(checked(session, f"call {number}") for number in range(count)))
    return perf_counter() - start


async def in_turn(sessions: dict[str, Session], seconds: float) -> dict[str, float]:
    """Return the median time of the concurrent calls for each session."""
    taken: dict[str, list[float]] = {name: [] for name in sessions}
    end = perf_counter() + seconds
    turns = 0
    while perf_counter() < end or turns < MIN_TURNS:
        turns += 1
        for name, session in sessions.items():
            taken[name].append(await at_once(session, CALLS))
    return {name: statistics.median(times) for name, times in taken.items()}


async def with_expired_token(session: Session, provider: Any, url: str, endpoint: TokenEndpoint) -> dict[str, float]:
    """Return the time of 100 calls whose token has expired, and the number of refresh requests."""
    taken, requests = [], []
    for _ in range(MIN_TURNS):
        before = endpoint.requests
        expire(provider, url)
        taken.append(await at_once(session, CALLERS))
        requests.append(endpoint.requests - before)
    return {"expired": statistics.median(taken), "refreshes": max(requests)}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    endpoint = TokenEndpoint()
    clients = {OURS: (ours, own_provider), OURS_WITH_SDK: (ours, sdk_provider), SDK: (sdk, sdk_provider)}
    with http_server(options, *keep_apart(options)) as root:
        async with endpoint.serve():
            for name, (client, provider_for) in clients.items():
                figures[name] = {}
                for pace, path in {"fast": "/mcp", "slow": "/mcp/slow"}.items():
                    plain, guarded = root + path, f"{root}{path}/guarded"
                    provider = provider_for(guarded, endpoint.url)
                    async with AsyncExitStack() as stack:
                        sessions = {
                            "without": await stack.enter_async_context(client(plain, options.mode, None)),
                            "with": await stack.enter_async_context(client(guarded, options.mode, provider)),
                        }
                        for session in sessions.values():
                            await warm_up(session, options.warm_up if pace == "fast" else CALLS, CALLS)
                        figures[name][pace] = await in_turn(sessions, options.seconds)
                        figures[name][pace] |= await with_expired_token(sessions["with"], provider, guarded, endpoint)
    return figures


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(parse_options()))))
