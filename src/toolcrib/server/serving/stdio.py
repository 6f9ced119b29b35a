"""Serve one client over stdin and stdout: one JSON message a line; output of `print` goes to stderr."""

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
from collections.abc import Callable, Iterator
from typing import Final

from ..._util.pipe_writer import PipeWriter, QueuedLine
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
"""Seconds that running requests have to finish when stdin has ended."""
FLUSH: Final = 0.5
"""Seconds that the last answers have to be written."""
FULL: Final = 4 * 1024 * 1024
"""Bytes that may wait for a client that does not read; above it, senders wait too and nothing is read."""
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

    with _descriptors(stdin, stdout) as (source, sink), _non_blocking(sink), _signals(loop, end):
        output = _Output(sink, lambda: end(0.0))
        session = StreamSession(handler, output.send)
        reader = _reader(source, _Lines(session), output, lambda: end(GRACE))
        try:
            grace = await over
            reader.stop()
            await session.close(grace)
        finally:
            reader.stop()
            await session.close()
            await output.close(FLUSH)


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


@contextlib.contextmanager
def _non_blocking(fd: int) -> Iterator[None]:
    """Make a pipe or a socket non-blocking: a terminal shares its flags with the shell, and a file takes everything."""
    kind = os.fstat(fd).st_mode
    if not os.get_blocking(fd) or not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
        yield
        return
    os.set_blocking(fd, False)
    try:
        yield
    finally:
        os.set_blocking(fd, True)


class _Output:
    """Messages to the client, one a line."""

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._on_broken = on_broken
        self._writer = PipeWriter(fd, self._broke)

    def send(self, message: Message | list[Message]) -> asyncio.Future[None] | None:
        """Queue a message; returns a future to wait for if too many bytes wait already."""
        self._writer.write(QueuedLine(jsonrpc.encode(message) + b"\n"))
        return self.room()

    def room(self) -> asyncio.Future[None] | None:
        """Return None while more may be queued, else a future that is resolved when everything is written."""
        return None if self._writer.size <= FULL else self._writer.drained()

    def _broke(self, exc: OSError) -> None:
        log.info("the client reads no more: %s", exc)
        self._on_broken()

    async def close(self, timeout: float) -> None:
        """Write what waits, as far as the client takes it within `timeout` seconds."""
        try:
            await self._writer.flush(timeout)
        finally:
            self._writer.close()


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

    def __init__(self, fd: int, lines: _Lines, output: _Output, on_end: Callable[[], None]) -> None:
        self._fd = fd
        self._lines = lines
        self._output = output
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
        room = self._output.room()
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
        """Stop reading."""
        if not self._stopped:
            self._stopped = True
            self.pause()


class _ThreadReader(_Reader):
    """For what the loop cannot watch: files, and some terminals. The thread reads one chunk when it is told to, and can
    always be called back."""

    def __init__(self, fd: int, lines: _Lines, output: _Output, on_end: Callable[[], None]) -> None:
        super().__init__(fd, lines, output, on_end)
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


def _reader(fd: int, lines: _Lines, output: _Output, on_end: Callable[[], None]) -> _Reader:
    reader = _Reader(fd, lines, output, on_end)
    try:
        reader.start()
    except (OSError, NotImplementedError):
        reader = _ThreadReader(fd, lines, output, on_end)
        reader.start()
    return reader
