"""The server under test as a process: started on its own port, ended by its id."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

SERVER = Path(__file__).with_name("server.py")
STARTING = 60.0  # seconds; on a busy machine the imports alone take some
ENDING = 15.0


class Served:
    """A running server, and what it has written so far."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, words: Path) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._words = words

    def words(self) -> str:
        return self._words.read_text(errors="replace")


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _wait_until_it_listens(served: Served) -> None:
    end = time.monotonic() + STARTING
    while True:
        assert served.process.poll() is None, f"it did not start: {served.words()}"
        try:
            socket.create_connection(("127.0.0.1", served.port), timeout=1).close()
        except OSError:
            assert time.monotonic() < end, f"it does not listen: {served.words()}"
            time.sleep(0.05)
        else:
            return


@contextlib.contextmanager
def serving() -> Iterator[Served]:
    """The server, for as long as this is entered; it must then end by itself when it is asked to."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        words = Path(folder, "words.txt")
        with words.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, str(SERVER), "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        served = Served(process, port, words)
        try:
            _wait_until_it_listens(served)
            yield served
            process.send_signal(signal.SIGINT)
            process.wait(ENDING)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        assert process.returncode == 0
        assert "Task exception was never retrieved" not in served.words()
        assert "Task was destroyed but it is pending" not in served.words()
