"""Opaque tokens: introspection, what is remembered, and outages."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest

import toolcrib as tc
from tests.oauth.issuer import CLIENT_ID, CLIENT_SECRET, RESOURCE, Issuer
from tests.unit.oauth.conftest import TwoClocks
from toolcrib.oauth import introspection
from toolcrib.oauth.introspection import TokenIntrospector
from toolcrib.oauth.token_verifier import TokenVerifier

SETTINGS = tc.Introspection(CLIENT_ID, CLIENT_SECRET)


@pytest.fixture
def issuer() -> Issuer:
    made = Issuer()
    made.opaque["opaque"] = {"sub": "ada", "aud": [RESOURCE], "client_id": "editor", "scope": "a b"}
    return made


def verifier_for(issuer: Issuer, settings: tc.Introspection = SETTINGS, **options: Any) -> TokenVerifier:
    return TokenVerifier(issuer.url, RESOURCE, introspection=settings, fetch=issuer.fetch, **options)


async def verified(verifier: TokenVerifier, token: str) -> tc.TokenPrincipal:
    found = verifier({"authorization": f"Bearer {token}"})
    return await found if inspect.isawaitable(found) else found


async def test_an_opaque_token_is_introspected_once(issuer: Issuer) -> None:
    verifier = verifier_for(issuer, scopes=["a"])
    found = await asyncio.gather(*(verified(verifier, "opaque") for _ in range(50)))
    assert {(each.issuer, each.subject, each.client_id) for each in found} == {(issuer.url, "ada", "editor")}
    assert found[0].expires_at is None
    assert await verified(verifier, "opaque") == found[0]
    assert issuer.requests["/introspect"] == 1


async def test_signed_tokens_are_not_introspected(issuer: Issuer) -> None:
    verifier = verifier_for(issuer)
    assert await verified(verifier, issuer.token()) == await verified(verifier, "opaque")
    assert issuer.requests["/introspect"] == 1


async def test_an_active_token_is_asked_about_again_after_a_minute(issuer: Issuer, clocks: TwoClocks) -> None:
    verifier = verifier_for(issuer)
    await verified(verifier, "opaque")
    del issuer.opaque["opaque"]
    clocks.advance(59)
    assert await verified(verifier, "opaque")
    assert issuer.requests["/introspect"] == 1
    clocks.advance(2)
    with pytest.raises(tc.AuthError):
        await verified(verifier, "opaque")


async def test_an_active_token_is_asked_about_again_even_if_the_clock_is_set_back(
    issuer: Issuer, clocks: TwoClocks
) -> None:
    verifier = verifier_for(issuer)
    await verified(verifier, "opaque")
    del issuer.opaque["opaque"]
    clocks.wall -= 3600
    clocks.advance(61)
    with pytest.raises(tc.AuthError):
        await verified(verifier, "opaque")


@pytest.mark.parametrize("token", ["opaque", "revoked"])
async def test_spaces_and_case_of_the_scheme_cause_no_further_introspection(issuer: Issuer, token: str) -> None:
    verifier = verifier_for(issuer)
    for scheme in ("Bearer ", "Bearer  ", "bearer ", "BEARER   "):
        found = verifier({"authorization": scheme + token})
        await asyncio.gather(found if inspect.isawaitable(found) else asyncio.sleep(0), return_exceptions=True)
    assert issuer.requests["/introspect"] == 1
    assert len(verifier._verified) == (token == "opaque")


async def test_an_inactive_token_is_remembered_for_ten_seconds(issuer: Issuer) -> None:
    now = 100.0
    asked = TokenIntrospector(SETTINGS, issuer.url, fetch=issuer.fetch, clock=lambda: now)
    for _ in range(5):
        assert await asked.inspect("revoked", b"digest") is None
    now += 9
    assert await asked.inspect("revoked", b"digest") is None
    assert issuer.requests["/introspect"] == 1
    now += 2
    issuer.opaque["revoked"] = {"sub": "ada"}
    assert await asked.inspect("revoked", b"digest") == {"active": True, "sub": "ada"}


async def test_only_so_many_inactive_tokens_are_remembered(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection, "MAX_INACTIVE", 3)
    asked = TokenIntrospector(SETTINGS, issuer.url, fetch=issuer.fetch)
    for number in range(9):
        assert await asked.inspect(f"token {number}", b"%d" % number) is None
    assert len(asked._inactive) == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"active": "true"},
        {"iss": "https://evil.example"},
        {"aud": "https://other.example.com"},
        {"aud": None},
        {"exp": 1},
        {"sub": None, "client_id": None},
        {"cnf": {"jkt": "x"}},
        {"token_type": "refresh_token"},
        {"token_use": "refresh_token"},
    ],
    ids=str,
)
async def test_responses_that_are_not_accepted(issuer: Issuer, changes: dict[str, Any]) -> None:
    issuer.opaque["opaque"].update(changes)
    with pytest.raises(tc.AuthError) as caught:
        await verified(verifier_for(issuer), "opaque")
    assert 'error="invalid_token"' in str(caught.value.challenge)


@pytest.mark.parametrize("fault", ["down", "unreachable", "wrong secret", "no endpoint"])
async def test_an_outage_is_not_a_wrong_token(issuer: Issuer, fault: str) -> None:
    settings = SETTINGS
    if fault == "wrong secret":
        settings = tc.Introspection(CLIENT_ID, "canary-secret")
    elif fault == "no endpoint":
        issuer.metadata = {"introspection_endpoint": None}
    else:
        setattr(issuer, fault, True)
    with pytest.raises(tc.ConnectError) as caught:
        await verified(verifier_for(issuer, settings), "canary-token")
    assert "canary" not in f"{caught.value!r} {settings!r}"


async def test_members_that_are_null_count_as_left_out(issuer: Issuer) -> None:
    issuer.opaque["opaque"] |= {"exp": None, "nbf": None, "iat": None, "iss": None, "token_type": "Bearer"}
    assert (await verified(verifier_for(issuer), "opaque")).expires_at is None


async def test_the_endpoint_can_be_given(issuer: Issuer) -> None:
    settings = tc.Introspection(CLIENT_ID, CLIENT_SECRET, endpoint=f"{issuer.url}/introspect", issuer=issuer.url)
    assert await verified(verifier_for(issuer, settings), "opaque")
    assert set(issuer.requests) == {"/introspect"}


async def test_a_flood_of_tokens_is_limited(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection, "MAX_RUNNING", 2)
    verifier = verifier_for(issuer)
    found = await asyncio.gather(*(verified(verifier, f"token{each}") for each in range(5)), return_exceptions=True)
    assert [type(each) for each in found] == [tc.AuthError] * 2 + [tc.ConnectError] * 3


async def test_an_issuer_that_never_answers_is_given_up(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(introspection, "TIMEOUT", 0.01)

    async def fetch(*_: Any) -> Any:
        await asyncio.Event().wait()

    with pytest.raises(tc.ConnectError, match="no complete answer"):
        await TokenIntrospector(SETTINGS, issuer.url, fetch=fetch).inspect("token", b"digest")
