"""The tools of the server under test that ask: the person, the model, for the roots. The same code in both eras."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Literal

import toolcrib as tc


def form(**fields: dict[str, Any]) -> dict[str, Any]:
    """All of it must be filled in."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def told(answer: tc.ElicitResult) -> str:
    return f"action={answer.action}, content={json.dumps(answer.content)}"


NAME = form(name={"type": "string"})
CONFIRM = form(ok={"type": "boolean"})

# ---- one question --------------------------------------------------------------------------------------------------


@tc.tool
async def test_sampling(prompt: str, ctx: tc.Context) -> str:
    """Ask the client's model.

    Args:
        prompt: The question to the model.
    """
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@tc.tool
async def test_elicitation(message: str, ctx: tc.Context) -> str:
    """Ask the person who they are.

    Args:
        message: The text for the user.
    """
    schema = form(
        username={"type": "string", "description": "User's response"},
        email={"type": "string", "description": "User's email address"},
    )
    return f"User response: {told(await ctx.elicit(message, schema))}"


@dataclass
class Profile:
    """A form whose fields are all filled in already."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@tc.tool
def test_elicitation_sep1034_defaults(ctx: tc.SyncContext) -> str:
    """Ask the person to look through what is filled in already."""
    answer = ctx.elicit("Please review your profile", Profile)
    return f"Elicitation completed: {told(answer)}, read as {answer.data}"


OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": "value1", "title": "First"}, {"const": "value2", "title": "Second"}]
CHOICES = form(
    untitledSingle={"type": "string", "enum": OPTIONS},
    titledSingle={"type": "string", "oneOf": TITLED},
    legacyEnum={"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    untitledMulti={"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    titledMulti={"type": "array", "items": {"anyOf": TITLED}},
)


@tc.tool
async def test_elicitation_sep1330_enums(ctx: tc.Context) -> str:
    """Let the person choose, in every form that a choice has."""
    return f"Elicitation completed: {told(await ctx.elicit('Please choose', CHOICES))}"


@tc.tool
async def test_missing_capability(ctx: tc.Context) -> str:
    """Need a model; a client without one must get an error."""
    return (await ctx.sample("Is anybody there?", max_tokens=10)).text


@tc.tool
async def test_streaming_elicitation(ctx: tc.Context) -> str:
    """Come forward, then ask."""
    await ctx.progress(1, 2)
    return f"Hello, {told(await ctx.elicit('What is your name?', NAME, key='user_name'))}"


# ---- questions by name ---------------------------------------------------------------------------------------------


@tc.tool(name="test_input_required_result_elicitation")
async def ask_name(ctx: tc.Context) -> str:
    """Ask the person's name."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {(answer.content or {}).get('name')}!"


@tc.tool(name="test_input_required_result_sampling")
async def ask_capital(ctx: tc.Context) -> str:
    """Ask the model something that it knows."""
    return (await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")).text


@tc.tool(name="test_input_required_result_list_roots")
async def ask_roots(ctx: tc.Context) -> str:
    """Ask what the client works with."""
    roots = await ctx.roots(key="client_roots")
    return "Roots: " + ", ".join(f"{root.uri} ({root.name or 'unnamed'})" for root in roots)


@tc.tool(name="test_input_required_result_request_state")
async def ask_confirmation(ctx: tc.Context) -> str:
    """Ask, and go on only where the answer belongs to the question."""
    answer = await ctx.elicit("Please confirm", CONFIRM, key="confirm")
    return f"state-ok: {told(answer)}"


@tc.tool(name="test_input_required_result_tampered_state")
async def ask_unforgeably(ctx: tc.Context) -> str:
    """Ask; an answer with a forged state must not come through."""
    return f"confirmed: {told(await ctx.elicit('Please confirm', CONFIRM, key='confirm'))}"


@tc.tool(name="test_input_required_result_multiple_inputs")
async def ask_all(ctx: tc.Context) -> str:
    """Ask person, model and client at the same time."""
    person, greeting, roots = await asyncio.gather(
        ctx.elicit("What is your name?", NAME, key="user_name"),
        ctx.sample("Generate a greeting", max_tokens=50, key="greeting"),
        ctx.roots(key="client_roots"),
    )
    return f"{greeting.text} {(person.content or {}).get('name')}, at home in {[root.uri for root in roots]}"


@tc.tool(name="test_input_required_result_multi_round")
async def ask_twice(ctx: tc.Context) -> str:
    """Ask, and ask again; what was said first is not forgotten."""
    first = await ctx.elicit("Step 1: What is your name?", NAME, key="step1")
    colour = form(color={"type": "string"})
    second = await ctx.elicit("Step 2: What is your favorite color?", colour, key="step2")
    return f"{(first.content or {}).get('name')} likes {(second.content or {}).get('color')}"


@tc.tool(name="test_input_required_result_capabilities")
async def ask_what_can_be_asked(ctx: tc.Context) -> str:
    """Ask only what the client has said that it can be asked."""
    questions: list[Any] = []
    if "sampling" in ctx.client_capabilities:
        questions.append(ctx.sample("Say hello", max_tokens=50, key="hello"))
    if "elicitation" in ctx.client_capabilities:
        questions.append(ctx.elicit("What is your name?", NAME, key="user_name"))
    return f"{len(await asyncio.gather(*questions))} answers"


def offer(server: tc.ToolServer) -> None:
    for tool in (
        test_sampling,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_missing_capability,
        test_streaming_elicitation,
        ask_name,
        ask_capital,
        ask_roots,
        ask_confirmation,
        ask_unforgeably,
        ask_all,
        ask_twice,
        ask_what_can_be_asked,
    ):
        server.add_tool(tool)
