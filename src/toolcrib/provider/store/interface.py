"""The interface of the store. The provider reads it once, at the start; afterwards it only writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from .rows import (
    AdminActionRow,
    ApprovalRow,
    CredentialRow,
    EventRow,
    ExecutionRow,
    GroupRow,
    GroupRuleRow,
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

EVENTS_PER_SOURCE: Final = 200
"""Events of each source that `StoredState` has."""
VERSIONS_PER_TOOL: Final = 20
"""Definitions of each tool that `prune` keeps, besides those in force or waiting for a review."""


@dataclass(frozen=True, slots=True)
class Put:
    """Insert a row, or replace the one with the same primary key."""

    row: Row


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the rows of a table whose columns have these values."""

    table: type[Row]
    where: tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Add:
    """Insert a bucket, or add its counts to the stored bucket of the same tool and period."""

    row: StatBucketRow


Operation = Put | Delete | Add


@dataclass(frozen=True, slots=True)
class StoredState:
    """What the provider needs in memory."""

    change: int = 0
    """The change counter at the time of reading."""
    sources: Sequence[SourceRow] = ()
    states: Sequence[SourceStateRow] = ()
    tools: Sequence[ToolRow] = ()
    prompts: Sequence[PromptRow] = ()
    resources: Sequence[ResourceRow] = ()
    templates: Sequence[TemplateRow] = ()
    groups: Sequence[GroupRow] = ()
    group_rules: Sequence[GroupRuleRow] = ()
    credentials: Sequence[CredentialRow] = ()
    events: Sequence[EventRow] = field(default=())
    """The last `EVENTS_PER_SOURCE` events of each source, oldest first."""


class Store(Protocol):
    """Keeps the provider's rows. All methods raise `StoreError` if the database cannot be read or written."""

    async def load(self) -> StoredState:
        """Return the state that the provider keeps in memory."""
        ...

    async def commit(self, operations: Sequence[Operation]) -> int:
        """Apply the operations in one transaction, in their order. Returns the value of the change counter."""
        ...

    async def executions(
        self, *, source_id: str | None = None, principal: str | None = None, limit: int = 100
    ) -> list[ExecutionRow]:
        """Return the newest executions, newest first."""
        ...

    async def admin_actions(self, *, limit: int = 100) -> list[AdminActionRow]:
        """Return the newest administrative actions, newest first."""
        ...

    async def tool_versions(self, tool_id: str) -> list[ToolVersionRow]:
        """Return the definitions that a tool had, oldest first."""
        ...

    async def approvals(self, source_id: str, tool: str | None = None) -> list[ApprovalRow]:
        """Return the decisions about the tools of a source, or about one tool, oldest first."""
        ...

    async def prune(self, *, max_executions: int, max_age: float) -> int:
        """Delete the oldest executions and events beyond the limits, and counts older than `max_age` seconds.

        Of each tool, the newest `VERSIONS_PER_TOOL` definitions are kept, and those in force or waiting for a review.
        Returns how many rows were deleted.
        """
        ...

    async def close(self) -> None:
        """Finish the writes that were accepted, and close the database."""
        ...
