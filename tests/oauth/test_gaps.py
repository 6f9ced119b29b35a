"""Tests for the gaps of requirements 32 to 59: they fail on d042d2f and pass with the proposed patch."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree, query_of
from toolcrib.oauth.account import Account
from toolcrib.oauth.authorizer import Authorizer
from toolcrib.oauth.loopback_listener import LoopbackListener
from toolcrib.oauth.request_authorizer import Outgoing, Refusal
from toolcrib.oauth.stored_sign_in import Grant
from toolcrib.provider import Provider

BOUND = 20.0
REDIRECTS = ("http://127.0.0.1:41765/callback",)


class Person:
    def __init__(self) -> None:
        self.urls: list[str] = []

    async def __call__(self, url: str) -> str:
        self.urls.append(url)
        return await agree(url)


async def call(client: tc.Client, name: str = "whoami", **arguments: Any) -> str:
    return (await client.call_tool(name, arguments)).text


async def connect_and_call(url: str, auth: Any) -> str:
    async with tc.Client(url, auth=auth) as client:
        return await call(client)


# ---- test_programs.py


async def test_programs_that_start_together_share_one_token() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        server.add_client("ci", "client_secret_basic", secret="secret")
        auth = tc.ClientCredentials(issuer=server.issuer, client_id="ci", client_secret="secret")
        assert await asyncio.gather(*(connect_and_call(server.url, auth) for _ in range(6))) == ["ci"] * 6
    assert server.counters["token"] == 1


def test_assertions_are_not_in_the_reprs_of_the_parts_of_a_provider() -> None:
    given: dict[str, Any] = {"issuer": "https://login.example", "client_id": "app"}
    workload = tc.JwtBearer(**given, assertion="CANARY")
    app = tc.CrossAppAccess(**given, idp_issuer="https://idp.example", idp_client_id="app", subject_token="CANARY")
    assert "CANARY" not in repr(vars(workload)) + repr(vars(app))


def test_the_token_endpoint_of_an_identity_provider_must_be_secure() -> None:
    with pytest.raises(tc.ConfigError, match="idp_token_endpoint: expected an https URL"):
        tc.CrossAppAccess(
            issuer="https://login.example",
            client_id="app",
            idp_issuer="https://idp.example",
            idp_client_id="app",
            idp_token_endpoint="http://idp.example/token",
            subject_token="token",
        )


# ---- test_renewing.py


async def test_clients_with_other_ids_keep_their_own_tokens_in_one_store() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store, persons = tc.MemoryTokenStore(), (Person(), Person())
        providers = []
        for name, person in zip("ab", persons, strict=True):
            server.add_client(name, redirect_uris=REDIRECTS)
            providers.append(tc.OAuth(client_id=name, interact=person, store=store))
        for _ in range(3):
            for auth in providers:
                await connect_and_call(server.url, auth)
            server.expire_tokens()
        assert [len(each.urls) for each in persons] == [1, 1]
        assert {each.params["client_id"] for each in server.seen("token")} == {"a", "b"}
        statuses = [await auth.status(server.url) for auth in providers]
        assert [each and each.client_id for each in statuses] == ["a", "b"]


async def test_tokens_of_a_former_issuer_are_not_used_when_those_of_the_present_one_are_revoked() -> None:
    async with AuthorizationServer(requires_resource=False) as old, AuthorizationServer() as server:
        async with asyncio.timeout(BOUND):
            person = Person()
            auth = tc.OAuth(interact=person, store=tc.MemoryTokenStore())
            server.trusted.append(old)
            server.change(authorization_servers=(old.issuer,))
            await connect_and_call(server.url, auth)
            server.trusted.clear()
            server.change(authorization_servers=(server.issuer,))
            await connect_and_call(server.url, auth)
            before = len(old.requests)
            server.revoke_all()
            await connect_and_call(server.url, auth)
        assert len(old.requests) == before
        assert [each.startswith(server.issuer) for each in person.urls] == [False, True, True]


async def test_a_secret_goes_only_to_the_issuer_that_it_is_configured_for() -> None:
    async with AuthorizationServer(requires_resource=False) as old, AuthorizationServer() as server:
        async with asyncio.timeout(BOUND):
            for each, secret in ((old, "old"), (server, "CANARY")):
                each.change(metadata_changes={"token_endpoint_auth_methods_supported": ["client_secret_post"]})
                each.add_client("app", "client_secret_post", secret=secret, redirect_uris=REDIRECTS)
            store, given = tc.MemoryTokenStore(), {"client_id": "app", "interact": agree}
            server.trusted.append(old)
            server.change(authorization_servers=(old.issuer,))
            await connect_and_call(server.url, tc.OAuth(client_secret="old", store=store, **given))
            server.change(authorization_servers=(server.issuer,))
            old.expire_tokens()
            auth = tc.OAuth(client_secret="CANARY", issuer=server.issuer, store=store, **given)
            await connect_and_call(server.url, auth)
            await asyncio.gather(auth.logout(server.url), return_exceptions=True)
        assert not [each for each in old.requests if "CANARY" in str(each.params)]


async def test_new_tokens_are_used_even_if_they_cannot_be_stored() -> None:
    class FullStore(tc.MemoryTokenStore):
        is_full = False

        async def save(self, key: str, text: str) -> None:
            if self.is_full:
                raise tc.ConfigError("store: the disk is full")
            await super().save(key, text)

    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store, person = FullStore(), Person()
        async with tc.Client(server.url, auth=tc.OAuth(interact=person, store=store)) as client:
            await call(client)
            server.expire_tokens()
            store.is_full = True
            with pytest.raises(tc.ConfigError, match="disk is full"):
                await call(client)
            assert await call(client) == "alice"
        assert len(person.urls) == 1 and list(server.presentations.values()) == [1]


async def test_a_caller_that_gives_up_does_not_bring_back_an_earlier_failure() -> None:
    account = Account("https://tools.example/mcp", "", tc.MemoryTokenStore(), is_loaded=True)
    answered = asyncio.Event()

    class Flow:
        asked = 0

        async def renew(self, used: Grant) -> Grant | None:
            return None

        async def sign_in(self, *_: Any, **__: Any) -> Grant:
            self.asked += 1
            if self.asked == 1:
                raise tc.AuthError("refused")
            await answered.wait()
            return Grant("https://login.example", "app", "token")

    flow = Flow()
    authorizer = Authorizer(account, flow)
    given: tuple[Any, Any, Any] = (Outgoing("POST", account.server, {}, b""), Refusal(401, []), {})
    with pytest.raises(tc.AuthError, match="refused"):
        await authorizer.renew(*given, authorizer.rounds, 1)
    since = authorizer.rounds  # two requests are sent
    first = asyncio.create_task(authorizer.renew(*given, since, 1))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    second = asyncio.create_task(authorizer.renew(*given, since, 1))
    await asyncio.sleep(0)
    answered.set()
    assert await second == {"Authorization": "Bearer token"}
    assert flow.asked == 2


# ---- test_asking_a_person.py


async def test_a_new_redirect_uri_leads_to_a_new_registration() -> None:
    async with AuthorizationServer(exact_redirects=True) as server, asyncio.timeout(BOUND):
        store, person = tc.MemoryTokenStore(), Person()
        uris = [f"http://127.0.0.1:{port}/callback" for port in (41001, 41002)]
        for uri, tool in zip(uris, ("echo", "write"), strict=True):  # the second one needs another scope
            auth = tc.OAuth(interact=person, store=store, redirect_uri=uri)
            async with tc.Client(server.url, auth=auth) as client:
                await call(client, tool, text="x")
        assert [query_of(each)["redirect_uri"] for each in person.urls] == uris


async def test_the_status_says_that_a_person_is_asked() -> None:
    reached, released = asyncio.Event(), asyncio.Event()

    async def person(url: str) -> str:
        reached.set()
        await released.wait()
        return await agree(url)

    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        client = tc.Client(server.url, auth=tc.OAuth(interact=person, store=tc.MemoryTokenStore()))
        connecting = asyncio.create_task(client.connect())
        await reached.wait()
        assert client.status == "connecting" and "waiting for a person to sign in" in client.status.reason
        released.set()
        await connecting
        assert client.status == "connected" and not client.status.reason
        await client.close()


async def test_a_provider_opens_no_browser_and_stores_no_client_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    config = {"client_id": "app", "client_secret": "CANARY"}
    async with AuthorizationServer() as server:
        with pytest.raises(tc.ConfigError, match="oauth"):
            async with asyncio.timeout(3), Provider(tmp_path / "provider.db") as provider:
                await provider.add_source("s", tc.HttpServer(server.url, oauth=config))
    assert opened == []
    assert not [each for each in tmp_path.glob("provider.db*") if b"CANARY" in each.read_bytes()]


# ---- test_loopback_listener.py


@pytest.mark.parametrize("target", ["//[", "http://[/callback"])
async def test_a_target_that_is_no_url_is_not_found(target: str) -> None:
    listener = await LoopbackListener.open()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(listener.redirect_uri).port)
        writer.write(f"GET {target} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 404 ")
        writer.close()
    finally:
        await listener.close()


async def test_the_listener_has_the_address_of_the_redirect_uri() -> None:
    first = await LoopbackListener.open()
    port = urlsplit(first.redirect_uri).port
    await first.close()
    listener = await LoopbackListener.open(f"http://[::1]:{port}/callback")
    try:
        _, writer = await asyncio.open_connection("::1", port)
        writer.close()
    finally:
        await listener.close()


# ---- test_token_store.py


async def test_a_cancelled_write_ends_before_the_lock_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("key", "{}")
    began, released, fsync = threading.Event(), threading.Event(), os.fsync

    def wait(descriptor: int) -> None:
        began.set()
        released.wait(BOUND)
        fsync(descriptor)

    async def write() -> None:
        async with store.lock("key"):
            await store.save("key", '{"new": 1}')

    async def read() -> str | None:
        async with store.lock("key"):
            return await store.load("key")

    monkeypatch.setattr(os, "fsync", wait)
    writing = asyncio.create_task(write())
    await asyncio.to_thread(began.wait, BOUND)
    writing.cancel()
    reading = asyncio.create_task(read())
    await asyncio.wait([reading], timeout=0.2)
    released.set()
    assert await reading == '{"new": 1}'
    with pytest.raises(asyncio.CancelledError):
        await writing


async def test_a_process_that_was_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    async with store.lock("key"):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        async with asyncio.timeout(5), store.lock("key"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
