"""The inventory of a source: its tools as records, and the pure difference between them and a new list.

A record has the definition in force and, if the server lists another one that waits for a review, that candidate. What
a refresh does to a record depends on the review policy of the source:

- `follow`: the listed definition is put in force. A blocked tool stays blocked.
- `review_changes`: the first list is trusted. Later additions wait; a change of texts or an additive one waits while
  the approved definition stays in force; a breaking change withholds the tool.
- `review_all`: the same, but the first list waits, too.

A policy applies to what is listed after it was set: tools that are active stay active under a stricter one. A tool that
is removed and returns with the same definition has the state that it had; with another definition it waits, under the
policies with reviews, even if only texts changed.

Longer than 400 lines: the records, and the one function that compares them with a list, have their fields in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, TypeVar

from ..catalog.tokens import estimate_tokens
from ..types import Tool, Wire
from .compatibility import ChangeKind, classify, encode_canonically
from .source_config import ReviewPolicy
from .store.interface import Delete, Operation, Put
from .store.rows import ItemRow, ToolRow, ToolVersionRow, make_id

__all__ = [
    "ChangeKind",
    "ExecutionMode",
    "ExecutionProfile",
    "InventoryChange",
    "InventoryTool",
    "ItemChange",
    "ToolChange",
    "ToolState",
    "classify",
    "definition_of",
    "diff",
    "diff_items",
    "hash_definition",
    "hash_text",
]

I = TypeVar("I", bound=ItemRow)  # noqa: E741  # the row of a prompt, resource or template


MAX_REMOVED_TOOLS: Final = 5_000
"""Removed tools of a source that are kept; a server that lists other names each time must not fill the store."""
MAX_REMOVED_ITEMS: Final = 5_000
"""Removed prompts of a source that are kept; the same number of resources and of templates."""


class ToolState(StrEnum):
    """Whether a tool may be used, apart from being enabled."""

    ACTIVE = "active"
    """The definition in force was approved, or needs no approval."""
    PENDING = "pending"
    """The tool was never approved."""
    WITHHELD = "withheld"
    """The tool was approved, and a change waits that is not compatible with what was approved."""
    BLOCKED = "blocked"
    """An operator blocked the tool."""
    REMOVED = "removed"
    """The server no longer lists the tool."""


class ExecutionMode(StrEnum):
    """How a tool is executed."""

    MCP_CALL = "mcp_call"


@dataclass(frozen=True, slots=True)
class ExecutionProfile:
    """How a tool is executed."""

    mode: ExecutionMode = ExecutionMode.MCP_CALL


_MCP_CALL: Final = ExecutionProfile()


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryTool:
    """A tool of a source: the definition in force, its state, and the definition that waits for a review, if any."""

    id: str
    """Empty if the tool is not stored, because only single principals list it; such a tool cannot be reviewed."""
    source_id: str
    source: str
    """The name of the source."""
    name: str
    definition: Wire = field(repr=False, hash=False)
    """The definition in force, as the server listed it; of a pending tool, the one that waits."""
    hash: str
    state: ToolState
    enabled: bool = True
    tags: tuple[str, ...] = ()
    tokens: int = 0
    """An estimate of what the definition takes in a model's context."""
    first_seen: float = 0.0
    last_seen: float = 0.0
    """When the record was last confirmed or changed by a list; unchanged tools are not written at each refresh."""
    pending: Wire | None = field(default=None, repr=False, hash=False)
    pending_hash: str | None = None
    pending_kind: ChangeKind | None = None
    decided_by: str | None = None
    decided_at: float | None = None
    state_before_removal: ToolState | None = None

    @property
    def execution_profile(self) -> ExecutionProfile:
        """How the tool is executed: by a call of the MCP server."""
        return _MCP_CALL

    @property
    def title(self) -> str | None:
        """The title for display."""
        title = self.definition.get("title")
        return title if isinstance(title, str) else None

    @property
    def description(self) -> str:
        """What the tool does."""
        return self.tool.description

    @property
    def input_schema(self) -> Wire:
        """The JSON Schema of the arguments."""
        return self.tool.input_schema

    @property
    def output_schema(self) -> Wire | None:
        """The JSON Schema of the structured result, if the tool has one."""
        return self.tool.output_schema

    @property
    def annotations(self) -> Wire:
        """The hints about the tool's behaviour, which are claims of the server."""
        return self.tool.annotations

    @property
    def callable(self) -> bool:
        """Whether the tool may be listed and called."""
        return self.enabled and self.state is ToolState.ACTIVE

    @property
    def tool(self) -> Tool:
        """The definition in force, under the server's name of the tool."""
        return Tool.from_wire(self.definition)

    @property
    def listed_hash(self) -> str:
        """The hash of the definition that the server listed last."""
        return self.hash if self.pending_hash is None else self.pending_hash

    @property
    def listed_definition(self) -> Wire:
        """The definition that the server listed last."""
        return self.definition if self.pending is None else self.pending

    @classmethod
    def from_row(cls, row: ToolRow, source: str) -> InventoryTool:
        """Return the record of a stored row; `source` is the current name of the source."""
        before = row.state_before_removal
        return cls(
            id=row.id,
            source_id=row.source_id,
            source=source,
            name=row.name,
            definition=_as_dict(row.definition),
            hash=row.hash,
            state=ToolState(row.state),
            enabled=row.enabled,
            tags=tuple(row.tags),
            tokens=row.tokens,
            first_seen=row.first_seen,
            last_seen=row.last_seen,
            pending=None if row.pending is None else _as_dict(row.pending),
            pending_hash=row.pending_hash,
            pending_kind=None if row.pending_kind is None else ChangeKind(row.pending_kind),
            decided_by=row.decided_by,
            decided_at=row.decided_at,
            state_before_removal=None if before is None else ToolState(before),
        )

    def to_row(self) -> ToolRow:
        """Return the record as a row of the store."""
        before = self.state_before_removal
        return ToolRow(
            id=self.id,
            source_id=self.source_id,
            name=self.name,
            definition=self.definition,
            hash=self.hash,
            state=self.state.value,
            enabled=self.enabled,
            tags=self.tags,
            tokens=self.tokens,
            first_seen=self.first_seen,
            last_seen=self.last_seen,
            pending=self.pending,
            pending_hash=self.pending_hash,
            pending_kind=None if self.pending_kind is None else self.pending_kind.value,
            decided_by=self.decided_by,
            decided_at=self.decided_at,
            state_before_removal=None if before is None else before.value,
        )

    def make_version(self, definition: Wire, digest: str, kind: ChangeKind, *, id: str, at: float) -> ToolVersionRow:
        """Return the row that keeps one definition of this tool in the history."""
        return ToolVersionRow(
            id=id,
            tool_id=self.id,
            source_id=self.source_id,
            name=self.name,
            hash=digest,
            definition=definition,
            kind=kind.value,
            seen_at=at,
        )

    def put_in_force(self, definition: Wire, digest: str) -> InventoryTool:
        """Return the record with this definition in force, active and without a candidate."""
        return replace(
            self,
            definition=definition,
            hash=digest,
            tokens=estimate_tokens(Tool.from_wire(definition)),
            state=ToolState.ACTIVE,
            pending=None,
            pending_hash=None,
            pending_kind=None,
            state_before_removal=None,
        )


