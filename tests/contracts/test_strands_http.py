"""Strands' MCP tools, sentence by sentence: streamable HTTP and Server-Sent Events.

Where that document writes `MCPClient(factory)` and `list_tools_sync()`, Toolcrib writes `toolcrib.sync.Client(server)`,
of a factory, a URL or a config, and `list_tools()`. Each docstring gives the document's sentence in short words, and,
after "Here:", a departure. The servers are the SDK's, each in its own process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import BOUND
from tests.peers import kit
from tests.peers.web import ToldServer, Watched, WebServer, free_port, python_server
from toolcrib import events as ev
from toolcrib import sync

pytestmark = pytest.mark.slow

MCPClient = sync.Client
STRANDS = Path(kit.__file__).with_name("strands_client.py")


@pytest.fixture(scope="module")
def calculator() -> Iterator[WebServer]:
    server = python_server("sdk1", kit.SERVERS / "calculator.py", kind=ToldServer)
    try:
        yield server.start()
    finally:
        server.close()


SERVERS: dict[str, Callable[[WebServer], Any]] = {
    "http": lambda at: tc.HttpServer(at.url("stateful/mcp")),
    "http URL": lambda at: at.url("stateful/mcp"),
    "sse": lambda at: tc.SseServer(at.url("sse")),
    "sse URL": lambda at: at.url("sse"),
}


@pytest.fixture(params=[("http", "sdk1"), ("http URL", "sdk2"), ("sse", "sdk2"), ("sse URL", "sdk1")], ids="-".join)
def server(request: pytest.FixtureRequest) -> Any:
    """Every way to name a server, each with one of the SDKs."""
    way, environment = request.param
    return SERVERS[way](request.getfixturevalue(environment))


# ---- "2. Streamable HTTP" and "3. Server-Sent Events"


def test_within_the_block_the_tools_are_listed_and_called(server: Any) -> None:
    """with streamable_http_mcp_client: tools = list_tools_sync(); the same with sse_mcp_client."""
    client = MCPClient(server)
    with client:
        assert {"add", "echo"} <= {tool.name for tool in client.list_tools()}
        assert client.call_tool("echo", {"text": "hello"}).text == "hello"


@pytest.mark.parametrize("environment", ["sdk1", "sdk2"])
def test_the_sdks_own_transports_are_taken_as_they_are(environment: str, request: pytest.FixtureRequest) -> None:
    """MCPClient(lambda: streamablehttp_client(url)), MCPClient(lambda: sse_client(url)), sse and stdio together."""
    process = request.getfixturevalue(environment)
    python = kit.present(kit.ENVIRONMENTS / environment / "bin/python", f"the environment {environment}")
    script = str(kit.SERVERS / f"{environment}_server.py")

    seen = kit.run_in(str(python), STRANDS, process.url("stateful/mcp"), process.url("sse"), script)

    assert "add" in seen["http tools"] and seen["http tools"] == seen["sse tools"]
    assert seen["all tools"] == seen["sse tools"] * 2
    assert (seen["http call"], seen["sse call"]) == ("30", "30")
    assert seen["threads"] == ["toolcrib-portal"]


# ---- "all operations must be performed within the client's context manager"


USES: dict[str, Callable[[sync.Client], Any]] = {
    "list": lambda client: client.list_tools(),
    "call": lambda client: client.call_tool("echo", {"text": "x"}),
    "read": lambda client: client.read_resource("crib://greeting"),
    "prompt": lambda client: client.get_prompt("explain", {"topic": "x"}),
}


def test_inside_the_with_block_the_session_is_active(sdk1: WebServer) -> None:
    """The session remains active and connected while the tools are used."""
    watched = Watched(sdk1, "/stateful")
    with MCPClient(sdk1.url("stateful/mcp")) as client:
        for n in range(3):
            assert client.connected
            assert client.call_tool("echo", {"text": str(n)}).text == str(n)
    assert watched.steps.count("POST initialize") == 1


@pytest.mark.parametrize("use", USES)
def test_before_and_after_the_with_block_an_error_says_what_to_do(sdk1: WebServer, use: str) -> None:
    """Outside of this context you'll encounter errors: MCPClientInitializationError. Here: UsageError."""
    for make in SERVERS.values():
        client = MCPClient(make(sdk1))
        with pytest.raises(tc.UsageError, match="with block"):
            USES[use](client)
        with client:
            USES[use](client)
        with pytest.raises(tc.UsageError):
            USES[use](client)


def test_leaving_the_block_ends_the_session_at_the_server(sdk1: WebServer) -> None:
    """The session is automatically closed once you exit the block."""
    watched = Watched(sdk1, "/stateful")
    client = MCPClient(sdk1.url("stateful/mcp"))
    with pytest.raises(ZeroDivisionError), client:
        raise ZeroDivisionError
    assert client.connected is False
    assert watched.steps[-1] == "DELETE" and watched.requests[-1]["status"] == 200


# ---- "Using multiple MCP servers"


