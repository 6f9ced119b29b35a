"""Starting many servers: how many at a time, and how long each may take."""

from __future__ import annotations

import pytest

import toolyard as ty
from tests.hub.kit import Hub


@pytest.mark.parametrize(
    "of_hub, of_server, expected",
    [({}, {}, 120.0), ({"connect_timeout": 7.0}, {}, 7.0), ({"connect_timeout": 7.0}, {"connect_timeout": 3.0}, 3.0)],
)
async def test_a_server_that_may_have_to_be_downloaded_gets_more_time_in_a_hub_too(
    of_hub: dict[str, float], of_server: dict[str, float], expected: float
) -> None:
    hub = Hub({"npx": (ty.StdioServer("npx", ["-y", "some-server"]), of_server)}, start="lazy", **of_hub)
    pool = hub._roster.members["npx"].pool
    assert pool is not None
    assert pool.client._settings.connect_timeout == expected
    await hub.close()
