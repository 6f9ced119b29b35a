"""Spans with the real SDK of OpenTelemetry and an exporter in memory."""

from __future__ import annotations

import asyncio
import importlib
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, MODERN, SILENCE, PlayedServer, eventually
from toolcrib.client.telemetry import call_span, tracing
from toolcrib.errors import CallTimeout, RemoteError
from toolcrib.types import Wire

DONE: Wire = {"content": [{"type": "text", "text": "ok"}]}


def _forget_opentelemetry() -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def loaded() -> Iterator[Any]:
    """Load OpenTelemetry with this module's provider; unload it afterwards, because Toolcrib uses it if loaded."""
    assert not tracing()
    trace = importlib.import_module("opentelemetry.trace")
    sdk = importlib.import_module("opentelemetry.sdk.trace")
    export = importlib.import_module("opentelemetry.sdk.trace.export")
    memory = importlib.import_module("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield SimpleNamespace(trace=trace, exporter=exporter)
    provider.shutdown()
    _forget_opentelemetry()


@pytest.fixture
def otel(loaded: Any) -> Any:
    loaded.exporter.clear()
    return loaded


def only_span(otel: Any) -> Any:
    (span,) = otel.exporter.get_finished_spans()
    return span


def called(server: PlayedServer) -> Wire:
    (message,) = server.named("tools/call")
    params: Wire = message["params"]
    return params


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_is_one_span_and_the_server_can_go_on_with_its_trace(otel: Any, mode: str) -> None:
    server = PlayedServer(initialize=LEGACY, server__discover=MODERN, tools__call=DONE)
    tracer = otel.trace.get_tracer("test")
    async with tc.Client(server, mode=mode, name="files") as client:
        with tracer.start_as_current_span("agent") as agent:
            await client.call_tool("read", {"path": "x"}, meta={"mine": 1})
    span, parent = otel.exporter.get_finished_spans()
    assert parent.name == "agent"
    assert span.name == "tools/call read"
    assert span.kind is otel.trace.SpanKind.CLIENT
    assert span.parent.span_id == agent.get_span_context().span_id
    assert span.attributes["gen_ai.tool.name"] == "read"
    assert span.attributes["toolcrib.server"] == "files"
    assert span.status.status_code is otel.trace.StatusCode.UNSET
    meta = called(server)["_meta"]
    assert meta["traceparent"].startswith(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-")
    assert meta["mine"] == 1


async def test_arguments_and_results_are_in_no_span(otel: Any) -> None:
    server = PlayedServer(initialize=LEGACY, tools__call={"content": [{"type": "text", "text": "s3cret-out"}]})
    async with tc.Client(server, mode="legacy") as client:
        await client.call_tool("read", {"password": "s3cret-in"})
    assert "s3cret" not in only_span(otel).to_json()


async def test_the_callers_own_meta_is_not_touched(otel: Any) -> None:
    meta, arguments = {"mine": 1}, {"a": {"b": 1}}
    async with tc.Client(PlayedServer(initialize=LEGACY, tools__call=DONE), mode="legacy") as client:
        await client.call_tool("read", arguments, meta=meta)
    assert (meta, arguments) == ({"mine": 1}, {"a": {"b": 1}})


async def test_a_tools_own_error_is_an_error_of_the_span(otel: Any) -> None:
    tools = {"tools": [{"name": "read", "inputSchema": {"type": "object"}}]}
    server = PlayedServer(initialize=LEGACY, tools__list=tools, tools__call={**DONE, "isError": True})
    async with tc.Client(server, mode="legacy") as client:
        assert (await client.call_tool("read")).is_error
    assert only_span(otel).status.status_code is otel.trace.StatusCode.ERROR


@pytest.mark.parametrize("error", [RemoteError, CallTimeout])
async def test_an_exception_is_recorded_on_the_span(otel: Any, error: type[Exception]) -> None:
    said = RemoteError(-32000, "broken") if error is RemoteError else SILENCE
    server = PlayedServer(initialize=LEGACY, tools__call=said)
    async with tc.Client(server, mode="legacy") as client:
        with pytest.raises(error):
            await client.call_tool("read", timeout=0.01 if said is SILENCE else 10)
    span = only_span(otel)
    assert span.status.status_code is otel.trace.StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


async def test_a_cancelled_call_ends_its_span_too(otel: Any) -> None:
    server = PlayedServer(initialize=LEGACY, tools__call=SILENCE)
    async with tc.Client(server, mode="legacy") as client:
        call = asyncio.create_task(client.call_tool("read"))
        await eventually(lambda: server.named("tools/call"))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    assert only_span(otel).end_time is not None


async def test_many_calls_at_once_have_a_span_each_with_its_own_traceparent(otel: Any) -> None:
    server = PlayedServer(initialize=LEGACY, tools__call=DONE)
    async with tc.Client(server, mode="legacy") as client:
        await asyncio.gather(*(client.call_tool("read") for _ in range(20)))
    sent = {message["params"]["_meta"]["traceparent"].split("-")[2] for message in server.named("tools/call")}
    assert sent == {f"{span.context.span_id:016x}" for span in otel.exporter.get_finished_spans()}
    assert len(sent) == 20


async def test_lists_and_handshakes_are_not_calls(otel: Any) -> None:
    server = PlayedServer(initialize=LEGACY, tools__list={"tools": []})
    async with tc.Client(server, mode="legacy") as client:
        await client.list_tools()
    assert otel.exporter.get_finished_spans() == ()


def test_without_the_api_loaded_no_span_is_made_and_nothing_is_imported() -> None:
    code = """
import asyncio, sys
from tests.unit.kit import LEGACY, PlayedServer
from toolcrib.client.telemetry import call_span, tracing
import toolcrib as tc

async def main():
    server = PlayedServer(initialize=LEGACY, tools__call={"content": []})
    async with tc.Client(server, mode="legacy") as client:
        client.on(tc.events.ToolExecutionCompleted, print)  # the observed way, without OpenTelemetry
        await client.call_tool("x")
    assert "_meta" not in server.named("tools/call")[0]["params"]

asyncio.run(main())
assert not tracing()
with call_span("s", "t") as span:
    assert span.meta() == {}
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
    ran = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert "ToolExecutionCompleted" in ran.stdout


async def test_with_the_api_alone_calls_work_and_no_trace_is_sent() -> None:
    """The API without an SDK makes spans that record nothing."""
    _forget_opentelemetry()
    importlib.import_module("opentelemetry.trace")
    try:
        server = PlayedServer(initialize=LEGACY, tools__call=DONE)
        async with tc.Client(server, mode="legacy") as client:
            assert (await client.call_tool("read")).text == "ok"
        assert "traceparent" not in called(server).get("_meta", {})
        with call_span("s", "t") as span:
            assert span.meta() == {}
    finally:
        _forget_opentelemetry()
