"""Strands' MCP tools, sentence by sentence: the life of a client without an event loop.

Where that document writes `MCPClient(factory)` and `list_tools_sync()`, Toolcrib writes `toolcrib.sync.Client(factory)`
and `list_tools()`. Each docstring gives the document's sentence in short words, and, after "Here:", a departure. The
SDK's own `stdio_client` is met in tests/peers; agents, HTTP and SSE have their own files.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import BOUND, Place, Reader, Writer
from toolcrib import sync

MCPClient = sync.Client


@pytest.fixture(params=["stdio", "pair"])
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A server as a child process, and one behind a tuple of streams."""
    here = Place(request.param, "older", tmp_path)
    yield here
    assert here.journal.faults == []


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Place]:
    here = Place("pair", "older", tmp_path)
    yield here
    assert here.journal.faults == []


# ---- "all operations must be performed within the client's context manager"


def test_inside_the_with_block_the_session_is_active(harness: Place) -> None:
    """The session remains active and connected while the tools are used."""
    with MCPClient(harness.server()) as client:
        for n in range(3):
            assert client.connected
            assert client.call_tool("echo", {"text": str(n)}).text == str(n)
    assert harness.journal.lives == 1


def test_with_works_on_a_client_that_was_made_before(harness: Place) -> None:
    """with stdio_mcp_client: tools = stdio_mcp_client.list_tools_sync()."""
    client = MCPClient(harness.server())
    with client:
        tools = client.list_tools()
    assert {"echo", "add"} <= {tool.name for tool in tools}


USES: dict[str, Callable[[sync.Client], Any]] = {
    "list": lambda client: client.list_tools(),
    "call": lambda client: client.call_tool("echo", {"text": "x"}),
    "read": lambda client: client.read_resource("memo://text"),
    "prompt": lambda client: client.get_prompt("plain"),
    "listen": lambda client: client.listen(),
}


@pytest.mark.parametrize("use", USES)
def test_before_the_with_block_an_error_says_what_to_do(harness: Place, use: str) -> None:
    """Outside of this context you'll encounter errors."""
    with pytest.raises(tc.UsageError, match="with block"):
        USES[use](MCPClient(harness.server()))
    assert harness.journal.lives == 0


@pytest.mark.parametrize("use", USES)
def test_after_the_with_block_an_error_because_the_session_has_closed(harness: Place, use: str) -> None:
    """Incorrect usage: the tools used after the block fail with MCPClientInitializationError. Here: UsageError."""
    with MCPClient(harness.server()) as client:
        client.list_tools()
    with pytest.raises(tc.UsageError):
        USES[use](client)
    assert harness.journal.lives == 1


def test_the_factory_is_the_first_argument(pair: Place) -> None:
    """MCPClient(transport_callable). Here: by position only; by that name the error shows how."""
    with MCPClient(pair.server()) as client:
        assert client.call_tool("echo", {"text": "x"}).text == "x"
    for kind in (sync.Client, tc.Client):
        with pytest.raises(TypeError, match=r"first argument, such as Client\(lambda: .*not as transport_callable="):
            kind(transport_callable=pair.server())  # type: ignore[call-arg]


def test_a_client_is_entered_once(harness: Place) -> None:
    """with client: ... with client: starts a new session. Here: a client that was left is closed; make a new one."""
    client = MCPClient(harness.server())
    with client:
        pass
    with pytest.raises(tc.UsageError, match="closed"), client:
        pytest.fail("entered again")
    assert harness.journal.lives == 1


def test_leaving_the_block_by_an_exception_closes_the_session(harness: Place) -> None:
    """Always use context managers to ensure proper cleanup."""
    client = MCPClient(harness.server())
    with pytest.raises(ZeroDivisionError), client:
        raise ZeroDivisionError
    assert client.connected is False
    with pytest.raises(tc.UsageError):
        client.list_tools()


def test_the_connection_is_gone_when_the_block_is_left(pair: Place) -> None:
    """The session is automatically closed once you exit the block."""
    with MCPClient(pair.server()) as client:
        (server,) = pair.servers
        assert not server.done()
        assert client.connected
    assert client.connected is False
    gone = threading.Event()
    server.get_loop().call_soon_threadsafe(lambda: server.add_done_callback(lambda _: gone.set()))
    assert gone.wait(BOUND)


# ---- "Using multiple MCP servers"


