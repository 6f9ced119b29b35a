"""A store that fails on demand, for tests of what uses it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, TypeVar

from toolcrib.errors import StoreError
from toolcrib.provider.store.interface import Operation, Store, StoredState
from toolcrib.provider.store.rows import AdminActionRow, ApprovalRow, ExecutionRow, ToolVersionRow

T = TypeVar("T")
Fault = Literal["locked", "read-only", "gone", "disk full", "slow", "defect"]
FAULTS: Final[tuple[Fault, ...]] = ("locked", "read-only", "gone", "disk full", "slow")
WRITES: Final = frozenset({"commit", "prune"})


class FaultyStore:
    """Passes everything to a store, and fails from the n-th operation on, for a number of operations.

    `locked`, `read-only` and `disk full` fail only writes, `gone` fails all; `slow` delays all. `defect` fails
    writes with an error that is no `StoreError`.
    """

    def __init__(self, store: Store) -> None:
        self.operations: list[str] = []
        """The names of the operations so far."""
        self._store = store
        self._fault: Fault | None = None
        self._first = 0
        self._last = 0.0
        self._delay = 0.0

    def inject(self, fault: Fault, *, at: int = 1, times: float = float("inf"), delay: float = 0.2) -> None:
        """Fail the `at`-th operation from now on, and those that follow, `times` in all."""
        self._fault, self._delay = fault, delay
        self._first = len(self.operations) + at
        self._last = self._first + times - 1

    def heal(self) -> None:
        """Fail no more."""
        self._fault = None

    async def load(self) -> StoredState:
        return await self._run("load", self._store.load)

    async def commit(self, operations: Sequence[Operation]) -> int:
        return await self._run("commit", lambda: self._store.commit(operations))

    async def executions(
        self, *, source_id: str | None = None, principal: str | None = None, limit: int = 100
    ) -> list[ExecutionRow]:
        return await self._run(
            "executions", lambda: self._store.executions(source_id=source_id, principal=principal, limit=limit)
        )

    async def admin_actions(self, *, limit: int = 100) -> list[AdminActionRow]:
        return await self._run("admin_actions", lambda: self._store.admin_actions(limit=limit))

    async def tool_versions(self, tool_id: str) -> list[ToolVersionRow]:
        return await self._run("tool_versions", lambda: self._store.tool_versions(tool_id))

    async def approvals(self, source_id: str, tool: str | None = None) -> list[ApprovalRow]:
        return await self._run("approvals", lambda: self._store.approvals(source_id, tool))

    async def prune(self, *, max_executions: int, max_age: float) -> int:
        return await self._run("prune", lambda: self._store.prune(max_executions=max_executions, max_age=max_age))

    async def close(self) -> None:
        await self._store.close()

    async def _run(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        self.operations.append(name)
        if self._fault is not None and self._first <= len(self.operations) <= self._last:
            if self._fault == "slow":
                await asyncio.sleep(self._delay)
            elif self._fault == "defect":
                if name in WRITES:
                    raise RuntimeError(f"{name} has a defect, injected by a test")
            elif self._fault == "gone" or name in WRITES:
                raise StoreError(f"store: {name} failed: {self._fault}. Injected by a test.", operation=name)
        return await work()
