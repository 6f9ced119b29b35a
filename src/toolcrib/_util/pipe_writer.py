"""Writes lines to a pipe without blocking, from a queue from which lines can be withdrawn."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

BATCH_BYTES = 64 * 1024
"""Bytes that are joined for one system call: the capacity of a pipe on Linux."""
COMPACT_FROM = 1_000
"""Withdrawn lines in the queue above which they are removed from it, once they are the majority."""


class QueuedLine:
    """A line in the queue of a `PipeWriter`. `sent` is True once its first byte is written to the pipe."""

    __slots__ = ("data", "on_left", "sent")

    def __init__(self, data: bytes, on_left: Callable[[], None] | None = None) -> None:
        self.data = data
        self.sent = False
        self.on_left = on_left
        """Called once, when the line leaves the queue: sent, withdrawn or dropped by `close`."""


class PipeWriter:
    """Writes whole lines to a non-blocking descriptor, in order, on callbacks of the running event loop.

    asyncio's transports buffer bytes that could not be written and send them later, even after the caller was informed
    that nothing was sent. Here a line leaves the queue only with the system call that writes its first byte. The first
    line in an iteration of the loop is written immediately, further ones together after that iteration.

    If the descriptor fails, queued lines are dropped, the writer is closed, and `on_broken` is called with the error.
    """

    __slots__ = (
        "_blocked",
        "_drained",
        "_fd",
        "_flush_due",
        "_loop",
        "_on_broken",
        "_queue",
        "_rest",
        "_withdrawn",
        "closed",
        "size",
        "written",
    )

    def __init__(self, fd: int, on_broken: Callable[[OSError], None]) -> None:
        self.closed = False
        """Whether lines are dropped instead of queued."""
        self.size = 0
        """Bytes that wait to be written."""
        self.written = 0
        """Bytes that were written to the descriptor."""
        self._fd = fd
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._queue: deque[QueuedLine] = deque()
        self._withdrawn = 0
        self._rest: memoryview | None = None  # the rest of a line whose beginning was written
        self._flush_due = False
        self._blocked = False
        self._drained: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        """Return the number of lines in the queue, including withdrawn ones that are not removed yet."""
        return len(self._queue)

    # ---- the queue -------------------------------------------------------------------------------------------

    def write(self, line: QueuedLine) -> None:
        """Queue a line, or write it immediately if the queue is empty."""
        if self.closed:
            _leave(line)
            return
        self._queue.append(line)
        self.size += len(line.data)
        if not self._blocked and not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)
            self._write()

    def withdraw(self, line: QueuedLine) -> bool:
        """Remove a line from the queue; return False if a part of it was already written."""
        if line.sent:
            return False
        if line.data and not self.closed:
            # It stays in the queue for now: searching for it would take quadratic time for many time-outs.
            self.size -= len(line.data)
            line.data = b""
            self._withdrawn += 1
            if not self.size or (self._withdrawn > COMPACT_FROM and self._withdrawn * 2 > len(self._queue)):
                self._queue = deque(each for each in self._queue if each.data)
                self._withdrawn = 0
            if not self.size:
                self._unblock()
            _leave(line)
        return True

    def drained(self) -> asyncio.Future[None] | None:
        """Return a future that is resolved when all lines are written or dropped; None if the queue is empty."""
        if not self.size:
            return None
        if self._drained is None:
            self._drained = self._loop.create_future()
        return self._drained

    async def flush(self, timeout: float) -> None:
        """Wait until all lines are written, or the writer is closed, but at most `timeout` seconds."""
        drained = self.drained()
        if drained is not None:
            await asyncio.wait([drained], timeout=timeout)

    def close(self) -> None:
        """Drop queued lines, and all lines from now on. The descriptor stays open."""
        self.closed = True
        queue, self._queue = self._queue, deque()
        self.size = self._withdrawn = 0
        self._rest = None
        for line in queue:
            _leave(line)
        self._unblock()

    # ---- the pipe --------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._flush_due = False
        if self._queue and not self._blocked:
            self._write()

    def _write(self) -> None:
        """Write until the queue is empty or the pipe is full."""
        while self._rest is not None or self._queue:
            batch = [] if self._rest is not None else self._next_batch()
            data = self._rest if self._rest is not None else b"".join([line.data for line in batch])
            try:
                count = os.write(self._fd, data)
            except BlockingIOError:
                count = 0
            except OSError as exc:
                self.close()
                self._on_broken(exc)
                return
            complete = count == len(data)
            self.written += count
            self.size -= count
            if self._rest is not None:
                self._rest = None if complete else self._rest[count:]
            else:
                self._hand_over(batch, count)
            if not complete:
                self._block()
                return
        self._unblock()

    def _next_batch(self) -> list[QueuedLine]:
        batch: list[QueuedLine] = []
        size = 0
        for line in self._queue:
            size += len(line.data)
            if size > BATCH_BYTES and batch:
                break
            batch.append(line)
        return batch

    def _hand_over(self, batch: list[QueuedLine], count: int) -> None:
        """Remove the lines from the queue that were written at least in part: `count` bytes in total."""
        for line in batch:
            if line.data:
                if count <= 0:
                    return
                line.sent = True
                if count < len(line.data):
                    self._rest = memoryview(line.data)[count:]
                count -= len(line.data)
                if line.on_left is not None:
                    _leave(line)
            elif self._withdrawn:
                self._withdrawn -= 1
            self._queue.popleft()

    def _block(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._loop.add_writer(self._fd, self._write)

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(self._fd)
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)


def _leave(line: QueuedLine) -> None:
    on_left, line.on_left = line.on_left, None
    if on_left is not None:
        on_left()
