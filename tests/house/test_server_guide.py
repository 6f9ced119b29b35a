"""The guide to tool servers: its examples run over every transport, and no option of a server is missing."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import toolcrib as tc
from tests.house import snippets
from tests.house.guides import missing, parameters, public
from toolcrib.server.components.tools import ToolOptions
from toolcrib.server.context import Context, SyncContext
from toolcrib.server.serving.run import make_app
from toolcrib.server.serving.streamable_http import HttpApp

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/servers.md").read_text()
EXAMPLE = ROOT / "examples/tool_server.py"
STARTING = 60.0  # seconds


@contextlib.contextmanager
def running(transport: str) -> Iterator[Any]:
    """Yield the argument for a client of the running example."""
    if transport == "stdio":
        yield tc.StdioServer(sys.executable, [str(EXAMPLE)])
        return
    command = [sys.executable, str(EXAMPLE), transport, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            readable, _, _ = select.select([process.stderr], [], [], STARTING)
            said = process.stderr.readline() if readable else ""
            assert said.startswith("math 1.0.0 serves MCP at "), said
            yield {"http": tc.HttpServer, "sse": tc.SseServer}[transport](said.split()[-1])
        finally:
            process.terminate()
            _, left = process.communicate(timeout=STARTING)
    assert (process.returncode, left) == (0, "")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_the_example_serves(transport: str, mode: Any) -> None:
    told: list[str] = []

    def answer(request: tc.ElicitRequest) -> dict[str, bool]:
        told.append(request.message)
        return {"ok": True}

    with running(transport) as server:
        async with tc.Client(server, mode=mode, elicitation_handler=answer) as client:
            assert [tool.name for tool in await client.list_tools()] == ["add", "plot", "crawl", "now", "count"]
            assert (await client.call_tool("add", {"a": 2, "b": 3})).data == 5
            (picture,) = (await client.call_tool("plot", {"values": [1, 2, 3]})).content
            assert isinstance(picture, tc.ImageContent) and picture.data.startswith(b"\x89PNG")
            steps: list[tuple[Any, ...]] = []
            pages = await client.call_tool("crawl", {"url": "/", "depth": 3}, on_progress=lambda *p: steps.append(p))
            assert len(pages.data) == 8 and told == ["8 pages so far. Go on?"]
            assert steps == [(1, 3, "3 pages"), (2, 3, "8 pages"), (3, 3, "8 pages")]
            assert [(await client.call_tool("count", {"by": 2})).text for _ in "ab"] == ["now at 2", "now at 4"]
            assert (await client.call_tool("count", {"by": 0})).is_error
            assert json.loads((await client.read_resource("config://app")).text) == {"site": "/", "pages": 3}
            assert (await client.read_resource("file:///tool_server.py")).contents[0].blob == EXAMPLE.read_bytes()
            with pytest.raises(tc.ResourceNotFound):
                await client.read_resource("file:///../pyproject.toml")
            assert (await client.get_prompt("explain", {"topic": "MCP", "to": "a child"})).text.endswith(
                "to a child in one sentence."
            )


def test_the_example_in_one_process_prints_what_the_guide_shows() -> None:
    command = "$ python examples/in_process.py\n"
    shown = [block.body for block in snippets.blocks(GUIDE) if block.language == "console"]
    (output,) = [body.removeprefix(command) for body in shown if body.startswith(command)]
    ran = subprocess.run(
        [sys.executable, "-W", "error", "examples/in_process.py"], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert snippets.looks_like(output, ran.stdout), ran.stdout


def test_every_option_of_a_server_is_in_the_guide() -> None:
    assert missing(GUIDE, parameters(tc.ToolServer) - {"name"}) == []


def test_every_option_of_a_tool_is_in_the_guide() -> None:
    assert missing(GUIDE, ToolOptions.__annotations__) == []


SERVING = (parameters(tc.ToolServer.run) | parameters(make_app) | parameters(HttpApp.__init__) - {"transport"}) - {
    "handler",
    "guard",
    "server",
}


def test_every_option_of_serving_is_in_the_guide() -> None:
    assert missing(GUIDE, SERVING) == []


def test_every_member_of_a_context_is_in_the_guide() -> None:
    assert missing(GUIDE, public(Context) - {"finish"}) == []


def test_both_contexts_know_the_same_words() -> None:
    assert public(SyncContext) == public(Context) - {"finish"}


# Building blocks of the others, for code that extends a server, and for `run` and `Client`.
INNER = {"changes", "completions", "info", "make_channel", "prompts", "resources", "router", "templates", "tools"}


def test_every_method_of_a_server_is_in_the_guide() -> None:
    names = missing(GUIDE, public(tc.ToolServer) - INNER)
    assert [name for name in names if f"@server.{name}" not in GUIDE and f"server.{name}(" not in GUIDE] == []
