"""What is stored about sign-ins is read back as it was written; other texts count as no sign-in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib.oauth.client_auth import ClientIdentity
from toolcrib.oauth.stored_sign_in import Grant, StoredSignIn, storage_key
from toolcrib.oauth.token_requests import TokenAnswer

SERVER = "https://tools.example.com/mcp"
ISSUER = "https://login.example.com"


def grant(**given: Any) -> Grant:
    values: dict[str, Any] = {
        "issuer": ISSUER,
        "client_id": "app",
        "access_token": "access",
        "resource": SERVER,
        "refresh_token": "refresh",
        "expires_at": 2000.5,
        "obtained_at": 1000.0,
        "scopes_requested": ("read", "write"),
        "scopes_granted": ("read",),
        "token_endpoint": f"{ISSUER}/token",
        "revocation_endpoint": f"{ISSUER}/revoke",
        "auth_method": "client_secret_post",
        "auth_algorithms": ("ES256",),
        "is_legacy": True,
    }
    return Grant(**{**values, **given})


def client(**given: Any) -> ClientIdentity:
    values: dict[str, Any] = {
        "client_id": "app",
        "client_secret": "secret",
        "auth_method": "client_secret_post",
        "issuer": ISSUER,
        "origin": "registered",
        "secret_expires_at": 3000.0,
        "redirect_uri": "http://127.0.0.1:4000/callback",
    }
    return ClientIdentity(**{**values, **given})


def read(text: str | None) -> StoredSignIn:
    return StoredSignIn.from_text(text, SERVER, "ann")


def changed(member: str, **values: Any) -> str:
    """Return a stored text in which fields of the first grant or client are replaced."""
    document = json.loads(StoredSignIn(SERVER, "ann", (grant(),), (client(),)).to_text())
    document[member][0].update(values)
    return json.dumps(document)


def test_a_stored_sign_in_is_read_back_as_it_was_written() -> None:
    stored = StoredSignIn(SERVER, "ann", (grant(), grant(client_id="other", expires_at=None)), (client(),))

    assert read(stored.to_text()) == stored


def test_a_private_key_is_neither_stored_nor_read() -> None:
    stored = StoredSignIn(SERVER, "ann", clients=(client(private_key="canary"),))

    assert "canary" not in stored.to_text()
    assert read(changed("clients", private_key="canary")).clients == (client(),)


def test_fields_of_a_later_release_are_ignored() -> None:
    assert read(changed("grants", unheard_of={"a": 1})).grants == (grant(),)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "garbage",
        "[]",
        "null",
        '"text"',
        '{"version": 2, "grants": [], "clients": []}',
        '{"version": 1}',
        '{"version": 1, "grants": "x", "clients": []}',
        '{"version": 1, "grants": {"a": 1}, "clients": []}',
        '{"version": 1, "grants": 5, "clients": []}',
        '{"version": 1, "grants": [null], "clients": []}',
        '{"version": 1, "grants": [{"issuer": "https://login.example.com"}], "clients": []}',
        "[" * 100_000,
    ],
)
def test_texts_that_cannot_be_read_count_as_no_sign_in(text: str | None) -> None:
    assert read(text) == StoredSignIn(SERVER, "ann")


@pytest.mark.parametrize(
    "member, name, value",
    [
        ("grants", "expires_at", "2000"),
        ("grants", "expires_at", True),
        ("grants", "expires_at", float("nan")),
        ("grants", "obtained_at", None),
        ("grants", "access_token", None),
        ("grants", "access_token", 5),
        ("grants", "refresh_token", ["refresh"]),
        ("grants", "scopes_requested", "read"),
        ("grants", "scopes_granted", [1]),
        ("grants", "is_legacy", "no"),
        ("clients", "client_id", {"a": 1}),
        ("clients", "origin", "elsewhere"),
        ("clients", "origin", ["registered"]),
        ("clients", "secret_expires_at", "never"),
    ],
)
def test_values_of_another_type_count_as_no_sign_in(member: str, name: str, value: object) -> None:
    assert read(changed(member, **{name: value})) == StoredSignIn(SERVER, "ann")


@pytest.mark.parametrize("other", [{"issuer": "https://other.example"}, {"client_id": "other"}, {"resource": None}])
def test_grants_are_kept_apart_by_issuer_client_and_resource(other: dict[str, Any]) -> None:
    first, second = grant(), grant(access_token="second", **other)
    stored = StoredSignIn(SERVER).with_grant(first).with_grant(second)
    replacement = grant(access_token="third")

    assert stored.grants == (second, first)
    assert stored.with_grant(replacement).grants == (replacement, second)
    assert stored.without_grant(second).grants == (first,)


def test_grants_of_a_former_issuer_are_kept_and_used_only_if_it_is_asked_for() -> None:
    former, present = grant(issuer="https://former.example"), grant()
    stored = StoredSignIn(SERVER, "ann").with_grant(former).with_grant(present)

    assert read(stored.to_text()) == stored
    assert stored.grants_of(None) == (present,)
    assert stored.without_grant(present).grants_of(None) == ()
    assert stored.grants_of("https://former.example") == (former,)
    assert stored.with_grant(former).grants_of(None) == (former,)


def test_a_new_sign_in_replaces_only_what_belongs_to_its_issuer() -> None:
    before = StoredSignIn(SERVER).with_grant(grant(issuer="https://former.example")).with_grant(grant(client_id="old"))
    newer = StoredSignIn(SERVER, clients=(client(),)).with_grant(grant(access_token="new"))

    after = before.updated(newer)
    assert [(each.issuer, each.client_id) for each in after.grants] == [
        (ISSUER, "app"),
        ("https://former.example", "app"),
    ]
    assert after.grants_of(None) == (grant(access_token="new"),) and after.clients == (client(),)


def test_a_configured_client_does_not_displace_the_registered_one_of_its_issuer() -> None:
    registered, configured = client(), client(client_id="configured", origin="configured")
    stored = StoredSignIn(SERVER).with_client(registered).with_client(configured)

    assert stored.client_for(ISSUER) == registered and configured in stored.clients


def test_tokens_of_programs_are_renewed_early_without_a_refresh_token() -> None:
    assert grant(refresh_token=None).renew_at is None
    assert grant(refresh_token=None, is_for_program=True).renew_at is not None


def test_a_client_is_kept_for_each_issuer() -> None:
    first, second = client(), client(issuer="https://other.example", client_id="other")
    stored = StoredSignIn(SERVER, grants=(grant(),)).with_client(first).with_client(second)

    assert stored.client_for(ISSUER) == first
    assert stored.client_for(ISSUER, "another") is None
    assert stored.client_for("https://other.example") == second
    assert stored.with_client(client(client_id="new")).client_for(ISSUER) == client(client_id="new")
    rest = stored.without_client(ISSUER)
    assert rest.client_for(ISSUER) is None and rest.grants == () and rest.clients == (second,)


@pytest.mark.parametrize("life, left", [(3600.0, 60.0), (600.0, 60.0), (300.0, 30.0), (10.0, 1.0)])
def test_renewal_begins_with_a_tenth_of_the_life_left_and_at_most_a_minute(life: float, left: float) -> None:
    token = grant(obtained_at=1000.0, expires_at=1000.0 + life)

    assert token.renew_at == pytest.approx(1000.0 + life - left)


@pytest.mark.parametrize("given", [{"expires_at": None}, {"refresh_token": None}])
def test_a_token_without_known_expiry_or_refresh_token_is_not_renewed_early(given: dict[str, Any]) -> None:
    assert grant(**given).renew_at is None


def test_a_token_is_valid_until_it_expires_and_for_a_moment_after_it_was_obtained() -> None:
    assert grant(expires_at=2000.0).is_valid(1999.9)
    assert not grant(expires_at=2000.0).is_valid(2000.0)
    assert grant(expires_at=None).is_valid(1e12)
    assert grant(expires_at=2000.0).mark_new().is_valid(1e12)


def test_what_a_refresh_omits_stays() -> None:
    renewed = grant().renewed(TokenAnswer("new"))

    assert (renewed.access_token, renewed.refresh_token, renewed.scopes_granted) == ("new", "refresh", ("read",))
    assert renewed.expires_at is None and renewed.is_new


def test_tokens_are_not_shown() -> None:
    shown = repr(StoredSignIn(SERVER, "ann", (grant(access_token="canary", refresh_token="canary"),), (client(),)))

    assert "canary" not in shown and "secret'" not in shown


def test_accounts_have_keys_of_their_own() -> None:
    assert len({storage_key(SERVER, ""), storage_key(SERVER, "ann"), storage_key(SERVER, "bob")}) == 3
