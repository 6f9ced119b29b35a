"""crewAI's MCP module, sentence by sentence: the client. Stubs there (I/O, session, events) are real here.

Where that document writes `MCPClient::new(transport).with_connect_timeout(60)`, Toolcrib writes
`Client(server, connect_timeout=60)`. Each docstring gives the document's sentence in short words, and, after "Here:",
where Toolcrib departs from it and why.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Clock, Place, eventually, soon
from toolcrib import events as ev


@pytest.fixture
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A server of the modern protocol, and of the legacy one too for a test in `both_eras`."""
    here = Place("stdio", getattr(request, "param", "modern"), tmp_path)
    yield here
    assert here.journal.faults == []


both_eras = pytest.mark.parametrize("harness", ["modern", "older"], indirect=True)


@pytest.fixture
def lucky(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.0)


# ---- "Creating a client", "Client fields", "Constants"


OPTIONS: dict[str, Any] = {
    "connect_timeout": 60,
    "execution_timeout": 120,
    "discovery_timeout": 45,
    "max_retries": 5,
    "cache_tools_list": True,
}


async def check_connect_timeout(harness: Place, options: dict[str, Any], seconds: int) -> None:
    clock = Clock(asyncio.get_running_loop())
    client = harness.client(server_options={"silent": {"initialize": 0, "server/discover": 0}}, **options)
    connecting = asyncio.create_task(client.connect())
    await eventually(lambda: harness.journal.entries("got"))
    clock.advance(seconds - 1)
    await turns()
    assert client.status.state is tc.ConnectionState.CONNECTING
    clock.advance(2)
    with pytest.raises(tc.ConnectError, match=f"connect_timeout={seconds}"):
        await soon(connecting)


async def check_execution_timeout(harness: Place, options: dict[str, Any], seconds: int) -> None:
    clock = Clock(asyncio.get_running_loop())
    async with harness.client(**options) as client:
        call = asyncio.create_task(client.call_tool("sleeper"))
        await eventually(lambda: harness.journal.calls)
        await check_deadline(clock, call, seconds)


async def check_discovery_timeout(harness: Place, options: dict[str, Any], seconds: int) -> None:
    clock = Clock(asyncio.get_running_loop())
    async with harness.client(server_options={"silent": {"tools/list": 0}}, **options) as client:
        listing = asyncio.create_task(client.list_tools())
        await eventually(lambda: harness.journal.got("tools/list"))
        await check_deadline(clock, listing, seconds)


async def check_deadline(clock: Clock, request: asyncio.Task[Any], seconds: int) -> None:
    clock.advance(seconds - 1)
    await turns()
    assert not request.done()
    clock.advance(2)
    await turns()
    assert request.done()
    with pytest.raises(tc.UnansweredTimeout):
        await request


async def turns() -> None:
    """Let the event loop run everything that is due."""
    for _ in range(50):
        await asyncio.sleep(0)


async def check_max_retries(harness: Place, options: dict[str, Any], attempts: int) -> None:
    sick = harness.sick(99)
    client = harness.client(server_options=sick, **options)
    with pytest.raises(tc.StartError):
        await client.call_tool("echo", {"text": "x"})
    assert harness.journal.lives == attempts * sick["sick"] // 99
    await client.close()


async def check_cache_tools_list(harness: Place, options: dict[str, Any], cached: bool) -> None:
    async with harness.client(**options) as client:
        await client.list_tools()
        await client.list_tools()
    assert len(harness.journal.got("tools/list")) == (1 if cached else 2)


CHECKS: dict[str, Any] = {
    "connect_timeout": check_connect_timeout,
    "execution_timeout": check_execution_timeout,
    "discovery_timeout": check_discovery_timeout,
    "max_retries": check_max_retries,
    "cache_tools_list": check_cache_tools_list,
}


@both_eras
@pytest.mark.usefixtures("lucky")
@pytest.mark.parametrize(
    "option,value",
    {
        "connect_timeout": 30,
        "execution_timeout": 30,
        "discovery_timeout": 30,
        "max_retries": 3,
        "cache_tools_list": False,
    }.items(),
)
async def test_the_fields_of_a_client_and_their_defaults(harness: Place, option: str, value: Any) -> None:
    """connect, execution and discovery timeout 30 s each, max_retries 3, cache_tools_list false."""
    await CHECKS[option](harness, {}, value)


