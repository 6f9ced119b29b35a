"""Rows for tests of the store, complete and all different."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from toolcrib.provider.store.rows import (
    AdminActionRow,
    ApprovalRow,
    CredentialRow,
    EventRow,
    ExecutionRow,
    GroupRow,
    GroupRuleRow,
    PrincipalRow,
    PromptRow,
    ResourceRow,
    Row,
    SourceRow,
    SourceStateRow,
    StatBucketRow,
    TemplateRow,
    ToolRow,
    ToolVersionRow,
)

SCHEMA = {"type": "object", "properties": {"ä": {"type": "string", "pattern": "\0\U0001f600"}}, "required": ["ä"]}


def make_source(id: str = "s1", **values: Any) -> SourceRow:
    row = SourceRow(
        id=id,
        name=f"Name of {id}",
        slug=id,
        config={"command": ["uvx", "x"], "nested": {"a": [1, 2.5, None, True]}},
        sealed=b"\x00\xff sealed",
        key_id="k1",
        generation=3,
        enabled=True,
        created_at=1.5,
        updated_at=1_700_000_000.123456,
    )
    return replace(row, **values)


def make_tool(source_id: str = "s1", name: str = "read", **values: Any) -> ToolRow:
    row = ToolRow(
        id=f"{source_id}-{name}",
        source_id=source_id,
        name=name,
        definition={"name": name, "inputSchema": SCHEMA},
        hash="a" * 64,
        state="approved",
        enabled=True,
        tags=("one", "two"),
        tokens=12,
        first_seen=1.0,
        last_seen=2.0,
        pending={"name": name, "description": "changed"},
        pending_hash="b" * 64,
        pending_kind="text",
        decided_by="alice",
        decided_at=3.0,
        state_before_removal="approved",
    )
    return replace(row, **values)


def make_version(number: int, tool_id: str = "s1-read") -> ToolVersionRow:
    return ToolVersionRow(
        id=f"v{number}",
        tool_id=tool_id,
        source_id="s1",
        name="read",
        hash=str(number) * 64,
        definition={"n": number},
        kind="text",
        seen_at=float(number),
    )


def make_approval(number: int, tool: str = "read", source_id: str = "s1") -> ApprovalRow:
    return ApprovalRow(
        id=f"a{number}",
        kind="tool",
        source_id=source_id,
        tool=tool,
        hash=str(number) * 64,
        decision="approved",
        principal="alice",
        at=float(number),
        data={"diff": ["x"]},
    )


def make_execution(number: int, **values: Any) -> ExecutionRow:
    row = ExecutionRow(
        id=f"e{number:06}",
        at=float(number),
        principal="alice",
        source_id="s1",
        tool="read",
        tool_hash="a" * 64,
        generation=1,
        outcome="ok",
        sent=True,
        attempts=1,
        duration_ms=2.0,
        error="",
    )
    return replace(row, **values)


def make_event(number: int, source_id: str = "s1") -> EventRow:
    return EventRow(
        id=f"ev{number:06}-{source_id}", at=float(number), source_id=source_id, kind="exit", data={"n": number}
    )


def make_action(number: int) -> AdminActionRow:
    return AdminActionRow(
        id=f"ad{number}", at=float(number), principal="bob", action="block", target="s1", data={"n": number}
    )


def make_bucket(**values: Any) -> StatBucketRow:
    row = StatBucketRow(start=300.0, source_id="s1", tool="read", calls=2, errors=1, total_ms=10.0, max_ms=6.0)
    return replace(row, **values)


def make_state() -> list[Row]:
    """Return at least one row of every class, with every optional value given and absent."""
    item: dict[str, Any] = {
        "source_id": "s1",
        "definition": {"x": "y"},
        "hash": "c" * 64,
        "removed": False,
        "first_seen": 1.0,
        "last_seen": 2.0,
    }
    status: dict[str, Any] = {"status": "connected", "reason": "", "since": 1.0, "server": {"name": "n"}}
    rule: dict[str, Any] = {"group_id": "g1", "pattern": "s1__*", "data": {"name": "x"}}
    nothing = dict.fromkeys(
        ("pending", "pending_hash", "pending_kind", "decided_by", "decided_at", "state_before_removal")
    )
    return [
        PrincipalRow(id="p1", name="alice", created_at=1.0),
        make_source("s1"),
        make_source("s2", sealed=None, key_id=None, enabled=False, created_at=2.5),
        SourceStateRow(source_id="s1", listed_at=5.0, instructions_hash="d", package={"version": "1"}, **status),
        SourceStateRow(source_id="s2", listed_at=None, instructions_hash="", package=None, **status),
        make_tool("s1", "read"),
        make_tool("s1", "write", tags=(), **nothing),
        make_version(1),
        PromptRow(id="pr1", name="prompt", **item),
        ResourceRow(id="re1", name="file:///x", **item),
        TemplateRow(id="te1", name="file:///{x}", **item),
        GroupRow(id="g1", name="group", description="d", name_mode="qualified", created_at=1.0),
        GroupRuleRow(id="r1", position=0, kind="include", **rule),
        GroupRuleRow(id="r2", position=1, kind="override", **rule),
        CredentialRow(
            id="c1",
            source_id="s1",
            principal="alice",
            slot="TOKEN",
            kind="personal",
            sealed=b"\x01",
            key_id="k1",
            updated_at=1.0,
        ),
        make_approval(1),
        make_execution(1, sent=None),
        make_action(1),
        make_event(1),
        make_bucket(),
    ]
