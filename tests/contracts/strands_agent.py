"""Strands' MCP tools, sentence by sentence: the agent. `test_strands_agent.py` runs the cases in Strands' environment.

Where that document writes `MCPClient(factory)` and `Agent(tools=mcp_client.list_tools_sync())`, Toolcrib writes
`toolcrib.sync.Client(factory)` and `Agent(tools=strands.tools(client))`. Each docstring gives the document's sentence
in short words, and, after "Here:", a departure. The model is scripted.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from strands import Agent
from strands.models.model import Model

import toolcrib as tc
from tests.contracts.calculator_server import PNG, calculator
from toolcrib import sync
from toolcrib.adapters import strands

BOUND = 30.0
"""Seconds that anything may take."""
SERVER = str(Path(__file__).with_name("calculator_server.py"))
MCPClient = sync.Client
CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


class ScriptedModel(Model):  # type: ignore[misc]  # Strands is not installed where types are checked
    """Makes one call in each turn, then says `done`."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = calls
        self.specs: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield {}

    async def stream(self, messages: Any, tool_specs: Any = None, *_: Any, **__: Any) -> AsyncIterator[Any]:
        self.specs = list(tool_specs or [])
        self.results += [block["toolResult"] for block in messages[-1]["content"] if "toolResult" in block]
        turn = len(self.results)
        yield {"messageStart": {"role": "assistant"}}
        if turn < len(self.calls):
            name, arguments = self.calls[turn]
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"tool-{turn}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
        else:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if turn < len(self.calls) else "end_turn"}}


def ask(tools: list[Any], *calls: tuple[str, dict[str, Any]]) -> ScriptedModel:
    """Run an agent whose model makes these calls."""
    model = ScriptedModel(*calls)
    response = Agent(model=model, tools=tools, callback_handler=None)("What is 10 + 20?")
    assert str(response).strip() == "done"
    return model


ADD = ("calculator", {"x": 10, "y": 20})


def error_of(kind: type[Exception], function: Callable[[], Any]) -> str:
    """Return the text of the exception that a function raises."""
    try:
        function()
    except kind as exc:
        return str(exc)
    raise AssertionError(f"no {kind.__name__}")


def texts(model: ScriptedModel) -> list[str]:
    return [result["content"][0]["text"] for result in model.results]


