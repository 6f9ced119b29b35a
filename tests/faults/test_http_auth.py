"""Missing authorisation: one refresh for all calls, then success or `AuthError`; and headers that change."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import Any

import pytest

from tests.faults.http_kit import Provider, Web, calls, running
from tests.faults.kit import Ledger, either_era, eventually, lucky, outcome_of, succeeded
from toolcrib.config import SecretMask
from toolcrib.errors import AuthError, ConnectError, ToolcribError
from toolcrib.oauth.request_authorizer import Outgoing
from toolcrib.transports.http.auth import ForeignAuthorizer
from toolcrib.types import ConnectionState

# ---- nothing to authorise with


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_a_401_while_connecting_is_an_auth_error_with_the_challenge_and_needs_auth(web: Web, mode: str) -> None:
    server = await web.server(tokens={"t"})
    client = web.client(server, mode=mode)
    with pytest.raises(AuthError) as caught:
        await client.connect()
    assert (caught.value.status, caught.value.challenge) == (401, 'Bearer realm="crib", scope="tools"')
    assert "set headers={'Authorization': ...}" in str(caught.value)
    assert client.status.state is ConnectionState.NEEDS_AUTH
    assert len(server.requests) == 1, "a refusal does not decide the era"
    assert isinstance(await outcome_of(client.call_tool("echo", {}, timeout=5)), AuthError)


async def test_a_401_in_mid_session_is_an_auth_error_and_needs_auth(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        await ledger.call(client)
        server.tokens = {"t"}
        outcomes = await calls(ledger, client, 20)
        assert all(isinstance(one, AuthError) and one.status == 401 and one.challenge for one in outcomes)
        assert client.status.state is ConnectionState.NEEDS_AUTH
        server.tokens = None
        assert succeeded(await ledger.call(client))
        assert client.status.state is ConnectionState.CONNECTED
    ledger.check(server.executed)


async def test_a_403_is_an_auth_error_of_the_call_and_is_not_sent_again(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server) as client:
        server.gate("tools/call", "status", status=403, headers={"WWW-Authenticate": "Bearer x"}, times=1)
        outcome = await ledger.call(client)
        assert isinstance(outcome, AuthError)
        assert (outcome.status, outcome.challenge) == (403, "Bearer x")
        assert len(server.received("tools/call")) == 1
        assert succeeded(await ledger.call(client)), "it concerned that call"
    ledger.check(server.executed)


async def test_a_401_with_a_json_rpc_body_is_a_401(web: Web, era: str) -> None:
    server = await web.server(era=era)
    body = '{"jsonrpc": "2.0", "id": $ID, "error": {"code": -32001, "message": "unauthorised"}}'
    async with web.client(server) as client:
        server.gate("tools/call", "status", status=401, type="application/json", body=body)
        with pytest.raises(AuthError):
            await client.call_tool("echo", {})


async def test_needs_auth_ends_when_the_credentials_are_there(web: Web, era: str) -> None:
    server, token = await web.server(era=era, tokens={"t"}), ["wrong"]
    client = web.client(server, headers={"Authorization": lambda: f"Bearer {token[0]}"})
    for _ in range(7):  # more often than a circuit would bear: a refusal is not a failure of the server
        assert isinstance(await outcome_of(client.call_tool("echo", {}, timeout=5)), AuthError)
    assert client.status.state is ConnectionState.NEEDS_AUTH
    token[0] = "t"
    assert (await client.call_tool("echo", {"nonce": "x"}, timeout=5)).text == "x"
    assert client.status.state is ConnectionState.CONNECTED


# ---- a provider


async def test_a_hundred_callers_and_a_401_make_one_refresh_and_all_succeed(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era, tokens={"t1"})
    provider = Provider("t1", "t2", seconds=0.05)
    async with web.client(server, auth=provider) as client:
        assert succeeded(await ledger.call(client))
        server.tokens = {"t2"}
        outcomes = await calls(ledger, client, 100, timeout=30)
        assert all(map(succeeded, outcomes)), [one for one in outcomes if not succeeded(one)][:1]
        assert provider.refreshes == 1
        assert len(server.received("initialize")) == (era == "legacy"), "a refresh does not cause a reconnect"
    ledger.check(server.executed)
    tokens = [one.header("authorization") for one in server.requests]
    assert set(tokens) == {"Bearer t1", "Bearer t2"}


async def test_a_hundred_callers_and_a_401_that_no_refresh_cures_make_one_refresh_and_auth_errors(
    web: Web, era: str
) -> None:
    ledger, server = Ledger(), await web.server(era=era, tokens={"t1"})
    provider = Provider("t1", seconds=0.05)
    async with web.client(server, auth=provider) as client:
        assert succeeded(await ledger.call(client))
        server.tokens = {"other"}
        outcomes = await calls(ledger, client, 100, timeout=30)
        assert all(isinstance(one, AuthError) and one.status == 401 for one in outcomes), outcomes[:1]
        assert provider.refreshes == 1
        provider.tokens.append("other")
        assert succeeded(await ledger.call(client)), "a later call may try anew"
    ledger.check(server.executed)


async def test_a_new_token_that_is_refused_too_is_an_auth_error_after_one_refresh(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era, tokens={"t1"})
    provider = Provider("t1", "t2", "t3", "t4", "t5", "t6")
    async with web.client(server, auth=provider) as client:
        await ledger.call(client)
        server.tokens = set()
        outcome = await ledger.call(client)
        assert isinstance(outcome, AuthError)
        assert "the server rejected the credentials" in str(outcome)
        assert provider.refreshes <= 2
        assert len(server.received("tools/call")) <= 4
    ledger.check(server.executed)


async def test_callers_cancelled_during_a_refresh_do_not_affect_other_waiting_callers(web: Web, era: str) -> None:
    ledger, server = Ledger(), await web.server(era=era, tokens={"t1"})
    provider = Provider("t1", "t2", seconds=0.2)
    async with web.client(server, auth=provider) as client:
        await ledger.call(client)
        server.tokens = {"t2"}
        tasks = [asyncio.create_task(ledger.call(client, timeout=30)) for _ in range(20)]
        await eventually(lambda: provider.refreshes == 1)
        for task in tasks[:10]:
            task.cancel()
        outcomes = await asyncio.gather(*tasks)
        assert all(map(succeeded, outcomes[10:]))
        assert provider.refreshes == 1
    ledger.check(server.executed)


async def test_calls_with_a_valid_token_do_not_wait_for_each_other(web: Web, era: str) -> None:
    server = await web.server(era=era, tokens={"t1"})
    async with web.client(server, auth=Provider("t1")) as client:
        pending = [asyncio.create_task(client.call_tool("slow", {"nonce": str(n)})) for n in range(10)]
        await running(server, 10)
        server.release.set()
        await asyncio.gather(*pending)


async def test_a_provider_that_raises_is_an_auth_error_and_nothing_was_executed(web: Web, era: str) -> None:
    class Broken(Provider):
        async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
            if self.refreshes:
                raise RuntimeError("the person closed the window")
            async for one in super().async_auth_flow(request):
                yield one

    ledger, server = Ledger(), await web.server(era=era, tokens={"t1"})
    provider = Broken("t1")
    async with web.client(server, auth=provider) as client:
        await ledger.call(client)
        provider.refreshes = 1
        outcome = await ledger.call(client)
        assert isinstance(outcome, AuthError)
        provider.refreshes = 0
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


async def test_a_providers_own_requests_carry_none_of_our_headers(web: Web, era: str) -> None:
    server, issuer = await web.server(era=era, tokens={"fresh"}), await web.server()
    issuer.gate("any", "status", type="application/json", body=json.dumps({"access_token": "fresh"}))

    class Issued(Provider):
        async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
            if self.tokens:
                request.headers["Authorization"] = f"Bearer {self.tokens[0]}"
            response = yield request
            if response.status_code == 401:
                form = {"Content-Type": "application/x-www-form-urlencoded"}
                answer = yield type(request)("POST", issuer.origin + "/token", headers=form, content=b"grant_type=x")
                self.refreshes += 1
                self.tokens = [answer.json()["access_token"]]
                request.headers["Authorization"] = f"Bearer {self.tokens[0]}"
                yield request

    provider = Issued()
    async with web.client(server, auth=provider, headers={"X-Own": "c4n4ry"}) as client:
        assert (await client.call_tool("echo", {"nonce": "x"})).text == "x"
    assert provider.refreshes == 1
    (asked,) = issuer.requests
    assert (asked.verb, asked.target, asked.body) == ("POST", "/token", b"grant_type=x")
    assert "c4n4ry" not in asked.raw
    assert "mcp-" not in asked.raw.lower()
    assert asked.header("authorization") is None


@pytest.mark.parametrize("granted", [True, False])
async def test_an_insufficient_scope_is_stepped_up_once_and_not_for_ever(web: Web, era: str, granted: bool) -> None:
    class Stepping(Provider):
        async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
            request.headers["Authorization"] = f"Bearer {self.tokens[0]}"
            response = yield request
            if response.status_code == 403:
                assert "insufficient_scope" in response.headers["WWW-Authenticate"]
                self.refreshes += 1
                self.tokens = ["wide" if granted else f"narrow{self.refreshes}"]
                request.headers["Authorization"] = f"Bearer {self.tokens[0]}"
                yield request

    ledger, server = Ledger(), await web.server(era=era)
    provider = Stepping("narrow")
    challenge = {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="all"'}
    async with web.client(server, auth=provider) as client:
        await ledger.call(client)
        server.gate("tools/call", "status", status=403, headers=challenge, times=1 if granted else None)
        outcome = await ledger.call(client)
        assert succeeded(outcome) if granted else isinstance(outcome, AuthError) and outcome.status == 403
        assert provider.refreshes == 1 if granted else provider.refreshes <= 3
    ledger.check(server.executed)


# ---- headers of the config


async def test_headers_are_on_every_request_and_functions_are_asked_for_each(web: Web, era: str) -> None:
    server, asked = await web.server(era=era), []

    def sync_one() -> str:
        asked.append("sync")
        return f"s{len(asked)}"

    async def async_one() -> str:
        await asyncio.sleep(0)
        return "later"

    headers = {"X-Fixed": "f", "X-Sync": sync_one, "X-Async": async_one, "X-None": lambda: None}
    async with web.client(server, headers=headers) as client:
        await calls(Ledger(), client, 5)
    assert {one.header("x-fixed") for one in server.requests} == {"f"}
    assert {one.header("x-async") for one in server.requests} == {"later"}
    assert {one.header("x-none") for one in server.requests} == {None}
    values = [one.header("x-sync") for one in server.requests]
    assert len(set(values)) == len(values) == len(asked), "a fresh value for each request, GET and DELETE included"


async def test_a_rotated_token_is_used_by_the_next_call(web: Web, era: str) -> None:
    ledger, server, token = Ledger(), await web.server(era=era, tokens={"t0"}), ["t0"]
    async with web.client(server, headers={"Authorization": lambda: f"Bearer {token[0]}"}) as client:
        for n in range(5):
            token[0] = f"t{n}"
            server.tokens = {token[0]}
            assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
@pytest.mark.parametrize("kind", ["raises", "async raises", "a number", "line breaks", "control characters"])
async def test_a_header_function_that_fails_is_a_typed_error_and_nothing_is_sent(
    web: Web, era: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lucky(monkeypatch)

    def give() -> Any:
        if not broken:
            return "fine"
        if kind == "raises":
            raise RuntimeError("c4n4ry")
        return {"a number": 5, "line breaks": "c4n4ry\r\nX-Evil: 1", "control characters": "c4n4ry\0"}.get(kind)

    async def give_later() -> str:
        if broken:
            raise RuntimeError("c4n4ry")
        return "fine"

    broken = False
    ledger, server = Ledger(), await web.server(era=era)
    async with web.client(server, headers={"X-Token": give_later if kind == "async raises" else give}) as client:
        await ledger.call(client)
        seen, broken = len(server.requests), True
        outcome = await ledger.call(client, timeout=3)
        assert isinstance(outcome, ToolcribError), outcome
        assert outcome.sent is False
        assert "X-Token" in str(outcome)
        assert "c4n4ry" not in str(outcome)
        assert len(server.requests) == seen
        broken = False
        assert succeeded(await ledger.call(client))
    ledger.check(server.executed)


@either_era
async def test_the_connect_timeout_is_paused_while_a_person_signs_in(web: Web, era: str) -> None:
    server = await web.server(tokens={"good"}, era=era)
    provider = Provider("bad", "good", seconds=1.0)
    async with web.client(server, auth=provider, connect_timeout=0.6) as client:
        assert provider.refreshes == 1
        assert client.status.state is ConnectionState.CONNECTED


async def test_after_the_sign_in_the_time_for_connecting_goes_on(web: Web) -> None:
    server = await web.server(tokens={"good"})
    server.gate("server/discover", "silent")
    client = web.client(server, auth=Provider("bad", "good", seconds=0.3), connect_timeout=0.6, mode="2026-07-28")
    with pytest.raises(ConnectError, match="connect_timeout"):
        await asyncio.wait_for(client.connect(), 10)


class Expiring:
    """A provider whose token can expire, and which then prompts the user before it sends anything."""

    requires_response_body = True

    def __init__(self, shows_token: bool) -> None:
        self.flows = self.interactive = 0
        self.expired = False
        if shows_token:
            self.context = self
            self.current_tokens = self
            self.access_token = "first"

    def is_token_valid(self) -> bool:
        return not self.expired

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        self.flows += 1
        if self.expired:
            self.interactive += 1
            await asyncio.sleep(60)
        request.headers["Authorization"] = "Bearer first"
        response = yield request
        if response.status_code == 401:
            self.interactive += 1
            await asyncio.sleep(60)


@pytest.mark.parametrize("shows_token", [True, False])
@pytest.mark.parametrize("still_taken", [True, False])
async def test_closing_with_an_expired_token_begins_no_authorisation(
    web: Web, shows_token: bool, still_taken: bool
) -> None:
    server, provider = await web.server(era="legacy", tokens={"first"}), Expiring(shows_token)
    client = web.client(server, auth=provider)
    await client.connect()
    await eventually(lambda: [one for one in server.requests if one.verb == "GET"])
    provider.expired, flows = True, provider.flows
    server.tokens = {"first"} if still_taken else {"another"}
    start = time.monotonic()
    await client.close()
    assert time.monotonic() - start < 1.5
    assert (provider.flows, provider.interactive) == (flows, 0)
    last = server.requests[-1]
    assert (last.verb, last.header("authorization")) == ("DELETE", "Bearer first")


async def test_a_close_waits_for_the_answer_to_a_request_of_the_provider() -> None:
    asked, answered = asyncio.Event(), asyncio.Event()
    answers: list[int] = []

    class Renewing:
        async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
            response = yield type(request)("POST", "https://login.example.com/token")
            answers.append(response.status_code)
            yield request

    async def fetch(*_: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        asked.set()
        await answered.wait()
        return 200, [], b"{}"

    authorizer = ForeignAuthorizer(Renewing(), fetch, nullcontext, SecretMask())
    calling = asyncio.create_task(authorizer.headers(Outgoing("POST", "https://tools.example.com/mcp", {}, b"")))
    await asked.wait()
    closing = asyncio.create_task(authorizer.close())
    await asyncio.sleep(0)
    assert not closing.done()
    answered.set()
    await asyncio.wait_for(closing, 5)
    assert answers == [200]
    assert await calling == {}
