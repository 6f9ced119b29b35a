"""Requests that wait for their answers: ids, deadlines, idle time-outs, progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..errors import CallTimeout, ConnectionLost, OutcomeUnknown, UnansweredTimeout
from ..events import Delivery
from ..protocol.limits import MAX_ROUNDS
from ..types import Wire
from .channel import RequestOptions

COURTESY_TIMEOUT = 5.0
"""Limit in seconds for work that does not affect the outcome of a request, such as sending a cancellation."""


class _Hold:
    """How often, and since when, the clock of a request is stopped while requests of its server are answered."""

    __slots__ = ("open", "questions", "since")

    def __init__(self) -> None:
        self.open = 0
        self.questions = 0
        self.since = 0.0


class PendingRequest:
    """A request that waits for its answer. Times are those of the event loop."""

    __slots__ = ("deadline", "hold", "idle_timeout", "idle_until", "method", "progress")

    def __init__(self, method: str, options: RequestOptions) -> None:
        self.method = method
        self.deadline = options.deadline
        self.idle_timeout = options.idle_timeout
        self.idle_until: float | None = None
        self.hold: _Hold | None = None
        self.progress = Delivery(options.on_progress, "progress handler") if options.on_progress is not None else None

    def due(self) -> float | None:
        """Return the time until which it must be answered; progress and holds may extend it."""
        if self.idle_until is None:
            return self.deadline
        return self.idle_until if self.deadline is None else min(self.deadline, self.idle_until)

    @property
    def held(self) -> bool:
        """Whether its clock is stopped."""
        return self.hold is not None and self.hold.open > 0

    def stop_clock(self, now: float, most: int) -> bool:
        """Stop the clock for one request of the server; returns False if it was stopped `most` times already.

        Without this limit, a server that keeps sending requests would keep every deadline from passing.
        """
        hold = self.hold = self.hold or _Hold()
        if hold.questions >= most:
            return False
        hold.questions += 1
        hold.open += 1
        if hold.open == 1:
            hold.since = now
        return True

    def resume_clock(self, now: float) -> None:
        """Undo one `stop_clock`. After the last one, the deadlines are moved by the time in between."""
        hold = self.hold
        if hold is None:
            return
        hold.open -= 1
        if hold.open == 0:
            if self.deadline is not None:
                self.deadline += now - hold.since
            if self.idle_until is not None:
                self.idle_until += now - hold.since

    def on_progress(self, params: Wire, now: float) -> None:
        """Handle a `notifications/progress` of this request."""
        progress = _number(params.get("progress"))
        if progress is None:
            return
        if self.idle_timeout is not None:
            # While the clock is stopped, the time since then is added when it resumes: do not count it twice.
            began = self.hold.since if self.hold is not None and self.hold.open else now
            self.idle_until = began + self.idle_timeout
        if self.progress is not None:
            message = params.get("message")
            self.progress(progress, _number(params.get("total")), message if isinstance(message, str) else None)

    async def deliver_progress(self) -> None:
        """Wait until the progress handler has received everything, at most a few seconds."""
        if self.progress is None:
            return
        until = asyncio.get_running_loop().time() + COURTESY_TIMEOUT
        try:
            async with asyncio.timeout_at(until if self.deadline is None else min(until, self.deadline)):
                await self.progress.drained()
        except TimeoutError:
            return


class Slots:
    """A semaphore in order of arrival. Taking a free slot needs no coroutine."""

    __slots__ = ("_free", "_queue")

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: dict[asyncio.Future[None], None] = {}

    def take(self) -> asyncio.Future[None] | None:
        """Take a slot and return None; if none is free, return a future to pass to `wait`."""
        if self._free:
            self._free -= 1
            return None
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue[turn] = None
        return turn

    async def wait(self, turn: asyncio.Future[None]) -> None:
        """Wait until a slot is free for the caller."""
        try:
            await turn
        except asyncio.CancelledError:
            self._queue.pop(turn, None)
            if not turn.cancelled():
                self.give()  # the slot was passed on in the same iteration of the loop
            raise

    async def __aenter__(self) -> None:
        if (turn := self.take()) is not None:
            await self.wait(turn)

    async def __aexit__(self, *exc: object) -> None:
        self.give()

    def give(self) -> None:
        """Pass the slot to the task that has waited longest, or free it."""
        while self._queue:
            turn = next(iter(self._queue))
            del self._queue[turn]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


P = TypeVar("P", bound=PendingRequest)


class PendingRequests(dict[int, P]):
    """The pending requests of one channel, by id.

    One timer serves all deadlines; it is rescheduled only for an earlier one. `on_due` is called with each request
    whose time is over, also if it already has its outcome.
    """

    __slots__ = ("_holds", "_last_id", "_on_due", "_timer", "_timer_at", "ended", "loop")

    def __init__(self, on_due: Callable[[int, P], object]) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        """The loop of the channel: looking it up for each request is slow before Python 3.12."""
        self.ended: Exception | None = None
        """Why the channel accepts no further requests; None while it does."""
        self._last_id = 0
        self._holds: list[list[P]] = []
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def holding(self) -> bool:
        """Whether a request of the server is being answered."""
        return bool(self._holds)

    def begin(self, options: RequestOptions) -> int:
        """Return the id of a new request, and pass it to `options.on_id`.

        Raises `ConnectionLost` if the channel has ended, `CallTimeout` if the deadline has passed.
        """
        if self.ended is not None:
            raise ConnectionLost(f"the connection has ended: {self.ended}") from self.ended
        id = self._last_id = self._last_id + 1
        if options.on_id is not None:
            options.on_id(id)
        deadline = options.deadline
        if deadline is not None and deadline <= self.loop.time():
            raise timeout_error(sent=False)
        return id

    def refuse(self, reason: Exception) -> bool:
        """Reject further requests; returns False if they are rejected already."""
        if self.ended is not None:
            return False
        self.ended = reason
        return True

    def add(self, id: int, entry: P) -> None:
        """Add a request and watch its deadlines. The caller removes it when it has its outcome."""
        self[id] = entry
        if entry.idle_timeout is not None:
            entry.idle_until = self.loop.time() + entry.idle_timeout
        elif entry.deadline is None:
            return
        if self._holds:
            now = self.loop.time()
            for held in self._holds:
                if entry.stop_clock(now, self._most_questions()):
                    held.append(entry)
        due = entry.deadline if entry.idle_until is None else entry.due()
        if due is not None and (self._timer is None or due < self._timer_at):
            self._set_timer(due)

    def stop(self) -> None:
        """Stop watching deadlines."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when: float) -> None:
        self.stop()
        self._timer, self._timer_at = self.loop.call_at(when, self._look), when

    def _look(self) -> None:
        self._timer = None
        now = self.loop.time() + 0.001
        earliest: float | None = None
        for id, entry in list(self.items()):
            due = entry.due()
            if due is None or entry.held:
                continue
            if due > now:
                earliest = due if earliest is None else min(earliest, due)
            else:
                self._on_due(id, entry)
        if earliest is not None:
            self._set_timer(earliest)

    def _most_questions(self) -> int:
        return MAX_ROUNDS * max(1, len(self))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Pause all deadlines while the context is entered, because a request of the server is being answered.

        The legacy protocol does not say which pending request the server's request belongs to, so all of them pause,
        each for at most `MAX_ROUNDS` server requests per pending request, as in the modern protocol.
        """
        clock = self.loop.time
        now, most = clock(), self._most_questions()
        held = [entry for entry in self.values() if entry.stop_clock(now, most)]
        self._holds.append(held)
        try:
            yield
        finally:
            self._holds = [other for other in self._holds if other is not held]
            now = clock()
            for entry in held:
                entry.resume_clock(now)
            self.stop()
            self._look()


def timeout_error(*, sent: bool) -> CallTimeout:
    """Return the error of a request whose deadline has passed."""
    if sent:
        return UnansweredTimeout("no answer within the deadline; the call was handed over and may have been executed")
    return CallTimeout("the deadline passed before the call could be sent")


def lost_error(reason: Exception, *, sent: bool) -> ConnectionLost | OutcomeUnknown:
    """Return the error of a request that was pending when its connection ended."""
    error: ConnectionLost | OutcomeUnknown
    if sent:
        error = OutcomeUnknown(f"{reason}; the call was handed over and may have been executed")
    else:
        error = ConnectionLost(f"{reason}; the call was never sent")
    error.__cause__ = reason
    return error


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
