"""A person signs in with a real browser, through a page that asks for consent."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

import toolcrib as tc
from tests.oauth import browser
from tests.oauth.authorization_server import AuthorizationServer

BOUND = 60.0


@pytest.mark.slow
async def test_a_person_signs_in_with_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if browser.PROGRAM is None and "CI" not in os.environ and os.geteuid() != 0:
        pytest.skip("chromium is not installed; scripts/test --all installs it if it runs as root")
    assert browser.PROGRAM is not None, "chromium is not installed"
    monkeypatch.setenv("BROWSER", f"{browser.write_launcher(tmp_path)} %s")
    store = tc.FileTokenStore(tmp_path / "tokens")
    page = browser.BrowserPage(tmp_path)
    async with asyncio.timeout(BOUND), AuthorizationServer(consent="page") as server:

        async def call() -> str:
            async with tc.Client(server.url, auth=tc.OAuth(store=store)) as client:
                return (await client.call_tool("whoami")).text

        calling = asyncio.create_task(call())
        try:
            await page.connect()
            await page.wait_for("document.querySelectorAll('button').length == 2")
            assert not calling.done()
            await page.evaluate("document.querySelector('button').click()")
            await page.wait_for("document.body.innerText.includes('You can close this page')")
            shown = await page.evaluate("location.pathname + ' ' + document.body.innerText")

            assert await calling == "alice"
            assert shown.startswith("/callback You can close this page")
            assert "alice" not in shown
        finally:
            calling.cancel()
            await page.close()

    assert server.counters["authorize"] == 1
