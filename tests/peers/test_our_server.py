"""Clients of other SDKs at our server: handshake, listing and calling tools, progress."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.peers.visits import Report, Visitor, bare, visit
from tests.peers.web import Servers

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
TOOLS = [
    "add", "echo", "forecast", "numbers", "nothing", "picture", "fail", "refuse", "showcase", "count",
    "count_in_a_thread", "march", "chatter", "ask_model", "ask_user", "ask_page", "interview", "roots", "who", "ship",
    "nap", "nap_log", "detach", "grow", "cut", "touch",
]  # fmt: skip


@pytest.fixture
def seen(visitor: Visitor, web_servers: Servers) -> Report:
    return visit(visitor, "tour", web_servers)


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_a_visitor_is_greeted_in_its_own_era(seen: Report, visitor: Visitor) -> None:
    hello = seen["hello"]

    assert hello["version"] == visitor.version
    assert hello["server"] == {"name": "our-crib", "version": "3.2.1"}
    assert hello["instructions"] == "A server to try things on."
    assert {"tools", "resources", "prompts", "completions", "logging"} <= hello["capabilities"].keys()
    assert hello["capabilities"]["tools"] == {"listChanged": True}
    assert hello["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}


def test_tools_come_in_pages_in_the_order_in_which_they_were_added(seen: Report) -> None:
    assert seen["tools"]["pages"] == [TOOLS[:10], TOOLS[10:20], TOOLS[20:]]


def test_a_tool_is_described_by_its_function(seen: Report) -> None:
    add, echo = seen["tools"]["add"], seen["tools"]["echo"]

    assert add["description"] == "Add two numbers."
    assert add["inputSchema"]["properties"] == {"a": {"type": "integer"}, "b": {"type": "integer"}}
    assert add["inputSchema"]["required"] == ["a", "b"]
    assert add["outputSchema"]["properties"] == {"result": {"type": "integer"}}
    assert "outputSchema" not in echo


def test_a_page_that_was_never_given_out_is_refused(seen: Report) -> None:
    assert seen["bad_cursor"]["code"] == -32602


def test_results_of_each_shape_arrive(seen: Report) -> None:
    results = {name: bare(result) for name, result in seen["results"].items()}

    assert results["add"] == {"content": [text("42")], "structuredContent": {"result": 42}}
    assert results["echo"] == {"content": [text("grüße, 庭\nsecond line")]}
    assert results["forecast"]["structuredContent"] == {"city": "Bonn", "degrees": 21.5}
    assert json.loads(results["forecast"]["content"][0]["text"]) == {"city": "Bonn", "degrees": 21.5}
    assert results["numbers"]["structuredContent"] == {"result": [0, 1, 2]}
    assert results["showcase"]["content"] == [
        text("first"),
        {"type": "image", "data": PNG, "mimeType": "image/png"},
        {"type": "audio", "data": base64.b64encode(b"RIFF").decode(), "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "crib://greeting", "name": "greeting"},
        {"type": "resource", "resource": {"uri": "crib://inside", "mimeType": "text/plain", "text": "inside"}},
    ]
    assert not any("isError" in result for result in results.values())


def test_bytes_are_what_their_mime_type_says_and_none_is_empty_content(seen: Report) -> None:
    assert bare(seen["ours_only"]["picture"])["content"] == [{"type": "image", "data": PNG, "mimeType": "image/png"}]
    assert bare(seen["ours_only"]["nothing"]) == {"content": []}


def test_modern_results_say_that_they_are_whole_and_whose_they_are(seen: Report, visitor: Visitor) -> None:
    echo, read = seen["results"]["echo"], seen["resources"]["greeting"]

    if not visitor.is_modern:
        assert (echo.keys(), read.keys()) == ({"content"}, {"contents"})
        return
    for result in (echo, read):
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "our-crib", "version": "3.2.1"}
        assert visitor.is_npm or result["resultType"] == "complete"  # npm removes the field
    assert (read["ttlMs"], read["cacheScope"]) in [(0, "private"), (0, "public")]


def test_what_fails_in_a_tool_is_a_result_that_says_why(seen: Report) -> None:
    failed = bare(seen["failures"]["fail"])

    assert failed["isError"] is True
    assert failed["content"] == [text("boom")]


@pytest.mark.parametrize("case, argument", [("wrong", "a"), ("missing", "b")])
def test_wrong_arguments_are_named_in_a_result(seen: Report, case: str, argument: str) -> None:
    failed = bare(seen["failures"][case])

    assert failed["isError"] is True
    (block,) = failed["content"]
    assert "add" in block["text"] and f"{argument}: " in block["text"]


def test_an_unknown_tool_is_an_error_that_names_the_nearest(seen: Report) -> None:
    unknown = seen["failures"]["unknown"]

    assert unknown["code"] == -32602
    assert "forecst" in unknown["message"] and "'forecast'" in unknown["message"]


def test_a_tool_may_answer_with_its_own_error(seen: Report) -> None:
    assert seen["ours_only"]["refused"] == {"code": 1234, "message": "not today", "data": {"until": "tomorrow"}}


def test_progress_arrives_in_order_and_before_the_result(seen: Report, visitor: Visitor) -> None:
    *steps, last = seen["progress"]

    assert last == "counted 3"
    expected = [[1, 3, "step 1"], [2, 3, "step 2"], [3, 3, "step 3"]]
    if visitor.is_npm:
        # npm's client drops its progress handler when it reads the result, before it has delivered all progress.
        assert [step for step in expected if step in steps] == steps
    else:
        assert steps == expected


def test_a_function_in_a_thread_reports_progress_too(seen: Report, visitor: Visitor) -> None:
    *steps, last = seen["ours_only"]["thread"]

    assert last == "counted 3"
    assert steps == [1, 2, 3] or (visitor.is_npm and steps == sorted(steps))


def test_progress_goes_on_after_a_question(seen: Report, visitor: Visitor) -> None:
    *steps, last = seen["ours_only"]["march"]

    assert last == "marched 3"
    # An answer of the modern era ends each round, and with it npm forgets what came just before.
    assert steps == [1, 2, 3] or (visitor.is_npm and visitor.is_modern and steps == sorted(steps))


def test_logs_come_from_the_level_that_was_asked_for(seen: Report) -> None:
    assert [without_meta(entry) for entry in seen["logs"]] == [
        {"level": "warning", "logger": "crib", "data": "c"},
        {"level": "error", "logger": "crib", "data": "d"},
    ]


def test_a_tool_knows_the_caller(seen: Report, visitor: Visitor) -> None:
    who = seen["ours_only"]["who"]

    assert {"name": "guest", "version": "1.2.3"}.items() <= who["client"].items()
    assert who["version"] == visitor.version
    assert {"elicitation", "roots", "sampling"} <= set(who["can"])
    assert who["session"] == (not visitor.is_modern and visitor.transport != "stdio")


def test_arguments_that_are_declared_as_headers_arrive_by_both_ways(seen: Report, visitor: Visitor) -> None:
    shipped = seen["ours_only"]["shipped"]

    assert (shipped["region"], shipped["weight"]) == ("grüße", 7)
    expected = ["mcp-param-region", "mcp-param-weight"] if visitor.is_modern and visitor.transport == "http" else []
    assert shipped["headers"] == expected


def test_many_calls_at_once_get_each_its_own_answer(seen: Report) -> None:
    assert seen["crowd"] == {
        "sums": [str(n + 1) for n in range(16)],
        "answers": [f"hello N{n}" for n in range(8)],
    }


def test_a_ping_is_answered_in_the_era_that_has_it(seen: Report, visitor: Visitor) -> None:
    if not visitor.is_modern:
        assert seen["ping"] == {}
    elif not visitor.is_npm:  # which does not even send it
        assert seen["ping"]["code"] == -32601


def without_meta(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "_meta"}