@pytest.mark.usefixtures("lucky")
@pytest.mark.parametrize("option", OPTIONS)
async def test_a_client_is_made_from_a_server_and_its_options(harness: Place, option: str) -> None:
    """MCPClient::new(transport) with connect 60, execution 120, discovery 45, retries 5, cache on."""
    await CHECKS[option](harness, OPTIONS, OPTIONS[option])


def test_the_transport_is_required() -> None:
    """transport: required."""
    for kind in (tc.Client, tc.sync.Client):
        with pytest.raises(TypeError, match="expected the server as the first argument"):
            kind()  # type: ignore[call-arg]


async def test_the_server_identifier_names_the_client(harness: Place) -> None:
    """server_identifier: for caching and logging."""
    server = harness.server()
    assert tc.Client(server).name == server.server_identifier


# ---- "Connection lifecycle"


@both_eras
async def test_connect_connected_disconnect(harness: Place) -> None:
    """connect(); assert connected(); disconnect()."""
    client = harness.client()
    assert client.connected is False
    await client.connect()
    assert client.connected is True
    await client.disconnect()
    assert client.connected is False
    await client.close()


@both_eras
async def test_the_session_is_there_while_connected_and_an_error_after_the_end(harness: Place) -> None:
    """get_session(): an error if not connected. Here: a call connects by itself; after close() it is a UsageError."""
    client = harness.client()
    for again in (False, True):
        assert client.server_info is None
        with pytest.raises(tc.ConnectionLost) as failure:
            client.session  # noqa: B018 - reading it is the test
        assert failure.value.sent is False
        await client.connect()
        assert client.session.generation == 1 + again
        assert client.server_info is not None
        assert client.server_info.name == "crib"
        await client.disconnect()
    assert client.server_info is None
    await client.close()
    with pytest.raises(tc.UsageError):
        await client.list_tools()


async def test_connect_is_a_no_op_when_connected(harness: Place) -> None:
    """connect() 1: checks if already connected."""
    async with harness.client() as client:
        await client.connect()
    assert harness.journal.lives == 1


@both_eras
async def test_connect_tracks_whether_it_is_a_reconnect(harness: Place) -> None:
    """connect() 2 and 4: tracks whether this is a reconnection attempt; on success was_connected = true."""
    client = harness.client()
    told: list[bool] = []
    client.on(ev.ConnectionStarted, lambda event: told.append(event.is_reconnect))
    await client.connect()
    await client.disconnect()
    await client.connect()
    await client.close()
    assert told == [False, True]


async def test_connect_applies_the_connect_timeout(harness: Place) -> None:
    """connect() 3: applies connect_timeout."""
    clock = Clock(asyncio.get_running_loop())
    client = harness.client(server_options={"silent": {"initialize": 0, "server/discover": 0}}, connect_timeout=45)
    connecting = asyncio.create_task(client.connect())
    await eventually(lambda: harness.journal.entries("got"))
    clock.advance(46)
    with pytest.raises(tc.ConnectError, match="connect_timeout=45"):
        await soon(connecting)


@both_eras
async def test_a_failed_connect_cleans_up(harness: Place) -> None:
    """connect() 5: on failure calls cleanup_on_error() to reset state."""
    client = harness.client(server_options=harness.sick(1))
    with pytest.raises(tc.StartError):
        await client.connect()
    assert (client.connected, client.server_info) == (False, None)
    await client.connect()
    assert client.connected
    await client.close()


# ---- "Tool operations"


async def test_list_tools_gives_name_description_and_input_schema(harness: Place) -> None:
    """list_tools(None): maps with "name", "description", "inputSchema"."""
    async with harness.client() as client:
        echo = (await client.list_tools())[0]
    assert (echo["name"], echo["description"]) == ("echo", "Say it back")
    assert echo["inputSchema"]["properties"] == {"text": {"type": "string"}}
    assert "name" in echo and "nope" not in echo
    assert {"name", "description", "inputSchema"} <= set(echo) == set(dict(echo))
    assert json.loads(json.dumps(echo.to_dict())) == echo.raw


@both_eras
async def test_list_tools_with_true_uses_the_cache_and_with_false_bypasses_it(harness: Place) -> None:
    """list_tools(Some(true)): force cache usage; list_tools(Some(false)): force fresh fetch."""
    async with harness.client() as client:
        for use_cache, asked in ((True, 1), (True, 1), (False, 2), (None, 3)):
            await client.list_tools(use_cache=use_cache)
            assert len(harness.journal.got("tools/list")) == asked


