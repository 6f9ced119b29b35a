"""LangChain and LangGraph: an agent of `create_agent`, on the loop of the test."""

from __future__ import annotations

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
from tests.frameworks.driver import Ability, Script, Seen, Transcript
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
