"""Google ADK: an `LlmAgent` with a scripted model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

import toolcrib as tc
from tests.frameworks.cases import CASES
from tests.frameworks.driver import Ability, Call, Driver, Script, Seen, Transcript
from tests.frameworks.lab import PNG, Lab
from toolcrib.adapters import adk

CONFIRMATION = "adk_request_confirmation"


class AdkDriver:
    package = "google-adk"
    source: Literal["async", "sync"] = "async"
    abilities: frozenset[Ability] = frozenset({"images", "error-flag", "structured", "cancel", "live", "approval"})

    def __init__(self, always_live: bool = False) -> None:
        self.always_live = always_live

    async def run(self, hub: Any, script: Script) -> Transcript:
        live = script.live or self.always_live
        return await run_agent(script, [adk.toolset(hub)] if live else adk.tools(hub))


async def run_agent(script: Script, tools: list[Any], model: type[BaseLlm] | None = None) -> Transcript:
    """Run an agent, confirm `add` and reject all other tools that need a confirmation."""
    transcript = Transcript()
    agent = LlmAgent(name="helper", model=(model or Scripted)(script, transcript), tools=tools)
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="user")
    message: types.Content | None = types.Content(role="user", parts=[types.Part(text="go")])
    try:
        while message is not None:
            answers = []
            async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
                asked = [call for call in event.get_function_calls() if call.name == CONFIRMATION]
                answers += [_confirm(call, transcript) for call in asked]
                if event.error_message:
                    transcript.error = f"{event.error_code}: {event.error_message}"
                if event.is_final_response() and event.content and event.content.parts[0].text:
                    transcript.final = event.content.parts[0].text
            message = types.Content(role="user", parts=answers) if answers else None
    except Exception as exc:  # noqa: BLE001  # the transcript has it
        transcript.error = f"{type(exc).__name__}: {exc}"
    finally:
        await runner.close()
    return transcript


def _confirm(call: types.FunctionCall, transcript: Transcript) -> types.Part:
    name = call.args["originalFunctionCall"]["name"]
    transcript.approvals.append(name)
    response = {"confirmed": name.endswith("add")}
    return types.Part(function_response=types.FunctionResponse(id=call.id, name=CONFIRMATION, response=response))


class Scripted(BaseLlm):  # type: ignore[misc]  # the framework is not installed here
    """Makes the calls of a script."""

    def __init__(self, script: Script, transcript: Transcript) -> None:
        super().__init__(model="scripted")
        self._script = script
        self._transcript = transcript

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        turn = len(self._transcript.offered)
        declarations = [d for tool in llm_request.config.tools or [] for d in tool.function_declarations or []]
        self._transcript.offered.append([declaration.name for declaration in declarations])
        self._transcript.schemas = {d.name: d.parameters_json_schema for d in declarations}
        if turn:
            responses = [part.function_response for part in llm_request.contents[-1].parts if part.function_response]
            self._transcript.answers.append([_seen(response) for response in responses])
        await self._script.prepare(turn)
        parts = [types.Part(text="done")]
        if turn < len(self._script.turns):
            calls = self._script.turns[turn]
            parts = [types.Part(function_call=types.FunctionCall(name=c.name, args=c.arguments)) for c in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def _seen(response: types.FunctionResponse) -> Seen:
    value = response.response
    media = [part.inline_data.mime_type for part in response.parts or []]
    images = [mime_type for mime_type in media if mime_type.startswith("image/")]
    return Seen(str(value), "error" in value, images, value.get("result"))


driver: Driver = AdkDriver()


def live_case(case: Callable[[Driver], Awaitable[None]]) -> Callable[[Driver], Awaitable[None]]:
    """Return a case of the table for the live form."""

    async def run(_driver: Driver) -> None:
        await case(AdkDriver(always_live=True))

    return run


async def check_filters_of_a_run(_driver: Driver) -> None:
    """A filter of the hub gets the name of the agent and the context of the run, for lists and for calls."""
    contexts: set[tuple[str, str]] = set()

    def not_for_this_user(context: tc.FilterContext, tool: tc.Tool) -> bool:
        if context.run_context is None:
            return True
        contexts.add((context.agent, context.run_context.user_id))
        return not tool.name.endswith("secret")

    lab = Lab()
    turns = [[Call("mcp__lab__secret")], [Call("mcp__lab__add", {"a": 3, "b": 4})]]
    async with tc.Hub({"lab": lab.server}, tool_filter=tc.dynamic_filter(not_for_this_user)) as hub:
        transcript = await run_agent(Script(turns), [adk.toolset(hub)])
        assert transcript.final == "done" and not transcript.error, transcript
        assert "mcp__lab__add" in transcript.offered[0] and "mcp__lab__secret" not in transcript.offered[0]
        assert transcript.answers[1][0].data == 7, transcript
        assert lab.ran("secret") == 0
    assert contexts == {("helper", "user")}


async def check_media(_driver: Driver) -> None:
    """Images, audio and files reach the model with their bytes; the text says where they were."""
    parts: list[types.FunctionResponsePart] = []

    class Recording(Scripted):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            for part in llm_request.contents[-1].parts:
                if part.function_response:
                    parts.extend(part.function_response.parts or ())
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    lab = Lab()
    archive = tc.types.ResourceContents("memo://4", "application/zip", None, b"PK")
    lab.server.add_tool(lambda: [tc.types.EmbeddedResource(archive)], name="archive")
    async with tc.Hub({"lab": lab.server}) as hub:
        script = Script([[Call("mcp__lab__mixed")], [Call("mcp__lab__archive")]])
        transcript = await run_agent(script, adk.tools(hub), Recording)
    assert "application/zip" in transcript.answers[1][0].text, "Gemini rejects the request with such a part"
    assert [(part.inline_data.mime_type, part.inline_data.data) for part in parts] == [
        ("image/png", PNG),
        ("audio/wav", b"RIFF"),
        ("application/pdf", b"%PDF-1.7"),
    ]
    lines = transcript.answers[0][0].data.splitlines()
    assert [lines[0], lines[-2]] == ["a caption", "an embedded memo"], lines


async def check_prefixes(_driver: Driver) -> None:
    """A prefix of ADK changes the names that the model sees, not the tools that are called."""
    async with tc.Hub({"lab": Lab().server}) as hub:
        tools = adk.toolset(hub)
        tools.tool_name_prefix = "x"
        transcript = await run_agent(Script([[Call("x_mcp__lab__add", {"a": 3, "b": 4})]]), [tools])
        assert transcript.answers[0][0].data == 7, transcript


extra_cases = {
    **{f"toolset_{name}": live_case(case) for name, case in CASES.items()},
    "filters_get_agent_and_run": check_filters_of_a_run,
    "media": check_media,
    "prefixes": check_prefixes,
}
