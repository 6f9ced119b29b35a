"""crewAI: a crew of one agent, in a thread, with a sync hub."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import crewai
from crewai.llms.base_llm import BaseLLM
from crewai.mcp import MCPServerHTTP, MCPServerSSE, MCPServerStdio
from crewai.mcp.filters import create_dynamic_tool_filter, create_static_tool_filter
from crewai.utilities.string_utils import sanitize_tool_name
from pydantic import PrivateAttr

import toolcrib as tc
from tests.frameworks.driver import Ability, Call, Script, Seen, Transcript
from tests.serving import served
from toolcrib import sync
from toolcrib.adapters import crewai as adapter

DEMO: Final = str(Path(__file__).parents[3] / "examples" / "demo_server.py")


class ScriptedLLM(BaseLLM):  # type: ignore[misc]
    """A model that makes the calls of the script."""

    _script: Script = PrivateAttr()
    _transcript: Transcript = PrivateAttr()
    _turn: int = PrivateAttr(default=0)

    @classmethod
    def of(cls, script: Script, transcript: Transcript) -> ScriptedLLM:
        """Return a model for one run."""
        model = cls(model="scripted")
        model._script, model._transcript = script, transcript
        return model

    def supports_function_calling(self) -> bool:
        """Return that tools are passed as schemas, not in the prompt."""
        return True

    def supports_stop_words(self) -> bool:
        """Return that there are no stop words."""
        return False

    def get_context_window_size(self) -> int:
        """Return a size that no test reaches."""
        return 100_000

    def call(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
        """Return the calls of the next turn, or `done`."""
        script, transcript, turn = self._script, self._transcript, self._turn
        functions = [tool["function"] for tool in tools or []]
        transcript.offered.append([function["name"] for function in functions])
        transcript.schemas = {function["name"]: function["parameters"] for function in functions}
        if turn:
            answers = [message for message in messages if message.get("role") == "tool"]
            expected = len(script.turns[turn - 1])
            transcript.answers.append([Seen(str(answer["content"])) for answer in answers[-expected:]])
        script.prepare_sync(turn)
        self._turn += 1
        return list(map(_tool_call, script.turns[turn])) if turn < len(script.turns) else "done"

    async def acall(self, messages: Any, tools: Any = None, *args: Any, **options: Any) -> Any:
        """Return the calls of the next turn, or `done`."""
        return await asyncio.to_thread(self.call, messages, tools)


def _tool_call(call: Call) -> dict[str, Any]:
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    name = sanitize_tool_name(call.name)
    return {"id": f"call_{id(call)}", "type": "function", "function": {"name": name, "arguments": arguments}}


def make_crew(tools: Any, script: Script, transcript: Transcript) -> crewai.Crew:
    """Return a crew of one agent, with crewAI's cache of results on."""
    agent = crewai.Agent(
        role="tester", goal="test", backstory="a test", llm=ScriptedLLM.of(script, transcript), tools=tools
    )
    task = crewai.Task(description="test", expected_output="done", agent=agent)
    return crewai.Crew(agents=[agent], tasks=[task], cache=True)


class CrewDriver:
    """Runs a crew."""

    package = "crewai"
    source: Literal["async", "sync"] = "sync"
    abilities = frozenset[Ability]({"error-flag", "json-text"})

    async def run(self, hub: Any, script: Script) -> Transcript:
        """Run a crew with the tools of the hub, in a thread."""
        return await asyncio.to_thread(self.kickoff, adapter.tools(hub), script)

    def kickoff(self, tools: Any, script: Script) -> Transcript:
        """Run a crew with these tools."""
        transcript = Transcript()
        try:
            output = make_crew(tools, script, transcript).kickoff()
        except Exception as exc:  # noqa: BLE001  # the transcript has it
            transcript.error = f"{type(exc).__name__}: {exc}"
            return transcript
        transcript.final = output.raw
        failures = [record.failure.message for record in output.tasks_output[0].tool_failures]
        for seen in (seen for turn in transcript.answers for seen in turn):
            seen.is_error = any(message in seen.text for message in failures)
        return transcript


driver = CrewDriver()


# ---- the list of servers of an agent: crewAI's `mcps`


async def run_with_servers(servers: Any, *calls: Call, **options: Any) -> Transcript:
    """Run a crew with the tools of a list of servers, and close them."""

    def run() -> Transcript:
        with adapter.tools(servers, **options) as tools:
            return driver.kickoff(tools, Script([[call] for call in calls]))

    return await asyncio.to_thread(run)


