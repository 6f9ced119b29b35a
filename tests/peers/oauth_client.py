"""Runs in a peer's environment: our client with that environment's `OAuthClientProvider`; prints its observations.

python oauth_client.py http|sse URL MODE
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import mcp.shared.auth as auth
from mcp.client.auth import OAuthClientProvider, TokenStorage

import toolcrib as tc

CALLERS = 10


class Memory(TokenStorage):
    def __init__(self) -> None:
        self.tokens: auth.OAuthToken | None = None
        self.client: auth.OAuthClientInformationFull | None = None

    async def get_tokens(self) -> auth.OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: auth.OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> auth.OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: auth.OAuthClientInformationFull) -> None:
        self.client = client_info


class Person:
    """Opens the authorisation page, and returns its redirect."""

    def __init__(self) -> None:
        self.asked = 0
        self._given: dict[str, list[str]] = {}

    async def visit(self, url: str) -> None:
        self.asked += 1
        async with aiohttp.ClientSession() as http, http.get(url, allow_redirects=False) as page:
            self._given = parse_qs(urlsplit(page.headers["Location"]).query)

    async def bring(self) -> Any:
        code, state = self._given["code"][0], self._given["state"][0]
        result = getattr(auth, "AuthorizationCodeResult", None)  # since 2.0; before, a pair
        return result(code=code, state=state) if result else (code, state)


async def visit(kind: str, url: str, mode: str) -> dict[str, Any]:
    person, storage = Person(), Memory()
    provider = OAuthClientProvider(
        server_url=url,
        client_metadata=auth.OAuthClientMetadata(
            client_name="crib", redirect_uris=["http://localhost:3000/callback"], scope="crib"
        ),
        storage=storage,
        redirect_handler=person.visit,
        callback_handler=person.bring,
    )
    server = tc.HttpServer(url) if kind == "http" else tc.SseServer(url)

    async def everybody(client: tc.Client) -> list[str]:
        results = await asyncio.gather(*(client.call_tool("whoami") for _ in range(CALLERS)))
        return [result.text for result in results]

    async with tc.Client(server, auth=provider, mode=mode) as client:
        assert client.server_info is not None
        seen: dict[str, Any] = {"version": client.server_info.protocol_version, "first": await everybody(client)}
        before = storage.tokens
        await client.call_tool("forget")
        seen["renewed"] = await everybody(client)
        seen["other_token"] = storage.tokens != before
        seen["status"] = str(client.status.state)
    return {**seen, "asked": person.asked, "sdk": importlib.metadata.version("mcp")}


async def main(kind: str, url: str, mode: str) -> None:
    seen = await visit(kind, url, mode)
    left = [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    print(json.dumps({**seen, "tasks_left": left}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
