"""A client asks a person to authorise it: the request, the checks of the answer, resources and scopes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import toolcrib as tc
from tests.oauth.authorization_server import AuthorizationServer
from tests.oauth.person import agree, query_of
from toolcrib.oauth import account

WAIT = 20.0


class Person:
    """A person who agrees; counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.answers: list[str] = []

    async def __call__(self, url: str) -> str:
        self.asked.append(query_of(url))
        self.answers.append(await agree(url))
        return self.answers[-1]


def person(**given: Any) -> tc.OAuth:
    return tc.OAuth(**{"interact": agree, "store": tc.MemoryTokenStore(), **given})


async def sign_in(server: AuthorizationServer, auth: tc.OAuth | None = None, **options: Any) -> None:
    async with tc.Client(server.url, auth=auth or person(), **options) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"


def asked_scopes(server: AuthorizationServer) -> list[list[str] | None]:
    """Return the scopes of each authorisation request; None for a request without any."""
    found = [each.params.get("scope") for each in server.seen("authorize")]
    return [None if scope is None else scope.split() for scope in found]


def grant_types(server: AuthorizationServer) -> list[str]:
    return [each.params["grant_type"] for each in server.seen("token")]


def writes(server: AuthorizationServer) -> int:
    """Return how often the tool `write` was called, refused calls included."""
    messages = [each.params for each in server.seen("mcp") if each.params.get("method") == "tools/call"]
    return sum(each["params"]["name"] == "write" for each in messages)


# ---- state and issuer ------------------------------------------------------------------------------------------


async def test_each_authorisation_has_a_new_state_and_verifier() -> None:
    async with AuthorizationServer(refresh_tokens="none") as server:
        auth = person()
        await sign_in(server, auth)
        server.revoke_all()
        await sign_in(server, auth)

    asked = [each.params for each in server.seen("authorize")]
    sent = [each.params for each in server.seen("token")]
    assert len({each["state"] for each in asked}) == len({each["code_challenge"] for each in asked}) == 2
    assert len({each["code_verifier"] for each in sent}) == 2
    assert {each["code_challenge_method"] for each in asked} == {"S256"}
    assert [each["redirect_uri"] for each in sent] == [each["redirect_uri"] for each in asked]


async def test_an_answer_with_another_state_is_refused() -> None:
    async with AuthorizationServer(wrong_state=True) as server:
        with pytest.raises(tc.AuthError, match="another state"):
            await sign_in(server)

    assert server.counters["authorize"] == 1
    assert not server.counters["token"]


async def test_without_a_person_the_error_names_the_missing_scopes() -> None:
    async with AuthorizationServer() as server:
        store = tc.MemoryTokenStore()
        await sign_in(server, person(store=store))
        async with tc.Client(server.url, auth=person(interact=None, store=store)) as client:
            for _ in range(2):
                with pytest.raises(tc.AuthError, match="the token lacks mcp:write: a person must sign in") as caught:
                    await client.call_tool("write", {"text": "x"})
                assert caught.value.status == 403
    assert query_of(str(caught.value.authorization_url))["scope"].split() == ["mcp:read", "mcp:write"]


async def test_an_answer_that_is_refused_cannot_be_given_again() -> None:
    async with AuthorizationServer(iss="wrong") as server:
        auth = person(interact=None)
        with pytest.raises(tc.AuthError) as caught:
            await sign_in(server, auth)
        assert caught.value.authorization_url is not None
        answer = await agree(caught.value.authorization_url)
        with pytest.raises(tc.AuthError, match="is not from"):
            await auth.finish_sign_in(server.url, answer)
        with pytest.raises(tc.UsageError):
            await auth.finish_sign_in(server.url, answer.replace("https%3A%2F%2Fattacker.example", server.issuer))

    assert not server.counters["token"]


@pytest.mark.parametrize(
    "consent, advertised, iss, accepted",
    [
        ("granted", True, "absent", False),
        ("granted", True, "slash", False),
        ("granted", False, "absent", True),
        ("denied", True, "right", True),
        ("denied", True, "wrong", False),
    ],
)
async def test_the_issuer_of_an_answer_is_checked(
    consent: Any, advertised: bool, iss: Any, accepted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "toolcrib")
    someone = Person()
    async with AuthorizationServer(consent=consent, iss=iss, iss_advertised=advertised) as server:
        if accepted and consent == "granted":
            await sign_in(server, person(interact=someone))
            return
        with pytest.raises(tc.AuthError) as caught:
            await sign_in(server, person(interact=someone))

    assert not server.counters["token"]
    if accepted:
        assert "access_denied: the person refused" in str(caught.value)
        return
    assert "Nothing was sent to the token endpoint" in str(caught.value)
    shown = f"{caught.value} {caplog.text}"
    for text in (query_of(someone.answers[0]).get("code", "access_denied"), "the person refused", "attacker"):
        assert text not in shown


