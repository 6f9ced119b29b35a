"""The components of a server, by name and in pages."""

from __future__ import annotations

import base64
import logging
from typing import Any

import pytest

import toolcrib as tc
from toolcrib.server.components.collection import ComponentCollection
from toolcrib.types import Wire


class Thing:
    def __init__(self, name: str, version: int = 1) -> None:
        self.wire: Wire = {"name": name, "version": version}


def shelf(*names: str, kind: str = "tool") -> ComponentCollection[Thing]:
    made: ComponentCollection[Thing] = ComponentCollection(kind, lambda: None)
    for name in names:
        made.put(name, Thing(name))
    return made


def names_of(page: tuple[list[Wire], Any]) -> list[str]:
    return [entry["name"] for entry in page[0]]


def all_pages(things: ComponentCollection[Thing], size: int) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        page = things.page(cursor, size)
        pages.append(names_of(page))
        cursor = page[1]
        if cursor is None:
            return pages


def test_pages_follow_the_order_in_which_things_came() -> None:
    assert all_pages(shelf("e", "a", "d", "b", "c"), 2) == [["e", "a"], ["d", "b"], ["c"]]
    assert all_pages(shelf("a", "b"), 2) == [["a", "b"]]
    assert all_pages(shelf(), 2) == [[]]
    assert shelf("b", "a").page(None, None) == ([{"name": "b", "version": 1}, {"name": "a", "version": 1}], None)


def test_a_cursor_skips_nothing_when_things_go_and_come() -> None:
    things = shelf("a", "b", "c", "d")
    _, cursor = things.page(None, 2)
    things.remove("a")
    things.put("e", Thing("e"))
    things.put("c", Thing("c", 2))
    assert things.page(cursor, 9)[0] == [
        {"name": "c", "version": 2},
        {"name": "d", "version": 1},
        {"name": "e", "version": 1},
    ]


def forged(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "é",
        5,
        {},
        forged("tool:"),
        forged("tool:-1"),
        forged("tool:²"),
        forged("prompt:1"),
        forged("tool:" + "9" * 99),
    ],
)
def test_a_cursor_that_is_not_ours_is_refused(cursor: Any) -> None:
    with pytest.raises(tc.RemoteError, match="cursor") as caught:
        shelf("a", "b").page(cursor, 1)
    assert caught.value.code == -32602


def test_a_cursor_of_another_list_is_refused() -> None:
    _, cursor = shelf("a", "b").page(None, 1)
    with pytest.raises(tc.RemoteError):
        shelf("a", "b", kind="prompt").page(cursor, 1)


def test_the_same_name_again_replaces_in_place_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    changes: list[int] = []
    things: ComponentCollection[Thing] = ComponentCollection("tool", lambda: changes.append(1))
    for name, version in (("a", 1), ("b", 1), ("a", 2)):
        things.put(name, Thing(name, version))
    assert [thing.wire["version"] for thing in things] == [2, 1]
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "the tool 'a' already existed and was replaced"
    ]
    assert len(changes) == 3
    things.remove("a")
    assert (len(changes), len(things), things.get("a")) == (4, 1, None)


@pytest.mark.parametrize(
    "kind, error", [("tool", tc.ToolNotFound), ("resource", tc.ResourceNotFound), ("prompt", tc.NotFound)]
)
def test_removing_what_is_not_there_names_the_nearest(kind: str, error: type[tc.NotFound]) -> None:
    with pytest.raises(error, match=rf"no {kind} 'ad' to remove; did you mean 'add'\?") as caught:
        shelf("add", "multiply", kind=kind).remove("ad")
    assert caught.value.nearest == ("add",)


def test_only_texts_are_names() -> None:
    assert shelf("a").get(["a"]) is None
    assert shelf("a").nearest(5) == ()
