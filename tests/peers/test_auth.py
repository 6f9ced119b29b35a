"""An SDK server that requires a token: a given one, none, one without the scope, and those of the SDK's providers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import toolcrib as tc
from tests.peers.kit import SERVERS, run_in
from tests.peers.web import Servers, Watched, WebServer, python_server

CLIENT = Path(__file__).with_name("oauth_client.py")


@pytest.fixture(params=[pytest.param("sdk1", marks=pytest.mark.slow), "sdk2"])
def guarded(request: pytest.FixtureRequest, web_servers: Servers) -> WebServer:
    def make() -> WebServer:
        return python_server(request.param, SERVERS / "guarded_server.py")

    return web_servers.get(f"guarded {request.param}", make)


CONFIGS: dict[str, Callable[..., tc.HttpServer | tc.SseServer]] = {
    "http": lambda server, **options: tc.HttpServer(server.url("mcp"), **options),
    "sse": lambda server, **options: tc.SseServer(server.url("events/sse"), **options),
}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_token_in_the_headers_opens_the_door(guarded: WebServer, kind: str, mode: str) -> None:
    async with tc.Client(CONFIGS[kind](guarded, headers=bearer("open-sesame")), mode=mode) as client:
        assert (await client.call_tool("whoami")).text == "ali"


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_without_a_token_the_challenge_is_reported(guarded: WebServer, kind: str, mode: str) -> None:
    client = tc.Client(CONFIGS[kind](guarded), mode=mode)
    try:
        with pytest.raises(tc.AuthError) as refusal:
            await client.connect()
        assert refusal.value.status == 401
        assert refusal.value.challenge is not None
        assert guarded.url(".well-known/oauth-protected-resource") in refusal.value.challenge
        assert client.status.state is tc.ConnectionState.NEEDS_AUTH
        with pytest.raises(tc.AuthError):
            await client.call_tool("whoami")
    finally:
        await client.close()


async def test_a_refusal_is_not_asked_again(guarded: WebServer) -> None:
    watched = Watched(guarded, "/mcp")
    client = tc.Client(CONFIGS["http"](guarded), mode="legacy")
    try:
        with pytest.raises(tc.AuthError):
            await client.call_tool("whoami")
    finally:
        await client.close()

    assert [entry["status"] for entry in watched.requests] == [401]


@pytest.mark.parametrize("kind", CONFIGS)
async def test_too_narrow_a_token_is_another_refusal(guarded: WebServer, kind: str) -> None:
    client = tc.Client(CONFIGS[kind](guarded, headers=bearer("narrow")))
    try:
        with pytest.raises(tc.AuthError) as refusal:
            await client.connect()
        assert refusal.value.status == 403
        assert refusal.value.challenge is not None and "insufficient_scope" in refusal.value.challenge
    finally:
        await client.close()


async def test_a_token_that_comes_later_opens_the_door_then(guarded: WebServer) -> None:
    token = ""
    config = CONFIGS["http"](guarded, headers={"Authorization": lambda: f"Bearer {token}"})
    client = tc.Client(config)
    try:
        with pytest.raises(tc.AuthError):
            await client.connect()
        token = "open-sesame"
        assert (await client.call_tool("whoami")).text == "ali"
        assert client.status.state is tc.ConnectionState.CONNECTED
    finally:
        await client.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "guarded, environment",
    [
        ("sdk1", "sdk1"),
        ("sdk2", "sdk2"),
        pytest.param("sdk1", "sdk2", marks=pytest.mark.nightly),
        pytest.param("sdk2", "sdk1", marks=pytest.mark.nightly),
    ],
    indirect=["guarded"],
)
def test_a_provider_of_the_sdk_authorises_once_for_all_callers(
    guarded: WebServer, web_servers: Servers, environment: str
) -> None:
    watched = Watched(guarded)

    seen = run_in(web_servers.fork_server(environment), CLIENT, "http", guarded.url("mcp"), "auto")

    assert seen["sdk"].split(".")[0] == environment[-1]
    assert seen["first"] == seen["renewed"] == ["registered"] * 10
    assert seen["other_token"] and seen["status"] == "connected" and seen["tasks_left"] == []
    entries = watched.requests
    asked = Counter(entry["path"] for entry in entries)
    # Once to come in, once because the server forgot the token: by ten callers at the same time.
    assert (asked["/register"], asked["/authorize"], asked["/token"], seen["asked"]) == (1, 2, 2, 2)
    calls = Counter(entry["status"] for entry in entries if entry["rpc"] == "tools/call")
    assert calls[200] == 21 and calls.keys() <= {200, 401}


@pytest.mark.slow
@pytest.mark.parametrize("guarded, environment", [("sdk1", "sdk1"), ("sdk2", "sdk2")], indirect=["guarded"])
def test_a_provider_of_the_sdk_serves_an_sse_server_too(
    guarded: WebServer, web_servers: Servers, environment: str
) -> None:
    seen = run_in(web_servers.fork_server(environment), CLIENT, "sse", guarded.url("events/sse"), "legacy")

    assert seen["first"] == seen["renewed"] == ["registered"] * 10
    assert seen["tasks_left"] == []
