"""Starts Python programs without waiting for their imports: a process with the modules loaded forks for each launcher.

    python -m tests.peers.forkserver SOCKET MODULE[:ATTRIBUTE]...

Importing an SDK takes longer than the rest of most programs here. Each program is still a separate process, with
the arguments, the environment, the folder and the standard streams of its launcher (launcher.py), which waits for it.
The programs run one after the other. The server prints a line when it is ready, and ends with its standard input.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from dataclasses import dataclass

MAX_REQUEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Request:
    """The program that a launcher requests: `SCRIPT ...` or `-m MODULE ...`."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str
    streams: list[int]

    def close(self) -> None:
        for stream in self.streams:
            os.close(stream)


def serve(path: str) -> Request | None:
    """Serve launchers. Return a request in the process forked for it, None in the server at its end."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(128)
        print("ready", flush=True)
        while True:
            readable, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in readable:
                return None
            launcher, _ = listening.accept()
            with launcher:
                request = receive(launcher)
                if request is None:
                    continue
                alive, held = os.pipe()  # the forked process holds the other end open until it ends
                process = os.fork()
                if process == 0:
                    return request
                os.close(held)
                request.close()
                code = wait(process, alive, launcher)
                with contextlib.suppress(OSError):
                    launcher.sendall(b"%d" % code)


def receive(launcher: socket.socket) -> Request | None:
    """Return the launcher's request, or None if the launcher ended before it sent one."""
    data, streams, _, _ = socket.recv_fds(launcher, MAX_REQUEST_BYTES, 3)
    while not data.endswith(b"\n"):
        more = launcher.recv(MAX_REQUEST_BYTES)
        if not more:
            return None
        data += more
    return Request(*json.loads(data), streams)


def wait(process: int, alive: int, launcher: socket.socket) -> int:
    """Return the exit code of the process, which is killed if its launcher ends first."""
    readable, _, _ = select.select([alive, launcher], [], [])
    os.close(alive)
    if alive not in readable:
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status)


def run(request: Request) -> None:
    """Become the program."""
    for standard, stream in enumerate(request.streams):
        os.dup2(stream, standard)
    request.close()
    os.chdir(request.folder)
    os.environ.clear()
    os.environ.update(request.environment)
    first, *rest = request.arguments
    if first == "-m":
        sys.argv, sys.path[0] = rest, request.folder
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = request.arguments, os.path.dirname(first)
        runpy.run_path(first, run_name="__main__")


def preload(name: str) -> None:
    """Import a module; with an attribute, also what is imported lazily with that attribute."""
    module, _, attribute = name.partition(":")
    imported = importlib.import_module(module)
    if attribute:
        getattr(imported, attribute)


def main(path: str, *names: str) -> None:
    for name in names:
        preload(name)
    gc.freeze()  # the forked processes share what was imported until they end, instead of collecting copies of it
    request = serve(path)
    if request is not None:
        run(request)


if __name__ == "__main__":
    main(*sys.argv[1:])
