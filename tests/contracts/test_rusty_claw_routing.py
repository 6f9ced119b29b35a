"""rusty_claw's MCP integration, sentence by sentence: names, routing, errors, the example (sections 6 to 10).

Where that document writes `handle_jsonrpc` and `ClawError`, Toolcrib writes `handle` and `RemoteError`. Each docstring
gives the document's sentence in short words, and, after "Here:", where Toolcrib departs from it and why. The JSON of
section 8 is quoted verbatim.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import toolcrib as tc
from toolcrib import tool_names

ADDING = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}


async def add_two(args: dict[str, Any]) -> tc.ToolResult:
    return tc.ToolResult.from_text(f"Result: {args['a'] + args['b']}")


@pytest.fixture
def server() -> tc.ToolServer:
    """The server of section 8's examples."""
    server = tc.ToolServer("my_server", "1.0.0")
    server.add_tool(add_two, name="calculator", description="Add two numbers", input_schema=ADDING)
    return server


def request(method: str, params: Any = None, id: int = 7) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


async def call(server: tc.ToolServer, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = await server.handle(request("tools/call", {"name": name, "arguments": arguments}))
    assert answer is not None and answer["id"] == 7
    return answer


# ---- 6 and 7: names, and which tools are allowed


def test_a_qualified_name_is_mcp_server_tool() -> None:
    """mcp__{server_name}__{tool_name}: mcp__math-tools__calculator."""
    assert tool_names.make("math-tools", "calculator") == "mcp__math-tools__calculator"


async def test_inside_the_server_tools_have_their_short_names_only() -> None:
    """This naming is handled by the CLI, not the SDK. Here: by the hub (test_004_rusty_claw_hub.py)."""
    server = tc.ToolServer("math-tools")
    server.add_tool(add_two, name="calculator", input_schema=ADDING)
    assert [tool.name for tool in server.list_tools()] == ["calculator"]
    answer = await call(server, "mcp__math-tools__calculator", {"a": 1, "b": 2})
    assert answer["error"]["code"] == -32602


async def test_tools_can_be_allowed_and_disallowed() -> None:
    """allowed_tools: pre-authorize specific tools; disallowed_tools: block specific tools.

    Here: for one server by its tools' own names, as a filter of the client; by qualified names with the hub.
    """
    server = tc.ToolServer("math-tools")
    for name in ("calculator", "add", "delete"):
        server.add_tool(add_two, name=name, input_schema=ADDING)
    sum_of = {"a": 1, "b": 2}
    async with tc.Client(server, tool_filter=tc.static_filter(allowed=["calculator", "add"])) as client:
        assert [tool.name for tool in await client.list_tools()] == ["calculator", "add"]
        assert (await client.call_tool("add", sum_of)).text == "Result: 3"
        with pytest.raises(tc.AccessDenied):
            await client.call_tool("delete", sum_of)
    async with tc.Client(server, tool_filter=tc.static_filter(blocked=["delete"])) as client:
        assert [tool.name for tool in await client.list_tools()] == ["calculator", "add"]


# ---- 8: JSON-RPC routing, word for word


EXAMPLES = {
    "initialize": (
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize"}',
        """{
          "jsonrpc": "2.0",
          "id": 1,
          "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "my_server", "version": "1.0.0" }
          }
        }""",
    ),
    "tools/list": (
        '{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}',
        """{
          "jsonrpc": "2.0",
          "id": 2,
          "result": {
            "tools": [
              {
                "name": "calculator",
                "description": "Add two numbers",
                "inputSchema": {
                  "type": "object",
                  "properties": { "a": {"type": "number"}, "b": {"type": "number"} },
                  "required": ["a", "b"]
                }
              }
            ]
          }
        }""",
    ),
    "tools/call": (
        """{
          "jsonrpc": "2.0",
          "id": 3,
          "method": "tools/call",
          "params": { "name": "calculator", "arguments": { "a": 2, "b": 3 } }
        }""",
        """{
          "jsonrpc": "2.0",
          "id": 3,
          "result": {
            "content": [{"type": "text", "text": "Result: 5"}]
          }
        }""",
    ),
}


@pytest.mark.parametrize("method", EXAMPLES)
async def test_the_documents_requests_get_the_documents_responses(server: tc.ToolServer, method: str) -> None:
    """Request/response examples. None of them needs another one before it."""
    asked, answer = EXAMPLES[method]
    assert await server.handle(json.loads(asked)) == json.loads(answer)
    assert await server.handle(asked) == json.loads(answer), "as a text"
    assert await tc.ServerRegistry([server]).handle("my_server", asked) == json.loads(answer), "through the registry"


async def test_a_function_that_takes_two_floats_is_listed_as_the_documents_tool(server: tc.ToolServer) -> None:
    """tools/list: name, description, inputSchema, and nothing else. A return type with a structure adds a schema."""
    written = tc.ToolServer("my_server", "1.0.0")

    @written.tool(name="calculator", description="Add two numbers")
    async def add(a: float, b: float) -> tc.ToolResult:
        return tc.ToolResult.from_text(f"Result: {a + b:g}")

    for asked, _ in EXAMPLES.values():
        assert await written.handle(asked) == await server.handle(asked)


async def test_a_notification_is_not_answered(server: tc.ToolServer) -> None:
    """JSON-RPC 2.0."""
    assert await server.handle({"jsonrpc": "2.0", "method": "notifications/initialized"}) is None


# ---- 9: errors


@pytest.mark.parametrize("method", ["tools/delete", "nonsense", "", "sampling/createMessage"])
async def test_any_other_method_is_32601(server: tc.ToolServer, method: str) -> None:
    """(anything else): -32601, method not found. Here: what else MCP asks of a server is answered too, as `ping`."""
    answer = await server.handle(request(method))
    assert answer is not None
    assert (answer["id"], answer["error"]["code"]) == (7, -32601)
    assert "result" not in answer and "data" not in answer["error"]
    assert await server.handle(request("ping")) == {"jsonrpc": "2.0", "id": 7, "result": {}}


async def test_an_unknown_tool_is_32602(server: tc.ToolServer) -> None:
    """-32602, invalid params: tool not found by name. Here: with the names that look like it."""
    answer = await call(server, "calculater", {"a": 2, "b": 3})
    assert answer["error"] == {"code": -32602, "message": "Unknown tool: calculater; did you mean 'calculator'?"}


@pytest.mark.parametrize("params", [None, {}, {"name": 7}, {"name": "calculator", "arguments": [1, 2]}, [1]])
async def test_invalid_params_are_32602_too(server: tc.ToolServer, params: Any) -> None:
    """Looks up tool by `params.name`, executes with `params.arguments`."""
    answer = await server.handle(request("tools/call", params))
    assert answer is not None and answer["error"]["code"] == -32602


@pytest.mark.parametrize(
    "said, code",
    [("{", -32700), (b"\xff", -32700), ("[]", -32600), ("7", -32600), ('{"id": 1, "method": "ping"}', -32600)],
)
async def test_invalid_requests_are_answered_with_the_codes_of_json_rpc(
    server: tc.ToolServer, said: str | bytes, code: int
) -> None:
    """JSON-RPC 2.0: -32700 for what is no JSON, -32600 for what is no request."""
    answer = await server.handle(said)
    assert answer is not None and answer["error"]["code"] == code


async def test_a_logical_error_is_a_successful_response_that_says_is_error() -> None:
    """Ok(ToolResult::error("Invalid input: expected positive number"))."""
    server = tc.ToolServer("s")
    server.add_tool(lambda: tc.ToolResult.from_error("Invalid input: expected positive number"), name="check")
    assert (await call(server, "check", {}))["result"] == {
        "content": [{"type": "text", "text": "Invalid input: expected positive number"}],
        "isError": True,
    }


@pytest.fixture
def fetching() -> tc.ToolServer:
    """The document's `fetch`, with each way to fail."""
    server = tc.ToolServer("s")

    @server.tool(name="fetch", description="Fetch a URL")
    async def fetch_url(url: str) -> tc.ToolResult:
        if not url:
            raise tc.RemoteError(-32603, "URL cannot be empty")
        if url == "gone":
            raise tc.ToolFailed("the page is gone")
        if url == "broken":
            raise OSError("connection refused")
        return tc.ToolResult.from_text(f"Fetched: {url}")

    return server


async def test_an_err_of_the_handler_is_32603(fetching: tc.ToolServer) -> None:
    """Err(ClawError): the server wraps it in a JSON-RPC error response with code -32603. Here: raise RemoteError."""
    assert (await call(fetching, "fetch", {"url": ""}))["error"] == {"code": -32603, "message": "URL cannot be empty"}
    fetched = await call(fetching, "fetch", {"url": "https://example.com"})
    assert fetched["result"] == {"content": [{"type": "text", "text": "Fetched: https://example.com"}]}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_err_of_the_handler_reaches_a_client_as_that_error(fetching: tc.ToolServer, mode: Any) -> None:
    """ClawError propagation, to the one who called."""
    async with tc.Client(fetching, mode=mode) as client:
        with pytest.raises(tc.RemoteError, match="URL cannot be empty") as told:
            await client.call_tool("fetch", {"url": ""})
    assert told.value.code == -32603


@pytest.mark.parametrize("url, text", [("gone", "the page is gone"), ("broken", "connection refused")])
async def test_any_other_exception_is_a_result_that_a_model_can_read(
    fetching: tc.ToolServer, url: str, text: str
) -> None:
    """Err(ClawError) is -32603. Here: only a RemoteError; what a tool fails of otherwise is a result with `isError`,
    as MCP wants it: a model sees results and can correct its call, while a JSON-RPC error ends in the program."""
    result = (await call(fetching, "fetch", {"url": url}))["result"]
    assert result == {"content": [{"type": "text", "text": text}], "isError": True}


@pytest.mark.parametrize(
    "arguments, told",
    [
        ({"a": 1, "b": 2}, "operation: missing"),
        ({"operation": "add", "a": "one", "b": 2}, "a: Input should be a valid integer"),
        ({"operation": "add", "a": 1, "b": 2, "bb": 3}, "bb: unknown argument, did you mean 'b'?"),
    ],
)
async def test_missing_and_invalid_parameters_are_named(arguments: dict[str, Any], told: str) -> None:
    """The macro returns ClawError::ToolExecution, thus -32603, for missing or invalid required parameters.

    Here: a result with `isError` that names them, for the model made the mistake and the model can correct it.
    """
    server = tc.ToolServer("s")

    @server.tool(name="calculator")
    async def calculator(operation: str, a: int, b: int) -> str:
        return f"{operation} {a} {b}"

    result = (await call(server, "calculator", arguments))["result"]
    assert result["isError"] is True
    assert told in result["content"][0]["text"]
    assert result["content"][0]["text"].startswith("Invalid arguments for calculator: ")


# ---- 10: the full end-to-end example


async def test_the_full_end_to_end_example() -> None:
    """Define a tool, build the server and the registry, allow mcp__math-tools__calculator, handle messages.

    Here: where the document registers the registry with a client of the CLI, a `Client` takes the server itself; the
    one allowed tool is given to it as a filter.
    """

    @tc.tool(name="calculator", description="Perform arithmetic")
    async def calculator(operation: str, a: int, b: int) -> tc.ToolResult:
        match operation:
            case "add":
                return tc.ToolResult.from_text(f"{a + b}")
            case "multiply":
                return tc.ToolResult.from_text(f"{a * b}")
            case _:
                return tc.ToolResult.from_error(f"Unknown operation: {operation}")

    server = tc.ToolServer("math-tools", version="1.0.0")
    server.add_tool(calculator)
    registry = tc.ServerRegistry()
    registry.register(server)

    params = {"name": "calculator", "arguments": {"operation": "multiply", "a": 6, "b": 7}}
    answer = await registry.handle("math-tools", request("tools/call", params))
    assert answer == {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "42"}]}}

    allowed = tc.static_filter(allowed=["calculator"])
    async with tc.Client(registry.get("math-tools"), tool_filter=allowed) as client:
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("math-tools", "1.0.0")
        assert (await client.call_tool("calculator", {"operation": "add", "a": 2, "b": 3})).text == "5"
        assert (await client.call_tool("calculator", {"operation": "root", "a": 2, "b": 3})).is_error
