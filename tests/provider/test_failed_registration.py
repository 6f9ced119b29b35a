"""A source that cannot be listed at its registration."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import toolcrib as tc
from tests.provider.kit import SmallSource
from toolcrib.errors import ConfigError
from toolcrib.provider import Provider
from toolcrib.types import ConnectionState


async def test_a_call_of_a_source_that_was_never_listed_names_the_reason(tmp_path: Path) -> None:
    missing = tmp_path / "server.py"
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("late", tc.StdioServer(sys.executable, [str(missing)]))
        outcome = await provider.execute("late", "add", {})
        assert isinstance(outcome.exception, tc.ToolNotFound)
        assert "exited with code 2" in str(outcome.error)
        assert "provider.refresh('late')" in str(outcome.error)
        missing.write_text("import toolcrib as tc\ns = tc.ToolServer('s')\ns.tool(lambda: 1, name='add')\ns.run()\n")
        await provider.refresh("late")
        assert (await provider.execute("late", "add", {})).success


async def test_the_id_of_a_source_is_no_name_of_another(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider("sqlite://") as provider:
        first = await provider.add_source("first", small.server())
        with pytest.raises(ConfigError, match="name: expected a new name"):
            await provider.add_source(first.id, small.server())
        assert provider.get_source(first.id).name == "first"


async def test_a_source_that_recovered_is_not_failed_after_a_restart(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server())
        small.change(start="crash")
        await provider.update_source("small", small.server(), stateless=True)
        assert provider.status("small").state is ConnectionState.FAILED
        small.change(start="")
        await provider.refresh("small")
    async with Provider(tmp_path / "tools.db") as provider:
        assert provider.status("small").state is ConnectionState.DISCONNECTED
