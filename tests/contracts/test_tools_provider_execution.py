"""The MCP Tools Provider, sentence by sentence: discovery, execution, errors and their recovery, best practices.

See test_tools_provider.py.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import logging
from pathlib import Path
from typing import Any

import psutil
import pytest

import toolcrib as tc
from tests.contracts.conftest import MakePlugin
from tests.contracts.provider_kit import SECRET, Plugin, form, manifest, package, remote_form, stored_bytes
from tests.peers.web import Watched, WebServer
from tests.provider import plugins
from tests.serving import served
from tests.unit.kit import eventually
from toolcrib.provider.outcomes import ExecutionResult
from toolcrib.provider.provider import Provider
from toolcrib.provider.source_config import LifecycleMode, SourceConfig, SourceTransport

NAME = "GitHub MCP"
ECHO_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 10_000}, "times": {"type": "integer", "minimum": 1}},
    "required": ["text"],
    "additionalProperties": False,
}
FAILED = tc.ConnectionState.FAILED
CONNECTED = tc.ConnectionState.CONNECTED


async def outcome(provider: Provider, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> Any:
    return await provider.execute(NAME, tool, arguments, **options)


# ---- "Tool discovery"


async def test_discovery_is_automatic_at_registration(provider: Provider, sdk1: WebServer) -> None:
    """When an MCP source is registered, tool discovery is automatic: connect, initialize, tools/list."""
    watched = Watched(sdk1, "/stateful")
    source = await provider.register(remote_form(sdk1.url("stateful/mcp"), name=NAME))
    rpc = [step for step in watched.steps if step in ("POST initialize", "POST tools/list", "POST tools/call")]
    assert rpc == ["POST initialize", "POST tools/list"]
    assert {"echo", "add"} <= {tool.name for tool in source.tools}
    assert [tool.name for tool in provider.list_tools(NAME)] == [tool.name for tool in source.tools]


async def test_each_discovered_tool(provider: Provider, plugin: Plugin) -> None:
    """execution_profile.mode = MCP_CALL, full JSON schema for parameters, reference to parent MCP source."""
    source = await provider.register(form(plugin))
    assert source.tools
    for tool in source.tools:
        assert tool.execution_profile.mode == "mcp_call"
        assert (tool.source_id, tool.source) == (source.id, NAME)
    echo = provider.get_tool(NAME, "echo")
    assert (echo.input_schema, echo.description) == (ECHO_SCHEMA, "Tool echo.")


async def test_a_refresh_lists_the_tools_again(provider: Provider, plugin: Plugin) -> None:
    """RefreshInventoryCommand: fetch_and_parse(source)."""
    await provider.register(form(plugin))
    plugin.set("extra", "first second")
    change = await provider.refresh(NAME)
    assert [tool.name for tool in change.added] == ["first", "second"]
    plugin.set("extra", "first")
    change = await provider.refresh(NAME)
    assert ([tool.name for tool in change.removed], list(change.added)) == (["second"], [])
    assert not await provider.refresh(NAME)


async def test_the_inventory_outlives_the_server(store_file: Path, plugin: Plugin) -> None:
    """Each discovered tool becomes a SourceTool aggregate. Here: stored; listing it starts nothing."""
    async with Provider(store_file) as provider:
        tools = (await provider.register(form(plugin))).tools
    async with Provider(store_file) as provider:
        assert provider.list_tools(NAME) == list(tools), "in the same order"
    assert len(plugin.starts()) == 1


# ---- "Tool execution"


async def test_a_tool_is_executed_by_the_id_of_its_source(provider: Provider, plugin: Plugin) -> None:
    """execute(tool_id, args, config). Here: id, name or slug of the source, and the tool's own name."""
    source = await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    for key in (source.id, source.name, source.slug):
        assert (await provider.execute(key, "echo", {"text": "x", "times": 2})).get_text() == "xx"


async def test_a_source_that_is_not_connected_is_connected(provider: Provider, sdk1: WebServer) -> None:
    """alt not connected: connect(); then tools/call."""
    await provider.register(remote_form(sdk1.url("stateful/mcp"), name=NAME))
    await provider.disable(NAME)
    assert provider.connections(NAME) == []
    await provider.enable(NAME)
    watched = Watched(sdk1, "/stateful")
    assert (await outcome(provider, "add", {"a": 1, "b": 2})).success
    rpc = [step for step in watched.steps if step in ("POST initialize", "POST tools/list", "POST tools/call")]
    assert rpc == ["POST initialize", "POST tools/call"]


