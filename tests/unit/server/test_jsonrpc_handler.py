"""The JSON-RPC handler: exact messages, without a session, in both eras."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

import toolcrib as tc
from toolcrib.protocol.metadata import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO
from toolcrib.types import Wire

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}


def calculator() -> tc.ToolServer:
    server = tc.ToolServer("my_server", "1.0.0")

    async def calculate(args: Wire) -> tc.ToolResult:
        return tc.ToolResult.from_text(f"Result: {args['a'] + args['b']}")

    server.add_tool(calculate, name="calculator", description="Add two numbers", input_schema=SCHEMA)
    return server


def request(method: str, params: Any = None, id: Any = 1) -> Wire:
    message: Wire = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


def modern(capabilities: Wire | None = None, **params: Any) -> Wire:
    meta = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: capabilities or {}, CLIENT_INFO: {"name": "c"}}
    return {**params, "_meta": meta}


async def error_of(server: tc.ToolServer, message: Any) -> tuple[Any, int]:
    answer = await server.handle(message)
    assert answer is not None and answer.keys() == {"jsonrpc", "id", "error"}
    assert isinstance(answer["error"]["message"], str)
    return answer["id"], answer["error"]["code"]


# ---- the messages --------------------------------------------------------------------------------------------


async def test_initialize_is_answered_exactly() -> None:
    assert await calculator().handle(request("initialize")) == {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "my_server", "version": "1.0.0"},
        },
    }


async def test_tools_list_is_answered_exactly() -> None:
    assert await calculator().handle(request("tools/list", id=2)) == {
        "jsonrpc": "2.0",
        "id": 2,
        "result": {"tools": [{"name": "calculator", "description": "Add two numbers", "inputSchema": SCHEMA}]},
    }


async def test_tools_call_is_answered_exactly() -> None:
    call = request("tools/call", {"name": "calculator", "arguments": {"a": 2, "b": 3}}, id=3)
    assert await calculator().handle(call) == {
        "jsonrpc": "2.0",
        "id": 3,
        "result": {"content": [{"type": "text", "text": "Result: 5"}]},
    }


async def test_text_and_bytes_are_requests_too() -> None:
    text = json.dumps(request("ping", id="p"))
    for given in (text, text.encode()):
        assert await calculator().handle(given) == {"jsonrpc": "2.0", "id": "p", "result": {}}


@pytest.mark.parametrize(
    "asked, given", [("2025-03-26", "2025-03-26"), ("2026-07-28", "2025-11-25"), (5, "2025-11-25")]
)
async def test_initialize_agrees_on_a_version_of_its_era(asked: Any, given: str) -> None:
    answer = await calculator().handle(request("initialize", {"protocolVersion": asked}))
    assert answer is not None and answer["result"]["protocolVersion"] == given


async def test_a_server_with_more_than_tools_says_so() -> None:
    server = tc.ToolServer("s", instructions="Be kind")
    server.add_prompt(lambda: "x", name="p")
    server.add_resource(lambda: "x", "a:b", name="r")
    answer = await server.handle(request("initialize"))
    assert answer is not None
    assert answer["result"]["capabilities"] == {"tools": {}, "prompts": {}, "resources": {}}
    assert answer["result"]["instructions"] == "Be kind"
    read = await server.handle(request("resources/read", {"uri": "a:b"}))
    assert read is not None and read["result"]["contents"][0]["text"] == "x"


async def test_what_was_answered_is_the_callers_own() -> None:
    server = calculator()
    for _ in range(2):
        answer = await server.handle(request("tools/list"))
        assert answer is not None
        assert answer["result"]["tools"][0]["inputSchema"] == SCHEMA
        answer["result"]["tools"][0]["inputSchema"].clear()


# ---- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message, id, code",
    [
        ("{", None, -32700),
        (b"\xff", None, -32700),
        ("", None, -32700),
        ("[1", None, -32700),
        ("[" * 100_000 + "]" * 100_000, None, -32700),
        ([], None, -32600),
        ([request("ping")], None, -32600),
        ("5", None, -32600),
        (None, None, -32600),
        ({}, None, -32600),
        ({"id": 4, "method": "ping"}, 4, -32600),
        ({"jsonrpc": "1.0", "id": 4, "method": "ping"}, 4, -32600),
        ({"jsonrpc": "2.0", "id": 4}, 4, -32600),
        ({"jsonrpc": "2.0", "id": 4, "method": 5}, 4, -32600),
        ({"jsonrpc": "2.0", "id": 4, "result": {}}, 4, -32600),
        (request("ping", id=None), None, -32600),
        (request("ping", id=True), None, -32600),
        (request("ping", id=1.5), None, -32600),
        (request("ping", id=[1]), None, -32600),
        (request("tools/fly"), 1, -32601),
        (request("resources/subscribe", {"uri": "a:b"}), 1, -32601),
        (request("tools/call", {"name": "nothing"}), 1, -32602),
        (request("tools/call", {}), 1, -32602),
        (request("tools/call", []), 1, -32602),
        (request("tools/call", {"name": "calculator", "arguments": "a"}), 1, -32602),
        (request("tools/list", {"cursor": "x"}, id="s"), "s", -32602),
    ],
)
async def test_what_is_wrong_is_an_error_answer_with_its_code(message: Any, id: Any, code: int) -> None:
    assert await error_of(calculator(), message) == (id, code)


@pytest.mark.parametrize("method", ["notifications/initialized", "notifications/cancelled", "tools/call", "unheard/of"])
async def test_notifications_get_no_answer_and_run_nothing(method: str) -> None:
    server, ran = tc.ToolServer("s"), []
    server.add_tool(lambda: ran.append(1), name="t")
    assert await server.handle({"jsonrpc": "2.0", "method": method, "params": {"name": "t"}}) is None
    assert ran == []


async def test_a_tools_failure_is_a_result_and_its_remote_error_an_error() -> None:
    server = tc.ToolServer("s")

    @server.tool
    async def fail() -> None:
        raise ValueError("no luck")

    @server.tool
    async def refuse() -> None:
        raise tc.RemoteError(message="broken inside", data={"part": 7})

    @server.tool
    async def decline() -> tc.ToolResult:
        return tc.ToolResult.from_error("Invalid input: expected positive number")

    failed = await server.handle(request("tools/call", {"name": "fail"}))
    assert failed is not None
    assert failed["result"] == {"content": [{"type": "text", "text": "no luck"}], "isError": True}
    declined = await server.handle(request("tools/call", {"name": "decline"}))
    assert declined is not None and declined["result"]["isError"] is True
    assert await server.handle(request("tools/call", {"name": "refuse"})) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32603, "message": "broken inside", "data": {"part": 7}},
    }


async def test_an_internal_error_is_logged_and_reveals_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = calculator()
    monkeypatch.setattr(server, "page_size", "many")
    assert await server.handle(request("tools/list")) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32603, "message": "Internal error"},
    }
    assert [r.levelno for r in caplog.records] == [logging.ERROR]
    assert "TypeError" in caplog.text


async def test_a_tool_that_would_ask_learns_that_the_client_cannot_be_asked() -> None:
    server = tc.ToolServer("s")

    @server.tool
    async def ask(*, ctx: tc.Context) -> str:
        await ctx.progress(1)
        await ctx.info("to nobody")
        return (await ctx.elicit("Go on?")).action

    answer = await server.handle(request("tools/call", {"name": "ask", "_meta": {"progressToken": 1}}))
    assert answer is not None and answer["result"]["isError"] is True
    assert "elicitation" in answer["result"]["content"][0]["text"]


# ---- the modern era ------------------------------------------------------------------------------------------


async def test_a_modern_request_gets_a_modern_answer() -> None:
    call = modern(name="calculator", arguments={"a": 2, "b": 3})
    answer = await calculator().handle(request("tools/call", call))
    assert answer is not None
    assert answer["result"] == {
        "resultType": "complete",
        "content": [{"type": "text", "text": "Result: 5"}],
        "_meta": {SERVER_INFO: {"name": "my_server", "version": "1.0.0"}},
    }
    discovered = await calculator().handle(request("server/discover", modern()))
    assert discovered is not None
    assert "2026-07-28" in discovered["result"]["supportedVersions"]
    assert discovered["result"]["capabilities"] == {"tools": {}}


async def test_modern_refusals_have_the_codes_of_their_era() -> None:
    server = calculator()
    assert await error_of(server, request("initialize", modern())) == (1, -32601)
    assert await error_of(server, request("resources/read", modern(uri="a:b"))) == (1, -32602)
    assert await error_of(server, request("tools/list", {"_meta": {PROTOCOL_VERSION: "2026-07-28"}})) == (1, -32602)
    assert await error_of(
        server, request("tools/list", {"_meta": {PROTOCOL_VERSION: "1999-01-01", CLIENT_CAPABILITIES: {}}})
    ) == (1, -32022)


async def test_a_modern_call_that_asks_is_answered_in_rounds_and_runs_once() -> None:
    server, ran = tc.ToolServer("s"), []

    @server.tool
    async def ask(*, ctx: tc.Context) -> str:
        ran.append(1)
        return (await ctx.elicit("Go on?", key="go")).action

    capabilities: Wire = {"elicitation": {}}
    first = await server.handle(request("tools/call", modern(capabilities, name="ask")))
    assert first is not None and first["result"]["resultType"] == "input_required"
    assert first["result"]["inputRequests"]["go"]["method"] == "elicitation/create"
    again = modern(
        capabilities,
        name="ask",
        requestState=first["result"]["requestState"],
        inputResponses={"go": {"action": "decline"}},
    )
    second = await server.handle(request("tools/call", again, id=2))
    assert second is not None and second["result"]["content"] == [{"type": "text", "text": "decline"}]
    assert ran == [1]
    assert await error_of(server, request("tools/call", modern(name="ask", requestState="forged"))) == (1, -32602)
    assert await error_of(server, request("tools/call", modern(name="ask"))) == (1, -32021)
