"""The link to a child process: one JSON message a line over its stdin and stdout."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from array import array
from collections import deque
from collections.abc import Callable

from ...config import StdioServer, may_download, secrets_of_process
from ...errors import ProtocolError, StartError
from ...events import Delivery
from ...protocol import jsonrpc
from ...protocol.framing import LineFramer, Oversized
from ...protocol.jsonrpc import Message
from ...protocol.limits import MAX_MESSAGE
from ...protocol.sanitize import one_line
from ..backlog import Backlog, is_optional
from ..jsonrpc_stream import Receiver, Ticket
from .process import CHUNK, NEEDS_POSIX, ServerProcess

try:
    import fcntl
    import termios
except ModuleNotFoundError:  # only the start of a process is refused, not the import of the client
    IS_POSIX = False
else:
    IS_POSIX = True

log = logging.getLogger("toolcrib.transports.stdio")
stderr_log = logging.getLogger("toolcrib.stderr")

FLUSH = 0.5
"""Seconds that what is queued has to be written when the link is closed."""
LAST_WORDS = 0.08
"""Seconds between the end of stdout and the end of the process, or the other way round, to learn of both."""


COMPACT_FROM = 1_000
"""Withdrawn lines in the queue from which on they are removed from it, once they are the most of it."""


class _OutgoingLine:
    """A line on its way out. `counted` is its size if it counts against the limit of the backlog, else 0."""

    __slots__ = ("counted", "data", "sent")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.sent = False
        self.counted = 0


class StdioLink:
    """Owns the child. Bytes go straight between its pipes and us on the loop's callbacks; no task, no stream objects.

    asyncio's own transports keep what they could not write and send it later, when the caller has long been told that
    it was not sent. So the queue is ours, and a line leaves it only with the system call that hands over its first
    byte.
    """

    def __init__(self, server: StdioServer, *, on_stderr: Callable[[str], object] | None = None) -> None:
        self._server = server
        self.secrets = secrets_of_process(server.env, server.args)
        """Hides what the server's process was given as a secret."""
        self._on_stderr = Delivery(on_stderr, "stderr handler") if on_stderr is not None else None  # type: ignore[arg-type]
        self._queue: deque[_OutgoingLine] = deque()
        self._withdrawn = 0
        self._backlog = Backlog()
        self._rest: memoryview | None = None
        self._framer = LineFramer()
        self._stderr_rest = b""
        self._stderr_cut = False
        self._flush_due = False
        self._blocked = False
        self._writable = True
        self._taken = False  # whether the pipe took what we wrote
        self._closing = False
        self._stdout_open = True
        self._stderr_open = True
        self._loop: asyncio.AbstractEventLoop
        self._receiver: Receiver
        self._process: ServerProcess
        self._stdin_fd = self._stdout_fd = self._stderr_fd = -1
        self._drained: asyncio.Future[None] | None = None
        self._farewell: asyncio.TimerHandle | None = None

    @property
    def may_download(self) -> bool:
        """Whether the command may have to download the server first."""
        return may_download(self._server.command, self._server.args)

    async def open(self, receiver: Receiver) -> None:
        """Start the child."""
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        server = self._server
        if not IS_POSIX:
            raise StartError(NEEDS_POSIX, permanent=True)
        self._process = process = ServerProcess.spawn(
            server.command, server.args, env=server.env, cwd=server.cwd, on_exit=self._note_end
        )
        self._stdin_fd = process.stdin.fileno()
        self._stdout_fd = process.stdout.fileno()
        self._stderr_fd = process.stderr.fileno()
        self._loop.add_reader(self._stdout_fd, self._read)
        self._loop.add_reader(self._stderr_fd, self._read_stderr)

    # ---- out -------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> Ticket:
        """Queue a line.

        The first of a turn of the loop is written at once, the others of that turn together after it.
        """
        line = _OutgoingLine(jsonrpc.encode(message) + b"\n")
        if not self._writable or (("id" not in message or "method" not in message) and not self._count(line, message)):
            return line
        self._queue.append(line)
        if not self._blocked and not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)
            self._write()
        return line

    def _count(self, line: _OutgoingLine, message: Message) -> bool:
        """Count a line that is not a request; False if it must not be queued."""
        size = len(line.data)
        if self._backlog.admits(size):
            self._backlog.add(size)
            line.counted = size
            return True
        if not is_optional(message):
            self._receiver.on_lost(self._backlog.error())
        return False

    def withdraw(self, ticket: Ticket) -> bool:
        """Take a line back."""
        if ticket.sent:
            return False
        assert isinstance(ticket, _OutgoingLine)
        if ticket.data:
            ticket.data = b""  # it stays in the queue for now: searching for it would make many time-outs quadratic
            self._uncount(ticket)
            self._withdrawn += 1
            if self._withdrawn > COMPACT_FROM and self._withdrawn * 2 > len(self._queue):
                self._queue = deque(line for line in self._queue if line.data)
                self._withdrawn = 0
        return True

    def _uncount(self, line: _OutgoingLine) -> None:
        if line.counted:
            self._backlog.remove(line.counted)
            line.counted = 0

    def _flush(self) -> None:
        self._flush_due = False
        if self._queue and not self._blocked and self._writable:
            self._write()

    def _write(self) -> None:
        """Write until there is nothing left or the pipe is full."""
        while self._rest is not None or self._queue:
            batch: list[_OutgoingLine] = [] if self._rest is not None else self._next_batch()
            data = self._rest if self._rest is not None else b"".join([line.data for line in batch])
            try:
                written = os.write(self._stdin_fd, data)
            except BlockingIOError:
                written = 0
            except OSError as exc:
                self._stdin_broke(exc)
                return
            complete = written == len(data)
            if self._rest is not None:
                self._rest = None if complete else self._rest[written:]
            else:
                self._hand_over(batch, written)
            self._taken = True
            if not complete:
                self._block()
                return
        self._unblock()

    def _next_batch(self) -> list[_OutgoingLine]:
        batch, size = [], 0
        for line in self._queue:
            batch.append(line)
            size += len(line.data)
            if size >= CHUNK:
                break
        return batch

    def _hand_over(self, batch: list[_OutgoingLine], written: int) -> None:
        for line in batch:
            if line.data:
                if written <= 0:
                    return
                line.sent = True
                if written < len(line.data):
                    self._rest = memoryview(line.data)[written:]
                written -= len(line.data)
                if line.counted:
                    self._uncount(line)
            elif self._withdrawn:
                self._withdrawn -= 1
            self._queue.popleft()

    def _block(self) -> None:
        if not self._blocked:
            self._blocked = True
            self._loop.add_writer(self._stdin_fd, self._write)

    def _unblock(self) -> None:
        if self._blocked:
            self._blocked = False
            self._loop.remove_writer(self._stdin_fd)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _stdin_broke(self, exc: OSError) -> None:
        # Answers may still be on their way out of the child: the end of stdout decides, or LAST_WORDS.
        log.debug("%s closed its stdin: %s", self._server.server_identifier, exc)
        self._writable = False
        self._taken = False
        self._queue.clear()
        self._rest = None
        self._unblock()
        self._note_end()

    # ---- in --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            data = os.read(self._stdout_fd, CHUNK)
        except BlockingIOError:
            return
        except OSError as exc:
            log.debug("reading from %s failed: %s", self._server.server_identifier, exc)
            data = b""
        if not data:
            self._loop.remove_reader(self._stdout_fd)
            self._stdout_open = False
            self._note_end()
            return
        if self._closing:
            return
        receiver = self._receiver
        for line in self._framer.feed(data):
            if type(line) is bytes:
                try:
                    message = jsonrpc.decode(line, self.secrets, repair=True)
                except ProtocolError as exc:
                    receiver.on_malformed(exc, line[:1024])
                    continue
                receiver.on_message(message)
            elif isinstance(line, Oversized):
                sample = one_line(line.head, mask=self.secrets, cut=True)
                receiver.on_malformed(
                    ProtocolError(f"a line above the limit of {MAX_MESSAGE:,} bytes", sample=sample), line.head
                )

    def _read_stderr(self) -> None:
        try:
            data = os.read(self._stderr_fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._stderr_fd)
            self._stderr_open = False
            return
        self._process.tail.add(data)
        logged = stderr_log.isEnabledFor(logging.DEBUG)
        if self._on_stderr is not None or logged:
            *lines, rest = (self._stderr_rest + data).split(b"\n")
            cut, self._stderr_cut = self._stderr_cut, len(rest) > CHUNK or (self._stderr_cut and not lines)
            self._stderr_rest = rest[-CHUNK:]
            for line in lines:
                text = self.secrets.mask(line.decode("utf-8", "replace").rstrip("\r"), cut_start=cut)
                cut = False
                if self._on_stderr is not None:
                    self._on_stderr(text)
                if logged:
                    stderr_log.debug("%s: %s", self._server.server_identifier, one_line(text))

    # ---- the end ---------------------------------------------------------------------------------------------

    def _note_end(self) -> None:
        """One of stdin, stdout and the process has ended; the others follow at once, or are not waited for."""
        if self._closing:
            return
        if not self._stdout_open and self._process.exit_code is not None:
            self._lose()
        elif self._farewell is None:
            self._farewell = self._loop.call_later(LAST_WORDS, self._lose)

    def _lose(self) -> None:
        if self._farewell is not None:
            self._farewell.cancel()
        if self._closing:
            return
        self._writable = False
        if self._stderr_open:
            self._read_stderr()
        self._receiver.on_lost(self._last_words())

    def _last_words(self) -> StartError:
        code = self._process.exit_code
        if code is None:
            what = "the server closed its end of the pipe and lives on"
        elif code < 0:
            what = f"the server's process was ended by signal {-code}"
        else:
            what = f"the server's process ended with exit code {code}"
        stderr = self.stderr_tail()
        tail = one_line(stderr[-500:], 500)
        text = f"{what}; stderr: {tail}" if tail else what
        return StartError(text, exit_code=code, stderr=stderr, input_consumed=self._input_consumed())

    def stderr_tail(self) -> str:
        """Return the end of what the server wrote to stderr, without secrets and control characters."""
        return self._process.tail.text(self.secrets) if self._stdin_fd >= 0 else ""

    def _input_consumed(self) -> bool:
        """Whether the child had read all that we had to say. Where the system cannot tell, it may have."""
        if not self._taken:
            return False
        unread = array("i", [0])
        try:
            fcntl.ioctl(self._stdin_fd, termios.FIONREAD, unread)
        except (OSError, ValueError):
            return True
        return unread[0] == 0

    async def close(self, *, force: bool) -> None:
        """Flush, then end the child and its group.

        Its stdout is drained meanwhile, or a full pipe would keep it alive.
        """
        if self._stdin_fd < 0 or self._closing:
            return
        try:
            if not force:
                await self._flushed()
            self._stop_traffic()
            await self._process.stop(force=force)
        except asyncio.CancelledError:
            self._stop_traffic()
            self._process.kill()  # no time is left for manners
            raise
        finally:
            self._loop.remove_reader(self._stdout_fd)
            self._loop.remove_reader(self._stderr_fd)
            self._process.release()

    async def _flushed(self) -> None:
        if self._writable and (self._queue or self._rest is not None):
            self._drained = self._loop.create_future()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FLUSH):
                    await self._drained

    def _stop_traffic(self) -> None:
        self._closing = True
        self._writable = False
        self._queue.clear()
        self._rest = None
        if self._farewell is not None:
            self._farewell.cancel()
        self._unblock()
