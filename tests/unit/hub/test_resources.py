"""Queries for resources: values composed step by step, and what they match."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError, ToolcribError
from toolcrib.hub.resources import BinaryResource, ResourceQuery
from toolcrib.types import Resource

FILE = Resource("file:///docs/ada/notes.txt", "notes", mime_type="text/plain", server="fs")


class Shelf:
    """Answers a query at once, as a sync hub does."""

    def __init__(self, *resources: Resource) -> None:
        self.resources = resources

    def find(self, query: ResourceQuery) -> list[Resource]:
        mine = [each for each in self.resources if query.of_server in (None, each.server)]
        return [each for each in mine if query.matches(each)]


def test_a_query_without_conditions_matches_everything() -> None:
    assert ResourceQuery().matches(FILE)
    assert ResourceQuery().matches(Resource(""))


@pytest.mark.parametrize(
    "pattern, found",
    [
        ("file://*", True),
        ("file:///docs/*", True),
        ("*.txt", True),
        ("*ada*notes*", True),
        ("file:///docs/ada/notes.txt", True),
        ("file:///docs", False),
        ("FILE://*", False),
        ("*.md", False),
        ("file:///docs/ada/?otes.txt", False),
        ("", False),
    ],
)
def test_a_pattern_is_over_the_whole_uri_and_its_star_crosses_slashes(pattern: str, found: bool) -> None:
    assert ResourceQuery().pattern(pattern).matches(FILE) is found


@pytest.mark.parametrize(
    "asked, given, found",
    [
        ("text/plain", "text/plain", True),
        ("text/plain", "text/plain; charset=utf-8", True),
        ("Text/Plain", "TEXT/plain", True),
        ("text/plain; charset=utf-8", "text/plain", True),
        ("text/*", "text/html", True),
        ("*", "image/png", True),
        ("text/plain", "text/html", False),
        ("text", "text/plain", False),
        ("*", None, False),
        ("*", 7, False),
    ],
)
def test_a_type_is_compared_without_its_parameters_and_case(asked: str, given: Any, found: bool) -> None:
    assert ResourceQuery().mime_type(asked).matches(Resource("a:", mime_type=given)) is found


def test_a_name_has_a_form_too() -> None:
    assert ResourceQuery().name("note*").matches(FILE)
    assert ResourceQuery().name("notes").matches(FILE)
    assert not ResourceQuery().name("note").matches(FILE)


STEPS: dict[str, tuple[Callable[[ResourceQuery], ResourceQuery], Callable[[ResourceQuery], ResourceQuery]]] = {
    "pattern": (lambda q: q.pattern("file://*"), lambda q: q.pattern("http://*")),
    "mime_type": (lambda q: q.mime_type("text/*"), lambda q: q.mime_type("image/*")),
    "name": (lambda q: q.name("notes"), lambda q: q.name("other")),
}


@pytest.mark.parametrize("wrong", [None, *STEPS])
def test_all_conditions_must_hold_in_whatever_order_they_were_said(wrong: str | None) -> None:
    chosen = [holds if name != wrong else fails for name, (holds, fails) in STEPS.items()]
    made = set()
    for order in itertools.permutations(chosen):
        query = ResourceQuery()
        for step in order:
            query = step(query)
        assert query.matches(FILE) is (wrong is None)
        made.add(query)
    assert len(made) == 1


def test_a_step_makes_a_new_query_and_the_last_word_holds() -> None:
    first = ResourceQuery().pattern("a*")
    second = first.pattern("b*")
    assert first.matches(Resource("ab")) and not first.matches(Resource("ba"))
    assert second.matches(Resource("ba")) and not second.matches(Resource("ab"))
    assert ResourceQuery() == ResourceQuery()
    assert ResourceQuery().server("a").server("b").of_server == "b"


def test_a_query_is_a_value() -> None:
    query = ResourceQuery().server("fs").pattern("file://*").mime_type("text/plain").name("n*")
    assert pickle.loads(pickle.dumps(query)) == copy.deepcopy(query) == query
    assert hash(query) == hash(copy.deepcopy(query))
    assert pickle.loads(pickle.dumps(query)).matches(FILE)


def test_executing_gives_what_the_resources_give() -> None:
    other = Resource("file:///x", mime_type="text/plain", server="other")
    shelf = Shelf(FILE, other)
    assert ResourceQuery().pattern("file://*").execute(shelf) == [FILE, other]
    assert ResourceQuery().server("fs").pattern("file://*").mime_type("text/plain").execute(shelf) == [FILE]


@pytest.mark.parametrize("step", ["server", "pattern", "mime_type", "name"])
@pytest.mark.parametrize("value", [None, 7, ["a"], b"a"])
def test_a_condition_that_is_not_text_is_a_config_error_that_names_it(step: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=step) as caught:
        getattr(ResourceQuery(), step)(value)
    assert caught.value.key == step


@given(st.text(max_size=30), st.text(max_size=10), st.text(max_size=10))
def test_a_uri_matches_itself_and_its_beginning_with_a_star(uri: str, head: str, tail: str) -> None:
    assert ResourceQuery().pattern(uri).matches(Resource(uri))
    assert ResourceQuery().pattern(head + "*").matches(Resource(head + uri))
    assert ResourceQuery().pattern("*" + tail).matches(Resource(uri + tail))


def test_bytes_that_are_not_text_raise_their_own_error_type() -> None:
    error = BinaryResource("not text", server="fs", uri="a:", mime_type="image/png")
    assert isinstance(error, ToolcribError)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (twin.server, twin.uri, twin.mime_type, str(twin)) == ("fs", "a:", "image/png", "fs: not text")
