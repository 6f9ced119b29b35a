"""Processes that serve MCP over HTTP: started with a free port, reached at it, and ended with their channel."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import toolcrib as tc
from tests.unit.kit import eventually
from tests.unit.transports.children import alive, python, run_program
from toolcrib.config import as_singleton
from toolcrib.errors import ConfigError, ConnectError, OutcomeUnknown, StartError
from toolcrib.transports import spawned_http
from toolcrib.transports.spawned_http import SpawnedHttpServer
from toolcrib.transports.stdio.listeners import Listener, find_listener
from toolcrib.transports.stdio.process import SHUTDOWN_GRACE_SECONDS

PLUGIN = str(Path(__file__).parents[2] / "provider/plugins/python_plugin/server.py")
TRANSPORTS: dict[Literal["streamable_http", "sse"], str] = {"streamable_http": "http", "sse": "sse"}
SECRET = "s3cr3t-v4lue-0042"

# Answers as a minimal modern server: enough to be listed, in a Python that starts quickly.
MINIMAL = textwrap.dedent("""
    import json, os, socket, sys
    host, port = sys.argv[1], int(os.environ["PORT"])
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen()
    while True:
        peer, _ = listener.accept()
        data = b""
        while b"\\r\\n\\r\\n" not in data and (part := peer.recv(65536)):
            data += part
        head, _, body = data.partition(b"\\r\\n\\r\\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\\r\\n") if line.startswith(b"content-length")]
        length = int(lengths[0]) if lengths else 0
        while len(body) < length:
            body += peer.recv(65536)
        if body:
            path = head.split()[1].decode()
            info = {"io.modelcontextprotocol/serverInfo": {"name": path, "version": "1"}}
            result = {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                      "_meta": info, "ttlMs": 0, "cacheScope": "public", "tools": []}
            answer = json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}).encode()
            peer.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nConnection: close\\r\\n"
                         b"Content-Length: %d\\r\\n\\r\\n" % len(answer) + answer)
        peer.close()
""")


def plugin(transport: Literal["streamable_http", "sse"] = "streamable_http", **options: Any) -> SpawnedHttpServer:
    command = (sys.executable, PLUGIN, TRANSPORTS[transport], "--listen=${PORT}")
    return SpawnedHttpServer(command, transport=transport, **options)


def minimal(host: str = "127.0.0.1", **options: Any) -> SpawnedHttpServer:
    return SpawnedHttpServer(python(MINIMAL, host), **options)


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another process, this one, listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.fixture
def give_ports(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make these the first ports that are chosen."""

    def give(*ports: int) -> None:
        chosen, choose = iter(ports), spawned_http._free_port
        monkeypatch.setattr(spawned_http, "_free_port", lambda: next(chosen, None) or choose())

    return give