async def test_arguments_are_validated_before_anything_starts(provider: Provider, plugin: Plugin) -> None:
    """Validate argument handling and edge cases. Here: against the stored schema, all problems at once."""
    await provider.register(form(plugin))
    starts = len(plugin.starts())
    result = await outcome(provider, "echo", {"text": 5, "times": 0, "other": True})
    assert isinstance(result.exception, tc.InvalidArguments)
    assert len(result.exception.problems) == 3
    assert result.metadata["sent"] is False
    assert len(plugin.starts()) == starts


# ---- "Execution result"


def test_the_fields_of_the_result() -> None:
    """success, content, is_error = False, error = None, execution_time_ms = 0.0, metadata = None, get_text().

    Here: `result` and `exception` are added, so that a tool's own error and a lost call differ.
    """
    names = ["success", "content", "is_error", "error", "execution_time_ms", "metadata", "result", "exception"]
    assert [field.name for field in dataclasses.fields(ExecutionResult)] == names
    blank = ExecutionResult(True, [])
    assert (blank.is_error, blank.error, blank.execution_time_ms, blank.metadata) == (False, None, 0.0, None)
    assert blank.get_text() == ""


async def test_a_success(provider: Provider, plugin: Plugin) -> None:
    """success, content of text and images, get_text(): combined text from all text content blocks."""
    source = await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    result = await outcome(provider, "picture")
    assert (result.success, result.is_error, result.error, result.exception) == (True, False, None, None)
    assert [block["type"] for block in result.content] == ["text", "image", "text"]
    assert result.get_text() == "a\nb"
    assert result.execution_time_ms > 0
    assert result.result.raw["content"] == result.content
    about = result.metadata
    assert (about["source_id"], about["tool"], about["generation"]) == (source.id, "picture", 1)
    assert (about["outcome"], about["sent"], about["attempts"]) == ("ok", True, 1)
    assert about["tool_hash"] == provider.get_tool(NAME, "picture").hash
    assert sum(about["timing"].values()) == pytest.approx(result.execution_time_ms, abs=0.1)


async def test_an_error_of_the_tool(provider: Provider, plugin: Plugin) -> None:
    """is_error and error. Here: `result` is there and `exception` is not, as the tool has answered."""
    await provider.register(form(plugin))
    result = await outcome(provider, "fail")
    assert (result.success, result.is_error, result.error) == (False, True, "the tool failed")
    assert result.result is not None
    assert result.exception is None
    assert (result.metadata["outcome"], result.metadata["sent"]) == ("tool_error", True)
    with pytest.raises(tc.ToolFailed, match="the tool failed"):
        result.raise_for_error()


async def test_unknown_names_are_results_too(provider: Provider, plugin: Plugin) -> None:
    """Return error result: also for a source or tool that does not exist."""
    await provider.register(form(plugin))
    assert isinstance((await provider.execute("GitHub", "echo")).exception, tc.ServerNotFound)
    result = await outcome(provider, "ecko", {"text": "x"})
    assert isinstance(result.exception, tc.ToolNotFound)
    assert result.exception.nearest == ("echo",)
    assert len(plugin.starts()) == 1


# ---- "Error handling"


def test_the_classes_of_errors() -> None:
    """McpTransportError, and below it: connection, protocol, timeout."""
    meanings = {
        tc.ConnectError: "no connection to the server could be established",
        tc.ProtocolError: "the peer violated the protocol",
        tc.CallTimeout: "the deadline passed",
    }
    for error, meaning in meanings.items():
        assert issubclass(error, tc.TransportError)
        assert meaning in (inspect.getdoc(error) or "")
    assert issubclass(tc.CallTimeout, TimeoutError)


async def test_a_connection_failure_is_retried_with_backoff(
    provider: Provider, plugin: Plugin, caplog: pytest.LogCaptureFixture
) -> None:
    """Connection failure: retry with backoff."""
    await provider.register(form(plugin))
    starts = len(plugin.starts())
    plugin.set("flaky", "2")
    with caplog.at_level(logging.DEBUG, "toolcrib"):
        result = await outcome(provider, "echo", {"text": "x"})
    assert result.success, result.error
    assert result.metadata["attempts"] == 3
    assert len(plugin.starts()) == starts + 3
    assert caplog.text.count("retrying in") == 2
    assert provider.status(NAME).state is CONNECTED


