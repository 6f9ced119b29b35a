"""Resources, templates, prompts and completion of real servers."""

from __future__ import annotations

import json

import pytest

import toolyard as ty
from tests.peers.kit import Peer, Yard
from tests.peers.test_tools import PNG

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_resources_are_listed_with_uri_name_and_type(yard: Yard) -> None:
    resources = {resource.uri: resource for resource in await yard.client.list_resources()}

    assert resources.keys() == {"yard://greeting", "yard://logo", "yard://counter"}
    assert (resources["yard://logo"].name, resources["yard://logo"].mime_type) == ("logo", "image/png")


async def test_a_text_resource_is_read_as_text(yard: Yard) -> None:
    contents = await yard.client.read_resource("yard://greeting")

    assert contents.text == "good day"
    assert [(piece.uri, piece.mime_type) for piece in contents] == [("yard://greeting", "text/plain")]


async def test_a_binary_resource_is_read_as_bytes(yard: Yard) -> None:
    contents = await yard.client.read_resource("yard://logo")

    assert contents.data == PNG
    assert contents.contents[0].blob == PNG and contents.contents[0].text is None


async def test_a_template_is_listed_and_its_resources_can_be_read(yard: Yard) -> None:
    templates = await yard.client.list_resource_templates()
    contents = await yard.client.read_resource("yard://plot/north")

    assert [template.uri_template for template in templates] == ["yard://plot/{name}"]
    assert json.loads(contents.text) == {"plot": "north"}


async def test_an_unknown_resource_is_refused_with_a_type(yard: Yard, peer: Peer) -> None:
    # The SDK 1.x answers with code 0 and a sentence, which says nothing that a type could be decided by.
    expected = ty.RemoteError if peer.framework == "sdk1" else ty.ResourceNotFound

    with pytest.raises(expected) as refusal:
        await yard.client.read_resource("yard://nowhere")

    assert "yard://nowhere" in str(refusal.value)


async def test_prompts_are_listed_with_their_arguments(yard: Yard) -> None:
    (prompt,) = await yard.client.list_prompts()

    assert (prompt.name, prompt.description) == ("explain", "Explain a topic.")
    assert [(argument.name, argument.required) for argument in prompt.arguments] == [("topic", True), ("tone", False)]


async def test_a_prompt_keeps_its_name_messages_and_arguments(yard: Yard) -> None:
    prompt = await yard.client.get_prompt("explain", {"topic": "bees", "tone": "dry"})

    assert (prompt.name, dict(prompt.arguments)) == ("explain", {"topic": "bees", "tone": "dry"})
    assert [(message.role, message.content) for message in prompt.messages] == [
        ("user", ty.Text("Explain bees in a dry tone."))
    ]


async def test_an_unknown_prompt_is_refused_with_a_type(yard: Yard) -> None:
    with pytest.raises((ty.RemoteError, ty.NotFound)):
        await yard.client.get_prompt("expound", {"topic": "bees"})


async def test_an_argument_of_a_prompt_is_completed(yard: Yard) -> None:
    completion = await yard.client.complete({"type": "ref/prompt", "name": "explain"}, "topic", "ap")

    assert completion.values == ("apples", "apricots")
    assert not completion.has_more


async def test_completion_is_told_what_was_chosen_before(yard: Yard) -> None:
    ref = {"type": "ref/prompt", "name": "explain"}

    completion = await yard.client.complete(ref, "tone", "k", context={"topic": "bees"})

    assert (completion.values, completion.total) == (("bees-k",), 1)
