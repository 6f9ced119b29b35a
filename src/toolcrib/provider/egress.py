"""The addresses that sources may connect to.

The rules are tables of networks, not properties of `ipaddress`, whose answers differ between versions of Python.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

Address = IPv4Address | IPv6Address

_METADATA_HOSTS: Final = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.tencentyun.com",
    }
)


def _networks(*texts: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(map(ipaddress.ip_network, texts))


_METADATA: Final = _networks(
    "169.254.0.0/16",  # most clouds; also the credentials of containers
    "100.100.100.200/32",  # Alibaba Cloud
    "168.63.129.16/32",  # Azure's host agent
    "192.0.0.192/32",  # Oracle Cloud
    "fd00:ec2::/32",  # AWS
    "fd20:ce::254/128",  # Google Cloud
    "fe80::a9fe:a9fe/128",  # OpenStack
)

_KINDS: Final[Sequence[tuple[str, Sequence[IPv4Network | IPv6Network]]]] = (
    ("a loopback address", _networks("127.0.0.0/8", "::1/128")),
    ("a private address", _networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10")),
    ("a link-local address", _networks("fe80::/10")),
    ("an address of a provider's internal network (CGNAT)", _networks("100.64.0.0/10")),
    ("a multicast address", _networks("224.0.0.0/4", "ff00::/8")),
    ("an unspecified address", _networks("0.0.0.0/8", "::/128")),
    (
        "a reserved address",
        _networks(
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "240.0.0.0/4",
            "2001::/23",  # includes Teredo
            "2001:db8::/32",
            "2002::/16",  # 6to4
            "3fff::/20",
            "64:ff9b:1::/48",  # NAT64 of a local network
        ),
    ),
)
"""Networks that are not public, by what to call them."""

_PUBLIC_IPV6: Final = IPv6Network("2000::/3")
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE: Final = IPv6Network("::/96")


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Decides which addresses sources may connect to.

    Metadata services of clouds are always refused. With `allow_private=False` only public addresses are allowed. An
    IPv6 address that embeds an IPv4 address is refused if the embedded address is.
    """

    allow_private: bool = True

    def refuse_host(self, host: str) -> str | None:
        """Return why this host name is refused; None if its addresses decide."""
        if host.rstrip(".").lower() in _METADATA_HOSTS:
            return "this is the name of a cloud's metadata service, which is always refused. Use another URL"
        return None

    def refuse_address(self, address: str, *, trusted: bool = False) -> str | None:
        """Return why this IP address is refused; None if it is allowed.

        `trusted`: the operator chose the address for this process, such as that of a proxy; it may be private.
        """
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return f"{address!r} is not an IP address"
        embedded = _embedded_addresses(parsed)
        if any(_is_in(each, _METADATA) for each in (parsed, *embedded)):
            return f"{address} is the address of a cloud's metadata service, which is always refused. Use another URL"
        if self.allow_private or trusted:
            return None
        kind = _kind_of(parsed, embedded)
        if kind is None:
            return None
        return f"{address} is {kind}, and allow_private is False. Use a public address, or set allow_private=True"


def _kind_of(address: Address, embedded: Sequence[IPv4Address]) -> str | None:
    """Return what to call an address that is not public; None if it is public."""
    for each in (*embedded, address):
        for kind, networks in _KINDS:
            if _is_in(each, networks):
                return kind
    if isinstance(address, IPv4Address) or address in _PUBLIC_IPV6:
        return None
    # Outside the public range only two forms of public IPv4 addresses are allowed.
    return None if address.ipv4_mapped is not None or address in _NAT64[0] else "a reserved address"


def _embedded_addresses(address: Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that packets to this IPv6 address may reach."""
    if isinstance(address, IPv4Address):
        return ()
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if address in _NAT64[0] or address in _NAT64[1]:
        return (last,)
    is_special = int(address) in (0, 1)  # unspecified and loopback
    return (last,) if address in _COMPATIBLE and not is_special else ()


def _is_in(address: Address, networks: Sequence[IPv4Network | IPv6Network]) -> bool:
    return any(address in network for network in networks)
