"""The revision negotiated with real servers, and that both eras work with them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import toolcrib as tc
from tests.peers.kit import (
    EACH_TRANSPORT,
    LEGACY,
    MODERN,
    PEERS,
    SDK1,
    SDK2_MODERN,
    Chosen,
    Peer,
    ScriptedClient,
    over_each_transport,
    over_http,
    over_sse,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODERN_SERVER = over_each_transport(SDK2_MODERN)


@pytest.mark.peers(EACH_TRANSPORT)
async def test_the_newest_revision_that_both_speak_is_agreed_on(scripted: ScriptedClient, peer: Peer) -> None:
    info = scripted.client.server_info

    assert info is not None
    assert (info.name, info.protocol_version) == (f"{peer.framework}-crib", peer.version)
    assert info.version and info.instructions == "A server to try things on."
    assert {"tools", "resources", "prompts", "completions"} <= info.capabilities.keys()


async def test_a_connected_server_answers_a_ping_in_either_era(scripted: ScriptedClient) -> None:
    await scripted.client.ping()

    assert scripted.client.connected


@pytest.mark.peers(Chosen([peer for peer in PEERS if peer.is_modern], MODERN_SERVER, over_http(SDK2_MODERN)))
async def test_the_modern_era_can_be_demanded(peer: Peer, server_of: Callable[..., tc.ServerConfig]) -> None:
    async with tc.Client(server_of(peer), mode=MODERN) as client:
        assert client.server_info is not None and client.server_info.protocol_version == MODERN
        assert (await client.call_tool("echo", {"text": "new"})).text == "new"


async def test_an_older_server_cannot_be_made_modern(server_of: Callable[..., tc.ServerConfig]) -> None:
    client = tc.Client(server_of(SDK1), mode=MODERN, max_attempts=1)
    try:
        with pytest.raises(tc.ConnectError) as refusal:
            await client.connect()
        assert refusal.value.permanent
        assert not client.connected
    finally:
        await client.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "revision",
    [
        pytest.param("2025-06-18", marks=pytest.mark.nightly),  # over HTTP in test_http.py
        "2025-03-26",
        pytest.param("2024-11-05", marks=pytest.mark.nightly),  # over HTTP+SSE in test_http.py
    ],
)
async def test_a_server_of_an_older_revision_is_taken_as_it_is(
    revision: str, server_of: Callable[..., tc.ServerConfig]
) -> None:
    async with tc.Client(server_of(SDK1, revision)) as client:
        assert client.server_info is not None and client.server_info.protocol_version == revision
        assert (await client.call_tool("echo", {"text": "old"})).text == "old"
        assert [prompt.name for prompt in await client.list_prompts()] == ["explain"]


@pytest.mark.peers(Chosen(MODERN_SERVER, [*over_http(SDK2_MODERN), *over_sse(SDK2_MODERN)], over_http(SDK2_MODERN)))
async def test_a_client_finds_the_era_again_when_it_connects_again(
    peer: Peer, server_of: Callable[..., tc.ServerConfig]
) -> None:
    async with tc.Client(server_of(peer)) as client:
        await client.disconnect()
        assert not client.connected
        assert (await client.call_tool("echo", {"text": "again"})).text == "again"
        assert client.server_info is not None and client.server_info.protocol_version == MODERN


@pytest.mark.peers(Chosen(MODERN_SERVER, [*over_http(SDK2_MODERN), *over_sse(SDK2_MODERN)], over_http(SDK2_MODERN)))
async def test_two_eras_of_one_server_are_two_clients(peer: Peer, server_of: Callable[..., tc.ServerConfig]) -> None:
    async with tc.Client(server_of(peer)) as new, tc.Client(server_of(peer), mode="legacy") as old:
        assert new.server_info is not None and old.server_info is not None
        assert (new.server_info.protocol_version, old.server_info.protocol_version) == (MODERN, LEGACY)
        assert [t.name for t in await new.list_tools()] == [t.name for t in await old.list_tools()]
