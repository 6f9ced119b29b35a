"""Pages in browsers: which responses they may read, over real connections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

import toolcrib as tc
from tests.serving import served

PAGE = "https://app.example"
ALLOW = "Access-Control-Allow-Origin"


def reject(_: Any) -> Any:
    raise tc.AuthError("no", challenge='Bearer resource_metadata="https://tools.example/x"')


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_page_of_an_allowed_origin_may_read_the_challenge(http: aiohttp.ClientSession, transport: Any) -> None:
    app = tc.ToolServer("s").asgi(transport=transport, auth=reject, allowed_origins=[PAGE])
    async with served(app) as origin, http.get(f"{origin}/mcp", headers={"Origin": PAGE}) as response:
        assert response.status == 401 and "resource_metadata" in response.headers["WWW-Authenticate"]
        assert response.headers[ALLOW] == PAGE
        assert "WWW-Authenticate" in response.headers["Access-Control-Expose-Headers"]
        assert response.headers["Vary"] == "Origin"
        assert "Access-Control-Allow-Credentials" not in response.headers


async def test_a_preflight_request_is_answered_without_credentials(http: aiohttp.ClientSession) -> None:
    app = tc.ToolServer("s").asgi(auth=reject, allowed_origins=[PAGE])
    asked = {
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-session-id",
    }
    async with served(app) as origin, http.options(f"{origin}/mcp", headers=asked) as response:
        assert response.status == 204 and response.headers[ALLOW] == PAGE
        assert response.headers["Access-Control-Allow-Headers"] == asked["Access-Control-Request-Headers"]
        assert "POST" in response.headers["Access-Control-Allow-Methods"]


@pytest.mark.parametrize("page, allowed", [("https://evil.example", [PAGE]), ("http://localhost:3000", [])])
async def test_other_pages_read_nothing(http: aiohttp.ClientSession, page: str, allowed: list[str]) -> None:
    asked = {"Origin": page, "Access-Control-Request-Method": "POST"}
    async with served(tc.ToolServer("s").asgi(auth=reject, allowed_origins=allowed)) as origin:
        for method in ("OPTIONS", "POST", "GET"):
            async with http.request(method, f"{origin}/mcp", headers=asked) as response:
                assert response.status in (401, 403)
                assert ALLOW not in response.headers


async def test_programs_get_no_headers_for_pages(http: aiohttp.ClientSession) -> None:
    async with served(tc.ToolServer("s").asgi(allowed_origins=["*"])) as origin:
        async with http.get(f"{origin}/mcp") as response:
            assert ALLOW not in response.headers
        async with http.get(f"{origin}/mcp", headers={"Origin": PAGE}) as response:
            assert response.headers[ALLOW] == PAGE
