"""What the tests of the provider's values share: rows, records, and lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from toolcrib.provider.inventory import InventoryTool, diff
from toolcrib.provider.snapshot import Source
from toolcrib.provider.source_config import ReviewPolicy
from toolcrib.provider.store.rows import SourceRow, SourceStateRow


def make_definition(name: str, description: str = "", **properties: Any) -> dict[str, Any]:
    """Return an entry of `tools/list`."""
    schema = {"type": "object", "properties": properties}
    return {"name": name, "description": description or f"Do {name}.", "inputSchema": schema}


def make_tools(*definitions: Mapping[str, Any] | str, source: str = "s", id: str = "1") -> list[InventoryTool]:
    """Return the records of a registration."""
    listed = [make_definition(each) if isinstance(each, str) else each for each in definitions]
    ids = count(1)
    change = diff(
        (),
        listed,
        source_id=id,
        source=source,
        policy=ReviewPolicy.FOLLOW,
        first=True,
        now=1.0,
        ids=lambda: f"{id}-{next(ids)}",
    )
    return list(change.tools.values())


def make_source_row(slug: str, *, id: str = "", enabled: bool = True, name: str = "", at: float = 0.0) -> SourceRow:
    return SourceRow(
        id=id or f"id-{slug}",
        name=name or slug,
        slug=slug,
        config={},
        sealed=None,
        key_id=None,
        generation=1,
        enabled=enabled,
        created_at=at,
        updated_at=at,
    )


def make_state_row(source_id: str, status: str = "connected", reason: str = "") -> SourceStateRow:
    return SourceStateRow(
        source_id=source_id,
        status=status,
        reason=reason,
        since=0.0,
        listed_at=1.0,
        server={"instructions": "Be brief."},
        instructions_hash="",
        package=None,
    )


def make_snapshot_source(slug: str, tools: Iterable[Any] = (), *, enabled: bool = True, name: str = "") -> Source:
    """Return a source whose tools are active."""
    row = make_source_row(slug, enabled=enabled, name=name)
    records = {tool.name: tool for tool in make_tools(*tools, source=row.name, id=row.id)}
    return Source(row, make_state_row(row.id), records)
