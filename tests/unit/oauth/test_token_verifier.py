"""Access tokens: which are accepted, which are rejected, and with which challenge."""

from __future__ import annotations

import asyncio
import base64
import builtins
import hmac
import inspect
import json
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from joserfc.jwk import ECKey

import toolcrib as tc
from tests.oauth.issuer import EC, ED, OTHER, RESOURCE, RSA, Issuer, sign
from tests.unit.oauth.conftest import TwoClocks
from toolcrib.oauth import jwks, token_verifier
from toolcrib.oauth.token_verifier import TokenVerifier

METADATA_URL = "https://tools.example.com/.well-known/oauth-protected-resource/mcp"


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


def verifier_for(issuer: Issuer, **options: Any) -> TokenVerifier:
    return TokenVerifier(issuer.url, options.pop("resource", RESOURCE), fetch=issuer.fetch, **options)


async def verified(verifier: TokenVerifier, token: str) -> tc.TokenPrincipal:
    found = verifier({"authorization": f"Bearer {token}"})
    return await found if inspect.isawaitable(found) else found


async def rejected(verifier: TokenVerifier, token: str) -> tc.AuthError:
    with pytest.raises(tc.AuthError) as caught:
        await verified(verifier, token)
    return caught.value


LARGE_EC = [ECKey.generate_key("P-384", {"kid": "384"}), ECKey.generate_key("P-521", {"kid": "512"})]


