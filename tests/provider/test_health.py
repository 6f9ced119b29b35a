"""The status of sources after connections that are not kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.provider.kit import SmallSource
from tests.unit.kit import eventually
from toolcrib.provider.provider import Provider


@pytest.mark.parametrize("lifecycle, after", [("singleton", "disconnected"), ("transient", "connected")])
async def test_a_source_is_not_connected_after_a_connection_for_one_call_unless_it_has_only_such(
    tmp_path: Path, lifecycle: str, after: str
) -> None:
    small = SmallSource(tmp_path)
    form = small.form(mcp_lifecycle_mode=lifecycle)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.register(form)
        await provider.disable("small")
        await provider.enable("small")
        assert provider.status("small").state == "disconnected"
        assert (await provider.execute("small", "echo", {"text": "x"}, environment={"A": "1"})).success
        await eventually(lambda: not provider.connections("small"))
        assert provider.status("small").state == after
        await provider.update_source("small", form)
        await eventually(lambda: not provider.connections("small"))
        assert provider.status("small").state == after
        assert (await provider.execute("small", "echo", {"text": "x"})).success
        assert provider.status("small").state == "connected"
