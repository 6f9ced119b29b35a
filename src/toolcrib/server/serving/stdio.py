"""Serving one client over stdin and stdout: one JSON message a line, and nothing else on the wire, whoever prints."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import select
import signal
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from ...errors import ProtocolError
from ...protocol import jsonrpc
from ...protocol.framing import LineFramer, Oversized
from ...protocol.jsonrpc import Message
from ...protocol.limits import MAX_MESSAGE
from ...protocol.sanitize import one_line
from ..handler import RequestHandler
from .stream_session import StreamSession

log = logging.getLogger("toolcrib.server.stdio")

CHUNK: Final = 256 * 1024
GRACE: Final = 2.0
"""Seconds that requests at work have to finish when stdin has ended."""
FLUSH: Final = 0.5
"""Seconds that the last answers have to be written."""
FULL: Final = 4 * 1024 * 1024
"""Bytes that may wait for a client that does not read, before who sends waits too and nothing more is read."""
STDIN, STDOUT, STDERR = 0, 1, 2


async def serve_stdio(handler: RequestHandler, *, stdin: int | None = None, stdout: int | None = None) -> None:
    """Serve until stdin ends, the client has gone, or SIGTERM or SIGINT comes; other descriptors may be given.

    While it runs, `print`, other libraries and child processes find stderr where stdout was, and nothing at stdin.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[float] = loop.create_future()

    def end(grace: float) -> None:
        if not over.done():
            over.set_result(grace)

    with _descriptors(stdin, stdout) as (source, sink), _signals(loop, end):
        writer = _Writer(sink, lambda: end(0.0))
        session = StreamSession(handler, writer.send)
        reader = _reader(source, _Lines(session), writer, lambda: end(GRACE))
        try:
            grace = await over
            reader.stop()
            await session.close(grace)
        finally:
            reader.stop()
            await session.close()
            await writer.close(FLUSH)


# ---- whose stdout it is --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _descriptors(stdin: int | None, stdout: int | None) -> Iterator[tuple[int, int]]:
    """Our own copies of both. The well-known numbers lead elsewhere meanwhile, so that only we use them."""
    with contextlib.ExitStack() as stack:
        source = _own(STDIN if stdin is None else stdin, stack)
        sink = _own(STDOUT if stdout is None else stdout, stack)
        if stdin is None:
            _replace(STDIN, os.open(os.devnull, os.O_RDONLY), source, stack)
        if stdout is None:
            _replace(STDOUT, _stderr(), sink, stack)
            # What was printed before is no message either, nor what somebody prints to the old `sys.stdout` meanwhile.
            _flush_stdout()
            stack.callback(_flush_stdout)
            if sys.stderr is not None:
                stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield source, sink


def _own(fd: int, stack: contextlib.ExitStack) -> int:
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, STDERR + 1)  # never in the place of a stderr that is closed
    stack.callback(os.close, copy)
    return copy


def _replace(number: int, by: int, original: int, stack: contextlib.ExitStack) -> None:
    os.dup2(by, number)
    os.close(by)
    stack.callback(os.dup2, original, number)


def _flush_stdout() -> None:
    if sys.stdout is not None and not sys.stdout.closed:
        sys.stdout.flush()


