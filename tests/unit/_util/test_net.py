"""Which hosts are local: this decides whether a server may listen without credentials."""

from __future__ import annotations

import pytest

from toolcrib._util.net import is_loopback


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LocalHost",
        "localhost.",
        "a.localhost",
        "a.b.LOCALHOST.",
        "127.0.0.1",
        "127.1.2.3",
        "127.255.255.254",
        "::1",
        "0:0:0:0:0:0:0:1",
        "[::1]",
        "::1%lo",
        "::ffff:127.0.0.1",
        "[::ffff:127.0.0.1]",
        "::FFFF:7f00:1",
    ],
)
def test_loopback_addresses_and_reserved_names_are_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        "",  # all interfaces
        "0.0.0.0",
        "::",
        "[::]",
        "128.0.0.1",
        "10.0.0.1",
        "::2",
        "fe80::1%lo",
        "::ffff:10.0.0.1",
        "::127.0.0.1",  # not a mapped address
        "localhost..",
        ".localhost",
        ".",
        "localhost.example.com",
        "notlocalhost",
        "localhost4",
        "example.com",
        "127.0.0.1.example.com",
        "127.1",  # some resolvers read these four as 127.0.0.1, others do not
        "0177.0.0.1",
        "2130706433",
        "127.0.0.1.",
        "[127.0.0.1",
        "::1]",
        "localhost:80",
        "127.0.0.1:80",
        " localhost",
        "localhost\n",
        "\uff4cocalhost",  # some normalise it to localhost
    ],
)
def test_all_other_hosts_are_remote(host: str) -> None:
    assert not is_loopback(host)
