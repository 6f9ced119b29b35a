"""The bound on replies and notifications that wait."""

from __future__ import annotations

import pytest

from toolcrib.errors import ConnectionLost
from toolcrib.protocol import limits
from toolcrib.transports.backlog import Backlog

REPLY = {"jsonrpc": "2.0", "id": 1, "result": {}}
CANCELLED = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
LARGE = limits.SMALL_REPLY + 1


@pytest.mark.parametrize(
    "size, most",
    [
        (0, limits.MAX_QUEUED),
        (limits.SMALL_REPLY, min(limits.MAX_QUEUED, limits.MAX_QUEUED_BYTES // limits.SMALL_REPLY)),
        (LARGE, min(limits.MAX_QUEUED, limits.MAX_QUEUED_LARGE_BYTES // LARGE)),
    ],
)
def test_what_exceeds_a_limit_is_not_counted_and_ends_the_connection(size: int, most: int) -> None:
    full: list[ConnectionLost] = []
    backlog = Backlog(full.append)
    assert all(backlog.add(REPLY, size) for _ in range(most))
    assert full == []
    assert not backlog.add(REPLY, size)
    assert [f"{most:,} replies and notifications of {most * size:,} bytes" in str(error) for error in full] == [True]
    backlog.remove(size)
    assert backlog.add(REPLY, size)
    assert len(full) == 1


def test_a_cancellation_is_left_out_instead() -> None:
    full: list[ConnectionLost] = []
    backlog = Backlog(full.append)
    for _ in range(limits.MAX_QUEUED):
        backlog.add(REPLY, 1)
    assert not backlog.add(CANCELLED, 1)
    assert full == []


def test_large_replies_do_not_count_against_the_small_ones() -> None:
    full: list[ConnectionLost] = []
    backlog = Backlog(full.append)
    assert backlog.add(REPLY, limits.MAX_QUEUED_LARGE_BYTES)
    assert backlog.add(REPLY, limits.SMALL_REPLY)
    assert not backlog.add(REPLY, LARGE)
    assert len(full) == 1
