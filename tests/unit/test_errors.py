"""The exception tree as documented, with the attributes that programs rely on."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

from toolcrib import errors
from toolcrib.errors import (
    AccessDenied,
    AuthError,
    BinaryResource,
    CallTimeout,
    ConfigError,
    ConnectError,
    ConnectionLost,
    ConsentRefused,
    InvalidArguments,
    IssuerUnavailable,
    MissingCredential,
    MissingVariables,
    NotFound,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    RemoteError,
    ResourceNotFound,
    ReviewConflict,
    ServerNotFound,
    SessionExpired,
    StartError,
    StoreError,
    ToolcribError,
    ToolFailed,
    ToolNotFound,
    TransportError,
    UnansweredTimeout,
    UsageError,
)
from toolcrib.types import ToolResult

PLACE = {"server": "fs", "tool": "read"}
FULL: list[tuple[Exception, dict[str, Any]]] = [
    (ToolcribError("m", **PLACE), PLACE),
    (ConfigError("m", file="f", key="k", expected="e", server="fs"), {"file": "f", "key": "k", "expected": "e"}),
    (TransportError("m", **PLACE, status=502), {**PLACE, "sent": False, "status": 502}),
    (ConnectError("m", server="fs", status=404, permanent=True), {"sent": False, "status": 404, "permanent": True}),
    (
        StartError("m", server="fs", exit_code=3, stderr="oh", permanent=True),
        {"sent": False, "exit_code": 3, "stderr": "oh", "permanent": True},
    ),
    (IssuerUnavailable("m", server="as", status=503), {"sent": False, "status": 503, "permanent": False}),
    (ConnectionLost("m", **PLACE), {**PLACE, "sent": False}),
    (SessionExpired("m", status=404, **PLACE), {**PLACE, "sent": False, "status": 404}),
    (CallTimeout("m", **PLACE), {**PLACE, "sent": False}),
    (OutcomeUnknown("m", **PLACE), {**PLACE, "sent": True}),
    (UnansweredTimeout("m", **PLACE), {**PLACE, "sent": True}),
    (
        ProtocolError("m", **PLACE, status=200, content_type="text/html", sample="<html>"),
        {**PLACE, "status": 200, "content_type": "text/html", "sample": "<html>"},
    ),
    (RemoteError(-32602, "m", {"a": 1}, **PLACE), {**PLACE, "code": -32602, "data": {"a": 1}}),
    (
        AuthError("m", server="fs", status=401, challenge="Bearer", reason="r"),
        {"status": 401, "challenge": "Bearer", "reason": "r"},
    ),
    (ConsentRefused("m", server="fs", error="access_denied"), {"status": 401, "error": "access_denied"}),
    (RateLimited("m", **PLACE, retry_after=2.5), {**PLACE, "sent": False, "retry_after": 2.5}),
    (AccessDenied("m", **PLACE, rule="r"), {**PLACE, "rule": "r"}),
    (NotFound("m", **PLACE, nearest=("a",)), {**PLACE, "nearest": ("a",)}),
    (ServerNotFound("m", nearest=("a", "b")), {"nearest": ("a", "b")}),
    (ToolNotFound("m", **PLACE, nearest=("a",)), {**PLACE, "nearest": ("a",)}),
    (ResourceNotFound("m", server="fs"), {"server": "fs", "nearest": ()}),
    (BinaryResource("m", server="fs", uri="a:b", mime_type="image/png"), {"uri": "a:b", "mime_type": "image/png"}),
    (ToolFailed("m", **PLACE, result=ToolResult.from_error("m")), {**PLACE, "result": ToolResult.from_error("m")}),
    (
        ReviewConflict("m", **PLACE, expected="a", actual="b", changes=("/x: 1 -> 2",)),
        {**PLACE, "sent": False, "expected": "a", "actual": "b", "changes": ("/x: 1 -> 2",)},
    ),
    (MissingVariables("m", server="fs", names=("A", "B")), {"sent": False, "names": ("A", "B"), "expected": "A, B"}),
    (MissingCredential("m", server="fs", slots=("TOKEN",)), {"sent": False, "slots": ("TOKEN",)}),
    (InvalidArguments("m", **PLACE, problems=("a: missing",)), {**PLACE, "sent": False, "problems": ("a: missing",)}),
    (StoreError("m", operation="commit"), {"sent": False, "operation": "commit"}),
    (UsageError("m"), {}),
]
CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]


def test_every_error_is_tried_here() -> None:
    assert {type(error) for error, _ in FULL} == set(CLASSES)


# ---- the tree ------------------------------------------------------------------------------------------------


def _drawn() -> dict[str, str | None]:
    """Return each name of the drawn tree with the name of its parent."""
    parents: dict[str, str | None] = {}
    stack: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").split("\n\n")[1].splitlines():
        found = re.match(r"([ |`-]*)([A-Z]\w+)( .*)?$", line)
        if not found:
            continue
        depth, name, rest = len(found[1]), found[2], found[3] or ""
        while stack and stack[-1][0] >= depth:
            stack.pop()
        parents[name] = stack[-1][1] if stack else None
        stack.append((depth, name))
        for leaf in re.findall(r"\b\w+NotFound\b", rest):
            parents[leaf] = name
    return parents


def test_the_drawing_shows_every_error() -> None:
    assert set(_drawn()) == {each.__name__ for each in CLASSES}


@pytest.mark.parametrize("name, parent", _drawn().items())
def test_an_error_hangs_where_it_is_drawn(name: str, parent: str | None) -> None:
    kind = getattr(errors, name)
    if name == "UnansweredTimeout":
        assert kind.__bases__ == (CallTimeout, OutcomeUnknown)
    elif name == "UsageError":
        assert kind.__bases__ == (RuntimeError,)
    else:
        assert kind.__bases__[0].__name__ == (parent or "Exception")


def test_a_usage_error_is_not_an_outcome_of_a_call() -> None:
    assert not issubclass(UsageError, ToolcribError)


def test_a_passed_deadline_is_also_pythons_own_timeout() -> None:
    for error in (CallTimeout("late"), UnansweredTimeout("late")):
        with pytest.raises(TimeoutError, match="late"):
            raise error
    assert not isinstance(OutcomeUnknown(), TimeoutError)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_error_has_sent(kind: type[ToolcribError]) -> None:
    possibly_executed = (OutcomeUnknown, ProtocolError, RemoteError, BinaryResource, ToolFailed)
    expected = None if kind is ToolcribError else issubclass(kind, possibly_executed)
    assert kind().sent is expected


@pytest.mark.parametrize("kind", [ToolcribError, AuthError, RateLimited, AccessDenied, NotFound, ProtocolError])
@pytest.mark.parametrize("sent", [True, False])
def test_sent_can_be_set_and_survives_a_pickle(kind: type[ToolcribError], sent: bool) -> None:
    error = pickle.loads(pickle.dumps(kind("message", sent=sent)))  # bytes written by Toolcrib
    assert error.sent is sent


def test_the_text_of_an_error_is_one_line() -> None:
    assert str(ToolcribError("first\nCRITICAL forged", server="demo")) == "demo: first CRITICAL forged"
    assert str(ToolcribError("a\x1b]0;owned\x07\u202eb")) == "a\ufffd]0;owned\ufffd\ufffdb"


# ---- attributes, text, pickle --------------------------------------------------------------------------------


@pytest.mark.parametrize("error, attributes", FULL, ids=[type(error).__name__ for error, _ in FULL])
def test_an_error_carries_what_was_said_and_survives_pickling_and_copying(
    error: Exception, attributes: dict[str, Any]
) -> None:
    for each in (error, pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(each) is type(error)
        assert {key: getattr(each, key) for key in attributes} == attributes
        assert str(each) == str(error)
        assert each.args == error.args == ("m",)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_can_be_made_of_nothing(kind: type[Exception]) -> None:
    assert isinstance(str(kind()), str)


def test_the_text_says_where_and_what() -> None:
    assert str(ToolcribError("broken")) == "broken"
    assert str(ToolcribError("broken", server="fs")) == "fs: broken"
    assert str(ToolcribError("broken", **PLACE)) == "fs read: broken"
    assert str(CallTimeout("late", **PLACE)) == "fs read: late"
    assert str(RemoteError(-32601, "no such method", server="fs")) == "fs: no such method [-32601]"
    assert ToolcribError("broken", **PLACE).message == "broken"


def test_the_place_may_be_learnt_later() -> None:
    error = UnansweredTimeout("late")
    error.server, error.tool = "fs", "read"
    assert str(error) == "fs read: late"


def test_of_a_peers_text_only_the_beginning_is_kept() -> None:
    assert ProtocolError(sample="x" * 10_000).sample == "x" * 200


def test_a_start_error_is_raised_for_callers_that_wait_for_a_connection() -> None:
    with pytest.raises(ConnectError):
        raise StartError("gone", exit_code=1)


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_server_without_a_name_is_shown_by_its_url(kind: str) -> None:
    error = ConnectError("refused", server=f"{kind}:https://example.com/mcp")
    assert str(error) == "https://example.com/mcp: refused"
    assert error.server == f"{kind}:https://example.com/mcp"
