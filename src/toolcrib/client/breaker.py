"""The circuit breaker: after several failures in a row it rejects requests for a while, then allows one as a trial."""

from __future__ import annotations

from dataclasses import dataclass

MAX_FAILURES = 5


@dataclass(slots=True)
class Breaker:
    """Closed, open until `retry_at`, or half-open during one trial. The caller passes the time."""

    pause: float
    failures: int = 0
    retry_at: float | None = None
    trial: bool = False

    def admits(self, now: float) -> bool:
        """Return whether a request may be sent. The first one after the pause is the trial; others are rejected."""
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
        """Let requests through: a connection was made.

        The next failure opens the breaker again. Only an answered request resets the count, because a server may
        accept connections and answer nothing.
        """
        self.retry_at = None
        self.trial = False

    def trial_ended(self) -> None:
        """Allow another trial: the last one ended without an outcome."""
        self.trial = False

    def failed(self, now: float) -> None:
        """Count a failed or lost connection, and open the breaker if there are too many."""
        self.failures += 1
        self.trial = False
        if self.failures >= MAX_FAILURES:
            self.retry_at = now + self.pause

    def remaining(self, now: float) -> float:
        """Return the seconds until the next trial."""
        return max(0.0, self.retry_at - now) if self.retry_at is not None else 0.0
