"""The circuit breaker: after so many failures in a row nobody tries for a while, then one does for all."""

from __future__ import annotations

from dataclasses import dataclass

THRESHOLD = 5


@dataclass(slots=True)
class Breaker:
    """Closed, open until `retry_at`, or half-open with one trial under way. Knows no clock: the time is given."""

    pause: float
    failures: int = 0
    retry_at: float | None = None
    trial: bool = False

    def admits(self, now: float) -> bool:
        """Whether a call may try. The first one after the pause is the trial; others wait for its outcome."""
        if self.retry_at is None:
            return True
        if self.trial or now < self.retry_at:
            return False
        self.trial = True
        return True

    def succeeded(self) -> None:
        """A call was answered."""
        if self.failures:
            self.failures = 0
            self.retry_at = None
            self.trial = False

    def connected(self) -> None:
        """A connection was made: requests may try it. The next failure opens the breaker again; only an answered
        request resets the count, because a server may accept connections and answer nothing.
        """
        self.retry_at = None
        self.trial = False

    def trial_ended(self) -> None:
        """The trial's attempt is over without a verdict: it connected and has yet to answer, or it was given up."""
        self.trial = False

    def failed(self, now: float) -> None:
        """A connection could not be made, or was lost."""
        self.failures += 1
        self.trial = False
        if self.failures >= THRESHOLD:
            self.retry_at = now + self.pause

    def remaining(self, now: float) -> float:
        """Seconds until the next trial."""
        return max(0.0, self.retry_at - now) if self.retry_at is not None else 0.0
