"""Which era a server speaks, found out with servers of every kind, played over a stream in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.unit.kit import HANDSHAKE, MODERN, SILENCE, PlayedServer, eventually, turns
from toolyard.client import negotiation
from toolyard.client.negotiation import Agreement, Identity, negotiate
from toolyard.errors import ConnectError, OutcomeUnknown, ProtocolError, RemoteError
from toolyard.protocol import eras, jsonrpc
from toolyard.transports.foreign import connector
from toolyard.transports.memory import MemoryStream, MessageLink
from toolyard.transports.stream import StreamChannel
from toolyard.types import Wire

US = Identity({"name": "test", "version": "1"}, {"roots": {}}, "debug")
UNKNOWN_METHOD = RemoteError(-32601, "unknown method")


class Deaf:
    """Takes no notice."""

    takes_requests = True

    async def on_request(self, method: str, params: Wire) -> Wire:
        return {}

    def on_notification(self, method: str, params: Wire) -> None: ...

    def on_closed(self, error: Exception) -> None: ...


@asynccontextmanager
async def channel_to(make: Any) -> AsyncIterator[StreamChannel]:
    channel = StreamChannel(MessageLink(connector(make)))
    await channel.open(Deaf())
    yield channel
    await channel.close()


async def agree(make: Any, *, mode: str = "auto", remembered: str | None = None) -> Agreement:
    async with channel_to(make) as channel, asyncio.timeout(10):
        return await negotiate(channel, US, mode=mode, remembered=remembered)


def unsupported(*supported: Any) -> RemoteError:
    return RemoteError(-32022, "Unsupported protocol version", {"supported": list(supported)})


# ---- the answers of one question -----------------------------------------------------------------------------


async def test_a_modern_server_is_asked_once_and_every_request_will_say_who_we_are() -> None:
    server = PlayedServer(server__discover=MODERN)
    agreed = await agree(server)
    assert (agreed.version, agreed.era, agreed.handshake) == ("2026-07-28", eras.MODERN, False)
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
async def test_any_error_that_is_not_recognisably_modern_means_the_handshake_era(code: int) -> None:
    server = PlayedServer(server__discover=RemoteError(code, "what?"), initialize=HANDSHAKE)
    agreed = await agree(server)
    assert (agreed.version, agreed.era, agreed.handshake, agreed.stamp) == ("2025-11-25", eras.HANDSHAKE, True, None)
    assert server.methods == ["server/discover", "initialize"]
    assert server.named("initialize")[0]["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": US.capabilities,
        "clientInfo": US.info,
    }


@pytest.mark.parametrize("answer", [{}, {"supportedVersions": "2026-07-28"}, {"tools": []}])
async def test_a_server_that_answers_anything_to_anything_is_no_modern_one(answer: Wire) -> None:
    assert (await agree(PlayedServer(server__discover=answer, initialize=HANDSHAKE))).era is eras.HANDSHAKE


async def test_an_error_that_is_malformed_is_an_error_too() -> None:
    ours, theirs = MemoryStream.pair()

    async def serve() -> None:
        first = await theirs.receive()
        await theirs.send({"jsonrpc": "2.0", "id": first["id"], "error": "what?"})
        second = await theirs.receive()
        await theirs.send(jsonrpc.result(second["id"], HANDSHAKE))

    serving = asyncio.create_task(serve())
    assert (await agree(lambda: ours)).era is eras.HANDSHAKE
    await serving


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_older_handshake_revision_is_accepted(version: str, mode: str) -> None:
    server = PlayedServer(initialize={**HANDSHAKE, "protocolVersion": version})
    agreed = await agree(server, mode=mode)
    assert (agreed.version, agreed.server.protocol_version, agreed.era) == (version, version, eras.HANDSHAKE)
    assert server.methods[-1] == "initialize"


@pytest.mark.parametrize("version", ["2099-01-01", "2026-07-28", "", None, 7, ["2025-11-25"]])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_unknown_revision_is_refused_for_good_and_named(version: Any, mode: str) -> None:
    """2026-07-28 has no `initialize`: a server that answers it with that is broken."""
    with pytest.raises(ConnectError, match="protocol revision") as caught:
        await agree(PlayedServer(initialize={**HANDSHAKE, "protocolVersion": version}), mode=mode)
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
    server = PlayedServer(server__discover=said, initialize=HANDSHAKE)
    agreed = await agree(server)
    assert (agreed.version, agreed.handshake) == ("2025-11-25", True)
    assert server.methods == ["server/discover", "initialize"]


async def test_another_modern_version_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eras, "MODERN_VERSIONS", ("2027-01-01", "2026-07-28"))

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
        unsupported("2026-07-28"),
        {**MODERN, "supportedVersions": ["2099-01-01"]},
        {**MODERN, "supportedVersions": []},
    ],
    ids=[
        "other",
        "none",
        "no data",
        "no list",
        "the very one that it refused",
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


# ---- modes and memory ----------------------------------------------------------------------------------------


async def test_legacy_asks_for_a_handshake_alone() -> None:
    server = PlayedServer(server__discover=MODERN, initialize=HANDSHAKE)
    assert (await agree(server, mode="legacy")).era is eras.HANDSHAKE
    assert server.methods == ["initialize"]


async def test_a_given_modern_version_takes_no_other_way() -> None:
    with pytest.raises(RemoteError, match="unknown method"):
        await agree(PlayedServer(initialize=HANDSHAKE), mode="2026-07-28")


async def test_what_a_server_was_is_tried_first_the_next_time() -> None:
    old = PlayedServer(initialize=HANDSHAKE)
    assert (await agree(old, remembered="2025-06-18")).era is eras.HANDSHAKE
    assert old.methods == ["initialize"]
    new = PlayedServer(server__discover=MODERN)
    assert (await agree(new, remembered="2026-07-28")).era is eras.MODERN
    assert new.methods == ["server/discover"]


async def test_a_server_that_was_updated_meanwhile_is_asked_anew() -> None:
    server = PlayedServer(server__discover=MODERN)
    assert (await agree(server, remembered="2025-11-25")).era is eras.MODERN
    assert server.methods == ["initialize", "server/discover"]


# ---- silence -------------------------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose patience with a silent server at once."""
    monkeypatch.setattr(negotiation, "PROBE", 0.001)