async def test_a_connection_failure_marks_the_source_unhealthy(provider: Provider, plugin: Plugin) -> None:
    """Connection failure: mark source unhealthy. The call fails, surely unsent, with what the process wrote."""
    await provider.register(form(plugin))
    plugin.set("broken")
    result = await outcome(provider, "echo", {"text": "x"})
    assert isinstance(result.exception, tc.StartError)
    assert (result.exception.exit_code, result.exception.stderr.strip()) == (3, "no licence found")
    assert (result.metadata["attempts"], result.metadata["sent"]) == (3, False)
    status = provider.status(NAME)
    assert status.state is FAILED
    assert "no licence found" in status.reason
    plugin.reset("broken")
    assert (await outcome(provider, "echo", {"text": "x"})).success
    assert provider.status(NAME).state is CONNECTED


async def test_an_unhealthy_source_is_still_so_after_a_restart(store_file: Path, plugin: Plugin) -> None:
    """Mark source unhealthy: the reason is stored."""
    plugin.set("broken")
    async with Provider(store_file) as provider:
        await provider.register(form(plugin, max_attempts=1))
        assert provider.status(NAME).state is FAILED
    async with Provider(store_file) as provider:
        assert provider.status(NAME).state is FAILED
        assert "no licence found" in provider.status(NAME).reason
        plugin.reset("broken")
        await provider.refresh(NAME)
        assert provider.status(NAME).state is CONNECTED
        assert (await outcome(provider, "echo", {"text": "x"})).success
    async with Provider(store_file) as provider:
        assert provider.status(NAME).state is tc.ConnectionState.DISCONNECTED


@pytest.mark.parametrize("lifecycle", ["transient", "singleton"])
async def test_a_timeout_is_an_error_result(provider: Provider, plugin: Plugin, lifecycle: str) -> None:
    """Timeout: return error result, log for monitoring."""
    await provider.register(form(plugin, mcp_lifecycle_mode=lifecycle))
    result = await outcome(provider, "hang", timeout=0.5)
    assert (result.success, result.is_error) == (False, True)
    assert isinstance(result.exception, tc.UnansweredTimeout)
    assert (result.metadata["outcome"], result.metadata["sent"]) == ("unanswered_timeout", True)
    await eventually(lambda: lifecycle == "singleton" or not plugin.running())
    row = await logged(provider, "hang")
    assert (row.outcome, row.sent, row.principal) == ("unanswered_timeout", True, "local")
    assert row.error == result.error


async def logged(provider: Provider, tool: str) -> Any:
    """Return the row of the audit about the last call of a tool."""
    async with asyncio.timeout(10):
        while True:
            rows = [row for row in await provider.executions(source=NAME) if row.tool == tool]
            if rows:
                return rows[0]
            await asyncio.sleep(0.02)


async def test_the_timeout_includes_the_start_of_the_process(provider: Provider, plugin: Plugin) -> None:
    """Implements connection timeout. The deadline of a call includes it, and the call is surely unsent."""
    await provider.register(form(plugin))
    plugin.set("mute")
    result = await outcome(provider, "echo", {"text": "x"}, timeout=0.5)
    assert isinstance(result.exception, tc.CallTimeout)
    assert result.metadata["sent"] is False
    await eventually(lambda: not plugin.running())


async def test_a_connection_has_its_own_timeout(provider: Provider, plugin: Plugin) -> None:
    """Implements connection timeout: connect_timeout, also at registration."""
    plugin.set("mute")
    with pytest.raises(tc.TransportError):
        await provider.register(form(plugin, connect_timeout=0.3, max_attempts=1), require_ready=True)
    assert plugin.running() == []