def test_tools_of_several_servers_at_once(sdk1: WebServer, sdk2: WebServer) -> None:
    """with sse_mcp_client, stdio_mcp_client: tools = one.list_tools_sync() + other.list_tools_sync()."""
    python = kit.present(kit.ENVIRONMENTS / "sdk1/bin/python", "the environment sdk1")
    stdio_server = tc.StdioServer(str(python), [str(kit.SERVERS / "sdk1_server.py")])
    with (
        MCPClient(tc.SseServer(sdk1.url("sse"))) as sse,
        MCPClient(sdk2.url("stateful/mcp")) as http,
        MCPClient(stdio_server) as stdio,
    ):
        tools = sse.list_tools() + http.list_tools() + stdio.list_tools()
        assert [tool.name for tool in tools].count("echo") == 3
        assert [each.call_tool("echo", {"text": "x"}).text for each in (sse, http, stdio)] == ["x", "x", "x"]


# ---- "MCP tool response format"


def test_text_and_image_content(server: Any) -> None:
    """Text content: simple text responses; image content: binary image data with associated MIME type."""
    with MCPClient(server) as client:
        blocks = client.call_tool("showcase").content
    assert tc.TextContent("first") in blocks
    (image,) = [block for block in blocks if isinstance(block, tc.ImageContent)]
    assert image.data.startswith(b"\x89PNG") and image.mime_type == "image/png"


def test_the_status_of_a_result(server: Any) -> None:
    """status: "success" or "error" based on the MCP call result."""
    with MCPClient(server) as client:
        assert client.call_tool("echo", {"text": "x"}).is_error is False
        assert client.call_tool("fail", {"message": "no"}).is_error is True


# ---- "Implementing an MCP server": the calculator, run with the SSE transport


@pytest.mark.parametrize("make", [tc.SseServer, str], ids=["SseServer", "URL"])
def test_the_calculator_of_the_document(calculator: WebServer, make: Callable[[str], Any]) -> None:
    """mcp.run(transport="sse"); call_tool_sync(name="calculator", arguments={"x": 10, "y": 20})."""
    with MCPClient(make(calculator.url("sse"))) as client:
        (tool,) = client.list_tools()
        assert (tool.name, tool.description) == ("calculator", "Calculator tool which performs calculations")
        result = client.call_tool(name="calculator", arguments={"x": 10, "y": 20})
    (block,) = result.content
    assert isinstance(block, tc.TextContent) and block.text == "30"


# ---- "Implementation details": connects, initialises, discovers, calls, in a background thread


def test_the_steps_of_a_connection(sdk1: WebServer) -> None:
    """1 establishes the connection, 2 initialises the session, 3 discovers tools, 4 handles invocation, 5 ends it."""
    watched = Watched(sdk1, "/stateful")
    with MCPClient(tc.HttpServer(sdk1.url("stateful/mcp")), mode="legacy") as client:
        client.list_tools()
        client.call_tool("echo", {"text": "x"})
    steps = ["POST initialize", "GET", "POST notifications/initialized", "POST tools/list", "POST tools/call", "DELETE"]
    assert watched.steps == steps


def test_communication_goes_on_while_the_main_thread_does_something_else(sdk2: WebServer) -> None:
    """The connection runs in a background thread, maintaining communication with the MCP service."""
    heard, threads = threading.Event(), set[str]()

    def changed(_: ev.ToolsChanged) -> None:
        threads.add(threading.current_thread().name)
        heard.set()

    with MCPClient(sdk2.url("stateful/mcp")) as idle, MCPClient(sdk2.url("stateful/mcp")) as busy, idle.listen():
        idle.on(ev.ToolsChanged, changed)
        busy.call_tool("grow")
        assert heard.wait(BOUND), "the idle client is notified without any call"
        busy.call_tool("cut")
    assert threading.current_thread().name not in threads


# ---- "Best practices" and "Troubleshooting"


def test_a_call_can_be_given_a_timeout(server: Any) -> None:
    """Set appropriate timeouts to prevent hanging on long-running operations."""
    with MCPClient(server) as client:
        with pytest.raises(tc.CallTimeout):
            client.call_tool("nap", {"seconds": 60}, timeout=0.2)
        assert client.call_tool("echo", {"text": "x"}).text == "x"


@pytest.mark.parametrize("kind", [tc.HttpServer, tc.SseServer])
def test_a_server_that_does_not_run_is_reported_on_entering(kind: Any) -> None:
    """Connection failures: first ensure that the MCP server is running and accessible."""
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with pytest.raises(tc.ConnectError) as told, MCPClient(kind(url), max_attempts=1):
        pass
    assert told.value.sent is False and not told.value.permanent


@pytest.mark.parametrize("kind", [tc.HttpServer, tc.SseServer])
def test_a_wrong_url_is_reported_on_entering(sdk1: WebServer, kind: Any) -> None:
    """Connection failures: make sure that the URL is correct."""
    with pytest.raises(tc.ConnectError) as told, MCPClient(kind(sdk1.url("nowhere"))):
        pass
    assert (told.value.status, told.value.permanent) == (404, True)


def test_arguments_that_do_not_match_the_schema_are_named(server: Any) -> None:
    """Tool execution errors: verify that all tool arguments match the expected schema."""
    with MCPClient(server) as client:
        result = client.call_tool("add", {"a": "many", "b": 1})
    assert result.is_error and "many" in result.text
