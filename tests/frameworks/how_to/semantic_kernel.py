"""A `ChatCompletionAgent` of Semantic Kernel, with a service that follows a script."""

from __future__ import annotations

import json
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.chat_completion_client_base import ChatCompletionClientBase
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.contents import ChatMessageContent, FunctionCallContent, FunctionResultContent

source = "async"


class ScriptedService(ChatCompletionClientBase):  # type: ignore[misc]  # the framework is not installed where types are checked
    SUPPORTS_FUNCTION_CALLING = True
    calls: list[tuple[str, dict[str, Any]]]
    answers: list[str]

    async def _inner_get_chat_message_contents(self, chat_history: Any, settings: Any) -> list[ChatMessageContent]:
        items = chat_history.messages[-1].items
        self.answers.extend(str(item.result) for item in items if isinstance(item, FunctionResultContent))
        if len(self.answers) == len(self.calls):
            return [ChatMessageContent(role="assistant", content="done")]
        name, arguments = self.calls[len(self.answers)]
        call = FunctionCallContent(id=name, name=f"toolcrib-{name}", arguments=json.dumps(arguments))
        return [ChatMessageContent(role="assistant", items=[call])]

    def _update_function_choice_settings_callback(self) -> Any:
        return lambda *_, **__: None

    def _reset_function_choice_settings(self, settings: Any) -> None: ...


async def run(
    snippet: dict[str, Any], hub: Any, calls: list[tuple[str, dict[str, Any]]]
) -> tuple[list[str], list[str]]:
    kernel = Kernel()
    plugin = kernel.add_plugin(snippet["semantic_kernel_plugin"](hub))
    service = ScriptedService(ai_model_id="scripted", calls=calls, answers=[])
    behavior = FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=10)
    agent = ChatCompletionAgent(kernel=kernel, service=service, name="a", function_choice_behavior=behavior)
    assert (await agent.get_response("go")).content.content == "done"
    return list(plugin.functions), service.answers