@pytest.mark.parametrize("lifecycle", ["transient", "singleton"])
async def test_a_protocol_error_is_an_error_result(provider: Provider, plugin: Plugin, lifecycle: str) -> None:
    """Protocol error: log details, return error result."""
    await provider.register(form(plugin, mcp_lifecycle_mode=lifecycle))
    result = await outcome(provider, "garbage", timeout=10)
    assert isinstance(result.exception, tc.ProtocolError), result
    assert (result.is_error, result.metadata["outcome"], result.metadata["sent"]) == (True, "protocol_error", True)
    assert (await logged(provider, "garbage")).outcome == "protocol_error"
    assert (await outcome(provider, "echo", {"text": "still there"})).get_text() == "still there"


async def test_a_crashed_process_is_restarted_by_the_next_call(provider: Provider, plugin: Plugin) -> None:
    """Process crash (local): restart subprocess on next call. Here: the lost call itself is never repeated."""
    await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    assert (await outcome(provider, "counter")).get_text() == "1"
    result = await outcome(provider, "crash")
    assert isinstance(result.exception, tc.OutcomeUnknown)
    assert (result.metadata["sent"], result.metadata["attempts"]) == (True, 1)
    assert provider.status(NAME).state is not CONNECTED
    assert len(plugin.starts()) == 1, "not before the next call"
    assert (await outcome(provider, "counter")).get_text() == "1"
    assert len(plugin.starts()) == 2
    assert provider.status(NAME).state is CONNECTED


async def test_a_crash_between_calls_is_no_failure(provider: Provider, plugin: Plugin) -> None:
    """Restart subprocess on next call: also if it ended while no call was running."""
    await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    (pid,) = plugin.running()
    psutil.Process(pid).kill()
    await eventually(lambda: provider.status(NAME).state is not CONNECTED)
    assert (await outcome(provider, "echo", {"text": "x"})).success


@pytest.mark.parametrize("folder", [plugins.HTTP, plugins.SSE], ids=["http", "sse"])
async def test_a_crashed_process_on_a_port_is_restarted_by_the_next_call(provider: Provider, folder: Path) -> None:
    """Process crash (local): restart subprocess on next call; for plugins over HTTP and SSE too."""
    env = {"PATH": plugins.python_path()}
    await provider.register(form(folder, mcp_lifecycle_mode="singleton", mcp_env_vars=env), require_ready=True)
    assert [(await outcome(provider, "counter")).get_text() for _ in range(2)] == ["1", "2"]
    result = await outcome(provider, "crash", timeout=20)
    assert isinstance(result.exception, tc.OutcomeUnknown)
    assert result.metadata["sent"] is True
    assert (await outcome(provider, "counter", timeout=20)).get_text() == "1"
    assert provider.status(NAME).state is CONNECTED
    psutil.Process(int((await outcome(provider, "pid")).get_text())).kill()
    await eventually(lambda: provider.status(NAME).state is not CONNECTED)
    assert (await outcome(provider, "counter", timeout=20)).get_text() == "1"


async def test_a_transient_process_that_crashes(provider: Provider, plugin: Plugin) -> None:
    """Process crash: the next call has a process of its own anyway."""
    await provider.register(form(plugin))
    result = await outcome(provider, "crash")
    assert isinstance(result.exception, tc.OutcomeUnknown)
    assert "the plugin crashes" in result.error
    assert (await outcome(provider, "echo", {"text": "x"})).success


async def test_a_source_that_always_crashes_is_not_started_by_every_call(provider: Provider, plugin: Plugin) -> None:
    """Retry with backoff: after several failures in a row the next calls fail at once, for a while."""
    await provider.register(form(plugin, mcp_lifecycle_mode="singleton", max_attempts=1))
    await provider.disable(NAME)
    await provider.enable(NAME)
    plugin.set("broken")
    starts = len(plugin.starts())
    results = [await outcome(provider, "echo", {"text": "x"}) for _ in range(8)]
    assert all(isinstance(result.exception, tc.ConnectError) for result in results)
    assert len(plugin.starts()) - starts == 5
    assert "the next trial is in" in results[-1].error


# ---- "Configuration reference"


def test_the_fields_of_the_config() -> None:
    """McpSourceConfig: nine fields; frozen. Here: more follow."""
    names = [field.name for field in dataclasses.fields(SourceConfig)]
    assert names[:9] == [
        *("manifest_path", "plugin_dir", "transport_type", "lifecycle_mode", "runtime_hint", "command"),
        *("environment", "env_definitions", "server_url"),
    ]
    with pytest.raises(dataclasses.FrozenInstanceError):
        SourceConfig().plugin_dir = "x"  # type: ignore[misc]


