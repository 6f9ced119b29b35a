"""crewAI's MCP module, sentence by sentence: HTTP and SSE. The stub there (the I/O) is real here.

Where that document writes `HTTPTransport::new(url, headers, streamable)` or `MCPServerHTTP::new(url).with_headers(...)`
Toolcrib writes `HttpServer(url, headers=..., streamable=...)`. Each docstring gives the document's sentence in short
words, and, after "Here:", where Toolcrib departs from it and why. The servers are the SDK's, each in its own process.

Longer than 400 lines: all sentences of one document share its servers.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import toolcrib as tc
from tests.peers.kit import LEGACY, MODERN, SERVERS
from tests.peers.web import Relay, Watched, WebServer, python_server
from toolcrib import events as ev
from toolcrib.config import server_from_dict

KINDS: dict[str, Callable[..., tc.HttpServer | tc.SseServer]] = {
    "streamable": lambda at, **options: tc.HttpServer(at.url("stateful/mcp"), **options),
    "plain": lambda at, **options: tc.HttpServer(at.url("stateful/mcp"), streamable=False, **options),
    "sse": lambda at, **options: tc.SseServer(at.url("sse"), **options),
}
TYPES = {"streamable": "streamable_http", "plain": "http", "sse": "sse"}


@pytest.fixture
def process(sdk2: WebServer) -> WebServer:
    return sdk2


@pytest.fixture(scope="module")
def guarded() -> Iterator[WebServer]:
    server = python_server("sdk1", SERVERS / "guarded_server.py")
    try:
        yield server.start()
    finally:
        server.close()


@dataclass
class Endpoint:
    """One way to the server, in one era."""

    process: WebServer
    kind: str
    mode: str

    def server(self, at: WebServer | Relay | None = None, **options: Any) -> tc.HttpServer | tc.SseServer:
        return KINDS[self.kind](at or self.process, **options)

    def client(self, at: WebServer | Relay | None = None, **options: Any) -> tc.Client:
        return tc.Client(self.server(at), mode=self.mode, **options)

    def watch(self) -> Watched:
        return Watched(self.process, "/messages" if self.kind == "sse" else "/stateful")


@pytest.fixture(params=["auto", "legacy"], ids=["modern", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[("streamable", "auto"), ("sse", "legacy")], ids=["streamable-modern", "sse-handshake"])
def endpoint(request: pytest.FixtureRequest, process: WebServer) -> Endpoint:
    """Two ways that have nothing in common; a test of what depends on the transport goes `every_way`."""
    return Endpoint(process, *request.param)


every_way = pytest.mark.parametrize(
    "endpoint",
    [
        pytest.param((kind, mode), id=f"{kind}-{era}")
        for kind in KINDS
        for mode, era in (("auto", "modern"), ("legacy", "legacy"))
    ],
    indirect=True,
)


@pytest.fixture
def lucky(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.random", lambda: 0.0)


def asked(watched: Watched, method: str) -> int:
    return watched.steps.count(f"POST {method}")


# ---- "Transport layer": transport_type, connected, connect, disconnect, server_identifier


@every_way
def test_a_transport_has_a_type_and_an_identifier(endpoint: Endpoint) -> None:
    """transport_type(); server_identifier(): for caching and logging."""
    server = endpoint.server()
    assert server.transport_type == TYPES[endpoint.kind]
    scheme = "sse" if endpoint.kind == "sse" else "http"
    assert server.server_identifier == f"{scheme}:{server.url}"
    assert tc.Client(server).name == server.server_identifier


@every_way
async def test_connect_connected_disconnect(endpoint: Endpoint) -> None:
    """connected(): check if transport is currently connected; connect(); disconnect()."""
    client = endpoint.client()
    assert client.connected is False
    await client.connect()
    assert client.connected is True
    await client.disconnect()
    assert client.connected is False
    await client.close()


@every_way
async def test_a_transport_can_be_used_by_many_tasks(endpoint: Endpoint) -> None:
    """Send + Sync: used across async tasks."""
    async with endpoint.client() as client:
        calls = [asyncio.create_task(client.call_tool("echo", {"text": str(n)})) for n in range(50)]
        assert [(await call).text for call in calls] == [str(n) for n in range(50)]


# ---- "HTTPTransport": streamable or not; "SSETransport"


async def test_streamable_http_is_the_default_and_keeps_a_stream(process: WebServer) -> None:
    """Streamable HTTP (default). Here: of the two eras only the legacy one has a standing stream."""
    watched = Watched(process, "/stateful")
    async with tc.Client(tc.HttpServer(process.url("stateful/mcp")), mode="legacy") as client:
        await client.list_tools()
    assert "GET" in watched.steps


async def test_non_streaming_http_is_plain_request_and_answer(process: WebServer, mode: str) -> None:
    """Non-streaming HTTP: streamable = false."""
    watched = Watched(process, "/stateful")
    async with tc.Client(tc.HttpServer(process.url("stateful/mcp"), streamable=False), mode=mode) as client:
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert {step.split()[0] for step in watched.steps} <= {"POST", "DELETE"}


async def test_sse_posts_its_messages_and_receives_on_one_stream(process: WebServer, mode: str) -> None:
    """Connects to remote MCP servers using Server-Sent Events."""
    stream, messages = Watched(process, "/sse"), Watched(process, "/messages")
    async with tc.Client(tc.SseServer(process.url("sse")), mode=mode) as client:
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
    assert stream.steps == ["GET"]
    assert asked(messages, "tools/call") == 1
    assert {entry["status"] for entry in messages.requests} == {202}


@every_way
async def test_both_eras_are_met(endpoint: Endpoint) -> None:
    """Connects to remote MCP servers over HTTP/HTTPS. Here: of either protocol era."""
    async with endpoint.client() as client:
        assert client.server_info is not None
        assert client.server_info.protocol_version == (MODERN if endpoint.mode == "auto" else LEGACY)


# ---- "MCPServerHTTP" and "MCPServerSSE": headers, filter, cache


@every_way
async def test_headers_go_with_every_request(endpoint: Endpoint) -> None:
    """headers: HTTP headers (e.g. authentication)."""
    everything = Watched(endpoint.process, "/")
    server = endpoint.server(headers={"Authorization": "Bearer token123"})
    async with tc.Client(server, mode=endpoint.mode) as client:
        await client.call_tool("echo", {"text": "x"})
    headers = [entry["headers"] for entry in everything.requests]
    assert headers
    assert {entry.get("authorization") for entry in headers} == {"Bearer token123"}


@pytest.mark.parametrize("url", ["mcp", "events/sse"])
async def test_a_token_in_the_headers_authenticates(guarded: WebServer, url: str) -> None:
    """headers.insert("Authorization", "Bearer ...") for either transport."""
    kind = tc.HttpServer if url == "mcp" else tc.SseServer
    async with tc.Client(kind(guarded.url(url), headers={"Authorization": "Bearer open-sesame"})) as client:
        assert (await client.call_tool("whoami")).text == "ali"


async def test_the_tool_filter_of_the_config_is_kept(endpoint: Endpoint) -> None:
    """tool_filter: tool filter function."""
    server = endpoint.server(tool_filter=lambda tool: tool["name"] != "fail")
    async with tc.Client(server, mode=endpoint.mode) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert "echo" in names and "fail" not in names
        with pytest.raises(tc.AccessDenied):
            await client.call_tool("fail", {"message": "x"})


async def test_the_list_is_cached_if_the_config_says_so(endpoint: Endpoint) -> None:
    """cache_tools_list: cache discovered tools for faster subsequent access.

    Here: also for a modern server that says that its list is stale at once (`ttlMs: 0`), as this one does.
    """
    watched = endpoint.watch()
    async with tc.Client(endpoint.server(cache_tools_list=True), mode=endpoint.mode) as client:
        assert await client.list_tools() == await client.list_tools()
    assert asked(watched, "tools/list") == 1


async def test_a_config_of_any_kind_can_stand_for_the_others(process: WebServer, mode: str) -> None:
    """MCPServerConfig: a union type for any server configuration; common methods delegated to the inner type."""
    configs: list[tc.ServerConfig] = [make(process) for make in KINDS.values()]
    for config in configs:
        assert (config.tool_filter, config.cache_tools_list) == (None, False)
        async with tc.Client(config, mode=mode) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


# ---- "Connection lifecycle"


async def test_connect_is_a_no_op_when_connected(endpoint: Endpoint) -> None:
    """connect() 1: checks if already connected."""
    watched = endpoint.watch()
    async with endpoint.client() as client:
        await client.connect()
        await client.connect()
    assert asked(watched, "initialize") + asked(watched, "server/discover") == 1


async def test_connect_tracks_whether_it_is_a_reconnect(endpoint: Endpoint) -> None:
    """connect() 2 and 4: tracks whether this is a reconnection attempt; on success was_connected = true."""
    client = endpoint.client()
    told: list[bool] = []
    client.on(ev.ConnectionStarted, lambda event: told.append(event.is_reconnect))
    await client.connect()
    await client.disconnect()
    await client.connect()
    await client.close()
    assert told == [False, True]


@every_way
async def test_connect_applies_the_connect_timeout(endpoint: Endpoint) -> None:
    """connect() 3: applies connect_timeout."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_server = WebServer([], silent.getsockname()[1])
        client = endpoint.client(silent_server, connect_timeout=0.1, max_retries=1)
        with pytest.raises(tc.ConnectError, match=r"connect_timeout=0\.1"):
            await client.connect()
        await client.close()
        silent_server.close()