# ---- resource --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resource", ["{base}/mcp", "{base}", "{base}/", "HTTP://127.0.0.1:{port}/mcp"])
async def test_the_resource_is_sent_as_the_metadata_writes_it(resource: str) -> None:
    async with AuthorizationServer() as server:
        server.change(resource=resource.replace("{port}", str(server.port)))
        async with tc.Client(server.url, auth=person()) as client:
            server.expire_tokens()
            await client.call_tool("echo", {"text": "hi"})

    assert grant_types(server) == ["authorization_code", "refresh_token"]
    sent = [each.params["resource"] for each in (*server.seen("authorize"), *server.seen("token"))]
    assert sent == [server.resource] * 3


async def test_without_metadata_the_resource_is_the_url_of_the_server() -> None:
    async with AuthorizationServer(resource_metadata="none") as server:
        await sign_in(server, mode="legacy")

    sent = [each.params["resource"] for each in (*server.seen("authorize"), *server.seen("token"))]
    assert sent == [server.url] * 2


@pytest.mark.parametrize("resource", ["api://x", None])
async def test_a_configured_resource_replaces_that_of_the_metadata(resource: str | None) -> None:
    async with AuthorizationServer(rejects_resource=resource is None) as server:
        server.trusted.append(AuthorizationServer(resource="api://x"))  # tokens for this resource are accepted too
        async with tc.Client(server.url, auth=person(resource=resource)) as client:
            server.expire_tokens()
            await client.call_tool("echo", {"text": "hi"})

    assert grant_types(server) == ["authorization_code", "refresh_token"]
    sent = [each.params.get("resource") for each in (*server.seen("authorize"), *server.seen("token"))]
    assert sent == [resource] * 3


async def test_a_refused_resource_leads_to_advice() -> None:
    async with AuthorizationServer(rejects_resource=True) as server:
        with pytest.raises(tc.AuthError, match=r"AADSTS9010010.*OAuth\(resource=\.\.\.\).*resource=None"):
            await sign_in(server)


@pytest.mark.parametrize(
    "error, description", [("invalid_target", "unknown"), ("invalid_request", "AADSTS9010010: The resource ...")]
)
async def test_a_resource_that_the_token_endpoint_refuses_leads_to_advice(error: str, description: str) -> None:
    async with AuthorizationServer() as server:
        server.fail_next("token", status=400, error=error, description=description)
        with pytest.raises(tc.AuthError, match=r"OAuth\(resource=\.\.\.\).*resource=None"):
            await sign_in(server)


# ---- scopes of the first authorisation -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "configured, challenged, supported, expected",
    [
        (["mine"], "mcp:read", ("mcp:read", "mcp:write"), ["mine"]),
        (None, None, ("mcp:read", "mcp:write"), ["mcp:read", "mcp:write"]),
        (None, None, None, None),
    ],
)
async def test_the_scopes_of_the_first_authorisation(
    configured: list[str] | None, challenged: str | None, supported: Any, expected: list[str] | None
) -> None:
    behaviour = {"challenge_scope": challenged, "resource_scopes": supported, "server_scopes": ("all", "of", "them")}
    async with AuthorizationServer(**behaviour) as server:
        await sign_in(server, person(scopes=configured))

    assert asked_scopes(server) == [expected]


@pytest.mark.parametrize(
    "challenged, server_scopes, expected, prompt",
    [
        ("mcp:read", ("mcp:read", "offline_access"), ["mcp:read", "offline_access"], "consent"),
        (None, ("offline_access",), None, None),
    ],
)
async def test_offline_access_is_asked_for_if_the_server_lists_it(
    challenged: str | None, server_scopes: Any, expected: list[str] | None, prompt: str | None
) -> None:
    behaviour = {"challenge_scope": challenged, "resource_scopes": None, "server_scopes": server_scopes}
    async with AuthorizationServer(**behaviour) as server:
        await sign_in(server)

    assert asked_scopes(server) == [expected]
    assert server.seen("authorize")[0].params.get("prompt") == prompt