def test_the_values_of_the_enums() -> None:
    """McpTransportType: stdio, sse, streamable_http; PluginLifecycleMode: transient, singleton."""
    assert {each.name: each.value for each in SourceTransport} == {
        "STDIO": "stdio",
        "SSE": "sse",
        "STREAMABLE_HTTP": "streamable_http",
    }
    assert {each.name: each.value for each in LifecycleMode} == {"TRANSIENT": "transient", "SINGLETON": "singleton"}


# ---- "Best practices"


@pytest.mark.parametrize(
    "content, fields, warning",
    [
        (manifest(version=""), {}, "version: the manifest has none"),
        (manifest(package(runtime="uvx", command=["mcp-server-x"])), {}, "'mcp-server-x' has no exact version"),
        (manifest(package(runtime="npx", command=["@a/server"])), {}, "'@a/server' has no exact version"),
        (manifest(package(runtime="docker", command=["a/server"])), {}, "'a/server' has no exact version"),
        (manifest(), {"mcp_args": ["--api-key", "s3cret-value-1"]}, "looks like a secret"),
        (manifest(), {"mcp_transport_type": "sse"}, "sse differs from stdio of the manifest"),
    ],
)
async def test_advice_about_local_plugins(
    provider: Provider, make_plugin: MakePlugin, content: Any, fields: Any, warning: str
) -> None:
    """Version your MCP servers; pin packages; keep secrets out of arguments."""
    plugin = make_plugin(content)
    env = {"PATH": str(plugin.folder)}  # nothing can be started there
    source = await provider.register(
        form(plugin, mcp_env_vars=env, connect_timeout=1, max_attempts=1, mcp_lifecycle_mode="singleton", **fields)
    )
    (found,) = [each for each in source.config.warnings if warning in each]
    assert "s3cret" not in found


async def test_a_secret_among_the_arguments_is_used_and_hidden(store_file: Path, plugin: Plugin) -> None:
    """Here: a secret in mcp_args is encrypted and masked, with a warning."""
    async with Provider(store_file) as provider:
        source = await provider.register(form(plugin, mcp_args=["--api-key", SECRET]))
        assert SECRET not in repr((source.config, source.row, provider.history(NAME)))
        assert [start["argv"] for start in plugin.starts()] == [["--api-key", SECRET]]
    assert SECRET.encode() not in stored_bytes(store_file)


async def test_good_registrations_have_no_warnings(store_file: Path, make_plugin: MakePlugin) -> None:
    """A version, a pinned package, all variables: nothing to say. Warnings are kept with the source."""
    good, bad = make_plugin(), make_plugin(manifest(version=""), folder="unversioned")
    async with Provider(store_file) as provider:
        assert (await provider.register(form(good))).config.warnings == ()
        warnings = (await provider.register(form(bad, name="bad"))).config.warnings
    async with Provider(store_file) as provider:
        assert provider.get_source("bad").config.warnings == warnings != ()


@pytest.mark.parametrize(
    "url, warned",
    [
        ("http://tools.example.invalid/mcp", True),
        ("https://tools.example.invalid/mcp", False),
        ("http://127.0.0.1:1/mcp", False),
        ("http://localhost:1/mcp", False),
    ],
)
async def test_secure_connections(provider: Provider, url: str, warned: bool) -> None:
    """Use HTTPS in production. Here: plain http beyond this machine is a warning of the source."""
    source = await provider.register(remote_form(url, max_attempts=1, connect_timeout=5))
    assert any("plain http" in each for each in source.config.warnings) is warned


async def test_requests_are_authenticated(provider: Provider) -> None:
    """Authenticate requests: a server that refuses the credentials makes the source needs-auth, with the reason."""
    server = tc.ToolServer("guarded", "1.0", auth=lambda headers: headers.get("api_key") == "right" or None)
    server.add_tool(lambda: "ok", name="ping", description="Answer.")
    async with served(server.asgi()) as url:
        wrong = await provider.register(remote_form(f"{url}/mcp", name=NAME, mcp_env_vars={"API_KEY": "wrong"}))
        assert provider.status(NAME).state is tc.ConnectionState.NEEDS_AUTH
        assert wrong.tools == ()
        fixed = await provider.update_source(
            NAME, remote_form(f"{url}/mcp", name=NAME, mcp_env_vars={"API_KEY": "right"})
        )
        assert (fixed.id, fixed.generation) == (wrong.id, 2)
        assert (await outcome(provider, "ping")).get_text() == "ok"
        await provider.remove_source(NAME)


