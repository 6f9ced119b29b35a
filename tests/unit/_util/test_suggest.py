"""Similar names: the right ones, and bounded work however many names there are."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import Any

import pytest

import toolcrib as tc
from tests.hub.kit import played
from tests.unit.kit import LEGACY, PlayedServer
from toolcrib._util.suggest import (
    MAX_COMPARED,
    MAX_LENGTH,
    did_you_mean,
    find_misspelled,
    shortlist,
    similar_names,
    suggest,
)
from toolcrib.catalog.routing import nearest

MANY = [f"tool_{number:04}_{verb}_issue" for number in range(1250) for verb in ("create", "delete", "find", "close")]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count how often two names are compared letter by letter."""
    count = Counter[str]()
    original = difflib.SequenceMatcher.set_seq1

    def set_seq1(self: Any, text: str) -> None:
        count["names"] += 1
        count["longest"] = max(count["longest"], len(text))
        original(self, text)

    monkeypatch.setattr(difflib.SequenceMatcher, "set_seq1", set_seq1)
    return count


@pytest.mark.parametrize(
    "name, expected",
    [
        ("tool_0777_creat_issue", "tool_0777_create_issue"),
        ("tool_1249_fnd_issue", "tool_1249_find_issue"),
        ("tool_0001_CLOSE_issue", "tool_0001_close_issue"),
        ("tool_0600_delete_isue", "tool_0600_delete_issue"),
    ],
)
def test_the_most_similar_of_five_thousand_names_is_found(name: str, expected: str) -> None:
    assert similar_names(name, MANY)[0] == expected
    assert nearest(f"mcp__s__{name}", [f"mcp__s__{each}" for each in MANY])[0] == f"mcp__s__{expected}"


def test_few_names_are_found_as_difflib_finds_them() -> None:
    few = ["read_file", "write_file", "list_files", "delete_file", "ReadFile", "x"]
    for name in ("reed_file", "list_file", "readfile", "y", "", "delete"):
        assert list(similar_names(name, few)) == difflib.get_close_matches(name, few, 3)


def test_nothing_similar_is_nothing() -> None:
    assert similar_names("zzz", MANY) == nearest("zzz", MANY) == ()
    assert did_you_mean(()) == did_you_mean((), given="x") == suggest("zzz", MANY) == ""


def test_all_suggestions_are_worded_alike() -> None:
    assert did_you_mean(("a", "b")) == "; did you mean 'a' or 'b'?"
    assert did_you_mean(["a"], given="aa", separator=", ") == ", did you mean 'a' instead of 'aa'?"
    assert suggest("nmae", ["name", "names", "other"]) == "; did you mean 'name'?"
    assert suggest("nmae", ["name"], separator="") == "did you mean 'name'?"


@pytest.mark.parametrize(
    "names, found",
    [
        (["x", "comand", "comands"], ("comand", "command")),
        (["command", "ulr"], None),  # a name that is known is not misspelled
        (["comments", "note"], None),  # similar enough for a suggestion, not for a guess
        (["command" * 10_000], None),
        ([], None),
    ],
)
def test_a_name_counts_as_misspelled_only_if_it_is_very_similar(
    names: list[str], found: tuple[str, str] | None
) -> None:
    assert find_misspelled(names, ["command", "url"]) == found


@pytest.mark.parametrize("name", ["tool_0777_creat_issue", "tool", "t" * 10_000, "issue_" * 33])
def test_only_a_limited_number_of_names_is_compared(compared: Counter[str], name: str) -> None:
    known = [*MANY, *("t" * length for length in range(MAX_LENGTH, 2 * MAX_LENGTH))]
    similar_names(name, known)
    assert compared["names"] <= MAX_COMPARED + 1  # difflib sets an empty text first
    assert compared["longest"] <= MAX_LENGTH
    compared.clear()
    nearest(name, known)
    assert compared["names"] <= 2 * MAX_COMPARED + 2


def test_the_short_list_keeps_the_order_of_the_names() -> None:
    short = shortlist("tool_0777_creat_issue", MANY)
    assert len(short) == MAX_COMPARED
    assert short == sorted(short, key=MANY.index)


async def test_an_unknown_tool_of_a_large_server_is_compared_with_few_names(compared: Counter[str]) -> None:
    listed = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in MANY]}
    unknown = tc.RemoteError(-32602, "unknown tool")
    server = PlayedServer(initialize=LEGACY, tools__list=listed, tools__call=unknown)
    async with tc.Client(server) as client:
        await client.list_tools()
        compared.clear()
        with pytest.raises(tc.ToolNotFound) as caught:
            await client.call_tool("tool_0777_creat_issue")
    assert caught.value.nearest[0] == "tool_0777_create_issue"
    assert compared["names"] <= MAX_COMPARED + 1


async def test_an_unknown_tool_of_a_large_hub_is_compared_with_few_names(compared: Counter[str]) -> None:
    async with tc.Hub({"s": played(*MANY)}) as hub:
        compared.clear()
        with pytest.raises(tc.ToolNotFound) as caught:
            await hub.call_tool("mcp__s__tool_0777_creat_issue")
    assert caught.value.nearest[0] == "mcp__s__tool_0777_create_issue"
    assert compared["names"] <= 2 * MAX_COMPARED + 2
