"""Decides which calls are retried, and when. A call that may have been executed is never silently repeated.

1. A call that was certainly not sent may always be retried.
2. A call that was sent without a response is retried only if it is repeatable: according to the operator, or to a
   server that the operator trusts.
3. All other errors are left to the caller, such as rejections and passed deadlines.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ..errors import CallTimeout, ConnectError, ConnectionLost, OutcomeUnknown, RateLimited
from ..types import ReconnectPolicy, Tool

REPEATABLE_METHODS = frozenset(
    {
        "completion/complete",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "server/discover",
        "tools/list",
    }
)
"""Methods that only read, so that repeating them is harmless."""

CALL_DELAY_CAP = 30.0


class Rng(Protocol):
    """A source of random numbers, such as the `random` module or a `random.Random`."""

    def random(self) -> float:
        """Return a number from 0 (included) to 1 (excluded)."""
        ...


def may_retry(error: BaseException, *, repeatable: bool) -> bool:
    """Return whether a call that ended with `error` may be sent again; `repeatable`: see `is_repeatable`."""
    match error:
        case CallTimeout():
            return False
        case ConnectError():
            return not error.sent and not error.permanent
        case ConnectionLost() | RateLimited():
            return not error.sent
        case OutcomeUnknown():
            return repeatable
        case _:
            return False


def is_repeatable(
    method: str,
    *,
    tool: Tool | str | None = None,
    retry_safe: bool | Collection[str] = False,
    trusted: bool = False,
) -> bool:
    """Return whether executing a request twice has the same effect as once.

    `retry_safe` is the operator's statement, for all tools or for the tools of these names. A server's annotations of a
    tool (`tool` as a `Tool`) count only if the operator marked the server as `trusted`.
    """
    if method != "tools/call":
        return method in REPEATABLE_METHODS
    named = {retry_safe} if isinstance(retry_safe, str) else retry_safe
    if named is True or (named is not False and (tool.name if isinstance(tool, Tool) else tool) in named):
        return True
    if not trusted or not isinstance(tool, Tool):
        return False
    return tool.annotations.get("readOnlyHint") is True or tool.annotations.get("idempotentHint") is True


def call_delay(attempt: int, rng: Rng) -> float:
    """Return the seconds to wait after failed attempt number `attempt` (from 0): random, up to 1, 2, 4 ... at most 30.

    The full jitter spreads the retries of calls that failed at the same time.
    """
    return _doubled(1.0, attempt, CALL_DELAY_CAP) * rng.random()


def reconnect_delay(policy: ReconnectPolicy, attempt: int, rng: Rng) -> float:
    """Return the seconds to wait before reconnecting after failed attempt `attempt` (from 0), at most `max_delay`."""
    jitter = policy.jitter_factor * (2.0 * rng.random() - 1.0)
    delay = _doubled(policy.base_delay, attempt, policy.max_delay) * (1.0 + jitter)
    return min(policy.max_delay, max(0.0, delay))


def _doubled(base: float, times: int, cap: float) -> float:
    return float(min(cap, base * 2.0 ** min(times, 64)))


class RetryBudget:
    """A quota of retries for one server: a retry costs more than a success restores, so retries cannot overload it.

    A full budget covers one retry for each call of a busy connection that was lost.
    """

    __slots__ = ("capacity", "gain", "tokens")

    def __init__(self, capacity: float = 100.0, *, gain: float = 0.1) -> None:
        self.capacity = capacity
        self.gain = gain
        self.tokens = capacity

    @property
    def full(self) -> bool:
        """Whether the budget is at its capacity."""
        return self.tokens >= self.capacity

    def spend(self) -> bool:
        """Take one retry from the budget; return False if it is exhausted."""
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True

    def succeeded(self) -> None:
        """Add `gain` to the budget after an answered call."""
        self.tokens = min(self.capacity, self.tokens + self.gain)

    def __repr__(self) -> str:
        return f"RetryBudget({self.tokens:.1f} of {self.capacity:.0f})"
