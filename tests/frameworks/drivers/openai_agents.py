"""OpenAI Agents: `Runner` with the SDK's own scripted model."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import mcp.types
from agents import Agent, RunConfig, RunContextWrapper, Runner, set_tracing_disabled
from agents.mcp import MCPUtil
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tool_context import ToolContext

import toolcrib as tc
from tests.frameworks.cases import CASES
from tests.frameworks.driver import Ability, Call, Driver, Script, Seen, Transcript
from tests.frameworks.lab import Lab
from toolcrib.adapters import openai_agents
from toolcrib.errors import UsageError

set_tracing_disabled(True)

GREET = {"name": "mcp__lab__greet", "inputSchema": {"type": "object"}}
RUN_CONFIG = RunConfig(tool_not_found_behavior="return_error_to_model")


class OpenAIAgentsDriver:
    package = "openai-agents"
    source: Literal["async", "sync"] = "async"
    abilities: frozenset[Ability] = frozenset({"images", "json-text", "cancel", "live", "approval"})

    def __init__(self, always_live: bool = False) -> None:
        self.always_live = always_live

    async def run(self, hub: Any, script: Script) -> Transcript:
        live = script.live or self.always_live
        options = {"mcp_servers": [openai_agents.server(hub)]} if live else {"tools": openai_agents.tools(hub)}
        return await run_agent(script, **options)


async def run_agent(script: Script, *, context: Any = None, **options: Any) -> Transcript:
    """Run an agent, approve `add` and reject all other tools that need an approval."""
    transcript = Transcript()
    steps = [ScriptedStep(script, transcript, turn) for turn in range(len(script.turns) + 1)]
    agent = Agent(name="helper", model=ScriptedModel([{"responder": step} for step in steps]), **options)
    work: Any = "go"
    try:
        while True:
            result = await Runner.run(agent, work, context=context, max_turns=50, run_config=RUN_CONFIG)
            if not result.interruptions:
                break
            work = result.to_state()
            for item in result.interruptions:
                transcript.approvals.append(item.name)
                work.approve(item) if item.name.endswith("add") else work.reject(item)
        transcript.final = str(result.final_output)
    except Exception as exc:  # noqa: BLE001  # the transcript has it
        transcript.error = _describe(exc)
    return transcript


def _describe(exc: Exception) -> str:
    """Return the text of an exception that ended a run; of a `UsageError`, if the framework wrapped one."""
    cause = exc.__cause__ if isinstance(exc.__cause__, UsageError) else exc
    return f"{type(cause).__name__}: {cause}"


class ScriptedStep:
    """One turn of the scripted model."""

    def __init__(self, script: Script, transcript: Transcript, turn: int) -> None:
        self.script = script
        self.transcript = transcript
        self.turn = turn

    async def __call__(self, call: Any) -> list[Any]:
        self.transcript.offered.append([tool.name for tool in call.tools])
        self.transcript.schemas = {tool.name: tool.params_json_schema for tool in call.tools}
        if self.turn:
            outputs = {
                item["call_id"]: item["output"] for item in call.input if item.get("type") == "function_call_output"
            }
            ids = [f"{self.turn - 1}-{number}" for number in range(len(self.script.turns[self.turn - 1]))]
            self.transcript.answers.append([_seen(outputs[call_id]) for call_id in ids])
        await self.script.prepare(self.turn)
        if self.turn == len(self.script.turns):
            return [assistant_message("done")]
        calls = enumerate(self.script.turns[self.turn])
        return [function_call(c.name, c.arguments, call_id=f"{self.turn}-{number}") for number, c in calls]


def _seen(output: Any) -> Seen:
    """Return what the model sees of an output item: text, or a list of input items."""
    if isinstance(output, str):
        return Seen(output)
    seen = Seen("")
    texts = []
    for item in output:
        match item["type"]:
            case "input_text":
                texts.append(item["text"])
            case "input_image":
                seen.images.append(item["image_url"].removeprefix("data:").partition(";")[0])
            case _:
                texts.append(json.dumps(item))
    seen.text = "\n".join(texts)
    return seen


driver: Driver = OpenAIAgentsDriver()


def live_case(case: Callable[[Driver], Awaitable[None]]) -> Callable[[Driver], Awaitable[None]]:
    """Return a case of the table for the live form."""

    async def run(_driver: Driver) -> None:
        await case(OpenAIAgentsDriver(always_live=True))

    return run


async def check_filters_of_a_run(_driver: Driver) -> None:
    """A filter of the hub gets the agent and the context of the run, for lists and for calls."""
    contexts: set[tuple[str, str]] = set()

    def only_in_group(context: tc.FilterContext, tool: tc.Tool) -> bool:
        if context.run_context is None:
            return True
        contexts.add((context.agent.name, context.run_context.context["group"]))
        return not tool.name.endswith("secret") or context.run_context.context["group"] == "staff"

    lab = Lab()
    turns = [[Call("mcp__lab__secret")], [Call("mcp__lab__add", {"a": 3, "b": 4})]]
    async with tc.Hub({"lab": lab.server}, tool_filter=tc.dynamic_filter(only_in_group)) as hub:
        server = openai_agents.server(hub)
        for group, expected in (("staff", 1), ("guest", 1)):
            transcript = await run_agent(Script(turns), context={"group": group}, mcp_servers=[server])
            assert transcript.final == "done" and not transcript.error, transcript
            assert ("mcp__lab__secret" in transcript.offered[0]) is (group == "staff"), transcript
            assert "7" in transcript.answers[1][0].text, transcript
            assert lab.ran("secret") == expected
    assert contexts == {("helper", "staff"), ("helper", "guest")}


async def check_deferred_tools(_driver: Driver) -> None:
    """Deferred tools are loaded by the SDK's tool search, or left out."""
    async with tc.Hub({"lab": Lab().server}) as hub:
        hub.toolsets.register(tc.Toolset("lab").defer_all().keep_loaded("add"))
        offered = {tool.name: tool.defer_loading for tool in openai_agents.tools(hub, deferred=True)}
        assert offered["mcp__lab__greet"] is True and offered["mcp__lab__add"] is False, offered
        assert [tool.name for tool in openai_agents.tools(hub)] == ["mcp__lab__add"]