async def test_subprocess_health_can_be_monitored(provider: Provider, plugin: Plugin) -> None:
    """Monitor subprocess health: check logs for startup/shutdown issues. Here: the history of the source."""
    await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    await outcome(provider, "crash")
    kinds = [entry.kind for entry in provider.history(NAME)]
    assert kinds.index("start") < kinds.index("inventory") < kinds.index("exit")
    ended = next(entry for entry in provider.history(NAME) if entry.kind == "exit")
    assert (ended.data["exit_code"], ended.data["stderr"].strip()) == (7, "the plugin crashes")


async def test_health_checks(provider: Provider) -> None:
    """Implement health checks. Here: a remote source is pinged every health_interval seconds."""
    site = Site()
    async with served(site) as url:
        await provider.register(remote_form(f"{url}/mcp", name=NAME, health_interval=0.02, max_attempts=1))
        assert provider.status(NAME).state is CONNECTED
        site.up = False
        await eventually(lambda: provider.status(NAME).state is tc.ConnectionState.DEGRADED)
        assert "HTTP 503" in provider.status(NAME).reason
        site.up = True
        await eventually(lambda: provider.status(NAME).state is CONNECTED)
        await provider.remove_source(NAME)


class Site:
    """A server at a URL that can be down."""

    def __init__(self) -> None:
        self.up = True
        server = tc.ToolServer("site", "1.0")
        server.add_tool(lambda: "ok", name="ok", description="Answer.")
        self._app = server.asgi()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.up or scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 503, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def close(self) -> None:
        await self._app.close()


async def test_timeouts_can_be_set(provider: Provider, plugin: Plugin) -> None:
    """Set appropriate timeouts: for the source, and for each call."""
    await provider.register(form(plugin, execution_timeout=0.4, mcp_lifecycle_mode="singleton"))
    assert isinstance((await outcome(provider, "hang")).exception, tc.UnansweredTimeout)


async def test_execution_metrics_are_logged(provider: Provider, plugin: Plugin) -> None:
    """Log tool execution metrics: monitor performance and errors."""
    await provider.register(form(plugin, mcp_lifecycle_mode="singleton"))
    for principal, tool in (("alice", "picture"), ("bob", "fail")):
        await outcome(provider, tool, principal=principal)
    good, bad = await logged(provider, "picture"), await logged(provider, "fail")
    assert [(row.principal, row.outcome, row.attempts) for row in (good, bad)] == [
        ("alice", "ok", 1),
        ("bob", "tool_error", 1),
    ]
    assert good.duration_ms > 0
    assert good.tool_hash == provider.get_tool(NAME, "picture").hash


async def test_changes_of_schemas_are_tracked(provider: Provider, plugin: Plugin) -> None:
    """Version your MCP servers: track changes to tool schemas."""
    source = await provider.register(form(plugin))
    assert source.state is not None
    assert source.state.server["version"] == "1.2.3"
    before = provider.get_tool(NAME, "echo").hash
    text = (plugin.folder / "server.py").read_text()
    (plugin.folder / "server.py").write_text(text.replace('"maxLength": 10_000', '"maxLength": 5'))
    change = await provider.refresh(NAME)
    assert [each.after.name for each in change.changed] == ["echo"]
    assert provider.get_tool(NAME, "echo").hash != before
    assert [entry.data["changed"] for entry in provider.history(NAME) if entry.kind == "inventory"][-1] == {
        "echo": "breaking"
    }


@pytest.mark.parametrize(
    "text", ["", "ü€😀\u2028\u0000", "x" * 9_999, '"}\n{"jsonrpc'], ids=["empty", "unicode", "long", "json"]
)
async def test_realistic_data(provider: Provider, plugin: Plugin, text: str) -> None:
    """Test with realistic data: arguments arrive as they were given."""
    await provider.register(form(plugin, clean_arguments="never"))
    assert (await outcome(provider, "echo", {"text": text})).get_text() == text
