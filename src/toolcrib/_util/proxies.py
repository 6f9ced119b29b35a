"""The proxies that the environment names."""

from __future__ import annotations

from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass_environment  # type: ignore[attr-defined]


def proxy_of_environment(url: str) -> str | None:
    """Return the proxy for a URL from `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.

    netrc is not used: its passwords would be sent.
    """
    parts = urlsplit(url)
    if proxy_bypass_environment(parts.netloc.rpartition("@")[2]):
        return None
    proxies = getproxies_environment()
    found: str | None = proxies.get(parts.scheme) or proxies.get("all")
    return found if found is None or "://" in found else f"http://{found}"
