"""Calls that fail before their source or tool is found are in the audit, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.provider.kit import SmallSource
from toolcrib.errors import MissingCredential, ServerNotFound, ToolNotFound
from toolcrib.provider.executor import MAX_GIVEN_NAME
from toolcrib.provider.provider import Provider
from toolcrib.provider.store import open_store
from toolcrib.provider.store.rows import ExecutionRow


class BrokenArguments(Mapping[str, Any]):
    """Arguments with a defect."""

    def __getitem__(self, key: str) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("these arguments have a defect")

    def __len__(self) -> int:
        return 1


async def test_calls_of_unknown_sources_and_tools_and_without_credentials_are_in_the_audit(tmp_path: Path) -> None:
    small, own = SmallSource(tmp_path), SmallSource(tmp_path, "own")
    file, long = tmp_path / "tools.db", "x" * 100_000
    async with Provider(file) as provider:
        source = await provider.add_source("small", small.server())
        personal = await provider.add_source("own", own.server(), personal=["TOKEN"])
        await provider.credentials.set("own", "TOKEN", "t", principal="bob")
        first = await provider.execute("small", "no", principal="alice")
        assert isinstance(first.exception, ToolNotFound)
        second = await provider.execute(long, long, principal="alice")
        assert isinstance(second.exception, ServerNotFound)
        third = await provider.execute("own", "echo", principal="alice")
        assert isinstance(third.exception, MissingCredential)
        own.change(start="crash")
        await provider.execute("own", "echo", principal="bob")
        with pytest.raises(RuntimeError):
            await provider.execute("small", "echo", BrokenArguments(), principal="dora")
    async with await open_store(f"sqlite:///{file}") as store:
        rows = sorted(await store.executions(), key=lambda row: row.at)
        buckets = {(row.source_id, row.tool): (row.calls, row.errors) for row in await store.stat_buckets()}

    def facts(row: ExecutionRow) -> tuple[Any, ...]:
        return row.principal, row.source_id, row.tool, row.outcome, row.sent, row.attempts

    given = "x" * MAX_GIVEN_NAME
    assert [facts(row) for row in rows] == [
        ("alice", source.id, "no", "tool_not_found", False, 0),
        ("alice", given, given, "source_not_found", False, 0),
        ("alice", personal.id, "echo", "missing_credential", False, 0),
        ("bob", personal.id, "echo", "start_failed", False, 0),
        ("dora", source.id, "echo", "internal_error", None, 0),
    ]
    assert all(row.error and len(row.error) <= 300 for row in rows)
    # Callers can give any number of names, so the counts do not have them.
    assert buckets == {
        (source.id, ""): (1, 1),
        ("", ""): (1, 1),
        (personal.id, ""): (2, 2),
        (source.id, "echo"): (1, 1),
    }
