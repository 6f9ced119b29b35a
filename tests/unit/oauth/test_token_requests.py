"""Token requests and their answers, also those that are odd."""

from __future__ import annotations

import base64
import json
import time
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode

import pytest

import toolcrib as tc
from toolcrib.config import SecretMask
from toolcrib.oauth.client_auth import ClientIdentity
from toolcrib.oauth.http import Headers, HttpParts
from toolcrib.oauth.token_requests import (
    MAX_LIFE_SECONDS,
    TokenRequestRejected,
    TokenResponse,
    parse_token_response,
    request_tokens,
    revoke,
)
from toolcrib.oauth.well_known import ServerMetadata

URL = "https://login.example/token"
SERVER = ServerMetadata("https://login.example", token_endpoint=URL, revocation_endpoint="https://login.example/revoke")
JSON, FORM = "application/json", "application/x-www-form-urlencoded"


def read(content: Any, status: int = 200, kind: str | None = JSON) -> TokenResponse:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return parse_token_response((status, [("Content-Type", kind)] if kind else [], body), URL, SecretMask([]))


class Endpoint:
    """A `Fetch` that records the requests, and answers with what `answer` makes of the form."""

    def __init__(self, answer: Any = None, status: int = 200) -> None:
        self.sent: list[tuple[str, str, dict[str, str], dict[str, str]]] = []
        self._answer = answer or {"access_token": "t"}
        self._status = status

    async def __call__(self, method: str, url: str, headers: Headers, body: bytes) -> HttpParts:
        self.sent.append((method, url, dict(headers), dict(parse_qsl(body.decode(), keep_blank_values=True))))
        content = self._answer(headers, body) if callable(self._answer) else self._answer
        return self._status, [("Content-Type", JSON)], json.dumps(content).encode()


# ---- answers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3600, "3600", 3600.0, " 3600 ", "3600.0"])
def test_the_life_may_be_a_number_or_a_text(value: Any) -> None:
    before = time.time()
    expires_at = read({"access_token": "t", "expires_in": value}).expires_at

    assert expires_at is not None
    assert before + 3600 <= expires_at <= time.time() + 3600


@pytest.mark.parametrize("value", [None, "", "soon", "nan", [], {}, 0, -1, "-5", float("nan"), True])
def test_a_life_that_is_no_number_is_unknown(value: Any) -> None:
    assert read({"access_token": "t", "expires_in": value}).expires_at is None


@pytest.mark.parametrize("value", [10**30, 10**400, "1e999", "inf", float("inf"), "9" * 400])
def test_huge_lives_are_limited_or_unknown(value: Any) -> None:
    expires_at = read({"access_token": "t", "expires_in": value}).expires_at

    assert expires_at is None or expires_at <= time.time() + MAX_LIFE_SECONDS


def test_a_number_that_python_cannot_read_is_an_answer_without_a_token() -> None:
    with pytest.raises(TokenRequestRejected, match="expected an access token"):
        read(b'{"access_token": "t", "expires_in": ' + b"9" * 10_000 + b"}")


@pytest.mark.parametrize("kind", ["bearer", "Bearer", "BEARER", None])
def test_the_type_of_the_token_in_any_case(kind: str | None) -> None:
    assert read({"access_token": "t", "token_type": kind}).token_type == "bearer"


@pytest.mark.parametrize("status", [200, 201, 203])
def test_any_status_of_success_is_accepted(status: int) -> None:
    assert read({"access_token": "t"}, status).access_token == "t"


@pytest.mark.parametrize("kind", [FORM, f"{FORM}; charset=utf-8", FORM.upper(), "text/plain", "text/plain;charset=x"])
def test_answers_may_be_forms(kind: str) -> None:
    body = urlencode({"access_token": "gho_x", "scope": "repo gist", "token_type": "bearer", "expires_in": "60"})
    answer = read(body.encode(), 200, kind)

    assert (answer.access_token, answer.scopes, answer.token_type) == ("gho_x", ("repo", "gist"), "bearer")
    assert answer.expires_at is not None


@pytest.mark.parametrize("kind", [JSON, "application/json; charset=utf-8", "text/plain", "text/html", None])
def test_json_is_read_whatever_it_is_called(kind: str | None) -> None:
    assert read({"access_token": "t"}, 200, kind).access_token == "t"


@pytest.mark.parametrize("status", [200, 400, 401])
def test_an_error_is_one_with_any_status(status: int) -> None:
    with pytest.raises(TokenRequestRejected, match="invalid_grant: too old") as caught:
        read({"error": "invalid_grant", "error_description": "too old", "access_token": "t"}, status)

    assert (caught.value.error, caught.value.status) == ("invalid_grant", status)


def test_an_error_may_be_a_form() -> None:
    with pytest.raises(TokenRequestRejected, match="bad_verification_code: The code passed is incorrect"):
        read(b"error=bad_verification_code&error_description=The+code+passed+is+incorrect", 200, FORM)


@pytest.mark.parametrize("content", [b"", b"down", {"error": "server_error"}, {"error": "invalid_grant"}])
@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_server_that_fails_says_nothing_about_the_tokens(content: Any, status: int) -> None:
    with pytest.raises(tc.ConnectError):
        read(content, status)


@pytest.mark.parametrize("error", ["temporarily_unavailable", "server_error", "slow_down"])
@pytest.mark.parametrize("status", [200, 400])
def test_errors_that_pass_are_not_refusals(error: str, status: int) -> None:
    with pytest.raises(tc.ConnectError):
        read({"error": error}, status)


@pytest.mark.parametrize(
    "content", [b"", b"<html>", [], {}, {"access_token": ""}, {"access_token": None}, {"access_token": 7}]
)
def test_an_answer_without_a_token_is_an_error(content: Any) -> None:
    with pytest.raises(TokenRequestRejected, match="expected an access token, got HTTP 200") as caught:
        read(content)

    assert caught.value.error == "invalid_response"


