"""LangChain and LangGraph: an agent of `create_agent`, on the loop of the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Literal

from langchain.agents import create_agent
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import PrivateAttr

import toolcrib as tc
from tests.frameworks.driver import Ability, Call, Script, Seen, Transcript
from tests.frameworks.lab import Lab
from toolcrib import sync
from toolcrib.adapters import langchain as adapter


class ScriptedModel(BaseChatModel):  # type: ignore[misc]
    """A model that makes the calls of the script."""

    _script: Script = PrivateAttr()
    _transcript: Transcript = PrivateAttr()
    _tools: list[BaseTool] = PrivateAttr(default_factory=list)
    _turn: int = PrivateAttr(default=0)

    @classmethod
    def of(cls, script: Script, transcript: Transcript) -> ScriptedModel:
        """Return a model for one run."""
        model = cls()
        model._script, model._transcript = script, transcript
        return model

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> ScriptedModel:
        """Keep the tools of the next turn."""
        self._tools = list(tools)
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        self._look(messages)
        self._script.prepare_sync(self._turn)
        return self._answer()

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        self._look(messages)
        await self._script.prepare(self._turn)
        return self._answer()

    def _look(self, messages: list[BaseMessage]) -> None:
        tools, self._tools = self._tools, []
        self._transcript.offered.append([tool.name for tool in tools])
        self._transcript.schemas = {tool.name: tool.args_schema for tool in tools if isinstance(tool.args_schema, dict)}
        if self._turn:
            count = len(self._script.turns[self._turn - 1])
            answers = [message for message in messages if isinstance(message, ToolMessage)]
            self._transcript.answers.append(list(map(read_message, answers[-count:])))

    def _answer(self) -> ChatResult:
        message = AIMessage("done")
        if self._turn < len(self._script.turns):
            calls = self._script.turns[self._turn]
            message = AIMessage(
                "",
                tool_calls=[
                    {"name": call.name, "args": call.arguments, "id": f"call_{self._turn}_{number}"}
                    for number, call in enumerate(calls)
                ],
            )
        self._turn += 1
        return ChatResult(generations=[ChatGeneration(message=message)])


def read_message(message: ToolMessage) -> Seen:
    """Return what the model sees of an answer."""
    seen = Seen("", is_error=message.status == "error")
    blocks = [{"type": "text", "text": message.content}] if isinstance(message.content, str) else message.content
    for block in blocks:
        assert isinstance(block, dict)
        if block["type"] == "image":
            seen.images.append(block["mime_type"])
        else:
            seen.text += block.get("text") or block["mime_type"]
            seen.text += "\n"
    seen.text = seen.text.strip()
    if message.artifact is not None:
        seen.data = tc.ToolResult(message.artifact).data
    return seen


def decide(interrupts: Sequence[Any], transcript: Transcript) -> dict[str, Any]:
    """Approve `add` and reject every other tool that the graph asks about."""
    decisions = {}
    for each in interrupts:
        (action,) = each.value["action_requests"]
        transcript.approvals.append(action["name"])
        approved = action["name"].endswith("__add")
        decisions[each.id] = {"decisions": [{"type": "approve" if approved else "reject"}]}
    return decisions


class LangChainDriver:
    """Runs an agent."""

    package = "langchain"
    source: Literal["async", "sync"] = "async"
    abilities = frozenset[Ability]({"images", "error-flag", "structured", "progress", "cancel", "live", "approval"})

    async def run(self, hub: Any, script: Script) -> Transcript:
        """Run an agent with the tools of the hub."""
        transcript = Transcript()
        model = ScriptedModel.of(script, transcript)
        checkpointer = InMemorySaver()
        agent = (
            create_agent(model, middleware=[adapter.middleware(hub)], checkpointer=checkpointer)
            if script.live
            else create_agent(model, adapter.tools(hub), checkpointer=checkpointer)
        )
        config = {"configurable": {"thread_id": "1"}}
        given: Any = {"messages": [("user", "go")]}
        try:
            while given is not None:
                async for mode, event in agent.astream(given, config, stream_mode=["custom", "updates"]):
                    if mode == "custom":
                        transcript.progress.append(event)
                state = await agent.aget_state(config)
                given = Command(resume=decide(state.interrupts, transcript)) if state.interrupts else None
        except Exception as exc:  # noqa: BLE001  # the transcript has it
            transcript.error = f"{type(exc).__name__}: {exc}"
            return transcript
        transcript.final = state.values["messages"][-1].content
        return transcript


driver = LangChainDriver()


# ---- what only LangChain has


async def runs_sync_with_a_sync_hub(_: Any) -> None:
    """Check `agent.invoke` with a sync hub, in both forms; an async agent can use the same tools."""

    def run(hub: sync.Hub, live: bool) -> Transcript:
        transcript = Transcript()
        model = ScriptedModel.of(Script([[Call("mcp__lab__count", {"steps": 2})]]), transcript)
        agent = (
            create_agent(model, middleware=[adapter.middleware(hub)])
            if live
            else create_agent(model, adapter.tools(hub))
        )
        for mode, event in agent.stream({"messages": [("user", "go")]}, stream_mode=["custom", "updates"]):
            if mode == "custom":
                transcript.progress.append(event)
        return transcript

    with sync.Hub({"lab": Lab().server}) as hub:
        for live in (False, True):
            transcript = await asyncio.to_thread(run, hub, live)
            assert transcript.answers[0][0].text == "counted to 2", transcript
            assert [event["progress"] for event in transcript.progress] == [1, 2]
        transcript = await driver.run(hub, Script([[Call("mcp__lab__add", {"a": 1, "b": 2})]]))
        assert transcript.answers[0][0].text == "3", transcript


async def rejects_sync_calls_on_the_loop_of_the_hub(_: Any) -> None:
    """Check that `invoke` raises where it would wait for itself."""
    async with tc.Hub({"lab": Lab().server}) as hub:
        tools = {tool.name: tool for tool in adapter.tools(hub)}
        try:
            tools["mcp__lab__add"].invoke({"a": 1, "b": 2})
        except tc.UsageError as exc:
            message = str(exc)
        assert "toolcrib.sync.Hub" in message
        added = await asyncio.to_thread(tools["mcp__lab__add"].invoke, {"a": 1, "b": 2})
        assert added == "3"


async def marks_deferred_tools(_: Any) -> None:
    """Check the mark by which LangChain's integrations defer a tool."""
    async with tc.Hub({"lab": Lab().server}) as hub:
        hub.toolsets.register(tc.Toolset("lab").defer_all().keep_loaded("add"))
        tools = {tool.name: tool.extras for tool in adapter.tools(hub, deferred=True)}
        assert tools["mcp__lab__count"] == {"defer_loading": True}
        assert tools["mcp__lab__add"] is None
        assert "mcp__lab__count" not in [tool.name for tool in adapter.tools(hub)]


