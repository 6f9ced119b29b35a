"""Which client a program is at an authorisation server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from joserfc.jwk import RSAKey

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree

DOCUMENT = "https://app.example/client.json"
REDIRECT = "http://127.0.0.1/callback"


def person(**given: Any) -> tc.OAuth:
    return tc.OAuth(**{"interact": agree, "store": tc.MemoryTokenStore(), **given})


async def sign_in(server: AuthorizationServer, auth: tc.OAuth | None = None) -> None:
    async with tc.Client(server.url, auth=auth or person()) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


def clients(server: AuthorizationServer) -> list[str]:
    """Return the client ids of the authorisation requests."""
    return [each.params["client_id"] for each in server.seen("authorize")]


# ---- the order -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "accepts_documents, options, expected",
    [
        (True, {"client_id": "mine", "client_metadata_url": DOCUMENT}, "mine"),
        (True, {"client_metadata_url": DOCUMENT}, DOCUMENT),
        (False, {"client_metadata_url": DOCUMENT}, "registered"),
        (True, {}, "registered"),
    ],
)
async def test_a_configured_client_comes_before_a_document_and_that_before_a_registration(
    accepts_documents: bool, options: dict[str, str], expected: str
) -> None:
    async with AuthorizationServer(client_metadata_documents=accepts_documents) as server:
        server.add_client("mine", redirect_uris=(REDIRECT,))
        await sign_in(server, person(**options))

    is_registered = expected == "registered"
    assert server.counters["register"] == int(is_registered)
    assert clients(server)[0].startswith("client-") if is_registered else clients(server) == [expected]
    assert server.seen("token")[0].params["client_id"] == clients(server)[0]


@pytest.mark.parametrize("options", [{}, {"client_metadata_url": DOCUMENT}])
async def test_a_server_that_registers_no_clients_needs_one_of_two_settings(options: dict[str, str]) -> None:
    async with AuthorizationServer(registration=False) as server:
        with pytest.raises(tc.AuthError, match=r"set client_id=, or set client_metadata_url="):
            await sign_in(server, person(**options))

    assert not server.counters["authorize"] + server.counters["token"]


@pytest.mark.parametrize(
    "url",
    [
        "http://app.example/client.json",
        "https://app.example",
        "https://app.example/",
        "https:///client.json",
        "https://app.example/client.json#part",
        "https://app.example/client.json#",
        "https://user@app.example/client.json",
        "https://user:password@app.example/client.json",
        "https://app.example/./client.json",
        "https://app.example/a/../client.json",
        "https://app.example/a/..",
        "https://[app.example/client.json",
        "https://app.example/%2e%2e/client.json",
        "https://app.example:99999/client.json",
        "https://app.example/client.json\n",
        "https://app.example/my client.json",
        "client.json",
        "",
    ],
)
def test_the_url_of_a_document_is_checked_when_the_provider_is_made(url: str) -> None:
    with pytest.raises(tc.ConfigError, match="client_metadata_url: expected an https URL with a path") as caught:
        person(client_metadata_url=url)

    assert caught.value.key == "client_metadata_url"
    assert "password" not in str(caught.value)


@pytest.mark.parametrize("url", [DOCUMENT, "https://app.example:8443/a/..b/.c?d=..", "https://app.example/a/"])
def test_any_https_url_with_a_path_may_be_a_document(url: str) -> None:
    person(client_metadata_url=url)


# ---- registration ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "redirect_uri, kind",
    [
        ("http://127.0.0.1:9/back", "native"),
        ("http://localhost:9/back", "native"),
        ("https://app.example/back", "web"),
    ],
)
async def test_a_registration_tells_what_the_client_is(redirect_uri: str, kind: str) -> None:
    async with AuthorizationServer() as server:
        await sign_in(server, person(redirect_uri=redirect_uri, client_name="Example"))

    assert server.seen("register")[0].params == {
        "client_name": "Example",
        "application_type": kind,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "software_id": "toolcrib",
        "software_version": tc.__version__,
    }
    assert server.seen("authorize")[0].params["redirect_uri"] == redirect_uri


NO_METHOD: dict[str, Any] = {"registration_changes": {"token_endpoint_auth_method": None}}
ONLY_POST = {"metadata_changes": {"token_endpoint_auth_methods_supported": ["client_secret_post"]}}


@pytest.mark.parametrize(
    "behaviour, place",
    [
        ({"registered_method": "client_secret_basic"}, "header"),
        ({"registered_method": "client_secret_post"}, "form"),
        ({"registered_method": "none"}, "nowhere"),
        ({"registered_method": "client_secret_basic", **NO_METHOD}, "header"),
        ({**ONLY_POST, **NO_METHOD}, "form"),
        ({"registered_method": "none", **ONLY_POST, **NO_METHOD}, "nowhere"),
    ],
)
async def test_the_answer_to_a_registration_decides_the_method(behaviour: dict[str, Any], place: str) -> None:
    async with AuthorizationServer(**behaviour) as server:
        auth = person()
        await sign_in(server, auth)
        server.expire_tokens()
        await sign_in(server, auth)

    assert [each.params["grant_type"] for each in server.seen("token")] == ["authorization_code", "refresh_token"]
    for request in server.seen("token"):
        assert (request.header("authorization") is not None) == (place == "header")
        assert ("client_secret" in request.params) == (place == "form")
    assert server.counters["register"] == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"client_secret": None, "client_secret_expires_at": None, "token_endpoint_auth_method": None},
        {"client_secret": "", "client_secret_expires_at": "", "token_endpoint_auth_method": "", "redirect_uris": None},
        {"client_secret_expires_at": 0},
    ],
)
async def test_empty_members_of_an_answer_count_as_absent(changes: dict[str, Any]) -> None:
    async with AuthorizationServer(registration_changes=changes, registration_status=200) as server:
        auth = person()
        await sign_in(server, auth)
        server.expire_tokens()
        await sign_in(server, auth)  # the client is not one whose secret has expired

    assert server.counters["register"] == server.counters["authorize"] == 1


@pytest.mark.parametrize(
    "method, changes",
    [
        ("private_key_jwt", {}),
        ("tls_client_auth", {}),
        ("client_secret_jwt", {}),
        ("client_secret_basic", {"client_secret": None}),
        ("client_secret_post", {"client_secret": ""}),
    ],
)
async def test_a_method_that_the_client_cannot_use_is_an_error_before_a_person_is_asked(
    method: str, changes: dict[str, Any]
) -> None:
    async with AuthorizationServer(registered_method=method, registration_changes=changes) as server:
        with pytest.raises(tc.AuthError, match=f"that it cannot use: {method}.*client_id="):
            await sign_in(server)

    assert not server.counters["authorize"]


@pytest.mark.parametrize(
    "supported, expected",
    [
        (["client_secret_post", "client_secret_basic"], "client_secret_basic"),
        (["client_secret_post"], "client_secret_post"),
        (["private_key_jwt"], "none"),
        (None, "none"),
    ],
)
async def test_a_registration_asks_for_a_method_that_the_server_supports(
    supported: list[str] | None, expected: str
) -> None:
    async with AuthorizationServer(metadata_changes={"token_endpoint_auth_methods_supported": supported}) as server:
        await sign_in(server)

    assert server.seen("register")[0].params["token_endpoint_auth_method"] == expected


@pytest.mark.parametrize("refused, other", [("127.0.0.1", "localhost"), ("localhost", "127.0.0.1")])
async def test_the_other_spelling_of_the_loopback_address_is_tried_once(refused: str, other: str) -> None:
    async with AuthorizationServer(refused_redirect_hosts=(refused,)) as server:
        auth = person(redirect_uri=f"http://{refused}:4000/back")
        await sign_in(server, auth)
        first, second = (each.params["redirect_uris"][0] for each in server.seen("register"))
        assert (first, second) == (f"http://{refused}:4000/back", f"http://{other}:4000/back")
        assert server.seen("authorize")[0].params["redirect_uri"] == second

        server.change(refused_redirect_hosts=("127.0.0.1", "localhost"))
        await auth.forget(server.url)
        with pytest.raises(tc.AuthError, match=r"invalid_redirect_uri: redirect_uris: \S+ is not allowed"):
            await sign_in(server, auth)

    assert server.counters["register"] == 4
    assert server.counters["authorize"] == 1


@pytest.mark.parametrize("uri", ["http://app.example/back", "https://user@app.example/back", "javascript:x"])
def test_a_redirect_uri_on_another_machine_needs_tls(uri: str) -> None:
    with pytest.raises(tc.ConfigError, match="redirect_uri: expected"):
        person(redirect_uri=uri)


async def test_another_redirect_uri_that_is_refused_has_no_other_spelling() -> None:
    async with AuthorizationServer(refused_redirect_hosts=("app.example",)) as server:
        with pytest.raises(tc.AuthError, match="is not allowed"):
            await sign_in(server, person(redirect_uri="https://app.example/back"))

    assert server.counters["register"] == 1


# ---- registered clients that are no use any more ---------------------------------------------------------------


@pytest.mark.parametrize("error", ["invalid_client", "unauthorized_client", None])
async def test_a_client_that_the_token_endpoint_rejects_is_registered_anew_once(error: str | None) -> None:
    async with AuthorizationServer() as server:
        server.fail_next("token", status=401, error=error)
        await sign_in(server)

    assert server.counters["register"] == 2
    assert len(set(clients(server))) == 2


async def test_a_rejected_code_is_no_reason_to_register_another_client() -> None:
    async with AuthorizationServer() as server:
        server.fail_next("token", status=401, error="invalid_grant")
        with pytest.raises(tc.AuthError, match="invalid_grant"):
            await sign_in(server)

    assert server.counters["register"] == server.counters["authorize"] == 1


async def test_a_registered_client_is_not_used_with_another_redirect_uri() -> None:
    async with AuthorizationServer(refresh_tokens="none", exact_redirects=True) as server:
        store = tc.MemoryTokenStore()
        uris = ["http://127.0.0.1:9/a", "http://127.0.0.1:9/a", "http://127.0.0.1:8/b"]
        for uri in uris:
            await sign_in(server, person(store=store, redirect_uri=uri))
            server.expire_tokens()

    assert [each.params["redirect_uri"] for each in server.seen("authorize")] == uris
    assert server.counters["register"] == 2


async def test_a_new_client_that_is_rejected_does_not_cost_the_tokens_of_another() -> None:
    async with AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        async with tc.Client(server.url, auth=person(store=store)) as client:
            stored = json.loads(await store.load(server.url) or "")
            stored["clients"][0]["is_unconfirmed"] = True  # so that another client is registered for more scopes
            await store.save(server.url, json.dumps(stored))
            server.fail_next("token", times=2, status=401, error="invalid_client")
            with pytest.raises(tc.AuthError, match="invalid_client"):
                await client.call_tool("write", {"text": "x"})
            server.expire_tokens()
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"

    assert server.seen("token")[-1].params["grant_type"] == "refresh_token"


async def test_a_client_that_is_rejected_again_is_given_up() -> None:
    async with AuthorizationServer() as server:
        server.fail_next("token", times=9, status=401, error="invalid_client", description="no such client")
        with pytest.raises(tc.AuthError, match="invalid_client: no such client"):
            await sign_in(server)

    assert [server.counters[each] for each in ("register", "authorize", "token")] == [2, 2, 2]


async def test_a_configured_client_that_is_rejected_is_not_replaced() -> None:
    async with AuthorizationServer() as server:
        server.add_client("mine", redirect_uris=(REDIRECT,))
        server.fail_next("token", times=9, status=401, error="invalid_client")
        with pytest.raises(tc.AuthError, match="invalid_client"):
            await sign_in(server, person(client_id="mine"))

    assert [server.counters[each] for each in ("register", "authorize", "token")] == [0, 1, 1]


async def test_a_client_that_was_forgotten_is_registered_anew_when_its_tokens_are_renewed() -> None:
    async with AuthorizationServer() as server:
        auth = person()
        await sign_in(server, auth)
        server.prune_clients()
        server.expire_tokens()
        await sign_in(server, auth)

    assert server.counters["register"] == 2
    assert len(set(clients(server))) == len(clients(server)) == 2


async def test_a_client_that_was_forgotten_is_offered_once_if_its_tokens_cannot_be_renewed() -> None:
    async with AuthorizationServer(refresh_tokens="none") as server:
        store = tc.MemoryTokenStore()
        await sign_in(server, person(store=store))
        server.prune_clients()
        server.expire_tokens()
        with pytest.raises(tc.AuthError, match="Unknown client"):  # a page, which only a person can see
            await sign_in(server, person(store=store))
        await sign_in(server, person(store=store))

    first, offered, new = clients(server)
    assert first == offered != new
    assert server.counters["register"] == 2


async def test_a_program_that_asks_no_person_does_not_offer_a_forgotten_client_each_time() -> None:
    async with AuthorizationServer(refresh_tokens="none") as server:
        store = tc.MemoryTokenStore()
        await sign_in(server, person(store=store))
        server.prune_clients()
        server.expire_tokens()
        urls = []
        for _ in range(2):
            with pytest.raises(tc.AuthError) as caught:
                await sign_in(server, person(store=store, interact=None))
            urls.append(str(caught.value.authorization_url))

        assert "localhost" in await agree(urls[1]) or "127.0.0.1" in await agree(urls[1])
        with pytest.raises(ValueError, match="Unknown client"):
            await agree(urls[0])


async def test_tokens_of_a_client_whose_secret_has_expired_cannot_be_renewed() -> None:
    async with AuthorizationServer(registered_method="client_secret_basic", secret_seconds=3600) as server:
        store = tc.MemoryTokenStore()
        await sign_in(server, person(store=store))
        before = await person(store=store).status(server.url)
        stored = json.loads(await store.load(server.url) or "")
        stored["clients"][0]["secret_expires_at"] = 1.0
        await store.save(server.url, json.dumps(stored))
        after = await person(store=store).status(server.url)

    assert before is not None and before.can_renew
    assert after is not None and not after.can_renew


async def test_a_registered_client_is_used_again_while_its_sign_ins_succeed() -> None:
    async with AuthorizationServer(refresh_tokens="none") as server:
        store = tc.MemoryTokenStore()
        for _ in range(3):
            await sign_in(server, person(store=store))
            server.expire_tokens()

    assert server.counters["register"] == 1
    assert len(clients(server)) == 3


async def test_more_scopes_are_requested_by_the_same_client() -> None:
    async with AuthorizationServer() as server, tc.Client(server.url, auth=person()) as client:
        await client.call_tool("write", {"text": "hi"})

    assert server.counters["register"] == 1
    assert len(clients(server)) == 2
    assert len(set(clients(server))) == 1


async def test_a_refused_request_for_more_scopes_leaves_the_tokens_renewable() -> None:
    async with AuthorizationServer() as server:
        auth = person()
        async with tc.Client(server.url, auth=auth) as client:
            await client.call_tool("echo", {"text": "hi"})
            server.change(consent="denied")
            with pytest.raises(tc.AuthError):
                await client.call_tool("write", {"text": "hi"})
            server.expire_tokens()
            await client.call_tool("echo", {"text": "hi"})

    assert server.seen("token")[-1].params["grant_type"] == "refresh_token"
    assert server.counters["register"] == 1


async def test_a_client_with_an_expired_secret_is_registered_anew() -> None:
    async with AuthorizationServer(registered_method="client_secret_basic", secret_seconds=3600) as server:
        store = tc.MemoryTokenStore()
        await sign_in(server, person(store=store))
        stored = json.loads(await store.load(server.url) or "")
        assert stored["clients"][0]["secret_expires_at"] > 3600
        stored["clients"][0]["secret_expires_at"] = 3600.0
        await store.save(server.url, json.dumps(stored))
        server.expire_tokens()
        await sign_in(server, person(store=store))

    assert server.counters["register"] == 2
    assert server.counters["token"] == 2  # the expired secret was not presented
    assert len(set(clients(server))) == 2


async def test_a_registration_that_led_to_no_token_is_not_used_again() -> None:
    async with AuthorizationServer(consent="denied") as server:
        store = tc.MemoryTokenStore()
        with pytest.raises(tc.AuthError, match="access_denied"):
            await sign_in(server, person(store=store))
        server.change(consent="granted")
        await sign_in(server, person(store=store))

    assert server.counters["register"] == 2


async def test_a_registration_whose_tokens_were_revoked_is_not_used_again() -> None:
    async with AuthorizationServer() as server:
        auth = person()
        await sign_in(server, auth)
        server.revoke_all()
        await sign_in(server, auth)

    assert server.counters["register"] == 2


async def test_tokens_and_registration_are_forgotten_together() -> None:
    async with AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        auth = person(store=store)
        await sign_in(server, auth)
        assert await auth.forget(server.url) is True
        assert await store.load(server.url) is None
        assert await auth.forget(server.url) is False
        await sign_in(server, auth)

    assert server.counters["register"] == 2


# ---- how a configured client proves who it is ------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, secret, supported",
    [
        ("client_secret_basic", "p:w +%ü", None),
        ("client_secret_basic", "s", ["client_secret_post", "client_secret_basic"]),
        ("client_secret_post", "p:w +%ü", ["client_secret_post"]),
        ("none", None, None),
    ],
)
async def test_a_configured_client_uses_basic_if_it_has_a_secret_and_nothing_else_is_said(
    method: str, secret: str | None, supported: list[str] | None
) -> None:
    async with AuthorizationServer(metadata_changes={"token_endpoint_auth_methods_supported": supported}) as server:
        server.add_client("mine:+", method, secret=secret, redirect_uris=(REDIRECT,))
        auth = person(client_id="mine:+", client_secret=secret)
        await sign_in(server, auth)
        server.expire_tokens()
        await sign_in(server, auth)
        await auth.logout(server.url)

    assert server.counters["token"] == 2
    assert server.counters["authorize"] == 1


async def test_a_key_signs_with_an_algorithm_of_the_server_also_after_a_restart() -> None:
    key = RSAKey.generate_key(2048)
    algorithms = {"token_endpoint_auth_signing_alg_values_supported": ["PS256"]}
    async with AuthorizationServer(metadata_changes=algorithms) as server:
        public = RSAKey.import_key(key.as_dict(private=False))
        server.add_client("mine", "private_key_jwt", public_key=public, redirect_uris=(REDIRECT,))
        options = {"client_id": "mine", "private_key": key.as_dict(private=True), "store": tc.MemoryTokenStore()}
        await sign_in(server, person(**options))
        server.expire_tokens()
        await sign_in(server, person(**options))
        await person(**options).logout(server.url)

    requests = [*server.seen("token"), *server.seen("revoke")]
    assert [each.params.get("grant_type") for each in requests[:2]] == ["authorization_code", "refresh_token"]
    headers = [each.params["client_assertion"].partition(".")[0] for each in requests]
    assert len(headers) > 2
    assert {json.loads(base64.urlsafe_b64decode(each + "=="))["alg"] for each in headers} == {"PS256"}
    assert server.counters["authorize"] == 1
