"""Requests of a server to the client: only declared ones, answered in every form that a handler may return."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit import spec
from toolcrib.client import handlers as module
from toolcrib.client.handlers import ASKS_A_PERSON, Handlers
from toolcrib.errors import RemoteError
from toolcrib.types import ElicitRequest, ElicitResult, SamplingRequest, Wire

FORM = {"message": "who?", "requestedSchema": {"type": "object", "properties": {}}}
URL = {"mode": "url", "message": "log in", "url": "https://login.example.com/?a=1", "elicitationId": "1"}


def in_both_ways(value: Any) -> list[Any]:
    """Return a sync and an async handler that return this value."""

    def sync(*args: Any) -> Any:
        return value

    async def later(*args: Any) -> Any:
        return value

    return [sync, later]


# ---- declared capabilities -----------------------------------------------------------------------------------


def test_nothing_is_declared_that_is_not_given() -> None:
    assert Handlers().capabilities() == {}


@pytest.mark.parametrize("revision", [spec.MODERN, spec.LEGACY])
def test_what_is_given_is_declared_as_both_eras_write_it(revision: str) -> None:
    handlers = Handlers(lambda r: "", lambda r: None, ("form", "url"), ["/srv"])
    assert handlers.capabilities() == {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {}}
    assert spec.faults(revision, "ClientCapabilities", handlers.capabilities()) == []


def test_an_empty_list_of_roots_is_an_offer() -> None:
    assert Handlers(roots=[]).capabilities() == {"roots": {}}


@pytest.mark.parametrize(
    "method, code",
    [("sampling/createMessage", -32601), ("roots/list", -32601), ("elicitation/create", -32601), ("x/y", -32601)],
)
async def test_what_is_not_offered_is_refused(method: str, code: int) -> None:
    with pytest.raises(RemoteError, match=method) as caught:
        await Handlers().answer(method, {})
    assert caught.value.code == code


async def test_a_ping_is_always_answered() -> None:
    assert await Handlers().answer("ping", {}) == {}


def test_a_person_may_be_asked_by_sampling_and_elicitation() -> None:
    assert {"sampling/createMessage", "elicitation/create"} == ASKS_A_PERSON


# ---- sampling ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("handler", in_both_ways("Paris"))
@pytest.mark.parametrize("revision", [spec.MODERN, spec.LEGACY])
async def test_a_text_becomes_a_whole_answer(handler: Any, revision: str) -> None:
    answer = await Handlers(sampling=handler).answer("sampling/createMessage", {"messages": []})
    assert answer["content"] == {"type": "text", "text": "Paris"}
    assert spec.faults(revision, "CreateMessageResult", answer) == []


@pytest.mark.parametrize("handler", in_both_ways({"role": "assistant", "content": [], "model": "m"}))
async def test_a_whole_answer_is_passed_on(handler: Any) -> None:
    answer = await Handlers(sampling=handler).answer("sampling/createMessage", {"messages": []})
    assert answer == {"role": "assistant", "content": [], "model": "m"}


async def test_the_handler_sees_the_whole_request() -> None:
    seen: list[SamplingRequest] = []
    params = spec.example("CreateMessageRequestParams/basic-request")

    def handler(request: SamplingRequest) -> str:
        seen.append(request)
        return ""

    await Handlers(sampling=handler).answer("sampling/createMessage", params)
    assert seen[0].max_tokens == 100
    assert seen[0]["modelPreferences"] == params["modelPreferences"]


# ---- elicitation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said, wire",
    [
        (ElicitResult("accept", {"name": "Ann"}), {"action": "accept", "content": {"name": "Ann"}}),
        (ElicitResult("decline"), {"action": "decline"}),
        ({"name": "Ann"}, {"action": "accept", "content": {"name": "Ann"}}),
        ({"action": "decline"}, {"action": "decline"}),
        ({"action": "accept", "content": {"a": 1}}, {"action": "accept", "content": {"a": 1}}),
        ({"action": "buy", "item": "x"}, {"action": "accept", "content": {"action": "buy", "item": "x"}}),
        ({}, {"action": "accept", "content": {}}),
        (True, {"action": "accept"}),
        (False, {"action": "decline"}),
        (None, {"action": "cancel"}),
    ],
)
async def test_a_person_may_answer_in_many_ways(said: Any, wire: Wire) -> None:
    for handler in in_both_ways(said):
        answer = await Handlers(elicitation=handler).answer("elicitation/create", FORM)
        assert answer == wire
        assert spec.faults(spec.MODERN, "ElicitResult", answer) == []


async def test_no_mode_means_a_form() -> None:
    seen: list[ElicitRequest] = []
    await Handlers(elicitation=seen.append).answer("elicitation/create", FORM)
    assert (seen[0].mode, seen[0].message, seen[0].schema) == ("form", "who?", FORM["requestedSchema"])


@pytest.mark.parametrize(
    "modes, params, may",
    [
        (("form",), URL, False),
        (("url",), FORM, False),
        (("url",), URL, True),
        (("form", "url"), {"mode": "voice", "message": "say"}, False),
        (("form",), {"mode": ["form"], "message": "say"}, False),
    ],
)
async def test_a_mode_that_was_not_declared_is_refused_and_the_handler_not_asked(
    modes: tuple[str, ...], params: Wire, may: bool
) -> None:
    seen: list[ElicitRequest] = []
    handlers = Handlers(elicitation=seen.append, elicitation_modes=modes)
    if may:
        await handlers.answer("elicitation/create", params)
        assert seen[0].url == params["url"]
    else:
        with pytest.raises(RemoteError) as caught:
            await handlers.answer("elicitation/create", params)
        assert caught.value.code == -32602
        assert seen == []


# ---- roots ---------------------------------------------------------------------------------------------------


async def test_roots_are_paths_and_uris_in_any_mixture(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    given = [folder, str(folder), "file:///srv", "https://example.com/x", {"uri": "file:///y", "name": "why"}]
    for roots in (given, *in_both_ways(given)):
        answer = await Handlers(roots=roots).answer("roots/list", {})
        here = {"uri": f"file://{tmp_path}/a%20b", "name": "a b"}
        assert answer["roots"] == [
            here,
            here,
            {"uri": "file:///srv"},
            {"uri": "https://example.com/x"},
            {"uri": "file:///y", "name": "why"},
        ]
        assert spec.faults(spec.LEGACY, "ListRootsResult", answer) == []


async def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = await Handlers(roots=[os.curdir]).answer("roots/list", {})
    assert answer["roots"][0]["uri"] == tmp_path.as_uri()


async def test_roots_given_as_a_function_are_asked_each_time() -> None:
    folders = ["file:///a"]
    handlers = Handlers(roots=lambda: folders)
    assert len((await handlers.answer("roots/list", {}))["roots"]) == 1
    folders.append("file:///b")
    assert len((await handlers.answer("roots/list", {}))["roots"]) == 2


# ---- handlers that fail --------------------------------------------------------------------------------------


def _raise(error: Exception) -> Any:
    def handler(*args: Any) -> Any:
        raise error

    return handler


ALL = [("sampling", "sampling/createMessage"), ("elicitation", "elicitation/create"), ("roots", "roots/list")]


@pytest.mark.parametrize("field, method", ALL)
async def test_what_a_handler_raises_is_an_error_whose_words_stay_here(
    field: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RemoteError) as caught:
        await Handlers(**{field: _raise(ValueError("token=s3cret"))}).answer(method, {})
    assert caught.value.code == -32603
    assert "s3cret" not in str(caught.value)
    assert "ValueError" in str(caught.value)
    assert "s3cret" in caplog.text, "the program's own log has the whole error"


@pytest.mark.parametrize("field, method", ALL)
async def test_a_handler_may_refuse_in_its_own_words(field: str, method: str) -> None:
    refusal = RemoteError(-1, "User rejected", {"why": "no"})
    with pytest.raises(RemoteError, match="User rejected") as caught:
        await Handlers(**{field: _raise(refusal)}).answer(method, {})
    assert caught.value is refusal


@pytest.mark.parametrize("field, method", ALL[:2])
@pytest.mark.parametrize("said", [7, [1], object()], ids=["number", "list", "object"])
async def test_an_answer_of_a_wrong_type_is_an_error_that_names_it(field: str, method: str, said: Any) -> None:
    for handler in in_both_ways(said):
        with pytest.raises(RemoteError, match=type(said).__name__) as caught:
            await Handlers(**{field: handler}).answer(method, {})
        assert caught.value.code == -32603


@pytest.mark.parametrize("said", [None, 7, [7], [None]])
async def test_roots_of_a_wrong_type_are_an_error_too(said: Any) -> None:
    with pytest.raises(RemoteError) as caught:
        await Handlers(roots=lambda: said).answer("roots/list", {})
    assert caught.value.code == -32603


async def test_a_handler_that_blocks_does_not_stop_the_event_loop() -> None:
    """`input()` in a plain function must not block other tasks."""
    answered = threading.Event()
    handlers = Handlers(sampling=lambda _: "done" if answered.wait(10) else "the loop stood still")
    answering = asyncio.ensure_future(handlers.answer("sampling/createMessage", {"messages": []}))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.01, answered.set)
    assert (await answering)["content"]["text"] == "done"


async def test_a_server_that_asks_and_cancels_cannot_use_up_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HANDLER_THREADS", 3)
    answered = threading.Event()
    handlers = Handlers(sampling=lambda _: "done" if answered.wait(10) else "late")
    try:
        for _ in range(3):
            asking = asyncio.ensure_future(handlers.answer("sampling/createMessage", {"messages": []}))
            await asyncio.sleep(0)
            asking.cancel()
        with pytest.raises(RemoteError, match="too many requests"):
            await handlers.answer("sampling/createMessage", {"messages": []})
    finally:
        answered.set()
