"""The status of a server of a hub, as a function of the facts."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import ConnectionLost, StartError, ToolcribError
from toolcrib.hub.server_status import WAITING, StartPhase, StatusFacts, derive_status, find_last_error
from toolcrib.types import ConnectionState as State
from toolcrib.types import ConnectionStatus

NOT_REQUESTED, RUNNING, ENDED = StartPhase.NOT_REQUESTED, StartPhase.RUNNING, StartPhase.ENDED
BROKEN = ToolcribError("no\nlist")


def facts(state: State, reason: str = "", phase: StartPhase = ENDED, listed: bool = True, **more: Any) -> StatusFacts:
    return StatusFacts(ConnectionStatus(state, reason, 5.0), phase, listed, **more)


@pytest.mark.parametrize(
    "given, expected",
    [
        (facts(State.CONNECTED), "connected"),
        (facts(State.CONNECTED, listed=False, phase=RUNNING), "connecting (its tools are being listed)"),
        (facts(State.CONNECTED, list_errors={"tools": BROKEN}), "degraded (its tools could not be listed: no list)"),
        (
            facts(State.CONNECTED, list_errors={"resource_templates": BROKEN, "prompts": ToolcribError("no prompts")}),
            "degraded (its prompts could not be listed: no prompts)",
        ),
        (
            facts(State.CONNECTED, list_errors={"resource_templates": BROKEN}),
            "degraded (its resource templates could not be listed: no list)",
        ),
        (facts(State.CONNECTED, phase=StartPhase.WAITING), "connected"),
        (facts(State.DEGRADED, "slow"), "degraded (slow)"),
        (facts(State.DISCONNECTED, phase=NOT_REQUESTED, listed=False), "disconnected (not started yet)"),
        (facts(State.DISCONNECTED, phase=RUNNING, listed=False), "connecting (being started)"),
        (facts(State.DISCONNECTED, phase=StartPhase.WAITING, listed=False), f"connecting ({WAITING})"),
        (facts(State.CONNECTING, "exit code 1", phase=StartPhase.WAITING), f"connecting ({WAITING})"),
        (facts(State.FAILED, "exit code 1", phase=StartPhase.WAITING), f"connecting ({WAITING})"),
        (facts(State.DISCONNECTED), "disconnected"),
        (facts(State.DISCONNECTED, idle=True), "disconnected (idle)"),
        (facts(State.DISCONNECTED, "exit code 1"), "disconnected (exit code 1)"),
        (facts(State.DISCONNECTED, transient=True), "disconnected (transient: connected for each call)"),
        (facts(State.DISCONNECTED, transient=True, list_errors={"tools": BROKEN}), "failed (no list)"),
        (facts(State.CONNECTING, "the connection\nwas lost"), "connecting (the connection was lost)"),
        (facts(State.FAILED, "exit code 1"), "failed (exit code 1)"),
        (facts(State.NEEDS_AUTH, "401"), "needs-auth (401)"),
        (facts(State.DISABLED, "disabled in its settings", phase=NOT_REQUESTED), "disabled (disabled in its settings)"),
    ],
)
def test_the_status_follows_from_the_facts(given: StatusFacts, expected: str) -> None:
    status = derive_status(given)
    assert str(status) == expected
    assert status.since == 5.0


def test_the_last_error_is_that_of_the_connection_before_that_of_the_tools_before_others() -> None:
    refused, missing = StartError("exit code 3"), ToolcribError("no prompts")
    lists = {"tools": BROKEN, "prompts": missing}
    assert find_last_error(facts(State.FAILED, "exit code 3", connect_error=refused, list_errors=lists), "s") is refused
    assert find_last_error(facts(State.FAILED, "exit code 3", list_errors=lists), "s") is BROKEN
    assert find_last_error(facts(State.CONNECTED, list_errors={"prompts": missing}), "s") is missing
    lost = find_last_error(facts(State.CONNECTING, "signal 9", list_errors={"prompts": missing}), "s")
    assert isinstance(lost, ConnectionLost) and (lost.message, lost.server) == ("signal 9", "s")
    for state, reason in ((State.CONNECTED, ""), (State.DISCONNECTED, ""), (State.DISABLED, "by its settings")):
        assert find_last_error(facts(state, reason), "s") is None
