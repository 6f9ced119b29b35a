"""rusty_claw's MCP integration, sentence by sentence: servers, tools and results (sections 1 to 5).

Where that document writes `SdkMcpServerImpl`, `#[claw_tool]` and `SdkMcpServerRegistry`, Toolcrib writes `ToolServer`,
`@tool` and `ServerRegistry`. Each docstring gives the document's sentence in short words, and, after "Here:", where
Toolcrib departs from it and why. Names, JSON-RPC and errors have a file of their own.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Optional

import pytest

import toolcrib as tc
from toolcrib import server_from_dict, server_from_json

ADDING = {
    "type": "object",
    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    "required": ["a", "b"],
}


class CalculatorHandler:
    """The document's `ToolHandler`: it gets all arguments at once, and remembers how often."""

    def __init__(self) -> None:
        self.calls = 0

    async def __call__(self, args: dict[str, Any]) -> tc.ToolResult:
        self.calls += 1
        return tc.ToolResult.from_text(f"Result: {args['a'] + args['b']}")


@tc.tool(name="calculator", description="Perform basic arithmetic operations (add or multiply)")
async def calculator(operation: str, a: int, b: int) -> tc.ToolResult:
    match operation:
        case "add":
            return tc.ToolResult.from_text(f"Result: {a + b}")
        case "multiply":
            return tc.ToolResult.from_text(f"Result: {a * b}")
        case _:
            return tc.ToolResult.from_error(f"Unknown operation: {operation}")


@pytest.fixture
def server() -> tc.ToolServer:
    server = tc.ToolServer("my_server", "1.0.0")
    server.add_tool(CalculatorHandler(), name="calculator", description="Add two numbers", input_schema=ADDING)
    return server


def request(method: str, params: Any = None, id: int = 7) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else {**message, "params": params}


