"""Run `toolcrib` inside the test process: a separate interpreter costs about half a second per command.

While the command runs, it has the environment of a separate process: standard streams (also as file descriptors 0, 1
and 2), working directory, environment, arguments, import path and logging. All of that is restored afterwards, and what
the command loaded or cached is dropped, so that the next command starts as cleanly as a new process.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from toolcrib.__main__ import main
from toolcrib.cli import console
from toolcrib.transports import python_file

ROOT = Path(__file__).parents[2]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)
INSTALLED = (sys.prefix, sys.base_prefix, str(ROOT / "src"))
"""Folders whose modules stay loaded: those of Python, of installed packages, and ours."""


def run_here(arguments: Sequence[str], cwd: Path, env: Mapping[str, str], streams: tuple[int, int, int]) -> int:
    """Run a command line in this process and return its exit code.

    `streams` are the file descriptors for its standard input, output and error. Only the main thread can do this, and
    only outside an event loop: a command has its own event loop and signal handlers.
    """
    if _has_running_loop():
        raise RuntimeError("a coroutine cannot run a command in its own process; use run_process")
    with ExitStack() as stack:
        for manager in (
            _signal_handlers(),
            _descriptors(streams),
            _logging(),
            _interpreter(["toolcrib", *arguments], cwd),
            _place(cwd, env),
            _standard_streams(),
        ):
            stack.enter_context(manager)
        return contextvars.copy_context().run(_exit_code, main)


def _exit_code(program: Callable[[], None]) -> int:
    try:
        program()
    except SystemExit as exc:
        return int(exc.code) if isinstance(exc.code, int) else 1
    return 0


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@contextmanager
def _descriptors(given: Sequence[int]) -> Iterator[None]:
    """Make the given file descriptors 0, 1 and 2."""
    kept = [os.dup(number) for number in range(3)]
    try:
        for number, descriptor in enumerate(given):
            os.dup2(descriptor, number)
        yield
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextmanager
def _standard_streams() -> Iterator[None]:
    """Open the descriptors 0, 1 and 2 as Python does when it starts."""
    kept = sys.stdin, sys.stdout, sys.stderr
    opened: dict[str, Any] = {"encoding": "utf-8", "closefd": False}
    with (
        open(0, **opened) as sys.stdin,
        open(1, "w", **opened) as sys.stdout,
        open(2, "w", errors="backslashreplace", **opened) as sys.stderr,
    ):
        sys.stderr.reconfigure(line_buffering=True)
        try:
            yield
        finally:
            console.out.cache_clear()
            console.err.cache_clear()
            sys.stdout.flush()
            sys.stdin, sys.stdout, sys.stderr = kept


@contextmanager
def _place(cwd: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Be in this folder, with exactly this environment."""
    folder, variables = os.getcwd(), dict(os.environ)
    try:
        os.chdir(cwd)
        _set_environment(env)
        yield
    finally:
        os.chdir(folder)
        _set_environment(variables)


def _set_environment(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)


@contextmanager
def _interpreter(argv: list[str], cwd: Path) -> Iterator[None]:
    """Have the arguments and the import path of `python -m`; forget the user's files that were loaded meanwhile."""
    kept, modules = (sys.argv, [*sys.path]), {*sys.modules}
    sys.argv, sys.path[:] = argv, [str(cwd), *(folder for folder in sys.path if folder != str(ROOT))]
    try:
        yield
    finally:
        sys.argv, sys.path[:] = kept
        for name in [name for name in sys.modules if name not in modules]:
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and not file.startswith(INSTALLED):
                del sys.modules[name]
        python_file._loaded.clear()


@contextmanager
def _logging() -> Iterator[None]:
    """Start without any handler; those of the test runner are put back."""
    root, last_resort = logging.getLogger(), logging.lastResort
    handlers, level = root.handlers, root.level
    root.handlers = []
    root.setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.handlers, logging.lastResort = handlers, last_resort
        root.setLevel(level)


@contextmanager
def _signal_handlers() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
