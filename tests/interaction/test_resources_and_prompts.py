"""Resources, templates, prompts, completion."""

from __future__ import annotations

import pytest

import toolcrib as tc
from tests.interaction.kit import Place
from tests.interaction.marks import per_protocol


@per_protocol
async def test_resources_and_templates_are_listed_with_their_fields(harness: Place) -> None:
    async with harness.client() as c:
        text, blob, both = await c.list_resources()
        people, places = await c.list_resource_templates()
    assert (text.uri, text.name, text.title, text.mime_type, text.size) == (
        "memo://text",
        "text",
        "A text",
        "text/plain",
        9,
    )
    assert (blob.description, both.mime_type, both["uri"]) == ("Some bytes", None, "memo://both")
    assert (people.uri_template, people.mime_type, places.title) == ("memo://people/{name}", "text/plain", "Places")


async def test_a_text_a_blob_and_several_pieces_are_read(harness: Place) -> None:
    async with harness.client() as c:
        text, blob, both = [await c.read_resource(f"memo://{name}") for name in ("text", "blob", "both")]
        person = await c.read_resource("memo://people/ann")
    assert (text.text, text.data) == ("good day\n", b"good day\n")
    assert [(piece.uri, piece.mime_type, piece.text, piece.blob) for piece in blob] == [
        ("memo://blob", "application/octet-stream", None, b"\x00\xffbytes")
    ]
    assert (len(both), both.text, both.data) == (2, "good day\n", b"good day\n\x00\xffbytes")
    assert person.text == "This is ann."


async def test_a_missing_resource_is_reported_in_both_eras(harness: Place) -> None:
    async with harness.client(name="y") as c:
        with pytest.raises(tc.ResourceNotFound, match="memo://none") as caught:
            await c.read_resource("memo://none")
    assert isinstance(caught.value, tc.NotFound)
    assert caught.value.server == "y"
    assert isinstance(caught.value.__cause__, tc.RemoteError)
    assert caught.value.__cause__.code == (-32602 if harness.modern else -32002)


@per_protocol
async def test_prompts_are_listed_with_their_arguments(harness: Place) -> None:
    async with harness.client() as c:
        greet, plain = await c.list_prompts()
    assert (greet.name, greet.title, greet.description) == ("greet", "Greet", "Greet somebody")
    assert greet.arguments == (
        tc.PromptArgument("name", "Who", required=True),
        tc.PromptArgument("count", "How often"),
    )
    assert greet["arguments"][0]["name"] == "name"
    assert (plain.name, plain.arguments) == ("plain", ())


async def test_a_prompt_keeps_its_name_its_arguments_and_all_messages(harness: Place) -> None:
    async with harness.client() as c:
        got = await c.get_prompt("greet", {"name": "Ada", "count": 3})
    assert (got.name, got.description) == ("greet", "A greeting")
    assert got.arguments == {"name": "Ada", "count": "3"}
    first, second = got.messages
    assert (first.role, first.content) == ("user", tc.TextContent("Greet Ada 3"))
    assert (second.role, second.content) == ("assistant", tc.ImageContent(b"png", "x/y"))
    assert got.text == "Greet Ada 3"
    assert (got["name"], got["arguments"], len(got["messages"])) == ("greet", {"name": "Ada", "count": "3"}, 2)


async def test_a_prompt_without_arguments_sends_none(harness: Place) -> None:
    async with harness.client() as c:
        assert (await c.get_prompt("plain")).text == "Hello."
        assert (await c.get_prompt("plain", {})).arguments == {}
    assert [set(message["params"]) - {"_meta"} for message in harness.journal.got("prompts/get")] == [{"name"}] * 2


async def test_an_unknown_prompt_is_the_servers_error(harness: Place) -> None:
    async with harness.client() as c:
        with pytest.raises(tc.RemoteError, match="Unknown prompt: nobody"):
            await c.get_prompt("nobody")


async def test_completion_by_name_by_prompt_by_uri_and_by_template(harness: Place) -> None:
    async with harness.client() as c:
        (greet, _), (people, _) = await c.list_prompts(), await c.list_resource_templates()
        assert await c.complete("greet", "name", "A") == tc.Completion(("Ada", "Alan"), 3, has_more=True)
        assert (await c.complete(greet, "name", "Gr")).values == ("Grace",)
        assert (await c.complete("memo://people/{name}", "name")).values == ("ann", "bob")
        assert (await c.complete(people, "name", "b")).values == ("bob",)
        assert (await c.complete({"type": "ref/prompt", "name": "greet"}, "name", "Al")).values == ("Alan",)


@per_protocol
async def test_completion_takes_what_is_filled_in_already_into_account(harness: Place) -> None:
    async with harness.client() as c:
        assert (await c.complete("greet", "name", "A", context={"language": "de"})).values == ("Adele",)
    (sent,) = harness.journal.got("completion/complete")
    assert sent["params"]["context"] == {"arguments": {"language": "de"}}
    assert sent["params"]["argument"] == {"name": "name", "value": "A"}
