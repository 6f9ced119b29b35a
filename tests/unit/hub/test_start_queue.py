"""The first start of a server: how far it is, and how long it took."""

from __future__ import annotations

import pytest

from tests.unit.kit import Clock
from toolcrib.errors import StartError
from toolcrib.hub.start_queue import FirstStart


async def test_the_wait_for_a_turn_does_not_count_as_time_to_start() -> None:
    clock = Clock()
    start = FirstStart()
    await clock.advance(10)
    assert not start.turn.done() and start.turn_began_at is None
    start.begin_turn()
    assert start.turn.done() and not start.outcome.done()
    await clock.advance(3)
    start.begin_turn()  # a second attempt
    await clock.advance(1)
    start.note_listed()
    assert start.seconds == pytest.approx(4, abs=0.5)
    await clock.advance(100)
    start.note_listed()
    assert start.seconds == pytest.approx(4, abs=0.5), "only the first time counts"


async def test_the_outcome_is_that_of_the_first_attempt() -> None:
    failed, fine = FirstStart(), FirstStart()
    failed.end(StartError("exit code 1"))
    failed.end(None)
    assert failed.turn.done(), "nothing is left to wait for"
    with pytest.raises(StartError):
        await failed.outcome
    fine.end(None)
    fine.end(StartError("later"))
    await fine.outcome