@pytest.mark.usefixtures("soon")
async def test_an_old_server_that_is_mute_to_what_it_does_not_know_gets_its_handshake() -> None:
    server = PlayedServer(server__discover=SILENCE, initialize=HANDSHAKE)
    assert (await agree(server)).era is eras.HANDSHAKE
    await turns()
    assert "notifications/cancelled" not in server.methods


@pytest.mark.parametrize("first", ["server/discover", "initialize"])
@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.usefixtures("soon")
async def test_a_slow_server_is_asked_both_ways_and_what_it_answers_counts(first: str, modern: bool) -> None:
    """A refusal of one question is no verdict while the other one waits, whichever comes first."""
    good, refused = ("server/discover", "initialize") if modern else ("initialize", "server/discover")
    released = {method: asyncio.Event() for method in (good, refused)}

    def answer(method: str, said: Any) -> Any:
        async def when_released(params: Wire) -> Any:
            await released[method].wait()
            return said

        return when_released

    server = PlayedServer()
    server.answers = {
        good: answer(good, MODERN if modern else HANDSHAKE),
        refused: answer(refused, UNKNOWN_METHOD),
    }
    agreeing = asyncio.create_task(agree(server))
    await eventually(lambda: len(server.methods) == 2)
    released[first].set()
    await turns(20)
    assert agreeing.done() == (first == good)
    for each in released.values():
        each.set()
    assert (await agreeing).era.name == ("modern" if modern else "handshake")


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.usefixtures("soon")
async def test_a_slow_server_that_answers_both_questions_at_once_is_understood(modern: bool) -> None:
    for _ in range(20):  # which of two finished tasks is seen first is chance
        ours, theirs = MemoryStream.pair()
        agreeing = asyncio.create_task(agree(lambda stream=ours: stream))
        asked = {(message := await theirs.receive())["method"]: message["id"] for _ in range(2)}
        refused, good = ("initialize", "server/discover") if modern else ("server/discover", "initialize")
        await theirs.send(jsonrpc.error(asked[refused], -32601, "unknown method"))
        await theirs.send(jsonrpc.result(asked[good], MODERN if modern else HANDSHAKE))
        assert (await agreeing).era.name == ("modern" if modern else "handshake")


@pytest.mark.usefixtures("soon")
async def test_a_slow_server_that_refuses_both_questions_is_told_by_its_refusal_of_the_handshake() -> None:
    server = PlayedServer(server__discover=SILENCE, initialize=RemoteError(-32603, "out of order"))
    agreeing = asyncio.create_task(agree(server))
    await eventually(lambda: len(server.methods) == 2)
    await turns(20)
    assert not agreeing.done()
    await server.end.send(jsonrpc.error(server.received[0]["id"], -32601, "unknown method"))
    with pytest.raises(RemoteError, match="out of order"):
        await agreeing


@pytest.mark.usefixtures("soon")
async def test_a_server_that_dies_while_it_is_asked_ends_the_attempt_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    server = PlayedServer(server__discover=SILENCE, initialize=SILENCE)
    async with channel_to(server) as channel:
        agreeing = asyncio.create_task(negotiate(channel, US, mode="auto", remembered=None))
        await eventually(lambda: len(server.methods) == 2)
        await server.end.close()
        with pytest.raises(OutcomeUnknown):
            await agreeing
    await eventually(lambda: asyncio.all_tasks() == before)


@pytest.mark.usefixtures("soon")
async def test_an_attempt_that_is_cancelled_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    server = PlayedServer(server__discover=SILENCE, initialize=SILENCE)
    agreeing = asyncio.create_task(agree(server))
    await eventually(lambda: len(server.methods) == 2)
    agreeing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await agreeing
    await server.end.close()
    await eventually(lambda: asyncio.all_tasks() == before)


async def test_an_answer_that_is_no_object_breaks_the_protocol() -> None:
    def nonsense(params: Wire) -> Any:
        return [1, 2]

    with pytest.raises(ProtocolError):
        await agree(PlayedServer(initialize=nonsense), mode="legacy")
