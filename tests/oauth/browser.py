"""A real browser: headless Chromium, driven over its debugging protocol."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import aiohttp

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


def write_launcher(folder: Path) -> Path:
    """Write a command for the variable BROWSER that starts Chromium with a profile in `folder`."""
    script = folder / "browser"
    log = folder / "browser.log"
    options = " ".join(OPTIONS)
    script.write_text(
        f'#!/bin/sh\necho $$ > "{folder}/pid"\n'
        f'exec "{PROGRAM}" {options} --user-data-dir="{folder}/profile" "$1" > "{log}" 2>&1\n'
    )
    script.chmod(0o700)
    return script


class BrowserPage:
    """The first page of a browser that `write_launcher` starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._session = aiohttp.ClientSession()
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._last_id = 0

    async def connect(self) -> None:
        """Wait for the browser to start, and connect to its page."""
        ports = self._folder / "profile" / "DevToolsActivePort"
        while not (ports.exists() and ports.read_text().strip()):
            await asyncio.sleep(0.05)
        port = ports.read_text().split()[0]
        while True:
            async with self._session.get(f"http://127.0.0.1:{port}/json") as answer:
                pages = [each for each in await answer.json(content_type=None) if each["type"] == "page"]
            if pages:
                break
            await asyncio.sleep(0.05)
        self._socket = await self._session.ws_connect(pages[0]["webSocketDebuggerUrl"])

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page; None if the page is being replaced."""
        assert self._socket is not None
        self._last_id += 1
        message = {"id": self._last_id, "method": "Runtime.evaluate", "params": {"expression": expression}}
        await self._socket.send_json(message)
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == self._last_id:
                return answer.get("result", {}).get("result", {}).get("value")

    async def wait_for(self, expression: str) -> None:
        """Wait until an expression is true in the page."""
        while await self.evaluate(expression) is not True:
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """End the browser and wait for it."""
        if self._socket is not None:
            await self._socket.send_json({"id": 0, "method": "Browser.close"})
            async for _ in self._socket:
                pass
        await self._session.close()
        pid = self._folder / "pid"
        if pid.exists():
            await _wait_for_end(int(pid.read_text()))


async def _wait_for_end(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        if _is_zombie(pid):
            return
        await asyncio.sleep(0.05)


def _is_zombie(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return sys.platform != "linux"
    return state == "Z"
