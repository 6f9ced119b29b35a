"""The process of a server: its environment, its group, the end of its stderr, and its termination. POSIX only."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

from ...config import SecretMask
from ...errors import StartError
from ...protocol.sanitize import one_line, printable
from .watchdog import guard

INHERITED: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""The variables that a server inherits from this process; the others come from its config."""

NEEDS_POSIX: Final = "stdio servers need a POSIX system in this version"

STDERR_KEPT: Final = 64 * 1024
CHUNK: Final = 64 * 1024

SHUTDOWN_GRACE_SECONDS: Final = 2.0
"""Seconds for a server to end after its stdin was closed, and again after SIGTERM."""
FORCED_GRACE_SECONDS: Final = 0.4
"""Like `SHUTDOWN_GRACE_SECONDS`, if the server is stopped with `force`."""
GROUP_GRACE_SECONDS: Final = 0.5
"""Seconds for the remaining processes of a server's group to end after SIGTERM."""


def environment(given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment of a server. Variables that define shell functions are not inherited: they are code."""
    env = {key: os.environ[key] for key in INHERITED if not os.environ.get(key, "()").startswith("()")}
    env.update(given or {})
    return env


class Tail:
    """The last bytes of a stream."""

    __slots__ = ("_chunks", "_cut", "_size")

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._cut = False
        self._size = 0

    def add(self, chunk: bytes) -> None:
        """Add bytes, and discard the oldest."""
        self._chunks.append(chunk)
        self._size += len(chunk)
        while self._size - len(self._chunks[0]) >= STDERR_KEPT:
            self._size -= len(self._chunks.popleft())
            self._cut = True

    def text(self, secrets: SecretMask | None = None) -> str:
        """Return the last bytes as text without secrets and control characters."""
        text = b"".join(self._chunks).decode("utf-8", "replace")
        if secrets is not None:
            if self._cut:
                text = text.lstrip("\N{REPLACEMENT CHARACTER}")  # the first character may have been cut too
            text = secrets.mask(text, cut_start=self._cut)
        return printable(text[-STDERR_KEPT:], STDERR_KEPT)


class ServerProcess:
    """A child process in its own session and process group. Created on the event loop that watches it."""

    def __init__(self, popen: subprocess.Popen[bytes], stdin: IO[bytes], on_exit: Callable[[], None]) -> None:
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.pid = popen.pid
        self.stdin, self.stdout, self.stderr = stdin, popen.stdout, popen.stderr
        self.tail = Tail()
        self.exit_code: int | None = None
        self._popen = popen
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._pidfd: int | None = None

    @classmethod
    def spawn(
        cls,
        command: str,
        args: Sequence[str],
        *,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        on_exit: Callable[[], None],
    ) -> ServerProcess:
        """Start the process; raises `StartError`."""
        if os.name != "posix":
            raise StartError(NEEDS_POSIX, permanent=True)
        if _ending.is_set():
            raise StartError("the interpreter is shutting down; no server can be started", permanent=True)
        try:
            read_end, write_end = os.pipe()
        except OSError as exc:
            raise _start_error(command, cwd, exc) from exc
        stdin, pipe = os.fdopen(write_end, "wb", 0), os.fstat(read_end).st_ino
        # If this process is killed from here on, the watchdog finds the server by its stdin.
        guard.expect(pipe)
        try:
            process = cls._start(command, args, read_end, stdin, env=env, cwd=cwd, on_exit=on_exit)
        except BaseException:
            stdin.close()
            raise
        finally:
            os.close(read_end)
            guard.forget_pipe(pipe)
        return process

    @classmethod
    def _start(
        cls,
        command: str,
        args: Sequence[str],
        read_end: int,
        stdin: IO[bytes],
        *,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        on_exit: Callable[[], None],
    ) -> ServerProcess:
        try:
            popen = subprocess.Popen(
                [command, *args],
                stdin=read_end,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=environment(env),
                cwd=cwd,
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            raise _start_error(command, cwd, exc) from exc
        for pipe in (stdin, popen.stdout, popen.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        process = cls(popen, stdin, on_exit)
        try:
            _living.add(process)
            guard.watch(process.pid)
            process._watch_exit()
        except BaseException:  # such as KeyboardInterrupt
            process.kill()
            process.release()
            raise
        return process

    # ---- the process ends by itself --------------------------------------------------------------------------

    def _watch_exit(self) -> None:
        if sys.platform == "linux" and hasattr(os, "pidfd_open"):  # missing in some builds of Python
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)
                self._loop.add_reader(self._pidfd, self._note_exit)
                return
        threading.Thread(target=self._wait_in_thread, name=f"toolcrib-wait-{self.pid}", daemon=True).start()

    def _wait_in_thread(self) -> None:
        with contextlib.suppress(ChildProcessError):  # it was already reaped elsewhere
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            self._loop.call_soon_threadsafe(self._note_exit)

    def _note_exit(self) -> None:
        if self._exited.is_set() or not self._reap():
            return
        self._unwatch()
        self._exited.set()
        self._on_exit()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _reap(self) -> bool:
        self.exit_code = self._popen.poll()
        return self.exit_code is not None

    # ---- the client ends the process -------------------------------------------------------------------------

    async def stop(self, *, force: bool = False, ends_with_stdin: bool = True) -> None:
        """Close its stdin and wait; send SIGTERM to the group and wait; send SIGKILL. Ends the whole group.

        With `ends_with_stdin=False` SIGTERM is sent at once, because the server does not read its stdin. The other
        pipes stay open until `release`, so that they can be drained meanwhile.
        """
        grace = FORCED_GRACE_SECONDS if force else SHUTDOWN_GRACE_SECONDS
        self.stdin.close()
        if not ends_with_stdin or not await self.exits_within(grace):
            self.send_signal(signal.SIGTERM)
            if not await self.exits_within(grace):
                self.send_signal(signal.SIGKILL)
                await self.exits_within(SHUTDOWN_GRACE_SECONDS)
        await self._sweep()

    async def exits_within(self, seconds: float) -> bool:
        """Wait for the end of the process, at most this long, and return whether it has ended."""
        try:
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        except TimeoutError:
            return False
        return True

    async def _sweep(self) -> None:
        # The system does not reuse the number of a group while a member lives, so signals reach only this group.
        if not self.send_signal(signal.SIGTERM):
            return
        end = self._loop.time() + GROUP_GRACE_SECONDS
        while self._loop.time() < end:
            await asyncio.sleep(0.01)
            if not self.send_signal(0):
                return
        self.send_signal(signal.SIGKILL)

    def send_signal(self, number: int) -> bool:
        """Send a signal to the whole group; returns False if the group is empty."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # macOS raises this for a group of zombies
            return False
        return True

    def release(self) -> None:
        """Close the pipes and stop watching the process."""
        self._unwatch()
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()
        if self.exit_code is not None:
            guard.forget(self.pid)
            _living.discard(self)

    # ---- without an event loop -------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the group and wait for the process, at most one second. Blocks."""
        self.send_signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.exit_code = self._popen.wait(timeout=1.0)

    def end_until(self, moment: float) -> None:
        """Wait for the process until `moment`, then kill its group. Used at exit, without an event loop."""
        while not self._reap() and time.monotonic() < moment:
            time.sleep(0.005)
        self.kill()
        guard.forget(self.pid)

    def detach(self) -> None:
        """Close the pipes in a forked child, without ending the server, which belongs to the parent."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            pipe.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
        self._popen.returncode = 0  # not a child of this process: it cannot be waited for


def exit_error(process: ServerProcess, secrets: SecretMask, *, alive: str, input_consumed: bool = False) -> StartError:
    """Return the error for a process that has ended, or that is of no use although it runs: `alive` says why."""
    code = process.exit_code
    if code is None:
        what = alive
    elif code < 0:
        what = f"the server's process was killed by signal {-code}"
    else:
        what = f"the server's process exited with code {code}"
    stderr = process.tail.text(secrets)
    tail = one_line(stderr[-500:], 500)
    text = f"{what}; stderr: {tail}" if tail else what
    return StartError(text, exit_code=code, stderr=stderr, input_consumed=input_consumed)


_PASSING: Final = frozenset({errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ETXTBSY})
"""Errors of a start that may succeed a moment later."""


def _start_error(command: str, cwd: str | os.PathLike[str] | None, exc: Exception) -> StartError:
    if cwd is not None and not os.path.isdir(cwd):
        text = f"the working directory {os.fspath(cwd)!r} does not exist; check `cwd`"
    elif isinstance(exc, FileNotFoundError):
        words = command.split()
        if len(words) > 1 and os.sep not in words[0]:  # a whole command line, not a path with spaces
            hint = f"use {words[0]!r} as command, and put the rest into args"
        else:
            hint = "install it, or give its full path (PATH is inherited unless `env` sets it)"
        text = f"command not found: {command!r}; {hint}"
    elif isinstance(exc, PermissionError):
        text = f"permission denied to execute {command!r}; check the file's permissions"
    else:
        text = f"{command!r} could not be started: {exc}"
    return StartError(text, permanent=not (isinstance(exc, OSError) and exc.errno in _PASSING))


_living: Final[set[ServerProcess]] = set()
_ending: Final = threading.Event()


@atexit.register
def _end_all() -> None:
    """End the servers that are still running when the interpreter exits."""
    _ending.set()
    until = time.monotonic() + 1.0
    for process in list(_living):
        process.send_signal(signal.SIGTERM)
    for process in list(_living):
        process.end_until(until)
    _living.clear()


def _after_fork() -> None:
    guard.detach()
    for process in list(_living):
        process.detach()
    _living.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
