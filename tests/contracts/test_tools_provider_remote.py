"""The MCP Tools Provider, sentence by sentence: remote servers, and how transports are shared.

See test_tools_provider.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest

import toolcrib as tc
from tests.contracts.provider_kit import SECRET, Plugin, form, remote_form, stored_bytes
from tests.peers.web import Relay, Watched, WebServer, framework_server, free_port
from tests.serving import served
from tests.unit.kit import eventually
from toolcrib.events import InventoryChanged
from toolcrib.provider.provider import Provider
from toolcrib.provider.source_config import SourceTransport

NAME = "CML MCP Server"
LEGACY, MODERN = "2025-11-25", "2026-07-28"


class Site:
    """Our own server at a URL; records path, method and headers of each request."""

    def __init__(self, *, path: str = "/mcp", transport: Any = "http", version: str = MODERN) -> None:
        self.server = tc.ToolServer("site", "1.2.3")
        self.server.add_tool(self.add)
        self.server.add_tool(self.grow)
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self._version = version
        self._app = self.server.asgi(path=path, transport=transport)

    def add(self, a: int, b: int) -> int:
        """Return the sum."""
        return a + b

    def grow(self) -> str:
        """Add a tool."""
        self.server.add_tool(lambda: "grown", name="grown", description="A new tool.")
        return "done"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.requests.append((scope["method"], scope["path"]))
            self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
            if self._version == LEGACY and b"server/discover" in dict(scope["headers"]).get(b"mcp-method", b""):
                await send({"type": "http.response.start", "status": 400, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)

    async def close(self) -> None:
        await self._app.close()


@pytest.fixture
async def site() -> AsyncIterator[tuple[Site, str]]:
    here = Site()
    async with served(here) as url:
        yield here, url


async def total(provider: Provider, **options: Any) -> str:
    result = await provider.execute(NAME, "add", {"a": 1, "b": 2}, **options)
    assert result.success, result.error
    return result.get_text()


# ---- "Remote mode"


@pytest.mark.parametrize(
    "peer, path, version",
    [
        ("sdk1", "stateful/mcp", LEGACY),
        ("sdk1", "json/mcp", LEGACY),
        ("sdk1", "stateless/mcp", LEGACY),
        ("sdk2", "stateful/mcp", MODERN),
        ("sdk2", "json/mcp", MODERN),
    ],
)
async def test_external_servers_of_both_revisions(
    provider: Provider, request: pytest.FixtureRequest, peer: str, path: str, version: str
) -> None:
    """Remote mode connects to externally-managed MCP servers via HTTP. They support initialize, tools/list, tools/call.

    Here: both revisions of the protocol.
    """
    server: WebServer = request.getfixturevalue(peer)
    source = await provider.register(remote_form(server.url(path), mcp_transport_type="streamable_http"))
    assert source.config.is_remote
    assert source.protocol_version == version
    assert await total(provider) == "3"
    assert provider.status(NAME).state is tc.ConnectionState.CONNECTED


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_our_own_server_of_both_revisions(provider: Provider, version: str) -> None:
    """Integration with existing MCP infrastructure."""
    async with served(Site(version=version)) as url:
        source = await provider.register(remote_form(f"{url}/mcp"))
        assert source.protocol_version == version
        assert await total(provider) == "3"


async def test_an_external_server_is_shared_by_many_clients(
    provider: Provider, site: tuple[Site, str], store_file: Any, tmp_path: Any
) -> None:
    """Shared MCP servers across multiple clients."""
    _, url = site
    async with Provider(tmp_path / "second.db") as other:
        for each in (provider, other):
            await each.register(remote_form(f"{url}/mcp"))
        assert [await total(each) for each in (provider, other)] == ["3", "3"]


# ---- the table of fields


async def test_only_the_url_is_required(provider: Provider, site: tuple[Site, str]) -> None:
    """mcp_server_url: yes; mcp_transport_type and mcp_env_vars: no."""
    _, url = site
    config = (await provider.register(remote_form(f"{url}/mcp"))).config
    assert (config.transport_type, config.server_url) == (SourceTransport.STREAMABLE_HTTP, f"{url}/mcp")
    assert (config.command, config.plugin_dir, config.manifest_path, config.environment) == ((), "", "", {})


async def test_stdio_with_a_url_is_refused(provider: Provider, site: tuple[Site, str]) -> None:
    """mcp_transport_type: must be streamable_http for remote."""
    here, url = site
    with pytest.raises(tc.ConfigError, match="streamable_http") as caught:
        await provider.register(remote_form(f"{url}/mcp", mcp_transport_type="stdio"))
    assert caught.value.key == "mcp_transport_type"
    assert here.requests == []


@pytest.mark.parametrize("peer", ["sdk1", "sdk2", "ours"])
async def test_sse_is_allowed_as_an_extension(provider: Provider, request: pytest.FixtureRequest, peer: str) -> None:
    """Must be streamable_http. Here: servers over HTTP+SSE are connected if the registration says so."""
    if peer == "ours":
        async with served(Site(path="/sse", transport="sse")) as url:
            await provider.register(remote_form(f"{url}/sse", mcp_transport_type="sse"))
            assert await total(provider) == "3"
            await provider.remove_source(NAME)
        return
    server: WebServer = request.getfixturevalue(peer)
    source = await provider.register(remote_form(server.url("sse"), mcp_transport_type="sse"))
    assert source.config.transport_type is SourceTransport.SSE
    assert await total(provider) == "3"


async def test_variables_are_headers_of_the_very_name(store_file: Any, site: tuple[Site, str]) -> None:
    """mcp_env_vars: headers/auth for the HTTP connection; API_KEY is the header API_KEY. Here: encrypted and masked."""
    here, url = site
    async with Provider(store_file) as provider:
        source = await provider.register(remote_form(f"{url}/mcp", mcp_env_vars={"API_KEY": SECRET, "X-Team": "tools"}))
        await total(provider)
        assert len(here.headers) >= 3
        assert {(each.get("api_key"), each.get("x-team")) for each in here.headers} == {(SECRET, "tools")}
        assert SECRET not in repr((source.config, source.row, source.config.environment))
    assert SECRET.encode() not in stored_bytes(store_file)


@pytest.mark.parametrize("path, tried", [("", ["/", "/mcp"]), ("/", ["/", "/mcp"])])
async def test_a_base_url_is_tried_as_given_then_with_mcp(
    provider: Provider, site: tuple[Site, str], path: str, tried: list[str]
) -> None:
    """mcp_server_url: base URL of the remote MCP server, such as http://cml-mcp:9000."""
    here, url = site
    source = await provider.register(remote_form(url + path), require_ready=True)
    assert list(dict.fromkeys(where for _, where in here.requests)) == tried
    assert source.config.server_url == f"{url}/mcp"
    here.requests.clear()
    assert await total(provider) == "3"
    assert {where for _, where in here.requests} == {"/mcp"}, "it is not tried again"


