"""Multi-round requests: the server requests input, the client answers and repeats the request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit import spec
from tests.unit.kit import Clock, eventually, turns
from toolcrib.client import input_required
from toolcrib.client.handlers import Handlers
from toolcrib.client.input_required import resolve_input_required
from toolcrib.errors import AccessDenied, ProtocolError, RemoteError
from toolcrib.protocol.limits import MAX_ROUNDS
from toolcrib.types import Wire

DONE = {"resultType": "complete", "content": []}
PARAMS = {"name": "book", "arguments": {"to": "Rome"}}
ELICIT = {"method": "elicitation/create", "params": {"message": "when?"}}
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": []}}
ROOTS = {"method": "roots/list"}


def asks(requests: Any = None, state: Any = None) -> Wire:
    said: Wire = {"resultType": "input_required"}
    if requests is not None:
        said["inputRequests"] = requests
    if state is not None:
        said["requestState"] = state
    return said


class Exchange:
    """The server's side: the requests that it received, and its next answers."""

    def __init__(self, *answers: Wire) -> None:
        self.sent: list[Wire] = []
        self._answers = list(answers)

    async def __call__(self, params: Wire) -> Wire:
        self.sent.append(params)
        return self._answers.pop(0)


async def person(method: str, params: Wire) -> Wire:
    return {"action": "accept", "content": {"asked": params.get("message")}}


async def run(
    exchange: Exchange,
    first: Wire,
    answer: Callable[[str, Wire], Awaitable[Wire]] = person,
    *,
    method: str = "tools/call",
    waited: list[float] | None = None,
) -> Wire:
    waited = [] if waited is None else waited
    return await resolve_input_required(exchange, answer, method, PARAMS, first, waited.append)


async def test_the_input_is_sent_with_the_same_params_and_the_state_as_it_came() -> None:
    exchange = Exchange(DONE)
    state = '{"exact": "bytes \u00e9"}  '
    assert await run(exchange, asks({"date": ELICIT}, state)) is DONE
    assert exchange.sent == [
        {
            **PARAMS,
            "inputResponses": {"date": {"action": "accept", "content": {"asked": "when?"}}},
            "requestState": state,
        }
    ]
    assert PARAMS == {"name": "book", "arguments": {"to": "Rome"}}


async def test_a_server_that_sends_no_state_gets_none() -> None:
    exchange = Exchange(DONE)
    await run(exchange, asks({"date": ELICIT}))
    assert "requestState" not in exchange.sent[0]


async def test_each_round_carries_its_own_answers_alone() -> None:
    exchange = Exchange(asks({"b": ELICIT}, "two"), asks({"c": ELICIT}), DONE)
    await run(exchange, asks({"a": ELICIT}, "one"))
    assert [set(sent["inputResponses"]) for sent in exchange.sent] == [{"a"}, {"b"}, {"c"}]
    assert [sent.get("requestState") for sent in exchange.sent] == ["one", "two", None]


async def test_several_questions_of_one_round_are_asked_at_the_same_time() -> None:
    meeting = asyncio.Barrier(2)

    async def together(method: str, params: Wire) -> Wire:
        async with asyncio.timeout(5):
            await meeting.wait()
        return {"method": method}

    exchange = Exchange(DONE)
    await run(exchange, asks({"a": ELICIT, "b": SAMPLE}), together)
    assert exchange.sent[0]["inputResponses"] == {
        "a": {"method": "elicitation/create"},
        "b": {"method": "sampling/createMessage"},
    }


async def test_the_protocols_own_example_is_answered() -> None:
    handlers = Handlers(sampling=lambda request: "Paris", elicitation=lambda request: {"name": "octocat"})
    exchange = Exchange(DONE)
    first = spec.example("InputRequiredResult/input-required-result-with-elicitation-and-sampling-and-request-state")
    await run(exchange, first, handlers.answer)
    responses = exchange.sent[0]["inputResponses"]
    assert spec.faults(spec.MODERN, "InputResponses", responses) == []
    assert responses["github_login"] == {"action": "accept", "content": {"name": "octocat"}}
    assert responses["capital_of_france"]["content"] == {"type": "text", "text": "Paris"}


