"""`sent` on the error of every way in which a call can fail, over every transport, in a later round too.

False must be true: a call whose error says `sent=False` was not executed, now or later.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import toolcrib as tc
from tests.faults.http_kit import Web, closed_port
from tests.faults.http_sse import BadSseServer
from tests.faults.kit import FAST, FaultyServer, either_era, eventually
from toolcrib.errors import (
    AccessDenied,
    AuthError,
    CallTimeout,
    ConfigError,
    ConnectError,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    RemoteError,
    StartError,
    ToolFailed,
    ToolNotFound,
    UnansweredTimeout,
    UsageError,
)

ONCE = {"max_retries": 1, "reconnect": FAST}
ASK = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}


async def error_of(call: Any) -> Any:
    with pytest.raises(Exception) as caught:  # its type is what the tests compare
        await call
    return caught.value


# ---- before anything is sent, whatever the transport ---------------------------------------------------------


def hides(_tool: tc.Tool) -> bool:
    return False


@pytest.mark.parametrize(
    "options, tool, arguments, kind",
    [
        ({"tool_filter": tc.static_filter(blocked=["echo"])}, "echo", {}, AccessDenied),
        ({"tool_filter": hides}, "echo", {}, AccessDenied),
        ({"tool_filter": hides}, "nothing_of_this_name", {}, ToolNotFound),
        ({}, "echo", {"nonce": object()}, UsageError),
        ({}, "echo", "text", UsageError),
    ],
    ids=["static filter", "filter", "filter, unlisted", "no JSON", "no mapping"],
)
async def test_a_call_that_is_refused_here_is_not_sent(
    faulty: FaultyServer, options: dict[str, Any], tool: str, arguments: Any, kind: type[Exception]
) -> None:
    async with faulty.client(options=options) as client:
        error = await error_of(client.call_tool(tool, arguments, timeout=10))
    assert (type(error), error.sent) == (kind, False)
    assert not faulty.record.executed


async def test_a_closed_client_sends_nothing(faulty: FaultyServer) -> None:
    client = faulty.client()
    await client.close()
    error = await error_of(client.call_tool("echo"))
    assert (type(error), error.sent) == (UsageError, False)


def test_a_wrong_config_sends_nothing() -> None:
    with pytest.raises(ConfigError) as caught:
        tc.Client(tc.StdioServer("python", lifecycle="transient"))
    assert caught.value.sent is False


# ---- stdio ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script, timeout, kind",
    [({"exit": {"code": 3}}, 10, StartError), ({"delay": 30}, 0.2, CallTimeout)],
    ids=["exits at once", "deadline while connecting"],
)
async def test_over_stdio_a_call_without_a_connection_is_not_sent(
    faulty: FaultyServer, script: dict[str, Any], timeout: float, kind: type[Exception]
) -> None:
    client = faulty.client(options=ONCE, **script)
    error = await error_of(client.call_tool("echo", {"nonce": "n0"}, timeout=timeout))
    await client.close()
    assert (type(error), error.sent) == (kind, False)
    assert not faulty.record.executed


@either_era
@pytest.mark.parametrize(
    "tool, arguments, timeout, kind",
    [
        ("silent", {}, 0.2, UnansweredTimeout),
        ("die", {}, 10, OutcomeUnknown),
        ("die", {"part": True}, 10, OutcomeUnknown),
        ("close_stdout", {}, 10, OutcomeUnknown),
        ("torn", {}, 10, ProtocolError),
        ("deep", {"depth": 1000}, 10, ProtocolError),
        ("refuse", {"code": -32603}, 10, RemoteError),
    ],
)
async def test_over_stdio_a_call_that_fails_after_it_was_written_was_sent(
    faulty: FaultyServer, era: str, tool: str, arguments: dict[str, Any], timeout: float, kind: type[Exception]
) -> None:
    async with faulty.client(era=era, options=ONCE) as client:
        error = await error_of(client.call_tool(tool, {"nonce": "n0", **arguments}, timeout=timeout))
    assert (type(error), error.sent) == (kind, True)


async def test_over_stdio_a_disconnect_during_a_call_leaves_its_outcome_unknown(faulty: FaultyServer) -> None:
    async with faulty.client() as client:
        call = asyncio.ensure_future(client.call_tool("silent", {"nonce": "n0"}))
        await eventually(lambda: faulty.record.executed)
        await client.disconnect()
        error = await error_of(call)
    assert (type(error), error.sent) == (OutcomeUnknown, True)


async def test_an_error_result_raised_as_an_exception_was_sent(faulty: FaultyServer) -> None:
    async with faulty.client() as client:
        result = await client.call_tool("fail", {"nonce": "n0"})
    with pytest.raises(ToolFailed) as caught:
        result.raise_for_error()
    assert caught.value.sent is True


# ---- HTTP ----------------------------------------------------------------------------------------------------


FAILURES: dict[str, tuple[str, dict[str, Any], type[Exception], bool]] = {
    "401": ("status", {"status": 401, "headers": {"WWW-Authenticate": "Bearer"}}, AuthError, False),
    "403": ("status", {"status": 403}, AuthError, False),
    "429": ("status", {"status": 429, "headers": {"Retry-After": "100"}}, RateLimited, False),
    "503 with a pause": ("status", {"status": 503, "headers": {"Retry-After": "100"}}, RateLimited, False),
    "400": ("status", {"status": 400, "type": "text/plain", "body": "no"}, ProtocolError, True),
    "500": ("status", {"status": 500}, OutcomeUnknown, True),
    "no JSON": ("status", {"type": "application/json", "body": "no"}, ProtocolError, True),
    "no HTTP": ("raw", {"bytes": "no\r\n\r\n"}, OutcomeUnknown, True),
    "closed": ("die", {}, OutcomeUnknown, True),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("later", [False, True], ids=["first round", "second round"])
async def test_over_http_sent_says_whether_the_call_can_have_run(web: Web, name: str, later: bool) -> None:
    do, how, kind, sent = FAILURES[name]
    server = await web.server(era="modern")
    server.gate("tools/call", do, skip=int(later), **how)
    async with web.client(server, **ONCE, elicitation_handler=lambda _: {}) as client:
        error = await error_of(client.call_tool("ask", {"nonce": "n0", **ASK}, timeout=10))
    if later:  # the rounds are one call, and the first one was answered
        assert error.sent is True
        assert kind in (RateLimited, OutcomeUnknown) or isinstance(error, kind)
    else:
        assert (type(error), error.sent) == (kind, sent)
        assert not server.executed


@pytest.mark.parametrize("name", FAILURES)
async def test_over_legacy_http_sent_says_whether_the_call_can_have_run(web: Web, name: str) -> None:
    do, how, kind, sent = FAILURES[name]
    server = await web.server(era="legacy")
    server.gate("tools/call", do, **how)
    async with web.client(server, **ONCE) as client:
        error = await error_of(client.call_tool("echo", {"nonce": "n0"}, timeout=10))
    assert (type(error), error.sent) == (kind, sent)
    assert not server.executed


async def test_over_http_a_call_that_cannot_connect_is_not_sent(web: Web) -> None:
    client = web.client(f"http://127.0.0.1:{closed_port()}/mcp", **ONCE)
    error = await error_of(client.call_tool("echo", timeout=10))
    assert (type(error), error.sent) == (ConnectError, False)


@pytest.mark.parametrize("tool, kind", [("slow", UnansweredTimeout), ("refuse", RemoteError)])
async def test_over_http_a_call_that_the_server_has_was_sent(
    web: Web, era: str, tool: str, kind: type[Exception]
) -> None:
    server = await web.server(era=era)
    async with web.client(server, **ONCE) as client:
        error = await error_of(client.call_tool(tool, {"nonce": "n0", "code": -32000}, timeout=0.5))
    assert (type(error), error.sent) == (kind, True)


async def test_over_http_a_lost_connection_that_a_listener_disconnects_is_closed(web: Web) -> None:
    """`Web.end` fails if a socket is left open, pytest if a client session is."""
    server = await web.server(era="legacy")
    client = web.client(server)
    parted = asyncio.Event()

    async def disconnect(_: Any) -> None:
        await client.disconnect()
        parted.set()

    client.on(tc.events.Disconnected, disconnect)
    await client.connect()
    server.expire()
    await error_of(client.call_tool("refuse", {"nonce": "n0", "code": -32000}, timeout=5))
    async with asyncio.timeout(5):
        await parted.wait()
    await client.close()


# ---- HTTP+SSE ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gate, kind, sent",
    [
        (("status", {"status": 401, "headers": {"WWW-Authenticate": "Bearer"}}), AuthError, False),
        (("status", {"status": 429, "headers": {"Retry-After": "100"}}), RateLimited, False),
        (("status", {"status": 500}), OutcomeUnknown, True),
        (("die", {}), OutcomeUnknown, True),
    ],
    ids=["401", "429", "500", "closed"],
)
async def test_over_sse_sent_says_whether_the_call_can_have_run(
    web: Web, gate: tuple[str, dict[str, Any]], kind: type[Exception], sent: bool
) -> None:
    server = BadSseServer()
    web.servers.append(await server.start())
    server.gate("tools/call", gate[0], **gate[1])
    client = tc.Client(tc.SseServer(server.url), **ONCE)  # type: ignore[arg-type]
    web.clients.append(client)
    error = await error_of(client.call_tool("echo", {"nonce": "n0"}, timeout=10))
    assert (type(error), error.sent) == (kind, sent)
    assert not server.executed


# ---- in process ----------------------------------------------------------------------------------------------


async def test_in_process_a_call_that_outlives_its_deadline_was_sent() -> None:
    server = tc.ToolServer("office")

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    async with tc.Client(server) as client:
        error = await error_of(client.call_tool("wait", timeout=0.1))
    assert (type(error), error.sent) == (UnansweredTimeout, True)
