"""Suspended calls of the modern era: only the exact state that was issued finds the call, and a call runs once."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections import Counter
from typing import Any

import pytest

from tests.faults.kit import eventually
from tests.faults.server_kit import Place, serving
from tests.faults.server_wire import ACCEPTED, Answer, call, message, meta, modern
from toolcrib.server import suspended_calls


async def parked(place: Place, arguments: Any = None, headers: Any = None) -> str:
    """Start a call that requests input, and return its state."""
    answer = await place.post(modern("tools/call", call("ask", arguments)), headers)
    result = answer.json["result"]
    assert (answer.status, result["resultType"]) == (200, "input_required")
    assert list(result["inputRequests"]) == ["go"]
    return str(result["requestState"])


async def come_again(place: Place, state: Any, arguments: Any = None, headers: Any = None, **params: Any) -> Answer:
    said = {"inputResponses": {"go": ACCEPTED}, **params}
    return await place.post(modern("tools/call", call("ask", arguments, requestState=state, **said), id=2), headers)


TOO_MANY = "too many calls are waiting for answers of their clients"


def refused(answer: Answer) -> bool:
    return (answer.status, answer.code, answer.json["id"]) == (400, -32602, 2)


async def test_a_parked_call_goes_on_once_and_never_runs_again() -> None:
    async with serving() as place:
        state = await parked(place)
        assert (place.parked, place.ran) == (1, {"ask": 1})
        assert (await come_again(place, state)).text == "None said accept"
        again = await come_again(place, state)  # a client that lost the answer asks again and gets the same
        assert again.text == "None said accept"
        assert place.ran == {"ask": 1, "asked": 1}


def tampered(state: str) -> list[Any]:
    flipped = state[:-1] + ("A" if state[-1] != "A" else "B")
    return [
        *(
            flipped,
            state[1:],
            state[:-1],
            state + "A",
            state + "=",
            state + " ",
            " " + state,
            state.swapcase(),
            state[::-1],
        ),
        *("", "x", "null", "A" * len(state), "A" * 100_000, state + "\x00", "\u0430" + state[1:], state.encode().hex()),
        base64.b64encode(state.encode()).decode(),
        *(0, 5, True, [state], {"state": state}, 1.5),
    ]


async def test_a_tampered_state_finds_nothing_and_disturbs_nothing() -> None:
    async with serving() as place:
        state = await parked(place)
        for wrong in tampered(state):
            assert refused(await come_again(place, wrong)), wrong
        assert place.ran == {"ask": 1}
        assert (await come_again(place, state)).text == "None said accept"


@pytest.mark.parametrize("tool", ["add", "echo", "wait"])
async def test_a_state_is_refused_also_by_tools_that_never_ask(tool: str) -> None:
    async with serving() as place:
        state = await parked(place)
        arguments = {"add": {"a": 1, "b": 2}, "echo": {"text": "x"}, "wait": {}}[tool]
        for wrong in (state, "forged"):
            answer = await place.post(modern("tools/call", call(tool, arguments, requestState=wrong)))
            assert (answer.status, answer.code) == (400, -32602)
        assert place.ran == {"ask": 1}


async def test_a_state_of_another_request_finds_nothing() -> None:
    async with serving() as place:
        state = await parked(place, {"what": "Delete one?"})
        for other in ({"what": "Delete all?"}, {}, None, {"what": "Delete one?", "more": 1}):
            assert refused(await come_again(place, state, other))
        for method, params in (
            ("prompts/get", {"name": "explain", "arguments": {"topic": "x"}}),
            ("resources/read", {"uri": "config://app"}),
            ("tools/call", call("talk")),
        ):
            answer = await place.post(modern(method, {**params, "requestState": state}))
            assert (answer.status, answer.code) == (400, -32602)
        assert place.ran == {"ask": 1}
        assert (await come_again(place, state, {"what": "Delete one?"})).text == "None said accept"


async def test_a_state_of_another_server_finds_nothing() -> None:
    async with serving() as one, serving() as other:
        state = await parked(one)
        assert refused(await come_again(other, state))
        assert not other.ran
        assert (await come_again(one, state)).text == "None said accept"


async def test_a_state_means_nothing_in_the_legacy_era() -> None:
    async with serving() as place:
        state = await parked(place)
        session = await place.session()
        answer = await place.post(
            message("tools/call", call("add", {"a": 1, "b": 2}, requestState=state, inputResponses={"go": ACCEPTED})),
            session,
        )
        assert answer.text == "3"
        assert place.ran == {"ask": 1, "add": 1}


async def test_an_abandoned_call_ends_at_its_time_with_a_cancel() -> None:
    async with serving(suspended_ttl=0.2) as place:
        state = await parked(place)
        await eventually(lambda: place.tools.cancelled["ask"] == 1)
        assert place.parked == 0
        assert refused(await come_again(place, state))
        assert place.ran == {"ask": 1}


async def test_a_state_survives_wrong_and_missing_answers() -> None:
    async with serving() as place:
        state = await parked(place)
        for wrong in ([], 5, {"go": 5}, {"go": None}):
            assert refused(await come_again(place, state, inputResponses=wrong))
        for nothing in ({}, {"other": ACCEPTED}):
            answer = await come_again(place, state, inputResponses=nothing)
            assert answer.json["result"]["resultType"] == "input_required"
        assert place.ran == {"ask": 1}
        assert (await come_again(place, state)).text == "None said accept"


@pytest.mark.parametrize(
    "wrong", [{}, {"action": "perhaps"}, {"action": 5}, {"action": "accept", "content": [1]}], ids=repr
)
async def test_an_invalid_answer_fails_the_call_and_not_the_server(wrong: Any) -> None:
    async with serving(faults=True) as place:
        state = await parked(place)
        answer = await come_again(place, state, inputResponses={"go": wrong})
        assert answer.status in (200, 400)
        said = answer.json
        assert "error" in said or said["result"].get("isError") or wrong.get("action") == "accept"
        assert place.ran["ask"] == 1


async def test_ten_clients_with_one_state_get_one_outcome() -> None:
    async with serving() as place:
        state = await parked(place)
        answers = await asyncio.gather(*(come_again(place, state) for _ in range(10)))
        assert {answer.text for answer in answers} == {"None said accept"}
        assert place.ran == {"ask": 1, "asked": 1}


async def test_a_question_that_the_client_does_not_support_is_refused_before_anything_waits() -> None:
    async with serving() as place:
        request = message("tools/call", {**call("ask"), "_meta": meta(capabilities={})})
        answer = await place.post(request)
        assert (answer.status, answer.code) == (400, -32021)
        assert answer.error["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
        assert place.parked == 0


async def test_a_client_that_polls_for_ever_neither_fills_the_parking_nor_shuts_out_others() -> None:
    async with serving() as place:
        other = await parked(place, {"what": "Me too?"})
        states = [await parked(place)]
        for _ in range(1_200):
            answer = await come_again(place, states[-1], inputResponses={})
            if "error" in answer.json:
                break
            states.append(answer.json["result"]["requestState"])
        assert place.parked <= 1_000
        assert (await come_again(place, other, {"what": "Me too?"})).text == "None said accept"
        assert place.ran["ask"] == 2


async def test_a_crowd_of_parked_calls_is_bounded_and_one_principal_does_not_take_all_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspended_calls, "MAX_EACH", 5)
    monkeypatch.setattr(suspended_calls, "MAX_SUSPENDED", 12)
    places = Counter[str]()
    async with serving(auth=lambda headers: headers.get("x-name")) as place:
        for number, name in itertools.product(range(8), ("alice", "bob", "carol", "dave")):
            answer = await place.post(modern("tools/call", call("ask", {"what": str(number)})), {"X-Name": name})
            if "error" in answer.json:
                assert (answer.code, answer.error["message"]) == (-32603, TOO_MANY)
            else:
                places[name] += 1
        assert places == {"alice": 3, "bob": 3, "carol": 3, "dave": 3}
        assert (place.parked, place.tools.cancelled["ask"]) == (12, 20)
    async with serving() as place:  # without authentication, all clients are the same principal
        for number in range(15):
            await place.post(modern("tools/call", call("ask", {"what": str(number)})))
        assert (place.parked, place.tools.cancelled["ask"]) == (12, 3)
