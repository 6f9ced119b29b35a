"""`Mcp-Param-*` as a server reads it: the text of a header, and whether it contradicts the body."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol.param_headers import Declaration, contradiction, header_value, plain_value

REGION = (Declaration("Mcp-Param-Region", ("where", "region")),)


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.from_regex(r"\A=\?base64\?.*\?=\Z"))
def test_a_server_reads_what_a_client_wrote(value: str) -> None:
    assert plain_value(header_value(value)) == value
    assert plain_value(f" \t{header_value(value)}\t ") == value


@pytest.mark.parametrize("header", ["", "us", "=?base64?=", "=?base64?", "?=", "=?BASE64?YQ==?=", "=?base64?YQ=="])
def test_what_is_not_between_the_markers_is_itself(header: str) -> None:
    assert plain_value(header) == header


@pytest.mark.parametrize("inner", ["Y", "YQ", "YQ=", "Y Q=", "YQ==YQ==", "é", "gA==", "7aCA", "YQ==\n", "_w=="])
def test_invalid_base64_of_utf_8_between_the_markers_is_ignored(inner: str) -> None:
    assert plain_value(f"=?base64?{inner}?=") is None


@pytest.mark.parametrize(
    "value, said",
    [
        *(("eu", "eu"), ("eu", " eu\t"), ("eu", "=?base64?ZXU=?="), ("é", "=?base64?w6k=?="), ("", "")),
        *((42, "42"), (42, "42.0"), (42, "4.2e1"), (42.0, "42"), (-7, "-7"), (0, "0"), (0, "-0")),
        *((True, "true"), (False, "false"), (2**53, "9007199254740992"), (2**64, "18446744073709551616")),
        *((None, None), ([1], None), ({"a": 1}, None)),
    ],
)
def test_a_header_that_says_the_same_is_not_a_contradiction(value: Any, said: str | None) -> None:
    headers = {} if said is None else {"mcp-param-region": said}
    assert contradiction(REGION, {"where": {"region": value}}, {**headers, "mcp-param-other": "x"}) is None


@pytest.mark.parametrize(
    "value, said, wrong",
    [
        *(("eu", "us", "differs from"), ("eu", "EU", "differs from"), ("eu", "=?base64?ZXU?=", "differs from")),
        *(("1", "one", "differs from"), (42, "43", "differs from"), (42, "inf", "differs from")),
        *((42, "nan", "differs from"), (42, "1e400", "differs from"), (42, "", "differs from"), (1, "true", "differs")),
        *((2**53 + 1, "9007199254740992", "differs from"), (True, "True", "differs from"), (True, "1", "differs from")),
        *(("eu", None, "only in"), ("", None, "only in"), (False, None, "only in"), (None, "eu", "not in")),
        *(([1], "1", "not in"), (None, "", "not in")),
    ],
)
def test_a_header_that_says_something_else_is_named(value: Any, said: str | None, wrong: str) -> None:
    headers = {} if said is None else {"mcp-param-region": said}
    found = contradiction(REGION, {"where": {"region": value}}, headers)
    assert found is not None
    assert found.startswith(f"Mcp-Param-Region: {wrong}")


def test_every_declared_header_is_compared() -> None:
    declared = (*REGION, Declaration("Mcp-Param-Tenant", ("tenant",)))
    arguments = {"where": {"region": "eu"}, "tenant": 5}
    right = {"mcp-param-region": "eu", "mcp-param-tenant": "5"}
    assert contradiction(declared, arguments, right) is None
    assert contradiction((), arguments, {}) is None
    for name in ("region", "tenant"):
        wrong = contradiction(declared, arguments, {**right, f"mcp-param-{name}": "x"})
        assert wrong == f"Mcp-Param-{name.capitalize()}: differs from the body"
