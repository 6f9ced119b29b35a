"""Detecting the era of a server, with scripted servers of every kind over a stream in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.client.agreeing import US, agree
from tests.unit.kit import LEGACY, MODERN, PlayedServer
from toolcrib.errors import ConnectError, ProtocolError, RemoteError
from toolcrib.protocol import jsonrpc, versions
from toolcrib.transports.message_stream import MemoryStream
from toolcrib.types import Wire


def unsupported(*supported: Any) -> RemoteError:
    return RemoteError(-32022, "Unsupported protocol version", {"supported": list(supported)})


# ---- the answers of one question -----------------------------------------------------------------------------


async def test_a_modern_server_is_asked_once_and_every_request_identifies_the_client() -> None:
    server = PlayedServer(server__discover=MODERN)
    agreed = await agree(server)
    assert (agreed.version, agreed.era, agreed.handshake) == ("2026-07-28", versions.MODERN, False)
    assert (agreed.server.name, agreed.server.capabilities) == ("played", {"tools": {}})
    assert server.methods == ["server/discover"]
    assert agreed.stamp == server.received[0]["params"]["_meta"]
    assert agreed.stamp == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": US.info,
        "io.modelcontextprotocol/clientCapabilities": US.capabilities,
        "io.modelcontextprotocol/logLevel": "debug",
    }


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32603, -32000, 0, 404])
async def test_any_error_that_is_not_recognisably_modern_means_the_legacy_era(code: int) -> None:
    server = PlayedServer(server__discover=RemoteError(code, "what?"), initialize=LEGACY)
    agreed = await agree(server)
    assert (agreed.version, agreed.era, agreed.handshake, agreed.stamp) == ("2025-11-25", versions.LEGACY, True, None)
    assert server.methods == ["server/discover", "initialize"]
    assert server.named("initialize")[0]["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": US.capabilities,
        "clientInfo": US.info,
    }


@pytest.mark.parametrize("answer", [{}, {"supportedVersions": "2026-07-28"}, {"tools": []}])
async def test_a_server_that_answers_anything_to_anything_is_not_modern(answer: Wire) -> None:
    assert (await agree(PlayedServer(server__discover=answer, initialize=LEGACY))).era is versions.LEGACY


async def test_an_error_that_is_malformed_is_an_error_too() -> None:
    ours, theirs = MemoryStream.pair()

    async def serve() -> None:
        first = await theirs.receive()
        await theirs.send({"jsonrpc": "2.0", "id": first["id"], "error": "what?"})
        second = await theirs.receive()
        await theirs.send(jsonrpc.result(second["id"], LEGACY))

    serving = asyncio.create_task(serve())
    assert (await agree(lambda: ours)).era is versions.LEGACY
    await serving


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_older_handshake_revision_is_accepted(version: str, mode: str) -> None:
    server = PlayedServer(initialize={**LEGACY, "protocolVersion": version})
    agreed = await agree(server, mode=mode)
    assert (agreed.version, agreed.server.protocol_version, agreed.era) == (version, version, versions.LEGACY)
    assert server.methods[-1] == "initialize"


@pytest.mark.parametrize("version", ["2099-01-01", "2026-07-28", "", None, 7, ["2025-11-25"]])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_unknown_revision_is_refused_for_good_and_named(version: Any, mode: str) -> None:
    """2026-07-28 has no `initialize`: a server that answers it with that is broken."""
    with pytest.raises(ConnectError, match="protocol revision") as caught:
        await agree(PlayedServer(initialize={**LEGACY, "protocolVersion": version}), mode=mode)
    assert caught.value.permanent
    assert repr(version) in str(caught.value)
    assert "2025-06-18" in str(caught.value)


# ---- versions offered ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [unsupported("2025-11-25", "2025-06-18"), {**MODERN, "supportedVersions": ["2025-11-25"]}],
    ids=["as an error", "as a result"],
)
async def test_a_server_that_knows_both_eras_and_serves_the_old_one_gets_a_handshake(said: Any) -> None:
    server = PlayedServer(server__discover=said, initialize=LEGACY)
    agreed = await agree(server)
    assert (agreed.version, agreed.handshake) == ("2025-11-25", True)
    assert server.methods == ["server/discover", "initialize"]


async def test_another_modern_version_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "MODERN_VERSIONS", ("2027-01-01", "2026-07-28"))

    def discover(params: Wire) -> Any:
        asked = params["_meta"]["io.modelcontextprotocol/protocolVersion"]
        return MODERN if asked == "2026-07-28" else unsupported("2026-07-28")

    server = PlayedServer(server__discover=discover)
    agreed = await agree(server)
    assert agreed.version == "2026-07-28"
    assert agreed.stamp is not None
    assert agreed.stamp["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert server.methods == ["server/discover"] * 2


@pytest.mark.parametrize(
    "said",
    [
        unsupported("2099-01-01"),
        unsupported(),
        RemoteError(-32022, "no", None),
        RemoteError(-32022, "no", {"supported": "2026-07-28"}),
        {**MODERN, "supportedVersions": ["2099-01-01"]},
        {**MODERN, "supportedVersions": []},
    ],
    ids=[
        "other",
        "none",
        "no data",
        "no list",
        "other in a result",
        "none in a result",
    ],
)
async def test_without_a_common_version_the_attempt_ends_for_good_and_does_not_go_round(said: Any) -> None:
    server = PlayedServer(server__discover=said)
    with pytest.raises(ConnectError) as caught:
        await agree(server)
    assert caught.value.permanent
    assert server.methods == ["server/discover"]


async def test_a_server_that_offers_the_version_that_it_refused_is_asked_exactly_once_more() -> None:
    server = PlayedServer(server__discover=unsupported("2026-07-28"))
    with pytest.raises(ConnectError) as caught:
        await agree(server)
    assert caught.value.permanent
    assert server.methods == ["server/discover", "server/discover"]


# ---- modes and memory ----------------------------------------------------------------------------------------


async def test_legacy_asks_for_a_handshake_alone() -> None:
    server = PlayedServer(server__discover=MODERN, initialize=LEGACY)
    assert (await agree(server, mode="legacy")).era is versions.LEGACY
    assert server.methods == ["initialize"]


async def test_a_given_modern_version_takes_no_other_way() -> None:
    with pytest.raises(RemoteError, match="unknown method"):
        await agree(PlayedServer(initialize=LEGACY), mode="2026-07-28")


async def test_what_a_server_was_is_tried_first_the_next_time() -> None:
    old = PlayedServer(initialize=LEGACY)
    assert (await agree(old, remembered="2025-06-18")).era is versions.LEGACY
    assert old.methods == ["initialize"]
    new = PlayedServer(server__discover=MODERN)
    assert (await agree(new, remembered="2026-07-28")).era is versions.MODERN
    assert new.methods == ["server/discover"]


async def test_a_server_that_was_updated_meanwhile_is_asked_anew() -> None:
    server = PlayedServer(server__discover=MODERN)
    assert (await agree(server, remembered="2025-11-25")).era is versions.MODERN
    assert server.methods == ["initialize", "server/discover"]


async def test_an_answer_that_is_not_an_object_breaks_the_protocol() -> None:
    def nonsense(params: Wire) -> Any:
        return [1, 2]

    with pytest.raises(ProtocolError):
        await agree(PlayedServer(initialize=nonsense), mode="legacy")
