"""An `AssistantAgent` of AutoGen, with a client that follows a script."""

from __future__ import annotations

import json
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResultMessage,
    ModelInfo,
    RequestUsage,
)

source = "async"
USAGE = RequestUsage(prompt_tokens=1, completion_tokens=1)


class ScriptedClient(ChatCompletionClient):  # type: ignore[misc]  # the framework is not installed where types are checked
    def __init__(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        self.calls = calls
        self.offered: list[str] = []
        self.answers: list[str] = []

    async def create(self, messages: Any, *, tools: Any = (), **_: Any) -> CreateResult:
        self.offered = [tool["name"] for tool in tools]
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            self.answers += [result.content for result in messages[-1].content]
        if len(self.answers) == len(self.calls):
            return CreateResult(finish_reason="stop", content="done", usage=USAGE, cached=False)
        name, arguments = self.calls[len(self.answers)]
        call = FunctionCall(id=str(len(self.answers)), name=name, arguments=json.dumps(arguments))
        return CreateResult(finish_reason="function_calls", content=[call], usage=USAGE, cached=False)

    @property
    def model_info(self) -> ModelInfo:
        return ModelInfo(vision=True, function_calling=True, json_output=True, family="unknown", structured_output=True)

    @property
    def capabilities(self) -> ModelInfo:
        return self.model_info

    def create_stream(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    def actual_usage(self) -> RequestUsage:
        return USAGE

    def total_usage(self) -> RequestUsage:
        return USAGE

    def count_tokens(self, *_: Any, **__: Any) -> int:
        return 1

    def remaining_tokens(self, *_: Any, **__: Any) -> int:
        return 1000


async def run(
    snippet: dict[str, Any], hub: Any, calls: list[tuple[str, dict[str, Any]]]
) -> tuple[list[str], list[str]]:
    client = ScriptedClient(calls)
    workbench = snippet["ToolboxWorkbench"](hub)
    agent = AssistantAgent("assistant", model_client=client, workbench=workbench, max_tool_iterations=10)
    assert (await agent.run(task="go")).messages[-1].to_text() == "done"
    return client.offered, client.answers
