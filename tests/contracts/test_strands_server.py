"""Strands' MCP tools, sentence by sentence: "Implementing an MCP server".

Where that document writes `FastMCP("Calculator Server")` and `@mcp.tool(...)`, Toolcrib writes `ToolServer` and the
same; where it writes `MCPClient(factory)`, `toolcrib.sync.Client(server)`. Each docstring gives the document's sentence
in short words, and, after "Here:", a departure. The server is the document's program, run as a separate process.
"""

from __future__ import annotations

import http.client
import inspect
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.peers.web import STARTING, ToldServer, WebServer
from toolcrib import sync

MCPClient = sync.Client

# The document's program but for the import and the port; then two tools for its advice, and the way to end it.
PROGRAM = '''
import asyncio
import os
import sys
import threading
from typing import Annotated

from pydantic import Field
from toolcrib import ToolServer

# Create an MCP server
mcp = ToolServer("Calculator Server")


# Define a tool
@mcp.tool(description="Calculator tool which performs calculations")
def calculator(x: int, y: int) -> int:
    return x + y


@mcp.tool
def divide(x: Annotated[float, Field(description="What is divided")], y: float) -> float:
    """Divide.

    Args:
        y: By what it is divided.
    """
    return x / y


@mcp.tool
async def wait() -> None:
    """Take an hour."""
    await asyncio.sleep(3600)


# It cannot outlive who started it.
if sys.argv[1] != "stdio":
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()

# Run the server with SSE transport
{run}
'''
RUNS = {
    "sse": 'mcp.run(transport="sse", port=int(sys.argv[2]))',
    "http": 'mcp.run(transport="http", port=int(sys.argv[2]))',
    "stdio": 'mcp.run(transport="stdio")',
}
PATHS = {"sse": "sse", "http": "mcp"}
CONFIGS: dict[str, Callable[[str], Any]] = {"sse": tc.SseServer, "http": tc.HttpServer}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, written = tmp_path_factory.mktemp("calculator"), {}
    for transport, run in RUNS.items():
        written[transport] = folder / f"calculator_{transport}.py"
        written[transport].write_text(PROGRAM.replace("{run}", run))
    return written


@pytest.fixture(scope="module")
def served(programs: dict[str, Path]) -> Iterator[Callable[[str], WebServer]]:
    """The process that serves over a transport, started when it is first asked for."""
    running: dict[str, WebServer] = {}

    def get(transport: str) -> WebServer:
        if transport not in running:
            running[transport] = ToldServer([sys.executable, str(programs[transport]), transport])
            running[transport].start()
        return running[transport]

    yield get
    for server in running.values():
        server.close()


@pytest.fixture
def server(request: pytest.FixtureRequest, served: Callable[[str], WebServer], programs: dict[str, Path]) -> Any:
    """The argument of a client for the document's transport, or for another one on request."""
    transport = getattr(request, "param", "sse")
    if transport == "stdio":
        return tc.StdioServer(sys.executable, [str(programs["stdio"]), "stdio"])
    return CONFIGS[transport](served(transport).url(PATHS[transport]))


every_transport = pytest.mark.parametrize("server", ["sse", "http", "stdio"], indirect=True)


# ---- the example


@every_transport
def test_the_calculator_of_the_document(server: Any) -> None:
    """@mcp.tool(description=...) def calculator(x: int, y: int) -> int; mcp.run(transport="sse").

    result = call_tool_sync(name="calculator", arguments={"x": 10, "y": 20}); result["content"][0]["text"].
    """
    with MCPClient(server) as client:
        tool = client.list_tools()[0]
        result = client.call_tool(name="calculator", arguments={"x": 10, "y": 20})
    assert (tool.name, tool.description) == ("calculator", "Calculator tool which performs calculations")
    assert tool.input_schema == {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
        "required": ["x", "y"],
    }
    assert result.raw["content"][0]["text"] == "30"
    assert result.data == 30


def test_the_result_is_the_same_for_a_client_that_has_not_listed(server: Any) -> None:
    """While tools are typically invoked by the agent, you can also call MCP tools directly."""
    with MCPClient(server) as client:
        assert client.call_tool("calculator", {"x": 10, "y": 20}).data == 30


def test_a_url_alone_leads_to_the_sse_server(served: Callable[[str], WebServer]) -> None:
    """sse_client("http://localhost:8000/sse"). Here: which transport it is, the client finds out."""
    url = served("sse").url("sse")
    for address in (url, url.replace("127.0.0.1", "localhost")):
        with MCPClient(address) as client:
            assert client.call_tool("calculator", {"x": 1, "y": 2}).text == "3"