@every_way
async def test_a_failed_connect_cleans_up(endpoint: Endpoint) -> None:
    """connect() 5: on failure calls cleanup_on_error() to reset state."""
    async with Relay(endpoint.process.port) as relay:
        relay.refuse()
        client = endpoint.client(relay, max_retries=1)
        with pytest.raises(tc.ConnectError):
            await client.connect()
        assert (client.connected, client.server_info) == (False, None)
        await relay.open()
        await client.connect()
        assert client.connected
        await client.close()


async def test_the_session_is_there_while_connected_and_an_error_after_the_end(endpoint: Endpoint) -> None:
    """get_session(): an error if not connected. Here: a call connects by itself; after close() it is a UsageError."""
    client = endpoint.client()
    assert client.server_info is None
    async with client:
        assert client.session.agreement.server == client.server_info
    assert client.server_info is None
    with pytest.raises(tc.ConnectionLost):
        client.session  # noqa: B018 - reading it is the test
    with pytest.raises(tc.UsageError):
        await client.list_tools()


# ---- "Tool operations" and "Prompt operations"


async def test_list_tools_gives_name_description_and_input_schema(endpoint: Endpoint) -> None:
    """list_tools(None): maps with "name", "description", "inputSchema"."""
    async with endpoint.client() as client:
        tools = {tool["name"]: tool for tool in await client.list_tools()}
    assert tools["add"]["description"] == "Add two numbers."
    assert set(tools["add"]["inputSchema"]["properties"]) == {"a", "b"}