async def call(server: tc.ToolServer, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    answer = await server.handle(request("tools/call", {"name": name, "arguments": arguments}))
    assert answer is not None and answer["id"] == 7
    return answer


async def text_of(server: tc.ToolServer, name: str, arguments: dict[str, Any]) -> str:
    (block,) = (await call(server, name, arguments))["result"]["content"]
    assert block["type"] == "text"
    return str(block["text"])


# ---- 1 and 2: external servers, a tagged enum of three transports


EXTERNAL = {
    "stdio": {"type": "stdio", "command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "t"}},
    "sse": {"type": "sse", "url": "https://example.com/sse", "headers": {"X-Key": "k"}},
    "http": {"type": "http", "url": "https://example.com/mcp", "headers": {"X-Key": "k"}},
}
KINDS = {"stdio": tc.StdioServer, "sse": tc.SseServer, "http": tc.HttpServer}


@pytest.mark.parametrize("tag", EXTERNAL)
def test_an_external_server_is_configured_by_a_tag_and_its_fields(tag: str) -> None:
    """McpServerConfig: tag = "type", lowercase: Stdio{command, args, env}, Sse{url, headers}, Http{url, headers}."""
    made = server_from_dict(EXTERNAL[tag])
    assert type(made) is KINDS[tag]
    for field, value in EXTERNAL[tag].items():
        if field != "type":
            given = getattr(made, field)
            assert (list(given) if isinstance(value, list) else given) == value


@pytest.mark.parametrize("tag", EXTERNAL)
def test_env_and_headers_may_be_left_out(tag: str) -> None:
    """#[serde(default)] env, headers: an empty map. Here: None, which sends as little."""
    told = {key: value for key, value in EXTERNAL[tag].items() if key not in ("env", "headers")}
    made = server_from_dict(told)
    assert getattr(made, "env" if tag == "stdio" else "headers") is None


@pytest.mark.parametrize("tag", EXTERNAL)
def test_a_config_survives_being_written_and_read(tag: str) -> None:
    """Serialize, Deserialize: the same tag and fields. Here: with `format="claude"`; both forms are read."""
    made = server_from_dict(EXTERNAL[tag])
    assert json.loads(made.to_json(format="claude")) == EXTERNAL[tag]
    assert server_from_json(made.to_json(format="claude")) == server_from_json(made.to_json()) == made


def test_args_are_written_even_if_there_are_none() -> None:
    """Stdio { command, args, #[serde(default)] env }: a reader of the document's own kind requires args."""
    assert tc.StdioServer("server").to_dict(format="claude") == {"type": "stdio", "command": "server", "args": []}
    assert tc.StdioServer("server").to_dict()["args"] == []


# ---- 3: the core types


def test_a_server_has_a_name_and_a_version() -> None:
    """new(name, version): create a new server."""
    server = tc.ToolServer("calculator", "1.0.0")
    assert (server.name, server.version, server.list_tools()) == ("calculator", "1.0.0", [])


def test_a_tool_has_a_name_a_description_and_an_input_schema(server: tc.ToolServer) -> None:
    """SdkMcpTool { name, description, input_schema, handler }."""
    tool = server.get_tool("calculator")
    assert tool is not None
    assert (tool.name, tool.description, tool.input_schema) == ("calculator", "Add two numbers", ADDING)


def test_get_tool_looks_up_by_name(server: tc.ToolServer) -> None:
    """get_tool(name) -> Option: None where there is none."""
    assert server.get_tool("calculator") is not None
    assert server.get_tool("calculators") is None


def test_list_tools_gives_the_definitions(server: tc.ToolServer) -> None:
    """list_tools() -> Vec<Value>: tool definitions. Here: `Tool` values that can be read like the JSON."""
    server.add_tool(calculator, name="second")
    assert [tool["name"] for tool in server.list_tools()] == ["calculator", "second"]
    assert server.list_tools()[0]["inputSchema"] == ADDING


async def test_a_duplicate_name_overwrites_with_a_warning(
    server: tc.ToolServer, caplog: pytest.LogCaptureFixture
) -> None:
    """register_tool: overwrites on duplicate name. Here: and says so in the log."""
    assert await text_of(server, "calculator", {"a": 1, "b": 2}) == "Result: 3"
    with caplog.at_level(logging.WARNING, "toolcrib"):
        server.add_tool(calculator)
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "'calculator'" in record.getMessage()
    assert len(server.list_tools()) == 1
    assert await text_of(server, "calculator", {"operation": "multiply", "a": 3, "b": 4}) == "Result: 12"


async def test_clients_are_notified_of_the_overwriting(server: tc.ToolServer) -> None:
    """Here only: clients are notified that the list changed."""
    async with tc.Client(server) as client, client.listen() as changes:
        server.add_tool(calculator)
        assert (await anext(changes)).kind == "tools"
        assert (await client.list_tools())[0].description == calculator.description


def test_the_convenience_constructors_of_results() -> None:
    """ToolResult::text, ToolResult::error (is_error = true), ToolResult::new(vec![text, image])."""
    done = tc.ToolResult.from_text("Operation completed")
    assert done.raw == {"content": [{"type": "text", "text": "Operation completed"}]}
    failed = tc.ToolResult.from_error("Something went wrong")
    assert failed.raw == {"content": [{"type": "text", "text": "Something went wrong"}], "isError": True}
    several = tc.ToolResult.from_blocks([tc.TextContent("Description of image"), tc.ImageContent(b"png", "image/png")])
    assert several.raw["content"] == [
        {"type": "text", "text": "Description of image"},
        {"type": "image", "data": "cG5n", "mimeType": "image/png"},
    ]


@pytest.mark.parametrize(
    "result, is_error",
    [
        (tc.ToolResult.from_text("x"), False),
        (tc.ToolResult.from_error("x"), True),
        (tc.ToolResult.from_blocks([tc.ImageContent(b"png", "image/png")]), False),
    ],
)
async def test_results_reach_the_caller_as_they_are(result: tc.ToolResult, is_error: bool) -> None:
    """skip_serializing_if is_none: no `isError`, and no null, unless it is an error."""
    server = tc.ToolServer("s")
    server.add_tool(lambda: result, name="give")
    told = (await call(server, "give", {}))["result"]
    assert told == result.raw
    assert ("isError" in told) is is_error


async def test_the_registry_keeps_servers_by_name_and_routes_to_them(server: tc.ToolServer) -> None:
    """registry.register(server); registry.handle("my_server", json_rpc_request)."""
    other = tc.ToolServer("other", "2.0.0")
    registry = tc.ServerRegistry()
    registry.register(server)
    registry.register(other)
    for name, version in (("my_server", "1.0.0"), ("other", "2.0.0")):
        answer = await registry.handle(name, request("initialize"))
        assert answer is not None
        assert answer["result"]["serverInfo"] == {"name": name, "version": version}


async def test_a_server_that_is_not_registered_is_an_error_with_the_nearest_name(server: tc.ToolServer) -> None:
    """handle(...).await?: an error. Here: ServerNotFound, which has similar names."""
    with pytest.raises(tc.ServerNotFound, match="my_servr") as told:
        await tc.ServerRegistry([server]).handle("my_servr", request("tools/list"))
    assert told.value.nearest == ("my_server",)


# ---- 4: the macro


def test_the_name_is_the_functions_with_dashes() -> None:
    """name: function name with `_` replaced by `-`. Here: as it is, and with dashes for name_style="dashed"."""

    async def get_user_name() -> str:
        return "x"

    assert tc.tool(get_user_name).name == "get_user_name"
    assert tc.tool(name_style="dashed")(get_user_name).name == "get-user-name"
    server = tc.ToolServer("s", name_style="dashed")
    server.add_tool(get_user_name)
    server.add_tool(get_user_name, name="given_name")
    assert [tool.name for tool in server.list_tools()] == ["get-user-name", "given_name"]


def test_the_description_is_the_doc_comment_or_tool_and_name() -> None:
    """description: doc comment, or "Tool: {name}"."""

    async def documented() -> str:
        """What it does."""
        return "x"

    async def without_words() -> str:
        return "x"

    assert tc.tool(documented).description == "What it does."
    assert tc.tool(documented, description="Given").description == "Given"
    assert tc.tool(without_words).description == "Tool: without_words"
    assert tc.tool(without_words, name_style="dashed").description == "Tool: without-words"


class Custom:
    """A type that cannot be described as JSON."""


@pytest.mark.parametrize(
    "annotation, schema, required",
    [
        (str, {"type": "string"}, True),
        (float, {"type": "number"}, True),
        (int, {"type": "integer"}, True),
        (bool, {"type": "boolean"}, True),
        (Optional[str], {"type": "string"}, False),  # noqa: UP045  # as the document's Option<T>
        (int | None, {"type": "integer"}, False),
        (list[str], {"type": "array", "items": {"type": "string"}}, True),
        (list[float] | None, {"type": "array", "items": {"type": "number"}}, False),
        (Custom, {"type": "object"}, True),
        (list[Custom], {"type": "array", "items": {"type": "object"}}, True),
    ],
)
def test_the_supported_parameter_types(annotation: Any, schema: dict[str, Any], required: bool) -> None:
    """String: string; i8..u128, f32, f64: number; bool: boolean; Option<T>: schema of T, not in `required`;
    Vec<T>: array with items of T; custom types: object, the fallback.

    Here: whole numbers are `integer`, which is JSON schema's own word for them and keeps a model from sending 1.5.
    """

    async def take(value: Any) -> str:
        return "x"

    take.__annotations__["value"] = annotation
    wanted = {"type": "object", "properties": {"value": schema}}
    assert tc.tool(take).input_schema == ({**wanted, "required": ["value"]} if required else wanted)


async def test_a_custom_type_gets_the_object_as_it_came() -> None:
    """Custom types: object. Here: it is passed on without validation."""
    server = tc.ToolServer("s")

    @server.tool
    async def take(value: Custom) -> str:
        return json.dumps(value)

    assert await text_of(server, "take", {"value": {"any": [1, "thing"]}}) == '{"any": [1, "thing"]}'


async def test_functions_need_not_be_async_nor_return_tool_results_nor_be_without_self() -> None:
    """Must be async; must return ToolResult or Result; no self. Here: whatever a function can be, a tool can."""

    class Counter:
        def __init__(self) -> None:
            self.count = 40

        @tc.tool
        def count_on(self, by: int) -> int:
            self.count += by
            return self.count

    server = tc.ToolServer("s")
    server.add_tool(Counter().count_on)
    assert server.list_tools()[0].input_schema["properties"] == {"by": {"type": "integer"}}
    result = (await call(server, "count_on", {"by": 2}))["result"]
    assert (result["content"], result["structuredContent"]) == ([{"type": "text", "text": "42"}], {"result": 42})


@pytest.mark.parametrize(
    "arguments, text, is_error",
    [
        ({"operation": "add", "a": 5, "b": 3}, "Result: 8", False),
        ({"operation": "multiply", "a": 5, "b": 3}, "Result: 15", False),
        ({"operation": "root", "a": 5, "b": 3}, "Unknown operation: root", True),
    ],
)
async def test_the_calculator_of_the_document(arguments: dict[str, Any], text: str, is_error: bool) -> None:
    """#[claw_tool(name = "calculator", ...)]; assert_eq!(tool.name, "calculator")."""
    assert calculator.name == "calculator"
    assert calculator.input_schema["required"] == ["operation", "a", "b"]
    server = tc.ToolServer("s")
    server.add_tool(calculator)
    result = (await call(server, "calculator", arguments))["result"]
    assert result["content"] == [{"type": "text", "text": text}]
    assert result.get("isError", False) is is_error


async def test_a_tool_can_still_be_called_as_the_function_that_it_is() -> None:
    """A builder function of the same name returns the tool. Here: the name is the tool itself, and still callable."""
    assert (await calculator("add", 1, 2)).text == "Result: 3"


@pytest.mark.parametrize(
    "arguments, text",
    [({"text": "hi"}, "hi"), ({"text": "hi", "repeat": 3}, "hi\nhi\nhi"), ({"text": "hi", "repeat": None}, "hi")],
)
async def test_the_echo_with_an_optional_parameter(arguments: dict[str, Any], text: str) -> None:
    """echo(text: String, repeat: Option<i32>): repeat.unwrap_or(1)."""
    server = tc.ToolServer("s")

    @server.tool(name="echo", description="Echo text back, optionally repeated multiple times")
    async def echo(text: str, repeat: int | None) -> tc.ToolResult:
        return tc.ToolResult.from_text("\n".join([text] * (1 if repeat is None else repeat)))

    assert server.list_tools()[0].input_schema["required"] == ["text"]
    assert await text_of(server, "echo", arguments) == text


# ---- 5: tools by hand


async def test_a_handler_gets_all_arguments_as_one_value_and_keeps_its_state() -> None:
    """ToolHandler::call(args: Value); useful when the handler needs to capture state."""
    server, handler = tc.ToolServer("calculator", "1.0.0"), CalculatorHandler()
    server.add_tool(handler, name="add", description="Add two numbers", input_schema=ADDING)
    assert await text_of(server, "add", {"a": 1, "b": 2.5}) == "Result: 3.5"
    await call(server, "add", {"a": 1, "b": 2})
    assert handler.calls == 2


async def test_a_closure_or_a_method_is_a_handler_too() -> None:
    """Closures or struct fields with shared data."""
    seen: list[dict[str, Any]] = []

    class Notes:
        async def note(self, args: dict[str, Any]) -> str:
            seen.append(args)
            return "noted"

    async def add(args: dict[str, Any]) -> str:
        seen.append(args)
        return "seen"

    server = tc.ToolServer("s")
    server.add_tool(Notes().note, input_schema=ADDING)
    server.add_tool(add, input_schema=ADDING)
    await call(server, "note", {"a": 1, "b": 2})
    await call(server, "add", {"a": 3, "b": 4})
    assert seen == [{"a": 1, "b": 2}, {"a": 3, "b": 4}]


async def test_a_handler_is_not_called_with_what_its_schema_refuses() -> None:
    """args["a"].as_f64().unwrap_or(0.0). Here: the schema was given to be kept, so the caller gets an error."""
    server, handler = tc.ToolServer("s"), CalculatorHandler()
    server.add_tool(handler, name="add", input_schema=ADDING)
    for arguments, word in (({"a": 1}, "b"), ({"a": 1, "b": "two"}, "two")):
        result = (await call(server, "add", arguments))["result"]
        assert result["isError"] is True and word in result["content"][0]["text"]
    assert handler.calls == 0
