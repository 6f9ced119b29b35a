"""Reads the log output of a server's process: its stderr, and its stdout if that does not carry messages."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import IO

from ...config import SecretMask
from ...events import Delivery
from ...protocol.sanitize import one_line
from .process import CHUNK, Tail

stderr_log = logging.getLogger("toolcrib.stderr")


class OutputReader:
    """Reads a pipe until its end, adds everything to `tail`, and passes the lines on without secrets.

    Created on the event loop that reads the pipe.
    """

    def __init__(
        self, pipe: IO[bytes], tail: Tail, *, name: str, secrets: SecretMask, on_line: Delivery | None
    ) -> None:
        self.at_end = False
        self._fd = pipe.fileno()
        self._tail = tail
        self._name = name
        self._secrets = secrets
        self._on_line = on_line
        self._rest = b""
        self._is_cut = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._fd, self.read)

    def read(self) -> None:
        """Read what is there, without waiting."""
        try:
            data = os.read(self._fd, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.stop()
            self.at_end = True
            return
        self._tail.add(data)
        logged = stderr_log.isEnabledFor(logging.DEBUG)
        if self._on_line is not None or logged:
            *lines, rest = (self._rest + data).split(b"\n")
            cut, self._is_cut = self._is_cut, len(rest) > CHUNK or (self._is_cut and not lines)
            self._rest = rest[-CHUNK:]
            for line in lines:
                text = self._secrets.mask(line.decode("utf-8", "replace").rstrip("\r"), cut_start=cut)
                cut = False
                if self._on_line is not None:
                    self._on_line(text)
                if logged:
                    stderr_log.debug("%s: %s", self._name, one_line(text))

    def read_rest(self) -> None:
        """Read what is there, unless the end was reached."""
        if not self.at_end:
            self.read()

    def stop(self) -> None:
        """Stop reading."""
        self._loop.remove_reader(self._fd)