async def check_deferred_tools_of_a_run(_driver: Driver) -> None:
    """A deferred tool that an agent has called by its name is listed in the rest of this run, and not in the next."""
    async with tc.Hub({"lab": Lab().server}) as hub:
        hub.toolsets.register(tc.Toolset("lab").defer_all().keep_loaded("add"))
        server = openai_agents.server(hub)
        for _ in range(2):
            context = RunContextWrapper(None)
            agent = Agent(name="helper")
            first = [tool.name for tool in await server.list_tools(context, agent)]
            (tool,) = await MCPUtil.get_function_tools(server, False, context, agent)
            assert first == [tool.name] == ["mcp__lab__add"]
            hidden = MCPUtil.to_function_tool(mcp.types.Tool.model_validate(GREET), server, False, agent)
            call = ToolContext.from_agent_context(context, "c", agent=agent, tool_name=hidden.name, tool_arguments="{}")
            output = await hidden.on_invoke_tool(call, '{"name": "Ada"}')
            assert "Hello Ada" in str(output)
            assert {tool.name for tool in await server.list_tools(context, agent)} == {
                "mcp__lab__add",
                "mcp__lab__greet",
            }


async def check_strict_schemas(_driver: Driver) -> None:
    """`strict` makes optional arguments nullable; an open object cannot be strict, and stays as it is."""
    lab = Lab()
    schema = {"type": "object", "properties": {"labels": {"type": "object", "additionalProperties": True}}}
    lab.server.add_tool(lambda arguments: "ok", name="label", description="Label.", input_schema=schema)
    turns = [[Call("mcp__lab__greet", {"name": "Ada", "title": None})]]
    async with tc.Hub({"lab": lab.server}) as hub:
        tools = openai_agents.tools(hub, strict=True)
        strict = {tool.name: tool.strict_json_schema for tool in tools}
        assert strict["mcp__lab__greet"] is True and strict["mcp__lab__label"] is False, strict
        assert not any(tool.strict_json_schema for tool in openai_agents.tools(hub))
        options: list[dict[str, Any]] = [
            {"tools": tools},
            {
                "mcp_servers": [openai_agents.server(hub, strict=True)],
                "mcp_config": {"convert_schemas_to_strict": True},
            },
        ]
        for option in options:
            lab.calls.clear()
            transcript = await run_agent(Script(turns), **option)
            assert transcript.schemas["mcp__lab__greet"]["required"] == ["name", "title"], transcript
            assert "null" in json.dumps(transcript.schemas["mcp__lab__greet"]["properties"]["title"])
            assert "Hello Ada" in transcript.answers[0][0].text, transcript
            assert lab.calls == [("greet", {"name": "Ada"})]


