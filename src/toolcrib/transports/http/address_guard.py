"""The check of addresses when a connection is made: a refused address is never connected to.

The check sees the address that is connected to, after the name was resolved. So neither the spelling of a URL nor a DNS
server that gives another answer the second time can get around it, and redirects are checked like first requests.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

if TYPE_CHECKING:
    from aiohttp import AddrInfoType

PROXIED_HOST_SECONDS: Final = 10.0
"""Seconds for which a host that is reached through a proxy is not checked again."""


class AddressRules(Protocol):
    """Decides which hosts and addresses may be connected to."""

    def refuse_host(self, host: str) -> str | None:
        """Return why this host name is refused; None if its addresses decide."""
        ...

    def refuse_address(self, address: str, *, trusted: bool = False) -> str | None:
        """Return why this IP address is refused; None if it is allowed. `trusted`: the operator chose the address."""
        ...


class AddressRefused(OSError):
    """Raised in place of connecting; its `strerror` names the host, the address and the reason."""

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(errno.EACCES, reason if host in reason.split() else f"{host}: {reason}")


class ConnectorOptions(TypedDict, total=False):
    """Arguments of an aiohttp connector."""

    resolver: AbstractResolver
    socket_factory: Any


class AddressGuard(AbstractResolver):
    """Checks the connections of one HTTP client. Also resolves their names, to name the host in errors.

    `trusted_proxy` is the URL of a proxy that the operator has set for the whole process: it may have a private
    address. A proxy resolves names itself, so hosts behind it are checked as far as they can be resolved here.
    """

    def __init__(self, rules: AddressRules, trusted_proxy: str | None = None) -> None:
        self._rules = rules
        self._resolver = ThreadedResolver()
        self._trusted_host = _host_of(trusted_proxy) if trusted_proxy is not None else None
        self._trusted_addresses = {self._trusted_host} if self._trusted_host is not None else set()
        self._checked_until: dict[str, float] = {}

    def connector_options(self) -> ConnectorOptions:
        """Return the arguments for the connector of the client."""
        return {"resolver": self, "socket_factory": self.make_socket}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a name; raises `AddressRefused` if there is none."""
        name = _normal(host)
        if (reason := self._rules.refuse_host(name)) is not None:
            raise AddressRefused(name, reason)
        trusted = name == self._trusted_host
        allowed: list[ResolveResult] = []
        for each in await self._resolver.resolve(host, port, family):
            refused = self._rules.refuse_address(each["host"], trusted=trusted)
            if refused is None:
                allowed.append(each)
            reason = reason or refused
        if not allowed:
            raise AddressRefused(name, reason or "it has no address")
        if trusted:
            self._trusted_addresses.update(each["host"] for each in allowed)
        return allowed

    def make_socket(self, info: AddrInfoType) -> socket.socket:
        """Return a socket for this address; raises `AddressRefused`. Every connection passes here."""
        family, kind, protocol, _, (address, *_) = info
        text = str(address)
        reason = self._rules.refuse_address(text, trusted=text in self._trusted_addresses)
        if reason is not None:
            raise AddressRefused(text, reason)
        return socket.socket(family, kind, protocol)

    async def check_proxied(self, url: str) -> None:
        """Raise `AddressRefused` if the host of a URL, which a proxy will connect to, is refused."""
        host = _host_of(url)
        loop = asyncio.get_running_loop()
        if self._checked_until.get(host, 0.0) > loop.time():
            return
        reason = self._rules.refuse_host(host)
        try:
            found = [] if reason is not None else await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            found = []  # only the proxy can resolve it
        for _, _, _, _, (address, *_) in found:
            reason = reason or self._rules.refuse_address(str(address))
        if reason is not None:
            raise AddressRefused(host, reason)
        self._checked_until = {host: loop.time() + PROXIED_HOST_SECONDS}

    async def close(self) -> None:
        """Do nothing: the resolver keeps nothing open."""


def _host_of(url: str) -> str:
    return _normal(urlsplit(url).hostname or "")


def _normal(host: str) -> str:
    return host.rstrip(".").lower()
