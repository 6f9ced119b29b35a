"""The progress bar of a call, and the log messages of its server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

from ..config import SecretMask
from ..types import LogMessage
from .console import as_json, cell, err, narrowed, note, plain

if TYPE_CHECKING:
    from rich.progress import Progress

_COLOURS: Final = {"warning": "yellow", "error": "red", "critical": "bold red", "alert": "bold red"}


class Meter:
    """The progress bar of one call, on a terminal only; it disappears when the call ends."""

    def __init__(self, what: str, secrets: SecretMask) -> None:
        self._what = cell(what)
        self._secrets = secrets
        """Secrets of the servers' configs, which are masked."""
        self._state: dict[str, Any] = {"description": self._what, "total": None}
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = _new_bar()
            self._bar.start()
            self._bar.add_task(**self._state)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Update the bar."""
        said = f"{self._what}: {cell(self._secrets.mask(message))}" if message else self._what
        self._state = {"description": said, "total": total, "completed": progress}
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], **self._state)

    def on_log(self, message: LogMessage) -> None:
        """Print a log message of the server above the bar."""
        level, name, data = (self._secrets.mask_data(part) for part in (message.level, message.logger, message.data))
        said = data if isinstance(data, str) else as_json(data)
        logger = f" {cell(name)}" if name else ""
        # Lines after the first are marked, so that they cannot imitate output of toolcrib.
        lines = plain(said).replace("\n", "\n  | ")
        note(f"[{cell(level)}{logger}] {lines}", _COLOURS.get(message.level, "dim"))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide the bar during a prompt. A new bar follows, as the old one would erase the answers."""
        was_there = self._bar is not None
        self.__exit__()
        try:
            yield
        finally:
            if was_there:
                self.__enter__()


def _new_bar() -> Progress:
    from rich.progress import (  # noqa: PLC0415  # slow; only for a terminal
        BarColumn,
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    text = TextColumn("{task.description}", markup=False)
    bar = SpinnerColumn(), text, BarColumn(), TaskProgressColumn(), TimeElapsedColumn()

    class _Narrow(Progress):
        def get_renderables(self) -> Iterator[Any]:
            yield from map(narrowed, super().get_renderables())

    return _Narrow(*bar, console=err(), transient=True)
