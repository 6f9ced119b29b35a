"""The first steps of a newcomer: clone the project and run `scripts/up` on a fresh machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE + 60)]


def bare_path(tmp_path: Path) -> str:
    """Return a PATH with the requirements of the README only: python3, pip, git, and node if it is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    wanted = ("python3", "git", "bash", "env", "node", "npm", "npx", "dirname", "cat", "cmp", "mkdir", "rm", "uname")
    for name in (*wanted, "ls", "sed", "grep", "readlink", "sh", "id", "ldd", "getconf"):
        found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if found is not None:
            (folder / name).symlink_to(found)
    return str(folder)


def clone(tmp_path: Path) -> Path:
    """Return a copy of the project, including uncommitted changes."""
    target = tmp_path / "toolcrib"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def test_scripts_up_works_in_a_fresh_clone(tmp_path: Path) -> None:
    project, home, path = clone(tmp_path), tmp_path / "home", bare_path(tmp_path)
    home.mkdir()
    ran = subprocess.run(
        ["env", "-i", f"HOME={home}", f"PATH={path}", "bash", "scripts/up"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Installing uv into .tools" in ran.stderr
    assert ran.stdout.startswith("Installing Toolcrib into .venv")
    assert re.search(r"^  demo is ready after [\d.]+ s$", ran.stdout, re.MULTILINE)
    assert max(map(len, ran.stdout.splitlines())) <= 80
    rows = {row[0]: row for row in map(str.split, filter(None, ran.stdout.splitlines()))}
    assert rows["words"][1] == rows["demo"][1] == "connected"
    if os.path.exists(f"{path}/npx"):
        assert rows["files"][1] == "connected"
    else:
        assert "the npm server, files, is left out" in ran.stderr
    assert "mcp__demo__slow_count" in rows
    assert '"words": 4' in ran.stdout
    assert "counted to 5" in ran.stdout
    assert not re.search(r"Traceback|\x1b\[", ran.stdout + ran.stderr)
