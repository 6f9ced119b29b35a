"""Tokens are renewed: once for all callers, without a person, and without losing them when a server fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree, query_of
from toolcrib.events import Event
from toolcrib.oauth.account import Account
from toolcrib.oauth.authorizer import Authorizer
from toolcrib.oauth.request_authorizer import Outgoing, Refusal
from toolcrib.oauth.stored_sign_in import StoredSignIn, TokenSet

BOUND = 20.0
REDIRECTS = ("http://127.0.0.1:27465/callback",)


class Person:
    """Agrees, and keeps the URLs that it was asked to open."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    @property
    def asked(self) -> int:
        return len(self.urls)

    async def __call__(self, url: str) -> str:
        self.urls.append(url)
        return await agree(url)


def sign_ins(store: tc.TokenStore | None = None) -> tuple[tc.OAuth, Person]:
    person = Person()
    return tc.OAuth(interact=person, store=store or tc.MemoryTokenStore()), person


def refreshes(server: AuthorizationServer) -> list[Any]:
    return [each for each in server.seen("token") if each.params.get("grant_type") == "refresh_token"]


async def call(client: tc.Client, text: str = "x", **options: Any) -> str:
    return (await client.call_tool("echo", {"text": text}, **options)).text


async def connect_and_call(url: str, auth: tc.OAuth) -> str:
    async with tc.Client(url, auth=auth) as client:
        return await call(client)


async def reach(count: int, gate: Any) -> None:
    """Wait until a number of requests wait at a gate."""
    async with asyncio.timeout(BOUND):
        while gate.waiting < count:
            await asyncio.sleep(0.005)


async def test_calls_with_a_valid_token_run_at_the_same_time() -> None:
    async with AuthorizationServer() as server:
        oauth, person = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            assert await call(client) == "x"
            gate = server.hold("mcp")
            calls = [asyncio.create_task(call(client, str(n))) for n in range(64)]
            await reach(64, gate)  # all of them have arrived before any is answered
            gate.open()
            assert await asyncio.gather(*calls) == [str(n) for n in range(64)]
        assert person.asked == 1
        assert refreshes(server) == []


async def test_a_valid_token_needs_no_lock_and_no_access_to_the_store() -> None:
    class CountingStore(tc.MemoryTokenStore):
        used = 0

        async def load(self, key: str) -> str | None:
            self.used += 1
            return await super().load(key)

        def lock(self, key: str) -> Any:
            self.used += 1
            return super().lock(key)

    async with AuthorizationServer() as server:
        store = CountingStore()
        oauth, _ = sign_ins(store)
        async with tc.Client(server.url, auth=oauth) as client:
            await call(client)
            before = store.used
            await asyncio.gather(*(call(client) for _ in range(20)))
            assert store.used == before