async def test_list_tools_with_true_uses_the_cache_and_with_false_bypasses_it(endpoint: Endpoint) -> None:
    """list_tools(Some(true)): force cache usage; list_tools(Some(false)): force fresh fetch."""
    watched = endpoint.watch()
    async with endpoint.client() as client:
        for use_cache, times in ((True, 1), (True, 1), (False, 2), (None, 3)):
            await client.list_tools(use_cache=use_cache)
            assert asked(watched, "tools/list") == times


async def test_call_tool_gives_the_tools_text(endpoint: Endpoint) -> None:
    """call_tool("search", args): the tool's text output. Here: a ToolResult whose `.text` it is."""
    async with endpoint.client() as client:
        assert (await client.call_tool("echo", {"text": "Rust programming"})).text == "Rust programming"


async def test_list_and_call_connect_if_need_be(endpoint: Endpoint) -> None:
    """Both automatically connect if not already connected."""
    for use in (lambda c: c.list_tools(), lambda c: c.call_tool("echo", {"text": "x"})):
        client = endpoint.client()
        assert await use(client)
        assert client.connected
        await client.close()


@every_way
@pytest.mark.usefixtures("lucky")
async def test_list_and_call_use_the_retry_mechanism(endpoint: Endpoint) -> None:
    """Both use the retry mechanism."""
    for use in (lambda c: c.list_tools(), lambda c: c.call_tool("echo", {"text": "x"})):
        async with Relay(endpoint.process.port, resets=2) as relay:
            client = endpoint.client(relay)
            assert await use(client)
            await client.close()


