"""Decisions about tools: approve, block, enable, tag; and what waits for a decision, with readable differences. Pure.

What a new list does to a tool under each review policy is in `inventory.py`. A decision is bound to the hash of the
definition that it was made for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Final

from ..errors import ConfigError, ReviewConflict
from ..protocol.sanitize import one_line
from ..types import Wire
from .compatibility import encode_canonically
from .inventory import ChangeKind, InventoryTool, ToolState
from .store.interface import Operation, Put
from .store.rows import ApprovalRow, make_id

MAX_DIFF_LINES: Final = 200
"""Lines of a difference that are shown; a last line says how many are missing."""
MAX_VALUE_LENGTH: Final = 300
"""Characters of a value in a difference."""
MAX_TAGS: Final = 50
MAX_TAG_LENGTH: Final = 100

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """The record after a decision, and the rows to write in one transaction."""

    tool: InventoryTool
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A definition that waits for a decision, compared with the one in force."""

    source: str
    tool: str
    state: ToolState
    kind: ChangeKind
    before: Wire | None
    """The definition in force; None for a tool that was never approved."""
    after: Wire
    diff: list[str]
    """One line for each difference: JSON pointer, old value, new value."""
    hash: str
    """The hash of `after`, for `approve` and `block`."""


@dataclass(frozen=True, slots=True)
class PackageReview:
    """A source whose package changed, with the tools that come from it."""

    source: str
    before: Mapping[str, Any]
    after: Mapping[str, Any] | None
    diff: list[str]
    tools: tuple[str, ...]


# ---- decisions ---------------------------------------------------------------------------------------------------


def approve(
    tool: InventoryTool,
    *,
    hash: str | None = None,
    by: str,
    now: float,
    ids: Callable[[], str] = make_id,
) -> ReviewDecision:
    """Put the candidate of a tool in force, or lift a block; `hash` is that of the definition which was reviewed.

    Raises `ReviewConflict` if the candidate is another one by now, or if the server no longer lists the tool.
    """
    _check_current(tool, hash, "approve")
    approved = replace(tool.put_in_force(tool.listed_definition, tool.listed_hash), decided_by=by, decided_at=now)
    return _decide(tool, approved, "approved", by, now, ids)


def block(
    tool: InventoryTool,
    *,
    hash: str | None = None,
    by: str,
    now: float,
    reason: str = "",
    ids: Callable[[], str] = make_id,
) -> ReviewDecision:
    """Block a tool until it is approved; later changes of the tool do not lift the block.

    Raises `ReviewConflict` if `hash` is not that of the definition which the server lists.
    """
    _check_current(tool, hash, "block")
    blocked = replace(tool, state=ToolState.BLOCKED, decided_by=by, decided_at=now)
    return _decide(tool, blocked, "blocked", by, now, ids, reason)


def enable(tool: InventoryTool) -> ReviewDecision:
    """Enable a tool; whether it can be called depends on its state, too."""
    return _put(tool, replace(tool, enabled=True))


def disable(tool: InventoryTool) -> ReviewDecision:
    """Disable a tool, whatever its state."""
    return _put(tool, replace(tool, enabled=False))


