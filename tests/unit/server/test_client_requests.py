"""Requests of a function to the client: capabilities, params, and parsed results."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Literal, TypedDict

import pydantic
import pytest

import toolcrib as tc
from tests.unit.server.context_kit import Client, context
from toolcrib.types import Wire

# ---- questions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "declared, ask, missing",
    [
        ({}, lambda c: c.elicit("?"), {"elicitation": {"form": {}}}),
        ({"elicitation": {"url": {}}}, lambda c: c.elicit("?"), {"elicitation": {"form": {}}}),
        ({"elicitation": {}}, lambda c: c.elicit_url("?", "https://a.example"), {"elicitation": {"url": {}}}),
        ({"elicitation": {"form": {}}}, lambda c: c.sample("?"), {"sampling": {}}),
        ({"sampling": {}}, lambda c: c.sample("?", tools=[{"name": "t"}]), {"sampling": {"tools": {}}}),
        ({"sampling": True}, lambda c: c.sample("?"), {"sampling": {}}),
        ({}, lambda c: c.roots(), {"roots": {}}),
    ],
)
async def test_what_the_client_did_not_declare_is_never_asked(declared: Wire, ask: Any, missing: Wire) -> None:
    client = Client()
    with pytest.raises(tc.RemoteError) as caught:
        await ask(context(client, capabilities=declared))
    assert (caught.value.code, caught.value.data) == (-32021, {"requiredCapabilities": missing})
    assert client.asked == []


async def test_an_empty_elicitation_capability_means_forms() -> None:
    client = Client(elicitation={"action": "decline"})
    assert (await context(client, capabilities={"elicitation": {}}).elicit("?")).action == "decline"


async def test_a_form_goes_out_with_its_schema_and_its_key() -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    client = Client(elicitation={"action": "accept", "content": {"ok": True}})
    answer = await context(client).elicit("Go on?", schema, key="go")
    params = {"mode": "form", "message": "Go on?", "requestedSchema": schema}
    assert client.asked == [("elicitation/create", params, "go")]
    assert answer == tc.ElicitResult("accept", {"ok": True})
    assert answer.data == {"ok": True}


async def test_a_form_of_the_legacy_era_has_no_mode_for_older_clients_know_none() -> None:
    client = Client(elicitation={"action": "cancel"})
    await context(client, modern=False).elicit("?")
    assert "mode" not in client.asked[0][1]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Order(pydantic.BaseModel):
    name: str = pydantic.Field(description="Whose", min_length=2)
    count: int = 1
    price: float | None = None
    colour: Colour = Colour.RED
    size: Literal["s", "m"] = "s"
    extras: list[Literal["salt", "oil"]] = []


async def test_a_model_becomes_a_flat_form_and_its_answer_a_model() -> None:
    client = Client(elicitation={"action": "accept", "content": {"name": "Ann", "colour": "blue", "extras": ["oil"]}})
    answer = await context(client).elicit("Order?", Order)
    assert answer.data == Order(name="Ann", colour=Colour.BLUE, extras=["oil"])
    schema = client.asked[0][1]["requestedSchema"]
    assert schema["required"] == ["name"]
    fields = schema["properties"]
    assert fields["name"] == {"title": "Name", "type": "string", "minLength": 2, "description": "Whose"}
    assert fields["price"] == {"title": "Price", "type": "number"}
    assert (fields["colour"]["type"], fields["colour"]["enum"]) == ("string", ["red", "blue"])
    assert fields["size"]["enum"] == ["s", "m"]
    assert fields["extras"]["items"] == {"type": "string", "enum": ["salt", "oil"]}
    assert "$defs" not in schema and "anyOf" not in str(schema)


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


@pytest.mark.parametrize(
    "kind, content, data",
    [(Point, {"x": 3}, Point(3, 0)), (Named, {"name": "Ann"}, {"name": "Ann"})],
)
async def test_dataclasses_and_typed_dicts_are_forms_too(kind: Any, content: Wire, data: Any) -> None:
    client = Client(elicitation={"action": "accept", "content": content})
    assert (await context(client).elicit("?", kind)).data == data


async def test_an_answer_that_does_not_fit_the_form_is_named_field_by_field() -> None:
    client = Client(elicitation={"action": "accept", "content": {"x": "much"}})
    with pytest.raises(tc.ProtocolError, match=r"does not match the form: x: Input should be a valid integer"):
        await context(client).elicit("?", Point)


async def test_a_declined_form_has_no_data() -> None:
    client = Client(elicitation={"action": "decline", "content": {"x": 1}})
    answer = await context(client).elicit("?", Point)
    assert (answer.action, answer.content, answer.data) == ("decline", None, None)


async def test_an_action_that_does_not_exist_breaks_the_protocol() -> None:
    with pytest.raises(tc.ProtocolError, match="'maybe'"):
        await context(Client(elicitation={"action": "maybe"})).elicit("?")


class Nested(pydantic.BaseModel):
    inner: Order


@pytest.mark.parametrize("kind", [Nested, int, list[int]])
async def test_a_schema_that_is_not_flat_is_refused_before_the_client_is_asked(kind: Any) -> None:
    client = Client()
    with pytest.raises(tc.UsageError, match="form"):
        await context(client).elicit("?", kind)
    assert client.asked == []


@pytest.mark.parametrize("modern", [True, False])
async def test_a_person_is_sent_to_a_url_and_only_the_legacy_era_numbers_it(modern: bool) -> None:
    client = Client(elicitation={"action": "accept"})
    answer = await context(client, modern=modern).elicit_url("Sign in", "https://a.example/x")
    params = client.asked[0][1]
    assert {"mode": "url", "message": "Sign in", "url": "https://a.example/x"}.items() <= params.items()
    assert ("elicitationId" in params) is not modern
    assert answer.action == "accept"


async def test_sampling_writes_the_messages_and_options_of_the_wire() -> None:
    said = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m1", "stopReason": "endTurn"}
    client = Client(sampling=said)
    answer = await context(client).sample(
        ["Capital?", tc.PromptMessage("assistant", tc.TextContent("Of what?")), {"role": "user", "content": []}],
        system_prompt="Be short",
        max_tokens=5,
        temperature=0.1,
        stop_sequences=["."],
        model_preferences="small",
        key="ask",
    )
    assert client.asked == [
        (
            "sampling/createMessage",
            {
                "messages": [
                    {"role": "user", "content": {"type": "text", "text": "Capital?"}},
                    {"role": "assistant", "content": {"type": "text", "text": "Of what?"}},
                    {"role": "user", "content": []},
                ],
                "maxTokens": 5,
                "systemPrompt": "Be short",
                "temperature": 0.1,
                "stopSequences": ["."],
                "modelPreferences": {"hints": [{"name": "small"}]},
            },
            "ask",
        )
    ]
    assert (answer.text, answer.role, answer.model, answer.stop_reason) == ("Paris", "assistant", "m1", "endTurn")
    assert answer.raw == said


async def test_an_answer_of_several_blocks_keeps_them_all() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "data": "", "mimeType": "image/png"}]
    answer = await context(Client(sampling={"role": "assistant", "content": blocks})).sample("?")
    assert answer.text == "a"
    assert len(answer.content) == 2


async def test_a_misspelt_option_of_sampling_is_not_sent() -> None:
    client = Client()
    with pytest.raises(tc.UsageError, match=r"'temprature'.*temperature"):
        await context(client).sample("?", temprature=1)
    assert client.asked == []


async def test_roots_come_as_values() -> None:
    client = Client(roots={"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}, "no root"]})
    assert await context(client).roots() == [tc.Root("file:///a", "A"), tc.Root("file:///b")]
