"""Authorisation requests with PKCE, and the checks of their answers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from dataclasses import replace
from typing import Any

import pytest

import toolcrib as tc
from tests.oauth.person import query_of
from toolcrib.oauth.authorization import (
    ATTEMPT_SECONDS,
    AuthorizationAttempt,
    first_scopes,
    read_redirect,
    with_offline_access,
)
from toolcrib.oauth.client_auth import ClientIdentity
from toolcrib.oauth.well_known import ServerMetadata

ISSUER = "https://login.example"
SERVER = ServerMetadata(ISSUER, authorization_endpoint=f"{ISSUER}/authorize", token_endpoint=f"{ISSUER}/token")
REDIRECT = "http://127.0.0.1:4000/callback"


def attempt(**given: Any) -> AuthorizationAttempt:
    values = {"metadata": SERVER, "client": ClientIdentity("c"), "redirect_uri": REDIRECT, "resource": None}
    return AuthorizationAttempt(**{**values, "scopes": (), **given})


# ---- the request -----------------------------------------------------------------------------------------------


def test_state_and_verifier_are_long_and_new_each_time() -> None:
    some, other = attempt(), attempt()

    assert len(base64.urlsafe_b64decode(f"{some.state}=")) == 32
    assert re.fullmatch(r"[A-Za-z0-9._~-]{43,128}", some.verifier)
    assert len({some.state, some.verifier, other.state, other.verifier}) == 4


def test_the_challenge_is_the_hash_of_the_verifier() -> None:
    some = attempt()
    query = query_of(some.url)

    digest = base64.urlsafe_b64decode(query["code_challenge"] + "=")
    assert digest == hashlib.sha256(some.verifier.encode()).digest()
    assert query["code_challenge_method"] == "S256"
    assert some.verifier not in some.url


def test_the_challenge_of_the_standard() -> None:
    some = attempt(verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")  # appendix B of RFC 7636

    assert query_of(some.url)["code_challenge"] == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_the_url_has_the_parameters_as_they_are() -> None:
    resource = "https://Tools.example:443/a%2Fb/?x=ü&y"
    query = query_of(attempt(resource=resource, scopes=("a", "api://x/b")).url)

    assert query["resource"] == resource
    assert query["scope"] == "a api://x/b"
    assert (query["response_type"], query["client_id"], query["redirect_uri"]) == ("code", "c", REDIRECT)
    assert "prompt" not in query


def test_what_is_not_asked_for_is_not_sent() -> None:
    assert not {"resource", "scope", "prompt"} & query_of(attempt().url).keys()


def test_the_query_of_the_endpoint_stays_and_its_fragment_goes() -> None:
    url = attempt(metadata=replace(SERVER, authorization_endpoint=f"{ISSUER}/authorize?tenant=1#top")).url

    assert url.startswith(f"{ISSUER}/authorize?tenant=1&response_type=code")
    assert "#" not in url


def test_the_shown_url_has_no_state_and_no_challenge() -> None:
    some = attempt(scopes=("a",))

    assert query_of(some.shown_url).keys() == {
        "response_type",
        "client_id",
        "redirect_uri",
        "code_challenge_method",
        "scope",
    }
    assert some.state not in some.shown_url
    assert query_of(some.url)["code_challenge"] not in some.shown_url


def test_secrets_are_not_in_the_repr() -> None:
    some = attempt()

    assert some.state not in repr(some)
    assert some.verifier not in repr(some)


# ---- the answer ------------------------------------------------------------------------------------------------


def test_the_code_is_read() -> None:
    some = attempt()

    assert some.read_code({"state": some.state, "code": "x"}) == "x"


@pytest.mark.parametrize("state", [None, "", "another", "ü"])
def test_an_answer_with_another_state_is_refused(state: str | None) -> None:
    answer = {"code": "CANARY", "error": "CANARY"} | ({} if state is None else {"state": state})
    with pytest.raises(tc.AuthError, match="another state") as caught:
        attempt().read_code(answer)

    assert "CANARY" not in str(caught.value)
    assert not isinstance(caught.value, tc.ConsentRefused)


@pytest.mark.parametrize("content", [{"code": "CANARY"}, {"error": "CANARY", "error_description": "CANARY"}])
@pytest.mark.parametrize(
    "advertised, iss, accepted",
    [
        (True, ISSUER, True),
        (True, "https://attacker.example", False),
        (True, f"{ISSUER}/", False),
        (True, "https://LOGIN.example", False),
        (True, "", False),
        (True, None, False),
        (False, ISSUER, True),
        (False, "https://attacker.example", False),
        (False, f"{ISSUER}:443", False),
        (False, "", False),
        (False, None, True),
    ],
)
def test_the_issuer_of_the_answer(content: dict[str, str], advertised: bool, iss: str | None, accepted: bool) -> None:
    some = attempt(metadata=replace(SERVER, sends_iss=advertised))
    answer = {"state": some.state, **content} | ({} if iss is None else {"iss": iss})
    if accepted and "code" in content:
        assert some.read_code(answer) == "CANARY"
    elif accepted:
        with pytest.raises(tc.ConsentRefused, match="CANARY"):
            some.read_code(answer)
    else:
        with pytest.raises(tc.AuthError, match="Nothing was sent to the token endpoint") as caught:
            some.read_code(answer)
        assert not isinstance(caught.value, tc.ConsentRefused)
        assert "CANARY" not in str(caught.value)
        assert "attacker" not in str(caught.value)


def test_the_issuer_is_compared_after_the_form_is_decoded() -> None:
    some = attempt(metadata=replace(SERVER, sends_iss=True))
    answer = read_redirect(f"{REDIRECT}?code=a%2Bb+c&state={some.state}&iss=https%3A%2F%2Flogin.example")

    assert some.read_code(answer) == "a+b c"


def test_an_error_tells_its_reason() -> None:
    some = attempt()
    with pytest.raises(tc.ConsentRefused) as caught:
        some.read_code({"state": some.state, "error": "access_denied", "error_description": "not\n\x1b[31mtoday"})

    assert caught.value.error == "access_denied"
    assert "access_denied" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_an_error_wins_over_a_code() -> None:
    some = attempt()
    with pytest.raises(tc.ConsentRefused):
        some.read_code({"state": some.state, "error": "access_denied", "code": "x"})


def test_an_error_that_repeats_the_secrets_does_not_show_them() -> None:
    some = attempt()
    answer = {"state": some.state, "error": f"e {some.state}", "error_description": f"d {some.state} {some.verifier}"}
    with pytest.raises(tc.ConsentRefused) as caught:
        some.read_code(answer)

    assert some.state not in str(caught.value)
    assert some.verifier not in str(caught.value)


@pytest.mark.parametrize(
    "error, description", [("invalid_target", ""), ("invalid_request", "AADSTS9010010: The resource does not match.")]
)
def test_a_refused_resource_leads_to_advice(error: str, description: str) -> None:
    some = attempt()
    with pytest.raises(tc.ConsentRefused, match=r"OAuth\(resource=\.\.\.\).*resource=None"):
        some.read_code({"state": some.state, "error": error, "error_description": description})


@pytest.mark.parametrize("code", [{}, {"code": ""}])
def test_an_answer_without_a_code_is_an_error(code: dict[str, str]) -> None:
    some = attempt()
    with pytest.raises(tc.AuthError, match="no code"):
        some.read_code({"state": some.state, **code})


def test_an_answer_that_comes_too_late_is_refused() -> None:
    some = attempt(started=time.monotonic() - ATTEMPT_SECONDS - 1)

    assert ATTEMPT_SECONDS == 600
    assert some.is_expired
    with pytest.raises(tc.AuthError, match="took too long"):
        some.read_code({"state": some.state, "code": "x"})


def test_an_attempt_is_for_one_issuer_and_one_set_of_scopes() -> None:
    some = attempt(scopes=("a",))

    assert some.is_for(SERVER, ("a",))
    assert not some.is_for(replace(SERVER, issuer="https://other.example"), ("a",))
    assert not some.is_for(SERVER, ("a", "b"))
    assert not attempt(scopes=("a",), started=time.monotonic() - ATTEMPT_SECONDS - 1).is_for(SERVER, ("a",))


def test_states_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(some: bytes, other: bytes) -> bool:
        compared.append((some, other))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    some = attempt()

    assert not some.matches({"state": "x"})
    assert compared == [(b"x", some.state.encode())]


@pytest.mark.parametrize(
    "text", [f"{REDIRECT}?code=x&state=y", "?code=x&state=y", "code=x&state=y", f"  {REDIRECT}?code=x&state=y#z\n"]
)
def test_a_redirect_is_read_from_a_url_or_its_query(text: str) -> None:
    assert read_redirect(text) == {"code": "x", "state": "y"}


# ---- scopes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "configured, challenged, supported, expected",
    [
        (["u"], ["c"], ["s"], ("u",)),
        ([], ["c"], ["s"], ()),
        (None, ["c", "d", "c"], ["s"], ("c", "d")),
        (None, [], ["s", "t"], ("s", "t")),
        (None, [], [], ()),
    ],
)
def test_the_scopes_of_the_first_authorisation(
    configured: list[str] | None, challenged: list[str], supported: list[str], expected: tuple[str, ...]
) -> None:
    assert first_scopes(configured, challenged, supported) == expected


@pytest.mark.parametrize(
    "scopes, listed, expected",
    [
        (("a",), ("a", "offline_access"), ("a", "offline_access")),
        (("a",), ("a",), ("a",)),
        (("a",), (), ("a",)),
        ((), ("offline_access",), ()),
        (("offline_access", "a"), ("offline_access",), ("offline_access", "a")),
    ],
)
def test_offline_access_is_added_if_the_server_lists_it(
    scopes: tuple[str, ...], listed: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert with_offline_access(scopes, replace(SERVER, scopes_supported=listed)) == expected


def test_offline_access_needs_the_consent_of_the_person() -> None:
    assert query_of(attempt(scopes=("a", "offline_access")).url)["prompt"] == "consent"