async def test_a_base_url_that_answers_stays_as_given(provider: Provider) -> None:
    """mcp_server_url: as given, if that works."""
    here = Site(path="/")
    async with served(here) as url:
        source = await provider.register(remote_form(url), require_ready=True)
        assert source.config.server_url == url
        assert {where for _, where in here.requests} == {"/"}
        await provider.remove_source(NAME)


async def test_a_url_with_a_path_is_tried_only_as_given(provider: Provider, site: tuple[Site, str]) -> None:
    """A wrong path is an error, not a reason to guess."""
    here, url = site
    with pytest.raises(tc.TransportError):
        await provider.register(remote_form(f"{url}/api"), require_ready=True)
    assert {where for _, where in here.requests} == {"/api"}


# ---- "Remote server requirements"


async def test_requests_are_posted_and_the_stream_brings_server_messages(provider: Provider, sdk1: WebServer) -> None:
    """POST endpoint for JSON-RPC requests, SSE endpoint for server-initiated messages; initialize, tools/list, ..."""
    watched = Watched(sdk1, "/stateful")
    await provider.register(remote_form(sdk1.url("stateful/mcp")))
    await total(provider)
    steps = watched.steps
    begin = steps.index("POST initialize")
    assert "GET" in steps[begin:]
    posted = [step for step in steps[begin:] if step.startswith("POST")]
    assert [posted[0], posted[1]] == ["POST initialize", "POST notifications/initialized"]
    assert posted.index("POST tools/list") < posted.index("POST tools/call")


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_change_that_the_server_announces_is_fetched(provider: Provider, version: str) -> None:
    """SSE endpoint for server-initiated messages: tools/list_changed renews the inventory."""
    async with served(Site(version=version)) as url:
        await provider.register(remote_form(f"{url}/mcp"))
        changed: list[InventoryChanged] = []
        provider.on(InventoryChanged, changed.append)
        await provider.execute(NAME, "grow")
        await eventually(lambda: changed)
        assert changed[0].added == ("grown",)
        assert (await provider.execute(NAME, "grown")).get_text() == "grown"
        await provider.remove_source(NAME)


