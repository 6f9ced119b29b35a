"""The requests that wait for their answers: deadlines, silences, progress."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..events import Delivery
from ..protocol.limits import MAX_ROUNDS
from ..types import Wire
from .channel import RequestOptions

COURTESY = 5.0
"""Seconds that a peer, or a handler, may take for what is only a courtesy."""


class _Hold:
    """How often and since when the clock of one request stands still because its server's questions are answered."""

    __slots__ = ("open", "questions", "since")

    def __init__(self) -> None:
        self.open = 0
        self.questions = 0
        self.since = 0.0


class Pending:
    """A request that waits for its answer. Times are the loop's."""

    __slots__ = ("deadline", "hold", "idle_timeout", "idle_until", "method", "progress")

    def __init__(self, method: str, options: RequestOptions) -> None:
        self.method = method
        self.deadline = options.deadline
        self.idle_timeout = options.idle_timeout
        self.idle_until: float | None = None
        self.hold: _Hold | None = None
        self.progress = Delivery(options.on_progress, "progress handler") if options.on_progress is not None else None

    def due(self) -> float | None:
        """When it must be answered, as far as is known now."""
        if self.idle_until is None:
            return self.deadline
        return self.idle_until if self.deadline is None else min(self.deadline, self.idle_until)

    @property
    def held(self) -> bool:
        """Whether its clock stands still."""
        return self.hold is not None and self.hold.open > 0

    def stop_clock(self, now: float, most: int) -> bool:
        """Stop the clock for one question of the server; False if it has been stopped `most` times already.

        Without a limit, a server that keeps asking would keep every deadline from passing.
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
        """Undo one `stop_clock`; after the last one, the time in between does not count."""
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
        """A `notifications/progress` of this request."""
        progress = _number(params.get("progress"))
        if progress is None:
            return
        if self.idle_timeout is not None:
            # While the clock stands still, the time since it stopped is added when it resumes: do not count it twice.
            began = self.hold.since if self.hold is not None and self.hold.open else now
            self.idle_until = began + self.idle_timeout
        if self.progress is not None:
            message = params.get("message")
            self.progress(progress, _number(params.get("total")), message if isinstance(message, str) else None)

    async def told(self) -> None:
        """Wait until the progress handler has had everything; one that hangs does not keep the answer."""
        if self.progress is None:
            return
        until = asyncio.get_running_loop().time() + COURTESY
        try:
            async with asyncio.timeout_at(until if self.deadline is None else min(until, self.deadline)):
                await self.progress.drained()
        except TimeoutError:
            return


class Slots:
    """So many at the same time, first come, first served. Taking a free one costs no coroutine."""

    __slots__ = ("_free", "_queue")

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: dict[asyncio.Future[None], None] = {}

    def take(self) -> asyncio.Future[None] | None:
        """None: it is taken. Else `wait` for what is given."""
        if self._free:
            self._free -= 1
            return None
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue[turn] = None
        return turn

    async def wait(self, turn: asyncio.Future[None]) -> None:
        """Until it is handed over to us."""
        try:
            await turn
        except asyncio.CancelledError:
            self._queue.pop(turn, None)
            if not turn.cancelled():
                self.give()  # it came in the moment in which we left
            raise

    def give(self) -> None:
        """To the next who waits, or back."""
        while self._queue:
            turn = next(iter(self._queue))
            del self._queue[turn]
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


P = TypeVar("P", bound=Pending)


class Waiting(dict[int, P]):
    """The requests that wait, by id. One timer serves all of their deadlines, moved only when an earlier one comes.

    `on_due` is called with those whose time is over, also with those that have got their outcome meanwhile.
    """

    __slots__ = ("_holds", "_on_due", "_timer", "_timer_at")

    def __init__(self, on_due: Callable[[int, P], object]) -> None:
        super().__init__()
        self._holds: list[list[P]] = []
        self._on_due = on_due
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def holding(self) -> bool:
        """Whether a question of the server is being answered."""
        return bool(self._holds)

    def watch(self, entry: P) -> None:
        """Its time begins."""
        if entry.idle_timeout is not None:
            entry.idle_until = asyncio.get_running_loop().time() + entry.idle_timeout
        if self._holds:
            now = asyncio.get_running_loop().time()
            for held in self._holds:
                if entry.stop_clock(now, self._most_questions()):
                    held.append(entry)
        due = entry.deadline if entry.idle_until is None else entry.due()
        if due is not None and (self._timer is None or due < self._timer_at):
            self._set_timer(due)

    def stop(self) -> None:
        """Call nobody any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when: float) -> None:
        self.stop()
        self._timer, self._timer_at = asyncio.get_running_loop().call_at(when, self._look), when

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time() + 0.001
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
        """While entered, let no deadline pass: a question of the server is being answered.

        The protocol does not say which request the question belongs to, so all of them wait, each for at most as many
        questions as all of them together may have: `MAX_ROUNDS` for each request, as in the modern protocol.
        """
        clock = asyncio.get_running_loop().time
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


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
