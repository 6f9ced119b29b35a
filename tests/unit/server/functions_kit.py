"""Shared parts of the tests of functions as tools: types, JSON values, a request that records what is sent back."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import typing_extensions
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from toolcrib.server.context import Context
from toolcrib.server.functions.signature import Signature
from toolcrib.server.handler import Peer, RequestContext

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["", "1", "x", "red", "2020-01-02", 10**400, -1, 0.5])
)
json_values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=4), v, max_size=4), max_leaves=10
)


class Said:
    """The messages back to the client: records notifications, and answers requests with `answers`."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.notified: list[tuple[str, dict[str, Any]]] = []
        self.answers = answers or {}

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        self.notified.append((method, params))

    async def ask(self, method: str, params: dict[str, Any], key: str | None) -> dict[str, Any]:
        return dict(self.answers[method])

    async def pause(self) -> None:
        raise NotImplementedError


def request(said: Said) -> Context:
    """Return a context whose client requests progress."""
    peer = Peer("2025-11-25", modern=False, capabilities={"roots": {}}, principal="me")
    return Context(RequestContext(peer, said, 7, {"progressToken": "t"}))


def text_of(result: dict[str, Any]) -> str:
    """Return the only text of a result."""
    (block,) = result["content"]
    assert block["type"] == "text"
    return str(block["text"])


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    size: typing.Required[int]
    note: str


class Both(Options):
    points: list[Options]
    more: NotRequired[Options]


class Newer(typing_extensions.TypedDict):
    size: int


class Item(BaseModel):
    title: str
    count: Annotated[int, Field(ge=0, title="How many")] = 1
    parts: list[Item] = []


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Odd:
    """A type that Pydantic does not know."""


def of_type(annotation: Any, default: Any = ...) -> Signature:
    """Return a function with one parameter `a`."""

    def function(a: Any) -> Any:
        return a

    function.__annotations__ = {"a": annotation}
    if default is not ...:
        function.__defaults__ = (default,)
    return Signature(function)


def of_a(signature: Signature) -> Any:
    return signature.schema["properties"]["a"]
