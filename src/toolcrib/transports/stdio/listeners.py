"""Finds out which process listens on a port of this machine, on systems with /proc."""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterator
from typing import Final

_LISTENING: Final = "0A"
"""The state of a listening socket in /proc/net/tcp."""


class Listener(enum.Enum):
    """Who listens on a port."""

    OWN = "own"
    """The process, or a descendant of it."""
    FOREIGN = "foreign"
    """Another process."""
    UNKNOWN = "unknown"
    """The system does not say."""


def find_listener(port: int, leader: int) -> Listener:
    """Return who listens on a TCP port: a process of the session that `leader` leads, a descendant of it, or another.

    Reads files of all processes, which takes milliseconds: call it in a thread.
    """
    sockets, users = _listening_sockets(port)
    if not sockets:
        return Listener.UNKNOWN
    own: list[int] = []
    others: list[int] = []
    processes = dict(_processes())
    for pid, (parent, session) in processes.items():
        is_own = leader in (pid, session) or _descends(parent, leader, processes)
        (own if is_own else others).append(pid)
    if _any_holds(own, sockets):
        return Listener.OWN
    if _any_holds(others, sockets):
        return Listener.FOREIGN
    # A process of another user cannot be looked at. One of root may serve us: a container's port is held by a daemon.
    return Listener.UNKNOWN if users <= {0, os.getuid()} else Listener.FOREIGN


def _listening_sockets(port: int) -> tuple[set[str], set[int]]:
    """Return the sockets that listen on a port, as links in /proc, and the numbers of their users."""
    sockets, users = set(), set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            next(file, None)
            for line in file:
                _, local, _, state, _, _, _, user, _, inode, *_ = line.split()
                if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{inode}]")
                    users.add(int(user))
    return sockets, users


def _processes() -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield all processes, each with its parent and its session."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                # The program's name is in parentheses and may contain any character.
                _, parent, _, session, *_ = file.read().rpartition(")")[2].split()
                yield int(name), (int(parent), int(session))


def _descends(parent: int, ancestor: int, processes: dict[int, tuple[int, int]]) -> bool:
    seen = set()
    while parent not in seen:
        if parent == ancestor:
            return True
        seen.add(parent)
        parent = processes.get(parent, (0, 0))[0]
    return False


def _any_holds(pids: list[int], sockets: set[str]) -> bool:
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                with contextlib.suppress(OSError):
                    if os.readlink(f"{folder}/{name}") in sockets:
                        return True
    return False
