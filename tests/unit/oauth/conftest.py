"""A clock for the tests of `TokenVerifier`."""

from __future__ import annotations

import time

import pytest

from toolcrib.oauth import token_verifier


class TwoClocks:
    """Stands in for the module `time`: its clocks stand still until a test moves them."""

    def __init__(self) -> None:
        self.wall = time.time()
        self.steady = time.monotonic()

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> TwoClocks:
    """The clocks of `TokenVerifier`."""
    found = TwoClocks()
    monkeypatch.setattr(token_verifier, "time", found)
    return found