# ---- a working server


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_server_is_started_reached_and_ended(
    transport: Literal["streamable_http", "sse"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "leaked")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # nothing listens there: a proxy would break the test
    monkeypatch.delenv("NO_PROXY", raising=False)
    lines: list[str] = []
    server = plugin(transport, env={"PLUGIN_TOKEN": SECRET})
    async with tc.Client(server, stderr_handler=lines.append) as client:
        assert {tool.name for tool in await client.list_tools()} >= {"echo", "add", "env", "pid", "crash"}
        assert (await client.call_tool("add", {"a": 2, "b": 3})).data == 5
        seen = (await client.call_tool("env", {"names": ["PORT", "PLUGIN_TOKEN", "CANARY", "HTTP_PROXY"]})).data
        process = (await client.call_tool("pid")).data
        arguments = Path(f"/proc/{process}/cmdline").read_text().split("\0")
        assert f"--listen={seen['PORT']}" in arguments
        closed = time.monotonic()
    assert time.monotonic() - closed < SHUTDOWN_GRACE_SECONDS, "SIGTERM was not sent at once"
    assert seen == {"PORT": seen["PORT"], "PLUGIN_TOKEN": SECRET, "CANARY": None, "HTTP_PROXY": None}
    assert not alive(process)


async def test_calls_run_concurrently_in_one_process() -> None:
    async with tc.Client(plugin()) as client:
        counts = await asyncio.gather(*(client.call_tool("counter") for _ in range(20)))
    assert sorted(count.data for count in counts) == list(range(1, 21))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
async def test_a_server_may_listen_on_any_loopback_address(host: str) -> None:
    async with tc.Client(minimal(host), mode="2026-07-28") as client:
        assert client.server_info is not None
        assert client.server_info.name == "/mcp"


async def test_the_path_can_be_chosen() -> None:
    async with tc.Client(minimal(path="/tools/v1"), mode="2026-07-28") as client:
        assert client.server_info is not None
        assert client.server_info.name == "/tools/v1"


async def test_processes_of_the_group_end_with_the_server(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f'sleep 1000 & echo $! > {pids}; exec "$0" "$@"'
    server = SpawnedHttpServer(("/bin/sh", "-c", script, *python(MINIMAL, "127.0.0.1")))
    async with tc.Client(server, mode="2026-07-28"):
        other = int(pids.read_text())
        assert alive(other)
    await eventually(lambda: not alive(other))


# ---- a server that fails


async def test_an_exit_at_start_is_reported_with_code_and_stderr() -> None:
    code = "import sys, os; print('no config at', os.environ['TOKEN'], file=sys.stderr); sys.exit(3)"
    server = SpawnedHttpServer(python(code), env={"TOKEN": SECRET}, connect_timeout=20)
    client = tc.Client(server)
    with pytest.raises(StartError, match="exited with code 3; stderr: no config at <masked>") as caught:
        await client.connect()
    await client.close()
    assert caught.value.exit_code == 3
    assert "no config at <masked>" in caught.value.stderr
    assert caught.value.sent is False


async def test_a_missing_command_is_reported() -> None:
    with pytest.raises(StartError, match="command not found: 'no-such-command-42'") as caught:
        await tc.Client(SpawnedHttpServer(("no-such-command-42",))).connect()
    assert caught.value.permanent


async def test_a_server_that_never_listens_is_ended_after_the_time_limit(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    server = SpawnedHttpServer(("/bin/sh", "-c", f"echo $$ > {pid}; echo waiting; exec sleep 99"), connect_timeout=1.0)
    client = tc.Client(server)
    with pytest.raises(ConnectError, match=r"connect_timeout=1\.0 s; its stderr ends with: waiting"):
        await client.connect()
    await client.close()
    assert not alive(int(pid.read_text()))


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_end_of_the_process_fails_its_calls_and_the_next_call_starts_another(
    transport: Literal["streamable_http", "sse"],
) -> None:
    lines: list[str] = []
    async with tc.Client(plugin(transport), stderr_handler=lines.append) as client:
        first = (await client.call_tool("pid")).data
        waiting = asyncio.create_task(client.call_tool("sleep", {"seconds": 60}))
        await eventually(lambda: "the plugin sleeps" in lines)
        with pytest.raises(OutcomeUnknown, match=r"exited with code 7; stderr: .*the plugin crashes") as caught:
            await client.call_tool("crash")
        assert caught.value.sent is True
        async with asyncio.timeout(1):
            with pytest.raises(tc.errors.TransportError, match="exited with code 7"):
                await waiting
        assert (await client.call_tool("pid")).data != first


async def test_an_answer_that_breaks_off_shortly_before_the_process_ends_is_reported_with_the_exit_code() -> None:
    ending = textwrap.indent(
        textwrap.dedent("""
            if b'"tools/call"' in body:
                peer.sendall(b"HTTP/1.1 200\\r\\nContent-Type: application/json\\r\\nContent-Length: 1000\\r\\n\\r\\n{")
                peer.close()
                time.sleep(0.1)
                sys.exit(9)
            if body:"""),
        "    ",
    )
    program = "import time\n" + MINIMAL.replace("    if body:", ending)
    async with tc.Client(SpawnedHttpServer(python(program, "127.0.0.1")), mode="2026-07-28") as client:
        with pytest.raises(OutcomeUnknown, match="exited with code 9"):
            await client.call_tool("any")


async def test_the_server_ends_if_this_process_is_killed() -> None:
    program = textwrap.dedent("""
        import asyncio, sys
        import toolcrib as tc
        from toolcrib.transports.spawned_http import SpawnedHttpServer
        async def main():
            async with tc.Client(SpawnedHttpServer((sys.executable, sys.argv[1], "http"))) as client:
                print((await client.call_tool("pid")).data, flush=True)
                await asyncio.sleep(1000)
        asyncio.run(main())
    """)
    ours = run_program(program, PLUGIN)
    assert ours.stdout is not None
    server = int(ours.stdout.readline())
    assert alive(server)
    ours.kill()
    ours.communicate()
    await eventually(lambda: not alive(server))


# ---- ports


async def test_another_port_is_used_if_the_chosen_one_is_taken(give_ports: Callable[..., None], taken: int) -> None:
    give_ports(taken)
    async with tc.Client(minimal(), mode="2026-07-28") as client:
        assert client.connected


async def test_another_process_on_the_port_is_not_taken_for_the_server(
    give_ports: Callable[..., None], taken: int
) -> None:
    give_ports(taken, taken, taken)
    client = tc.Client(SpawnedHttpServer(python("import time; time.sleep(99)")))
    with pytest.raises(StartError, match=f"the port {taken} was taken by another process") as caught:
        await client.connect()
    await client.close()
    assert caught.value.sent is False


async def test_a_server_that_uses_a_fixed_port_in_use_is_reported(taken: int) -> None:
    code = "import socket, sys; socket.socket().bind(('127.0.0.1', int(sys.argv[1])))"
    with pytest.raises(StartError, match=r"the server's process exited with code 1.*Address already in use"):
        await tc.Client(SpawnedHttpServer(python(code, str(taken)))).connect()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_listener_of_a_port_is_found(taken: int) -> None:
    assert find_listener(taken, os.getpid()) is Listener.OWN
    assert find_listener(taken, 2**22 + 1) is Listener.FOREIGN
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert find_listener(bound.getsockname()[1], os.getpid()) is Listener.UNKNOWN


# ---- the config


def test_a_config_shows_no_secret() -> None:
    server = SpawnedHttpServer(
        ["serve", "--token", SECRET], env={"A": SECRET}, headers={"Authorization": f"Bearer {SECRET}"}, path="/x"
    )
    assert SECRET not in repr(server) + server.server_identifier
    assert repr(server) == (
        "SpawnedHttpServer(command=['serve', '--token', '<masked>'], env=[A=<masked>], path='/x', "
        "headers=[Authorization=<masked>])"
    )
    assert server.server_identifier.startswith("spawned:serve:--token:<masked> #")
    assert server != SpawnedHttpServer(["serve"]) and hash(server)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_config_survives_json(transport: Literal["streamable_http", "sse"]) -> None:
    server = plugin(transport, env={"A": SECRET}, path="/x", execution_timeout=7.0)
    assert SpawnedHttpServer.from_json(server.to_json()) == server


def test_options_of_the_config_are_those_of_the_client() -> None:
    server = SpawnedHttpServer(["npx", "x"], execution_timeout=7.0, lifecycle="transient")
    settings = tc.Client(as_singleton(server), connect_timeout=9.0)._settings
    assert (settings.execution_timeout, settings.connect_timeout) == (7.0, 9.0)
    assert tc.Client(as_singleton(server))._settings.connect_timeout == 120.0
    assert settings.name == "spawned:npx:x"


@pytest.mark.parametrize(
    "fields, key",
    [
        ({"command": "python server.py"}, "command"),
        ({"command": []}, "command"),
        ({"command": [""]}, "command"),
        ({"command": ["a", 1]}, "command[1]"),
        ({"transport": "stdio"}, "transport"),
        ({"path": "mcp"}, "path"),
        ({"path": "//evil.example/mcp"}, "path"),
        ({"path": "/mcp?token=1"}, "path"),
        ({"path": "/mcp#x"}, "path"),
        ({"path": "/m cp"}, "path"),
        ({"env": {"A": 1}}, "env.A"),
        ({"headers": {"A": "x\ny"}}, "headers.A"),
        ({"connect_timeout": -1}, "connect_timeout"),
    ],
    ids=repr,
)
def test_an_invalid_field_is_named(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SpawnedHttpServer(**{"command": ["serve"], **fields})
    assert caught.value.key == key
