"""Suspended calls: rounds of questions and answers, and which request finds which call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.unit.kit import eventually
from tests.unit.server.suspended_calls_kit import CALL, YES, Desk, one_question, others, questions, timers
from toolcrib.errors import RemoteError
from toolcrib.server.handler import BackChannel
from toolcrib.server.suspended_calls import may_suspend, request_digest
from toolcrib.types import Wire


@pytest.fixture(autouse=True)
async def _nothing_is_left() -> AsyncIterator[None]:
    yield
    assert (others(), timers()) == (set(), [])


async def finished(desk: Desk) -> None:
    """End a test that leaves suspended calls, or outcomes that are kept for repeated requests."""
    desk.parking.close()
    await eventually(lambda: not others())
    assert desk.places == (0, 0, {})


# ---- rounds --------------------------------------------------------------------------------------------------


async def test_a_call_that_asks_nothing_is_answered_and_leaves_no_trace() -> None:
    async def tool(back: BackChannel) -> Any:
        return 5

    desk = Desk(tool)
    assert await desk.call() == {"said": 5}
    assert desk.places == (0, 0, {})


async def test_a_question_is_the_result_and_its_answer_goes_to_the_call_that_waits() -> None:
    desk = Desk(one_question)
    result = await desk.call()
    assert questions(result) == {"go": {"method": "elicitation/create", "params": {"message": "Go on?"}}}
    assert isinstance(result["requestState"], str) and len(result["requestState"]) == 32
    assert await desk.call(result["requestState"], {"go": YES, "unasked": {}}) == {"said": YES}
    assert desk.began == 1
    await finished(desk)


async def test_a_question_without_params_has_none_on_the_wire() -> None:
    async def tool(back: BackChannel) -> Any:
        return await back.ask("roots/list", {}, "roots")

    desk = Desk(tool)
    assert questions(await desk.call()) == {"roots": {"method": "roots/list"}}
    await finished(desk)


async def test_questions_that_are_asked_together_go_out_together() -> None:
    async def late(back: BackChannel) -> Wire:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await back.ask("roots/list", {}, "late")

    async def tool(back: BackChannel) -> Any:
        asked = (back.ask("roots/list", {}, name) for name in ("a", "b"))
        return await asyncio.gather(*asked, late(back))

    desk = Desk(tool)
    result = await desk.call()
    assert list(questions(result)) == ["a", "b", "late"]
    answers: Wire = {name: {"n": number} for number, name in enumerate(("late", "b", "a"))}
    assert await desk.call(result["requestState"], answers) == {"said": [{"n": 2}, {"n": 1}, {"n": 0}]}
    await finished(desk)


async def test_questions_without_a_name_or_with_the_same_name_get_unique_names() -> None:
    async def tool(back: BackChannel) -> Any:
        return await asyncio.gather(
            *(back.ask("roots/list", {}, name) for name in (None, None, "x", "x", "question-6", None))
        )

    desk = Desk(tool)
    result = await desk.call()
    names = list(questions(result))
    assert len(set(names)) == 6
    assert {"x", "question-6"} < set(names)
    said = await desk.call(result["requestState"], {name: {"to": name} for name in names})
    assert said == {"said": [{"to": name} for name in names]}
    await finished(desk)


async def test_each_round_has_its_own_handle_and_the_call_continues() -> None:
    async def tool(back: BackChannel) -> Any:
        return [await back.ask("roots/list", {"n": number}, f"n{number}") for number in range(5)]

    desk = Desk(tool)
    result = await desk.call()
    handles = []
    for number in range(5):
        handles.append(result["requestState"])
        assert questions(result) == {f"n{number}": {"method": "roots/list", "params": {"n": number}}}
        assert len(desk.parking._handles) == min(number + 1, 2)
        result = await desk.call(handles[-1], {f"n{number}": {"n": number}})
    assert result == {"said": [{"n": number} for number in range(5)]}
    assert len(set(handles)) == 5
    assert desk.began == 1
    await finished(desk)


async def test_what_stays_unanswered_is_asked_again_without_what_was_answered() -> None:
    async def tool(back: BackChannel) -> Any:
        return await asyncio.gather(back.ask("roots/list", {}, "a"), back.ask("roots/list", {}, "b"))

    desk = Desk(tool)
    first = await desk.call()
    second = await desk.call(first["requestState"], {"a": {"n": 1}})
    assert list(questions(second)) == ["b"]
    assert second["requestState"] != first["requestState"]
    assert await desk.call(second["requestState"], {"a": {"n": 9}, "b": {"n": 2}}) == {"said": [{"n": 1}, {"n": 2}]}
    await finished(desk)


@pytest.mark.parametrize("answers", [None, {}, {"other": YES}])
async def test_a_client_that_answers_nothing_gets_the_same_questions_under_the_same_handle(answers: Any) -> None:
    desk = Desk(one_question)
    first = await desk.call()
    for _ in range(5):
        assert await desk.call(first["requestState"], answers) == first
    assert desk.places[0] == 1
    assert await desk.call(first["requestState"], {"go": YES}) == {"said": YES}
    await finished(desk)


async def test_a_tool_that_gives_up_a_question_goes_on_without_it() -> None:
    goes_on = asyncio.Event()

    async def tool(back: BackChannel) -> Any:
        asking = asyncio.ensure_future(one_question(back))
        await goes_on.wait()
        asking.cancel()
        await asyncio.wait([asking])
        return "without"

    desk = Desk(tool)
    state = (await desk.call())["requestState"]
    goes_on.set()
    assert await desk.call(state, {}) == {"said": "without"}
    assert await desk.call(state, {"go": YES}) == {"said": "without"}
    await finished(desk)


# ---- twice and too late --------------------------------------------------------------------------------------


async def test_a_repeated_request_during_the_call_gets_the_same_outcome() -> None:
    works = asyncio.Event()

    async def tool(back: BackChannel) -> Any:
        answer = await one_question(back)
        await works.wait()
        return answer

    desk = Desk(tool)
    state = (await desk.call())["requestState"]
    first = asyncio.create_task(desk.call(state, {"go": YES}))
    second = asyncio.create_task(desk.call(state, {"go": {"action": "decline"}}))
    third = asyncio.create_task(desk.call(state, {}))
    await eventually(lambda: len(next(iter(desk.parking._handles.values()))[0]._waiters) == 3)
    works.set()
    assert await asyncio.gather(first, second, third) == [{"said": YES}] * 3
    assert await desk.call(state, {"go": {"action": "cancel"}}) == {"said": YES}
    await finished(desk)


async def test_a_repeated_request_gets_the_next_questions_again() -> None:
    async def tool(back: BackChannel) -> Any:
        return [await back.ask("roots/list", {}, "a"), await back.ask("roots/list", {}, "b")]

    desk = Desk(tool)
    first = await desk.call()
    second = await desk.call(first["requestState"], {"a": {}})
    assert list(questions(second)) == ["b"]
    assert await desk.call(first["requestState"], {"a": {}}) == second
    answer = {"said": [{}, {}]}
    assert await desk.call(second["requestState"], {"b": {}}) == answer
    assert await desk.call(first["requestState"], {"a": {}}) == answer
    await finished(desk)


async def test_an_answer_to_an_earlier_round_answers_nothing_of_a_later_one() -> None:
    async def tool(back: BackChannel) -> Any:
        return [await back.ask("roots/list", {}, "same"), await back.ask("roots/list", {}, "same")]

    desk = Desk(tool)
    first = await desk.call()
    second = await desk.call(first["requestState"], {"same": {"n": 1}})
    assert list(questions(second)) == ["same"]
    assert await desk.call(first["requestState"], {"same": {"n": 8}}) == second
    assert await desk.call(second["requestState"], {"same": {"n": 2}}) == {"said": [{"n": 1}, {"n": 2}]}
    await finished(desk)


async def test_a_handle_from_before_the_last_two_finds_nothing() -> None:
    async def tool(back: BackChannel) -> Any:
        return [await back.ask("roots/list", {}, "x") for _ in range(3)]

    desk = Desk(tool)
    first = (await desk.call())["requestState"]
    second = (await desk.call(first, {"x": {}}))["requestState"]
    third = (await desk.call(second, {"x": {}}))["requestState"]
    assert "expired" in await desk.refused(first, {"x": {}})
    assert (await desk.call(second, {}))["requestState"] == third
    assert await desk.call(third, {"x": {}}) == {"said": [{}, {}, {}]}
    await finished(desk)


# ---- brought answers -----------------------------------------------------------------------------------------


async def test_an_answer_that_comes_with_the_call_is_taken_for_the_question_of_that_name_once() -> None:
    async def tool(back: BackChannel) -> Any:
        return [await one_question(back), await one_question(back)]

    desk = Desk(tool)
    result = await desk.call(answers={"go": {"n": 1}, "never asked": {}})
    assert list(questions(result)) == ["go"]
    assert await desk.call(result["requestState"], {"go": {"n": 2}}) == {"said": [{"n": 1}, {"n": 2}]}
    await finished(desk)


async def test_an_answer_that_comes_with_the_call_is_never_taken_for_a_question_without_a_name() -> None:
    async def tool(back: BackChannel) -> Any:
        return await back.ask("roots/list", {}, None)

    desk = Desk(tool)
    result = await desk.call(answers={"question-1": {"n": 1}})
    assert list(questions(result)) == ["question-1"]
    await finished(desk)


# ---- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [5, "x", [YES], {"go": 5}, {"go": None}, {"go": [1]}, {"go": YES, "b": "x"}], ids=repr
)
async def test_answers_of_another_shape_are_refused_before_anything_is_done(wrong: Any) -> None:
    desk = Desk(one_question)
    assert "inputResponses" in await desk.refused(answers=wrong)
    assert desk.began == 0
    state = (await desk.call())["requestState"]
    assert "inputResponses" in await desk.refused(state, wrong)
    assert await desk.call(state, {"go": YES}) == {"said": YES}
    await finished(desk)


@pytest.mark.parametrize("wrong", ["x", "", 0, 5, True, 1.5, [], ["x"], {}, {"x": 1}], ids=repr)
async def test_a_foreign_request_state_runs_nothing(wrong: Any) -> None:
    desk = Desk(one_question)
    assert "requestState" in await desk.refused(wrong, {"go": YES})
    assert desk.began == 0


PRINCIPALS: list[Any] = [None, "alice", 0, {"sub": "alice"}, {"sub": "bob"}, ["alice"], {"alice"}]


@pytest.mark.parametrize("owner", PRINCIPALS, ids=repr)
async def test_a_call_is_found_only_by_the_principal_whose_it_is(owner: Any) -> None:
    desk = Desk(one_question)
    state = (await desk.call(principal=owner))["requestState"]
    for thief in PRINCIPALS:
        if thief != owner:
            assert "requestState" in await desk.refused(state, {"go": YES}, principal=thief)
    same = type(owner)(owner) if isinstance(owner, dict | list | set) else owner  # equal, and another object
    assert await desk.call(state, {"go": YES}, principal=same) == {"said": YES}
    await finished(desk)


OTHERS: dict[str, Wire] = {
    "another method": {"method": "prompts/get"},
    "other arguments": {"params": {**CALL, "arguments": {"a": 2, "b": [2, {"c": None}]}}},
    "fewer arguments": {"params": {**CALL, "arguments": {"a": 1}}},
    "no arguments": {"params": {"name": "tool"}},
    "another name": {"params": {**CALL, "name": "other"}},
    "more params": {"params": {**CALL, "more": 1}},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
async def test_a_call_is_found_only_by_the_request_that_it_began_with(other: Wire) -> None:
    desk = Desk(one_question)
    state = (await desk.call())["requestState"]
    assert "of another request" in await desk.refused(state, {"go": YES}, **other)
    assert desk.began == 1
    assert await desk.call(state, {"go": YES}) == {"said": YES}
    await finished(desk)


async def test_an_exception_of_the_tool_reaches_every_request_that_waits() -> None:
    async def tool(back: BackChannel) -> Any:
        await one_question(back)
        raise RemoteError(-5, "no")

    desk = Desk(tool)
    state = (await desk.call())["requestState"]
    for _ in range(2):
        with pytest.raises(RemoteError, match="no"):
            await desk.call(state, {"go": YES})
    await finished(desk)


# ---- which requests ------------------------------------------------------------------------------------------


def test_the_digest_is_of_what_a_request_asks_for_and_of_nothing_else() -> None:
    digest = request_digest("tools/call", {"name": "t", "arguments": {"a": 1, "b": 2}})
    same = {"arguments": {"b": 2, "a": 1}, "_meta": {"x": 1}, "inputResponses": {}, "requestState": "s", "name": "t"}
    assert request_digest("tools/call", same) == digest
    assert request_digest("prompts/get", {"name": "t", "arguments": {"a": 1, "b": 2}}) != digest
    assert request_digest("tools/call", {"name": "t", "arguments": {"a": 1, "b": "2"}}) != digest


def test_the_digest_knows_integers_of_any_size() -> None:
    one, other = ({"arguments": {"n": 2**70 + more}} for more in (0, 1))
    assert request_digest("tools/call", one) == request_digest("tools/call", dict(one))
    assert request_digest("tools/call", one) != request_digest("tools/call", other)


@pytest.mark.parametrize(
    "method, params, parks",
    [
        ("tools/call", {"name": "tool"}, True),
        ("tools/call", {"name": "quiet"}, False),
        ("tools/call", {"name": "quiet", "requestState": None}, True),
        ("tools/call", {"name": "quiet", "inputResponses": {}}, True),
        ("prompts/get", {"requestState": "x"}, True),
        ("resources/read", {"requestState": "x"}, True),
        ("tools/list", {"name": "tool", "requestState": "x"}, False),
        ("completion/complete", {"name": "tool"}, False),
    ],
)
def test_only_what_may_ask_or_brings_answers_may_park(method: str, params: Wire, parks: bool) -> None:
    assert may_suspend(Desk(one_question), method, params) is parks