def _stderr() -> int:
    # Where there is none, its number may belong to anything by now.
    return os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else os.dup(STDERR)


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, end: Callable[[float], None]) -> Iterator[None]:
    """SIGTERM and SIGINT end the serving; outside of the main thread they are somebody else's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        loop.add_signal_handler(number, end, 0.0)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            if handler is not None:  # else it is not one of Python's
                signal.signal(number, handler)


# ---- out -----------------------------------------------------------------------------------------------------


class _Writer:
    """Whole lines, in order. The first of a turn of the loop is written at once, the others of that turn together."""

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._flush_due = False
        self._blocked = False
        self._broken = False
        self._room: asyncio.Future[None] | None = None
        # A terminal's flags are shared with the shell behind it, and a file takes everything.
        kind = os.fstat(fd).st_mode
        self._was_blocking = os.get_blocking(fd) and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind))
        if self._was_blocking:
            os.set_blocking(fd, False)

    def send(self, message: Message | list[Message]) -> asyncio.Future[None] | None:
        """Take a message; gives what to wait for if too much is waiting already."""
        line = jsonrpc.encode(message) + b"\n"
        if self._broken:
            return None
        self._queue.append(line)
        self._size += len(line)
        if not self._blocked and not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)
            self._write()
        return self.room()

    def room(self) -> asyncio.Future[None] | None:
        """None while there is room."""
        if self._size <= FULL:
            return None
        if self._room is None:
            self._room = self._loop.create_future()
        return self._room

    def _flush(self) -> None:
        self._flush_due = False
        if not self._blocked:
            self._write()

    def _write(self) -> None:
        while self._queue:
            data = self._next()
            try:
                written = os.write(self._fd, data)
            except BlockingIOError:
                written = 0
            except OSError as exc:
                log.info("the client reads no more: %s", exc)
                self._break()
                return
            self._size -= written
            if written < len(data):
                self._queue.appendleft(data[written:])
                self._block()
                return
        self._unblock()

    def _next(self) -> bytes:
        """What is written together; the rest of a large message is cut into pieces once."""
        parts, size = [], 0
        while self._queue and size < CHUNK:
            part = self._queue.popleft()
            if len(part) > CHUNK:
                pieces = [part[at : at + CHUNK] for at in range(0, len(part), CHUNK)]
                self._queue.extendleft(reversed(pieces))
                part = self._queue.popleft()
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def _block(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._loop.add_writer(self._fd, self._write)

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(self._fd)
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _break(self) -> None:
        self._broken = True
        self._queue.clear()
        self._size = 0
        self._unblock()
        self._on_broken()

    async def close(self, timeout: float) -> None:
        """Write what is left, as long as somebody reads."""
        try:
            if self._queue and not self._broken:
                self._room = self._room or self._loop.create_future()
                await asyncio.wait([self._room], timeout=timeout)
        finally:
            self._broken = True
            self._queue.clear()
            self._unblock()
            if self._was_blocking:
                os.set_blocking(self._fd, True)


# ---- in ------------------------------------------------------------------------------------------------------


class _Lines:
    """Bytes to the messages of a session."""

    def __init__(self, session: StreamSession) -> None:
        self._session = session
        self._framer = LineFramer()

    def feed(self, data: bytes) -> None:
        """Take what was read; nothing is the end, which ends the last line too."""
        for line in self._framer.feed(data or b"\n"):
            if isinstance(line, Oversized):
                error = ProtocolError(f"a line above the limit of {MAX_MESSAGE:,} bytes", sample=one_line(line.head))
                self._session.malformed(error, line.head)
                continue
            try:
                message = jsonrpc.decode(line)
            except ProtocolError as exc:
                self._session.malformed(exc, line[:1024])
            else:
                self._session.feed(message, size=len(line))


class _Reader:
    """Reads when the loop says that there is something; while the client does not read, nothing is read from it."""

    def __init__(self, fd: int, lines: _Lines, writer: _Writer, on_end: Callable[[], None]) -> None:
        self._fd = fd
        self._lines = lines
        self._writer = writer
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._stopped = False

    def start(self) -> None:
        """Begin, or go on."""
        self._loop.add_reader(self._fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        except OSError as exc:
            log.info("stdin cannot be read any more: %s", exc)
            data = b""
        self.take(data)

    def take(self, data: bytes) -> None:
        """Hand it on."""
        if self._stopped:
            return
        self._lines.feed(data)
        if not data:
            self.stop()
            self._on_end()
            return
        room = self._writer.room()
        if room is not None:
            self.pause()
            room.add_done_callback(self._go_on)

    def pause(self) -> None:
        """Read nothing for a while."""
        self._loop.remove_reader(self._fd)

    def _go_on(self, _: object) -> None:
        if not self._stopped:
            self.start()

    def stop(self) -> None:
        """Read nothing any more."""
        if not self._stopped:
            self._stopped = True
            self.pause()


class _ThreadReader(_Reader):
    """For what the loop cannot watch: files, and some terminals. The thread reads one chunk when it is told to, and can
    always be called back."""

    def __init__(self, fd: int, lines: _Lines, writer: _Writer, on_end: Callable[[], None]) -> None:
        super().__init__(fd, lines, writer, on_end)
        self._calls, self._call = os.pipe()
        self._wanted = threading.Semaphore(0)
        self._paused = False
        self._thread = threading.Thread(target=self._run, name="toolcrib-stdin", daemon=True)

    def start(self) -> None:
        """Let the thread read the next chunk."""
        if not self._thread.is_alive():
            self._thread.start()
        self._wanted.release()

    def take(self, data: bytes) -> None:
        """Hand it on, and let the next one be read."""
        self._paused = False
        super().take(data)
        if not self._stopped and not self._paused:
            self.start()

    def pause(self) -> None:
        """The next chunk is read when somebody calls `start`."""
        self._paused = True

    def _run(self) -> None:
        data = b"-"
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._calls, select.POLLIN)
        while data:
            self._wanted.acquire()
            if self._calls in dict(poll.poll()):
                return
            try:
                data = os.read(self._fd, CHUNK)
            except OSError as exc:
                log.info("stdin cannot be read any more: %s", exc)
                data = b""
            self._loop.call_soon_threadsafe(self.take, data)

    def stop(self) -> None:
        """Call the thread back."""
        if self._stopped:
            return
        self._stopped = True
        os.write(self._call, b"!")
        self._wanted.release()
        self._thread.join()
        os.close(self._call)
        os.close(self._calls)


def _reader(fd: int, lines: _Lines, writer: _Writer, on_end: Callable[[], None]) -> _Reader:
    reader = _Reader(fd, lines, writer, on_end)
    try:
        reader.start()
    except (OSError, NotImplementedError):
        reader = _ThreadReader(fd, lines, writer, on_end)
        reader.start()
    return reader
