"""Haystack's agent, with a chat generator that follows a script."""

from __future__ import annotations

from typing import Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, ToolCall

source = "sync"


@component
class ScriptedGenerator:
    def __init__(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        self.calls = calls
        self.offered: list[str] = []
        self.answers: list[str] = []

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: Any = None) -> dict[str, Any]:
        self.offered = [tool.name for tool in tools]
        self.answers += [str(result.result) for result in messages[-1].tool_call_results]
        if len(self.answers) == len(self.calls):
            return {"replies": [ChatMessage.from_assistant("done")]}
        name, arguments = self.calls[len(self.answers)]
        call = ToolCall(tool_name=name, arguments=arguments, id=str(len(self.answers)))
        return {"replies": [ChatMessage.from_assistant(tool_calls=[call])]}


def run(snippet: dict[str, Any], hub: Any, calls: list[tuple[str, dict[str, Any]]]) -> tuple[list[str], list[str]]:
    model = ScriptedGenerator(calls)
    agent = Agent(chat_generator=model, tools=snippet["haystack_tools"](hub))
    assert agent.run(messages=[ChatMessage.from_user("go")])["last_message"].text == "done"
    return model.offered, model.answers