async def test_prompts_are_listed_and_got(endpoint: Endpoint) -> None:
    """list_prompts(): "name", "description", "arguments"; get_prompt(...): "name", "messages", "arguments"."""
    async with endpoint.client() as client:
        (listed,) = await client.list_prompts()
        prompt = await client.get_prompt("explain", {"topic": "Rust"})
    assert (listed["name"], listed["description"]) == ("explain", "Explain a topic.")
    assert [argument["name"] for argument in listed["arguments"]] == ["topic", "tone"]
    assert (prompt["name"], prompt["arguments"]) == ("explain", {"topic": "Rust"})
    assert prompt["messages"][0]["content"]["text"] == "Explain Rust in a kind tone."


async def test_arguments_are_cleaned_before_execution(endpoint: Endpoint) -> None:
    """The client automatically cleans tool arguments before execution: nulls are removed."""
    watched = endpoint.watch()
    async with endpoint.client(clean_arguments="always") as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2, "unused": None})).text == "3"
    (call,) = [entry for entry in watched.requests if entry["rpc"] == "tools/call"]
    assert call["params"]["arguments"] == {"a": 1, "b": 2}


# ---- "Retry logic"


@pytest.mark.parametrize("url", ["mcp", "events/sse"])
async def test_authentication_failures_are_returned_at_once(guarded: WebServer, url: str) -> None:
    """Non-retryable: authentication failures ("authentication", "unauthorized")."""
    watched = Watched(guarded, f"/{url}")
    client = tc.Client(tc.HttpServer(guarded.url(url)) if url == "mcp" else tc.SseServer(guarded.url(url)))
    with pytest.raises(tc.AuthError) as refusal:
        await client.call_tool("whoami")
    assert (refusal.value.status, client.status.state) == (401, tc.ConnectionState.NEEDS_AUTH)
    await client.close()
    assert [entry["status"] for entry in watched.requests] == [401]


async def test_not_found_errors_are_returned_at_once(endpoint: Endpoint) -> None:
    """Non-retryable: not found errors. Here: this server reports an unknown tool as the tool's own error, a result."""
    watched = endpoint.watch()
    async with endpoint.client(retry_safe=True) as client:
        await client.list_tools()
        missing = await client.call_tool("nobody")
        assert missing.is_error and "nobody" in missing.text
        with pytest.raises(tc.ResourceNotFound) as failure:
            await client.read_resource("crib://nowhere")
        assert failure.value.uri == "crib://nowhere"
    assert asked(watched, "tools/call") == 1
    assert asked(watched, "resources/read") == 1


@every_way
@pytest.mark.usefixtures("lucky")
async def test_a_lost_server_is_asked_again_for_what_only_looks(endpoint: Endpoint) -> None:
    """Retryable: server errors, transient network errors. Here: only where nothing can run twice."""
    watched = endpoint.watch()
    async with Relay(endpoint.process.port) as relay, endpoint.client(relay) as client:
        begun = asyncio.Event()
        nap = asyncio.create_task(client.call_tool("nap", {"seconds": 60}, on_progress=lambda *_: begun.set()))
        async with asyncio.timeout(20):
            await begun.wait()
        relay.cut()
        with pytest.raises(tc.OutcomeUnknown) as failure:
            async with asyncio.timeout(20):  # a call that is sent again would sleep once more
                await nap
        # Not UnansweredTimeout, its subclass: that is how a call ends that was sent again and ran into its deadline.
        assert (type(failure.value), failure.value.sent) == (tc.OutcomeUnknown, True)
        assert await client.list_tools()
    assert asked(watched, "tools/call") == 1


