"""Measures import times: one import per fresh interpreter, in turn, so that noise affects all of them equally."""

import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass

PROGRAM = """
from time import perf_counter
start = perf_counter()
{statement}
print(perf_counter() - start)
"""


@dataclass(frozen=True)
class Import:
    name: str
    python: str
    statement: str


def wanted(python: str, sdk_python: str | None) -> list[Import]:
    imports = [
        Import("floor", python, "import asyncio, orjson"),
        Import("toolcrib", python, "import toolcrib"),
        # The names of the package load lazily: this is the cost for a user of the client.
        Import("toolcrib_client", python, "from toolcrib import Client, StdioServer"),
        Import("toolcrib_server", python, "from toolcrib import ToolServer"),
    ]
    if sdk_python:
        imports.append(Import("mcp", sdk_python, "import mcp"))
        imports.append(Import("mcp_client", sdk_python, "from mcp import Client, StdioServerParameters"))
        imports.append(Import("mcp_server", sdk_python, "from mcp.server.mcpserver import MCPServer"))
    return imports


def once(what: Import, compiled: str) -> float:
    program = PROGRAM.format(statement=what.statement)
    # Installed packages are compiled; a source tree or a fresh environment may not be. A shared bytecode cache makes
    # all of them equal.
    env = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    command = [what.python, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, env=env)
    return float(done.stdout)


def measure(python: str, sdk_python: str | None, times: int) -> dict[str, float]:
    """Return the median seconds per import; a first round, which only compiles, is discarded."""
    imports = wanted(python, sdk_python)
    with tempfile.TemporaryDirectory(prefix="bench-") as compiled:
        for what in imports:
            once(what, compiled)
        taken: dict[str, list[float]] = {what.name: [] for what in imports}
        for _ in range(times):
            for what in imports:
                taken[what.name].append(once(what, compiled))
    return {name: statistics.median(values) for name, values in taken.items()}
