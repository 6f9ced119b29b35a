"""What is stored about sign-ins is read back as it was written; other texts count as no sign-in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcrib.oauth.client_auth import ClientIdentity
from toolcrib.oauth.stored_sign_in import StoredSignIn, TokenSet, storage_key
from toolcrib.oauth.token_requests import TokenResponse

SERVER = "https://tools.example.com/mcp"
ISSUER = "https://login.example.com"


def token_set(**given: Any) -> TokenSet:
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
    return TokenSet(**{**values, **given})


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
    """Return a stored text in which fields of the first token set or client are replaced."""
    document = json.loads(StoredSignIn(SERVER, "ann", (token_set(),), (client(),)).to_text())
    document[member][0].update(values)
    return json.dumps(document)


def test_a_stored_sign_in_is_read_back_as_it_was_written() -> None:
    stored = StoredSignIn(SERVER, "ann", (token_set(), token_set(client_id="other", expires_at=None)), (client(),))

    assert read(stored.to_text()) == stored


def test_a_private_key_is_neither_stored_nor_read() -> None:
    stored = StoredSignIn(SERVER, "ann", clients=(client(private_key="canary"),))

    assert "canary" not in stored.to_text()
    assert read(changed("clients", private_key="canary")).clients == (client(),)


def test_fields_of_a_later_release_are_ignored() -> None:
    assert read(changed("token_sets", unheard_of={"a": 1})).token_sets == (token_set(),)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "garbage",
        "[]",
        "null",
        '"text"',
        '{"version": 2, "token_sets": [], "clients": []}',
        '{"version": 1}',
        '{"version": 1, "token_sets": "x", "clients": []}',
        '{"version": 1, "token_sets": {"a": 1}, "clients": []}',
        '{"version": 1, "token_sets": 5, "clients": []}',
        '{"version": 1, "token_sets": [null], "clients": []}',
        '{"version": 1, "token_sets": [{"issuer": "https://login.example.com"}], "clients": []}',
        "[" * 100_000,
    ],
)
def test_texts_that_cannot_be_read_count_as_no_sign_in(text: str | None) -> None:
    assert read(text) == StoredSignIn(SERVER, "ann")


@pytest.mark.parametrize(
    "member, name, value",
    [
        ("token_sets", "expires_at", "2000"),
        ("token_sets", "expires_at", True),
        ("token_sets", "expires_at", float("nan")),
        ("token_sets", "obtained_at", None),
        ("token_sets", "access_token", None),
        ("token_sets", "access_token", 5),
        ("token_sets", "refresh_token", ["refresh"]),
        ("token_sets", "scopes_requested", "read"),
        ("token_sets", "scopes_granted", [1]),
        ("token_sets", "is_legacy", "no"),
        ("clients", "client_id", {"a": 1}),
        ("clients", "origin", "elsewhere"),
        ("clients", "origin", ["registered"]),
        ("clients", "secret_expires_at", "never"),
    ],
)
def test_values_of_another_type_count_as_no_sign_in(member: str, name: str, value: object) -> None:
    assert read(changed(member, **{name: value})) == StoredSignIn(SERVER, "ann")


@pytest.mark.parametrize("other", [{"issuer": "https://other.example"}, {"client_id": "other"}, {"resource": None}])
def test_token_sets_are_kept_apart_by_issuer_client_and_resource(other: dict[str, Any]) -> None:
    first, second = token_set(), token_set(access_token="second", **other)
    stored = StoredSignIn(SERVER).with_tokens(first).with_tokens(second)
    replacement = token_set(access_token="third")

    assert stored.token_sets == (second, first)
    assert stored.with_tokens(replacement).token_sets == (replacement, second)
    assert stored.without_tokens(second).token_sets == (first,)


def test_token_sets_of_a_former_issuer_are_kept_and_used_only_if_it_is_asked_for() -> None:
    former, present = token_set(issuer="https://former.example"), token_set()
    stored = StoredSignIn(SERVER, "ann").with_tokens(former).with_tokens(present)

    assert read(stored.to_text()) == stored
    assert stored.token_sets_of(None) == (present,)
    assert stored.without_tokens(present).token_sets_of(None) == ()
    assert stored.token_sets_of("https://former.example") == (former,)
    assert stored.with_tokens(former).token_sets_of(None) == (former,)


def test_a_new_sign_in_replaces_only_what_belongs_to_its_issuer() -> None:
    before = (
        StoredSignIn(SERVER)
        .with_tokens(token_set(issuer="https://former.example"))
        .with_tokens(token_set(client_id="old"))
    )
    newer = StoredSignIn(SERVER, clients=(client(),)).with_tokens(token_set(access_token="new"))

    after = before.merge(newer)
    assert [(each.issuer, each.client_id) for each in after.token_sets] == [
        (ISSUER, "app"),
        ("https://former.example", "app"),
    ]
    assert after.token_sets_of(None) == (token_set(access_token="new"),) and after.clients == (client(),)


def test_a_configured_client_does_not_displace_the_registered_one_of_its_issuer() -> None:
    registered, configured = client(), client(client_id="configured", origin="configured")
    stored = StoredSignIn(SERVER).with_client(registered).with_client(configured)

    assert stored.client_for(ISSUER) == registered and configured in stored.clients


def test_configured_clients_keep_their_bindings_side_by_side() -> None:
    first, second = (client(client_id=name, origin="configured") for name in ("first", "second"))
    stored = StoredSignIn(SERVER).with_client(first).with_client(second)

    assert set(stored.clients) == {first, second}
    renewed = client(client_id="first", origin="configured", client_secret="new")
    assert set(stored.with_client(renewed).clients) == {renewed, second}


def test_a_configured_client_stays_with_its_tokens_when_the_registered_one_is_removed() -> None:
    configured, tokens = client(client_id="configured", origin="configured"), token_set(client_id="configured")
    stored = StoredSignIn(SERVER).with_client(client()).with_client(configured).with_tokens(token_set())

    rest = stored.with_tokens(tokens).without_client(ISSUER)
    assert rest.clients == (configured,) and rest.token_sets == (tokens,)
    assert rest.without_client(ISSUER) == rest


def test_a_new_sign_in_keeps_the_tokens_of_other_clients_that_are_still_known() -> None:
    others = client(client_id="other", origin="configured"), client(client_id="unknown", origin="configured")
    before = StoredSignIn(SERVER, clients=others)
    for name in ("other", "unknown", "app"):
        before = before.with_tokens(token_set(client_id=name))
    newer = StoredSignIn(SERVER, clients=(client(), others[0])).with_tokens(token_set(access_token="new"))

    after = before.merge(newer)
    assert [(each.client_id, each.access_token) for each in after.token_sets] == [("app", "new"), ("other", "access")]


def test_tokens_of_programs_are_renewed_early_without_a_refresh_token() -> None:
    assert token_set(refresh_token=None).renew_at is None
    assert token_set(refresh_token=None, is_for_program=True).renew_at is not None


def test_a_client_is_kept_for_each_issuer() -> None:
    first, second = client(), client(issuer="https://other.example", client_id="other")
    stored = StoredSignIn(SERVER, token_sets=(token_set(),)).with_client(first).with_client(second)

    assert stored.client_for(ISSUER) == first
    assert stored.client_for(ISSUER, "another") is None
    assert stored.client_for("https://other.example") == second
    assert stored.with_client(client(client_id="new")).client_for(ISSUER) == client(client_id="new")
    rest = stored.without_client(ISSUER)
    assert rest.client_for(ISSUER) is None and rest.token_sets == () and rest.clients == (second,)


@pytest.mark.parametrize("life, left", [(3600.0, 60.0), (600.0, 60.0), (300.0, 30.0), (10.0, 1.0)])
def test_renewal_begins_with_a_tenth_of_the_life_left_and_at_most_a_minute(life: float, left: float) -> None:
    token = token_set(obtained_at=1000.0, expires_at=1000.0 + life)

    assert token.renew_at == pytest.approx(1000.0 + life - left)


@pytest.mark.parametrize("given", [{"expires_at": None}, {"refresh_token": None}])
def test_a_token_without_known_expiry_or_refresh_token_is_not_renewed_early(given: dict[str, Any]) -> None:
    assert token_set(**given).renew_at is None


def test_a_token_is_valid_until_it_expires_and_for_a_moment_after_it_was_obtained() -> None:
    assert token_set(expires_at=2000.0).is_valid(1999.9)
    assert not token_set(expires_at=2000.0).is_valid(2000.0)
    assert token_set(expires_at=None).is_valid(1e12)
    assert token_set(expires_at=2000.0).mark_new().is_valid(1e12)


def test_what_a_refresh_omits_stays() -> None:
    renewed = token_set().with_response(TokenResponse("new"))

    assert (renewed.access_token, renewed.refresh_token, renewed.scopes_granted) == ("new", "refresh", ("read",))
    assert renewed.expires_at is None and renewed.is_new


def test_tokens_are_not_shown() -> None:
    shown = repr(StoredSignIn(SERVER, "ann", (token_set(access_token="canary", refresh_token="canary"),), (client(),)))

    assert "canary" not in shown and "secret'" not in shown


def test_accounts_have_keys_of_their_own() -> None:
    assert len({storage_key(SERVER, ""), storage_key(SERVER, "ann"), storage_key(SERVER, "bob")}) == 3
