"""Secrets in commands and URLs: what is replaced, and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.provider.secret_hiding import hide_options, hide_url, hide_words
from toolcrib.provider.stored_config import restore_text

HOSTS = st.sampled_from(["h", "h:1", "[::1]:8000"])
PARTS = st.text(alphabet="abcXYZ019-_.=&@:/%$" + "{}", max_size=12)


@pytest.mark.parametrize(
    "url, written",
    [
        ("https://h/mcp", "https://h/mcp"),
        ("https://u:p@h:1/mcp", "https://${secret:url.user}@h:1/mcp"),
        ("https://h?a=1&b=&c", "https://h?a=${secret:url.query[0]}&${secret:url.query[1]}&${secret:url.query[2]}"),
        ("https://h/a/sk-0123456789abc/b", "https://h/a/${secret:url.path[1]}/b"),
        ("https://h/${secret:x}", "${secret:url}"),
    ],
)
def test_parts_of_a_url_are_replaced(url: str, written: str) -> None:
    secrets: dict[str, str] = {}
    assert hide_url(url, [], secrets) == written
    assert restore_text(written, secrets) == url


@given(user=PARTS, host=HOSTS, path=PARTS, query=PARTS)
def test_every_url_is_restored_as_it_was(user: str, host: str, path: str, query: str) -> None:
    url = f"https://{user}@{host}/{path}?{query}"
    secrets: dict[str, str] = {}
    assert restore_text(hide_url(url, [], secrets), secrets) == url


@given(
    st.lists(
        st.sampled_from(["--token", "--api-key=x", "a", "https://u:p@h", "TOKEN=", "TOKEN=x", "${secret:a}", "pin"])
    )
)
def test_every_command_is_restored_as_it_was(words: list[str]) -> None:
    command = ("server", *words)
    secrets: dict[str, str] = {}
    hidden = hide_words(command, ["pin"], secrets)
    assert tuple(restore_text(word, secrets) for word in hidden) == command
    assert not {"https://u:p@h", "TOKEN=x", "--api-key=x", "${secret:a}", "pin"} & {*hidden}


def test_only_a_proxy_with_credentials_is_replaced() -> None:
    secrets: dict[str, str] = {}
    assert hide_options({"proxy": "http://p:1", "verify": False}, secrets) == {"proxy": "http://p:1", "verify": False}
    assert secrets == {}
    assert hide_options({"proxy": "http://u:x@p:1"}, secrets) == {"proxy": "${secret:options.proxy}"}
    assert secrets == {"options.proxy": "http://u:x@p:1"}
