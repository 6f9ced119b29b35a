"""For the contracts of the MCP Tools Provider: plugin folders, registrations in its form, and what a store holds."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import psutil

SERVER = Path(__file__).with_name("plugin_server.py")

VARIABLE = {"name": "PLUGIN_TOKEN", "description": "A token", "required": True, "secret": True}
SECRET = "s3cret-of-the-plugin"


class Plugin:
    """A folder with a manifest and the server `server.py`, which records its starts."""

    def __init__(self, folder: Path, manifest: Any = None, *, file: str = "plugin.json") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        shutil.copyfile(SERVER, folder / "server.py")
        if manifest is not None:
            (folder / file).write_text(json.dumps(manifest))

    def starts(self) -> list[dict[str, Any]]:
        """Return pid, arguments, working directory and environment of each start."""
        file = self.folder / "starts.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def set(self, behaviour: str, content: str = "") -> None:
        """Let the server behave so from its next start on."""
        (self.folder / behaviour).write_text(content)

    def reset(self, behaviour: str) -> None:
        (self.folder / behaviour).unlink()

    def running(self) -> list[int]:
        """Return the pids of the processes that run now."""
        return [start["pid"] for start in self.starts() if _runs(start["pid"])]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def manifest(*packages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a manifest; without packages it has one for Python."""
    return {
        "name": "plugin",
        "version": "1.2.3",
        "description": "A plugin",
        "packages": list(packages) or [package()],
        **fields,
    }


def package(**fields: Any) -> dict[str, Any]:
    return {"name": "default", "transport_type": "stdio", "runtime": "python", "command": ["server.py"], **fields}


def form(place: Plugin | Path, **fields: Any) -> dict[str, Any]:
    """Return a registration of a plugin with the required fields and these."""
    folder = place.folder if isinstance(place, Plugin) else place
    return {
        "name": "GitHub MCP",
        "url": "mcp://github-plugin",
        "source_type": "mcp",
        "mcp_plugin_dir": str(folder),
        **fields,
    }


def remote_form(url: str, **fields: Any) -> dict[str, Any]:
    """Return a registration of a remote server with the required fields and these."""
    return {"name": "CML MCP Server", "url": url, "source_type": "mcp", "mcp_server_url": url, **fields}


def stored_rows(file: Path) -> dict[str, list[Any]]:
    """Return all rows of all tables of a store."""
    with sqlite3.connect(file) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
    connection.close()
    return rows


def stored_bytes(file: Path) -> bytes:
    """Return the content of a store's files, with that of its log."""
    return b"".join(each.read_bytes() for each in sorted(file.parent.glob(f"{file.name}*")))


def children() -> set[int]:
    """Return the pids of the processes that this one has started and that still run."""
    return {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}
