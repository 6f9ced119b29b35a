"""The guard: a small shell process that outlives us by a moment, to end our servers if we are killed.

It holds the reading end of a pipe and a list of process groups. The kernel closes our end however we die, `kill -9`
included; then the guard ends every group on its list. It is started with the first server, once for a process, and is
nobody's child.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import threading
from typing import Final

log = logging.getLogger("toolyard.transports")

# `exec 3<&0 ... <&3`: a shell gives its background jobs /dev/null for stdin unless told otherwise.
_SCRIPT: Final = """
exec 3<&0
trap '' INT TERM HUP QUIT
(
  groups=
  while read -r verb group; do
    case $verb in
      +) groups="$groups $group" ;;
      -) rest=; for g in $groups; do [ "$g" = "$group" ] || rest="$rest $g"; done; groups=$rest ;;
    esac
  done
  [ -n "$groups" ] || exit 0
  for g in $groups; do kill -s TERM -- "-$g"; done
  sleep 1
  for g in $groups; do kill -s KILL -- "-$g"; done
) <&3 3<&- &
"""


class Guard:
    """Our end of the pipe."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._groups: set[int] = set()
        self._lock = threading.Lock()

    def watch(self, group: int) -> None:
        """End this process group if we die."""
        with self._lock:
            self._groups.add(group)
            try:
                self._tell(f"+ {group}\n")
            except (OSError, subprocess.SubprocessError) as exc:
                log.warning("no guard: if this process is killed, its servers live on (%s)", exc)

    def forget(self, group: int) -> None:
        """The group is gone."""
        with self._lock:
            self._groups.discard(group)
            if self._pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # no guard, nothing to forget
                    os.write(self._pipe, f"- {group}\n".encode())

    def forsake(self) -> None:
        """In a forked child: the servers are the parent's, and so is the guard."""
        self._lock = threading.Lock()
        self._groups.clear()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    def _tell(self, line: str) -> None:
        if self._pipe is not None:
            try:
                os.write(self._pipe, line.encode())
                return
            except BrokenPipeError:  # somebody ended the guard
                os.close(self._pipe)
                self._pipe = None
        if self._groups:
            self._pipe = self._start()
            os.write(self._pipe, "".join(f"+ {group}\n" for group in self._groups).encode())

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


guard: Final = Guard()
