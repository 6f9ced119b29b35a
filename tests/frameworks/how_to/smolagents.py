"""A `ToolCallingAgent` of smolagents, with a model that follows a script."""

from __future__ import annotations

from typing import Any

from smolagents import ChatMessage, MessageRole, Model, ToolCallingAgent
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

source = "sync"


class ScriptedModel(Model):  # type: ignore[misc]  # the framework is not installed where types are checked
    def __init__(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        super().__init__(model_id="scripted")
        self.calls = calls
        self.turn = 0
        self.offered: list[str] = []
        self.answers: list[str] = []

    def generate(self, messages: list[ChatMessage], tools_to_call_from: Any = None, **_: Any) -> ChatMessage:
        self.offered = [tool.name for tool in tools_to_call_from if tool.name != "final_answer"]
        if self.turn:
            self.answers.append(str(messages[-1].content))
        script = [*self.calls, ("final_answer", {"answer": "done"})]
        name, arguments = script[self.turn]
        self.turn += 1
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        call = ChatMessageToolCall(id=str(self.turn), type="function", function=function)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def run(snippet: dict[str, Any], hub: Any, calls: list[tuple[str, dict[str, Any]]]) -> tuple[list[str], list[str]]:
    model = ScriptedModel(calls)
    agent = ToolCallingAgent(tools=snippet["smolagents_tools"](hub), model=model, verbosity_level=0)
    assert agent.run("go") == "done"
    return model.offered, model.answers
