"""Registers and refreshes sources for ever: `registering_child.py DATABASE FILE`, where FILE is that of a small server.

For each line of stdin, a number of seconds, it forks a process that does this and kills it after that time, counted
from its first registration. It then prints what the process was doing. A fork starts at once; a new interpreter would
first load all modules.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.provider.kit import SMALL_SERVER  # after the path is set
from toolcrib.config import StdioServer
from toolcrib.provider.provider import Provider

TOOLS = 20


def change_tools(file: Path, version: int) -> None:
    """Replace all tools by others, whose names start with the version."""
    new = file.with_name(f"{os.getpid()}.new")
    new.write_text(json.dumps({"tools": [f"v{version}_{number}" for number in range(TOOLS)]}))
    new.replace(file)


async def register_for_ever(database: Path, file: Path, report: int) -> None:
    """Register sources and refresh all, and write the name of each step to `report`."""
    async with Provider(database) as provider:
        for number in range(1_000_000):
            change_tools(file, number)
            name = f"source-{os.getpid()}-{number}"
            server = StdioServer(
                sys.executable, ["-S", "-E", SMALL_SERVER, str(file)], env={"API_KEY": f"key of {name}"}
            )
            os.write(report, b"r")
            await provider.add_source(name, server, idle_seconds=5.0)
            change_tools(file, number + 1_000)
            for source in provider.list_sources()[-2:]:
                os.write(report, b"f")
                await provider.refresh(source.id)


def main() -> None:
    database, file = Path(sys.argv[1]), Path(sys.argv[2])
    for module in ("aiosqlite", "alembic", "sqlalchemy.ext.asyncio", "cryptography.hazmat.primitives.ciphers.aead"):
        importlib.import_module(module)
    while line := sys.stdin.readline():
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            asyncio.run(register_for_ever(database, file, writing))
        os.close(writing)
        steps = os.read(reading, 1)
        time.sleep(float(line))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        while more := os.read(reading, 1000):
            steps = more
        os.close(reading)
        print({ord("r"): "registering", ord("f"): "refreshing"}[steps[-1]], flush=True)


if __name__ == "__main__":
    main()
