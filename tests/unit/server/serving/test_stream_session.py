"""One client over a stream, in either era: recognising requests and answering them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.server.serving.answering import INFO, MARK
from tests.unit.server.serving.streaming import Client, Wire, said
from toolcrib.errors import ProtocolError
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.metadata import SERVER_INFO

# ---- the era -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_initialize_begins_a_session_in_the_version_that_was_asked_for(client: Client, version: str) -> None:
    client.say("initialize", 1, protocolVersion=version, capabilities={"roots": {}}, clientInfo={"name": "me"})
    assert client.received == [
        jsonrpc.result(
            1,
            {
                "protocolVersion": version,
                "serverInfo": INFO,
                "capabilities": client.bench.capabilities,
                "instructions": "be kind",
            },
        )
    ]
    client.say("tools/list", 2)
    result = (await client.answer(2))["result"]
    assert set(result) == {"tools"}, "hints for caches are not of this era"
    peer = client.bench.exchanges[0].peer
    assert (peer.version, peer.modern, peer.info, peer.capabilities) == (version, False, {"name": "me"}, {"roots": {}})


@pytest.mark.parametrize("version", ["2026-07-28", "1900-01-01", None, 7])
async def test_initialize_never_gives_another_version_than_one_of_the_legacy_era(client: Client, version: Any) -> None:
    client.say("initialize", 1, protocolVersion=version, capabilities={}, clientInfo={})
    assert (await client.answer(1))["result"]["protocolVersion"] == "2025-11-25"


async def test_a_request_that_says_its_version_is_answered_as_a_modern_one(client: Client) -> None:
    client.modern("tools/list", 1)
    result = (await client.answer(1))["result"]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 5, "public")
    assert result["_meta"] == {SERVER_INFO: INFO}
    assert client.bench.exchanges[0].peer.modern
    assert client.bench.exchanges[0].meta == MARK


async def test_a_client_that_has_asked_what_is_served_goes_on_as_a_modern_one(client: Client) -> None:
    client.modern("server/discover", 1)
    result = (await client.answer(1))["result"]
    assert "2026-07-28" in result["supportedVersions"]
    assert (result["capabilities"], result["_meta"][SERVER_INFO]) == (client.bench.capabilities, INFO)
    client.modern("tools/list", 2)
    assert "result" in await client.answer(2)


@pytest.mark.parametrize("meta", [MARK, {**MARK, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}, {}])
async def test_a_client_that_has_asked_what_is_served_may_still_initialize(client: Client, meta: Wire) -> None:
    client.say("server/discover", "probe", _meta=meta)
    await client.answer("probe")
    client.initialize()
    client.say("tools/list", 2)
    assert "resultType" not in (await client.answer(2))["result"]


async def test_a_version_that_is_not_served_is_refused_with_those_that_are(client: Client) -> None:
    client.say("tools/list", 1, _meta={**MARK, "io.modelcontextprotocol/protocolVersion": "2031-01-01"})
    error = await client.error(1)
    assert error["code"] == -32022
    assert error["data"]["requested"] == "2031-01-01"
    assert {"2026-07-28", "2025-11-25"} <= set(error["data"]["supported"])
    client.initialize()


async def test_a_first_request_of_neither_era_is_refused_and_ping_is_not(client: Client) -> None:
    client.say("tools/list", 1)
    assert (await client.error(1))["code"] == -32602
    client.say("ping", 2)
    assert (await client.answer(2))["result"] == {}
    assert client.bench.exchanges == []
    client.initialize()


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
)
async def test_methods_that_the_modern_era_removed_are_unknown_there(client: Client, method: str) -> None:
    client.modern("tools/list", 1)
    client.modern(method, 2, uri="x://y", level="info")
    client.say(method, 3)
    assert (await client.error(2))["code"] == -32601
    assert (await client.error(3))["code"] == -32601


@pytest.mark.parametrize("left_out", MARK)
async def test_a_modern_request_without_what_each_must_carry_is_refused(client: Client, left_out: str) -> None:
    client.modern("tools/list", 1)
    await client.answer(1)
    client.say("tools/list", 2, _meta={key: value for key, value in MARK.items() if key != left_out})
    assert (await client.error(2))["code"] == -32602
    assert len(client.bench.exchanges) == 1


async def test_what_the_legacy_era_has_not_yet_is_an_unknown_method_there(old: Client) -> None:
    old.modern("server/discover", 1)
    old.modern("subscriptions/listen", 2, notifications={})
    assert [(await old.error(id))["code"] for id in (1, 2)] == [-32601, -32601]


async def test_a_session_is_initialized_once(old: Client) -> None:
    old.say("initialize", 1, protocolVersion="2024-11-05", capabilities={}, clientInfo={})
    assert (await old.error(1))["code"] == -32600
    assert old.session._peer is not None and old.session._peer.version == "2025-11-25"


# ---- ids and messages ----------------------------------------------------------------------------------------


async def test_ids_come_back_as_they_were_and_a_number_is_not_its_text(old: Client) -> None:
    for id, a in ((7, 1), ("7", 2), ("", 3), (-1, 4), (2**60, 5)):
        old.call(id, "add", a=a, b=0)
    for id, a in ((7, 1), ("7", 2), ("", 3), (-1, 4), (2**60, 5)):
        assert said(await old.answer(id)) == str(a)


async def test_the_id_of_a_running_request_is_refused_and_the_first_one_is_still_answered(old: Client) -> None:
    old.call(1, "hold")
    old.call(1, "add", a=1, b=1)
    assert old.received.pop()["error"]["code"] == -32600
    old.bench.gate.set()
    assert said(await old.answer(1)) == "held"
    assert old.bench.ran == ["hold"]
    old.received.clear()
    old.call(1, "add", a=1, b=1)
    assert said(await old.answer(1)) == "2", "once answered, it is free"


@pytest.mark.parametrize(
    "message, id, code",
    [
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": 1.0, "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": [1], "method": "ping"}, None, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, 1, -32600),
        ({"jsonrpc": "2.0", "id": 1}, 1, -32600),
        ({"jsonrpc": "1.0", "id": "a", "method": "ping"}, "a", -32600),
        ({"id": 1, "method": "ping"}, 1, -32600),
        ({}, None, -32600),
        ("ping", None, -32600),
        (None, None, -32600),
        ([], None, -32600),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], None, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}, 1, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": None}, 1, -32602),
        ({"jsonrpc": "2.0", "id": 1, "method": "nonsense"}, 1, -32601),
    ],
)
async def test_an_invalid_request_is_refused_by_its_id_if_it_has_one(
    old: Client, message: Any, id: Any, code: int
) -> None:
    old.session.feed(message)
    await eventually(lambda: old.received)
    (answer,) = old.received
    assert (answer["id"], answer["error"]["code"]) == (id, code)
    assert "result" not in answer


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": "notifications/nonsense", "params": [1]},
        {"jsonrpc": "2.0", "method": "notifications/cancelled"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": True}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}},
        {"jsonrpc": "2.0", "id": {}, "result": 5},
    ],
)
async def test_notifications_and_answers_to_nothing_are_never_answered(old: Client, message: Wire) -> None:
    old.call(1, "hold")
    old.session.feed(message)
    await turns()
    assert old.received == []
    old.bench.gate.set()
    assert said(await old.answer(1)) == "held"


@pytest.mark.parametrize(
    "head, id",
    [
        (b"", None),
        (b"{nonsense", None),
        (b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"x', 5),
        (b'{"id": "five", "method": "tools/call", "params": {"x', "five"),
        (b'{"method":"tools/call","jsonrpc":"2.0","id":-5,"params":{', -5),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"id":5,"x', None),
        (b'{"jsonrpc":"2.0","id":5,"result":{"method":"x', None),
        (b'{"jsonrpc":"2.0","id":5,"meth', None),
    ],
)
async def test_garbage_is_answered_and_by_its_id_if_it_began_like_a_request(
    old: Client, head: bytes, id: Any, caplog: pytest.LogCaptureFixture
) -> None:
    old.session.malformed(ProtocolError("not JSON: at 5", sample="{nons"), head)
    assert old.received == [jsonrpc.error(id, -32700, "not JSON: at 5")]
    assert "{nons" in caplog.text


# ---- answers -------------------------------------------------------------------------------------------------


async def test_an_error_of_the_handler_keeps_its_code_message_and_data(old: Client) -> None:
    old.call(1, "refuse")
    assert await old.error(1) == {"code": -32602, "message": "no", "data": {"why": "because"}}


@pytest.mark.parametrize("tool", ["break", "odd", "cancel", "quit"])
@pytest.mark.parametrize("modern", [True, False])
async def test_internal_errors_reveal_nothing_and_are_logged(
    client: Client, tool: str, modern: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if modern:
        client.call_modern(1, tool)
    else:
        client.initialize()
        client.call(1, tool)
    assert await client.error(1) == {"code": -32603, "message": "Internal error"}
    assert [r.levelno for r in caplog.records if r.name == "toolcrib.server"] == [logging.ERROR]
    assert ("4711" in caplog.text) == (tool == "break")


async def test_a_fault_of_the_handler_on_the_reader_s_way_is_an_answer_too(client: Client) -> None:
    client.bench.describe = lambda peer: 1 / 0  # type: ignore[assignment,method-assign]
    client.modern("server/discover", 1)
    assert (await client.error(1))["code"] == -32603


async def test_codes_are_those_of_the_era() -> None:
    old, new = Client(), Client()
    old.initialize()
    old.say("resources/read", 1, uri="x://lost")
    old.call(2, "need")
    new.modern("resources/read", 1, uri="x://lost")
    new.call_modern(2, "need")
    assert (await old.error(1))["code"] == -32002
    assert (await new.error(1))["code"] == -32602
    assert (await old.answer(2))["result"]["isError"] is True
    assert (await new.error(2))["code"] == -32021
    await asyncio.gather(old.session.close(), new.session.close())


async def test_notifications_of_a_request_come_before_its_answer_and_none_after(old: Client) -> None:
    old.say("tools/call", 1, name="tell", _meta={"progressToken": "t"})
    await old.answer(1)
    assert [m.get("method") for m in old.received] == ["notifications/progress"] * 2 + [None]
    assert [m["params"]["progress"] for m in old.named("notifications/progress")] == [0, 1]
    await old.bench.exchanges[0].back_channel.notify("notifications/progress", {"progressToken": "t", "progress": 9})
    assert "method" not in old.received[-1]
