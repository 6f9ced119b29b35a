"""Requests to authorisation servers without a connection to an MCP server: proxies, netrc files, and failures."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

import toolcrib as tc
from tests.oauth.issuer import sign
from toolcrib.oauth.http import open_fetch

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextlib.asynccontextmanager
async def serve(**headers: str) -> AsyncIterator[tuple[str, list[web.BaseRequest]]]:
    """Serve a port that answers everything with 200 and these headers; yield its address and the requests."""
    requests: list[web.BaseRequest] = []

    async def respond(request: web.BaseRequest) -> web.Response:
        requests.append(request)
        return web.Response(text="{}", headers={name.replace("_", "-"): value for name, value in headers.items()})

    runner = web.ServerRunner(web.Server(respond))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", requests
    finally:
        await runner.cleanup()


async def test_no_credentials_of_a_netrc_file_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login bob password hunter2\ndefault login bob password hunter2\n")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    async with serve() as (address, requests), open_fetch() as fetch:
        status, _, body = await fetch("GET", f"{address}/keys", [], b"")
    assert (status, body) == (200, b"{}")
    (request,) = requests
    assert "Authorization" not in request.headers


async def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as (proxy, requests), open_fetch() as fetch:
        monkeypatch.setenv("HTTP_PROXY", proxy)
        assert (await fetch("GET", "http://login.example/keys", [], b""))[0] == 200
        assert [(each.host, each.path) for each in requests] == [("login.example", "/keys")]


async def test_hosts_of_no_proxy_are_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve() as (address, requests), open_fetch() as fetch:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert (await fetch("GET", f"{address}/keys", [], b""))[0] == 200
    assert len(requests) == 1


@pytest.mark.parametrize(
    "url",
    [
        "https://a..b/keys",
        f"https://{'a' * 70}.example/keys",
        "https://[::1/keys",
        "https://ex\u2024ample/keys",
        "https://",
    ],
)
async def test_an_invalid_host_name_is_an_error_of_the_connection(url: str) -> None:
    async with open_fetch() as fetch:
        with pytest.raises(tc.ConnectError, match="the request failed"):
            await fetch("GET", url, [], b"")


async def test_an_answer_with_a_content_encoding_that_is_not_supported_is_an_error_of_the_sign_in() -> None:
    async with serve(Content_Encoding="br") as (address, _), open_fetch() as fetch:
        with pytest.raises(tc.AuthError, match=f"{address}/keys: .*br"):
            await fetch("GET", f"{address}/keys", [], b"")


async def test_keys_with_a_content_encoding_that_is_not_supported_are_an_outage_for_a_verifier() -> None:
    async with serve(Content_Encoding="br") as (address, _):
        verifier = tc.TokenVerifier(address, f"{address}/mcp")
        claims = {"iss": address, "aud": f"{address}/mcp", "sub": "ada", "exp": int(time.time()) + 60}
        for _attempt in range(2):
            with pytest.raises(tc.ConnectError):
                await verifier({"authorization": f"Bearer {sign(claims)}"})


async def test_a_given_function_is_used_as_it_is() -> None:
    async def given(*_: object) -> tuple[int, list[tuple[str, str]], bytes]:
        return 204, [], b""

    async with open_fetch(given) as fetch:
        assert fetch is given