async def test_a_time_out_is_not_retried(endpoint: Endpoint) -> None:
    """Retryable: timeouts. Here: never, for the time-out covers all attempts."""
    watched = endpoint.watch()
    async with endpoint.client(retry_safe=True, execution_timeout=0.3) as client:
        with pytest.raises(tc.UnansweredTimeout):
            await client.call_tool("nap", {"seconds": 60})
    assert asked(watched, "tools/call") == 1


# ---- "Schema cache", "Debug security", "Serialization"


def test_the_cache_key_names_the_server(endpoint: Endpoint) -> None:
    """Cache key format: "mcp:{server_identifier}:{resource_type}"."""
    server = endpoint.server()
    scheme = "sse" if endpoint.kind == "sse" else "http"
    cache = tc.Client(server, name="another name")._lister._cache
    assert cache.key("tools") == f"mcp:{scheme}:{server.url}:tools"


@pytest.mark.parametrize("url", ["mcp", "events/sse"])
async def test_a_refused_token_is_never_shown(guarded: WebServer, url: str) -> None:
    """Header values are masked in debug output to prevent accidental credential exposure."""
    kind = tc.HttpServer if url == "mcp" else tc.SseServer
    server = kind(guarded.url(url), headers={"Authorization": "Bearer secret_token"})
    client = tc.Client(server)
    with pytest.raises(tc.AuthError) as refusal:
        await client.connect()
    for shown in (repr(server), repr(client), str(refusal.value), repr(refusal.value), client.status.reason):
        assert "secret_token" not in shown
    await client.close()


@every_way
async def test_a_config_that_was_written_and_read_back_works(endpoint: Endpoint) -> None:
    """All server configs support serialization."""
    again = server_from_dict(endpoint.server(cache_tools_list=True).to_dict())
    assert again.transport_type == TYPES[endpoint.kind] and again.cache_tools_list
    async with tc.Client(again, mode=endpoint.mode) as client:
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"


# ---- events: "stub, log-level only"; here real


async def test_connection_and_execution_events_are_emitted(endpoint: Endpoint) -> None:
    """MCPConnectionStarted/Completed/Failed, MCPToolExecution*."""
    heard: list[ev.Event] = []
    async with Relay(endpoint.process.port) as relay:
        relay.refuse()
        client = endpoint.client(relay, max_retries=1, name="here")
        client.on(ev.Event, heard.append)
        with pytest.raises(tc.ConnectError):
            await client.call_tool("echo", {"text": "x"})
        await relay.open()
        await client.call_tool("echo", {"text": "x"})
        await client.close()
    assert [type(event).__name__ for event in heard] == [
        *("ToolExecutionStarted", "ConnectionStarted", "ConnectionFailed", "ToolExecutionFailed"),
        *("ToolExecutionStarted", "ConnectionStarted", "ConnectionCompleted", "ToolExecutionCompleted"),
        "Disconnected",
    ]
    assert {event.server for event in heard} == {"here"}


# ---- "Complete example"


async def test_the_complete_example(process: WebServer, guarded: WebServer) -> None:
    """A filter, configs of several kinds in one list, a client with timeout and retries; list, call, disconnect."""
    only = tc.static_filter(allowed=["whoami", "add"])
    configs: list[tc.ServerConfig] = [
        tc.SseServer(process.url("sse"), tool_filter=only, cache_tools_list=True),
        tc.HttpServer(
            guarded.url("mcp"),
            headers={"Authorization": "Bearer open-sesame"},
            tool_filter=only,
            cache_tools_list=True,
        ),
    ]
    names: list[str] = []
    for config in configs:
        client = tc.Client(config, connect_timeout=60, max_retries=5, cache_tools_list=True)
        await client.connect()
        names += [tool.name for tool in await client.list_tools()]
        await client.disconnect()
        await client.close()
    assert names == ["add", "whoami"]
