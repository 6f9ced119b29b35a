from __future__ import annotations

import pytest

from tests.unit.transports.links import Bench


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.channel.open(made.inbound)
    return made