def set_tags(tool: InventoryTool, tags: Iterable[str]) -> ReviewDecision:
    """Replace the tags of a tool; they are kept sorted and without duplicates."""
    return _put(tool, replace(tool, tags=check_tags(tags)))


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags, sorted and without duplicates; raise `ConfigError` for an invalid one."""
    expected = f"at most {MAX_TAGS} texts of 1 to {MAX_TAG_LENGTH} printable characters without spaces and '*'"
    given = [] if isinstance(tags, str) else list(tags)
    valid = not isinstance(tags, str) and len(given) <= MAX_TAGS and all(map(_is_tag, given))
    if not valid:
        raise ConfigError(f"tags: expected {expected}, got {tags!r:.200}", key="tags", expected=expected)
    return tuple(sorted(set(given)))


def _is_tag(tag: object) -> bool:
    if not isinstance(tag, str) or not 0 < len(tag) <= MAX_TAG_LENGTH:
        return False
    return tag.isprintable() and not any(c.isspace() or c == "*" for c in tag)


def _put(before: InventoryTool, after: InventoryTool) -> ReviewDecision:
    return ReviewDecision(after, () if after == before else (Put(after.to_row()),))


def _decide(
    before: InventoryTool,
    after: InventoryTool,
    decision: str,
    by: str,
    now: float,
    ids: Callable[[], str],
    reason: str = "",
) -> ReviewDecision:
    data: dict[str, Any] = {"state": before.state.value}
    if before.pending_kind is not None:
        data["kind"] = before.pending_kind.value
    if reason:
        data["reason"] = reason
    row = ApprovalRow(
        id=ids(),
        kind="tool",
        source_id=after.source_id,
        tool=after.name,
        hash=before.listed_hash,
        decision=decision,
        principal=by,
        at=now,
        data=data,
    )
    return ReviewDecision(after, (Put(after.to_row()), Put(row)))


def _check_current(tool: InventoryTool, digest: str | None, action: str) -> None:
    """Raise `ReviewConflict` if the decision is not about the definition that the server lists."""
    if tool.state is ToolState.REMOVED:
        message = f"cannot {action}: the server no longer lists this tool. Refresh the source first"
    elif digest is not None and digest != tool.listed_hash:
        message = f"cannot {action} {digest[:12]}: the tool changed, its definition is now {tool.listed_hash[:12]}. "
        message += "Review it again"
    else:
        return
    raise ReviewConflict(
        message,
        server=tool.source,
        tool=tool.name,
        expected=digest or "",
        actual=tool.listed_hash,
        changes=tuple(describe_changes(_in_force(tool) or {}, tool.listed_definition)),
    )


# ---- what waits --------------------------------------------------------------------------------------------------


def review_items(tools: Iterable[InventoryTool]) -> list[ReviewItem]:
    """Return the definitions of these tools that wait for a decision, in the order of the tools."""
    return [make_item(tool) for tool in tools if tool.pending is not None and tool.state is not ToolState.REMOVED]


def make_item(tool: InventoryTool) -> ReviewItem:
    """Return the review of one tool. Without a candidate, the difference is empty."""
    before = _in_force(tool)
    return ReviewItem(
        source=tool.source,
        tool=tool.name,
        state=tool.state,
        kind=tool.pending_kind or ChangeKind.TEXT,
        before=before,
        after=tool.listed_definition,
        diff=describe_changes(before or {}, tool.listed_definition),
        hash=tool.listed_hash,
    )


def _in_force(tool: InventoryTool) -> Wire | None:
    """Return the definition that was approved; None if none was."""
    never = ToolState.PENDING in (tool.state, tool.state_before_removal) or tool.pending_kind is ChangeKind.NEW
    return None if never else tool.definition


def review_package(
    source: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, tools: Iterable[InventoryTool]
) -> PackageReview | None:
    """Return the report about a source whose package changed (registry, identifier, version, integrity), if it did.

    A source that had no known package before has nothing to compare with.
    """
    if not before or before == after:
        return None
    listed = tuple(tool.name for tool in tools if tool.state is not ToolState.REMOVED)
    return PackageReview(source, before, after, describe_changes(before, after or {}), listed)


# ---- differences -------------------------------------------------------------------------------------------------


def describe_changes(old: Any, new: Any) -> list[str]:
    """Return one line for each difference of two JSON values: `/pointer: old -> new`; control characters are replaced.

    Items of lists are compared by their position. An added or removed value is shown whole.
    """
    lines: list[str] = []
    missing = 0
    waiting: list[tuple[str, Any, Any]] = [("", old, new)]
    while waiting:
        pointer, before, after = waiting.pop()
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            keys = [*dict.fromkeys((*before, *after))]
            inner = [(f"{pointer}/{_escape(key)}", before.get(key, _ABSENT), after.get(key, _ABSENT)) for key in keys]
        elif isinstance(before, list) and isinstance(after, list):
            pairs = zip_longest(before, after, fillvalue=_ABSENT)
            inner = [(f"{pointer}/{place}", *pair) for place, pair in enumerate(pairs)]
        else:
            if _show(before, whole=True) != _show(after, whole=True):
                missing += len(lines) >= MAX_DIFF_LINES
                if len(lines) < MAX_DIFF_LINES:
                    lines.append(f"{one_line(pointer, MAX_VALUE_LENGTH) or '/'}: {_show(before)} -> {_show(after)}")
            continue
        waiting += reversed(inner)
    return [*lines, f"... and {missing} more"] if missing else lines


def _escape(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _show(value: Any, *, whole: bool = False) -> str:
    if value is _ABSENT:
        return "absent"
    text = encode_canonically(value).decode("utf-8", "replace")
    if whole:
        return text
    shown = one_line(text, MAX_VALUE_LENGTH)
    return shown if len(text) <= MAX_VALUE_LENGTH else f"{shown}..."
