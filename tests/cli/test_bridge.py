"""`toolcrib bridge`: a remote server for a client that starts programs, a local one for a client that knows URLs."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import toolcrib as tc
from tests.cli.kit import COMMAND, DEMO, environment, run_cli, terminal
from tests.cli.test_run import over_web
from tests.serving import served
from toolcrib.bridge.proxy import Proxy
from toolcrib.server.handler import Peer, RequestContext

BRIDGED_SERVER = Path(__file__).with_name("bridged_server.py")
WITHIN = 30.0
ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"], ids=["2025", "2026"])


def by_stdio(*arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None) -> tc.StdioServer:
    return tc.StdioServer(
        COMMAND[0], [*COMMAND[1:], "bridge", *arguments], env=env, cwd=None if cwd is None else str(cwd)
    )


@asynccontextmanager
async def by_http(*arguments: str) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The URL of a bridge and its process, which is ended if the test did not."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "bridge", "--http", "--port", "0", *arguments, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b" serves MCP at " not in (line := await process.stderr.readline()):
                assert line, "it ended"
        yield line.decode().split()[-1], process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def remote_server() -> tc.ToolServer:
    """A server elsewhere, that wants to know who asks."""
    server = tc.ToolServer("far-away", "1.0")

    @server.tool
    async def greet(ctx: tc.Context) -> str:
        said = await ctx.elicit("who?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"hello {(said.content or {}).get('name')} from {ctx.headers.get('x-key')}"

    @server.tool
    def key(ctx: tc.Context) -> str:
        return str(ctx.headers.get("x-key"))

    return server


@ERAS
async def test_a_remote_server_is_offered_over_stdio(mode: str) -> None:
    async with served(remote_server().asgi()) as address:
        bridge = by_stdio(f"{address}/mcp", "--header", "X-Key=k1")
        async with tc.Client(bridge, mode=mode, elicitation_handler=lambda _: {"name": "Ada"}) as client:
            assert client.server_info is not None and client.server_info.name == "far-away"
            assert (await client.call_tool("greet")).text == "hello Ada from k1"
            assert client.counters.malformed == 0


@ERAS
async def test_a_local_server_is_offered_at_a_url(mode: str) -> None:
    options: dict[str, Any] = {"mode": mode, "elicitation_handler": lambda _: {"name": "Ada"}}
    async with by_http("--", *DEMO) as (url, _), tc.Client(url, **options) as client:
        assert (await client.call_tool("greet")).text == "Hello, Ada!"


async def test_a_local_server_is_offered_by_http_and_sse_as_the_first_revision_had_it() -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "bridge", "--transport", "sse", "--port", "0", "--", *DEMO, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        url = (await process.stderr.readline()).decode().split()[-1]
        assert url.endswith("/sse")
        async with tc.Client(tc.SseServer(url)) as client:
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
    finally:
        process.terminate()
        await process.communicate()


async def test_a_server_of_the_settings_is_bridged_by_its_name_with_its_headers(tmp_path: Path) -> None:
    async with served(remote_server().asgi()) as address:
        file = tmp_path / "toolcrib.toml"
        file.write_text(f'[servers.far]\nurl = "{address}/mcp"\nheaders = {{ X-Key = "${{KEY}}" }}\n')
        async with tc.Client(by_stdio("far", env={"KEY": "of the settings"}, cwd=tmp_path)) as client:
            assert (await client.call_tool("key")).text == "of the settings"
        more = by_stdio("far", "-H", "X-Key: ${OTHER}", env={"KEY": "x", "OTHER": "of the line"}, cwd=tmp_path)
        async with tc.Client(more) as client:
            assert (await client.call_tool("key")).text == "of the line"


async def test_tools_that_the_settings_hide_do_not_pass(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text(
        f'[servers.demo]\ncommand = "{DEMO[0]}"\nargs = ["{DEMO[1]}"]\nallowed_tools = ["add"]\n'
    )
    async with tc.Client(by_stdio("demo", cwd=tmp_path)) as client:
        assert [tool.name for tool in await client.list_tools()] == ["add"]


async def test_a_connection_that_ends_slowly_keeps_no_other_session_waiting(tmp_path: Path) -> None:
    log = tmp_path / "log"
    stubborn = Path(__file__).parents[1] / "faults/bad_server.py"
    script = json.dumps({"log": str(log), "first": {"stubborn": True}, "era": "legacy"})
    config = tc.StdioServer(sys.executable, ["-S", "-E", str(stubborn), script])
    passing = Proxy(config, alone=False, name="bridged")
    await passing.start()

    def listed(capability: str) -> asyncio.Task[Any]:
        peer = Peer("2025-11-25", modern=False, capabilities={capability: {}})
        return asyncio.create_task(passing.answer("tools/list", {}, RequestContext(peer, NoWayBack())))

    try:
        first, second = listed("elicitation"), listed("sampling")
        async with asyncio.timeout(WITHIN):
            done, _ = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
            assert done == {second}  # the first has to wait for the end of the one that it takes the place of
            assert (await first)["tools"] == (await second)["tools"] != []
    finally:
        await passing.close()


class NoWayBack:
    async def notify(self, method: str, params: Any) -> None: ...

    async def ask(self, method: str, params: Any, key: str | None) -> Any:
        raise AssertionError(method)


async def test_what_a_local_server_writes_to_stderr_is_seen(tmp_path: Path) -> None:
    noisy = tmp_path / "noisy.py"
    noisy.write_text(
        "import runpy, sys\nprint('a word', file=sys.stderr, flush=True)\n"
        f"runpy.run_path({DEMO[1]!r}, run_name='__main__')\n"
    )
    said: list[str] = []
    async with tc.Client(by_stdio("--", sys.executable, str(noisy)), stderr_handler=said.append) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
    assert "a word" in said


# ---- what can be wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        ((), 2, "no server given"),
        (("http://127.0.0.1:9/mcp",), 5, "connecting failed: 127.0.0.1:9"),
        (("--", sys.executable, "-c", "raise SystemExit('no garden today')"), 5, "no garden today"),
        (("--header", "X", "http://127.0.0.1:9/mcp"), 2, "--header: expected NAME=VALUE"),
        (("--header", "X=${NO_SUCH}", "http://127.0.0.1:9/mcp"), 3, "NO_SUCH is not set"),
        (("--header", "X=y", "--", *DEMO), 2, "only a server behind a URL takes headers"),
        (("nobody",), 3, "no settings found"),
        (("--http", "--host", "0.0.0.0", "--port", "0", "--", *DEMO), 2, "can be reached from other machines"),
        (("--http", "--transport", "sse", "--", *DEMO), 2, "--http conflicts with --transport sse"),
        (("--port", "0", "--", *DEMO), 2, "--port has no effect over stdio"),
    ],
)
def test_invalid_targets_are_reported_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = run_cli("bridge", *arguments, cwd=tmp_path)
    assert (ran.code, ran.out) == (code, ""), ran.err
    assert ran.err.count(words) == 1 and "Traceback" not in ran.err


async def test_an_upstream_that_goes_away_is_an_error_and_comes_back() -> None:
    async with over_web(BRIDGED_SERVER, "--http") as (url, remote):
        client = tc.Client(by_stdio(url))
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        remote.kill()
        await remote.wait()
    try:
        with pytest.raises(tc.RemoteError) as caught:
            await client.call_tool("add", {"a": 1, "b": 2})
        assert (caught.value.code, caught.value.data["sent"]) == (-32603, False)
        port = url.rpartition(":")[2].partition("/")[0]
        async with over_web(BRIDGED_SERVER, "--http", "--port", port), asyncio.timeout(WITHIN):
            while not await _adds(client):
                await asyncio.sleep(0.05)
    finally:
        await client.close()


async def _adds(client: tc.Client) -> bool:
    try:
        return (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    except tc.RemoteError:
        return False


def test_a_user_at_a_terminal_sees_why_nothing_happens(tmp_path: Path) -> None:
    with terminal("bridge", "--", *DEMO, cwd=tmp_path) as screen:
        screen.until("demo_server serves MCP over stdio and waits for a client's messages; --http serves it at a URL")
        screen.press("c")
        assert screen.exit_code() == 0
        assert "Traceback" not in screen.text


# ---- the end ---------------------------------------------------------------------------------------------------


def _line(process: subprocess.Popen[bytes], **message: Any) -> Any:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline()) if "id" in message else None


def _begun(folder: Path) -> tuple[subprocess.Popen[bytes], list[psutil.Process]]:
    """A bridge with a call in flight, and the processes behind it."""
    process = subprocess.Popen(
        [*COMMAND, "bridge", "--", *DEMO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(folder),
    )
    said = {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": {"name": "c", "version": "1"}}
    assert _line(process, id=1, method="initialize", params=said)["result"]["serverInfo"]["name"] == "demo"
    _line(process, method="notifications/initialized")
    long = {"name": "slow_count", "arguments": {"steps": 6000}, "_meta": {"progressToken": 1}}
    told = _line(process, id=2, method="tools/call", params=long)
    assert told["method"] == "notifications/progress"
    return process, psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("how", ["EOF", signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=str)
def test_a_bridge_that_ends_leaves_no_process_behind(tmp_path: Path, how: Any) -> None:
    process, behind = _begun(tmp_path)
    assert behind
    assert process.stdin is not None
    if how == "EOF":
        process.stdin.close()
        process.stdin = None
    else:
        process.send_signal(how)
    _, err = process.communicate(timeout=WITHIN)
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 0), err
    assert b"Traceback" not in err
    assert psutil.wait_procs(behind, timeout=WITHIN)[1] == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=str)
async def test_a_bridge_at_a_url_leaves_no_process_behind(how: signal.Signals) -> None:
    async with by_http("--", *DEMO) as (url, process):
        async with tc.Client(url, mode="legacy", roots=["file:///garden"]) as client:
            assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"
            behind = psutil.Process(process.pid).children(recursive=True)
            assert behind
            process.send_signal(how)
            async with asyncio.timeout(WITHIN):
                await process.wait()
        assert psutil.wait_procs(behind, timeout=WITHIN)[1] == []


def test_ctrl_c_while_the_upstream_is_started_leaves_no_process_behind(tmp_path: Path) -> None:
    silent = (sys.executable, "-c", "import sys; print('here', file=sys.stderr, flush=True); sys.stdin.read()")
    with terminal("bridge", "--", *silent, cwd=tmp_path) as screen:
        screen.until("here")
        behind = psutil.Process(screen.child.pid).children(recursive=True)
        screen.press("c")
        screen.exit_code()
        assert "Traceback" not in screen.text
    assert psutil.wait_procs(behind, timeout=WITHIN)[1] == []
