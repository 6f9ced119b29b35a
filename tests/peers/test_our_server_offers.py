"""Clients of other SDKs at our server: resources, prompts, completion, and notifications of changes."""

from __future__ import annotations

import json

import pytest

from tests.peers.visits import Report, Visitor, bare, visit
from tests.peers.web import Servers

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="


@pytest.fixture
def seen(visitor: Visitor, web_servers: Servers) -> Report:
    return visit(visitor, "tour", web_servers)


def test_resources_and_templates_are_listed(seen: Report) -> None:
    listed, templates = seen["resources"]["listed"], seen["resources"]["templates"]

    assert [entry["uri"] for entry in listed] == ["crib://greeting", "crib://logo", "crib://counter"]
    assert listed[0] == {
        "uri": "crib://greeting",
        "name": "greeting",
        "description": "A fixed text.",
        "mimeType": "text/plain",
    }
    assert templates == [
        {
            "uriTemplate": "crib://plot/{name}",
            "name": "plot",
            "description": "A plot by name.",
            "mimeType": "application/json",
        }
    ]


def test_resources_are_read_as_text_and_as_bytes(seen: Report) -> None:
    resources = seen["resources"]

    greeting = {"uri": "crib://greeting", "mimeType": "text/plain", "text": "good day"}
    assert bare(resources["greeting"]) == {"contents": [greeting]}
    assert bare(resources["logo"]) == {"contents": [{"uri": "crib://logo", "mimeType": "image/png", "blob": PNG}]}


def test_a_template_gets_its_variables_decoded(seen: Report) -> None:
    (content,) = seen["resources"]["plot"]["contents"]

    assert (content["uri"], content["mimeType"]) == ("crib://plot/rose%20bed", "application/json")
    assert json.loads(content["text"]) == {"plot": "rose bed"}


def test_an_unknown_resource_is_an_error_of_its_era(seen: Report, visitor: Visitor) -> None:
    unknown = seen["resources"]["unknown"]

    # npm's newer client shows its caller the modern code in either era.
    assert unknown["code"] == (-32602 if visitor.is_modern or visitor.client == "npm2" else -32002)
    assert unknown["data"]["uri"] == "crib://nowhere"


def test_prompts_are_listed_and_given(seen: Report) -> None:
    (listed,) = seen["prompts"]["listed"]

    assert (listed["name"], listed["description"]) == ("explain", "Explain a topic.")
    assert [(argument["name"], argument.get("required", False)) for argument in listed["arguments"]] == [
        ("topic", True),
        ("tone", False),
    ]
    assert bare(seen["prompts"]["explain"])["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Explain bees in a kind tone."}}
    ]


def test_a_prompt_that_is_not_there_or_lacks_an_argument_is_an_error(seen: Report) -> None:
    missing, unknown = seen["prompts"]["missing"], seen["prompts"]["unknown"]

    assert missing["code"] == -32602 and "topic" in missing["message"]
    assert unknown["code"] == -32602 and "explian" in unknown["message"] and "explain" in unknown["message"]


def test_arguments_are_completed_and_know_the_others(seen: Report) -> None:
    topic, tone = seen["completion"]["topic"]["completion"], seen["completion"]["tone"]["completion"]

    assert topic["values"] == ["apples", "apricots"]
    assert topic.get("hasMore", False) is False
    assert tone["values"] == ["bees-k"]


def test_only_subscribers_are_notified_of_changes(seen: Report) -> None:
    assert seen["news"] == {
        "updated": "crib://counter",
        "grown": True,
        "cut": True,
        "without_subscription": ["notifications/tools/list_changed"],
    }
