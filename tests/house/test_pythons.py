"""`scripts/test --all` runs on every Python that the project names, and on newer ones that the machine has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def versions(folder: Path) -> list[str]:
    environment = {"PATH": f"{folder}:{os.defpath}", "PYENV_ROOT": str(folder / "none"), "HOME": str(folder)}
    command = ["bash", "-euc", "source scripts/_pythons; python_versions"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout.split()


def named_versions() -> list[str]:
    lines = (ROOT / "pyproject.toml").read_text().splitlines()
    return [line.split(":: ")[-1].rstrip('",') for line in lines if '"Programming Language :: Python :: 3.' in line]


def test_the_versions_that_the_project_names_are_tested(tmp_path: Path) -> None:
    assert versions(tmp_path) == named_versions() != []


def test_newer_versions_are_tested_if_they_are_there(tmp_path: Path) -> None:
    newest = int(named_versions()[-1].removeprefix("3."))
    newer = [f"3.{newest + 1}", f"3.{newest + 2}"]
    for version in newer:
        program = tmp_path / f"python{version}"
        program.write_text("#!/bin/sh\nexit 0\n")  # says that it is the version that it is asked about
        program.chmod(0o755)
    assert versions(tmp_path) == [*named_versions(), *newer]
