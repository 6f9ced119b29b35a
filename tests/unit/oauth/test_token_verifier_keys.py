"""The keys of an issuer: fetching, renewal, outages, and floods of unknown key ids."""

from __future__ import annotations

import asyncio
import base64
import time
from email.utils import formatdate
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc.jwk import ECKey

from tests.oauth.issuer import EC, OTHER, RSA, Issuer
from toolcrib.errors import ConnectError
from toolcrib.oauth import jwks
from toolcrib.oauth.jwks import IssuerKeys, read_keys, seconds_fresh

DAY = 24 * 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys(issuer: Issuer, clock: Clock) -> IssuerKeys:
    return IssuerKeys(issuer.url, fetch=issuer.fetch, clock=clock)


async def renewed(keys: IssuerKeys) -> None:
    assert keys._renewal is not None
    await asyncio.wait_for(asyncio.shield(keys._renewal), 10)


async def test_all_who_wait_share_one_fetch(issuer: Issuer, keys: IssuerKeys) -> None:
    found = await asyncio.gather(*(keys.find("ec", "ES256") for _ in range(100)))
    assert all([key.id for key in each] == ["ec"] for each in found)
    assert issuer.requests == {"/.well-known/oauth-authorization-server": 1, "/keys": 1}


async def test_a_caller_that_gives_up_does_not_end_the_fetch_of_the_others(issuer: Issuer, clock: Clock) -> None:
    asked, goes_on = asyncio.Event(), asyncio.Event()

    async def fetch(*request: Any) -> Any:
        asked.set()
        await goes_on.wait()
        return await issuer.fetch(*request)

    keys = IssuerKeys(issuer.url, fetch=fetch, clock=clock)
    impatient, patient = (asyncio.ensure_future(keys.find("ec", "ES256")) for _ in range(2))
    await asyncio.wait_for(asked.wait(), 10)
    impatient.cancel()
    goes_on.set()
    assert await asyncio.wait_for(patient, 10)
    assert issuer.requests["/keys"] == 1