@contextlib.contextmanager
def served(transport: str) -> Iterator[str]:
    """Serve the calculator in a process of its own; its address."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("w") as out:
            server = subprocess.Popen([sys.executable, SERVER, transport], stdout=out, stderr=out)
        try:
            deadline = time.monotonic() + BOUND
            while "http://" not in log.read_text():
                assert time.monotonic() < deadline and server.poll() is None, log.read_text()
                time.sleep(0.02)
            yield "http://" + log.read_text().partition("http://")[2].split()[0]
        finally:
            server.terminate()
            server.wait(BOUND)


def stdio_transport() -> Any:
    return stdio_client(StdioServerParameters(command=sys.executable, args=[SERVER, "stdio"]))


# ---- "1. Standard I/O" to "4. Custom transport": an agent with the tools of a client


@case
def an_agent_uses_the_tools_of_a_program() -> None:
    """MCPClient(lambda: stdio_client(...)); with it: agent = Agent(tools=tools); agent("What is AWS Lambda?")."""
    stdio_mcp_client = MCPClient(stdio_transport)
    with stdio_mcp_client:
        model = ask(strands.tools(stdio_mcp_client), ADD)
    assert texts(model) == ["30"]


@case
def an_agent_uses_the_tools_of_a_streamable_http_server() -> None:
    """MCPClient(lambda: streamablehttp_client(url)). Here: the URL itself."""
    with served("http") as url, MCPClient(url) as streamable_http_mcp_client:
        assert texts(ask(strands.tools(streamable_http_mcp_client), ADD)) == ["30"]


@case
def an_agent_uses_the_tools_of_an_sse_server() -> None:
    """MCPClient(lambda: sse_client("http://localhost:8000/sse"))."""
    with served("sse") as url, MCPClient(lambda: sse_client(url)) as sse_mcp_client:
        assert texts(ask(strands.tools(sse_mcp_client), ADD)) == ["30"]


@case
def an_agent_uses_the_tools_behind_a_custom_transport() -> None:
    """A factory that returns a tuple of read_stream and write_stream."""

    @contextlib.asynccontextmanager
    async def custom_transport_factory() -> AsyncIterator[Any]:
        async with stdio_transport() as (read_stream, write_stream):
            yield read_stream, write_stream

    with MCPClient(custom_transport_factory) as custom_mcp_client:
        assert texts(ask(strands.tools(custom_mcp_client), ADD)) == ["30"]


# ---- "Using multiple MCP servers"


@case
def an_agent_combines_the_tools_of_two_clients() -> None:
    """with one, other: Agent(tools=one.list_tools_sync() + other.list_tools_sync())."""
    notes = tc.ToolServer("notes")
    notes.add_tool(lambda: "milk", name="read_note")
    with served("sse") as url, MCPClient(tc.SseServer(url)) as one, MCPClient(notes) as other:
        model = ask(strands.tools(one) + strands.tools(other), ADD, ("read_note", {}))
    assert texts(model) == ["30", "milk"]


@case
def an_agent_uses_one_hub_for_all_servers() -> None:
    """Combine tools from both servers. Here: also by a hub, whose names cannot collide."""
    servers = {"a": tc.StdioServer(sys.executable, [SERVER, "stdio"]), "b": tc.PythonServer(f"{SERVER}:calculator")}
    with sync.Hub(servers) as hub:
        calls = [(f"mcp__{name}__calculator", {"x": 10, "y": 20}) for name in servers]
        model = ask(strands.tools(hub), *calls)
    assert texts(model) == ["30", "30"]


@case
def a_server_that_is_down_does_not_stop_the_agent() -> None:
    """Connection failures: ensure that the server is running. Here: the agent works with the others."""
    servers = {"up": tc.StdioServer(sys.executable, [SERVER, "stdio"]), "down": tc.StdioServer("no-such-program")}
    with sync.Hub(servers) as hub:
        model = ask(strands.tools(hub), ("mcp__up__calculator", {"x": 1, "y": 2}))
        assert str(hub.list_servers()[1].status.state) == "failed"
    assert texts(model) == ["3"]


# ---- "MCP tool response format"


@case
def text_and_images_reach_the_model_in_strands_format() -> None:
    """Text becomes {"text"}; an image {"image": {"format", "source": {"bytes"}}}, decoded."""
    with MCPClient(calculator) as client:
        (result,) = ask(strands.tools(client), ("chart", {})).results
    assert result["content"] == [{"text": "a chart"}, {"image": {"format": "png", "source": {"bytes": PNG}}}]


@case
def other_content_is_not_dropped() -> None:
    """Unsupported content types become None. Here: they are described as text."""
    with MCPClient(calculator) as client:
        (result,) = ask(strands.tools(client), ("record", {})).results
    assert "audio/wav" in result["content"][0]["text"]


@case
def a_result_has_the_three_keys() -> None:
    """{"status", "toolUseId", "content"}: the id of the request, "success" or "error" based on the call."""
    with MCPClient(calculator) as client:
        good, bad = ask(strands.tools(client), ADD, ("divide", {"x": 1, "y": 0})).results
    assert (good["status"], good["toolUseId"], good["content"]) == ("success", "tool-0", [{"text": "30"}])
    assert (bad["status"], bad["toolUseId"]) == ("error", "tool-1")


# ---- "Implementation details": a background thread


@case
def the_connection_runs_in_a_background_thread() -> None:
    """The connection runs in a background thread to avoid blocking the main application thread."""
    threads: set[int] = set()
    server = tc.ToolServer("here")

    async def where() -> str:
        threads.add(threading.get_ident())
        return "here"

    server.add_tool(where)
    with MCPClient(server) as client:
        ask(strands.tools(client), ("where", {}), ("where", {}))
    assert len(threads) == 1 and threading.get_ident() not in threads


# ---- "Direct tool invocation"


@case
def a_tool_is_called_directly() -> None:
    """result = call_tool_sync(tool_use_id, name, arguments); result["content"][0]["text"]."""
    with MCPClient(calculator) as client:
        result = client.call_tool("calculator", {"x": 10, "y": 20}).to_tool_result("tool-123")
    assert result == {"status": "success", "toolUseId": "tool-123", "content": [{"text": "30"}]}


@case
def a_tool_is_called_through_the_agent() -> None:
    """You can also call MCP tools directly. Here: agent.tool.calculator(x=10, y=20), as with every tool of Strands."""
    with MCPClient(calculator) as client:
        agent = Agent(model=ScriptedModel(), tools=strands.tools(client), callback_handler=None)
        result = agent.tool.calculator(x=10, y=20)
    assert result["status"] == "success"
    assert result["content"][0]["text"] == "30"


# ---- "Best practices"


@case
def the_model_sees_descriptions_and_types() -> None:
    """Clear descriptions help the agent; appropriate parameter types ensure correct usage."""
    with MCPClient(calculator) as client:
        specs = {spec["name"]: spec for spec in ask(strands.tools(client)).specs}
    assert specs["calculator"]["description"] == "Calculator tool which performs calculations"
    schema = specs["calculator"]["inputSchema"]["json"]
    assert {name: value["type"] for name, value in schema["properties"].items()} == {"x": "integer", "y": "integer"}
    assert schema["required"] == ["x", "y"]


@case
def the_model_sees_the_message_of_an_error() -> None:
    """Return informative error messages when tools fail."""
    with MCPClient(calculator) as client:
        model = ask(strands.tools(client), ("divide", {"x": 1, "y": 0}))
    assert texts(model) == ["y is zero: choose another divisor"]


@case
def a_call_that_hangs_ends_by_its_timeout() -> None:
    """Set appropriate timeouts to prevent hanging on long-running operations."""
    with MCPClient(calculator) as client:
        model = ask(strands.tools(client, timeout=0.2), ("sleep", {}), ADD)
    assert [result["status"] for result in model.results] == ["error", "success"]
    assert "deadline" in texts(model)[0] and "The tool may have run" in texts(model)[0]


# ---- "Troubleshooting"


@case
def an_agent_inside_the_block_works_again_and_again() -> None:
    """Correct usage: with mcp_client: agent = Agent(...); response = agent("Your prompt")."""
    with MCPClient(calculator) as mcp_client:
        model = ScriptedModel(ADD, ADD)
        agent = Agent(model=model, tools=strands.tools(mcp_client), callback_handler=None)
        agent("Your prompt")
        model.calls += (ADD,)
        agent("Your prompt")
    assert texts(model) == ["30", "30", "30"]


@case
def an_agent_after_the_block_gets_an_error() -> None:
    """Incorrect usage fails with MCPClientInitializationError. Here: UsageError; Strands shows it to the model."""
    with MCPClient(calculator) as mcp_client:
        tools = strands.tools(mcp_client)
        model = ScriptedModel(ADD)
        agent = Agent(model=model, tools=tools, callback_handler=None)
    agent("Your prompt")
    assert [result["status"] for result in model.results] == ["error"]
    assert "with block" in texts(model)[0]
    assert "with block" in error_of(tc.UsageError, lambda: strands.tools(mcp_client))


@case
def tools_are_made_inside_the_block() -> None:
    """Tools relying on a connection must always be used within a context manager. Here: UsageError says so."""
    assert "with block" in error_of(tc.UsageError, lambda: strands.tools(MCPClient(calculator)))


@case
def a_wrong_command_is_reported_before_there_is_an_agent() -> None:
    """Connection failures: make sure that the URL or command is correct."""
    client = MCPClient(tc.StdioServer("no-such-program"))
    assert "no-such-program" in error_of(tc.StartError, client.__enter__)


@case
def a_server_without_tools_gives_an_agent_without_tools() -> None:
    """Tool discovery issues: verify that all tools have been registered with the server."""
    with MCPClient(tc.ToolServer("empty")) as client:
        assert strands.tools(client) == []


@case
def arguments_that_do_not_match_the_schema_are_explained() -> None:
    """Tool execution errors: verify that all arguments match the expected schema."""
    with MCPClient(calculator) as client:
        model = ask(strands.tools(client), ("calculator", {"x": "ten", "y": 20}), ("calculator", {"x": 1}))
    assert [result["status"] for result in model.results] == ["error", "error"]
    assert "x" in texts(model)[0] and "integer" in texts(model)[0]
    assert "y" in texts(model)[1]


def main() -> None:
    """Run all cases; print one line of JSON for each."""
    for name, function in CASES.items():
        failure = ""
        try:
            function()
        except BaseException:  # noqa: BLE001  # the test shows it
            failure = traceback.format_exc()
        print(json.dumps({"case": name, "failure": failure}), flush=True)


if __name__ == "__main__":
    main()
