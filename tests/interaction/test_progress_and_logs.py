"""Notifications of a server during a call: progress in order, log lines at or above the requested level."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import toolcrib as tc
from tests.interaction.kit import Place, eventually
from tests.interaction.marks import MODERN, OLDER, client_side, per_protocol

STEPS = [(step, 5, f"step {step}") for step in range(1, 6)]


@pytest.mark.transport
async def test_progress_comes_in_order_to_a_plain_function(harness: Place) -> None:
    received: list[Any] = []
    async with harness.client() as c:
        result = await c.call_tool("slow", {"steps": 5}, on_progress=lambda *step: received.append(step))
        assert received == STEPS
    assert result.text == "done"


@pytest.mark.transport
async def test_progress_comes_in_order_to_an_async_function_and_wholly_before_the_result(harness: Place) -> None:
    received: list[Any] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        for _ in range(6 - int(progress)):  # the first one takes longest
            await asyncio.sleep(0)
        received.append((progress, total, message))

    async with harness.client() as c:
        await c.call_tool("slow", {"steps": 5}, on_progress=listen)
        assert received == STEPS


@per_protocol
async def test_the_clients_progress_handler_is_used_for_calls_without_their_own(harness: Place) -> None:
    general: list[float] = []
    own: list[float] = []
    async with harness.client(progress_handler=lambda progress, *_: general.append(progress)) as c:
        await c.call_tool("slow", {"steps": 2})
        await c.call_tool("slow", {"steps": 3}, on_progress=lambda progress, *_: own.append(progress))
    assert (general, own) == ([1, 2], [1, 2, 3])


@per_protocol
async def test_without_a_listener_no_progress_is_asked_for(harness: Place) -> None:
    async with harness.client() as c:
        await c.call_tool("slow", {"steps": 2})
        await c.call_tool("slow", {"steps": 2}, on_progress=lambda *_: None)
    plain, asking = harness.journal.got("tools/call")
    assert "progressToken" not in plain["params"].get("_meta", {})
    assert asking["params"]["_meta"]["progressToken"] == asking["id"]


@pytest.mark.transport
async def test_progress_of_calls_at_once_goes_to_the_right_ones(harness: Place) -> None:
    received: dict[int, list[float]] = {n: [] for n in range(1, 9)}
    async with harness.client() as c:
        calls = (
            c.call_tool("slow", {"steps": n}, on_progress=lambda p, *_, n=n: received[n].append(p))  # type: ignore[misc]
            for n in received
        )
        await asyncio.gather(*calls)
    assert received == {n: list(range(1, n + 1)) for n in received}


@client_side
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_progress_listener_that_raises_does_no_harm(
    harness: Place, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    received: list[float] = []

    def broken(progress: float, *_: Any) -> None:
        received.append(progress)
        raise ValueError("listener")

    async def broken_later(progress: float, *_: Any) -> None:
        broken(progress)

    async with harness.client() as c:
        result = await c.call_tool("slow", {"steps": 3}, on_progress=broken_later if is_async else broken)
    assert (result.text, received) == ("done", [1, 2, 3])
    assert "a progress handler raised" in caplog.text


async def test_the_raw_door_reports_progress_too(harness: Place) -> None:
    received: list[float] = []
    async with harness.client() as c:
        params = {"name": "slow", "arguments": {"steps": 2}}
        await c.request("tools/call", params, on_progress=lambda progress, *_: received.append(progress))
    assert received == [1, 2]


# ---- logs


async def said(c: tc.Client, *levels: str) -> None:
    for level in levels:
        await c.call_tool("speak", {"level": level, "data": {"line": level}})


@pytest.mark.parametrize("level, received", [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
async def test_the_log_handler_receives_messages_from_the_requested_level_on(
    harness: Place, level: Any, received: int
) -> None:
    lines: list[tc.LogMessage] = []
    async with harness.client(log_handler=lines.append, log_level=level) as c:
        if not harness.modern:
            await eventually(lambda: harness.journal.got("logging/setLevel"))
        await said(c, "debug", "info", "warning", "error")
    expected = [tc.LogMessage(name, {"line": name}, "crib") for name in ("debug", "info", "warning", "error")]
    assert lines == expected[-received:]


async def test_a_log_handler_alone_asks_for_info(harness: Place) -> None:
    lines: list[tc.LogMessage] = []
    async with harness.client(log_handler=lines.append) as c:
        if not harness.modern:
            await eventually(lambda: harness.journal.got("logging/setLevel"), "logging/setLevel")
        await said(c, "debug", "info")
    assert [line.level for line in lines] == ["info"]


@pytest.mark.transport
async def test_an_async_log_handler_receives_messages_in_order(harness: Place) -> None:
    lines: list[str] = []

    async def handle(message: tc.LogMessage) -> None:
        await asyncio.sleep(0)
        lines.append(message.level)

    async with harness.client(log_handler=handle, log_level="info") as c:
        await said(c, "error", "info", "warning")
        await eventually(lambda: len(lines) == 3)
    assert lines == ["error", "info", "warning"]


@client_side
async def test_a_log_handler_that_raises_does_no_harm(harness: Place, caplog: pytest.LogCaptureFixture) -> None:
    def broken(message: tc.LogMessage) -> None:
        raise ValueError("log handler")

    async with harness.client(log_handler=broken) as c:
        await said(c, "error")
        assert (await c.call_tool("echo", {"text": "x"})).text == "x"
    assert "a log handler raised" in caplog.text


async def test_without_a_handler_the_lines_go_to_pythons_logging(
    harness: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "toolcrib.server"):
        async with harness.client(log_level="info") as c:
            await said(c, "warning")
    (record,) = [record for record in caplog.records if record.name == "toolcrib.server"]
    assert record.levelno == logging.WARNING
    assert "{'line': 'warning'}" in record.getMessage()


@MODERN
async def test_without_handler_and_level_a_modern_server_is_asked_for_no_logs(harness: Place) -> None:
    async with harness.client() as c:
        await said(c, "error")
    (sent,) = harness.journal.got("tools/call")
    assert "io.modelcontextprotocol/logLevel" not in sent["params"]["_meta"]


@MODERN
async def test_on_a_modern_connection_the_level_rides_on_each_request(harness: Place) -> None:
    async with harness.client(log_level="notice") as c:
        await c.list_tools()
        await c.call_tool("echo", {"text": "x"})
    requests = [message for message in harness.journal.entries("got") if "id" in message]
    assert {message["params"]["_meta"]["io.modelcontextprotocol/logLevel"] for message in requests} == {"notice"}
    assert harness.journal.got("logging/setLevel") == []


@pytest.mark.transport
@OLDER
async def test_on_an_older_connection_the_level_is_set_again_after_a_reconnect(harness: Place) -> None:
    async with harness.client(log_level="error") as c:
        await eventually(lambda: len(harness.journal.got("logging/setLevel")) == 1)
        await c.disconnect()
        await c.connect()
        await eventually(lambda: len(harness.journal.got("logging/setLevel")) == 2)
    assert {message["params"]["level"] for message in harness.journal.got("logging/setLevel")} == {"error"}


@per_protocol
@OLDER
async def test_a_server_without_logging_is_not_asked_for_a_level(harness: Place) -> None:
    async with harness.client(server_options={"capabilities": {"tools": {}}}, log_level="error") as c:
        await c.list_tools()
    assert harness.journal.got("logging/setLevel") == []