async def passes_every_argument_on(_: Any) -> None:
    """Check arguments with names that LangChain's tools use themselves."""
    server = tc.ToolServer("lab")
    names = ("config", "run_manager", "callbacks", "tool_call_id", "runtime")
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    server.add_tool(lambda arguments: arguments, name="show", input_schema=schema)
    given = {name: f"my {name}" for name in names}
    async with tc.Hub({"lab": server}) as hub:
        transcript = await driver.run(hub, Script([[Call("mcp__lab__show", given)]]))
    assert json.loads(transcript.answers[0][0].text) == given, transcript


async def reports_progress_outside_a_graph(_: Any) -> None:
    """Check custom events of a tool that is called without a graph."""
    async with tc.Hub({"lab": Lab().server}) as hub:
        (tool,) = adapter.tools(hub, names=["*count"])
        events = [event async for event in tool.astream_events({"steps": 2})]
    found = [event["data"] for event in events if event.get("name") == adapter.PROGRESS_EVENT]
    assert [data["message"] for data in found] == ["step 1", "step 2"], events


async def lets_a_person_edit_a_call(_: Any) -> None:
    """Check the decisions of an interrupted graph: edited arguments, and a reason to reject."""
    async with tc.Hub({"lab": (lab := Lab()).server}, require_approval=["*"], approve="caller") as hub:
        transcript = Transcript()
        call = Call("mcp__lab__add", {"a": 1, "b": 2})
        model = ScriptedModel.of(Script([[call], [call], [call]]), transcript)
        agent = create_agent(model, adapter.tools(hub), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        await agent.ainvoke({"messages": [("user", "go")]}, config)
        edited = {"type": "edit", "edited_action": {"name": "mcp__lab__add", "args": {"a": 10, "b": 20}}}
        await agent.ainvoke(Command(resume={"decisions": [edited]}), config)
        rejected = {"type": "reject", "message": "not twice"}
        await agent.ainvoke(Command(resume={"decisions": [rejected]}), config)
        other = {"type": "edit", "edited_action": {"name": "mcp__lab__secret", "args": {}}}
        await agent.ainvoke(Command(resume={"decisions": [other]}), config)
        (first,), (second,), (third,) = transcript.answers
        assert third.is_error and "mcp__lab__secret instead" in third.text, third
        assert (first.text, second.text, second.is_error) == ("30", "not twice", True), transcript
        assert lab.calls == [("add", {"a": 10, "b": 20})]
        # Outside a graph there is nothing that can ask.
        (tool,) = adapter.tools(hub, names=["*add"])
        refused = await tool.ainvoke({"type": "tool_call", "id": "1", "name": tool.name, "args": {"a": 1, "b": 2}})
        assert refused.status == "error" and lab.ran("add") == 1, refused


extra_cases = {
    case.__name__: case
    for case in (
        runs_sync_with_a_sync_hub,
        rejects_sync_calls_on_the_loop_of_the_hub,
        marks_deferred_tools,
        passes_every_argument_on,
        reports_progress_outside_a_graph,
        lets_a_person_edit_a_call,
    )
}
