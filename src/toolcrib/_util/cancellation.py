"""Distinguishes a cancellation that this code requested from one that a caller requested."""

from __future__ import annotations

import asyncio
from typing import Any


class OwnCancellation:
    """A cancellation of the current task that ends only a part of its work, as `asyncio.timeout` does.

    asyncio counts how often a task was cancelled, but not by which code: all that arrives is a `CancelledError`.

        cancellation = OwnCancellation()
        try:
            await work()  # meanwhile, another task or a callback may call `cancellation.cancel()`
        except asyncio.CancelledError:
            if cancellation.cancelled_by_others():
                raise
        finally:
            cancellation.take_back()

    If neither `requested` nor `cancelled_by_others()` is true, the work itself raised `CancelledError`.
    A caller that has the running loop at hand passes it: looking it up is slow before Python 3.12.
    """

    __slots__ = ("_before", "_counted", "_task", "requested")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        task = asyncio.current_task(loop)
        assert task is not None, "only a task can be cancelled"
        self._task: asyncio.Task[Any] | None = task
        # Not always 0: a cancelled task may be cleaning up. A cancellation that was requested but not yet delivered,
        # such as by Ctrl-C while the task was running, is still to come: it belongs to what happens from here on.
        self._before = task.cancelling() - getattr(task, "_must_cancel", False)
        self._counted = 0
        self.requested = False
        """Whether `cancel` was called."""

    def cancel(self) -> None:
        """Cancel the task. Further calls, and calls after `take_back`, do nothing."""
        task = self._task
        if task is None or self.requested:
            return
        self.requested = True
        loop = task.get_loop()
        if asyncio.current_task(loop) is task:
            # A task that cancels itself and then does not await would be interrupted later, at another place.
            loop.call_soon(self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        if self._task is not None:
            self._counted = 1
            self._task.cancel()

    def cancelled_by_others(self) -> bool:
        """Return whether other code has cancelled the task since; False after `take_back`."""
        task = self._task
        return task is not None and task.cancelling() > self._before + self._counted

    def take_back(self) -> None:
        """Remove the cancellation that `cancel` requested from the count of the task, if there was one."""
        task, self._task = self._task, None
        if task is not None and self._counted:
            task.uncancel()


def is_current_task_cancelled() -> bool:
    """Return whether the current task itself was cancelled, not only a future that it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
