"""Which addresses sources may connect to."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.provider.egress import AddressPolicy

OPEN, CLOSED = AddressPolicy(), AddressPolicy(allow_private=False)

METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fe80::a9fe:a9fe",
    "fe80::a9fe:a9fe%eth0",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::169.254.169.254",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",  # Teredo: the server
    "2001:0:808:808::5601:5601",  # Teredo: the client, inverted
    "::ffff:100.100.100.200",
]

NOT_PUBLIC = [
    ("127.0.0.1", "a loopback address"),
    ("127.255.0.9", "a loopback address"),
    ("::1", "a loopback address"),
    ("::ffff:127.0.0.1", "a loopback address"),
    ("64:ff9b::127.0.0.1", "a loopback address"),
    ("2002:7f00:1::", "a loopback address"),
    ("::127.0.0.1", "a loopback address"),
    ("10.0.0.1", "a private address"),
    ("172.16.0.1", "a private address"),
    ("172.31.255.255", "a private address"),
    ("192.168.1.1", "a private address"),
    ("::ffff:192.168.1.1", "a private address"),
    ("fd12:3456::1", "a private address"),
    ("fec0::1", "a private address"),
    ("fe80::1", "a link-local address"),
    ("fe80::1%eth0", "a link-local address"),
    ("100.64.0.1", "an address of a provider's internal network (CGNAT)"),
    ("100.127.255.255", "an address of a provider's internal network (CGNAT)"),
    ("224.0.0.1", "a multicast address"),
    ("ff02::1", "a multicast address"),
    ("0.0.0.0", "an unspecified address"),
    ("0.1.2.3", "an unspecified address"),
    ("::", "an unspecified address"),
    ("192.0.0.1", "a reserved address"),
    ("192.0.2.7", "a reserved address"),
    ("198.18.0.1", "a reserved address"),
    ("198.51.100.1", "a reserved address"),
    ("203.0.113.1", "a reserved address"),
    ("240.0.0.1", "a reserved address"),
    ("255.255.255.255", "a reserved address"),
    ("2001:db8::1", "a reserved address"),
    ("2001:0:808:808::1", "a reserved address"),
    ("2002:808:808::1", "a reserved address"),
    ("64:ff9b:1::8.8.8.8", "a reserved address"),
    ("3fff::1", "a reserved address"),
    ("4000::1", "a reserved address"),
    ("::8.8.8.8", "a reserved address"),
    ("100::1", "a reserved address"),
]

PUBLIC = ["8.8.8.8", "1.1.1.1", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"]


@pytest.mark.parametrize("address", METADATA)
@pytest.mark.parametrize("policy", [OPEN, CLOSED], ids=["private", "public"])
@pytest.mark.parametrize("trusted", [False, True])
def test_metadata_services_are_always_refused(address: str, policy: AddressPolicy, trusted: bool) -> None:
    reason = policy.refuse_address(address, trusted=trusted)
    assert reason is not None
    assert reason.startswith(f"{address} is the address of a cloud's metadata service, which is always refused")


@pytest.mark.parametrize("address, kind", NOT_PUBLIC)
def test_addresses_that_are_not_public_need_an_option(address: str, kind: str) -> None:
    assert OPEN.refuse_address(address) is None
    assert CLOSED.refuse_address(address, trusted=True) is None
    assert CLOSED.refuse_address(address) == (
        f"{address} is {kind}, and allow_private is False. Use a public address, or set allow_private=True"
    )


@pytest.mark.parametrize("address", [*PUBLIC, "64:ff9b::8.8.8.8"])
def test_public_addresses_are_allowed(address: str) -> None:
    assert OPEN.refuse_address(address) is CLOSED.refuse_address(address) is None


@pytest.mark.parametrize("text", ["", "localhost", "127.1", "0x7f000001", "2130706433", "1.2.3.4.5", "[::1]"])
def test_other_texts_are_refused(text: str) -> None:
    assert "is not an IP address" in (OPEN.refuse_address(text) or "")


@pytest.mark.parametrize(
    "host",
    ["metadata.google.internal", "METADATA.GOOGLE.INTERNAL", "metadata.google.internal.", "metadata", "instance-data"],
)
def test_names_of_metadata_services_are_refused(host: str) -> None:
    assert "always refused" in (OPEN.refuse_host(host) or "")


@pytest.mark.parametrize("host", ["example.com", "metadata.example.com", "localhost", "169.254.169.254.example"])
def test_other_names_are_decided_by_their_addresses(host: str) -> None:
    assert CLOSED.refuse_host(host) is None


@given(st.ip_addresses())
def test_what_is_allowed_is_global_unless_an_option_says_otherwise(address: ipaddress.IPv4Address) -> None:
    if CLOSED.refuse_address(str(address)) is None:
        assert OPEN.refuse_address(str(address)) is None
        assert address.is_global or str(address).startswith(("::ffff:", "64:ff9b::"))
        assert not address.is_multicast
