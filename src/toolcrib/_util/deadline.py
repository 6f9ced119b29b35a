"""The time that one server's check-up may take, shared by all of its steps."""

from __future__ import annotations

import time


class Deadline:
    """Runs from when it is made."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self, at_most: float | None = None) -> float:
        """What is left of it, never nothing: a step that comes late fails by its own time-out."""
        left = max(0.001, self._end - time.monotonic())
        return left if at_most is None else min(left, at_most)


class Stopwatch:
    """How long a step took."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Until now."""
        return time.monotonic() - self._began
