"""Secrets that server configs never show."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.config.canary import CANARY, URL, rotating_token
from toolcrib.config import HttpServer, MaskedMapping, ServerConfig, SseServer, StdioServer, mask_urls


def test_header_and_variable_values_are_masked_everywhere() -> None:
    servers: list[ServerConfig] = [
        StdioServer("npx", ["-y", "server"], env={"API_KEY": CANARY}),
        HttpServer(URL, headers={"Authorization": f"Bearer {CANARY}"}),
        SseServer(URL, headers={"Authorization": f"Bearer {CANARY}", "X-Token": rotating_token}),
        HttpServer(f"https://user:{CANARY}@h/mcp?key={CANARY}&{CANARY}", proxy=f"http://{CANARY}@p:1"),
        StdioServer("proxy", [f"--to=https://u:{CANARY}@h/?k={CANARY}", f"postgres://u:{CANARY}@h/db"]),
    ]
    for server in servers:
        for text in (repr(server), str(server), f"{server}", server.server_identifier, repr([server])):
            assert CANARY not in text
    assert "API_KEY=<masked>" in repr(servers[0])
    assert "Authorization=<masked>" in repr(servers[1])
    assert "https://<masked>@h/mcp?key=<masked>&<masked>" in repr(servers[3])


def test_a_masked_mapping_shows_names_only_but_gives_values() -> None:
    headers = HttpServer(URL, headers={"Authorization": CANARY}).headers
    assert isinstance(headers, MaskedMapping)
    assert repr(headers) == "[Authorization=<masked>]"
    assert dict(headers) == {"Authorization": CANARY}


def test_the_repr_shows_exactly_the_given_values() -> None:
    server = StdioServer("python", ["s.py"], retry_safe=["b", "a"], connect_timeout=None)
    assert repr(server) == ("StdioServer(command='python', args=['s.py'], connect_timeout=None, retry_safe=['a', 'b'])")


def test_a_filter_is_shown_by_name_because_a_partial_shows_its_arguments() -> None:
    by_token = functools.partial(lambda token, tool: True, CANARY)
    assert CANARY not in repr(StdioServer("x", tool_filter=by_token))
    assert "rotating_token" in repr(StdioServer("x", tool_filter=rotating_token))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text,masked",
    [
        ("https://h/p", "https://h/p"),
        ("https://h/@scope/pkg", "https://h/@scope/pkg"),
        ("https://u:p@h:1/p", "https://<masked>@h:1/p"),
        ("https://u@p@h", "https://<masked>@h"),
        ("https://h?a=1&b=2&&c", "https://h?a=<masked>&b=<masked>&&<masked>"),
        ("https://h?a=1;b=2", "https://h?a=<masked>"),
        ("https://h?dG9rZW4=", "https://h?<masked>"),
        ("https://h?a=b?c=d", "https://h?a=<masked>"),
        ("https://h#f", "https://h#<masked>"),
        ("see ws://u:p@h/x and x@y.z", "see ws://<masked>@h/x and x@y.z"),
    ],
)
def test_urls_in_texts_lose_user_query_values_and_fragment(text: str, masked: str) -> None:
    assert mask_urls(text) == masked


url_parts = st.text(
    st.characters(codec="ascii", exclude_characters="/?#&= \t\n\r\x0b\x0c\x1c\x1d\x1e\x1f"), max_size=10
)


@given(url_parts, url_parts, st.sampled_from(["https://", "x+y://", "a" * 40 + "://"]))
def test_a_canary_as_user_password_value_or_fragment_is_never_seen(before: str, after: str, scheme: str) -> None:
    secret = f"{before}{CANARY}{after}"
    for url in (
        f"{secret}:x@h/p",
        f"x:{secret}@h/p",
        f"h/p?k={secret}",
        f"h?{secret}",
        f"h?a=b&c={secret}",
        f"h#{secret}",
    ):
        masked = mask_urls(f"at {scheme}{url} it failed")
        assert CANARY not in masked
        assert mask_urls(masked) == masked


def test_masking_a_long_text_without_a_url_takes_linear_time() -> None:
    assert mask_urls("a" * 1_000_000) == "a" * 1_000_000


def test_an_identifier_never_steers_a_terminal() -> None:
    assert StdioServer("python", ["-c", "a\nb\x1b[31m"]).server_identifier == "stdio:python:-c:a\\nb\\x1b[31m"