def test_tools_of_several_servers_at_once(harness: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    """with sse_mcp_client, stdio_mcp_client: tools = one.list_tools_sync() + other.list_tools_sync()."""
    other = Place("stdio", "modern", tmp_path_factory.mktemp("other"))
    with MCPClient(harness.server()) as one, MCPClient(other.server()) as two:
        tools = one.list_tools() + two.list_tools()
        assert [tool.name for tool in tools].count("echo") == 2
        assert [client.call_tool("echo", {"text": "x"}).text for client in (one, two)] == ["x", "x"]


def test_the_end_of_one_server_is_not_the_end_of_another(harness: Place, pair: Place) -> None:
    """Connect to multiple servers simultaneously: each has its own life."""
    with MCPClient(harness.server()) as stays:
        with MCPClient(pair.server()) as leaves, pytest.raises(tc.OutcomeUnknown):
            leaves.call_tool("die", {"nonce": "n"})
        assert stays.call_tool("echo", {"text": "x"}).text == "x"


# ---- "Implementation details": connects, initialises, discovers, calls, in a background thread


def test_the_steps_of_a_connection(harness: Place) -> None:
    """1 establishes the connection, 2 initialises the session, 3 discovers tools, 4 handles invocation."""
    with MCPClient(harness.server(), mode="legacy") as client:
        client.list_tools()
        client.call_tool("echo", {"text": "x"})
    methods = [message["method"] for message in harness.journal.entries("got")]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/call"]


def test_the_connection_runs_in_a_background_thread(pair: Place) -> None:
    """The connection runs in a background thread."""
    threads: set[str] = set()
    factory = pair.server()

    def transport() -> Any:
        threads.add(threading.current_thread().name)
        return factory()

    with MCPClient(transport):
        pass
    assert threads == {"toolcrib-portal"}
    assert threading.current_thread().name not in threads


def test_communication_goes_on_while_the_main_thread_does_something_else() -> None:
    """... to avoid blocking the main thread while maintaining communication with the service."""
    ask, answered = threading.Event(), threading.Event()

    async def serve(stream: tc.MessageStream) -> None:
        while (message := await stream.receive()).get("method") != "notifications/initialized":
            found = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
            if message["method"] == "initialize":
                await stream.send({"jsonrpc": "2.0", "id": message["id"], "result": found})
            else:
                await stream.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
        await asyncio.to_thread(ask.wait, BOUND)
        await stream.send({"jsonrpc": "2.0", "id": "p", "method": "ping"})
        assert await stream.receive() == {"jsonrpc": "2.0", "id": "p", "result": {}}
        answered.set()

    servers: list[asyncio.Task[None]] = []

    def transport() -> tuple[Reader, Writer]:
        ours, theirs = tc.MemoryStream.pair()
        servers.append(asyncio.create_task(serve(theirs)))
        return Reader(ours), Writer(ours)

    with MCPClient(transport):
        ask.set()
        assert answered.wait(BOUND), "the client answers the server without any call"


def test_other_threads_may_use_the_client_while_one_waits(harness: Place) -> None:
    """... without blocking the main application thread."""
    with MCPClient(harness.server()) as client:
        results: list[str] = []
        sleeping = threading.Thread(target=lambda: results.append(client.call_tool("sleeper").text), daemon=True)
        sleeping.start()
        while client.call_tool("nudge").text == "0":  # until the server has the sleeper
            assert sleeping.is_alive()
        client.call_tool("wake")
        sleeping.join(BOUND)
    assert results == ["good morning"]


# ---- "Direct tool invocation"


def test_a_tool_is_called_directly(harness: Place) -> None:
    """result = call_tool_sync(name=..., arguments={"x": 10, "y": 20}); the text of its first block."""
    with MCPClient(harness.server()) as client:
        result = client.call_tool(name="add", arguments={"a": 10, "b": 20})
    (block,) = result.content
    assert isinstance(block, tc.TextContent)
    assert block.text == '{"sum": 30}'


def test_a_tool_that_fails_says_so_in_its_result(harness: Place) -> None:
    """status: "success" or "error" based on the call's result."""
    with MCPClient(harness.server()) as client:
        assert client.call_tool("echo", {"text": "x"}).is_error is False
        assert client.call_tool("fail").is_error is True


# ---- "Best practices" and "Troubleshooting"


def test_a_call_can_be_given_a_timeout(harness: Place) -> None:
    """Set appropriate timeouts to prevent hanging on long-running operations."""
    with MCPClient(harness.server()) as client:
        with pytest.raises(tc.CallTimeout):
            client.call_tool("sleeper", timeout=0.05)
        assert client.call_tool("echo", {"text": "x"}).text == "x"


def test_a_wrong_command_is_reported_on_entering() -> None:
    """Connection failures: make sure that the command is correct."""
    with pytest.raises(tc.StartError, match="no-such-command-here"), MCPClient(tc.StdioServer("no-such-command-here")):
        pass


def test_a_server_without_tools_has_none(harness: Place) -> None:
    """Tool discovery issues: confirm that the server implements list_tools. Here: none are an empty list."""
    with MCPClient(harness.server(capabilities={})) as client:
        assert client.list_tools() == []


def test_the_servers_own_words_can_be_read() -> None:
    """Tool execution errors: consult the server logs."""
    lines: list[str] = []
    server = tc.StdioServer("sh", ["-c", "echo 'no token' >&2; exit 3"])
    with pytest.raises(tc.StartError) as told, MCPClient(server, stderr_handler=lines.append):
        pass
    assert (told.value.exit_code, told.value.stderr.strip()) == (3, "no token")
    assert lines == ["no token"]
