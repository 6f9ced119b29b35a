"""Clients of other SDKs at our server: calls that request input, cancelled calls, and streams that end early."""

from __future__ import annotations

from typing import Any

import pytest

from tests.peers.kit import ROOTS
from tests.peers.visits import BARE, OVER_HTTP, Report, Visitor, our_server, visit, watched_visit
from tests.peers.web import Relay, Servers

LEGACY = pytest.mark.visitors(OVER_HTTP.where(lambda visitor: not visitor.is_modern))
MODERN = pytest.mark.visitors(OVER_HTTP.where(lambda visitor: visitor.is_modern))


@pytest.fixture
def seen(visitor: Visitor, web_servers: Servers) -> Report:
    return visit(visitor, "tour", web_servers)


def test_a_tool_lets_the_visitors_model_answer(seen: Report) -> None:
    assert seen["questions"]["sampled"] == "m-1 said echo of what is it?"
    asked = seen["questions"]["sampling"]
    assert asked["messages"] == [{"role": "user", "content": {"type": "text", "text": "what is it?"}}]
    assert (asked["maxTokens"], asked["systemPrompt"]) == (64, "Be brief.")


def test_a_tool_asks_the_person_who_accepts_declines_or_cancels(seen: Report) -> None:
    questions = seen["questions"]

    assert questions["accepted"] == "hello WHO?"
    assert questions["declined"] == "decline"
    assert questions["cancelled"] == "cancel"
    asked = questions["asking"]
    assert (asked["message"], asked.get("mode", "form")) == ("who?", "form")
    assert asked["requestedSchema"]["properties"]["name"]["type"] == "string"
    assert asked["requestedSchema"]["required"] == ["name"]


def test_one_call_may_ask_twice(seen: Report) -> None:
    assert seen["questions"]["interview"] == "NAME? likes red"
    assert seen["questions"]["interviewed"] == ["name?", "colour?"]


def test_a_person_is_sent_to_a_page(seen: Report) -> None:
    assert seen["ours_only"]["page"] == "accept"
    asked = seen["ours_only"]["asking"]
    assert (asked["mode"], asked["url"]) == ("url", "https://crib.example/sign?a=1")
    assert asked["message"] == "sign there"


def test_a_tool_is_given_the_roots(seen: Report) -> None:
    assert seen["questions"]["roots"] == {"result": ROOTS}


@pytest.mark.visitors(BARE)
def test_a_client_without_handlers_is_not_asked(visitor: Visitor, web_servers: Servers) -> None:
    seen = visit(visitor, "bare", web_servers)

    wanted: dict[str, Any] = {"ask_model": {"sampling": {}}, "ask_user": {"elicitation": {"form": {}}}}
    wanted["roots"] = {"roots": {}}
    for tool, required in wanted.items():
        if visitor.is_modern:
            refused = seen[tool]["refused"]
            assert refused["code"] == -32021
            assert refused["data"] == {"requiredCapabilities": required}
        else:
            assert seen[tool]["isError"] is True
            assert next(iter(required)) in seen[tool]["content"][0]["text"]
    assert seen["after"] == "still here"


def test_a_call_that_is_given_up_is_cancelled(seen: Report) -> None:
    assert seen["given_up"] == ["started", "cancelled"]


@LEGACY
def test_a_call_that_was_given_up_is_not_resumed_forever(seen: Report, visitor: Visitor) -> None:
    # npm's older client ignores the error and tries twice before it gives up.
    assert seen["after_giving_up"] == 0 or (visitor.client == "npm1" and seen["after_giving_up"] <= 2)


@LEGACY
def test_a_call_whose_stream_the_tool_closed_is_brought_to_its_end(seen: Report, visitor: Visitor) -> None:
    detached = seen["detached"]

    assert detached["text"] == "finished apart"
    assert detached["requests"] == ["POST", "GET again"]
    assert detached["steps"] == [1, 2] or (visitor.is_npm and detached["steps"] == [1])


@pytest.mark.slow
@LEGACY
async def test_a_cut_connection_is_taken_up_again_and_nothing_runs_twice(
    visitor: Visitor, web_servers: Servers
) -> None:
    async with Relay(our_server(web_servers, "http").port) as relay:
        seen = await watched_visit(visitor, "sleep", relay.url("mcp"), relay.cut, web_servers)

    assert seen["result"]["content"] == [{"type": "text", "text": "rested"}]
    assert seen["naps"] == ["started", "rested"]
    assert "GET again" in seen["requests"]


@pytest.mark.slow
@LEGACY
async def test_changes_while_the_get_stream_was_cut_are_received_afterwards(
    visitor: Visitor, web_servers: Servers
) -> None:
    async with Relay(our_server(web_servers, "http").port) as relay:
        seen = await watched_visit(visitor, "hear", relay.url("mcp"), relay.cut, web_servers)

    assert seen["notified"] == ["notifications/tools/list_changed"]
    assert seen["requests"].count("GET again") == 1


@pytest.mark.slow
@MODERN
async def test_in_the_modern_era_a_cut_call_is_over(visitor: Visitor, web_servers: Servers) -> None:
    async with Relay(our_server(web_servers, "http").port) as relay:
        seen = await watched_visit(visitor, "sleep", relay.url("mcp"), relay.cut, web_servers)

    assert "raised" in seen["result"]
    assert seen["naps"] == ["started", "cancelled"]


@pytest.mark.slow
# FastMCP's client always ends its session when it goes, and so its calls.
@pytest.mark.visitors(OVER_HTTP.where(lambda visitor: not visitor.is_modern and visitor.client != "fastmcp4"))
def test_a_call_goes_on_when_its_visitor_leaves_without_a_word(visitor: Visitor, web_servers: Servers) -> None:
    assert visit(visitor, "leave", web_servers)["naps"] == ["started", "rested"]


@pytest.mark.slow
@MODERN
def test_in_the_modern_era_a_call_ends_when_its_visitor_leaves(visitor: Visitor, web_servers: Servers) -> None:
    assert visit(visitor, "leave", web_servers)["naps"] == ["started", "cancelled"]


@pytest.mark.slow
@LEGACY
def test_a_call_ends_with_the_session_that_its_visitor_ends(visitor: Visitor, web_servers: Servers) -> None:
    assert visit(visitor, "part", web_servers)["naps"] == ["started", "cancelled"]
