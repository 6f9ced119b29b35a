"""How clients authenticate token requests."""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey

import toolcrib as tc
from toolcrib.oauth.client_auth import ASSERTION_TYPE, ClientIdentity, authenticate, choose_method
from toolcrib.oauth.well_known import ServerMetadata

pytestmark = pytest.mark.filterwarnings("ignore:EdDSA is deprecated")

SERVER = ServerMetadata("https://login.example", token_endpoint="https://login.example/token")


@pytest.mark.parametrize(
    "secret, key, supported, expected",
    [
        (None, None, None, "none"),
        ("s", None, None, "client_secret_basic"),
        ("s", None, ("client_secret_basic", "client_secret_post"), "client_secret_basic"),
        ("s", None, ("client_secret_post",), "client_secret_post"),
        ("s", None, ("private_key_jwt",), "client_secret_basic"),
        (None, "pem", ("client_secret_post",), "private_key_jwt"),
    ],
)
def test_the_method_of_a_configured_client(
    secret: str | None, key: str | None, supported: tuple[str, ...] | None, expected: str
) -> None:
    assert choose_method(secret, key, supported) == expected


async def test_basic_encodes_id_and_secret_before_they_are_joined() -> None:
    client = ClientIdentity("id:1\r\nX: y", "p:w +%ü", "client_secret_basic")
    form, headers = await authenticate(client, {"grant_type": "x"}, SERVER)

    assert form == {"grant_type": "x"}
    (name, value) = headers[0]
    assert name == "Authorization"
    assert base64.b64decode(value.removeprefix("Basic ")) == b"id%3A1%0D%0AX%3A+y:p%3Aw+%2B%25%C3%BC"


@pytest.mark.parametrize(
    "method, expected",
    [("none", {"client_id": "a"}), ("client_secret_post", {"client_id": "a", "client_secret": "s"})],
)
async def test_other_methods_use_the_form(method: str, expected: dict[str, str]) -> None:
    assert await authenticate(ClientIdentity("a", "s", method), {}, SERVER) == (expected, [])


async def test_a_workload_without_a_client_id_sends_none() -> None:
    assert await authenticate(ClientIdentity(""), {"grant_type": "x"}, SERVER) == ({"grant_type": "x"}, [])


KEYS = {
    "RS256": RSAKey.generate_key(2048),
    "PS256": RSAKey.generate_key(2048),
    "ES256": ECKey.generate_key("P-256"),
    "EdDSA": OKPKey.generate_key("Ed25519"),
}


@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.parametrize("form", ["pem", "file", "jwk"])
async def test_assertions_are_signed_with_an_algorithm_of_the_server(algorithm: str, form: str, tmp_path: Path) -> None:
    key = KEYS[algorithm]
    pem = key.as_pem(private=True)
    (tmp_path / "key.pem").write_bytes(pem)
    given: Any = {"pem": pem.decode(), "file": tmp_path / "key.pem", "jwk": key.as_dict(private=True)}[form]
    client = ClientIdentity("ci", auth_method="private_key_jwt", private_key=given)
    server = ServerMetadata(SERVER.issuer, token_endpoint_auth_algorithms=("HS256", algorithm))

    forms = [(await authenticate(client, {}, server))[0] for _ in range(2)]

    assert all(each["client_assertion_type"] == ASSERTION_TYPE and each["client_id"] == "ci" for each in forms)
    tokens = [jwt.decode(each["client_assertion"], key, algorithms=[algorithm]) for each in forms]
    claims = tokens[0].claims
    assert tokens[0].header["alg"] == algorithm
    assert (claims["iss"], claims["sub"], claims["aud"]) == ("ci", "ci", "https://login.example")
    assert claims["iat"] <= time.time() + 1
    assert 0 < claims["exp"] - claims["iat"] <= 300
    assert claims["jti"] != tokens[1].claims["jti"]


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_server_that_lists_no_algorithms_gets_the_usual_one_of_the_key(algorithm: str) -> None:
    key = KEYS[algorithm]
    client = ClientIdentity("ci", auth_method="private_key_jwt", private_key=key.as_dict(private=True))
    form, _ = await authenticate(client, {}, SERVER)
    assert jwt.decode(form["client_assertion"], key, algorithms=[algorithm]).header["alg"] == algorithm


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_function_may_sign(is_async: bool) -> None:
    seen: list[Mapping[str, Any]] = []

    def sign(claims: Mapping[str, Any]) -> str:
        seen.append(claims)
        return "signed"

    async def sign_later(claims: Mapping[str, Any]) -> str:
        return sign(claims)

    client = ClientIdentity("ci", auth_method="private_key_jwt", private_key=sign_later if is_async else sign)
    form, _ = await authenticate(client, {}, SERVER)
    assert form["client_assertion"] == "signed"
    assert seen[0]["aud"] == "https://login.example"


async def test_a_key_that_the_server_accepts_no_algorithm_of_is_an_error() -> None:
    client = ClientIdentity("ci", auth_method="private_key_jwt", private_key=KEYS["ES256"].as_dict(private=True))
    server = ServerMetadata(SERVER.issuer, token_endpoint_auth_algorithms=("RS256",))
    with pytest.raises(tc.AuthError, match="expected a key for one of RS256, got one for ES256"):
        await authenticate(client, {}, server)


@pytest.mark.parametrize("key", [f"-----BEGIN {'PRIVATE'} KEY-----\nCANARY", b"CANARY", {"kty": "oct", "k": "CANARY"}])
async def test_a_key_that_cannot_be_read_is_not_shown(key: Any) -> None:
    client = ClientIdentity("ci", auth_method="private_key_jwt", private_key=key)
    with pytest.raises(tc.ConfigError, match="private_key: expected a private key as PEM") as caught:
        await authenticate(client, {}, SERVER)
    assert "CANARY" not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r} {client!r}"


def test_secrets_are_not_in_the_repr() -> None:
    assert "CANARY" not in repr(ClientIdentity("a", "CANARY", private_key="CANARY"))
