"""Scripted persons, who answer authorisation requests."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import aiohttp


async def agree(url: str) -> str:
    """Open the authorisation URL and return the URL to which the server redirects, without opening that one.

    Raises `ValueError` if the server shows a page instead.
    """
    async with aiohttp.ClientSession() as browser, browser.get(url, allow_redirects=False) as page:
        if "Location" not in page.headers:
            raise ValueError(f"expected a redirect, got {page.status}: {(await page.text())[:200]}")
        return page.headers["Location"]


async def agree_and_follow(url: str) -> tuple[int, str]:
    """Open the authorisation URL as a browser does, and return the status and text of the last page.

    For listeners on this machine: the last page is theirs.
    """
    async with aiohttp.ClientSession() as browser, browser.get(await agree(url)) as page:
        return page.status, await page.text()


def query_of(url: str) -> dict[str, str]:
    """Return the parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
