"""The states of a connection as a table, and the counting of silence."""

from __future__ import annotations

import itertools

import pytest

from toolyard.client.standing import STALLED_AFTER, TRANSITIONS, Silence, Standing
from toolyard.types import State, Status


def standing_at(state: State) -> Standing:
    return Standing(Status(state))


def test_a_connection_begins_disconnected() -> None:
    assert Standing().status.state is State.DISCONNECTED
    assert Standing().status.since > 0


@pytest.mark.parametrize("before, after", list(itertools.product(State, State)))
def test_a_state_follows_another_only_as_the_table_says(before: State, after: State) -> None:
    standing = standing_at(before)
    if after is before or after in TRANSITIONS[before]:
        standing.become(after, "why")
        assert (standing.status.state, standing.status.reason) == (after, "why")
    else:
        with pytest.raises(AssertionError, match=f"{before} cannot become {after}"):
            standing.become(after)
        assert standing.status.state is before


def test_every_state_has_its_row_and_from_each_one_can_be_let_go() -> None:
    assert set(TRANSITIONS) == set(State)
    assert all(State.DISCONNECTED in follow for state, follow in TRANSITIONS.items() if state is not State.DISCONNECTED)


def test_no_connection_is_made_but_by_connecting() -> None:
    leads_to_connected = {state for state, follow in TRANSITIONS.items() if State.CONNECTED in follow}
    # Over HTTP a connection that lacks credentials, or that nobody answers on, is still one.
    assert leads_to_connected == {State.CONNECTING, State.DEGRADED, State.NEEDS_AUTH}


def test_silence_is_counted_while_the_server_says_nothing() -> None:
    silence = Silence()
    assert [silence.note(7) for _ in range(4)] == [1, 2, 3, 4]
    assert [silence.note(8), silence.note(8), silence.note(9)] == [1, 2, 1]
    assert STALLED_AFTER == 3


def test_the_first_silence_of_a_server_that_never_spoke_is_one() -> None:
    assert Silence().note(0) == 1
