"""Futures that several callers wait for together."""

from __future__ import annotations

import asyncio

import pytest

from toolcrib._util.futures import outcome, settle
from toolcrib.errors import ConnectError


async def test_all_waiting_callers_get_the_outcome_and_what_is_done_stays_done() -> None:
    well, failed, done = outcome(), outcome(), outcome()
    done.set_result(None)
    settle([well, None, done], None)
    settle([failed, done], ConnectError("gone"))
    await well
    await done
    with pytest.raises(ConnectError, match="gone"):
        await failed


async def test_an_outcome_that_is_cancelled_or_that_no_caller_waits_for_is_not_a_lost_exception(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cancelled, unwatched = outcome(), outcome()
    cancelled.cancel()
    settle([cancelled, unwatched], ConnectError("gone"))
    await asyncio.sleep(0)
    del unwatched
    assert cancelled.cancelled() and caplog.records == []