def test_a_401_without_an_error_may_be_an_unknown_client() -> None:
    with pytest.raises(TokenRequestRejected) as caught:
        read(b"", 401)

    assert caught.value.error == "invalid_response"
    assert caught.value.rejects_client


@pytest.mark.parametrize("token", ["a b", "a\r\nX-Injected: 1", "a\x00", "ü", "\u2028"])
def test_a_token_that_does_not_fit_into_a_header_is_an_error(token: str) -> None:
    with pytest.raises(TokenRequestRejected) as caught:
        read({"access_token": token})

    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "scope, expected", [("a b  a", ("a", "b")), ("", None), (" ", None), (None, None), (["a"], None)]
)
def test_the_scopes_of_an_answer(scope: Any, expected: tuple[str, ...] | None) -> None:
    assert read({"access_token": "t", "scope": scope}).scopes == expected


def test_members_of_other_types_count_as_absent() -> None:
    answer = read({"access_token": "t", "refresh_token": 7, "token_type": [], "issued_token_type": ""})

    assert (answer.refresh_token, answer.token_type, answer.issued_token_type) == (None, "bearer", None)


def test_tokens_are_not_in_the_repr() -> None:
    assert "CANARY" not in repr(read({"access_token": "CANARY-1", "refresh_token": "CANARY-2"}))


# ---- requests --------------------------------------------------------------------------------------------------


async def test_a_request_is_a_form_without_what_is_not_given() -> None:
    endpoint = Endpoint()
    form = {"grant_type": "refresh_token", "refresh_token": "a+b/c=", "resource": None}
    await request_tokens(endpoint, SERVER, ClientIdentity("c"), form)

    ((method, url, headers, sent),) = endpoint.sent
    assert (method, url) == ("POST", URL)
    assert sent == {"grant_type": "refresh_token", "refresh_token": "a+b/c=", "client_id": "c"}
    assert headers == {"Content-Type": FORM, "Accept": "application/json"}


async def test_a_server_without_a_token_endpoint_is_an_error() -> None:
    endpoint = Endpoint()
    with pytest.raises(tc.AuthError, match="token_endpoint"):
        await request_tokens(endpoint, ServerMetadata("https://login.example"), ClientIdentity("c"), {})

    assert not endpoint.sent


SECRETS = {
    "code": "CODE+CANARY/1=",
    "code_verifier": "VERIFIER-CANARY",
    "refresh_token": "REFRESH+CANARY/2=",
    "assertion": "ASSERTION.CANARY.3",
    "subject_token": "SUBJECT.CANARY.4",
}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
@pytest.mark.parametrize("place", ["error", "error_description"])
async def test_secrets_that_the_server_repeats_are_not_shown(method: str, place: str) -> None:
    def repeat(headers: Headers, body: bytes) -> dict[str, str]:
        sent = [text for pair in parse_qsl(body.decode()) for text in pair]
        words = " ".join(["bad request:", *sent, "SECRET+CANARY/5="])
        return {"error": "invalid_request", place: words}

    endpoint = Endpoint(repeat, 400)
    client = ClientIdentity("client", "SECRET+CANARY/5=", method)
    with pytest.raises(TokenRequestRejected) as caught:
        await request_tokens(endpoint, SERVER, client, {"grant_type": "x", **SECRETS})

    assert "bad request" in str(caught.value)
    assert "CANARY" not in f"{caught.value} {caught.value!r} {caught.value.error} {caught.value.__cause__!r}"


async def test_encoded_secrets_that_the_server_repeats_are_not_shown() -> None:
    def repeat(headers: Headers, body: bytes) -> dict[str, str]:
        authorization = next(value for name, value in headers if name == "Authorization")
        return {"error": "invalid_request", "error_description": f"bad request: {body.decode()} {authorization}"}

    client = ClientIdentity("client", "SECRET+CANARY/5=", "client_secret_basic")
    with pytest.raises(TokenRequestRejected) as caught:
        await request_tokens(Endpoint(repeat, 400), SERVER, client, {"grant_type": "x", **SECRETS})

    encoded = base64.b64encode(f"client:{quote_plus('SECRET+CANARY/5=')}".encode()).decode()
    assert "bad request" in str(caught.value)
    assert "CANARY" not in str(caught.value)
    assert encoded not in str(caught.value)


@pytest.mark.parametrize("error, description", [("invalid_target", ""), ("invalid_request", "AADSTS9010010: no.")])
async def test_a_refused_resource_leads_to_advice(error: str, description: str) -> None:
    endpoint = Endpoint({"error": error, "error_description": description}, 400)
    with pytest.raises(TokenRequestRejected, match=r"OAuth\(resource=\.\.\.\).*resource=None"):
        await request_tokens(endpoint, SERVER, ClientIdentity("c"), {})


@pytest.mark.parametrize("status, expected", [(200, True), (400, False), (503, False)])
async def test_a_token_is_revoked(status: int, expected: bool) -> None:
    endpoint = Endpoint({"x": 1}, status)

    assert await revoke(endpoint, SERVER, ClientIdentity("c"), "t", "refresh_token") is expected
    ((method, url, _, sent),) = endpoint.sent
    assert (method, url) == ("POST", SERVER.revocation_endpoint)
    assert sent == {"token": "t", "token_type_hint": "refresh_token", "client_id": "c"}


async def test_nothing_is_sent_if_the_server_offers_no_revocation() -> None:
    endpoint = Endpoint()

    assert not await revoke(endpoint, ServerMetadata("https://login.example"), ClientIdentity("c"), "t", "x")
    assert not endpoint.sent