# ---- accepted ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key, algorithm",
    [
        *((RSA, f"{kind}{bits}") for kind in ("RS", "PS") for bits in (256, 384, 512)),
        (EC, "ES256"),
        *((key, f"ES{key.kid}") for key in LARGE_EC),
        (ED, "EdDSA"),
        (ED, "Ed25519"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_a_signed_token_names_its_owner(issuer: Issuer, key: Any, algorithm: str) -> None:
    issuer.keys += LARGE_EC
    claims = issuer.claims()
    principal = await verified(verifier_for(issuer), sign(claims, key, algorithm))
    assert (principal.issuer, principal.subject, principal.client_id) == (issuer.url, "ada", "editor")
    assert principal.scopes == {"tools:read", "tools:call"}
    assert principal.expires_at == claims["exp"]
    assert principal.claims == claims


@pytest.mark.parametrize(
    "make_changes",
    [
        lambda: {"aud": ["https://other.example.com", RESOURCE]},
        lambda: {"aud": "0ff1ce00-guid"},
        lambda: {"exp": int(time.time()) - 30},
        lambda: {"nbf": time.time() + 30},
        lambda: {"iat": None, "nbf": None},
        lambda: {"nonce": "x"},
    ],
    ids=[
        "several audiences",
        "an extra audience",
        "just expired",
        "valid in a moment",
        "without times of issue",
        "a nonce, with scopes",
    ],
)
async def test_claims_that_are_accepted(issuer: Issuer, make_changes: Callable[[], dict[str, Any]]) -> None:
    assert await verified(verifier_for(issuer, audiences=["0ff1ce00-guid"]), issuer.token(**make_changes()))


@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", None])
async def test_types_that_are_accepted(issuer: Issuer, kind: str | None) -> None:
    token = sign(issuer.claims(), typ=kind)
    assert await verified(verifier_for(issuer), token)
    strict = verifier_for(issuer, strict_type=True)
    if kind in ("JWT", None):
        await rejected(strict, token)
    else:
        assert await verified(strict, token)


@pytest.mark.parametrize("resource", ["https://tools.example.com", "https://tools.example.com/"])
@pytest.mark.parametrize("audience", ["https://tools.example.com", "https://tools.example.com/"])
async def test_an_origin_is_one_resource_with_and_without_its_slash(
    issuer: Issuer, resource: str, audience: str
) -> None:
    verifier = verifier_for(issuer, resource=resource)
    assert await verified(verifier, issuer.token(aud=audience))
    await rejected(verifier, issuer.token(aud=RESOURCE))


async def test_keys_in_the_header_of_a_token_are_ignored(issuer: Issuer) -> None:
    """The signature is the issuer's, and so is the key that is used."""
    tempting = {"jwk": OTHER.as_dict(private=False), "jku": "https://evil.example/keys", "x5u": "https://evil.example"}
    assert await verified(verifier_for(issuer), sign(issuer.claims(), **tempting))
    assert set(issuer.requests) == {"/.well-known/oauth-authorization-server", "/keys"}


async def test_the_only_key_that_fits_serves_tokens_without_a_key_id(issuer: Issuer) -> None:
    assert await verified(verifier_for(issuer), sign(issuer.claims(), kid=None))
    issuer.keys = [EC, OTHER]
    await rejected(verifier_for(issuer), sign(issuer.claims(), kid=None))


async def test_tokens_of_several_issuers_are_accepted(issuer: Issuer) -> None:
    second = Issuer("https://other.example.com/tenant")
    second.keys = [OTHER]

    async def fetch(method: str, url: str, headers: Any, body: bytes) -> Any:
        return await (issuer if url.startswith(issuer.url) else second).fetch(method, url, headers, body)

    verifier = TokenVerifier([issuer.url, second.url], RESOURCE, fetch=fetch)
    some = await verified(verifier, issuer.token())
    other = await verified(verifier, sign(second.claims(), OTHER))
    assert some != other
    await rejected(verifier, sign(issuer.claims(), OTHER))  # a key of the other issuer
    assert verifier.metadata["authorization_servers"] == [issuer.url, second.url]


# ---- rejected ------------------------------------------------------------------------------------------------------


def encode(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def unsigned(issuer: Issuer, algorithm: str = "none") -> str:
    return f"{encode(json.dumps({'alg': algorithm}).encode())}.{encode(json.dumps(issuer.claims()).encode())}."


def signed_with_public_key(issuer: Issuer) -> str:
    parts = ({"alg": "HS256", "kid": "rsa"}, issuer.claims())
    signed = ".".join(encode(json.dumps(part).encode()) for part in parts)
    secret = RSA.as_pem(private=False)
    return f"{signed}.{encode(hmac.digest(secret, signed.encode(), 'sha256'))}"


def with_other_claims(issuer: Issuer) -> str:
    header, _, signature = issuer.token().split(".")
    return f"{header}.{encode(json.dumps(issuer.claims(sub='eve')).encode())}.{signature}"


SAME_ID = ECKey.generate_key("P-256", {"kid": "ec"})
P384 = ECKey.generate_key("P-384", {"kid": "ec"})

ATTACKS = {
    "algorithm none": unsigned,
    "algorithm None": lambda issuer: unsigned(issuer, "None"),
    "no algorithm": lambda issuer: sign(issuer.claims(), alg=None),
    "HS256 with the public key": signed_with_public_key,
    "the algorithm of another key type": lambda issuer: sign(issuer.claims(), RSA, "RS256", kid="ec"),
    "the algorithm of another curve": lambda issuer: sign(issuer.claims(), P384, "ES384"),
    "the algorithm is another one than that of the signature": lambda issuer: sign(
        issuer.claims(), RSA, "RS256", alg="PS256"
    ),
    "a foreign key with a known id": lambda issuer: sign(issuer.claims(), SAME_ID),
    "a foreign key in the header": lambda issuer: sign(
        issuer.claims(), SAME_ID, jwk=SAME_ID.as_dict(private=False), jku="https://evil.example/keys"
    ),
    "an unknown key": lambda issuer: sign(issuer.claims(), OTHER),
    "a key id that is a path": lambda issuer: sign(issuer.claims(), kid="../../dev/null"),
    "a key id that is very long": lambda issuer: sign(issuer.claims(), kid="k" * 513),
    "a key id that is a number": lambda issuer: sign(issuer.claims(), kid=1),
    "an unknown critical extension": lambda issuer: sign(issuer.claims(), crit=["exp2"], exp2=1),
    "an unencoded payload": lambda issuer: sign(issuer.claims(), crit=["b64"], b64=False),
    "another type": lambda issuer: sign(issuer.claims(), typ="logout+jwt"),
    "a type that is no text": lambda issuer: sign(issuer.claims(), typ=["at+jwt"]),
    "nested": lambda issuer: sign(issuer.token().encode(), cty="JWT"),
    "nested by its header only": lambda issuer: sign(issuer.claims(), cty="JWT"),
    "an encoded payload that says so": lambda issuer: sign(issuer.claims(), b64=True),
    "nested, without saying so": lambda issuer: sign(issuer.token().encode()),
    "claims that are a list": lambda issuer: sign([issuer.claims()]),
    "claims that are very deep": lambda issuer: sign(b"[" * 5_000 + b"]" * 5_000),
    "no issuer": lambda issuer: issuer.token(iss=None),
    "another issuer": lambda issuer: issuer.token(iss="https://evil.example"),
    "the issuer with a slash": lambda issuer: issuer.token(iss=issuer.url + "/"),
    "a list of issuers": lambda issuer: issuer.token(iss=[issuer.url]),
    "no audience": lambda issuer: issuer.token(aud=None),
    "another audience": lambda issuer: issuer.token(aud="https://evil.example/mcp"),
    "the parent of the resource": lambda issuer: issuer.token(aud="https://tools.example.com"),
    "a sibling of the resource": lambda issuer: issuer.token(aud=RESOURCE + "2"),
    "a child of the resource": lambda issuer: issuer.token(aud=RESOURCE + "/deeper"),
    "the resource with a slash": lambda issuer: issuer.token(aud=RESOURCE + "/"),
    "the resource in other case": lambda issuer: issuer.token(aud=RESOURCE.upper()),
    "an audience that is an object": lambda issuer: issuer.token(aud={RESOURCE: True}),
    "an empty list of audiences": lambda issuer: issuer.token(aud=[]),
    "no expiry": lambda issuer: issuer.token(exp=None),
    "expired": lambda issuer: issuer.token(exp=time.time() - 61),
    "an expiry as text": lambda issuer: issuer.token(exp=str(int(time.time()) + 600)),
    "an expiry that is true": lambda issuer: issuer.token(exp=True),
    "an expiry that is null": lambda issuer: sign({**issuer.claims(), "exp": None}),
    "an infinite expiry": lambda issuer: issuer.token(exp=float("inf")),
    "an expiry that is no number": lambda issuer: issuer.token(exp=float("nan")),
    "an immense expiry": lambda issuer: issuer.token(exp=10**400),
    "not valid yet": lambda issuer: issuer.token(nbf=time.time() + 90),
    "issued in the future": lambda issuer: issuer.token(iat=time.time() + 90),
    "bound to a key": lambda issuer: issuer.token(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}),
    "an ID token": lambda issuer: issuer.token(at_hash="x"),
    "an ID token with the hash of a code": lambda issuer: issuer.token(c_hash="x"),
    "an ID token with a nonce and without scopes": lambda issuer: issuer.token(nonce="x", scope=None),
    "an ID token with a nonce and an empty scope": lambda issuer: issuer.token(nonce="x", scope=""),
    "an ID token by its use": lambda issuer: issuer.token(token_use="id"),
    "a refresh token by its use": lambda issuer: issuer.token(token_use="refresh_token"),
    "a refresh token by its type": lambda issuer: issuer.token(typ="Refresh"),
    "a logout token": lambda issuer: issuer.token(events={"http://schemas.openid.net/event/backchannel-logout": {}}),
    "neither subject nor client": lambda issuer: issuer.token(sub=None, client_id=None),
    "a subject that is a number": lambda issuer: issuer.token(sub=1),
    "a subject that is a list": lambda issuer: issuer.token(sub=["ada"]),
    "changed claims": with_other_claims,
    "no signature": lambda issuer: issuer.token().rpartition(".")[0] + ".",
    "a part more": lambda issuer: issuer.token() + ".x",
    "two parts": lambda issuer: issuer.token().rpartition(".")[0],
    "padding": lambda issuer: issuer.token() + "=",
    "too large": lambda issuer: issuer.token(padding="x" * 17_000),
    "garbage": lambda issuer: "garbage",
    "dots": lambda issuer: "..",
    "a header that is no JSON": lambda issuer: f"{encode(b'{')}.{encode(b'{}')}.{encode(b'x')}",
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_attacks_are_rejected_without_a_reason(issuer: Issuer, attack: str) -> None:
    error = await rejected(verifier_for(issuer), ATTACKS[attack](issuer))
    assert error.status == 401
    assert error.message == "missing or invalid credentials"
    assert error.challenge == f'Bearer error="invalid_token", resource_metadata="{METADATA_URL}"'


async def test_an_algorithm_that_is_not_allowed_is_rejected(issuer: Issuer) -> None:
    verifier = verifier_for(issuer, algorithms=["ES256"])
    assert await verified(verifier, issuer.token())
    await rejected(verifier, sign(issuer.claims(), RSA, "RS256"))


async def test_tokens_above_the_maximum_age_are_rejected(issuer: Issuer) -> None:
    verifier = verifier_for(issuer, max_age=300)
    issued = int(time.time()) - 340
    found = await verified(verifier, issuer.token(iat=issued))
    assert found.expires_at == issued + 300  # streams end then
    await rejected(verifier, issuer.token(iat=time.time() - 370))
    await rejected(verifier, issuer.token(iat=None))


@pytest.mark.parametrize("leeway, accepted, too_late", [(0, -5, 5), (10, 5, 15), (300, 200, 400)])
async def test_the_leeway_is_the_accepted_difference_of_clocks(
    issuer: Issuer, leeway: float, accepted: float, too_late: float
) -> None:
    verifier, now = verifier_for(issuer, leeway=leeway), time.time()
    assert await verified(verifier, issuer.token(exp=now - accepted, nbf=now + accepted, iat=now + accepted))
    for changes in ({"exp": now - too_late}, {"nbf": now + too_late}, {"iat": now + too_late}):
        await rejected(verifier, issuer.token(**changes))


# ---- credentials in headers and URLs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent", [{}, {"authorization": ""}, {"authorization": "Basic YTpi"}, {"authorization": "DPoP x"}]
)
def test_without_a_bearer_token_the_challenge_names_no_error(issuer: Issuer, sent: dict[str, str]) -> None:
    verifier = verifier_for(issuer, scopes=["tools:read", "tools:call"])
    with pytest.raises(tc.AuthError) as caught:
        verifier(sent)
    assert caught.value.status == 401
    assert caught.value.challenge == f'Bearer resource_metadata="{METADATA_URL}", scope="tools:read tools:call"'


@pytest.mark.parametrize("sent", ["Bearer", "Bearer ", "Bearer a b", "Bearer a, Bearer b", "bearer \u00e4", "Bearer=x"])
def test_malformed_bearer_tokens_are_invalid(issuer: Issuer, sent: str) -> None:
    with pytest.raises(tc.AuthError) as caught:
        verifier_for(issuer)({"authorization": sent})
    assert 'error="invalid_token"' in str(caught.value.challenge)


@pytest.mark.parametrize("query", [b"access_token=x", b"a=1&access_token=", b"%61ccess_token=x"])
def test_a_token_in_the_url_is_a_bad_request(issuer: Issuer, query: bytes) -> None:
    verifier = verifier_for(issuer)
    with pytest.raises(tc.AuthError) as caught:
        verifier.check_query(query)
    assert caught.value.status == 400
    assert 'error="invalid_request"' in str(caught.value.challenge)
    verifier.check_query(b"session_id=access_token")


# ---- scopes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "claims",
    [
        {"scope": "a b c"},
        {"scope": ["a", "b"]},
        {"scope": None, "scp": "a b"},
        {"scope": None, "scp": ["b", "a"]},
        {"scope": "a", "scp": ["b"]},
    ],
    ids=str,
)
async def test_scopes_are_read_from_either_claim(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert {"a", "b"} <= (await verified(verifier_for(issuer, scopes=["a", "b"]), issuer.token(**claims))).scopes


async def test_a_missing_scope_is_answered_with_all_that_are_needed(issuer: Issuer) -> None:
    verifier = verifier_for(issuer, scopes=["a", "b", "c"])
    token = issuer.token(scope="b")
    expected = f'Bearer error="insufficient_scope", resource_metadata="{METADATA_URL}", scope="a b c"'
    for _ in ("verified", "remembered"):
        error = await rejected(verifier, token)
        assert (error.status, error.challenge) == (403, expected)


# ---- principals ----------------------------------------------------------------------------------------------------


async def test_principals_are_equal_by_issuer_and_subject(issuer: Issuer) -> None:
    verifier = verifier_for(issuer)
    some = await verified(verifier, issuer.token())
    renewed = await verified(verifier, issuer.token(scope="more", client_id="another", exp=int(time.time()) + 999))
    eve = await verified(verifier, issuer.token(sub="eve"))
    assert some == renewed and hash(some) == hash(renewed) and some.scopes != renewed.scopes
    assert some not in (eve, "ada", None)
    assert "claims" not in repr(some)


async def test_the_principal_of_a_client_is_no_user_with_the_same_name(issuer: Issuer) -> None:
    verifier = verifier_for(issuer)
    program = await verified(verifier, issuer.token(sub="ada", client_id="ada"))
    same = await verified(verifier, issuer.token(sub=None, client_id=None, azp="ada"))
    user = await verified(verifier, issuer.token(sub="ada", client_id="editor"))
    other = await verified(verifier, issuer.token(sub=None, client_id="editor"))
    assert program == same and program.subject is None and program.client_id == "ada"
    assert len({program, same, user, other}) == 3


# ---- cost ----------------------------------------------------------------------------------------------------------


async def test_a_verified_token_is_found_without_verifying_it_again(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier, token = verifier_for(issuer), issuer.token()
    first = await verified(verifier, token)
    issuer.down = True
    assert verifier({"authorization": f"Bearer {token}"}) is first
    assert list(verifier._verified) == [sha256(token.encode()).digest()]  # the token itself is not kept
    later = time.time() + 301
    monkeypatch.setattr(token_verifier.time, "time", lambda: later)
    again = await verified(verifier, token)
    assert again == first and again is not first


async def test_a_verified_token_is_not_remembered_beyond_its_life(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier, token = verifier_for(issuer), issuer.token(exp=int(time.time()) + 5)
    await verified(verifier, token)
    later = time.time() + 70
    monkeypatch.setattr(token_verifier.time, "time", lambda: later)
    await rejected(verifier, token)
    assert not verifier._verified


async def test_a_remembered_token_is_rejected_from_its_maximum_age_on(issuer: Issuer, clocks: TwoClocks) -> None:
    verifier = verifier_for(issuer, max_age=60, leeway=0)
    token = issuer.token(iat=clocks.wall - 50)
    first = await verified(verifier, token)
    clocks.advance(9)
    assert await verified(verifier, token) is first
    clocks.advance(2)
    await rejected(verifier, token)


async def test_a_token_is_not_remembered_for_longer_if_the_clock_is_set_back(issuer: Issuer, clocks: TwoClocks) -> None:
    verifier, token = verifier_for(issuer), issuer.token(iat=None)
    first = await verified(verifier, token)
    clocks.wall -= 3600
    clocks.advance(token_verifier.VERIFIED_SECONDS - 1)
    assert await verified(verifier, token) is first
    clocks.advance(2)
    assert await verified(verifier, token) is not first


async def test_other_spaces_and_another_case_of_the_scheme_make_no_other_entry(issuer: Issuer) -> None:
    verifier, token = verifier_for(issuer), issuer.token()
    first = await verified(verifier, token)
    for scheme in ("Bearer  ", "bearer ", "BEARER     "):
        assert verifier({"authorization": scheme + token}) is first
    assert len(verifier._verified) == 1


async def test_a_remembered_token_is_only_a_bearer_token(issuer: Issuer) -> None:
    verifier, token = verifier_for(issuer), issuer.token()
    await verified(verifier, token)
    for scheme in ("DPoP ", "Bearerx ", ""):
        with pytest.raises(tc.AuthError):
            verifier({"authorization": scheme + token})


async def test_an_event_loop_whose_keys_another_one_fetches_knows_no_wrong_token(issuer: Issuer) -> None:
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def fetch(*request: Any) -> Any:
        asked.set()
        await goes_on.wait()
        return await issuer.fetch(*request)

    verifier = TokenVerifier(issuer.url, RESOURCE, fetch=fetch)

    def verify_in_another_loop() -> Any:
        return asyncio.run(verified(verifier, issuer.token(sub="eve")))

    async with asyncio.timeout(10):
        first = asyncio.create_task(verified(verifier, issuer.token()))
        await asked.wait()
        with pytest.raises(tc.ConnectError, match="have not been received yet"):
            await asyncio.to_thread(verify_in_another_loop)
        goes_on.set()
        assert (await first).subject == "ada"
        assert (await asyncio.to_thread(verify_in_another_loop)).subject == "eve"


async def test_only_so_many_tokens_are_remembered(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_verifier, "MAX_VERIFIED", 3)
    verifier = verifier_for(issuer)
    for number in range(5):
        await verified(verifier, issuer.token(sub=f"user {number}"))
    await rejected(verifier, issuer.token(aud="other"))
    assert len(verifier._verified) == 3


async def test_expired_and_foreign_tokens_cause_no_request(issuer: Issuer) -> None:
    verifier = verifier_for(issuer)
    for changes in ({"exp": 1}, {"aud": "other"}, {"iss": "https://evil.example"}):
        await rejected(verifier, issuer.token(**changes))
    assert not issuer.requests


# ---- settings ------------------------------------------------------------------------------------------------------


def test_the_metadata_names_the_resource_its_issuers_and_its_scopes(issuer: Issuer) -> None:
    verifier = verifier_for(issuer, scopes=["a"], scopes_supported=["b", "a"])
    assert verifier.metadata == {
        "resource": RESOURCE,
        "authorization_servers": [issuer.url],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["a", "b"],
    }
    assert verifier.metadata_url == METADATA_URL
    document = json.dumps(verifier.metadata).encode()
    assert verifier.documents == {
        "/.well-known/oauth-protected-resource/mcp": document,
        "/.well-known/oauth-protected-resource": document,
    }
    assert "scopes_supported" not in verifier_for(issuer).metadata
    assert repr(verifier) == f"TokenVerifier(issuer=('{issuer.url}',), resource='{RESOURCE}')"


@pytest.mark.parametrize(
    "key, options",
    [
        ("resource", {"resource": "tools.example.com"}),
        ("resource", {"resource": "http://tools.example.com/mcp"}),
        ("resource", {"resource": RESOURCE + "?a=1"}),
        ("resource", {"resource": RESOURCE + "#a"}),
        ("resource", {"resource": 'https://tools.example.com/"'}),
        ("resource", {"resource": None}),
        ("issuer", {"issuer": "http://login.example.com"}),
        ("issuer", {"issuer": "http://127.0.0.1:9"}),
        ("issuer", {"issuer": ["https://login.example.com", "http://127.0.0.1:9"]}),
        ("issuer", {"issuer": []}),
        ("issuer", {"issuer": 5}),
        ("resource", {"resource": RESOURCE + "\\"}),
        ("scopes[0]", {"scopes": ["a b"]}),
        ("scopes[1]", {"scopes": ["a", 'a"']}),
        ("scopes", {"scopes": 5}),
        ("audiences", {"audiences": None}),
        ("leeway", {"leeway": float("nan")}),
        ("leeway", {"leeway": "60"}),
        ("leeway", {"leeway": -1}),
        ("max_age", {"max_age": float("inf")}),
        ("max_age", {"max_age": 0}),
        ("strict_type", {"strict_type": "no"}),
        ("fetch", {"fetch": 5}),
        ("introspection", {"introspection": 5}),
        ("scopes_supported", {"scopes_supported": ["offline_access"]}),
        ("tool_scopes", {"tool_scopes": ["write"]}),
        ("tool_scopes", {"tool_scopes": {"": ["write"]}}),
        ("tool_scopes['write'][0]", {"tool_scopes": {"write": ['a"']}}),
        ("issuer", {"issuer": "https://login.example.com?tenant=1"}),
        ("audiences", {"audiences": "guid"}),
        ("algorithms", {"algorithms": ["HS256"]}),
        ("algorithms", {"algorithms": ["none", "RS256"]}),
        ("algorithms", {"algorithms": []}),
        ("introspection", {"introspection": tc.Introspection("a", "b", endpoint="http://login.example.com/x")}),
        ("introspection", {"introspection": tc.Introspection("a", "b", issuer="https://other.example.com")}),
        (
            "introspection",
            {"issuer": ["https://a.example", "https://b.example"], "introspection": tc.Introspection("a", "b")},
        ),
    ],
    ids=str,
)
def test_invalid_settings_are_named(key: str, options: dict[str, Any]) -> None:
    with pytest.raises(tc.ConfigError) as caught:
        TokenVerifier(**{"issuer": "https://login.example.com", "resource": RESOURCE, **options})
    assert caught.value.key == key
    assert key in str(caught.value)


@pytest.mark.parametrize("key, credentials", [("client_id", (None, "secret")), ("client_secret", ("id", ""))])
def test_introspection_needs_credentials(key: str, credentials: tuple[Any, Any]) -> None:
    with pytest.raises(tc.ConfigError) as caught:
        tc.Introspection(*credentials)
    assert caught.value.key == f"introspection.{key}"


@pytest.mark.parametrize(
    "tool, scopes, missing",
    [
        ("read", "a", None),
        ("write_note", "a b", None),
        ("write_note", "a", "a b"),
        ("write_all", "a b", "a b c d"),
        ("write_all", "a b d c", None),
    ],
)
async def test_a_tool_may_require_more_scopes(issuer: Issuer, tool: str, scopes: str, missing: str | None) -> None:
    verifier = verifier_for(issuer, scopes=["a"], tool_scopes={"write_*": ["b"], "write_all": "c d"})
    caller = await verified(verifier, issuer.token(scope=scopes))
    if missing is None:
        verifier.check_calls(caller, [tool])
        return
    with pytest.raises(tc.AuthError) as caught:
        verifier.check_calls(caller, [tool])
    assert caught.value.status == 403
    assert str(caught.value.challenge).startswith('Bearer error="insufficient_scope", resource_metadata="')
    assert str(caught.value.challenge).endswith(f', scope="{missing}"')


async def test_all_scopes_of_a_batch_are_named_and_other_principals_are_left_alone(issuer: Issuer) -> None:
    verifier = verifier_for(issuer, tool_scopes={"a": ["x"], "b": ["y"]})
    with pytest.raises(tc.AuthError) as caught:
        verifier.check_calls(await verified(verifier, issuer.token()), ["a", "b", "c"])
    assert str(caught.value.challenge).endswith(', scope="x y"')
    verifier.check_calls("a principal of a subclass", ["c"])  # type: ignore[arg-type]
    verifier_for(issuer).check_calls("a principal of a subclass", ["a"])  # type: ignore[arg-type]


async def test_a_claim_of_an_application_is_not_taken_for_a_security_event(issuer: Issuer) -> None:
    assert await verified(verifier_for(issuer), issuer.token(events=["concert"]))


@pytest.mark.parametrize("key_id", ["ec", None])
async def test_a_key_that_was_replaced_under_its_id_is_found(
    issuer: Issuer, key_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = verifier_for(issuer)
    issuer.keys = [EC]
    await verified(verifier, sign(issuer.claims(), kid=key_id))
    replaced = ECKey.generate_key("P-256", {"kid": "ec"})
    issuer.keys = [replaced]
    renewed = sign(issuer.claims(sub="eve"), replaced, kid=key_id)
    await rejected(verifier, renewed)  # the issuer was asked a moment ago
    monkeypatch.setattr(jwks, "UNKNOWN_KEY_SECONDS", 0.0)
    assert (await verified(verifier, renewed)).subject == "eve"


def test_an_issuer_on_this_machine_needs_a_resource_on_this_machine() -> None:
    assert TokenVerifier("http://127.0.0.1:9", "http://localhost:8000/mcp")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("joserfc")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("jwks", "signed_tokens"):
        monkeypatch.delitem(sys.modules, f"toolcrib.oauth.{name}", raising=False)
        monkeypatch.delattr(f"toolcrib.oauth.{name}", raising=False)
    real = builtins.__import__

    def without_joserfc(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("joserfc"):
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_joserfc)
    with pytest.raises(tc.ConfigError, match=r'pip install "toolcrib\[oauth\]"'):
        TokenVerifier("https://login.example.com", RESOURCE)