# ---- more scopes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_that_needs_more_scopes_is_authorised_and_sent_again(mode: Any) -> None:
    async with (
        AuthorizationServer(resource_scopes=("disjoint",)) as server,
        tc.Client(server.url, auth=person(), mode=mode) as client,
    ):
        assert (await client.call_tool("write", {"text": "x"})).text == "wrote x"
        assert (await client.call_tool("write", {"text": "y"})).text == "wrote y"

    assert asked_scopes(server) == [["mcp:read"], ["mcp:read", "mcp:write"]]
    assert writes(server) == 3
    # A refresh is never used to gain scopes, though there is a refresh token.
    assert grant_types(server) == ["authorization_code", "authorization_code"]


@pytest.mark.parametrize(
    "before, after, configured, expected",
    [
        (True, True, None, ["mcp:read", "mcp:write", "offline_access"]),
        (False, True, None, ["mcp:read", "mcp:write", "offline_access"]),
        (True, False, None, ["mcp:read", "mcp:write"]),
        (True, False, ["offline_access", "mcp:read"], ["offline_access", "mcp:read", "mcp:write"]),
    ],
)
async def test_more_scopes_include_offline_access_if_the_server_lists_it_now_or_the_user_wants_it(
    before: bool, after: bool, configured: list[str] | None, expected: list[str]
) -> None:
    listed = {True: ("offline_access",), False: None}
    async with (
        AuthorizationServer(server_scopes=listed[before]) as server,
        tc.Client(server.url, auth=person(scopes=configured)) as client,
    ):
        server.change(server_scopes=listed[after])
        await client.call_tool("write", {"text": "x"})

    assert ("offline_access" in (asked_scopes(server)[0] or ())) is (before or configured is not None)
    assert asked_scopes(server)[1] == expected


async def test_scopes_asked_for_before_are_kept_after_a_restart() -> None:
    async with AuthorizationServer(granted_scope="mcp:read") as server:
        store = tc.MemoryTokenStore()
        await sign_in(server, person(store=store, scopes=["mine", "mcp:read"]))
        server.change(granted_scope=None)
        async with tc.Client(server.url, auth=person(store=store)) as client:
            await client.call_tool("write", {"text": "x"})

    assert asked_scopes(server) == [["mine", "mcp:read"], ["mine", "mcp:read", "mcp:write"]]


async def test_scopes_of_several_operations_add_up() -> None:
    async with AuthorizationServer() as server, tc.Client(server.url, auth=person()) as client:
        await client.call_tool("write", {"text": "x"})
        server.change(write_scope="mcp:admin")
        await client.call_tool("write", {"text": "y"})

    assert asked_scopes(server)[-1] == ["mcp:read", "mcp:write", "mcp:admin"]


async def test_a_token_with_more_scopes_is_renewed_with_all_of_them() -> None:
    async with AuthorizationServer() as server, tc.Client(server.url, auth=person()) as client:
        await client.call_tool("write", {"text": "x"})
        server.expire_tokens()
        await client.call_tool("write", {"text": "y"})

    assert grant_types(server) == ["authorization_code", "authorization_code", "refresh_token"]
    assert "scope" not in server.seen("token")[-1].params
    assert server.counters["authorize"] == 2


async def test_one_authorisation_serves_all_calls_that_need_the_same_scopes() -> None:
    someone = Person()
    async with AuthorizationServer() as server, tc.Client(server.url, auth=person(interact=someone)) as client:
        gate = server.hold("authorize")
        calls = [asyncio.create_task(client.call_tool("write", {"text": str(n)})) for n in range(20)]
        async with asyncio.timeout(WAIT):
            await gate.reached.wait()
            # Calls with enough scopes are not held up.
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
            gate.open()
            texts = [each.text for each in await asyncio.gather(*calls)]

    assert texts == [f"wrote {n}" for n in range(20)]
    assert len(someone.asked) == server.counters["authorize"] == 2
    assert 20 < writes(server) <= 40


@pytest.mark.parametrize("scope", ["mcp:write", ""], ids=["a scope that the token has", "no scope"])
async def test_a_rejection_that_names_no_new_scope_asks_no_person(scope: str) -> None:
    async with AuthorizationServer(write_always_refused=True, write_scope=scope) as server:
        auth = person(scopes=["mcp:read", "mcp:write"])
        async with tc.Client(server.url, auth=auth) as client:
            with pytest.raises(tc.AuthError, match="names none that it does not have") as caught:
                await client.call_tool("write", {"text": "x"})

    assert caught.value.status == 403
    assert server.counters["authorize"] == 1
    assert writes(server) == 1


