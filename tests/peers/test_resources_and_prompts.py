"""Resources, templates, prompts and completion of real servers."""

from __future__ import annotations

import json

import pytest

import toolcrib as tc
from tests.peers.kit import Peer, ScriptedClient
from tests.peers.test_tools import PNG

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_resources_are_listed_with_uri_name_and_type(scripted: ScriptedClient) -> None:
    resources = {resource.uri: resource for resource in await scripted.client.list_resources()}

    assert resources.keys() == {"crib://greeting", "crib://logo", "crib://counter"}
    assert (resources["crib://logo"].name, resources["crib://logo"].mime_type) == ("logo", "image/png")


async def test_a_text_resource_is_read_as_text(scripted: ScriptedClient) -> None:
    contents = await scripted.client.read_resource("crib://greeting")

    assert contents.text == "good day"
    assert [(piece.uri, piece.mime_type) for piece in contents] == [("crib://greeting", "text/plain")]


async def test_a_binary_resource_is_read_as_bytes(scripted: ScriptedClient) -> None:
    contents = await scripted.client.read_resource("crib://logo")

    assert contents.data == PNG
    assert contents.contents[0].blob == PNG and contents.contents[0].text is None


async def test_a_template_is_listed_and_its_resources_can_be_read(scripted: ScriptedClient) -> None:
    templates = await scripted.client.list_resource_templates()
    contents = await scripted.client.read_resource("crib://plot/north")

    assert [template.uri_template for template in templates] == ["crib://plot/{name}"]
    assert json.loads(contents.text) == {"plot": "north"}


async def test_an_unknown_resource_is_refused_with_a_type(scripted: ScriptedClient, peer: Peer) -> None:
    # The SDK 1.x answers with code 0 and a sentence, which says nothing that a type could be decided by.
    expected = tc.RemoteError if peer.framework == "sdk1" else tc.ResourceNotFound

    with pytest.raises(expected) as refusal:
        await scripted.client.read_resource("crib://nowhere")

    assert "crib://nowhere" in str(refusal.value)


async def test_prompts_are_listed_with_their_arguments(scripted: ScriptedClient) -> None:
    (prompt,) = await scripted.client.list_prompts()

    assert (prompt.name, prompt.description) == ("explain", "Explain a topic.")
    assert [(argument.name, argument.required) for argument in prompt.arguments] == [("topic", True), ("tone", False)]


async def test_a_prompt_keeps_its_name_messages_and_arguments(scripted: ScriptedClient) -> None:
    prompt = await scripted.client.get_prompt("explain", {"topic": "bees", "tone": "dry"})

    assert (prompt.name, dict(prompt.arguments)) == ("explain", {"topic": "bees", "tone": "dry"})
    assert [(message.role, message.content) for message in prompt.messages] == [
        ("user", tc.TextContent("Explain bees in a dry tone."))
    ]


async def test_an_unknown_prompt_is_refused_with_a_type(scripted: ScriptedClient) -> None:
    with pytest.raises((tc.RemoteError, tc.NotFound)):
        await scripted.client.get_prompt("expound", {"topic": "bees"})


async def test_an_argument_of_a_prompt_is_completed(scripted: ScriptedClient) -> None:
    completion = await scripted.client.complete({"type": "ref/prompt", "name": "explain"}, "topic", "ap")

    assert completion.values == ("apples", "apricots")
    assert not completion.has_more


async def test_completion_receives_the_earlier_choices(scripted: ScriptedClient) -> None:
    ref = {"type": "ref/prompt", "name": "explain"}

    completion = await scripted.client.complete(ref, "tone", "k", context={"topic": "bees"})

    assert (completion.values, completion.total) == (("bees-k",), 1)