def _as_dict(value: Mapping[str, Any]) -> Wire:
    return value if isinstance(value, dict) else dict(value)


def definition_of(tool: Tool) -> Wire:
    """Return a listed tool's definition as the server sent it."""
    return tool.raw or tool.to_dict()


def hash_definition(raw: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a whole definition; the order of keys makes no difference."""
    return sha256(encode_canonically(raw)).hexdigest()


def hash_text(text: str | None) -> str:
    """Return the SHA-256 of a text, such as a server's instructions; None counts as empty."""
    return sha256((text or "").encode("utf-8", "surrogatepass")).hexdigest()


# ---- the difference between the inventory and a list --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolChange:
    """A tool whose listed definition, or whose state, changed."""

    before: InventoryTool
    after: InventoryTool
    kind: ChangeKind
    """The listed definition compared with the one that was in force."""


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """What a new list changes. It is false if nothing changed."""

    tools: Mapping[str, InventoryTool]
    """All records after the change, by name: first those that are listed, in the order of the list."""
    added: tuple[InventoryTool, ...] = ()
    removed: tuple[InventoryTool, ...] = ()
    changed: tuple[ToolChange, ...] = ()
    renamed_from: Mapping[str, str] = field(default_factory=dict)
    """Added tools that are equal to a removed one but for the name, each with that name."""
    ignored: tuple[str, ...] = ()
    """Names in the list that are empty or duplicates."""
    operations: tuple[Operation, ...] = ()
    """What is to be stored: first the records, then the definitions, so that a store can write many rows at once."""

    def __bool__(self) -> bool:
        return bool(self.operations)


def diff(
    current: Iterable[InventoryTool],
    listed: Sequence[Mapping[str, Any]],
    *,
    source_id: str,
    source: str,
    policy: ReviewPolicy,
    first: bool,
    now: float,
    ids: Callable[[], str] = make_id,
    listed_before: float | None = None,
) -> InventoryChange:
    """Return what a new list changes in the inventory of one source. Pure; linear in the size of both.

    Args:
        current: The records of the source, removed ones included.
        listed: The definitions that the server lists, as it sent them.
        source_id: The id of the source.
        source: The name of the source.
        policy: The review policy of the source.
        first: Whether this is the list of the registration.
        now: The time of the list, in seconds since the epoch.
        ids: Returns a new id.
        listed_before: The time of the previous list, when removed tools were last seen.
    """
    known = {tool.name: tool for tool in current}
    records: dict[str, InventoryTool] = {}
    added: list[InventoryTool] = []
    changed: list[ToolChange] = []
    ignored: list[str] = []
    operations: list[Operation] = []
    versions: list[Operation] = []  # after the tools: the store writes rows of one kind together
    for raw in listed:
        name = raw.get("name")
        if not isinstance(name, str) or not name or name in records:
            ignored.append(name if isinstance(name, str) else "")
            continue
        definition, before = _as_dict(raw), known.get(name)
        digest = hash_definition(definition)
        if before is None:
            made = _make_record(definition, name, digest, source_id, source, ids(), now)
            after = made if policy is ReviewPolicy.FOLLOW or _is_trusted(policy, first) else _wait(made)
        else:
            after = _update(before, definition, digest, policy)
        if after is not before:
            after = after if after.last_seen == now else replace(after, last_seen=now)
            operations.append(Put(after.to_row()))
        records[name] = after
        if before is None or before.state is ToolState.REMOVED:
            added.append(after)
        elif after is not before:
            changed.append(ToolChange(before, after, classify(before.definition, definition)))
        if before is None or digest != before.listed_hash:
            kind = ChangeKind.NEW if before is None else classify(before.definition, definition)
            versions.append(Put(after.make_version(definition, digest, kind, id=ids(), at=now)))
    missing = [tool for name, tool in known.items() if name not in records]
    removed, kept, writes = _remove(missing, listed_before)
    records |= {tool.name: tool for tool in kept}
    operations += writes
    return InventoryChange(
        records,
        tuple(added),
        tuple(removed),
        tuple(changed),
        _find_renamed(added, removed),
        tuple(ignored),
        (*operations, *versions),
    )


def _remove(
    missing: Iterable[InventoryTool], listed_before: float | None
) -> tuple[list[InventoryTool], list[InventoryTool], list[Operation]]:
    """Return, of the tools that are not listed, those that were listed before, all that are kept, and what to write."""
    removed: list[InventoryTool] = []
    gone: list[InventoryTool] = []
    operations: list[Operation] = []
    for tool in missing:
        if tool.state is not ToolState.REMOVED:
            seen = tool.last_seen if listed_before is None else listed_before
            tool = replace(tool, state=ToolState.REMOVED, state_before_removal=tool.state, last_seen=seen)
            removed.append(tool)
            operations.append(Put(tool.to_row()))
        gone.append(tool)
    forgotten = _find_forgotten(gone)
    for tool in gone:
        if tool.id in forgotten:
            operations += _delete(tool)
    return removed, [tool for tool in gone if tool.id not in forgotten], operations


def _find_forgotten(removed: Sequence[InventoryTool]) -> set[str]:
    """Return the ids of the tools, among the removed ones, that are deleted: the oldest without an operator's mark."""
    if len(removed) <= MAX_REMOVED_TOOLS:
        return set()
    unmarked = [tool for tool in removed if tool.decided_by is None and tool.enabled and not tool.tags]
    unmarked.sort(key=lambda tool: tool.last_seen)
    return {tool.id for tool in unmarked[: len(removed) - MAX_REMOVED_TOOLS]}


def _delete(tool: InventoryTool) -> tuple[Operation, ...]:
    return Delete(ToolVersionRow, (("tool_id", tool.id),)), Delete(ToolRow, (("id", tool.id),))


def _is_trusted(policy: ReviewPolicy, first: bool) -> bool:
    return first and policy is ReviewPolicy.REVIEW_CHANGES


def _make_record(
    definition: Wire, name: str, digest: str, source_id: str, source: str, id: str, now: float
) -> InventoryTool:
    return InventoryTool(
        id=id,
        source_id=source_id,
        source=source,
        name=name,
        definition=definition,
        hash=digest,
        state=ToolState.ACTIVE,
        tokens=estimate_tokens(Tool.from_wire(definition)),
        first_seen=now,
        last_seen=now,
    )


def _wait(tool: InventoryTool) -> InventoryTool:
    """Return a record that was never approved, with its definition as the candidate."""
    return replace(
        tool,
        state=ToolState.PENDING,
        pending=tool.definition,
        pending_hash=tool.hash,
        pending_kind=ChangeKind.NEW,
        state_before_removal=None,
    )


def _update(tool: InventoryTool, definition: Wire, digest: str, policy: ReviewPolicy) -> InventoryTool:
    """Return the record of a known tool after it was listed with this definition; the same object if nothing changes.

    A block and a missing approval are not lifted by a change, whatever the policy says about changes.
    """
    returned = tool.state is ToolState.REMOVED
    state = tool.state_before_removal or ToolState.ACTIVE if returned else tool.state
    if state is ToolState.BLOCKED:
        return _keep(tool, state, definition, digest)
    if policy is ReviewPolicy.FOLLOW:
        unchanged = state is ToolState.ACTIVE and tool.hash == digest and tool.pending is None and not returned
        return tool if unchanged else tool.put_in_force(definition, digest)
    if state is ToolState.PENDING:
        if tool.hash == digest and not returned:
            return tool
        return _wait(tool.put_in_force(definition, digest))
    if tool.hash == digest:  # what was approved, possibly again
        unchanged = tool.state is ToolState.ACTIVE and tool.pending is None
        return tool if unchanged else tool.put_in_force(tool.definition, digest)
    if returned:
        return _keep(tool, ToolState.WITHHELD, definition, digest)
    if tool.pending_hash == digest:
        return tool
    kind = classify(tool.definition, definition)
    return _keep(tool, ToolState.WITHHELD if kind is ChangeKind.BREAKING else ToolState.ACTIVE, definition, digest)


def _keep(tool: InventoryTool, state: ToolState, definition: Wire, digest: str) -> InventoryTool:
    """Return the record with its definition still in force, and the listed one as the candidate if it differs."""
    if tool.state is state and tool.listed_hash == digest:
        return tool
    if tool.hash == digest:
        return replace(tool, state=state, pending=None, pending_hash=None, pending_kind=None, state_before_removal=None)
    return replace(
        tool,
        state=state,
        pending=definition,
        pending_hash=digest,
        pending_kind=classify(tool.definition, definition),
        state_before_removal=None,
    )


def _find_renamed(added: Iterable[InventoryTool], removed: Sequence[InventoryTool]) -> dict[str, str]:
    if not removed:
        return {}
    names: dict[str, list[str]] = {}
    for tool in removed:
        names.setdefault(_hash_without_name(tool.listed_definition), []).append(tool.name)
    found = {}
    for tool in added:
        if same := names.get(_hash_without_name(tool.listed_definition)):
            found[tool.name] = same.pop(0)
    return found


def _hash_without_name(definition: Wire) -> str:
    return hash_definition({key: value for key, value in definition.items() if key != "name"})


# ---- prompts, resources, templates --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ItemChange:
    """What a new list of prompts, resources or templates changes, by name or URI. It is false if nothing changed."""

    rows: Mapping[str, ItemRow]
    """All rows after the change, by name: first those that are listed, in the order of the list."""
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.operations)


