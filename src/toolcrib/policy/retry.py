"""Which calls may be sent again, and when. A call that may have run is never silently run twice.

1. Surely unsent: any call.
2. Sent and unanswered: only what does no harm twice, which the operator says, or a server that the operator trusts.
3. Everything else is the caller's to decide: a refusal stays a refusal, a passed deadline leaves no time.
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
"""Methods that only look: asking twice does what asking once does."""

CALL_DELAY_CAP = 30.0


class Rng(Protocol):
    """A source of chance: the `random` module, or a `random.Random` of one's own."""

    def random(self) -> float:
        """A number from 0 (included) to 1 (excluded)."""
        ...


def may_retry(error: BaseException, *, repeatable: bool) -> bool:
    """Whether a call that ended so may be sent once more; `repeatable` is what `is_repeatable` said of it."""
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
    """Whether running it twice is as good as once.

    `retry_safe` is the operator's word: for all tools, or for those of these names. What a server says of its own tools
    (`tool` given whole, with its annotations) counts only if the operator marked it `trusted`.
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
    """Seconds to wait after failed attempt number `attempt` (from 0): anything up to 1, 2, 4 ... at most 30.

    Full jitter: callers who failed together do not come back together.
    """
    return _doubled(1.0, attempt, CALL_DELAY_CAP) * rng.random()


def reconnect_delay(policy: ReconnectPolicy, attempt: int, rng: Rng) -> float:
    """Seconds to wait before connecting again after failed attempt number `attempt` (from 0), at most `max_delay`."""
    jitter = policy.jitter_factor * (2.0 * rng.random() - 1.0)
    delay = _doubled(policy.base_delay, attempt, policy.max_delay) * (1.0 + jitter)
    return min(policy.max_delay, max(0.0, delay))


def _doubled(base: float, times: int, cap: float) -> float:
    return float(min(cap, base * 2.0 ** min(times, 64)))


class RetryBudget:
    """A quota of retries for one server: each costs more than a success gives back, so a sick server is not hammered.

    Full, it covers one retry for each call of a busy connection that broke.
    """

    __slots__ = ("capacity", "gain", "tokens")

    def __init__(self, capacity: float = 100.0, *, gain: float = 0.1) -> None:
        self.capacity = capacity
        self.gain = gain
        self.tokens = capacity

    @property
    def full(self) -> bool:
        """Whether a success would add nothing."""
        return self.tokens >= self.capacity

    def spend(self) -> bool:
        """Pay for one retry; False if there is nothing left to pay with."""
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True

    def succeeded(self) -> None:
        """A call was answered."""
        self.tokens = min(self.capacity, self.tokens + self.gain)

    def __repr__(self) -> str:
        return f"RetryBudget({self.tokens:.1f} of {self.capacity:.0f})"
