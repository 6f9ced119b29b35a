"""The rows of the store, as frozen values: one class per table, one field per column.

Times are seconds since the epoch. Ids are random. `data` fields hold JSON values. `change` is the value of the change
counter in the transaction that wrote the row; the store sets it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

Json = Any


def make_id() -> str:
    """Return a new random id."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Base class of all rows. `KEY` names the columns of the primary key."""

    TABLE: ClassVar[str]
    KEY: ClassVar[tuple[str, ...]] = ("id",)

    change: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalRow(Row):
    """A person or program that makes calls."""

    TABLE: ClassVar[str] = "principal"

    id: str
    name: str
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow(Row):
    """A registered source. `config` has no secrets; `sealed` has them, encrypted with the id as associated data."""

    TABLE: ClassVar[str] = "source"

    id: str
    name: str
    slug: str
    """The name in qualified tool names; unique, as `name` is."""
    config: Mapping[str, Json]
    sealed: bytes | None
    key_id: str | None
    generation: int
    enabled: bool
    created_at: float
    updated_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStateRow(Row):
    """What is known about a source from its last connection."""

    TABLE: ClassVar[str] = "source_state"
    KEY: ClassVar[tuple[str, ...]] = ("source_id",)

    source_id: str
    status: str
    reason: str
    since: float
    listed_at: float | None
    server: Mapping[str, Json]
    """Name, version, protocol version, capabilities, instructions of the server, and the order of its lists."""
    instructions_hash: str
    package: Mapping[str, Json] | None
    """Registry, identifier, version, integrity of the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow(Row):
    """A tool of a source: the definition in force, and the one that waits for a review, if any."""

    TABLE: ClassVar[str] = "tool"

    id: str
    source_id: str
    name: str
    definition: Mapping[str, Json]
    hash: str
    state: str
    enabled: bool
    tags: tuple[str, ...]
    tokens: int
    first_seen: float
    last_seen: float
    pending: Mapping[str, Json] | None = None
    pending_hash: str | None = None
    pending_kind: str | None = None
    decided_by: str | None = None
    decided_at: float | None = None
    state_before_removal: str | None = None
    """The state that a removed tool had, so that it has the same one if it returns unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolVersionRow(Row):
    """One definition that a tool had. Rows of this table are never changed."""

    TABLE: ClassVar[str] = "tool_version"

    id: str
    tool_id: str
    source_id: str
    name: str
    hash: str
    definition: Mapping[str, Json]
    kind: str
    seen_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRow(Row):
    """A prompt, resource or resource template of a source; `name` is its name, URI or URI template."""

    id: str
    source_id: str
    name: str
    definition: Mapping[str, Json]
    hash: str
    removed: bool
    first_seen: float
    last_seen: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptRow(ItemRow):
    """A prompt of a source."""

    TABLE: ClassVar[str] = "prompt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRow(ItemRow):
    """A resource of a source."""

    TABLE: ClassVar[str] = "resource"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRow(ItemRow):
    """A resource template of a source."""

    TABLE: ClassVar[str] = "template"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow(Row):
    """A group of tools, offered as one virtual server."""

    TABLE: ClassVar[str] = "group"

    id: str
    name: str
    description: str
    name_mode: str
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRuleRow(Row):
    """One rule of a group. `kind` is `include`, `exclude` or `override`; `data` holds what an override changes."""

    TABLE: ClassVar[str] = "group_rule"

    id: str
    group_id: str
    position: int
    kind: str
    pattern: str
    data: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRow(Row):
    """The value of a credential slot, encrypted with its id as associated data.

    `kind` is `personal` (of `principal`), `discovery` (the operator's, for lists) or `oauth` (a token set).
    """

    TABLE: ClassVar[str] = "credential"

    id: str
    source_id: str
    principal: str
    slot: str
    kind: str
    sealed: bytes
    key_id: str
    updated_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow(Row):
    """A decision about a tool's definition (`kind` is `tool`) or about one call (`call`), bound to a hash."""

    TABLE: ClassVar[str] = "approval"

    id: str
    kind: str
    source_id: str
    tool: str
    hash: str
    decision: str
    principal: str
    at: float
    data: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionRow(Row):
    """One call, for the audit: who called what, and its one outcome. Arguments and results are not recorded."""

    TABLE: ClassVar[str] = "execution"

    id: str
    at: float
    principal: str
    source_id: str
    """The id of the source; of a source that was not found, the name that was given."""
    tool: str
    tool_hash: str
    """Empty if the tool was not found."""
    generation: int
    """0 if the source was not found."""
    outcome: str
    """`ok`, `tool_error`, `cancelled`, `internal_error` (a defect), or the code of the error in `outcomes`."""
    sent: bool | None
    attempts: int
    duration_ms: float
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminActionRow(Row):
    """One administrative action, committed together with its change."""

    TABLE: ClassVar[str] = "admin_action"

    id: str
    at: float
    principal: str
    action: str
    target: str
    data: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow(Row):
    """A transition of a source's status, a start or exit of its process, a change of its inventory, or an audit gap."""

    TABLE: ClassVar[str] = "event"

    id: str
    at: float
    source_id: str
    kind: str
    data: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatBucketRow(Row):
    """Counts of the calls of one tool within one period."""

    TABLE: ClassVar[str] = "stat_bucket"
    KEY: ClassVar[tuple[str, ...]] = ("start", "source_id", "tool")

    start: float
    source_id: str
    tool: str
    calls: int
    errors: int
    total_ms: float
    max_ms: float
