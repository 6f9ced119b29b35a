"""The guard: a small shell process that outlives us by a moment, to end our servers if we are killed.

It holds the reading end of a pipe and a list of process groups. The kernel closes our end however we die, `kill -9`
included; then the guard ends every group on its list. It is started before the first server, once for a process, and is
nobody's child.

A server's group is known only when it has started. So the guard is told before of the pipe that will be the server's
stdin: if we die in between, it finds the server by that pipe, where the system has /proc. The kernel closes our end of
the guard's pipe only when a child that was being started has become the server, so it is not too early to look for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import threading
from typing import Final

log = logging.getLogger("toolcrib.transports")

# `exec 3<&0 ... <&3`: a shell gives its background jobs /dev/null for stdin unless told otherwise.
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
    """Our end of the pipe."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._groups: set[int] = set()
        self._expected: set[int] = set()
        self._lock = threading.Lock()

    def expect(self, pipe: int) -> None:
        """A server is about to be started whose stdin is the pipe with this inode; `watch` or `forget_pipe` follows."""
        with self._lock:
            self._expected.add(pipe)
            self._tell_or_warn(f"? {pipe}\n")

    def forget_pipe(self, pipe: int) -> None:
        """The server was started and is watched by its group, or could not be started."""
        with self._lock:
            self._expected.discard(pipe)
            self._tell_if_there(f"! {pipe}\n")

    def watch(self, group: int) -> None:
        """End this process group if we die."""
        with self._lock:
            self._groups.add(group)
            self._tell_or_warn(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """The group is gone."""
        with self._lock:
            self._groups.discard(group)
            self._tell_if_there(f"- {group}\n")

    def forsake(self) -> None:
        """In a forked child: the servers are the parent's, and so is the guard."""
        self._lock = threading.Lock()
        self._groups.clear()
        self._expected.clear()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _tell_or_warn(self, line: str) -> None:
        try:
            self._tell(line)
        except (OSError, subprocess.SubprocessError) as exc:
            log.warning("no guard: if this process is killed, its servers live on (%s)", exc)

    def _tell_if_there(self, line: str) -> None:
        if self._pipe is not None:
            with contextlib.suppress(BrokenPipeError):  # no guard, nothing to forget
                os.write(self._pipe, line.encode())

    def _tell(self, line: str) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
                return
            except BrokenPipeError:  # somebody ended the guard
                os.close(self._pipe)
                self._pipe = None
        if self._groups or self._expected:
            self._pipe = self._start()
            lines = [*(f"+ {group}\n" for group in self._groups), *(f"? {pipe}\n" for pipe in self._expected)]
            os.write(self._pipe, "".join(lines).encode())

    def _start(self) -> int:
        theirs, ours = os.pipe()
        try:
            subprocess.run(
                ["/bin/sh", "-c", _SCRIPT],
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PATH": "/usr/bin:/bin"},
                start_new_session=True,
                check=True,
            )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return ours


guard: Final = Watchdog()
