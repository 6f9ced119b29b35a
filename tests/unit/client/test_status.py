"""The states of a connection as a table, and the counting of silence."""

from __future__ import annotations

import itertools

import pytest

from toolcrib.client.status import STALLED_AFTER, TRANSITIONS, Silence, StatusTracker
from toolcrib.types import ConnectionState, ConnectionStatus


def standing_at(state: ConnectionState) -> StatusTracker:
    return StatusTracker(ConnectionStatus(state))


def test_a_connection_begins_disconnected() -> None:
    assert StatusTracker().status.state is ConnectionState.DISCONNECTED
    assert StatusTracker().status.since > 0


@pytest.mark.parametrize("before, after", list(itertools.product(ConnectionState, ConnectionState)))
def test_a_state_follows_another_only_as_the_table_says(before: ConnectionState, after: ConnectionState) -> None:
    standing = standing_at(before)
    if after is before or after in TRANSITIONS[before]:
        standing.become(after, "why")
        assert (standing.status.state, standing.status.reason) == (after, "why")
    else:
        with pytest.raises(AssertionError, match=f"{before} cannot become {after}"):
            standing.become(after)
        assert standing.status.state is before


def test_every_state_has_its_row_and_can_be_left_by_disconnecting() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    # A disabled server of a hub has no connection, so no connection ever becomes one.
    assert TRANSITIONS[ConnectionState.DISABLED] == frozenset()
    assert not [state for state, follow in TRANSITIONS.items() if ConnectionState.DISABLED in follow]
    assert all(
        ConnectionState.DISCONNECTED in follow
        for state, follow in TRANSITIONS.items()
        if state not in (ConnectionState.DISCONNECTED, ConnectionState.DISABLED)
    )


def test_no_connection_is_made_but_by_connecting() -> None:
    leads_to_connected = {state for state, follow in TRANSITIONS.items() if ConnectionState.CONNECTED in follow}
    # Over HTTP, a connection without credentials or answers is still a connection.
    assert leads_to_connected == {ConnectionState.CONNECTING, ConnectionState.DEGRADED, ConnectionState.NEEDS_AUTH}


def test_silence_is_counted_while_the_server_says_nothing() -> None:
    silence = Silence()
    assert [silence.note(7) for _ in range(4)] == [1, 2, 3, 4]
    assert [silence.note(8), silence.note(8), silence.note(9)] == [1, 2, 1]
    assert STALLED_AFTER == 3


def test_the_first_silence_of_a_server_that_never_spoke_is_one() -> None:
    assert Silence().note(0) == 1
