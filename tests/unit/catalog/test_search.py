"""Searching tools by words."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.catalog import search
from toolcrib.catalog.search import SearchIndex, terms_of
from toolcrib.catalog.tokens import estimate_tokens
from toolcrib.errors import UsageError
from toolcrib.types import Tool


def tool(server: str, name: str, description: str = "", *, title: Any = None, **parameters: Any) -> Tool:
    schema = {"type": "object", "properties": parameters}
    own = {"title": title, "description": description, "input_schema": schema}
    return Tool(f"mcp__{server}__{name}", server=server, original_name=name, **own)


CATALOG = [
    tool("github", "create_issue", "Create a new issue in a repository", repo={"description": "owner/name"}),
    tool("github", "list_issues", "List the issues of a repository, newest first", state={"type": "string"}),
    tool("github", "add_issue_comment", "Comment on an issue that exists", body={"description": "the comment"}),
    tool("github", "deleteBranch", "Removes a branch"),
    tool("github", "merge_pull_request", "Merge a pull request into its base branch"),
    tool("fs", "read_text_file", "Read the whole contents of a file as text", path={"type": "string"}),
    tool("fs", "write_file", "Create a file or overwrite it", path={"type": "string"}, content={"type": "string"}),
    tool("fs", "list_directory", "List what a directory holds", path={"type": "string"}),
    tool(
        "fs", "get_info", "Facts about an entry", title="File metadata", followSymlinks={"description": "resolve links"}
    ),
    tool("mail", "send", "Send an e-mail", recipients={"description": "addresses", "items": {"type": "string"}}),
    tool("mail", "search", "Find messages", query={"properties": {"attachmentName": {"description": "of an upload"}}}),
    tool("cal", "book", "Buche einen Termin im Büro", title="Café"),
    tool("wiki", "find", "创建一个新的问题"),
]
INDEX = SearchIndex(CATALOG)

words = st.sampled_from(["create", "issue", "file", "list", "the", "GitHub", "branch", "x"])
some_tools = st.lists(
    st.builds(
        tool,
        st.sampled_from(["a", "b", "c"]),
        st.lists(words, min_size=1, max_size=3).map("_".join),
        st.lists(words, max_size=6).map(" ".join),
    ),
    max_size=12,
    unique_by=lambda made: made.name,
)
queries = st.lists(words, max_size=4).map(" ".join)


def found(query: str, index: SearchIndex = INDEX, **options: Any) -> list[str]:
    return [str(hit.tool.original_name) for hit in index.search(query, **options)]


@pytest.mark.parametrize(
    "query,first",
    [
        ("create an issue", "create_issue"),
        ("creating issues", "create_issue"),
        ("open issues of the repository, list", "list_issues"),
        ("comment on issue", "add_issue_comment"),
        ("delete branch", "deleteBranch"),
        ("deleted branches", "deleteBranch"),
        ("merge", "merge_pull_request"),
        ("read file contents", "read_text_file"),
        ("READ_TEXT_FILE", "read_text_file"),
        ("mcp__fs__write_file", "write_file"),
        ("file metadata", "get_info"),
        ("symlinks", "get_info"),
        ("resolve", "get_info"),
        ("addresses", "send"),
        ("attachment", "search"),
        ("upload", "search"),
        ("cafe", "book"),
        ("CAFÉ", "book"),
        ("buro", "book"),
        ("问题", "find"),
        ("创建 问题", "find"),
    ],
)
def test_the_tool_that_is_meant_comes_first(query: str, first: str) -> None:
    assert found(query)[0] == first


def test_a_servers_name_finds_its_tools_however_it_is_written() -> None:
    assert set(found("github")) == set(found("GitHub")) == {t.original_name for t in CATALOG if t.server == "github"}
    assert set(found("mail")) == {"search", "send"}


def test_a_tool_that_is_called_by_its_name_comes_before_all_others() -> None:
    tools = [tool("a", "issue", "x " * 200), *(tool("b", f"issue_{n}", "issue " * 9) for n in range(20))]
    assert found("issue", SearchIndex(tools))[0] == "issue"
    assert found(" Issue ", SearchIndex(tools))[0] == "issue"
    assert found("mcp__b__issue_7", SearchIndex(tools))[0] == "issue_7"


@pytest.mark.parametrize("query", ["", "   ", "???", "zebra", "the", "日", "\ud800", "\x00"])
def test_words_that_no_tool_has_find_nothing(query: str) -> None:
    assert INDEX.search(query) == []


def test_a_common_word_counts_where_it_is_a_name() -> None:
    index = SearchIndex([tool("a", "to", "x"), tool("a", "other", "to the point")])
    assert found("to", index) == ["to"]


def test_an_empty_index_finds_nothing() -> None:
    assert SearchIndex().search("create") == []
    assert SearchIndex([Tool("")]).search("create") == []
    assert (len(SearchIndex()), len(INDEX)) == (0, len(CATALOG))


def test_a_limit_takes_the_best() -> None:
    everything = found("file issue branch", limit=100)
    assert len(everything) > 4
    for limit in range(len(everything) + 1):
        assert found("file issue branch", limit=limit) == everything[:limit]


def test_equal_scores_go_by_server_and_name() -> None:
    tools = [tool(server, name, "same words") for server in "cab" for name in ("y", "x")]
    hits = SearchIndex(tools).search("same words")
    assert len({hit.score for hit in hits}) == 1
    assert [hit.tool.name for hit in hits] == [f"mcp__{s}__{n}" for s in "abc" for n in "xy"]
    # The order of the search words does not matter either.
    assert found("early late", SearchIndex([tool("a", "x", "late"), tool("a", "y", "early")])) == ["x", "y"]


def test_a_caller_that_may_not_see_a_tool_gets_the_next_one_instead() -> None:
    all_of_them = found("issue")
    assert found("issue", limit=1, allowed=lambda t: t.original_name != all_of_them[0]) == all_of_them[1:2]
    assert found("issue", allowed=lambda _: False) == []


def test_a_tool_that_does_not_fit_the_budget_is_passed_over_for_the_next() -> None:
    large = tool("a", "issue_issue", "issue " * 300)
    small = tool("a", "other", "an issue")
    index = SearchIndex([large, small])
    assert found("issue", index) == ["issue_issue", "other"]
    assert found("issue", index, token_budget=estimate_tokens(small)) == ["other"]
    assert found("issue", index, token_budget=estimate_tokens(small) - 1) == []
    assert found("issue", index, token_budget=estimate_tokens(small) + estimate_tokens(large)) == [
        "issue_issue",
        "other",
    ]


def test_a_budget_is_for_all_tools_together() -> None:
    tools = [tool("a", f"issue_{n}", "same words") for n in range(5)]
    cost = estimate_tokens(tools[0])
    index = SearchIndex(tools)
    assert [len(found("issue", index, token_budget=n * cost - 1)) for n in range(1, 7)] == [0, 1, 2, 3, 4, 5]
    assert len(found("issue", index, token_budget=3 * cost)) == 3


@given(some_tools, queries, st.integers(0, 5), st.none() | st.integers(0, 300))
def test_limit_and_budget_are_kept_and_scores_fall(
    tools: list[Tool], query: str, limit: int, budget: int | None
) -> None:
    hits = SearchIndex(tools).search(query, limit=limit, token_budget=budget)
    assert len(hits) <= limit
    assert budget is None or sum(estimate_tokens(hit.tool) for hit in hits) <= budget
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(score > 0 for score in scores)
    assert len({hit.tool.name for hit in hits}) == len(hits)


@given(some_tools, st.lists(words, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_tools_and_of_words_does_not_matter(tools: list[Tool], asked: list[str], order: Random) -> None:
    shuffled, mixed = list(tools), list(asked)
    order.shuffle(shuffled)
    order.shuffle(mixed)
    # A query that is one exact name differs from the same words in a row.
    assert SearchIndex(tools).search(f"- {' '.join(asked)}") == SearchIndex(shuffled).search(f"- {' '.join(mixed)}")


@given(some_tools, queries)
def test_every_hit_has_a_word_of_the_query_and_every_tool_that_has_one_is_hit(tools: list[Tool], query: str) -> None:
    common = {"the"}
    asked = set(terms_of(query))
    asked = asked - common or asked
    having = {
        t.name
        for t in tools
        if asked & ({*terms_of(f"{t.original_name} {t.server}"), *(set(terms_of(t.description)) - common)})
    }
    assert {hit.tool.name for hit in SearchIndex(tools).search(query, limit=100)} == having


@given(some_tools, some_tools, queries)
def test_an_updated_index_answers_as_a_new_one_would(before: list[Tool], after: list[Tool], query: str) -> None:
    kept = [t for t in before if t.server == "a"]
    tools = [*kept, *(t for t in after if t.server != "a")]
    assert SearchIndex(before).updated(tools).search(query) == SearchIndex(tools).search(query)


def test_an_update_keeps_the_parts_of_the_servers_that_did_not_change() -> None:
    updated = INDEX.updated([*CATALOG, tool("mail", "archive", "Put away")])
    kept = {server for server, part in updated._parts.items() if part is INDEX._parts[server]}
    assert kept == {"github", "fs", "cal", "wiki"}
    assert found("archive", updated) == ["archive"]
    assert found("archive") == []
    assert found("github", updated.updated(t for t in CATALOG if t.server == "fs")) == []


@pytest.mark.parametrize(
    "text,terms",
    [
        ("read_text-file.v2", ["read", "text", "file", "v", "2", "v2"]),
        ("createIssue", ["creat", "issu", "createissu"]),
        ("HTTPServer2", ["http", "server", "2", "httpserver2"]),
        ("queries, statuses; processes", ["query", "status", "process"]),
        ("string used this bus class", ["string", "used", "this", "bus", "class"]),
        ("Straße ÉTÉ Файлы", ["strass", "ete", "фаилы"]),
        ("GitHub问题", ["git", "hub", "github", "问题"]),
        ("问题", ["问题"]),
        ("创建一", ["创建", "建一"]),
        ("é", ["e"]),
    ],
)
def test_texts_are_cut_into_words(text: str, terms: list[str]) -> None:
    assert terms_of(text) == terms


@pytest.mark.parametrize(
    "forms", [["create", "creates", "created", "creating"], ["issue", "issues"], ["search", "searches", "searching"]]
)
def test_endings_make_no_difference(forms: list[str]) -> None:
    assert len({tuple(terms_of(form)) for form in forms}) == 1


@given(st.text(st.characters(exclude_categories=()), max_size=200))
def test_any_text_can_be_cut_and_asked_for(text: str) -> None:
    assert all(terms_of(text))
    SearchIndex([tool("a", text, text)]).search(text)


STRANGE: list[Any] = [
    {"properties": []},
    {"properties": {"a": None, "b": True, "c": {"description": 7, "items": [1]}}},
    {"properties": {"a": {"properties": {"b": {"properties": "x"}}}}},
]


@pytest.mark.parametrize("schema", STRANGE)
def test_an_invalid_schema_does_no_harm(schema: Any) -> None:
    index = SearchIndex([Tool("mcp__a__find", title=7, description="me", input_schema=schema, server="a")])  # type: ignore[arg-type]
    assert len(index.search("find me")) == 1


def test_parameters_behind_references_are_found_once_each() -> None:
    point = {"properties": {"latitude": {"type": "number"}, "next": {"$ref": "#/$defs/Point"}}}
    schema = {
        "properties": {
            "origin": {"$ref": "#/$defs/Point"},
            "others": {"type": "array", "items": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}]}},
            "nested": {"$ref": "#/$defs/Nested"},
        },
        "$defs": {"Point": point, "Nested": {"type": "array", "items": {"$ref": "#/$defs/Nested"}}},
    }
    assert [name for name, _ in search._parameters(schema)] == ["origin", "others", "nested", "latitude", "next"]
    index = SearchIndex([Tool("mcp__a__route", input_schema=schema, server="a"), tool("a", "other")])
    assert [hit.tool.name for hit in index.search("latitude")] == ["mcp__a__route"]


@pytest.mark.serial
def test_a_servers_flood_of_text_and_of_parameters_is_bounded() -> None:
    endless: dict[str, Any] = {"type": "object"}
    endless["properties"] = {"again": endless}
    flood = [
        Tool("mcp__a__long", description="word " * 3_000_000 + "end", server="a"),
        Tool("mcp__a__one", description="x" * 15_000_000, server="a"),
        Tool("mcp__a__wide", input_schema={"properties": {f"p{n}": {} for n in range(200_000)}}, server="a"),
        Tool("mcp__b__deep", input_schema=endless, server="b"),
    ]
    began = time.perf_counter()
    index = SearchIndex(flood)
    assert time.perf_counter() - began < 20
    assert [hit.tool.name for hit in index.search("word")] == ["mcp__a__long"]
    assert index.search("end") == []
    assert [hit.tool.name for hit in index.search("again")] == ["mcp__b__deep"]


@pytest.mark.serial
def test_a_query_is_bounded_too() -> None:
    began = time.perf_counter()
    assert found("issue " + "zebra " * 1_000_000)
    assert time.perf_counter() - began < 5
    assert found("zebra " * 100_000 + "issue") == []


@pytest.mark.parametrize(
    "query,options",
    [
        (7, {}),
        (None, {}),
        ("x", {"limit": -1}),
        ("x", {"limit": 1.5}),
        ("x", {"token_budget": -1}),
        ("x", {"token_budget": "many"}),
    ],
)
def test_a_wrong_question_is_the_callers_mistake(query: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        INDEX.search(query, **options)


@pytest.mark.serial
def test_ten_thousand_tools_are_indexed_and_searched_in_no_time() -> None:
    """Two hundred servers with fifty tools each; the bounds are at least ten times the goals."""
    verbs, nouns = ["create", "get", "list", "update", "delete"], [f"thing{n}" for n in range(10)]
    tools = [
        tool(f"s{s}", f"{v}_{n}", f"{v} the {n} of server {s} " + "with some more words on what it does " * 6)
        for s in range(200)
        for v in verbs
        for n in nouns
    ]
    began = time.perf_counter()
    index = SearchIndex(tools)
    assert time.perf_counter() - began < 30
    times = []
    for _ in range(5):
        began = time.perf_counter()
        hits = index.search("delete thing7 of s42", limit=5, token_budget=2_000)
        times.append(time.perf_counter() - began)
        assert hits[0].tool.name == "mcp__s42__delete_thing7"
    assert len(index) == 10_000
    assert min(times) < 0.5
