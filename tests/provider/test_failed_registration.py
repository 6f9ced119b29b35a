"""A source that cannot be listed at its registration."""

from __future__ import annotations

import sys
from pathlib import Path

import toolcrib as tc
from toolcrib.provider import Provider


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
