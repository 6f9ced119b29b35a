"""The listener takes one answer, the expected one, and shows nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohttp
import pytest

import toolcrib as tc
from toolcrib.oauth.loopback_listener import LoopbackListener

BOUND = 10.0


def is_expected(answer: Mapping[str, str]) -> bool:
    return answer.get("state") == "right"


async def test_only_a_get_of_the_path_with_the_state_ends_the_wait() -> None:
    listener = await LoopbackListener.open()
    try:
        uri = listener.redirect_uri
        assert urlsplit(uri).hostname == "127.0.0.1"
        waiting = asyncio.create_task(listener.wait(is_expected, BOUND))
        await asyncio.sleep(0)
        async with aiohttp.ClientSession() as browser:
            for method, url in [
                ("GET", f"{uri}?code=c&state=wrong"),
                ("GET", uri),
                ("POST", f"{uri}?code=c&state=right"),
                ("GET", f"{uri}/other?code=c&state=right"),
            ]:
                async with browser.request(method, url) as page:
                    assert page.status == 404
            assert not waiting.done()
            async with browser.get(f"{uri}?code=canary&state=right") as page:
                text = await page.text()
                assert (page.status, page.headers["Cache-Control"]) == (200, "no-store")
                assert "canary" not in text
                assert "<script" not in text
            assert await waiting == {"code": "canary", "state": "right"}
            async with browser.get(f"{uri}?code=second&state=right") as page:
                assert page.status == 404
    finally:
        await listener.close()
    with pytest.raises(OSError):  # refused: nothing listens any more
        await asyncio.open_connection("127.0.0.1", urlsplit(uri).port)


async def test_a_sign_in_that_is_not_completed_is_an_error() -> None:
    listener = await LoopbackListener.open()
    try:
        with pytest.raises(tc.AuthError, match="not completed"):
            await listener.wait(is_expected, 0.01)
    finally:
        await listener.close()


async def test_the_redirect_uri_fixes_port_and_path_and_a_taken_port_is_reported() -> None:
    first = await LoopbackListener.open()
    try:
        with pytest.raises(OSError, match="in use"):
            await LoopbackListener.open(first.redirect_uri)
    finally:
        await first.close()
    again = await LoopbackListener.open(first.redirect_uri)
    try:
        assert again.redirect_uri == first.redirect_uri
    finally:
        await again.close()


async def test_the_answer_is_expected_at_the_path_of_the_redirect_uri() -> None:
    first = await LoopbackListener.open()
    port = urlsplit(first.redirect_uri).port
    await first.close()
    listener = await LoopbackListener.open(f"http://localhost:{port}/mcp/oauth")
    try:
        assert listener.redirect_uri == f"http://localhost:{port}/mcp/oauth"
        waiting = asyncio.create_task(listener.wait(is_expected, BOUND))
        await asyncio.sleep(0)
        async with aiohttp.ClientSession() as browser:
            async with browser.get(f"http://127.0.0.1:{port}/callback?code=c&state=right") as page:
                assert page.status == 404
            async with browser.get(f"http://127.0.0.1:{port}/mcp/oauth?code=c&state=right") as page:
                assert page.status == 200
        assert await waiting == {"code": "c", "state": "right"}
    finally:
        await listener.close()


async def test_a_connection_that_a_browser_opened_in_advance_is_closed_with_the_listener() -> None:
    listener = await LoopbackListener.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(listener.redirect_uri).port)
    async with aiohttp.ClientSession() as browser, browser.get(listener.redirect_uri) as page:
        assert page.status == 404  # the first connection has been accepted too
    await listener.close()
    async with asyncio.timeout(BOUND / 2):  # less than the time that the listener waits for a request
        assert await reader.read() == b""
    writer.close()


@pytest.mark.parametrize("target", ["//[", "http://[/callback"])
async def test_a_target_that_is_no_url_is_not_found(target: str) -> None:
    listener = await LoopbackListener.open()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(listener.redirect_uri).port)
        writer.write(f"GET {target} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
        writer.close()
    finally:
        await listener.close()


async def test_the_listener_has_the_address_of_the_redirect_uri() -> None:
    first = await LoopbackListener.open()
    port = urlsplit(first.redirect_uri).port
    await first.close()
    listener = await LoopbackListener.open(f"http://[::1]:{port}/callback")
    try:
        _, writer = await asyncio.open_connection("::1", port)
        writer.close()
    finally:
        await listener.close()
