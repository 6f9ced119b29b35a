"""Challenges in `WWW-Authenticate` headers."""

from __future__ import annotations

import time

import pytest

from toolcrib.oauth.challenge import MAX_HEADER_CHARACTERS, Challenge, parse_challenges

METADATA = "https://tools.example/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    "values, expected",
    [
        pytest.param([], None, id="no header"),
        pytest.param(["Basic realm=x"], None, id="another scheme"),
        pytest.param(["Bearer"], Challenge(), id="only the scheme"),
        pytest.param([f'bearer resource_metadata="{METADATA}"'], Challenge(METADATA), id="scheme in lower case"),
        pytest.param([f"Bearer resource_metadata={METADATA}"], Challenge(METADATA), id="value without quotes"),
        pytest.param(
            [f'Bearer RESOURCE_METADATA = "{METADATA}" ,scope="a b"'], Challenge(METADATA, ("a", "b")), id="blanks"
        ),
        pytest.param(
            ['Bearer error="insufficient_scope", error_description="needs a, b", scope="a"'],
            Challenge(None, ("a",), "insufficient_scope", "needs a, b"),
            id="comma in quotes",
        ),
        pytest.param(
            [r'Bearer error_description="the \"best\" \\ one"'],
            Challenge(error_description='the "best" \\ one'),
            id="escaped quotes",
        ),
        pytest.param(
            [f'Basic realm="x", scope="basic", Bearer scope="a", resource_metadata="{METADATA}", DPoP algs="ES256"'],
            Challenge(METADATA, ("a",)),
            id="several challenges in one header",
        ),
        pytest.param(['Negotiate dG9rZW4=, Bearer scope="a"'], Challenge(scope=("a",)), id="token68 of another scheme"),
        pytest.param(['DPoP scope="x", error="y"', 'Bearer scope="a"'], Challenge(scope=("a",)), id="several headers"),
        pytest.param(['Bearer scope="a a  b"'], Challenge(scope=("a", "b")), id="repeated scope"),
        pytest.param(['Bearer scope="a", scope="b"'], Challenge(scope=("a",)), id="repeated parameter"),
        pytest.param(['Bearer scope="", error="", resource_metadata=""'], Challenge(), id="empty values"),
        pytest.param(
            ['Basic realm="say Bearer scope=x", Bearer scope="a"'], Challenge(scope=("a",)), id="scheme inside quotes"
        ),
        pytest.param(['Bearer scope="a", Bearer scope="b"'], Challenge(scope=("a",)), id="the first Bearer counts"),
        pytest.param([',, Bearer ,scope="a",,'], Challenge(scope=("a",)), id="empty list members"),
        pytest.param(["\x00\xff=,;"], None, id="garbage"),
    ],
)
def test_only_the_bearer_challenge_is_read(values: list[str], expected: Challenge | None) -> None:
    assert parse_challenges(values) == expected


@pytest.mark.parametrize(
    "value",
    ["a" * MAX_HEADER_CHARACTERS + "/", "a/" * MAX_HEADER_CHARACTERS, 'a="\\', 'x="' + "\\" * 9_999, "Bearer " * 9],
)
def test_long_headers_without_a_challenge_are_read_in_linear_time(value: str) -> None:
    started = time.process_time()
    parse_challenges([value] * 20)
    assert time.process_time() - started < 2