@pytest.mark.parametrize("expired", [False, True], ids=["refused by the server", "expired by the clock"])
async def test_a_hundred_callers_cause_one_refresh(expired: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AuthorizationServer() as server:
        oauth, person = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            old = server.seen("mcp")[-1].header("authorization")
            server.requests.clear()
            server.expire_tokens()
            if expired:
                let_time_pass(monkeypatch, 7200)
            results = await asyncio.gather(*(call(client, str(n)) for n in range(100)))
            assert results == [str(n) for n in range(100)]
        sent = {each.header("authorization") for each in server.seen("mcp")}
        assert (old in sent) is not expired
        assert len(refreshes(server)) == 1
        assert person.asked == 1
        assert server.counters["authorize"] == 1


def let_time_pass(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the wall clock and the monotonic clock of the client's tokens go on."""
    wall, monotonic = time.time, time.monotonic
    target = "toolcrib.oauth.stored_sign_in.time"
    monkeypatch.setattr(target, Clock(lambda: wall() + seconds, lambda: monotonic() + seconds))
    monkeypatch.setattr("toolcrib.oauth.authorizer.time", Clock(lambda: wall() + seconds, monotonic))
    monkeypatch.setattr("toolcrib.oauth.token_requests.time", Clock(lambda: wall() + seconds, monotonic))


class Clock:
    """Stands in for the module `time`."""

    def __init__(self, wall: Any, monotonic: Any) -> None:
        self.time = wall
        self.monotonic = monotonic


async def test_a_cancelled_caller_cancels_nothing_of_the_others() -> None:
    async with AuthorizationServer() as server:
        oauth, person = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            server.expire_tokens()
            gate = server.hold("token")
            calls = [asyncio.create_task(call(client, str(n))) for n in range(5)]
            await gate.reached.wait()
            calls[0].cancel()  # it started the refresh, or another one did
            calls[1].cancel()
            with pytest.raises(tc.CallTimeout):
                await call(client, timeout=0.05)
            gate.open()
            results = await asyncio.gather(*calls, return_exceptions=True)
            assert results[2:] == ["2", "3", "4"]
            assert all(isinstance(each, asyncio.CancelledError) for each in results[:2])
        assert len(refreshes(server)) == 1
        assert person.asked == 1


async def test_calls_that_were_answered_meanwhile_are_not_touched() -> None:
    async with AuthorizationServer() as server:
        oauth, _ = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            before = server.counters["mcp"]
            gate = server.hold("echo")
            early = asyncio.create_task(call(client, "early"))
            await gate.reached.wait()
            server.expire_tokens()
            server.hold("echo").open()  # only the first call waits
            assert await call(client, "late") == "late"
            gate.open()
            assert await early == "early"
            assert server.counters["mcp"] == before + 3  # the late one was refused once
        assert len(refreshes(server)) == 1


async def test_a_refused_token_is_refreshed_first_and_a_person_is_asked_only_if_that_fails() -> None:
    async with AuthorizationServer() as server:
        oauth, person = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            server.expire_tokens()
            assert await call(client) == "x"
            assert (len(refreshes(server)), person.asked) == (1, 1)
            server.revoke_all()
            assert await call(client) == "x"
            assert (len(refreshes(server)), person.asked) == (2, 2)
            assert max(server.presentations.values()) == 1


async def test_the_refresh_request_names_the_resource_and_asks_for_no_scopes() -> None:
    async with AuthorizationServer() as server:
        oauth, _ = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            server.expire_tokens()
            await call(client)
        (request,) = refreshes(server)
        assert request.params["resource"] == server.resource
        assert "scope" not in request.params
        assert request.header("cookie") is None
        assert request.header("mcp-session-id") is None


async def test_a_token_of_another_client_that_expired_meanwhile_is_refreshed_without_a_person() -> None:
    async with AuthorizationServer(expires_in="absent") as server:
        store = tc.MemoryTokenStore()
        first, _ = sign_ins(store)
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=first) as client:
            await call(client)
            second, person = sign_ins(store)
            async with tc.Client(server.url, auth=second) as other:
                await call(other)
                server.expire_tokens()
                await call(other)
                server.expire_tokens()
                # The first client finds the newer token of the other one, which is refused as well.
                assert await call(client) == "x"
            assert person.asked == 0
        assert len(refreshes(server)) == 2
        assert server.counters["authorize"] == 1


@pytest.mark.parametrize("was_lost", [False, True], ids=["connected", "after the connection was lost"])
async def test_a_client_that_is_closed_during_a_renewal_keeps_the_new_tokens(was_lost: bool) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store = tc.MemoryTokenStore()
        oauth, person = sign_ins(store)
        client = await tc.Client(server.url, auth=oauth).connect()
        await call(client)
        server.expire_tokens()
        gate = server.hold("token-after")
        calling = asyncio.create_task(call(client))
        await gate.reached.wait()
        if was_lost:
            await lose_connection(client)  # a close then cancels the task that ends it
        closing = asyncio.create_task(client.close())
        with pytest.raises(tc.ToolcribError):
            await calling
        assert not closing.done()
        gate.open()
        await closing
        (family,) = server.families.values()
        assert family.tokens[-1] in str(await store.load(server.url))

        server.expire_tokens()
        other, next_person = sign_ins(store)
        assert await connect_and_call(server.url, other) == "x"
        assert set(server.presentations.values()) == {1}
        assert (person.asked, next_person.asked) == (1, 0)


async def lose_connection(client: tc.Client) -> None:
    """Let the connection fail, and wait until its end has begun."""
    supervisor = client._supervisor
    assert supervisor.session is not None
    supervisor._lose(supervisor.session, tc.TransportError("lost"))
    while not supervisor._closings:  # bounded by the time-out of the test
        await asyncio.sleep(0.005)


async def test_a_close_does_not_wait_for_the_lock_of_another_process(tmp_path: Path) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store = WatchedStore(tmp_path / "tokens")
        oauth, _ = sign_ins(store)
        client = await tc.Client(server.url, auth=oauth).connect()
        await call(client)
        server.expire_tokens()
        async with tc.FileTokenStore(store.folder).lock(server.url):  # as another process does
            store.waits.clear()
            calling = asyncio.create_task(call(client))
            await store.waits.wait()
            async with asyncio.timeout(5):
                await client.close()
            with pytest.raises(tc.ToolcribError):
                await calling
        assert refreshes(server) == []


class WatchedStore(tc.FileTokenStore):
    """Tells when its lock is requested."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.waits = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        self.waits.set()
        async with super().lock(key):
            yield


async def test_a_caller_that_gives_up_does_not_bring_back_an_earlier_failure() -> None:
    account = Account("https://tools.example/mcp", "", tc.MemoryTokenStore(), is_loaded=True)
    answered = asyncio.Event()

    class Flow:
        asked = 0

        async def renew(self, used: TokenSet) -> TokenSet | None:
            return None

        async def sign_in(self, *_: Any, **__: Any) -> TokenSet:
            self.asked += 1
            if self.asked == 1:
                raise tc.AuthError("refused")
            await answered.wait()
            return TokenSet("https://login.example", "app", "token")

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


async def test_a_close_waits_for_a_renewal_as_long_as_its_request_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcrib.oauth.authorizer.REQUEST_TIMEOUT", 0.05)
    expired = TokenSet("https://login.example", "app", "token", expires_at=1.0)
    account = Account("https://tools.example/mcp", "", tc.MemoryTokenStore(), tokens=expired, is_loaded=True)
    began, cancelled = asyncio.Event(), asyncio.Event()

    class Flow:
        async def renew(self, used: TokenSet) -> TokenSet | None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return None

        async def sign_in(self, *_: Any, **__: Any) -> TokenSet:
            raise AssertionError

    authorizer = Authorizer(account, Flow())
    calling = asyncio.create_task(authorizer.headers(Outgoing("POST", account.server, {}, b"")))
    await began.wait()
    async with asyncio.timeout(2):
        await authorizer.close()
        await cancelled.wait()
    with pytest.raises(tc.AuthError, match="the connection was closed"):
        await calling


async def test_a_refused_consent_is_not_the_failure_of_a_call_whose_token_has_expired() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        oauth, _ = sign_ins()
        async with tc.Client(server.url, auth=oauth) as client:
            await call(client)
            gate = server.hold("mcp")
            reading = asyncio.create_task(call(client))
            await gate.reached.wait()
            server.hold("mcp").open()  # only the first call waits
            server.change(consent="denied")
            with pytest.raises(tc.AuthError, match="access_denied"):
                await client.call_tool("write", {"text": "x"})
            server.expire_tokens()
            gate.open()
            assert await reading == "x"
        assert len(refreshes(server)) == 1


@pytest.mark.parametrize("clients", [1, 2])
async def test_two_calls_that_need_different_scopes_at_once_get_both(clients: int) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        oauth, person = sign_ins()
        async with tc.Client(server.url, auth=oauth) as first, tc.Client(server.url, auth=oauth) as other:
            second = first if clients == 1 else other
            await asyncio.gather(call(first), call(second))
            gate = server.hold("authorize")
            calls = [asyncio.create_task(first.call_tool("write", {"text": "1"}))]
            await gate.reached.wait()
            server.change(write_scope="mcp:other")
            calls.append(asyncio.create_task(second.call_tool("write", {"text": "2"})))
            while len(writes(server)) < 2:  # bounded by the time-out above
                await asyncio.sleep(0.005)
            server.change(write_scope="mcp:write")
            gate.open()
            await asyncio.gather(*calls)
            assert [query_of(url)["scope"].split() for url in person.urls] == [
                ["mcp:read"],
                ["mcp:read", "mcp:write"],
                ["mcp:read", "mcp:write", "mcp:other"],
            ]
            server.change(write_scope="mcp:write mcp:other")
            await first.call_tool("write", {"text": "3"})
        assert person.asked == 3


def writes(server: AuthorizationServer) -> list[Any]:
    calls = [each for each in server.seen("mcp") if each.params.get("method") == "tools/call"]
    return [each for each in calls if each.params["params"]["name"] == "write"]


# ---- failures of the authorisation server ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        {"status": 503},
        {"status": 500},
        {"status": 429, "Retry_After": "0"},
        {"status": 400, "error": "temporarily_unavailable"},
        {"status": 503, "error": "invalid_grant"},
    ],
    ids=["503", "500", "429", "temporarily_unavailable", "503 with invalid_grant"],
)
async def test_a_server_that_fails_for_a_moment_is_asked_again_within_the_deadline(failure: dict[str, Any]) -> None:
    async with AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        oauth, person = sign_ins(store)
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            server.expire_tokens()
            server.fail_next("token", times=2, **failure)
            assert await call(client, timeout=15) == "x"
        assert person.asked == 1
        assert len(refreshes(server)) == 3


@pytest.mark.parametrize(
    "failure",
    [
        {"status": 503},
        {"status": 429},
        {"status": 400, "error": "invalid_request"},
        {"status": 400, "error": "slow_down"},
    ],
    ids=["503", "429", "invalid_request", "slow_down"],
)
async def test_tokens_are_kept_while_the_server_fails(failure: dict[str, Any]) -> None:
    async with AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        oauth, person = sign_ins(store)
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            stored = await store.load(server.url)
            server.expire_tokens()
            server.fail_next("token", times=10_000, **failure)
            with pytest.raises((tc.ConnectError, tc.AuthError, tc.CallTimeout)):
                await call(client, timeout=0.5)
            assert await store.load(server.url) == stored
            assert person.asked == 1
            server.fail_next("token", times=0)
            assert await call(client, timeout=15) == "x"
            assert person.asked == 1


class BreakingProxy:
    """Forwards one request for each connection to a port; the first ones are closed when a request has arrived."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.breaks = 0

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *exc: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if self.breaks:
            self.breaks -= 1
            writer.close()
            return
        body = await reader.readexactly(int(head.partition(b"Content-Length: ")[2].split()[0]))
        back, forth = await asyncio.open_connection("127.0.0.1", self._port)
        line, _, rest = head.partition(b"\r\n")
        forth.write(line + b"\r\nConnection: close\r\n" + rest + body)
        writer.write(await back.read())
        writer.close()
        forth.close()


async def test_a_connection_to_the_token_endpoint_that_breaks_is_tried_again_within_the_deadline() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        proxy = BreakingProxy(server.port)
        async with proxy as address:
            server.change(metadata_changes={"token_endpoint": f"{address}/token"})
            oauth, person = sign_ins()
            async with tc.Client(server.url, auth=oauth) as client:
                await call(client)
                server.expire_tokens()
                proxy.breaks = 2
                assert await call(client, timeout=15) == "x"
        assert proxy.breaks == 0
        assert len(refreshes(server)) == person.asked == 1


async def test_tokens_are_kept_while_the_authorisation_server_cannot_be_reached() -> None:
    store = tc.MemoryTokenStore()
    oauth, person = sign_ins(store)
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        async with AuthorizationServer(requires_resource=False) as issuer:
            server.trusted.append(issuer)
            server.change(authorization_servers=(issuer.issuer,))
            await connect_and_call(server.url, oauth)
        before = await store.load(server.url)
        issuer.expire_tokens()
        with pytest.raises(tc.ConnectError, match=f"{issuer.issuer}/token"):
            await connect_and_call(server.url, oauth)
        assert await store.load(server.url) == before
    assert person.asked == 1


async def test_tokens_are_removed_on_invalid_grant() -> None:
    async with AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        oauth, _ = sign_ins(store)
        async with tc.Client(server.url, auth=oauth) as client:
            await call(client)
        server.revoke_all()
        silent = tc.OAuth(interact=None, store=store)
        with pytest.raises(tc.AuthError) as caught:
            async with asyncio.timeout(BOUND), tc.Client(server.url, auth=silent) as client:
                await call(client)
        assert caught.value.authorization_url is not None
        assert await silent.status(server.url) is None
        assert max(server.presentations.values()) == 1


class FullStore(tc.MemoryTokenStore):
    """Cannot be written while it is full."""

    is_full = False

    async def save(self, key: str, text: str) -> None:
        if self.is_full:
            raise tc.ConfigError("store: the disk is full")
        await super().save(key, text)


async def fail_to_store(server: AuthorizationServer, client: tc.Client, store: FullStore) -> None:
    """Call, and call again with a token that has expired; the new ones cannot be stored."""
    await call(client)
    server.expire_tokens()
    store.is_full = True
    with pytest.raises(tc.ConfigError, match="disk is full"):
        await call(client)


async def test_new_tokens_are_used_even_if_they_cannot_be_stored() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store = FullStore()
        auth, person = sign_ins(store)
        async with tc.Client(server.url, auth=auth) as client:
            await fail_to_store(server, client, store)
            assert await call(client) == "x"
        assert person.asked == 1 and list(server.presentations.values()) == [1]


async def test_tokens_that_could_not_be_stored_are_forgotten_too() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store = FullStore()
        auth, _ = sign_ins(store)
        gate = server.hold("token")
        connecting = asyncio.create_task(connect_and_call(server.url, auth))
        await gate.reached.wait()
        store.is_full = True
        gate.open()
        with pytest.raises(tc.ConfigError, match="disk is full"):
            await connecting
        assert await auth.status(server.url) is not None
        await auth.forget(server.url)
        assert await auth.status(server.url) is None


async def test_a_refresh_token_whose_successor_could_not_be_stored_is_not_used_again() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store = FullStore()
        auth, person = sign_ins(store)
        async with tc.Client(server.url, auth=auth) as client:
            await fail_to_store(server, client, store)
            store.is_full = False
            assert await auth.status(server.url) is not None  # reads the store, which has the used one
            server.expire_tokens()
            assert await call(client) == "x"

            server.expire_tokens()
            assert await connect_and_call(server.url, tc.OAuth(interact=None, store=store)) == "x"  # it is stored now
            assert await call(client) == "x"  # and what another process stored is used
        assert person.asked == 1
        assert list(server.presentations.values()) == [1, 1, 1]
        assert not any(each.is_revoked for each in server.families.values())


async def test_tokens_that_another_process_stores_replace_those_that_could_not_be_stored() -> None:
    store, server = FullStore(), "https://tools.example/mcp"
    first, second, third = (
        StoredSignIn(server).with_tokens(TokenSet("https://login.example", "app", name)) for name in ("1", "2", "3")
    )
    account, other = (Account(server, "", store) for _ in range(2))
    await account.save(first)
    store.is_full = True
    with pytest.raises(tc.ConfigError, match="disk is full"):
        await account.save(second)
    assert (await account.load()).token_sets == second.token_sets
    store.is_full = False
    await other.save(third)
    assert (await account.load()).token_sets == third.token_sets


@pytest.mark.parametrize("error", ["unauthorized_client", "unsupported_grant_type", "bad_refresh_token"])
async def test_a_client_that_may_not_refresh_leads_to_a_sign_in(error: str) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        oauth, person = sign_ins()
        async with tc.Client(server.url, auth=oauth) as client:
            await call(client)
            server.expire_tokens()
            server.fail_next("token", status=400, error=error)
            assert await call(client) == "x"
        assert person.asked == 2
        assert len(refreshes(server)) == 1


@pytest.mark.parametrize("error", ["invalid_scope", "invalid_target", "invalid_request"])
async def test_another_refusal_of_a_refresh_is_reported_and_leads_to_no_sign_in(error: str) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        oauth, person = sign_ins()
        async with tc.Client(server.url, auth=oauth) as client:
            await call(client)
            server.expire_tokens()
            server.fail_next("token", status=400, error=error)
            with pytest.raises(tc.AuthError, match=error):
                await call(client)
            assert await call(client) == "x"
        assert person.asked == 1


# ---- several clients and issuers ----------------------------------------------------------------------------------


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
        assert [each.asked for each in persons] == [1, 1]
        assert {each.params["client_id"] for each in server.seen("token")} == {"a", "b"}
        statuses = [await auth.status(server.url) for auth in providers]
        assert [each and each.client_id for each in statuses] == ["a", "b"]


@pytest.mark.parametrize("expired", [False, True], ids=["valid", "expired"])
async def test_tokens_of_another_issuer_than_the_configured_one_are_not_used(expired: bool) -> None:
    async with AuthorizationServer(requires_resource=False) as other, AuthorizationServer() as server:
        async with asyncio.timeout(BOUND):
            store, person = tc.MemoryTokenStore(), Person()
            server.trusted.append(other)
            server.change(authorization_servers=(other.issuer,))
            await connect_and_call(server.url, sign_ins(store)[0])
            if expired:
                other.expire_tokens()
            asked, sent = dict(other.counters), len(server.seen("mcp"))

            server.change(authorization_servers=(other.issuer, server.issuer))
            auth = tc.OAuth(issuer=server.issuer, interact=person, store=store)
            assert await auth.status(server.url) is None
            await connect_and_call(server.url, auth)
            status = await auth.status(server.url)
        assert status is not None and status.issuer == server.issuer
        assert [each.startswith(server.issuer) for each in person.urls] == [True]
        assert dict(other.counters) == asked
        sent_headers = {each.header("authorization") for each in server.seen("mcp")[sent:]}
        assert not sent_headers & {f"Bearer {each}" for each in other.tokens.access}


async def test_a_renewal_at_a_chosen_issuer_leaves_that_of_the_last_sign_in_the_default() -> None:
    async with AuthorizationServer(requires_resource=False) as chosen, AuthorizationServer() as server:
        async with asyncio.timeout(BOUND):
            store = tc.MemoryTokenStore()
            server.trusted.append(chosen)
            server.change(authorization_servers=(chosen.issuer, server.issuer))
            auth = tc.OAuth(issuer=chosen.issuer, interact=agree, store=store)
            await connect_and_call(server.url, auth)
            await connect_and_call(server.url, tc.OAuth(issuer=server.issuer, interact=agree, store=store))
            chosen.expire_tokens()
            await connect_and_call(server.url, auth)
            assert len(refreshes(chosen)) == 1

            other, person = sign_ins(store)
            await connect_and_call(server.url, other)
            status = await other.status(server.url)
        assert status is not None and status.issuer == server.issuer
        assert person.asked == 0


# ---- answers to refresh requests -------------------------------------------------------------------------------


async def test_what_a_refresh_answer_omits_stays() -> None:
    async with AuthorizationServer(omitted=("refresh_token", "scope", "expires_in")) as server:
        oauth, _ = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            for _ in range(2):
                server.expire_tokens()
                await call(client)
        status = await oauth.status(server.url)
        assert status is not None
        assert (status.scopes, status.expires_at, status.can_renew) == (("mcp:read",), None, True)
        assert list(server.presentations.values()) == [2]  # this server does not rotate them


@pytest.mark.parametrize(
    "behaviour",
    [
        {"expires_in": "text"},
        {"token_type": "bearer"},
        {"token_type": "BEARER"},
        {"token_status": 201},
        {"form_encoded": True},
        {"error_status": 200},
        {"token_changes": {"id_token": "x.y.z", "unknown": {"a": [1]}}},
    ],
    ids=lambda behaviour: next(iter(behaviour)),
)
async def test_odd_token_answers_are_understood(behaviour: dict[str, Any]) -> None:
    async with AuthorizationServer(**behaviour) as server:
        oauth, person = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            status = await oauth.status(server.url)
            assert status is not None
            assert status.expires_at == pytest.approx(time.time() + 3600, abs=60)
            server.expire_tokens()
            await call(client)
            assert (len(refreshes(server)), person.asked) == (1, 1)
            server.revoke_all()
            await call(client)  # also an error with status 200 is one
            assert (len(refreshes(server)), person.asked) == (2, 2)


# ---- time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("life, left, renews", [(3600, 59, True), (3600, 120, False), (100, 9, True), (100, 20, False)])
async def test_the_renewal_begins_in_the_background_while_the_old_token_is_used(
    life: float, left: float, renews: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with AuthorizationServer(access_token_seconds=life) as server:
        oauth, person = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            old = server.seen("mcp")[-1].header("authorization")
            gate = server.hold("token")
            let_time_pass(monkeypatch, life - left)
            assert await call(client, "at once") == "at once"
            assert server.seen("mcp")[-1].header("authorization") == old
            if renews:
                await gate.reached.wait()
                assert await asyncio.gather(*(call(client) for _ in range(10))) == ["x"] * 10
                assert server.seen("mcp")[-1].header("authorization") == old
                gate.open()
                while server.seen("mcp")[-1].header("authorization") == old:  # bounded by the time-out above
                    await call(client)
            else:
                gate.open()
        assert len(refreshes(server)) == int(renews)
        assert person.asked == 1


async def test_the_token_of_a_program_is_renewed_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        server.add_client("ci", "client_secret_basic", secret="secret")
        auth = tc.ClientCredentials(issuer=server.issuer, client_id="ci", client_secret="secret")
        async with tc.Client(server.url, auth=auth) as client:
            await call(client)
            old = server.seen("mcp")[-1].header("authorization")
            gate = server.hold("token")
            let_time_pass(monkeypatch, 3600 - 59)
            assert await call(client) == "x"
            await gate.reached.wait()
            assert await call(client) == "x"
            assert server.seen("mcp")[-1].header("authorization") == old
            gate.open()
            while server.seen("mcp")[-1].header("authorization") == old:  # bounded by the time-out above
                await call(client)
    assert server.counters["token"] == 2


@pytest.mark.parametrize("days", [1, -1, 400])
async def test_a_clock_that_jumps_causes_no_loop(days: float, monkeypatch: pytest.MonkeyPatch) -> None:
    async with AuthorizationServer() as server:
        oauth, person = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            wall, monotonic = time.time, time.monotonic
            jumped = Clock(lambda: wall() + days * 86_400, monotonic)
            for name in ("stored_sign_in", "authorizer", "token_requests"):
                monkeypatch.setattr(f"toolcrib.oauth.{name}.time", jumped)
            for n in range(20):
                assert await call(client, str(n)) == str(n)
        assert len(refreshes(server)) <= 1
        assert person.asked == 1


async def test_a_renewal_in_the_background_that_fails_is_logged_and_not_repeated_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with AuthorizationServer() as server:
        oauth, _ = sign_ins()
        async with asyncio.timeout(BOUND), tc.Client(server.url, auth=oauth) as client:
            await call(client)
            server.fail_next("token", times=100, status=400, error="invalid_request")
            let_time_pass(monkeypatch, 3590)
            for _ in range(30):
                assert await call(client) == "x"
        assert len(refreshes(server)) == 1
    assert [each for each in caplog.records if "in the background failed" in each.getMessage()]


async def test_a_rejected_request_of_a_program_is_not_repeated_in_the_background_for_the_same_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolcrib.oauth.authorizer.BACKGROUND_PAUSE", 0.0)
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        server.add_client("ci", "client_secret_basic", secret="secret")
        auth = tc.ClientCredentials(issuer=server.issuer, client_id="ci", client_secret="secret")
        async with tc.Client(server.url, auth=auth) as client:
            await call(client)
            server.fail_next("token", times=100, status=400, error="invalid_grant")
            let_time_pass(monkeypatch, 3590)
            while server.counters["token"] < 2:  # bounded by the time-out above
                await call(client)
            for _ in range(20):
                assert await call(client) == "x"
    assert server.counters["token"] == 2


# ---- the end of a sign-in --------------------------------------------------------------------------------------


@pytest.mark.parametrize("behaviour", [{}, {"revocation": False}, {"revokes_access_tokens": False}], ids=str)
async def test_logout_revokes_where_it_can_and_forgets(behaviour: dict[str, Any]) -> None:
    revocation = "revocation" not in behaviour
    async with AuthorizationServer(**behaviour) as server:
        store = tc.MemoryTokenStore()
        oauth, _ = sign_ins(store)
        async with tc.Client(server.url, auth=oauth) as client:
            await call(client)
        assert await oauth.logout(server.url)
        assert await oauth.status(server.url) is None
        assert await store.load(server.url) is None
        revoked = [each.params["token_type_hint"] for each in server.seen("revoke")]
        assert revoked == (["refresh_token", "access_token"] if revocation else [])
        assert all(each.is_revoked is revocation for each in server.families.values())
        assert not await oauth.logout(server.url)


async def test_a_renewal_that_ends_after_the_logout_began_leaves_no_tokens() -> None:
    async with AuthorizationServer() as server, asyncio.timeout(BOUND):
        store = tc.MemoryTokenStore()
        async with tc.Client(server.url, auth=sign_ins(store)[0]):
            pass
        silent = tc.OAuth(interact=None, store=store)
        async with tc.Client(server.url, auth=silent) as client:
            await call(client)
            server.expire_tokens()
            gate = server.hold("token-after")
            calling = asyncio.create_task(call(client))
            await gate.reached.wait()
            leaving = asyncio.create_task(silent.logout(server.url))
            await asyncio.sleep(0)  # it has begun
            gate.open()
            assert await leaving
            await asyncio.gather(calling, return_exceptions=True)
            assert await store.load(server.url) is None
        (family,) = server.families.values()
        assert family.is_revoked
        assert server.seen("revoke")[0].params["token"] == family.tokens[-1]


async def test_forget_makes_no_request() -> None:
    async with AuthorizationServer() as server:
        oauth, _ = sign_ins()
        async with tc.Client(server.url, auth=oauth) as client:
            await call(client)
        before = len(server.requests)
        assert await oauth.forget(server.url)
        assert not await oauth.forget(server.url)
        assert len(server.requests) == before
        assert await oauth.status(server.url) is None


async def test_tokens_are_forgotten_even_if_the_revocation_fails() -> None:
    async with AuthorizationServer() as server:
        oauth, _ = sign_ins()
        async with tc.Client(server.url, auth=oauth) as client:
            await call(client)
        server.fail_next("revoke", times=10, status=503)
        with pytest.raises((tc.AuthError, tc.ConnectError)):
            await oauth.logout(server.url)
        assert await oauth.status(server.url) is None


async def test_a_logout_goes_on_if_one_issuer_cannot_revoke() -> None:
    async with AuthorizationServer(requires_resource=False) as former, AuthorizationServer() as server:
        async with asyncio.timeout(BOUND):
            store = tc.MemoryTokenStore()
            oauth, _ = sign_ins(store)
            server.trusted.append(former)
            server.change(authorization_servers=(former.issuer,))
            await connect_and_call(server.url, oauth)
            server.trusted.clear()
            server.change(authorization_servers=(server.issuer,))
            await connect_and_call(server.url, oauth)
            server.fail_next("revoke", times=10)  # the issuer of the last sign-in, which is asked first
            with pytest.raises(tc.AuthError, match="the server did not revoke the tokens"):
                await oauth.logout(server.url)
        assert server.counters["revoke"] >= 1
        assert all(each.is_revoked for each in former.families.values())
        assert await store.load(server.url) is None


async def test_a_logout_sends_no_secret_to_the_issuer_of_another_client() -> None:
    async with AuthorizationServer(requires_resource=False) as former, AuthorizationServer() as server:
        async with asyncio.timeout(BOUND):
            store, oauth = tc.MemoryTokenStore(), None
            server.trusted.append(former)
            for each, name, secret in ((former, "x", "former"), (server, "y", "CANARY")):
                each.change(metadata_changes={"token_endpoint_auth_methods_supported": ["client_secret_post"]})
                each.add_client(name, "client_secret_post", secret=secret, redirect_uris=REDIRECTS)
                server.change(authorization_servers=(each.issuer,))
                given: Any = {"client_id": name, "client_secret": secret, "issuer": each.issuer}
                oauth = tc.OAuth(interact=agree, store=store, **given)
                await connect_and_call(server.url, oauth)
            assert oauth is not None
            await asyncio.gather(oauth.logout(server.url), return_exceptions=True)
        assert all(family.is_revoked for family in server.families.values())
        assert "CANARY" in str(server.seen("revoke"))
        assert former.seen("revoke") and "CANARY" not in str(former.requests)


async def test_a_logout_uses_the_given_function_for_requests() -> None:
    async with AuthorizationServer() as server:
        oauth, _ = sign_ins()
        await connect_and_call(server.url, oauth)
        sent: list[tuple[str, str]] = []

        async def fetch(method: str, url: str, headers: Any, body: bytes) -> Any:
            sent.append((method, url))
            return 200, [], b""

        assert await oauth.logout(server.url, fetch=fetch)
    assert sent == [("POST", f"{server.issuer}/revoke")] * 2
    assert server.counters["revoke"] == 0


# ---- secrets ---------------------------------------------------------------------------------------------------


def words_of(exc: BaseException | None) -> str:
    return "".join(traceback.format_exception(exc)) + repr(exc) if exc is not None else ""


async def test_no_secret_is_shown_in_logs_reprs_events_and_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []
    async with AuthorizationServer(registered_method="client_secret_post") as server:
        store = tc.MemoryTokenStore()
        oauth, _ = sign_ins(store)
        async with tc.Client(server.url, auth=oauth) as client:
            client.on(Event, lambda event: shown.append(repr(event)))
            await call(client)
            server.expire_tokens()
            await call(client)
            shown += [repr(oauth), repr(client), repr(store), repr(await oauth.status(server.url)), repr(vars(oauth))]
            refresh_token = next(iter(server.families.values())).tokens[-1]
            for failure in ({"status": 400, "error": "invalid_request"}, {"status": 503}):
                server.expire_tokens()
                server.fail_next("token", times=50, description=f"bad token {refresh_token}", **failure)
                with pytest.raises(tc.ToolcribError) as caught:
                    await call(client, timeout=1)
                shown.append(words_of(caught.value))
            server.fail_next("token", times=0)
            server.revoke_all()
            await call(client)
        silent = tc.OAuth(interact=None, store=tc.MemoryTokenStore())
        with pytest.raises(tc.AuthError) as refused:
            async with tc.Client(server.url, auth=silent):
                pass
        shown += [words_of(refused.value), repr(silent), repr(vars(silent))]
        await oauth.logout(server.url)
        secrets = {
            *server.tokens.access,
            *(token for family in server.families.values() for token in family.tokens),
            *(str(each.params[name]) for each in server.seen("token") for name in SECRET_NAMES if name in each.params),
            *(str(each.params[name]) for each in server.seen("authorize") for name in ("state", "code_challenge")),
        }
    own = [each for each in caplog.records if each.name.partition(".")[0] not in ("uvicorn", "aiohttp")]
    text = "\n".join([*shown, *(each.getMessage() + str(each.exc_info) for each in own)])
    assert len(secrets) > 8
    assert [each for each in secrets if each in text] == []
    assert "waiting for a person to sign in" in text
    assert "code_challenge=" not in text


SECRET_NAMES = ("code", "code_verifier", "client_secret", "refresh_token")
