"""The watchdog: a small shell process that ends the servers if this process is killed.

The shell holds the reading end of a pipe and a list of process groups. The kernel closes the writing end when this
process dies, even by `kill -9`; then the shell ends every group on its list. It is started once per process, before the
first server, and runs detached, not as a child of this process.

The group of a server is known only after its start. So the watchdog learns beforehand of the pipe that will be the
server's stdin: if this process dies in between, the shell finds the server by that pipe, on systems with /proc. A child
that is being started holds a copy of the watchdog's pipe until it executes the server's program, so the shell does not
look for the server too early.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import threading
from typing import Final

log = logging.getLogger("toolcrib.transports")

# `exec 3<&0 ... <&3`: otherwise the stdin of the shell's background jobs would be /dev/null.
_SCRIPT: Final = """
exec 3<&0
trap '' INT TERM HUP QUIT
(
  groups= pipes=
  without() { rest=; for each in $1; do [ "$each" = "$2" ] || rest="$rest $each"; done; }
  while read -r verb what; do
    case $verb in
      +) groups="$groups $what" ;;
      -) without "$groups" "$what"; groups=$rest ;;
      '?') pipes="$pipes $what" ;;
      !) without "$pipes" "$what"; pipes=$rest ;;
    esac
  done
  for pipe in $pipes; do
    for stdin in /proc/[0-9]*/fd/0; do
      [ "$(readlink "$stdin")" = "pipe:[$pipe]" ] || continue
      process=${stdin%/fd/0}
      groups="$groups ${process#/proc/}"
    done
  done
  [ -n "$groups" ] || exit 0
  for g in $groups; do kill -s TERM -- "-$g"; done
  sleep 1
  for g in $groups; do kill -s KILL -- "-$g"; done
) <&3 3<&- &
"""


class Watchdog:
    """The writing end of the watchdog's pipe."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._groups: set[int] = set()
        self._expected: set[int] = set()
        self._lock = threading.Lock()

    def expect(self, pipe: int) -> None:
        """Watch a server that is about to start, by the inode of the pipe that is its stdin; see `forget_pipe`."""
        with self._lock:
            self._expected.add(pipe)
            self._write_or_warn(f"? {pipe}\n")

    def forget_pipe(self, pipe: int) -> None:
        """Stop watching the pipe: the server is now watched by its group, or could not be started."""
        with self._lock:
            self._expected.discard(pipe)
            self._write_if_running(f"! {pipe}\n")

    def watch(self, group: int) -> None:
        """End this process group if this process dies."""
        with self._lock:
            self._groups.add(group)
            self._write_or_warn(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Stop watching a process group, because it has ended."""
        with self._lock:
            self._groups.discard(group)
            self._write_if_running(f"- {group}\n")

    def detach(self) -> None:
        """Forget everything in a forked child: the servers and the watchdog belong to the parent."""
        self._lock = threading.Lock()
        self._groups.clear()
        self._expected.clear()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _write_or_warn(self, line: str) -> None:
        try:
            self._write(line)
        except (OSError, subprocess.SubprocessError) as exc:
            log.warning("watchdog could not be started; servers will be orphaned if this process is killed: %s", exc)

    def _write_if_running(self, line: str) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # the watchdog has ended
                os.write(self._pipe, line.encode())

    def _write(self, line: str) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
                return
            except BrokenPipeError:  # the watchdog was killed: start another one
                os.close(self._pipe)
                self._pipe = None
        if self._groups or self._expected:
            self._pipe = self._start()
            lines = [*(f"+ {group}\n" for group in self._groups), *(f"? {pipe}\n" for pipe in self._expected)]
            os.write(self._pipe, "".join(lines).encode())

    def _start(self) -> int:
        read_end, write_end = os.pipe()
        try:
            subprocess.run(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=read_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
                check=True,
            )
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        return write_end


guard: Final = Watchdog()