def test_run_needs_only_the_transport(tmp_path: Path) -> None:
    """mcp.run(transport="sse") and http://localhost:8000/sse. Here: any free port for 0; it says on stderr where."""
    defaults = inspect.signature(tc.ToolServer.run).parameters
    assert (defaults["host"].default, defaults["port"].default) == ("127.0.0.1", 8000)
    program = tmp_path / "calculator.py"
    program.write_text(PROGRAM.replace("{run}", 'mcp.run(transport="sse", port=0)'))
    command, pipe = [sys.executable, str(program), "sse"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None and process.stderr is not None
        try:
            readable, _, _ = select.select([process.stderr], [], [], STARTING)
            said = process.stderr.readline() if readable else ""
            assert re.fullmatch(r"Calculator Server 0\.0\.0 serves MCP at http://127\.0\.0\.1:\d+/sse\n", said)
            with MCPClient(tc.SseServer(said.split()[-1])) as client:
                assert client.call_tool("calculator", {"x": 10, "y": 20}).text == "30"
        finally:
            process.kill()


# ---- "MCP server implementation details"


@every_transport
def test_the_steps_of_a_connection(server: Any) -> None:
    """1 establishes a connection, 2 initialises the session, 3 discovers tools, 4 invokes them, 5 ends it."""
    client = MCPClient(server)
    with client:
        assert client.connected
        assert client.server_info is not None and client.server_info.name == "Calculator Server"
        assert [tool.name for tool in client.list_tools()] == ["calculator", "divide", "wait"]
        assert client.call_tool("divide", {"x": 1, "y": 4}).data == 0.25
    assert not client.connected
    with MCPClient(server) as another:
        assert another.call_tool("calculator", {"x": 1, "y": 2}).data == 3


@every_transport
@pytest.mark.parametrize("mode, version", [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_session_is_of_the_era_that_the_client_speaks(server: Any, mode: Any, version: str) -> None:
    """Initialises the MCP session. Here: of either era, with the same program."""
    with MCPClient(server, mode=mode) as client:
        assert client.server_info is not None and client.server_info.protocol_version == version
        assert client.call_tool("calculator", {"x": 10, "y": 20}).text == "30"


def test_several_clients_at_once(served: Callable[[str], WebServer]) -> None:
    """with sse_mcp_client, ...: tools = one.list_tools_sync() + other.list_tools_sync()."""
    config = tc.SseServer(served("sse").url("sse"))
    with MCPClient(config) as one, MCPClient(config) as two:
        assert [tool.name for tool in one.list_tools() + two.list_tools()].count("calculator") == 2
        assert [each.call_tool("calculator", {"x": n, "y": 1}).text for n, each in enumerate((one, two))] == ["1", "2"]


# ---- "Best practices"


def test_descriptions_and_parameter_types_reach_the_agent(server: Any) -> None:
    """Provide clear descriptions; use appropriate parameter types and descriptions. Here: docstrings do it too."""
    with MCPClient(server) as client:
        divide = client.list_tools()[1]
    assert divide.description == "Divide."
    assert divide.input_schema["properties"] == {
        "x": {"type": "number", "description": "What is divided"},
        "y": {"type": "number", "description": "By what it is divided."},
    }


def test_a_tool_that_fails_returns_an_informative_message(server: Any) -> None:
    """Return informative error messages when tools fail to execute properly; status: "error"."""
    with MCPClient(server) as client:
        result = client.call_tool("divide", {"x": 1, "y": 0})
    assert (result.is_error, result.text) == (True, "float division by zero")


@every_transport
def test_a_call_that_takes_too_long_ends_at_its_timeout_and_affects_no_other(server: Any) -> None:
    """Set appropriate timeouts for tool calls to prevent hanging on long-running operations."""
    with MCPClient(server) as client:
        with pytest.raises(tc.CallTimeout):
            client.call_tool("wait", timeout=0.2)
        assert client.call_tool("calculator", {"x": 1, "y": 2}).text == "3"


@pytest.mark.parametrize("transport", ["sse", "http"])
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_a_server_is_not_exposed_to_the_network_by_accident(transport: Any, host: str) -> None:
    """Consider security implications, especially for network-accessible servers. Here: they need auth, or a word."""
    with pytest.raises(tc.ConfigError, match="allow_remote") as told:
        tc.ToolServer("s").run(transport, host=host, port=0)
    assert told.value.key == "host"


@pytest.mark.parametrize("transport", ["sse", "http"])
@pytest.mark.parametrize("header, status", [(("Origin", "https://evil.example"), 403), (("Host", "evil.example"), 421)])
def test_a_page_of_another_origin_cannot_use_the_server(
    served: Callable[[str], WebServer], transport: str, header: tuple[str, str], status: int
) -> None:
    """Consider security implications: a browser on this machine cannot be used to get in."""
    connection = http.client.HTTPConnection("127.0.0.1", served(transport).port, timeout=20)
    try:
        connection.request("GET" if transport == "sse" else "POST", f"/{PATHS[transport]}", headers=dict([header]))
        assert connection.getresponse().status == status
    finally:
        connection.close()


# ---- "Troubleshooting"


def test_all_registered_tools_are_discovered(server: Any) -> None:
    """Confirm that the server has properly implemented list_tools, and that all tools have been registered."""
    with MCPClient(server) as client:
        assert [tool.name for tool in client.list_tools()] == ["calculator", "divide", "wait"]
        with pytest.raises(tc.ToolNotFound, match="calculator"):
            client.call_tool("calculate", {"x": 1, "y": 2})


def test_arguments_that_do_not_match_the_schema_are_named(server: Any) -> None:
    """Verify that all tool arguments being passed match the expected schema."""
    with MCPClient(server) as client:
        result = client.call_tool("calculator", {"x": "ten"})
    assert result.is_error
    assert "x: Input should be a valid integer" in result.text and "y: missing" in result.text


@pytest.mark.parametrize("transport", ["sse", "http"])
def test_the_servers_log_says_what_went_wrong(served: Callable[[str], WebServer], transport: str) -> None:
    """Consulting the server logs can provide detailed information about what went wrong during the execution."""
    process = served(transport)
    with MCPClient(CONFIGS[transport](process.url(PATHS[transport]))) as client:
        told = client.call_tool("divide", {"x": 1, "y": 0})
    words = process.words()
    assert "divide failed" in words and "Traceback" in words and "return x / y" in words
    assert "Traceback" not in str(told.raw)
