"""The start of a request, and its error when its time or its connection ends."""

from __future__ import annotations

import pytest

from tests.unit.kit import Clock
from toolcrib.errors import CallTimeout, ConnectionLost, OutcomeUnknown, UnansweredTimeout
from toolcrib.transports.channel import PLAIN, UNOPENED, RequestOptions
from toolcrib.transports.pending import PendingRequest, PendingRequests, lost_error, timeout_error


def pending(due: list[int]) -> PendingRequests[PendingRequest]:
    return PendingRequests(lambda id, _: due.append(id))


async def test_every_request_has_its_own_id_and_its_caller_learns_it() -> None:
    learned: list[int] = []
    requests = pending([])
    options = RequestOptions(on_id=learned.append)
    assert [requests.begin(PLAIN), requests.begin(options), requests.begin(options)] == [1, 2, 3]
    assert learned == [2, 3]


async def test_a_channel_that_has_ended_begins_no_request_and_gives_the_first_reason() -> None:
    requests, reason, learned = pending([]), ConnectionLost("gone"), []
    assert requests.refuse(reason)
    assert not requests.refuse(ValueError("later"))
    assert requests.ended is reason
    with pytest.raises(ConnectionLost, match="the connection has ended: gone") as raised:
        requests.begin(RequestOptions(on_id=learned.append))
    assert raised.value.__cause__ is reason
    assert not raised.value.sent
    assert learned == []


async def test_a_deadline_that_has_passed_begins_no_request() -> None:
    requests = pending([])
    now = requests.loop.time()
    with pytest.raises(CallTimeout, match="before the call could be sent") as raised:
        requests.begin(RequestOptions(deadline=now))
    assert not raised.value.sent
    assert requests.begin(RequestOptions(deadline=now + 60)) == 2


async def test_the_time_of_a_request_runs_from_when_it_is_added() -> None:
    clock, due = Clock(), []
    requests = pending(due)
    requests.add(1, PendingRequest("m", PLAIN))
    requests.add(2, PendingRequest("m", RequestOptions(deadline=clock.now() + 20)))
    requests.add(3, PendingRequest("m", RequestOptions(deadline=clock.now() + 20, idle_timeout=10)))
    await clock.advance(11)
    assert due == [3]
    del requests[3]
    await clock.advance(10)
    assert due == [3, 2]
    requests.stop()


@pytest.mark.parametrize("params", [None, {}, {"name": "n"}, {"_meta": {"a": 1}}])
def test_only_a_request_that_needs_progress_gets_a_token(params: dict | None) -> None:
    assert PLAIN.with_progress_token(params, 7) is params
    for options in (RequestOptions(idle_timeout=1.0), RequestOptions(on_progress=lambda *_: None)):
        with_token = options.with_progress_token(params, 7)
        assert with_token == {**(params or {}), "_meta": {**(params or {}).get("_meta", {}), "progressToken": 7}}


def test_the_errors_say_whether_the_call_was_sent() -> None:
    reason = ConnectionLost("gone")
    assert type(timeout_error(sent=False)) is CallTimeout
    assert type(timeout_error(sent=True)) is UnansweredTimeout
    assert type(lost_error(reason, sent=False)) is ConnectionLost
    assert type(lost_error(reason, sent=True)) is OutcomeUnknown
    for sent in (False, True):
        assert timeout_error(sent=sent).sent is sent
        error = lost_error(reason, sent=sent)
        assert error.sent is sent
        assert error.__cause__ is reason
        assert str(error).startswith("gone; ")


async def test_before_a_channel_is_open_nothing_of_the_peer_is_accepted() -> None:
    assert not UNOPENED.takes_requests
    UNOPENED.on_notification("m", {})
    UNOPENED.on_closed(ConnectionLost("gone"))
    with UNOPENED.held():
        pass
    with pytest.raises(Exception, match="m: the channel is not open"):
        await UNOPENED.on_request("m", {})