async def takes_servers_of_crewai(_: Any) -> None:
    """Check "mcps: Vec<MCPServerConfig>": MCPServerStdio, MCPServerHTTP and MCPServerSSE in one list."""
    web, old = tc.ToolServer("web"), tc.ToolServer("old")
    web.add_tool(lambda: "from the web", name="search")
    old.add_tool(lambda: "from of old", name="search")
    async with served(web.asgi()) as http, served(old.asgi(transport="sse")) as sse:
        servers = [
            MCPServerStdio(command=sys.executable, args=[DEMO], cache_tools_list=True),
            MCPServerHTTP(url=f"{http}/mcp", headers={"Authorization": "Bearer token"}, cache_tools_list=True),
            MCPServerSSE(url=f"{sse}/mcp"),
        ]
        transcript = await run_with_servers(
            servers,
            Call("mcp_demo_server_echo", {"text": "hello"}),
            Call("mcp_127_0_0_1_search"),
            Call("mcp_127_0_0_1_2_search"),
        )
    assert transcript.final == "done", transcript
    assert [seen.text for (seen,) in transcript.answers] == ["hello", "from the web", "from of old"]


async def takes_urls_with_the_name_of_a_tool(_: Any) -> None:
    """Check the strings of `mcps`: a URL, with `#tool` for one tool."""
    web = tc.ToolServer("web")
    for name in ("search", "getWeather", "delete_all"):
        web.add_tool(lambda: "found", name=name)
    async with served(web.asgi()) as http:
        servers = [f"{http}/mcp#search", f"{http}/mcp#get_weather"]
        transcript = await run_with_servers(servers, Call("mcp_127_0_0_1_search"))
        everything = await run_with_servers([f"{http}/mcp"])
    assert transcript.answers[0][0].text == "found", transcript
    assert transcript.offered[0] == ["mcp_127_0_0_1_search", "mcp_127_0_0_1_get_weather"]
    assert len(everything.offered[0]) == 3
    with raises(tc.ConfigError, "catalog"):
        adapter.tools(["notion#search"])


async def applies_the_filters_of_crewai(_: Any) -> None:
    """Check static and dynamic filters: "Only allow write tools for admin agents"."""
    fields = {"command": sys.executable, "args": [DEMO]}
    static = create_static_tool_filter(allowed_tool_names=["add", "echo"], blocked_tool_names=["echo"])
    transcript = await run_with_servers([MCPServerStdio(**fields, tool_filter=static)])
    assert transcript.offered == [["mcp_demo_server_add"]]

    def only_admins_echo(context: Any, tool: dict[str, Any]) -> bool:
        return bool(tool["name"] == "add" or (tool["name"] == "echo" and context.agent.role == "admin"))

    server = MCPServerStdio(**fields, tool_filter=create_dynamic_tool_filter(only_admins_echo))
    for role, names in (("guest", ["add"]), ("admin", ["add", "echo"])):
        agent = crewai.Agent(role=role, goal="test", backstory="a test", llm=ScriptedLLM(model="scripted"))
        transcript = await run_with_servers([server], Call("mcp_demo_server_echo", {"text": "hello"}), agent=agent)
        assert transcript.offered[0] == [f"mcp_demo_server_{name}" for name in names], (role, transcript)
        assert (transcript.answers[0][0].text == "hello") is (role == "admin"), (role, transcript)


# ---- the life of the servers that a list opened


async def closes_the_servers_of_a_list(_: Any) -> None:
    """Check that `close`, the `with` block, and the last tool end the processes; an error leaves none."""

    def run() -> None:
        server = tc.StdioServer(sys.executable, [DEMO])
        tools = adapter.tools([server], names=["*add"])
        assert len(children()) == 1
        tools.close()
        assert not children()
        with raises(tc.UsageError):
            tools[0].run(a=1, b=2)
        kept = list(adapter.tools({"demo": server}, names=["*add"]))
        gc.collect()
        assert "3" in kept[0].run(a=1, b=2)  # an agent keeps the tools, not the list
        kept.clear()
        gc.collect()
        wait_until(lambda: not children())
        with raises(tc.StartError, "no-such-program"):
            adapter.tools([server, tc.StdioServer("no-such-program")])
        assert not children()

    await asyncio.to_thread(run)


# ---- calls