# ---- "Transport factory" and "HttpTransport"


async def test_a_remote_connection_is_reused(provider: Provider, sdk1: WebServer) -> None:
    """HTTP pool has transport? Return existing. Maintains session for connection reuse."""
    watched = Watched(sdk1, "/stateful")
    await provider.register(remote_form(sdk1.url("stateful/mcp")))
    for _ in range(3):
        await total(provider)
    assert watched.steps.count("POST initialize") == 1
    assert len({each["session"] for each in watched.requests if each["rpc"] == "tools/call"}) == 1
    (pooled,) = provider.connections(NAME)
    assert (pooled.connected, pooled.transient, pooled.leases) == (True, False, 0)


async def test_a_remote_source_may_be_transient(provider: Provider, sdk1: WebServer) -> None:
    """transient: create new, terminate after. Here: for remote sources too, if the registration says so."""
    watched = Watched(sdk1, "/stateful")
    await provider.register(remote_form(sdk1.url("stateful/mcp"), mcp_lifecycle_mode="transient"))
    for _ in range(2):
        await total(provider)
    await eventually(lambda: watched.steps.count("DELETE") == 3)
    assert watched.steps.count("POST initialize") == 3
    await eventually(lambda: not provider.connections(NAME))


async def test_principals_do_not_share_a_session(provider: Provider, sdk1: WebServer) -> None:
    """Return existing: to whom? Here: a server with sessions has one for each principal."""
    watched = Watched(sdk1, "/stateful")
    await provider.register(remote_form(sdk1.url("stateful/mcp")))
    for principal in ("alice", "bob", "alice"):
        await total(provider, principal=principal)
    used = [each["session"] for each in watched.requests if each["rpc"] == "tools/call"]
    assert used[0] == used[2] != used[1]


async def test_streamed_responses_are_read(provider: Provider, sdk1: WebServer) -> None:
    """Supports streaming responses (SSE)."""
    await provider.register(remote_form(sdk1.url("stateful/mcp")))
    seen: list[float] = []

    async def note(progress: float, _total: float | None, _message: str | None) -> None:
        seen.append(progress)

    result = await provider.execute(NAME, "count", {"steps": 3}, on_progress=note)
    assert result.success
    assert len(seen) == 3


async def test_the_pools_of_the_factory(provider: Provider, plugin: Plugin, site: tuple[Site, str]) -> None:
    """is_remote: pooled; singleton: pooled; transient: a new transport."""
    _, url = site
    await provider.register(remote_form(f"{url}/mcp"))
    await provider.register(form(plugin, name="one", mcp_lifecycle_mode="singleton"))
    await provider.register(form(plugin, name="each"))
    for _ in range(2):
        await total(provider)
        for name in ("one", "each"):
            assert (await provider.execute(name, "echo", {"text": "x"})).success
    await eventually(lambda: len(provider.connections()) == 2)
    assert len(plugin.running()) == 1
    assert len(plugin.starts()) == 1 + 3


TRANSPORTS: dict[str, Callable[[Plugin, str], Any]] = {
    "StdioTransport": lambda plugin, _: tc.StdioServer("python3", ["server.py"], cwd=plugin.folder),
    "HttpTransport": lambda _, url: tc.HttpServer(f"{url}/mcp"),
}


