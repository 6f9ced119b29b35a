"""The link to a child process: one JSON message per line over its stdin and stdout."""

from __future__ import annotations

import asyncio
import logging
import os
from array import array
from collections.abc import Callable
from functools import partial

from ..._util.pipe_writer import PipeWriter, QueuedLine
from ...config import SecretMask, StdioServer, may_download, secrets_of_process
from ...errors import ProtocolError, StartError
from ...events import Delivery
from ...protocol import jsonrpc
from ...protocol.framing import LineFramer, Oversized
from ...protocol.jsonrpc import Message
from ...protocol.limits import MAX_MESSAGE
from ...protocol.sanitize import one_line
from ..backlog import Backlog
from ..jsonrpc_stream import Receiver, Ticket
from .output import OutputReader
from .process import CHUNK, NEEDS_POSIX, ServerProcess, exit_error

try:
    import fcntl
    import termios
except ModuleNotFoundError:  # the client can be imported, but cannot start processes
    IS_POSIX = False
else:
    IS_POSIX = True

log = logging.getLogger("toolcrib.transports.stdio")

FLUSH_SECONDS = 0.5
"""Seconds for writing queued messages when the link is closed."""
EXIT_DELAY_SECONDS = 0.08
"""Seconds to wait for the exit code after stdout has ended, or for the end of stdout after the process has."""


class StdioLink:
    """A `Link` to a child process, which is started by `open`."""

    def __init__(self, server: StdioServer, *, on_stderr: Callable[[str], object] | None = None) -> None:
        self._server = server
        self.secrets = secrets_of_process(server.env, server.args)
        """Masks the secrets that the server's process was given."""
        self._on_stderr = Delivery(on_stderr, "stderr handler") if on_stderr is not None else None  # type: ignore[arg-type]
        self._child: _StdioChild | None = None

    @property
    def may_download(self) -> bool:
        """Whether the command may have to download the server first."""
        return may_download(self._server.command, self._server.args)

    async def open(self, receiver: Receiver) -> None:
        """Start the child process."""
        if not IS_POSIX:
            raise StartError(NEEDS_POSIX, permanent=True)
        self._child = _StdioChild(self._server, self.secrets, self._on_stderr, receiver)

    def send(self, message: Message) -> Ticket:
        """Queue a message for the child's stdin."""
        if self._child is None:
            raise RuntimeError("the link is not open")
        return self._child.send(message)

    def withdraw(self, ticket: Ticket) -> bool:
        """Withdraw a message; returns False if a part of it was written."""
        assert self._child is not None
        assert isinstance(ticket, QueuedLine)
        return self._child.writer.withdraw(ticket)

    def stderr_tail(self) -> str:
        """Return the end of the server's stderr, without secrets and control characters."""
        return self._child.stderr_tail() if self._child is not None else ""

    async def close(self, *, force: bool) -> None:
        """End the child and its process group."""
        if self._child is not None:
            await self._child.close(force=force)


class _StdioChild:
    """A running server process and its pipes.

    Bytes go directly between the pipes and callbacks of the event loop, without tasks and stream objects.
    """

    def __init__(
        self, server: StdioServer, secrets: SecretMask, on_stderr: Delivery | None, receiver: Receiver
    ) -> None:
        self._name = server.server_identifier
        self._secrets = secrets
        self._receiver = receiver
        self._loop = asyncio.get_running_loop()
        self._backlog = Backlog(receiver.on_lost)
        self._framer = LineFramer()
        self._closing = False
        self._stdout_open = True
        self._exit_timer: asyncio.TimerHandle | None = None
        self.process = process = ServerProcess.spawn(
            server.command, server.args, env=server.env, cwd=server.cwd, on_exit=self._note_end
        )
        self._stdin_fd = process.stdin.fileno()
        self._stdout_fd = process.stdout.fileno()
        self.writer = PipeWriter(self._stdin_fd, self._stdin_broke)
        self._loop.add_reader(self._stdout_fd, self._read)
        self._stderr = OutputReader(process.stderr, process.tail, name=self._name, secrets=secrets, on_line=on_stderr)

    # ---- out -------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> QueuedLine:
        """Queue a line."""
        line = QueuedLine(jsonrpc.encode(message) + b"\n")
        if not ("id" in message and "method" in message):
            size = len(line.data)
            if not self._backlog.add(message, size):
                return QueuedLine(b"")
            line.on_left = partial(self._backlog.remove, size)
        self.writer.write(line)
        return line

    def _stdin_broke(self, exc: OSError) -> None:
        # Answers of the child may still arrive: wait for the end of stdout, or for EXIT_DELAY_SECONDS.
        log.debug("%s closed its stdin: %s", self._name, exc)
        self._note_end()

    # ---- in --------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        try:
            data = os.read(self._stdout_fd, CHUNK)
        except BlockingIOError:
            return
        except OSError as exc:
            log.debug("reading from %s failed: %s", self._name, exc)
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
                    message = jsonrpc.decode(line, self._secrets, repair=True)
                except ProtocolError as exc:
                    receiver.on_malformed(exc, line[:1024])
                    continue
                receiver.on_message(message)
            elif isinstance(line, Oversized):
                sample = one_line(line.head, mask=self._secrets, cut=True)
                receiver.on_malformed(
                    ProtocolError(f"a line above the limit of {MAX_MESSAGE:,} bytes", sample=sample), line.head
                )

    # ---- the end ---------------------------------------------------------------------------------------------

    def _note_end(self) -> None:
        """Handle the end of stdin, stdout or the process: give the others a moment to end too."""
        if self._closing:
            return
        if not self._stdout_open and self.process.exit_code is not None:
            self._lose()
        elif self._exit_timer is None:
            self._exit_timer = self._loop.call_later(EXIT_DELAY_SECONDS, self._lose)

    def _lose(self) -> None:
        if self._exit_timer is not None:
            self._exit_timer.cancel()
        if self._closing:
            return
        self._stderr.read_rest()
        error = self._exit_error()
        self.writer.close()
        self._receiver.on_lost(error)

    def _exit_error(self) -> StartError:
        silent = "the server closed its stdin or stdout but is still running"
        return exit_error(self.process, self._secrets, alive=silent, input_consumed=self._input_consumed())

    def stderr_tail(self) -> str:
        """Return the end of the child's stderr, without secrets and control characters."""
        return self.process.tail.text(self._secrets)

    def _input_consumed(self) -> bool:
        """Return whether the child has read everything that was written; True if the system does not report it."""
        if self.writer.closed or not self.writer.written:
            return False
        unread = array("i", [0])
        try:
            fcntl.ioctl(self._stdin_fd, termios.FIONREAD, unread)
        except (OSError, ValueError):
            return True
        return unread[0] == 0

    async def close(self, *, force: bool) -> None:
        """Flush, then end the child and its group.

        Meanwhile its stdout is drained: a full pipe would keep it alive.
        """
        if self._closing:
            return
        try:
            if not force:
                await self.writer.flush(FLUSH_SECONDS)
            self._stop_traffic()
            await self.process.stop(force=force)
        except asyncio.CancelledError:
            self._stop_traffic()
            self.process.kill()  # no time to wait
            raise
        finally:
            self._loop.remove_reader(self._stdout_fd)
            self._stderr.stop()
            self.process.release()

    def _stop_traffic(self) -> None:
        self._closing = True
        self.writer.close()
        if self._exit_timer is not None:
            self._exit_timer.cancel()