async def check_prompts_and_types(_driver: Driver) -> None:
    """The server lists prompts, and gives all values in the types of the `mcp` package that the SDK uses."""
    lab = Lab()

    @lab.server.prompt
    def review(code: str) -> str:
        """Review code."""
        return f"Review this: {code}"

    async with tc.Hub({"lab": lab.server}) as hub:
        server = openai_agents.server(hub)
        await server.connect()
        (prompt,) = (await server.list_prompts()).prompts
        assert isinstance(prompt, mcp.types.Prompt) and prompt.arguments[0].name == "code"
        result = await server.get_prompt(prompt.name, {"code": "x = 1"})
        assert isinstance(result, mcp.types.GetPromptResult)
        assert result.messages[0].content.text == "Review this: x = 1"
        tools = await server.list_tools()
        assert all(isinstance(tool, mcp.types.Tool) for tool in tools)
        called = await server.call_tool("mcp__lab__weather", {"city": "Bern"})
        assert isinstance(called, mcp.types.CallToolResult)
        dumped = called.model_dump(by_alias=True)
        assert dumped["structuredContent"] == {"city": "Bern", "degrees": 7} and dumped["isError"] is False
        failed = await server.call_tool("mcp__lab__fail", {"reason": "no"})
        assert failed.model_dump(by_alias=True)["isError"] is True
        await server.cleanup()


async def check_files(_driver: Driver) -> None:
    """Only files of types that OpenAI's models take are sent as files: the API rejects a request with others."""
    server = tc.ToolServer("lab")
    for name, mime_type in (("report.pdf", "application/pdf"), ("all.zip", "application/zip")):
        file = tc.types.EmbeddedResource(tc.types.ResourceContents(f"memo:///{name}", mime_type, None, b"bytes"))
        server.add_tool(lambda file=file: [file], name=name.partition(".")[0])
    async with tc.Hub({"lab": server}) as hub:
        report, archive = [await tool.on_invoke_tool(None, "{}") for tool in openai_agents.tools(hub)]
    assert [(part.filename, part.file_data[:28]) for part in report] == [("report.pdf", "data:application/pdf;base64,")]
    assert [part.text for part in archive] == ["[memo:///all.zip: application/zip, 5 bytes]"]


extra_cases = {
    "files": check_files,
    **{f"server_{name}": live_case(case) for name, case in CASES.items()},
    "filters_get_agent_and_run": check_filters_of_a_run,
    "deferred_tools": check_deferred_tools,
    "deferred_tools_of_a_run": check_deferred_tools_of_a_run,
    "strict_schemas": check_strict_schemas,
    "prompts_and_types_of_mcp": check_prompts_and_types,
}
