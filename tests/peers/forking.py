"""A fork server (forkserver.py) for the programs that the tests run in a peer's environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAUNCHER = Path(__file__).with_name("launcher.py")
ENDING = 20.0  # seconds


class ForkServer:
    """Starts programs of an environment with modules already imported. Started on first use."""

    def __init__(self, python: Path, *preloaded: str, options: tuple[str, ...] = ()) -> None:
        self._python = str(python)
        self._server = (*options, "-m", "tests.peers.forkserver")
        self._preloaded = preloaded
        self._folder = Path(tempfile.mkdtemp())
        self._process: subprocess.Popen[str] | None = None

    def command(self, *arguments: str) -> list[str]:
        """Return a command that does what `python ARGUMENTS` does."""
        socket = str(self._folder / "socket")
        if self._process is None:
            self._process = self._start(socket)
        return [self._python, "-I", "-S", str(LAUNCHER), socket, *arguments]

    def _start(self, socket: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self._python, *self._server, socket, *self._preloaded],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},  # this tree, whichever one the environment has
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", "the fork server did not start"
        return process

    def close(self) -> None:
        """End the server, and the program that it waits for."""
        if self._process is not None:
            with self._process as process:
                assert process.stdin is not None
                process.stdin.close()
                try:
                    process.wait(ENDING)
                finally:
                    process.kill()
        shutil.rmtree(self._folder)
