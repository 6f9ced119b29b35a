"""A deadline that several steps share, and a stopwatch."""

from __future__ import annotations

import time


class Deadline:
    """A point in time, `seconds` after its creation."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, at_most: float | None = None) -> float:
        """Return the seconds left, never 0, so that a late step fails with its own time-out."""
        left = max(0.001, self._end - time.monotonic())
        return left if at_most is None else min(left, at_most)


class Stopwatch:
    """Measures the time since its creation."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the creation of the stopwatch."""
        return time.monotonic() - self._began
