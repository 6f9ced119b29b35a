"""The credentials of principals for sources: values of personal slots, and the operator's own for discovery.

Values are written, used for connections, and never returned.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from .._util.sealing import Sealer
from .._util.suggest import suggest
from .._util.tasks import run_to_end
from ..errors import ConfigError
from .principals import check_principal
from .snapshot import Source
from .store.interface import Delete, Operation, Put
from .store.rows import CredentialRow, make_id

PERSONAL: Final = "personal"
DISCOVERY: Final = "discovery"
MAX_VALUE_LENGTH: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class CredentialInfo:
    """A stored credential, without its value."""

    source_id: str
    principal: str
    slot: str
    kind: str
    updated_at: float


class CredentialTable:
    """All stored credentials, sealed. Only `values_for` opens them."""

    def __init__(self, rows: Iterable[CredentialRow], sealer: Callable[[], Sealer]) -> None:
        self._sealer = sealer
        self._rows: dict[tuple[str, str, str, str], CredentialRow] = {_key(row): row for row in rows}

    def values_for(self, source_id: str, principal: str, slots: Iterable[str], kind: str = PERSONAL) -> dict[str, str]:
        """Return the principal's values of these slots; slots without one are left out."""
        found: dict[str, str] = {}
        for slot in slots:
            row = self._rows.get((source_id, principal, slot, kind))
            if row is not None:
                found |= self._sealer().open(row.sealed, row.key_id, row.id)
        return found

    def has(self, source_id: str, principal: str, slots: Iterable[str], kind: str = PERSONAL) -> bool:
        """Return whether the principal has stored a value for each of these slots."""
        return all((source_id, principal, slot, kind) in self._rows for slot in slots)

    def list(self, source_id: str | None = None, principal: str | None = None) -> list[CredentialInfo]:
        """Return what is stored, without values, sorted by source, principal and slot."""
        return [
            CredentialInfo(row.source_id, row.principal, row.slot, row.kind, row.updated_at)
            for _, row in sorted(self._rows.items())
            if source_id in (None, row.source_id) and principal in (None, row.principal)
        ]

    def make_row(self, source_id: str, principal: str, slot: str, value: str, kind: str) -> CredentialRow:
        """Return the row that stores a value; it replaces the one that the slot has."""
        before = self._rows.get((source_id, principal, slot, kind))
        id = make_id() if before is None else before.id
        sealed, key_id = self._sealer().seal({slot: value}, id)
        return CredentialRow(
            id=id,
            source_id=source_id,
            principal=principal,
            slot=slot,
            kind=kind,
            sealed=sealed,
            key_id=key_id,
            updated_at=time.time(),
        )

    def put(self, row: CredentialRow) -> None:
        """Put a stored row in force."""
        self._rows[_key(row)] = row

    def find(self, source_id: str, principal: str, slot: str | None, kind: str) -> tuple[CredentialRow, ...]:
        """Return the rows of a principal: of one slot, or of all slots of the source."""
        return tuple(
            row
            for row in self._rows.values()
            if (row.source_id, row.principal, row.kind) == (source_id, principal, kind) and slot in (None, row.slot)
        )

    def drop(self, rows: Iterable[CredentialRow]) -> None:
        """Forget rows that were deleted."""
        for row in rows:
            self._rows.pop(_key(row), None)

    def drop_source(self, source_id: str) -> None:
        """Forget all rows of a source that was removed."""
        self._rows = {key: row for key, row in self._rows.items() if row.source_id != source_id}


def _key(row: CredentialRow) -> tuple[str, str, str, str]:
    return (row.source_id, row.principal, row.slot, row.kind)


Prepare = Callable[[], tuple[Sequence[Operation], Callable[[], None]]]
"""Returns what to write to the store, and a function that puts it in force afterwards."""
Commit = Callable[[Source, str, str, Prepare], Awaitable[bool]]
"""Stores changed credentials of a source and a principal, one change at a time. Returns whether something changed."""
OnChange = Callable[[Source, str, str, bool], Awaitable[None]]
"""Called after a change is in force, with the source, the principal, the kind and whether values were removed."""


class Credentials:
    """Sets and removes credentials: `provider.credentials`."""

    def __init__(
        self, table: CredentialTable, find_source: Callable[[str], Source], commit: Commit, on_change: OnChange
    ) -> None:
        self._table = table
        self._find_source = find_source
        self._commit = commit
        self._on_change = on_change

    async def set(self, source: str, slot: str, value: str, *, principal: str, discovery: bool = False) -> None:
        """Store a principal's value for a personal slot of a source. Running calls end with the value that they have.

        With `discovery=True` the value is the operator's: it is used only to list the tools of the source, which is
        done in the background once all slots have such a value.
        """
        check_principal(principal)
        found = self._find_source(source)
        self._check(found, slot, value)
        kind = DISCOVERY if discovery else PERSONAL

        def prepare() -> tuple[Sequence[Operation], Callable[[], None]]:
            row = self._table.make_row(found.id, "" if discovery else principal, slot, value, kind)
            return [Put(row)], partial(self._table.put, row)

        async def change() -> None:
            await self._commit(found, principal, "set_credential", prepare)
            await self._on_change(found, principal, kind, False)

        await run_to_end(change())

    async def remove(self, source: str, slot: str | None = None, *, principal: str, discovery: bool = False) -> None:
        """Delete a principal's value for one slot, or for all slots of a source, and close its connections."""
        found = self._find_source(source)
        kind = DISCOVERY if discovery else PERSONAL

        def prepare() -> tuple[Sequence[Operation], Callable[[], None]]:
            rows = self._table.find(found.id, "" if discovery else principal, slot, kind)
            return [Delete(CredentialRow, (("id", row.id),)) for row in rows], partial(self._table.drop, rows)

        async def change() -> None:
            if await self._commit(found, principal, "remove_credential", prepare):
                await self._on_change(found, principal, kind, True)

        await run_to_end(change())

    def list(self, source: str | None = None, *, principal: str | None = None) -> list[CredentialInfo]:
        """Return which credentials are stored, without their values."""
        return self._table.list(None if source is None else self._find_source(source).id, principal)

    def _check(self, source: Source, slot: str, value: str) -> None:
        slots = source.config.personal_slots
        if slot not in slots:
            expected = f"one of {', '.join(slots)}" if slots else "a source with personal slots"
            message = f"slot: expected {expected}, got {slot!r}{suggest(slot, slots)}"
            raise ConfigError(message, key="slot", expected=expected, server=source.name)
        given: object = value
        if not isinstance(given, str) or not value or len(value) > MAX_VALUE_LENGTH:
            expected = f"a text of 1 to {MAX_VALUE_LENGTH:,} characters"
            raise ConfigError(f"value: expected {expected}", key="value", expected=expected, server=source.name)