async def test_the_time_of_answering_is_reported_so_that_it_does_not_count() -> None:
    clock, waited = Clock(), []
    asked, answered = asyncio.Event(), asyncio.Event()

    async def slow(method: str, params: Wire) -> Wire:
        asked.set()
        await answered.wait()
        return {"action": "cancel"}

    running = asyncio.create_task(run(Exchange(DONE), asks({"a": ELICIT}), slow, waited=waited))
    await asked.wait()
    await clock.advance(600)
    answered.set()
    await running
    assert waited == [pytest.approx(600, abs=5)]


async def test_a_server_that_only_wants_to_be_asked_again_is_asked_after_a_moment() -> None:
    clock, exchange, waited = Clock(), Exchange(DONE), []
    running = asyncio.create_task(run(exchange, asks(state="later"), waited=waited))
    await turns()
    assert exchange.sent == []
    await clock.advance(input_required.BACK_OFF_SECONDS[1])
    await running
    assert exchange.sent == [{**PARAMS, "requestState": "later"}]
    assert waited == []
    assert input_required.BACK_OFF_SECONDS == (0.05, 0.25)


async def test_the_rounds_are_counted() -> None:
    exchange = Exchange(*[asks({"a": ELICIT})] * (MAX_ROUNDS - 1), DONE)
    assert await run(exchange, asks({"a": ELICIT})) is DONE
    exchange = Exchange(*[asks({"a": ELICIT})] * MAX_ROUNDS)
    with pytest.raises(ProtocolError, match="more than 10 times"):
        await run(exchange, asks({"a": ELICIT}))
    assert len(exchange.sent) == MAX_ROUNDS


@pytest.mark.parametrize("method", ["tools/call", "prompts/get", "resources/read"])
async def test_input_may_be_asked_for_on_these_requests(method: str) -> None:
    assert await run(Exchange(DONE), asks({"a": ELICIT}), method=method) is DONE


@pytest.mark.parametrize("method", ["tools/list", "completion/complete", "server/discover"])
async def test_on_other_requests_input_may_not_be_asked_for(method: str) -> None:
    exchange = Exchange(DONE)
    with pytest.raises(ProtocolError, match=method):
        await run(exchange, asks({"a": ELICIT}), method=method)
    assert exchange.sent == []


@pytest.mark.parametrize("requests", [[1], "text", {"a": 1}, {"a": None}, {"a": ELICIT, "b": []}])
async def test_invalid_requests_break_the_protocol(requests: Any) -> None:
    exchange = Exchange(DONE)
    with pytest.raises(ProtocolError):
        await run(exchange, asks(requests))
    assert exchange.sent == []


async def test_a_server_that_asks_without_a_question_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="expected inputRequests or requestState"):
        await run(Exchange(DONE), asks())


@pytest.mark.parametrize("request_", [SAMPLE, ROOTS], ids=["sampling", "roots"])
async def test_a_refused_sampling_or_roots_request_fails_the_call(request_: Wire) -> None:
    """The protocol has no form for such a refusal."""
    exchange = Exchange(DONE)
    with pytest.raises(AccessDenied) as caught:
        await run(exchange, asks({"a": request_}), Handlers().answer)
    assert caught.value.rule == request_["method"]
    assert isinstance(caught.value.__cause__, RemoteError)
    assert exchange.sent == []


async def test_an_elicitation_without_an_answer_is_cancelled() -> None:
    exchange = Exchange(DONE)
    await run(exchange, asks({"a": ELICIT}), Handlers().answer)
    assert exchange.sent[0]["inputResponses"] == {"a": {"action": "cancel"}}


async def test_when_one_question_fails_the_others_are_given_up() -> None:
    given_up = asyncio.Event()

    async def answer(method: str, params: Wire) -> Wire:
        if method == "sampling/createMessage":
            raise RemoteError(-32603, "no model")
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        finally:
            given_up.set()

    with pytest.raises(AccessDenied, match="no model"):
        await run(Exchange(DONE), asks({"a": ELICIT, "b": SAMPLE}), answer)
    await eventually(given_up.is_set)


async def test_a_cancelled_caller_takes_the_questions_with_it() -> None:
    before = asyncio.all_tasks()
    asked = asyncio.Event()

    async def never(method: str, params: Wire) -> Wire:
        asked.set()
        await asyncio.Event().wait()
        return {}

    running = asyncio.create_task(run(Exchange(DONE), asks({"a": ELICIT}), never))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await eventually(lambda: asyncio.all_tasks() == before)
