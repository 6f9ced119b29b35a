"""Measures ten concurrent calls with and without the SDK's OAuth provider, by Toolcrib's and the SDK's client.

The provider's storage holds a token, so the provider only has to add it to requests. The sessions with and without the
provider take turns, so that noise affects both equally. Calls that take 50 ms show whether they wait for each other;
calls that take no time show the cost of the provider. Prints one line of JSON.
"""

import argparse
import asyncio
import json
import statistics
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from time import perf_counter
from typing import Any

import mcp
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from measure import Session, checked, http_server, keep_apart, parse_options, warm_up

import toolcrib

TOKEN = "bench"  # the token that the server accepts
CALLS = 10
MIN_TURNS = 3


class Storage:
    """A `TokenStorage` with a token."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = OAuthToken(access_token=TOKEN)
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def provider_for(url: str) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(client_name="bench", redirect_uris=["http://localhost:3000/callback"])
    return OAuthClientProvider(url, metadata, Storage())


@asynccontextmanager
async def ours(url: str, mode: str, auth: OAuthClientProvider | None) -> AsyncIterator[Session]:
    async with toolcrib.Client(toolcrib.HttpServer(url), auth=auth, mode=mode) as client:

        async def call(text: str) -> str:
            return (await client.call_tool("echo", {"text": text})).text

        yield Session(client.list_tools, call)


@asynccontextmanager
async def sdk(url: str, mode: str, auth: OAuthClientProvider | None) -> AsyncIterator[Session]:
    async with (
        create_mcp_http_client(auth=auth) as http,
        mcp.Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):

        async def call(text: str) -> str:
            result = await client.call_tool("echo", {"text": text})
            answer: str = result.content[0].text
            return answer

        yield Session(client.list_tools, call)


async def ten_at_once(session: Session) -> float:
    start = perf_counter()
    await asyncio.gather(*(checked(session, f"call {number}") for number in range(CALLS)))
    return perf_counter() - start


async def in_turn(sessions: dict[str, Session], seconds: float) -> dict[str, float]:
    """Return the median time of ten concurrent calls for each session."""
    taken: dict[str, list[float]] = {name: [] for name in sessions}
    end = perf_counter() + seconds
    turns = 0
    while perf_counter() < end or turns < MIN_TURNS:
        turns += 1
        for name, session in sessions.items():
            taken[name].append(await ten_at_once(session))
    return {name: statistics.median(times) for name, times in taken.items()}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with http_server(options, *keep_apart(options)) as root:
        for name, client in {"toolcrib": ours, "mcp SDK": sdk}.items():
            figures[name] = {}
            for pace, path in {"fast": "/mcp", "slow": "/mcp/slow"}.items():
                plain, guarded = root + path, f"{root}{path}/guarded"
                async with AsyncExitStack() as stack:
                    sessions = {
                        "without": await stack.enter_async_context(client(plain, options.mode, None)),
                        "with": await stack.enter_async_context(client(guarded, options.mode, provider_for(guarded))),
                    }
                    for session in sessions.values():
                        await warm_up(session, options.warm_up if pace == "fast" else CALLS, CALLS)
                    figures[name][pace] = await in_turn(sessions, options.seconds)
    return figures


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(parse_options()))))
