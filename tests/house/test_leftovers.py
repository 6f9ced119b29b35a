"""The check at the end of every run works: a process that tests leave behind fails the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]


SHORT_GRACE = """
import subprocess
from tests import conftest
conftest.EXIT_GRACE_SECONDS = 0.5
"""
"""Processes left by the code below never end by themselves, so a long wait is useless."""


def run_with_the_check(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(SHORT_GRACE + code)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-c", "/dev/null", "--rootdir", folder, folder]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)


def is_gone(pid: int) -> bool:
    """Return whether the process has ended, or is a zombie that its parent does not reap."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_run_that_leaves_nothing_passes(tmp_path: Path) -> None:
    ran = run_with_the_check("def test_it(): subprocess.run(['true'])", tmp_path)
    assert ran.returncode == 0, ran.stdout


def test_a_run_that_leaves_a_child_and_an_orphan_in_its_own_session_fails_and_ends_them(tmp_path: Path) -> None:
    code = f"""
def test_it():
    child = subprocess.Popen(["sleep", "600"])
    open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
    subprocess.run(["sh", "-c", "setsid sleep 601 >/dev/null 2>&1 & echo $! > orphan"], cwd={str(tmp_path)!r})
"""
    ran = run_with_the_check(code, tmp_path)
    assert ran.returncode == 1
    assert "2 processes were left" in ran.stdout
    assert "sleep 600" in ran.stdout and "sleep 601" in ran.stdout
    assert is_gone(int((tmp_path / "pid").read_text())) and is_gone(int((tmp_path / "orphan").read_text()))
