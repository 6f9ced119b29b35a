"""The plugins that the tests register: folders below `plugins/`, and what they need to be started here.

A plugin from npm or PyPI needs programs that the machine may not have. Then its tests are skipped, and scripts/test
says so (`NOT RUN`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = Path(__file__).with_name("plugins")

PYTHON: Final = FOLDER / "python_plugin"
HTTP: Final = FOLDER / "http_plugin"
SSE: Final = FOLDER / "sse_plugin"
NPM_FILESYSTEM: Final = FOLDER / "npm_filesystem"
NPM_MEMORY: Final = FOLDER / "npm_memory"
UVX: Final = FOLDER / "uvx_plugin"
SERVER_JSON: Final = FOLDER / "server_json"
DOCKER: Final = FOLDER / "docker_plugin"

FAKE_DOCKER: Final = Path(__file__).with_name("fake_docker")
"""The folder of the command that stands in for docker."""
NPM_PACKAGES: Final = ROOT / ".peers/npm/node_modules"
"""The packages that scripts/test installs."""
NPM_NAMES: Final = {
    NPM_FILESYSTEM: "@modelcontextprotocol/server-filesystem",
    NPM_MEMORY: "@modelcontextprotocol/server-memory",
    SERVER_JSON: "@modelcontextprotocol/server-memory",
}
"""The packages of the plugins from npm."""
UVX_PACKAGE: Final = "mcp-server-time"
UVX_SECONDS: Final = 120.0
"""Seconds for the first download of the package from PyPI."""

PYTHON_TOOLS: Final = frozenset({"echo", "add", "env", "pid", "crash", "sleep", "counter"})
"""The tools of the plugins that are written in Python."""


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of a plugin."""
    file = next(file for file in (folder / "plugin.json", folder / "server.json") if file.exists())
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def python_path() -> str:
    """Return a PATH on which `python` and `python3` are the interpreter of the tests."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


def copy_plugin(folder: Path, target: Path) -> Path:
    """Copy a plugin into the folder `target`, and return the copy.

    A plugin from npm gets the package that scripts/test has installed: npx takes a package of the working directory and
    downloads nothing.
    """
    copy = target / folder.name
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
    name = NPM_NAMES.get(folder)
    if name is not None:
        package = npm_packages() / name
        link = copy / "node_modules" / name
        link.parent.mkdir(parents=True)
        link.symlink_to(package)
        programs = copy / "node_modules/.bin"
        programs.mkdir()
        for program, script in json.loads((package / "package.json").read_text())["bin"].items():
            (programs / program).symlink_to(package / script)
    return copy


def npm_packages() -> Path:
    """Return the folder of the npm packages; skips the test without npm."""
    if shutil.which("npx") is None or shutil.which("node") is None:
        pytest.skip("NOT RUN: node and npx are not on this machine")
    if not NPM_PACKAGES.exists():
        pytest.fail("the npm packages are missing; run scripts/test once, it prepares the peers", pytrace=False)
    return NPM_PACKAGES


def uvx_environment() -> dict[str, str]:
    """Return the variables with which uvx starts the server from PyPI without a download; skips the test if it cannot.

    The first use downloads the package into the cache of uv; later ones are offline.
    """
    path, reason = _prepare_uvx()
    if reason:
        pytest.skip(f"NOT RUN: {reason}")
    return {"PATH": path, "UV_OFFLINE": "1"}


@lru_cache(maxsize=1)
def _prepare_uvx() -> tuple[str, str]:
    """Return a PATH with uvx, and why the package cannot be used; empty if it can."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), str(ROOT / ".tools/bin")))
    uvx = shutil.which("uvx", path=path)
    if uvx is None:
        return path, "uvx is not on this machine"
    for options in (["--offline"], []):
        try:
            made = subprocess.run([uvx, *options, UVX_PACKAGE, "--help"], capture_output=True, timeout=UVX_SECONDS)
        except subprocess.TimeoutExpired:
            continue
        if made.returncode == 0:
            return path, ""
    return path, f"{UVX_PACKAGE} can be neither found in the cache of uv nor downloaded"


def docker_environment(record: Path) -> dict[str, str]:
    """Return the variables with which the command `docker` is the stand-in, which records its starts in this file."""
    return {
        "PATH": os.pathsep.join((str(FAKE_DOCKER), os.environ.get("PATH", os.defpath))),
        "FAKE_DOCKER_RECORD": str(record),
        "FAKE_DOCKER_PYTHON": sys.executable,
    }


def docker_starts(record: Path) -> list[dict[str, Any]]:
    """Return argv and environment of each start of the stand-in for docker."""
    return [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
