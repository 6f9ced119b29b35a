"""Network settings of an HTTP server: headers, certificates, proxy and redirects."""

from __future__ import annotations

import asyncio
import inspect
import logging
import select
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urljoin, urlsplit
from weakref import WeakSet

from ..._version import __version__
from ...config import HttpServer, SseServer, check_header
from ...errors import ConfigError, ConnectError
from ...protocol.decompression import ACCEPTED
from .address_guard import AddressRules

log = logging.getLogger("toolcrib.transports")


@dataclass(frozen=True, slots=True)
class Egress:
    """Restricts how the connections to a server are made."""

    rules: AddressRules | None = None
    """The addresses that may be connected to; None for all."""
    direct: bool = False
    """Use no proxy of the environment."""


UNRESTRICTED: Final = Egress()

OURS: Final = frozenset({"accept", "accept-encoding", "content-type", "content-length", "transfer-encoding"})
"""Headers that only the client sets, besides the protocol's own `Mcp-...`."""


OWN: Final = {"User-Agent": f"toolcrib/{__version__}", "Accept-Encoding": ACCEPTED}
"""Default headers of every request; the config can override them."""


def split_headers(given: Mapping[str, Any]) -> tuple[dict[str, str], list[tuple[str, Callable[[], Any]]]]:
    """Split headers into constant ones and those whose function is called for each request."""
    fixed: dict[str, str] = {}
    computed = []
    for name, value in given.items():
        low = name.lower()
        if low in OURS or low.startswith("mcp-"):
            log.warning("ignoring the header %s of the config: the client sets it", name)
            continue
        if callable(value):
            computed.append((name, value))
        else:
            fixed[name] = value
    return fixed, computed


async def call_header_functions(functions: list[tuple[str, Callable[[], Any]]]) -> dict[str, str]:
    """Call the functions and return their headers."""
    return {
        name: value for name, function in functions if (value := await call_header_function(name, function)) is not None
    }


async def call_header_function(name: str, function: Callable[[], Any]) -> str | None:
    """Return the value of a header for this request; None to omit it."""
    try:
        value = function()
        if inspect.isawaitable(value):
            value = await value
    except Exception as exc:  # noqa: BLE001  # raised as a ConnectError below
        kind = type(exc).__name__
    else:
        return _checked(name, value)
    # Outside the handler and without the message: both the exception and its context may contain the secret.
    raise ConnectError(f"the function for the header {name} raised {kind}; nothing was sent")


def _checked(name: str, value: Any) -> str | None:
    if value is not None:
        check_header(f"headers.{name}", None if callable(value) else value)
    return value  # type: ignore[no-any-return]


def with_credentials(headers: Mapping[str, str], credentials: Mapping[str, str]) -> Mapping[str, str]:
    """Return the headers with the credentials, which replace headers of the same name."""
    if not credentials:
        return headers
    taken = {name.lower() for name in credentials}
    return {**{name: value for name, value in headers.items() if name.lower() not in taken}, **credentials}


def target_of(at: str, location: str) -> str:
    """Return the URL that a redirect leads to; empty if it is invalid."""
    try:
        return urljoin(at, location) if location else ""
    except ValueError:
        return ""


def stays(at: str, target: str) -> bool:
    """Return whether a redirect leads to the same origin, or from http to https on the same host."""
    try:
        here, there = urlsplit(at), urlsplit(target)
        if "@" in there.netloc and there.netloc != here.netloc:
            return False
        if here.scheme == there.scheme:
            return here.hostname == there.hostname and _port(here) == _port(there)
        return (here.scheme, there.scheme) == ("http", "https") and here.hostname == there.hostname
    except ValueError:
        return False


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def same_origin(at: str, target: str) -> bool:
    """Return whether both URLs have the same scheme, host and port."""
    return urlsplit(at).scheme == urlsplit(target).scheme and stays(at, target)


class Kept:
    """The connections that have carried a request and can be reused."""

    def __init__(self) -> None:
        self._used: WeakSet[Any] = WeakSet()
        self._poll = select.poll() if hasattr(select, "poll") else None

    def is_stale(self, transport: asyncio.Transport | None) -> bool:
        """Return whether the server has closed an idle connection, or sent data on it that belongs to no request."""
        if transport is None or transport.is_closing():
            return True
        if self._poll is None or transport.get_extra_info("ssl_object") is not None:
            return False  # over TLS a server may send tickets at any time
        fd = transport.get_extra_info("socket").fileno()
        self._poll.register(fd, select.POLLIN)
        try:
            return bool(self._poll.poll(0))
        finally:
            self._poll.unregister(fd)

    def has(self, protocol: Any) -> bool:
        """Return whether the connection has carried a request."""
        return protocol in self._used

    def keep(self, protocol: Any) -> None:
        """Add a connection."""
        if protocol not in self._used:
            self._used.add(protocol)


def tls(server: HttpServer | SseServer) -> ssl.SSLContext | bool:
    """Return the TLS context with the server's `ca` and `client_cert`; True for the system's authorities."""
    if server.ca is None and server.client_cert is None and server.verify:
        return True
    key, expected = "ca", "a PEM file of certificates"
    try:
        context = ssl.create_default_context(cafile=server.ca)
        if server.client_cert is not None:
            key, expected = "client_cert", "a PEM file, or a pair of certificate and key"
            files = (server.client_cert,) if isinstance(server.client_cert, str) else server.client_cert
            context.load_cert_chain(*files)
    except (OSError, ssl.SSLError) as exc:
        raise ConfigError(f"{key}: cannot be read as {expected}: {exc}", key=key, expected=expected) from exc
    if not server.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
