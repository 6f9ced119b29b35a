"""A web server around an app: its address, its output, its end."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import threading
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import eventually
from toolcrib.server.serving import uvicorn_server
from toolcrib.server.serving.run import serve

LINE = re.compile(r"prog 1\.2 serves MCP at (http://\S+)\n")
PATIENCE = 30.0


def named() -> tc.ToolServer:
    return tc.ToolServer("prog", "1.2")


# ---- where it listens ----------------------------------------------------------------------------------------


def test_a_port_that_is_taken_is_a_matter_of_configuration() -> None:
    with uvicorn_server.bind_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(
            tc.ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .* in use. Choose another port"
        ) as caught:
            uvicorn_server.bind_socket("127.0.0.1", port)
        assert (caught.value.key, caught.value.expected) == ("port", "a free port")


@pytest.mark.parametrize("port", [-1, 65536, 70_000, 2**40])
def test_a_port_that_there_is_not_is_a_matter_of_configuration(port: int) -> None:
    with pytest.raises(tc.ConfigError) as caught:
        uvicorn_server.bind_socket("127.0.0.1", port)
    assert caught.value.key == "port"


def test_a_client_that_knows_the_port_may_connect_at_once_and_waits_for_no_acknowledgements() -> None:
    with uvicorn_server.bind_socket("127.0.0.1", 0) as bound, socket.create_connection(bound.getsockname()):
        # asyncio looks at it, and sets TCP_NODELAY on what is accepted.
        assert bound.proto == socket.IPPROTO_TCP
        accepted, _ = bound.accept()
        accepted.close()


def test_a_port_is_taken_again_as_soon_as_it_is_left() -> None:
    with uvicorn_server.bind_socket("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            bound.accept()[0].close()  # the side that closes first keeps the port in TIME_WAIT
    uvicorn_server.bind_socket("127.0.0.1", port).close()


# ---- how it serves and ends ----------------------------------------------------------------------------------


async def said_url(capsys: pytest.CaptureFixture[str]) -> str:
    said: list[str] = []

    def line() -> Any:
        said.append(capsys.readouterr().err)
        return LINE.search("".join(said))

    return str((await eventually(line))[1])


@pytest.mark.parametrize("transport, path", [("http", "/mcp"), ("sse", "/sse")])
async def test_a_server_says_where_it_is_and_goes_when_it_is_cancelled(
    transport: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = named()
    server.add_tool(lambda a: a + 1, name="next")
    serving = asyncio.create_task(server.run_async(transport, port=0))  # type: ignore[arg-type]
    url = await said_url(capsys)
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+{path}", url)
    async with tc.Client(url) as client:
        assert (await client.call_tool("next", {"a": 4})).text == "5"
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(serving, PATIENCE)
    port = int(url.split(":")[2].split("/")[0])
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert len(server.changes) == 0


async def test_the_name_of_an_upstream_server_cannot_forge_a_line_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = tc.ToolServer("\x1b]0;owned\x07evil\n2026-01-01 CRITICAL forged", "1\u202e2")
    serving = asyncio.create_task(server.run_async("http", port=0))
    said: list[str] = []

    def announced() -> bool:
        said.append(capsys.readouterr().err)
        return "serves MCP" in "".join(said)

    await eventually(announced)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(serving, PATIENCE)
    (line,) = "".join(said).splitlines()
    assert line.isprintable()


async def test_a_server_may_run_beside_the_main_thread(capsys: pytest.CaptureFixture[str]) -> None:
    loop: list[asyncio.AbstractEventLoop] = []
    before = signal.getsignal(signal.SIGTERM)

    async def main() -> None:
        loop.append(asyncio.get_running_loop())
        await serve(named(), "http", port=0)

    def run() -> None:
        try:
            asyncio.run(main())
        except asyncio.CancelledError:
            loop.clear()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        url = await said_url(capsys)
        assert signal.getsignal(signal.SIGTERM) is before
        async with tc.Client(url) as client:
            assert await client.list_tools() == []
    finally:
        for task in asyncio.all_tasks(loop[0]):
            if "main" in repr(task.get_coro()):
                loop[0].call_soon_threadsafe(task.cancel)
        thread.join(PATIENCE)
    assert loop == []