async def test_a_known_key_is_returned_at_once_and_renewed_in_the_background(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    await keys.find("ec", "ES256")
    clock.now += 299
    await keys.find("ec", "ES256")
    assert issuer.requests["/keys"] == 1
    clock.now += 2
    issuer.keys = [RSA]
    finding = keys.find("ec", "ES256")
    with pytest.raises(StopIteration):  # it waits for nothing
        finding.send(None)
    await renewed(keys)
    assert issuer.requests["/keys"] == 2
    assert await keys.find("ec", "ES256") == []  # the issuer has withdrawn it


async def test_the_cache_headers_decide_when_the_keys_are_fetched_again(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    issuer.key_set_headers = [("Cache-Control", "max-age=1200")]
    await keys.find("ec", "ES256")
    clock.now += 1199
    await keys.find("ec", "ES256")
    await renewed(keys)  # one that has begun now would be counted
    assert issuer.requests["/keys"] == 1
    clock.now += 2
    await keys.find("ec", "ES256")
    await renewed(keys)
    assert issuer.requests["/keys"] == 2


async def test_keys_are_fetched_again_before_they_are_too_old_whatever_the_cache_headers_say(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    issuer.key_set_headers = [("Cache-Control", "max-age=999999999")]
    await keys.find("ec", "ES256")
    clock.now += DAY - jwks.RENEWAL_SECONDS + 1
    assert await keys.find("ec", "ES256")
    await renewed(keys)
    assert issuer.requests["/keys"] == 2


@pytest.mark.parametrize("status", [404, 204, 302])
async def test_a_key_set_with_another_status_is_an_error_and_the_known_keys_stay(
    issuer: Issuer, clock: Clock, status: int
) -> None:
    fails = False

    async def fetch(method: str, url: str, headers: Any, body: bytes) -> Any:
        answer = await issuer.fetch(method, url, headers, body)
        return (status, *answer[1:]) if fails and url.endswith("/keys") else answer

    keys = IssuerKeys(issuer.url, fetch=fetch, clock=clock)
    await keys.find("ec", "ES256")
    fails, issuer.keys = True, [OTHER]
    clock.now += 31
    with pytest.raises(ConnectError, match=f"expected a key set with usable keys .HTTP {status}."):
        await keys.find("other", "ES256")
    assert [key.id for key in await keys.find("ec", "ES256")] == ["ec"]
    assert issuer.requests["/keys"] == 2


async def test_known_keys_serve_a_day_while_the_issuer_is_down(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> None:
    await keys.find("ec", "ES256")
    issuer.down = True
    for _ in range(23):
        clock.now += 3600
        assert await keys.find("ec", "ES256")
        await renewed(keys)
    clock.now += 3600
    with pytest.raises(ConnectError, match="not available"):
        await keys.find("ec", "ES256")
    issuer.down = False
    clock.now += jwks.RETRY_SECONDS
    assert await keys.find("ec", "ES256")


async def test_an_outage_at_the_start_is_not_a_wrong_token_and_is_asked_about_every_five_seconds(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    issuer.unreachable = True
    for _ in range(10):
        with pytest.raises(ConnectError, match="no connection"):
            await keys.find("ec", "ES256")
    assert issuer.requests.total() == 1
    clock.now += 5
    issuer.unreachable = False
    assert await keys.find("ec", "ES256")


async def test_a_new_key_is_found_after_rotation(issuer: Issuer, keys: IssuerKeys, clock: Clock) -> None:
    await keys.find("ec", "ES256")
    clock.now += 31
    issuer.keys = [EC, OTHER]
    assert await keys.find("other", "ES256")
    assert issuer.requests["/keys"] == 2


async def test_a_key_that_was_replaced_under_its_id_is_fetched_again_every_thirty_seconds(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    (before,) = await keys.find("ec", "ES256")
    issuer.keys = [ECKey.generate_key("P-256", {"kid": "ec"})]
    assert await keys.find_replaced("ec", "ES256") == []
    clock.now += 31
    found = await asyncio.gather(*(keys.find_replaced("ec", "ES256") for _ in range(20)))
    assert all(len(each) == 1 and each[0].key is not before.key for each in found)
    assert issuer.requests["/keys"] == 2


async def test_a_flood_of_unknown_key_ids_asks_every_thirty_seconds(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    await keys.find("ec", "ES256")
    for second in range(120):
        clock.now += 1
        await asyncio.gather(*(keys.find(f"random {second} {each}", "ES256") for each in range(20)))
    assert issuer.requests["/keys"] == 1 + 4


async def test_an_id_that_is_known_to_be_unknown_causes_no_request_for_a_minute(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    await keys.find("ec", "ES256")
    clock.now += 31
    await keys.find("unknown", "ES256")
    clock.now += 31
    assert await keys.find("unknown", "ES256") == []
    assert issuer.requests["/keys"] == 2
    clock.now += 31
    await keys.find("unknown", "ES256")
    assert issuer.requests["/keys"] == 3


async def test_only_so_many_unknown_ids_are_remembered(
    keys: IssuerKeys, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "MAX_UNKNOWN", 3)
    for each in range(9):
        clock.now += 31
        await keys.find(f"unknown {each}", "ES256")
    assert len(keys._unknown) == 3


async def test_an_unknown_id_during_an_outage_is_not_a_wrong_token(
    issuer: Issuer, keys: IssuerKeys, clock: Clock
) -> None:
    await keys.find("ec", "ES256")
    issuer.down = True
    clock.now += 31
    for _ in range(3):
        with pytest.raises(ConnectError):
            await keys.find("new", "ES256")
    assert await keys.find("ec", "ES256")
    assert issuer.requests["/keys"] == 1


@pytest.mark.parametrize(
    "metadata, problem",
    [
        ({"issuer": "https://evil.example"}, "expected the issuer"),
        ({"jwks_uri": "http://login.example.com/keys"}, "expected an https URL"),
        ({"jwks_uri": "http://127.0.0.1/keys"}, "expected an https URL"),
        ({"jwks_uri": None}, "names no jwks_uri"),
        ({"jwks_uri": "https://login.example.com/missing"}, "expected a key set"),
    ],
)
async def test_metadata_that_cannot_be_used_means_that_no_token_can_be_checked(
    issuer: Issuer, keys: IssuerKeys, metadata: dict[str, Any], problem: str
) -> None:
    issuer.metadata = metadata
    with pytest.raises(ConnectError, match=problem):
        await keys.find("ec", "ES256")
    assert "/keys" not in issuer.requests


async def test_an_issuer_that_never_answers_is_given_up(
    issuer: Issuer, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwks, "FETCH_TIMEOUT", 0.01)

    async def fetch(*_: Any) -> Any:
        await asyncio.Event().wait()

    with pytest.raises(ConnectError, match="no complete answer"):
        await IssuerKeys(issuer.url, fetch=fetch, clock=clock).find("ec", "ES256")


def test_unusable_keys_are_skipped() -> None:
    public = EC.as_dict(private=False)
    large = RSA.as_dict(private=False)
    unusable = [
        *(None, 1, "key", [], {}),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "x"},
        {**public, "use": "enc"},
        {**public, "key_ops": ["sign"]},
        {**public, "key_ops": "verify"},
        {**public, "kid": 1},
        {**public, "alg": 1},
        {**public, "x": "AAAA"},
        {**public, "crv": "P-999"},
        {**public, "x": None},
        EC.as_dict(private=True),
        {**large, "n": "AQAB"},
        {**large, "n": "A" * 20_000},
        {**large, "n": 7},
        {"kty": "RSA", "kid": "incomplete"},
    ]
    assert read_keys({"keys": unusable}) == []
    found = read_keys({"keys": [*unusable, {**public, "key_ops": ["verify"], "use": "sig", "x5c": ["?"]}, large]})
    assert [key.id for key in found] == ["ec", "rsa"]
    assert len(read_keys({"keys": [public] * 1_000})) == jwks.MAX_KEYS
    assert read_keys({"keys": {"a": public}}) == read_keys({}) == []


@pytest.mark.filterwarnings("ignore")  # joserfc warns of small keys, and accepts them
@pytest.mark.parametrize("bits, expected", [(1024, 0), (2040, 0), (2048, 1)])
def test_rsa_keys_need_2048_bits(bits: int, expected: int) -> None:
    numbers = rsa.generate_private_key(65537, bits).public_key().public_numbers()
    modulus = base64.urlsafe_b64encode(numbers.n.to_bytes(bits // 8, "big")).rstrip(b"=").decode()
    assert len(read_keys({"keys": [{"kty": "RSA", "kid": "rsa", "e": "AQAB", "n": modulus}]})) == expected


def test_a_key_serves_only_its_own_algorithm() -> None:
    (key,) = read_keys({"keys": [{**RSA.as_dict(private=False), "alg": "PS256"}]})
    assert [each for each in ("RS256", "PS256", "ES256", "EdDSA") if key.fits(each)] == ["PS256"]


@pytest.mark.parametrize(
    "headers, seconds",
    [
        ([], 300),
        ([("Cache-Control", "public, max-age=3600")], 3600),
        ([("cache-control", "MAX-AGE=60")], 300),
        ([("Cache-Control", "max-age=999999999")], DAY),
        ([("Cache-Control", "no-store, max-age=3600")], 300),
        ([("Cache-Control", "s-max-age=5, max-age=3600"), ("Age", "600")], 3000),
        ([("Cache-Control", "max-age=" + "9" * 50)], DAY),
        ([("Expires", "never")], 300),
        ([("Expires", formatdate(time.time() + 2 * DAY, usegmt=True))], DAY),
    ],
)
def test_the_cache_headers_decide_within_limits(headers: list[tuple[str, str]], seconds: float) -> None:
    assert seconds_fresh(headers) == seconds
