from __future__ import annotations

import pytest

from tests.unit.provider.kit import make_snapshot_source
from toolcrib import defaults
from toolcrib.errors import ConfigError
from toolcrib.provider.executor import find_timeout
from toolcrib.types import UNSET


def test_the_timeout_is_that_of_the_call_or_of_the_source_and_is_never_zero() -> None:
    source = make_snapshot_source("s")
    assert find_timeout(source, 0.5) == 0.5
    assert find_timeout(source, None) is None
    assert find_timeout(source, UNSET) == defaults.EXECUTION_TIMEOUT
    for wrong in (0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="timeout"):
            find_timeout(source, wrong)
