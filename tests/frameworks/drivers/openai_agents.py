"""OpenAI Agents: `Runner` with the SDK's own scripted model."""

from __future__ import annotations

import json
from typing import Any, Literal

from agents import Agent, RunConfig, Runner, set_tracing_disabled
from agents.testing import ScriptedModel, assistant_message, function_call

import toolcrib as tc
from tests.frameworks.driver import Ability, Call, Driver, Script, Seen, Transcript
from toolcrib.adapters import openai_agents

set_tracing_disabled(True)

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
        transcript.error = f"{type(exc).__name__}: {exc}"
    return transcript


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
