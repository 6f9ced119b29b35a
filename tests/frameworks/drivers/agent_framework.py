"""Microsoft Agent Framework: an `Agent` with a scripted chat client."""

from __future__ import annotations

import json
from typing import Any, Literal

from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message

import toolcrib as tc
from tests.frameworks.driver import Ability, Call, Driver, Script, Seen, Transcript
from tests.frameworks.lab import Lab
from toolcrib.adapters import agent_framework
from toolcrib.errors import UsageError


class AgentFrameworkDriver:
    package = "agent-framework-core"
    source: Literal["async", "sync"] = "async"
    abilities: frozenset[Ability] = frozenset({"images", "cancel", "approval"})

    async def run(self, hub: Any, script: Script) -> Transcript:
        return await run_agent(script, agent_framework.tools(hub))


async def run_agent(script: Script, tools: list[Any]) -> Transcript:
    """Run an agent, approve `add` and reject all other tools that need an approval."""
    transcript = Transcript()
    agent = Agent(client=ScriptedClient(script, transcript), tools=tools)
    session = AgentSession()
    message = Message(role="user", contents=["go"])
    try:
        while True:
            response = await agent.run(message, session=session)
            if not response.user_input_requests:
                break
            answers = []
            for request in response.user_input_requests:
                name = request.function_call.name
                transcript.approvals.append(name)
                answers.append(request.to_function_approval_response(name.endswith("add")))
            message = Message(role="user", contents=answers)
        transcript.final = response.text
    except Exception as exc:  # noqa: BLE001  # the transcript has it
        transcript.error = _describe(exc)
    return transcript


def _describe(exc: Exception) -> str:
    """Return the text of an exception that ended a run; of a `UsageError`, if the framework wrapped one."""
    cause = exc.__cause__ if isinstance(exc.__cause__, UsageError) else exc
    return f"{type(cause).__name__}: {cause}"


class ScriptedClient(FunctionInvocationLayer, BaseChatClient):  # type: ignore[misc]  # the framework is not installed here
    """Makes the calls of a script."""

    def __init__(self, script: Script, transcript: Transcript) -> None:
        super().__init__()
        self.script = script
        self.transcript = transcript

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        return self._respond(messages, options)

    async def _respond(self, messages: Any, options: Any) -> ChatResponse:
        turn = len(self.transcript.offered)
        tools = options.get("tools") or []
        self.transcript.offered.append([tool.name for tool in tools])
        self.transcript.schemas = {tool.name: tool.parameters() for tool in tools}
        if turn:
            contents = [content for message in messages for content in message.contents]
            results = {content.call_id: content for content in contents if content.type == "function_result"}
            ids = [f"{turn - 1}-{number}" for number in range(len(self.script.turns[turn - 1]))]
            self.transcript.answers.append([_seen(results[call_id]) for call_id in ids])
        await self.script.prepare(turn)
        replies: list[Any] = ["done"]
        if turn < len(self.script.turns):
            replies = [
                Content.from_function_call(
                    call_id=f"{turn}-{number}",
                    name=call.name,
                    arguments=call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments),
                )
                for number, call in enumerate(self.script.turns[turn])
            ]
        return ChatResponse(messages=[Message(role="assistant", contents=replies)])


def _seen(result: Content) -> Seen:
    seen = Seen("")
    texts = []
    for item in result.items or []:
        if item.type == "text":
            texts.append(item.text)
        elif item.media_type.startswith("image/"):
            seen.images.append(item.media_type)
        else:
            texts.append(f"{item.type} {item.media_type}")
    seen.text = "\n".join(texts) or str(result.result)
    return seen


driver: Driver = AgentFrameworkDriver()


async def check_arguments_arrive_unchanged(_driver: Driver) -> None:
    """The framework passes all arguments on, also those whose names mean something in Python; the hub checks them."""
    lab = Lab()
    taken: list[Any] = []
    given = {"model_config": 1, "_private": 2, "ctx": 3, "class": [None, {"copy": 4}], "extra": "5"}
    schema = {"type": "object", "properties": {name: {} for name in given}, "required": ["class"]}

    @lab.server.tool(input_schema=schema)
    def take(arguments: dict[str, Any]) -> str:
        """Take arguments."""
        taken.append(arguments)
        return "taken"

    async with tc.Hub({"lab": lab.server}) as hub:
        transcript = await run_agent(
            Script([[Call("mcp__lab__take", given)], [Call("mcp__lab__take", {})]]), agent_framework.tools(hub)
        )
        assert taken == [given], transcript
        assert set(transcript.schemas["mcp__lab__take"]["properties"]) == set(given)
        assert "class" in transcript.answers[1][0].text, transcript


async def check_error_texts_reach_the_model(_driver: Driver) -> None:
    """Errors say what happened, although the framework hides exceptions."""
    async with tc.Hub({"lab": Lab().server}) as hub:
        turns = [[Call("mcp__lab__fail", {"reason": "full"})], [Call("mcp__lab__add", {"a": "three", "b": 4})]]
        transcript = await run_agent(Script(turns), agent_framework.tools(hub))
        first, second = (turn[0].text for turn in transcript.answers)
        assert first == "Error: full"
        assert second.startswith("Error: ") and "valid integer" in second, second


extra_cases = {
    "arguments_arrive_unchanged": check_arguments_arrive_unchanged,
    "error_texts_reach_the_model": check_error_texts_reach_the_model,
}
