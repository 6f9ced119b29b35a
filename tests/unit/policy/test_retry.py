"""Which calls may be sent again: by type and attribute, never by text."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import (
    AccessDenied,
    AuthError,
    CallTimeout,
    ConfigError,
    ConnectError,
    ConnectionLost,
    OutcomeUnknown,
    ProtocolError,
    RateLimited,
    RemoteError,
    StartError,
    ToolcribError,
    ToolFailed,
    ToolNotFound,
    TransportError,
    UnansweredTimeout,
    UsageError,
)
from toolcrib.policy.retry import RetryBudget, call_delay, is_repeatable, may_retry, reconnect_delay
from toolcrib.types import ReconnectPolicy, Tool

UNSENT = [ConnectError(), StartError(exit_code=1), ConnectionLost(), RateLimited(retry_after=1.0)]
FINAL = [
    ConnectError(permanent=True),
    StartError(permanent=True),
    CallTimeout(),
    UnansweredTimeout(),
    TransportError(),
    ToolcribError(),
    ProtocolError(),
    RemoteError(-32602, "timeout, try again, connection reset"),
    AuthError(status=401),
    AccessDenied(),
    ToolNotFound(),
    ToolFailed(),
    ConfigError(),
    UsageError(),
    TimeoutError(),
    OSError(),
    asyncio.CancelledError(),
]


def _id(error: BaseException) -> str:
    return f"{type(error).__name__}{'-permanent' if getattr(error, 'permanent', False) else ''}"


@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("error", UNSENT, ids=_id)
def test_what_was_surely_not_sent_may_be_sent(error: BaseException, repeatable: bool) -> None:
    assert may_retry(error, repeatable=repeatable)


@pytest.mark.parametrize("repeatable", [True, False])
@pytest.mark.parametrize("error", FINAL, ids=_id)
def test_refusals_deadlines_and_foreign_errors_are_final(error: BaseException, repeatable: bool) -> None:
    assert not may_retry(error, repeatable=repeatable)


def test_an_unknown_outcome_is_tried_again_only_where_twice_does_no_harm() -> None:
    assert may_retry(OutcomeUnknown(), repeatable=True)
    assert not may_retry(OutcomeUnknown(), repeatable=False)


@pytest.mark.parametrize("kind", [ConnectError, ConnectionLost, RateLimited])
def test_the_attribute_decides_over_the_type(kind: type[ConnectError | ConnectionLost | RateLimited]) -> None:
    error = kind()
    error.sent = True
    assert not may_retry(error, repeatable=True)


READERS = [
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "ping",
    "server/discover",
]


@pytest.mark.parametrize("method", READERS)
def test_methods_that_only_look_are_repeatable(method: str) -> None:
    assert is_repeatable(method)


@pytest.mark.parametrize("method", ["tools/call", "resources/subscribe", "logging/setLevel", "initialize", "x/list"])
def test_other_methods_are_not_repeatable_by_themselves(method: str) -> None:
    assert not is_repeatable(method)


def test_the_operators_word_covers_all_tools_or_the_named_ones() -> None:
    assert is_repeatable("tools/call", tool="any", retry_safe=True)
    assert is_repeatable("tools/call", tool="search", retry_safe={"search"})
    assert is_repeatable("tools/call", tool=Tool("search"), retry_safe=["search"])
    assert not is_repeatable("tools/call", tool="delete", retry_safe={"search"})
    assert not is_repeatable("tools/call", tool=None, retry_safe={"search"})
    assert is_repeatable("tools/call", tool="search", retry_safe="search")
    assert not is_repeatable("tools/call", tool="sea", retry_safe="search")


def test_the_operators_word_for_tools_says_nothing_of_other_methods() -> None:
    assert not is_repeatable("resources/subscribe", retry_safe=True, trusted=True)


@pytest.mark.parametrize("hint", ["readOnlyHint", "idempotentHint"])
def test_a_servers_hint_counts_only_if_the_server_is_trusted(hint: str) -> None:
    hinted = Tool("t", annotations={hint: True})
    assert is_repeatable("tools/call", tool=hinted, trusted=True)
    assert not is_repeatable("tools/call", tool=hinted)
    assert not is_repeatable("tools/call", tool=Tool("t", annotations={hint: False}), trusted=True)
    assert not is_repeatable("tools/call", tool=Tool("t", annotations={hint: "true"}), trusted=True)
    assert not is_repeatable("tools/call", tool="t", trusted=True)


class Fixed:
    """A random generator that always returns the same number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


HIGH = Fixed(1 - 2**-53)


def test_calls_wait_up_to_1_2_4_seconds_and_never_more_than_30() -> None:
    ceilings = [call_delay(attempt, HIGH) for attempt in range(7)]
    assert ceilings == pytest.approx([1, 2, 4, 8, 16, 30, 30])
    assert call_delay(5, Fixed(0.0)) == 0.0


def test_reconnects_follow_the_policy_give_or_take_its_jitter() -> None:
    policy = ReconnectPolicy()
    assert [reconnect_delay(policy, n, Fixed(0.5)) for n in range(6)] == [1, 2, 4, 8, 16, 30]
    assert reconnect_delay(policy, 0, Fixed(0.0)) == pytest.approx(0.7)
    assert reconnect_delay(policy, 0, HIGH) == pytest.approx(1.3)


@given(
    st.floats(0, 100),
    st.floats(0, 1000),
    st.floats(0, 1),
    st.integers(0, 100_000),
    st.randoms(use_true_random=False),
)
def test_delays_stay_in_their_bounds(base: float, cap: float, jitter: float, attempt: int, rng: random.Random) -> None:
    policy = ReconnectPolicy(base, cap, 3, jitter)
    assert 0 <= reconnect_delay(policy, attempt, rng) <= cap * (1 + jitter)
    assert 0 <= call_delay(attempt, rng) <= 30


def test_a_spent_budget_allows_no_retry_until_successes_paid_for_it() -> None:
    budget = RetryBudget(2)
    assert [budget.spend() for _ in range(3)] == [True, True, False]
    for _ in range(9):
        budget.succeeded()
    assert not budget.spend()
    budget.succeeded()
    budget.succeeded()
    assert budget.spend()


@given(st.lists(st.booleans()))
def test_retries_never_exceed_what_was_there_and_what_successes_gave(happenings: list[bool]) -> None:
    budget = RetryBudget(5, gain=0.1)
    retries = successes = 0
    for success in happenings:
        if success:
            budget.succeeded()
            successes += 1
        else:
            retries += budget.spend()
        assert 0 <= budget.tokens <= 5
        assert retries <= 5 + 0.1 * successes + 1e-6