_NAME_KEYS: Final = {"prompt": "name", "resource": "uri", "template": "uriTemplate"}


def diff_items(
    kind: type[I],
    current: Iterable[ItemRow],
    listed: Sequence[Mapping[str, Any]],
    *,
    source_id: str,
    now: float,
    ids: Callable[[], str] = make_id,
    listed_before: float | None = None,
) -> ItemChange:
    """Return what a new list of prompts, resources or templates (by the class of their rows) changes. Pure.

    `listed_before` is the time of the previous list, when removed ones were last seen.
    """
    known = {row.name: row for row in current}
    key = _NAME_KEYS[kind.TABLE]
    rows: dict[str, ItemRow] = {}
    added: list[str] = []
    removed: list[str] = []
    changed: list[str] = []
    operations: list[Operation] = []
    for raw in listed:
        name = raw.get(key)
        if not isinstance(name, str) or not name or name in rows:
            continue
        before, digest = known.get(name), hash_definition(raw)
        if before is not None and before.hash == digest and not before.removed:
            rows[name] = before
            continue
        rows[name] = kind(
            id=ids() if before is None else before.id,
            source_id=source_id,
            name=name,
            definition=_as_dict(raw),
            hash=digest,
            removed=False,
            first_seen=now if before is None else before.first_seen,
            last_seen=now,
        )
        operations.append(Put(rows[name]))
        (added if before is None or before.removed else changed).append(name)
    gone: list[ItemRow] = []
    for name, row in known.items():
        if name in rows:
            continue
        if not row.removed:
            row = replace(row, removed=True, last_seen=row.last_seen if listed_before is None else listed_before)
            operations.append(Put(row))
            removed.append(name)
        gone.append(row)
    excess = max(0, len(gone) - MAX_REMOVED_ITEMS)
    forgotten = {row.id for row in sorted(gone, key=lambda row: row.last_seen)[:excess]}
    operations += [Delete(kind, (("id", id),)) for id in forgotten]
    rows |= {row.name: row for row in gone if row.id not in forgotten}
    return ItemChange(rows, tuple(added), tuple(removed), tuple(changed), tuple(operations))