async def test_after_ten_authorisations_for_ever_more_scopes_no_person_is_asked() -> None:
    async with AuthorizationServer() as server, tc.Client(server.url, auth=person()) as client:
        for number in range(12):
            server.change(write_scope=f"mcp:write:{number}", write_always_refused=True)
            with pytest.raises(tc.AuthError) as caught:
                await client.call_tool("write", {"text": "x"})

    assert "the server has asked for 10 authorisations within 10 minutes" in str(caught.value)
    assert server.counters["authorize"] == 10


async def test_a_call_that_is_refused_after_an_authorisation_for_another_one_gets_its_own_scopes() -> None:
    async with AuthorizationServer() as server, tc.Client(server.url, auth=person()) as client:
        await client.call_tool("echo", {"text": "hi"})
        gate = server.hold("mcp")
        async with asyncio.timeout(WAIT):
            late = asyncio.create_task(client.call_tool("write", {"text": "late"}))
            await gate.reached.wait()
            server.hold("mcp").open()  # only the first call waits
            await client.call_tool("write", {"text": "x"})
            server.change(write_scope="mcp:other")
            gate.open()
            assert (await late).text == "wrote late"

    assert asked_scopes(server)[1:] == [["mcp:read", "mcp:write"], ["mcp:read", "mcp:write", "mcp:other"]]


async def test_after_three_authorisations_that_did_not_help_no_person_is_asked() -> None:
    async with (
        AuthorizationServer(granted_scope="mcp:read") as server,
        tc.Client(server.url, auth=person()) as client,
    ):
        for _ in range(6):
            with pytest.raises(tc.AuthError) as caught:
                await client.call_tool("write", {"text": "x"})
            assert caught.value.status == 403
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"

    assert "3 authorisations within 10 minutes did not help" in str(caught.value)
    assert asked_scopes(server) == [["mcp:read"], *[["mcp:read", "mcp:write"]] * 3]
    assert writes(server) == 3 * 2 + 3  # a call is sent again once


async def test_authorisations_are_counted_for_each_set_of_scopes_and_for_ten_minutes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with (
        AuthorizationServer(granted_scope="mcp:read") as server,
        tc.Client(server.url, auth=person()) as client,
    ):

        async def write() -> None:
            with pytest.raises(tc.AuthError):
                await client.call_tool("write", {"text": "x"})

        for _ in range(4):
            await write()
        server.change(write_scope="mcp:admin")
        await write()
        assert asked_scopes(server)[4:] == [["mcp:read", "mcp:write", "mcp:admin"]]
        for _ in range(3):
            await write()
        assert server.counters["authorize"] == 1 + 3 + 3

        assert account.SIGN_IN_PERIOD == 600.0
        monkeypatch.setattr(account, "SIGN_IN_PERIOD", 0.0)  # the ten minutes are over
        await write()
        assert server.counters["authorize"] == 1 + 3 + 3 + 1


async def test_a_new_connection_does_not_start_the_count_again() -> None:
    async with AuthorizationServer(granted_scope="mcp:read") as server:
        auth = person()
        for _ in range(5):
            async with tc.Client(server.url, auth=auth) as client:
                with pytest.raises(tc.AuthError):
                    await client.call_tool("write", {"text": "x"})

    assert server.counters["authorize"] == 1 + 3


async def test_a_server_that_rejects_all_tokens_does_not_cause_a_loop() -> None:
    async with AuthorizationServer() as server:
        auth = person()
        server.fail_next("mcp", times=1000, status=401, WWW_Authenticate="Bearer")
        for attempt in range(1, 6):
            client = tc.Client(server.url, auth=auth)
            with pytest.raises(tc.AuthError):
                await client.connect()
            assert client.status.state is tc.ConnectionState.NEEDS_AUTH
            await client.close()
            assert server.counters["authorize"] == min(attempt, 3)  # a connection asks once

    assert grant_types(server).count("refresh_token") <= 4  # one for each later connection


@pytest.mark.parametrize("error", ["", "invalid_token", "access_denied", "not_insufficient_scope"])
async def test_a_403_without_that_error_authorises_nothing(error: str) -> None:
    async with AuthorizationServer(write_error=error) as server, tc.Client(server.url, auth=person()) as client:
        with pytest.raises(tc.ToolcribError):
            await client.call_tool("write", {"text": "x"})

    assert server.counters["authorize"] == server.counters["token"] == 1
    assert writes(server) == 1
