"""Qualified names, slugs and aliases."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from toolcrib import tool_names
from toolcrib.errors import ConfigError, UsageError

server_names = st.from_regex(tool_names.SERVER_NAME, fullmatch=True)
# Some are so long that the cut is within the server's part, or right at the separator.
long_server_names = server_names | st.integers(40, 64).map(lambda n: "x" * n)
legal_alias = re.compile(r"[A-Za-z0-9_-]{1,64}")
# Names that meet at the seams: separators, and characters that a repair turns into one.
tricky_text = st.text(st.sampled_from("ab_-. é"), max_size=12) | st.text(max_size=100)


def test_a_qualified_name_says_server_and_tool() -> None:
    assert tool_names.make("math-tools", "add") == "mcp__math-tools__add"


@pytest.mark.parametrize("server", ["", "a__b", "_a", "a_", "a b", "a.b", "é", "a\n", "mcp/x"])
def test_a_server_name_that_could_collide_is_refused_and_named(server: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tool_names.make(server, "tool")
    assert caught.value.key == "name"
    assert repr(server) in str(caught.value)


@given(server_names, st.text(), server_names, st.text())
def test_no_two_pairs_of_server_and_tool_have_the_same_name(s1: str, t1: str, s2: str, t2: str) -> None:
    assume((s1, t1) != (s2, t2))
    assert tool_names.make(s1, t1) != tool_names.make(s2, t2)


@given(st.data())
def test_a_server_and_a_tool_cut_from_one_text_never_meet_another_cut(data: st.DataObject) -> None:
    """The dangerous case: `a` + `b__c` and `a__b` + `c`."""
    text = data.draw(st.lists(st.sampled_from(["a", "b", "_", "__", "-"]), min_size=2).map("".join))
    cuts = [(text[:i], text[j:]) for i in range(len(text)) for j in (i, i + 1, i + 2)]
    made = [tool_names.make(server, tool) for server, tool in set(cuts) if tool_names.is_server_name(server)]
    assert len(made) == len(set(made))


@pytest.mark.parametrize(
    "display,expected",
    [
        ("github", "github"),
        ("GitHub MCP", "GitHub-MCP"),
        ("a__b", "a_b"),
        ("_private_", "private"),
        ("Café: le serveur!", "Cafe-le-serveur"),
        ("日本語", "server"),
        ("", "server"),
    ],
)
def test_a_display_name_becomes_a_readable_slug(display: str, expected: str) -> None:
    assert tool_names.slug(display) == expected


def test_a_slug_that_is_taken_is_counted_on() -> None:
    assert tool_names.slug("My Server", {"My-Server", "My-Server-2"}) == "My-Server-3"


@given(st.lists(tricky_text, max_size=8))
def test_slugs_are_legal_and_unique(displays: list[str]) -> None:
    taken: set[str] = set()
    for display in displays:
        made = tool_names.slug(display, taken)
        assert tool_names.is_server_name(made)
        assert made not in taken
        taken.add(made)


@given(server_names)
def test_a_legal_server_name_is_its_own_slug(name: str) -> None:
    assert tool_names.slug(name) == name


def test_a_name_that_fits_is_its_own_alias() -> None:
    assert tool_names.alias("mcp__fs__read_file") == "mcp__fs__read_file"
    assert tool_names.alias("x" * 64) == "x" * 64


def test_a_repaired_alias_is_readable_and_the_same_in_every_process() -> None:
    assert tool_names.alias("mcp__fs__read.file") == "mcp__fs__read_file_0516bd5b"


@given(tricky_text)
def test_an_alias_is_always_legal_and_deterministic(name: str) -> None:
    made = tool_names.alias(name)
    assert legal_alias.fullmatch(made)
    assert made == tool_names.alias(name)


@given(st.sets(tricky_text, max_size=20), st.integers(16, 64), st.randoms(use_true_random=False))
def test_aliases_are_unique_whatever_the_order(given_names: set[str], limit: int, order: object) -> None:
    in_order = sorted(given_names)
    shuffled = list(in_order)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    tables = []
    for sequence in (in_order, shuffled):
        table: dict[str, str] = {}
        for name in sequence:
            made = tool_names.alias(name, table, limit)
            assert made not in table
            assert len(made) <= limit
            table[made] = name
        tables.append(table)
    assert tables[0] == tables[1]


@given(st.sets(st.tuples(long_server_names, tricky_text), max_size=12), st.randoms(use_true_random=False))
def test_server_and_tool_come_back_by_table_whatever_the_order(pairs: set[tuple[str, str]], order: Random) -> None:
    """A tool gets a qualified name and an alias for a model, and both lead back to its server."""
    listed = sorted(pairs)
    order.shuffle(listed)
    qualified = {tool_names.make(*pair): pair for pair in listed}
    aliases: dict[str, str] = {}
    for name in qualified:
        aliases[tool_names.alias(name, aliases)] = name
    assert len(qualified) == len(aliases) == len(pairs)
    assert all(legal_alias.fullmatch(made) for made in aliases)
    assert {qualified[name] for name in aliases.values()} == pairs


@given(long_server_names, tricky_text)
@example("x" * 49 + "_" + "y" * 10, "tool")
@example("x" * 49, "a" * 20)
def test_the_alias_of_a_servers_tool_is_never_the_name_of_another_servers(server: str, tool: str) -> None:
    """Otherwise that server could offer a tool of this name and receive calls meant for the first."""
    made = tool_names.alias(tool_names.make(server, tool))
    cuts = [i for i in range(5, len(made)) if made.startswith("__", i) and tool_names.is_server_name(made[5:i])]
    assert {made[5:cut] for cut in cuts} <= {server}


def test_a_name_that_squats_on_anothers_alias_does_not_get_it_twice() -> None:
    squatter = tool_names.alias("a.b")
    assert tool_names.alias("a.b", {squatter}) != squatter
    assert tool_names.alias(squatter, {squatter}) != squatter


def test_a_limit_too_short_for_the_hash_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError):
        tool_names.alias("anything", limit=10)
