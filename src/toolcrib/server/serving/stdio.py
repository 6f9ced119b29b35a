"""Serving one client over stdin and stdout: one JSON message per line; output of `print` goes to stderr."""

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
SHUTDOWN_GRACE_SECONDS: Final = 2.0
"""Seconds that running requests have to finish when stdin has ended."""
FLUSH_SECONDS: Final = 0.5
"""Seconds that the last answers have to be written."""
MAX_UNREAD_BYTES: Final = 4 * 1024 * 1024
"""Bytes that may be queued for a client that does not read; above it, senders wait and nothing is read from stdin."""
STDIN, STDOUT, STDERR = 0, 1, 2


async def serve_stdio(handler: RequestHandler, *, stdin: int | None = None, stdout: int | None = None) -> None:
    """Serve until stdin ends, the client closes stdout, or SIGTERM or SIGINT arrives.

    By default it uses the descriptors 0 and 1. While it runs, these lead to /dev/null and to stderr, so that `print`,
    other libraries and child processes neither read nor write messages of the protocol.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[float] = loop.create_future()

    def end(grace: float) -> None:
        if not over.done():
            over.set_result(grace)

    with _descriptors(stdin, stdout) as (source, sink), _non_blocking(sink), _signals(loop, end):
        output = _Output(sink, lambda: end(0.0))
        session = StreamSession(handler, output.send)
        reader = _reader(source, _Lines(session), output, lambda: end(SHUTDOWN_GRACE_SECONDS))
        try:
            grace = await over
            reader.stop()
            await session.close(grace)
        finally:
            reader.stop()
            await session.close()
            await output.close(FLUSH_SECONDS)


# ---- descriptors and signals ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _descriptors(stdin: int | None, stdout: int | None) -> Iterator[tuple[int, int]]:
    """Yield private copies of both descriptors, and redirect descriptors 0 and 1 meanwhile."""
    with contextlib.ExitStack() as stack:
        source = _own(STDIN if stdin is None else stdin, stack)
        sink = _own(STDOUT if stdout is None else stdout, stack)
        if stdin is None:
            _replace(STDIN, os.open(os.devnull, os.O_RDONLY), source, stack)
        if stdout is None:
            _replace(STDOUT, _stderr(), sink, stack)
            # Text printed before, or to the old `sys.stdout` meanwhile, must not get between the messages.
            _flush_stdout()
            stack.callback(_flush_stdout)
            if sys.stderr is not None:
                stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield source, sink


def _own(fd: int, stack: contextlib.ExitStack) -> int:
    copy = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, STDERR + 1)  # never 2, even if stderr is closed
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
    # If the process was started without stderr, descriptor 2 may be any other file.
    return os.open(os.devnull, os.O_WRONLY) if sys.__stderr__ is None else os.dup(STDERR)


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, end: Callable[[float], None]) -> Iterator[None]:
    """Call `end` on SIGTERM and SIGINT. Does nothing outside the main thread, as `signal` requires."""
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
            if handler is not None:  # None: it was not installed from Python, and cannot be restored
                signal.signal(number, handler)


# ---- out -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _non_blocking(fd: int) -> Iterator[None]:
    """Make a pipe or a socket non-blocking; not a terminal, which shares its flags with the shell, and not a file."""
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
    """Writes messages to the client, one per line."""

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        self._on_broken = on_broken
        self._writer = PipeWriter(fd, self._broke)

    def send(self, message: Message | list[Message]) -> asyncio.Future[None] | None:
        """Queue a message; returns a future to wait for if too many bytes are queued already."""
        self._writer.write(QueuedLine(jsonrpc.encode(message) + b"\n"))
        return self.room()

    def room(self) -> asyncio.Future[None] | None:
        """Return None while more may be queued, else a future that is resolved when everything is written."""
        return None if self._writer.size <= MAX_UNREAD_BYTES else self._writer.drained()

    def _broke(self, exc: OSError) -> None:
        log.info("the client closed its end of stdout: %s", exc)
        self._on_broken()

    async def close(self, timeout: float) -> None:
        """Write the queued messages that the client reads within `timeout` seconds, and drop the rest."""
        try:
            await self._writer.flush(timeout)
        finally:
            self._writer.close()


# ---- in ------------------------------------------------------------------------------------------------------


class _Lines:
    """Splits the input into messages, and feeds them to a session."""

    def __init__(self, session: StreamSession) -> None:
        self._session = session
        self._framer = LineFramer()

    def feed(self, data: bytes) -> None:
        """Take a chunk of input. An empty chunk is the end of stdin and completes the last line."""
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
    """Reads stdin when the event loop reports input, and pauses while too much output is queued."""

    def __init__(self, fd: int, lines: _Lines, output: _Output, on_end: Callable[[], None]) -> None:
        self._fd = fd
        self._lines = lines
        self._output = output
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._stopped = False

    def start(self) -> None:
        """Start or resume reading."""
        self._loop.add_reader(self._fd, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        except OSError as exc:
            log.info("reading stdin failed: %s", exc)
            data = b""
        self.take(data)

    def take(self, data: bytes) -> None:
        """Pass a chunk on; an empty one ends the reading."""
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
            room.add_done_callback(self._resume)

    def pause(self) -> None:
        """Stop reading until `start` is called."""
        self._loop.remove_reader(self._fd)

    def _resume(self, _: object) -> None:
        if not self._stopped:
            self.start()

    def stop(self) -> None:
        """Stop reading for good."""
        if not self._stopped:
            self._stopped = True
            self.pause()


class _ThreadReader(_Reader):
    """Reads stdin in a thread, if the event loop cannot watch it: files, and some terminals.

    The thread reads one chunk for each `start`, and `stop` can interrupt it at any time through a pipe.
    """

    def __init__(self, fd: int, lines: _Lines, output: _Output, on_end: Callable[[], None]) -> None:
        super().__init__(fd, lines, output, on_end)
        self._stop_reader, self._stop_writer = os.pipe()
        self._chunks = threading.Semaphore(0)  # how many the thread may read
        self._paused = False
        self._thread = threading.Thread(target=self._run, name="toolcrib-stdin", daemon=True)

    def start(self) -> None:
        """Let the thread read the next chunk."""
        if not self._thread.is_alive():
            self._thread.start()
        self._chunks.release()

    def take(self, data: bytes) -> None:
        """Pass a chunk on, and let the thread read the next one."""
        self._paused = False
        super().take(data)
        if not self._stopped and not self._paused:
            self.start()

    def pause(self) -> None:
        """Read no further chunk until `start` is called."""
        self._paused = True

    def _run(self) -> None:
        data = b"-"
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._stop_reader, select.POLLIN)
        while data:
            self._chunks.acquire()
            if self._stop_reader in dict(poll.poll()):
                return
            try:
                data = os.read(self._fd, CHUNK)
            except OSError as exc:
                log.info("reading stdin failed: %s", exc)
                data = b""
            self._loop.call_soon_threadsafe(self.take, data)

    def stop(self) -> None:
        """End the thread, and wait for it."""
        if self._stopped:
            return
        self._stopped = True
        os.write(self._stop_writer, b"!")
        self._chunks.release()
        self._thread.join()
        os.close(self._stop_writer)
        os.close(self._stop_reader)


def _reader(fd: int, lines: _Lines, output: _Output, on_end: Callable[[], None]) -> _Reader:
    reader = _Reader(fd, lines, output, on_end)
    try:
        reader.start()
    except (OSError, NotImplementedError):
        reader = _ThreadReader(fd, lines, output, on_end)
        reader.start()
    return reader
