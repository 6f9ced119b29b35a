"""The HTTP response to one request while that is being answered, and the monitor of slow requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

from ..._util.cancellation import OwnCancellation
from ...protocol import jsonrpc
from ...types import Wire
from .asgi import Headers, Receive, Send, reply, takes_events, wait_for_disconnect
from .sse_stream import HEAD, KEEP_ALIVE, SseStream

SLOW_AFTER_SECONDS: Final = 0.25
"""Seconds after which a request counts as slow; the server then watches for the disconnection of its client."""


CLOSED: Final = 499
"""The status that web servers log for a client that disconnected before the response."""


class Reply:
    """The response to one request: JSON, or an event stream if anything is sent before the answer."""

    __slots__ = (
        "_cancellation",
        "_headers",
        "_make_stream",
        "_out",
        "_pumping",
        "_send",
        "_stopped",
        "since",
        "stream",
    )

    def __init__(self, send: Send, headers: Headers, make_stream: Callable[[], SseStream] = SseStream) -> None:
        self.stream: SseStream | None = None
        self.since = 0.0
        self._send = send
        self._headers = headers
        self._make_stream = make_stream
        self._pumping: asyncio.Task[None] | None = None
        self._stopped = False
        self._out: asyncio.Future[None] | None = None
        self._cancellation: OwnCancellation | None = None

    # ---- sending -------------------------------------------------------------------------------------------------

    @property
    def may_stream(self) -> bool:
        """Whether the client accepts event streams."""
        return takes_events(self._headers)

    def open(self) -> SseStream:
        """Make the response an event stream, and return the stream."""
        if self.stream is None:
            self.stream = self._make_stream()
            self.stream.open()
            # The reader is registered here and not when the task first runs: earlier events would find no reader.
            pump = self.stream.pump(self._send, self.stream.attach())
            self._pumping = asyncio.get_running_loop().create_task(pump)
            self._pumping.add_done_callback(self._is_out)
        return self.stream

    async def notify(self, method: str, params: Wire) -> None:
        """Send a notification before the answer; it is dropped if the client does not accept event streams."""
        if not self.may_stream:
            return
        stream = self.open()
        # Wait before as well as after: several tasks of one tool may send notifications at the same time.
        await stream.room()
        stream.push(jsonrpc.notification(method, params))
        await stream.room()

    async def pause(self) -> None:
        """End the response but not the stream, if the client can resume it."""
        if not self.may_stream:
            return
        stream = self.open()
        if stream.primes and stream.has_reader:
            stream.pause()
            if self._pumping is not None:
                await asyncio.shield(self._pumping)

    async def finish(self, answer: bytes | None, status: int = 200) -> None:
        """Send the answer and end the response. The answer to a cancelled request is None."""
        if self._pumping is not None and self.stream is not None:
            self.stream.finish(answer)
            await asyncio.shield(self._pumping)
        elif answer is None:
            await reply(self._send, 200, b"", *HEAD)
        else:
            await reply(self._send, status, answer)

    async def until_out(self, work: asyncio.Task[None]) -> None:
        """Wait until the response has ended. `work`, the task that answers the request, may run on."""
        self._out = asyncio.get_running_loop().create_future()
        work.add_done_callback(self._is_out)
        await self._out

    def _is_out(self, _: object) -> None:
        if self._out is not None and not self._out.done():
            self._out.set_result(None)

    # ---- the task that answers -----------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Note that the current task computes the answer; returns False if `stop` was called before.

        The task calls `end` when it has the answer, or will not have one.
        """
        self._cancellation = OwnCancellation()
        return not self._stopped

    def stop(self) -> None:
        """Cancel the task that computes the answer, because no client waits for it."""
        self._stopped = True
        if self._cancellation is not None:
            self._cancellation.cancel()

    def take_cancellation(self, exc: asyncio.CancelledError) -> bool:
        """Return whether a cancellation came from `stop`; False: the request handler itself raised it.

        Raises `exc` if the task itself was cancelled.
        """
        assert self._cancellation is not None
        if self._cancellation.cancelled_by_others():
            self.abandon()
            raise exc
        self._cancellation.take_back()
        return self._stopped

    def end(self) -> None:
        """Undo `begin`: from now on `stop` cancels nothing."""
        if self._cancellation is not None:
            self._cancellation.take_back()

    async def dismiss(self) -> None:
        """End the response although the client has disconnected: middleware may wait for a response."""
        self.abandon()
        if self.stream is None:
            await reply(self._send, CLOSED)

    def abandon(self) -> None:
        """Send nothing more: the client has disconnected."""
        if self.stream is not None:
            self.stream.detach()


class DisconnectMonitor:
    """Watches slow requests for disconnected clients, and keeps their responses alive with an event stream.

    One timer serves all requests, so that a fast request costs only an entry in a dict.
    """

    def __init__(self) -> None:
        self._slow: dict[Reply, tuple[Receive, Callable[[], None]]] = {}
        self._watchers: dict[Reply, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: asyncio.Event | None = None

    def enter(self, one: Reply, receive: Receive, on_disconnect: Callable[[], None]) -> None:
        """Add a request that is being answered; `on_disconnect` is called when its client disconnects."""
        self._slow[one] = (receive, on_disconnect)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # an app may outlive a loop
            self._loop, self._timer = loop, None
        if self._timer is None:
            self._timer = loop.call_later(SLOW_AFTER_SECONDS, self._look)

    def leave(self, one: Reply) -> None:
        """Remove a request that has been answered."""
        self._slow.pop(one, None)
        if not self._slow and self._idle is not None:
            self._idle.set()
        watcher = self._watchers.pop(one, None)
        if watcher is not None:
            watcher.cancel()

    async def idle(self, seconds: float) -> None:
        """Wait until no request is being answered, for at most `seconds`."""
        self._idle = asyncio.Event()
        if self._slow:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._idle.wait()

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for one, (receive, on_disconnect) in self._slow.items():
            if not one.since:
                one.since = now
            elif one not in self._watchers:
                self._watchers[one] = loop.create_task(_watch(receive, on_disconnect))
            elif one.stream is None and now - one.since > KEEP_ALIVE and one.may_stream:
                one.open()
        if self._slow:
            self._timer = loop.call_later(SLOW_AFTER_SECONDS, self._look)

    async def close(self) -> None:
        """Cancel the remaining requests, and stop watching."""
        for one in list(self._slow):
            one.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        watchers = list(self._watchers.values())
        for task in watchers:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*watchers, return_exceptions=True)


async def _watch(receive: Receive, on_disconnect: Callable[[], Any]) -> None:
    await wait_for_disconnect(receive)
    on_disconnect()
