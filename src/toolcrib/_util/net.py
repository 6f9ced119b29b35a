"""Host names and addresses."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether `host` is an address of this machine's loopback interface, or a name that is reserved for one.

    Reserved are `localhost` and the names below it (RFC 6761). The name is not resolved: code that listens on it must
    check the address that the system returns. All other names count as remote, and so does the empty one, which
    stands for all interfaces.
    """
    name = host.lower().removesuffix(".")
    if name == "localhost" or (name.endswith(".localhost") and not name.startswith(".")):
        return True
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