async def test_cache_tools_list_keeps_the_list(harness: Place) -> None:
    """cache_tools_list: cache tool list results."""
    async with harness.client(cache_tools_list=True) as client:
        await client.list_tools()
        await client.list_tools()
    assert len(harness.journal.got("tools/list")) == 1


async def test_call_tool_gives_the_tools_text(harness: Place) -> None:
    """call_tool("search", args): the tool's text output. Here: a ToolResult whose `.text` it is."""
    async with harness.client() as client:
        assert (await client.call_tool("echo", {"text": "Rust programming"})).text == "Rust programming"


async def test_list_and_call_connect_if_need_be(harness: Place) -> None:
    """Both automatically connect if not already connected."""
    for use in (lambda c: c.list_tools(), lambda c: c.call_tool("echo", {"text": "x"})):
        client = harness.client()
        assert await use(client)
        assert client.connected
        await client.close()


@both_eras
@pytest.mark.usefixtures("lucky")
async def test_list_and_call_use_the_retry_mechanism(harness: Place) -> None:
    """Both use the retry mechanism."""
    for n, use in enumerate((lambda c: c.list_tools(), lambda c: c.call_tool("echo", {"text": "x"}))):
        client = harness.client(server_options={"sick": 3 * n + 2})
        assert await use(client)
        await client.close()


# ---- "Prompt operations"


async def test_list_prompts_gives_name_description_and_arguments(harness: Place) -> None:
    """list_prompts(): maps with "name", "description", "arguments"."""
    async with harness.client() as client:
        greet = (await client.list_prompts())[0]
    assert (greet["name"], greet["description"]) == ("greet", "Greet somebody")
    assert [argument["name"] for argument in greet["arguments"]] == ["name", "count"]


async def test_get_prompt_gives_name_messages_and_arguments(harness: Place) -> None:
    """get_prompt("explain_topic", args): a map with "name", "messages", "arguments"."""
    async with harness.client() as client:
        prompt = await client.get_prompt("greet", {"name": "Rust"})
    assert (prompt["name"], prompt["arguments"]) == ("greet", {"name": "Rust"})
    assert prompt["messages"][0]["content"]["text"] == "Greet Rust None"


# ---- events: "stub, log-level only"; here real


@both_eras
async def test_connection_and_execution_events_are_emitted(harness: Place) -> None:
    """MCPConnectionStarted/Completed/Failed, MCPToolExecution*."""
    heard: list[Any] = []
    client = harness.client(server_options=harness.sick(1), name="here", max_retries=1)
    client.on(ev.Event, heard.append)
    with pytest.raises(tc.ConnectError):
        await client.connect()
    await client.call_tool("echo", {"text": "x"})
    with pytest.raises(tc.RemoteError):
        await client.call_tool("refuse")
    await client.close()
    assert [type(event).__name__ for event in heard] == [
        *("ConnectionStarted", "ConnectionFailed"),
        *("ToolExecutionStarted", "ConnectionStarted", "ConnectionCompleted", "ToolExecutionCompleted"),
        *("ToolExecutionStarted", "ToolExecutionFailed"),
        "Disconnected",
    ]
    assert {event.server for event in heard} == {"here"}
    assert all(event.duration > 0 for event in heard if hasattr(event, "duration"))


# ---- "Complete example"


async def test_the_complete_example(harness: Place) -> None:
    """A static filter, a stdio config with filter and cache, a client with timeout and retries, list, call, leave."""
    plain = harness.server()
    config = tc.StdioServer(
        plain.command, plain.args, tool_filter=tc.static_filter(allowed=["echo", "add"]), cache_tools_list=True
    )
    client = tc.Client(config, connect_timeout=60, max_retries=5)
    await client.connect()
    assert [tool.name for tool in await client.list_tools()] == ["echo", "add"]
    assert (await client.call_tool("add", {"a": 1, "b": 2})).data == {"sum": 3}
    with pytest.raises(tc.AccessDenied):
        await client.call_tool("fail")
    await client.list_tools()
    await client.disconnect()
    await client.close()
    assert len(harness.journal.got("tools/list")) == 1
