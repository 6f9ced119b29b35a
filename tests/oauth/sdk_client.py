"""Runs in a peer's environment: the SDK's client and OAuth provider sign in to a server, and call a tool.

python sdk_client.py URL
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import mcp
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


class Memory:
    """Tokens and registration, for the life of the process."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    async def get_tokens(self) -> Any:
        return self._values.get("tokens")

    async def set_tokens(self, tokens: Any) -> None:
        self._values["tokens"] = tokens

    async def get_client_info(self) -> Any:
        return self._values.get("client")

    async def set_client_info(self, client_info: Any) -> None:
        self._values["client"] = client_info


class Person:
    """Agrees, and returns the answer in the redirect."""

    def __init__(self) -> None:
        self.asked = 0
        self._answer: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        self.asked += 1
        async with aiohttp.ClientSession() as http, http.get(url, allow_redirects=False) as page:
            self._answer = parse_qs(urlsplit(page.headers["Location"]).query)

    async def come_back(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**{name: self._answer[name][0] for name in ("code", "state", "iss")})


async def visit(url: str) -> dict[str, Any]:
    person = Person()
    redirect = "http://localhost:3000/callback"
    metadata = OAuthClientMetadata(client_name="peer", redirect_uris=[redirect])
    provider = OAuthClientProvider(url, metadata, Memory(), person.open, person.come_back)
    async with (
        create_mcp_http_client(auth=provider) as http,
        mcp.Client(streamable_http_client(url, http_client=http)) as client,
    ):
        result = await client.call_tool("whoami", {})
        return {"text": result.content[0].text, "asked": person.asked}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(visit(sys.argv[1]))))