async def repeats_calls_unless_told_to_cache(_: Any) -> None:
    """Check that crewAI's cache of results answers only calls of read-only tools, and only on demand."""
    ran: list[str] = []
    server = tc.ToolServer("lab")

    @server.tool(annotations={"readOnlyHint": True})
    def read() -> str:
        ran.append("read")
        return "read"

    @server.tool
    def write() -> str:
        ran.append("write")
        return "written"

    calls = [Call("mcp_lab_read"), Call("mcp_lab_write"), Call("mcp_lab_read"), Call("mcp_lab_write")]
    await run_with_servers({"lab": server}, *calls)
    assert ran == ["read", "write", "read", "write"]
    ran.clear()
    await run_with_servers({"lab": server}, *calls, cache_read_only=True)
    assert ran == ["read", "write", "write"], ran


async def reports_failures_to_crewai(_: Any) -> None:
    """Check the fields of `ToolFailure`: the reason, the type of the error, and whether to call again."""

    def run() -> None:
        server = tc.ToolServer("lab")

        @server.tool
        def fail() -> str:
            raise tc.ToolFailed("the disk is full")

        with sync.Hub({"lab": server, "demo": tc.StdioServer(sys.executable, [DEMO])}) as hub:
            tools = {tool.name: tool for tool in adapter.tools(hub)}
            failure = tools["mcp_lab_fail"].run()
            assert (failure.reason.value, failure.message) == ("mcp_error", "the disk is full")
            assert (failure.code, failure.retryable) == (None, False)
            hub.remove_server("demo")
            failure = tools["mcp_demo_echo"].run(text="x")
            assert failure.reason.value == "unknown_tool" and not failure.retryable, failure
        server = tc.ToolServer("lab")
        server.add_tool(lambda: "x", name="x")
        with sync.Client(server) as client:
            tool = adapter.tools(client)[0]
            assert tool.run() == "x"

    await asyncio.to_thread(run)


async def keeps_names_apart(_: Any) -> None:
    """Check that tools whose names crewAI would write alike get different names."""
    server = tc.ToolServer("lab")
    for name in ("read_file", "readFile", "read-file"):
        server.add_tool(lambda name=name: name, name=name)
    calls = [Call(f"mcp_lab_read_file{suffix}") for suffix in ("", "_2", "_3")]
    transcript = await run_with_servers({"lab": server}, *calls)
    assert transcript.offered[0] == [call.name for call in calls]
    assert [seen.text for (seen,) in transcript.answers] == ["read_file", "readFile", "read-file"]


async def runs_with_an_async_hub(_: Any) -> None:
    """Check that a crew in another thread can use an async hub, and that one on the hub's loop gets advice."""
    async with tc.Hub({"demo": tc.StdioServer(sys.executable, [DEMO])}) as hub:
        tools = adapter.tools(hub)
        transcript = Transcript()
        crew = make_crew(tools, Script([[Call("mcp_demo_echo", {"text": "hello"})]]), transcript)
        output = await crew.kickoff_async()
        assert (output.raw, transcript.answers[0][0].text) == ("done", "hello")
        assert await tools[0].arun(a=1, b=2) == '{"sum": 3}'
        with raises(tc.UsageError, "toolcrib.sync.Hub"):
            tools[0].run(a=1, b=2)


async def takes_a_settings_file(_: Any) -> None:
    """Check the agent of a project: its settings file, and three lines."""

    def run() -> Transcript:
        settings = Path(tempfile.mkdtemp()) / ".mcp.json"
        settings.write_text(json.dumps({"mcpServers": {"demo": {"command": sys.executable, "args": [DEMO]}}}))
        with sync.Hub.from_config(settings) as hub:
            return driver.kickoff(adapter.tools(hub), Script([[Call("mcp_demo_echo", {"text": "hello"})]]))

    transcript = await asyncio.to_thread(run)
    assert (transcript.final, transcript.answers[0][0].text) == ("done", "hello")


@contextlib.contextmanager
def raises(kind: type[BaseException], text: str = "") -> Iterator[None]:
    """Check that the block raises an error with this text; pytest is not installed beside crewAI."""
    try:
        yield
    except kind as exc:
        found = str(exc)
    else:
        raise AssertionError(f"{kind.__name__} was not raised")
    assert text in found, found


def children() -> list[int]:
    """Return the process ids of the demo servers that this process started."""
    own = str(os.getpid())
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if parent == own and DEMO in (folder / "cmdline").read_text():
                found.append(int(folder.name))
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


extra_cases = {
    case.__name__: case
    for case in (
        takes_servers_of_crewai,
        takes_urls_with_the_name_of_a_tool,
        applies_the_filters_of_crewai,
        closes_the_servers_of_a_list,
        repeats_calls_unless_told_to_cache,
        reports_failures_to_crewai,
        keeps_names_apart,
        runs_with_an_async_hub,
        takes_a_settings_file,
    )
}
