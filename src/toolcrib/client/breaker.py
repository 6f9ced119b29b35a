"""The circuit breaker: after several failures in a row no request is tried for a while, then one as a trial."""

from __future__ import annotations

from dataclasses import dataclass

THRESHOLD = 5


@dataclass(slots=True)
class Breaker:
    """Closed, open until `retry_at`, or half-open with one trial under way. The time is an argument."""

    pause: float
    failures: int = 0
    retry_at: float | None = None
    trial: bool = False

    def admits(self, now: float) -> bool:
        """Return whether a request may try. The first one after the pause is the trial; the others are refused."""
        if self.retry_at is None:
            return True
        if self.trial or now < self.retry_at:
            return False
        self.trial = True
        return True

    def succeeded(self) -> None:
        """Close the breaker: a request was answered."""
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
        """Let another trial through: the last one ended without an outcome."""
        self.trial = False

    def failed(self, now: float) -> None:
        """Count a connection that could not be made or was lost, and open the breaker if there are too many."""
        self.failures += 1
        self.trial = False
        if self.failures >= THRESHOLD:
            self.retry_at = now + self.pause

    def remaining(self, now: float) -> float:
        """Return the seconds until the next trial."""
        return max(0.0, self.retry_at - now) if self.retry_at is not None else 0.0