@pytest.mark.parametrize("kind", TRANSPORTS)
async def test_the_methods_of_a_transport(plugin: Plugin, site: tuple[Site, str], kind: str) -> None:
    """connect() -> server info, disconnect(), list_tools(), call_tool(name, arguments, timeout), is_connected.

    Here: `Client` has them; `is_connected` is `connected`, and a request connects if nothing is.
    """
    client = tc.Client(TRANSPORTS[kind](plugin, site[1]))
    assert client.connected is False
    await client.connect()
    assert client.connected is True
    assert client.session.agreement.server.version == "1.2.3"
    name, arguments = ("echo", {"text": "3"}) if kind == "StdioTransport" else ("add", {"a": 1, "b": 2})
    assert name in {tool.name for tool in await client.list_tools()}
    assert (await client.call_tool(name, arguments, timeout=10)).text == "3"
    await client.disconnect()
    assert client.connected is False
    await client.close()


# ---- recovery


async def test_a_server_that_comes_back_is_connected_by_the_next_call(provider: Provider, sdk1: WebServer) -> None:
    """Connection failure: retry with backoff, mark source unhealthy."""
    async with Relay(sdk1.port) as relay:
        await provider.register(remote_form(relay.url("stateful/mcp")))
        relay.refuse()
        relay.cut()
        failed = await provider.execute(NAME, "add", {"a": 1, "b": 2}, timeout=10, retry_safe=True)
        assert isinstance(failed.exception, tc.ConnectError), failed.exception
        assert failed.metadata is not None
        assert failed.metadata["attempts"] == 3
        assert failed.metadata["sent"] is False
        assert provider.status(NAME).state in (tc.ConnectionState.DEGRADED, tc.ConnectionState.FAILED)
        await relay.open()
        assert await total(provider) == "3"
        assert provider.status(NAME).state is tc.ConnectionState.CONNECTED


async def test_a_server_that_was_restarted_gets_a_new_session(provider: Provider) -> None:
    """Maintains session for connection reuse; the next call makes another one if the server lost it."""
    with closing(framework_server("sdk1", "sdk1").start()) as server:
        await provider.register(remote_form(server.url("stateful/mcp")))
        assert await total(provider) == "3"
        server.restart()
        assert await total(provider) == "3"
        assert provider.status(NAME).state is tc.ConnectionState.CONNECTED


async def test_a_stateless_source_is_shared_by_principals(provider: Provider, plugin: Plugin) -> None:
    """Singleton: one process. Here: one for each principal, unless the operator says that it keeps no state."""
    await provider.register(form(plugin, name="own", mcp_lifecycle_mode="singleton"))
    await provider.register(form(plugin, name="shared", mcp_lifecycle_mode="singleton", stateless=True))
    pids = {
        name: {(await provider.execute(name, "pid", principal=each)).get_text() for each in ("alice", "bob")}
        for name in ("own", "shared")
    }
    assert (len(pids["own"]), len(pids["shared"])) == (2, 1)


async def test_a_server_that_is_absent_at_registration(provider: Provider) -> None:
    """Ensure server availability before registration. Here: stored as failed, or refused with require_ready."""
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with pytest.raises(tc.ConnectError):
        await provider.register(remote_form(url, connect_timeout=5, max_attempts=1), require_ready=True)
    assert provider.list_sources() == []
    source = await provider.register(remote_form(url, max_attempts=1))
    assert provider.status(NAME).state is tc.ConnectionState.FAILED
    assert "127.0.0.1" in provider.status(NAME).reason
    assert source.tools == ()


async def test_a_server_that_cannot_be_reached_is_not_tried_at_another_path(provider: Provider) -> None:
    """A base URL is tried with /mcp only if a server answers that there is nothing."""
    source = await provider.register(remote_form(f"http://127.0.0.1:{free_port()}", max_attempts=1))
    failures = [entry for entry in provider.history(NAME) if entry.kind == "failure"]
    assert len(failures) == 1
    assert source.generation == 1
