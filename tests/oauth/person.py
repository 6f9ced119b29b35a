"""Scripted persons, who answer authorisation requests."""

from __future__ import annotations

from urllib.parse import parse_qsl, urljoin, urlsplit

import aiohttp

MAX_REDIRECTS = 10


async def agree(url: str) -> str:
    """Open the authorisation URL and return the URL of the client to which the server redirects, without opening it.

    Redirects to other pages of the server are followed, with cookies. Raises `ValueError` if it shows a page.
    """
    server = urlsplit(url).netloc
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:  # hosts are IP addresses
        for _ in range(MAX_REDIRECTS):
            async with browser.get(url, allow_redirects=False) as page:
                if "Location" not in page.headers:
                    raise ValueError(f"expected a redirect, got {page.status}: {(await page.text())[:200]}")
                url = urljoin(url, page.headers["Location"])
            if urlsplit(url).netloc != server:
                return url
    raise ValueError(f"expected a redirect to the client, got more than {MAX_REDIRECTS} redirects")


async def agree_and_follow(url: str) -> tuple[int, str]:
    """Open the authorisation URL as a browser does, and return the status and text of the last page.

    For listeners on this machine: the last page is theirs.
    """
    async with aiohttp.ClientSession() as browser, browser.get(await agree(url)) as page:
        return page.status, await page.text()


def query_of(url: str) -> dict[str, str]:
    """Return the parameters of a URL."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))
