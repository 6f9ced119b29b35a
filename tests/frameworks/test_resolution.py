"""No framework, and none of its dependencies, gets another version because Toolcrib is installed beside it.

Resolving needs the package index, so that part runs at night only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = {
    name: packages
    for name, *packages in (
        line.split()
        for line in (ROOT / "tests" / "frameworks" / "packages.txt").read_text().splitlines()
        if not line.startswith("#")
    )
}


def resolve(requirements: list[str], *projects: str) -> dict[str, str]:
    """Return the versions that an installation would have."""
    uv = shutil.which("uv", path=os.pathsep.join((os.environ["PATH"], str(ROOT / ".tools" / "bin"))))
    assert uv, "uv is not installed; scripts/test installs it"
    command = [
        uv,
        "pip",
        "compile",
        "--quiet",
        "--no-header",
        "--no-annotate",
        "--python-version",
        "3.11",
        *projects,
        "-",
    ]
    ran = subprocess.run(command, input="\n".join(requirements), capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    return dict(re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", ran.stdout, re.MULTILINE))


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("framework", PACKAGES)
def test_toolcrib_changes_no_version_of_a_framework(framework: str) -> None:
    alone = resolve(PACKAGES[framework])
    together = resolve(PACKAGES[framework], "pyproject.toml")
    assert {name: together.get(name) for name in alone} == alone


def test_every_driver_has_an_environment() -> None:
    drivers = {path.stem for path in (ROOT / "tests" / "frameworks" / "drivers").glob("[a-z]*.py")}
    assert drivers <= set(PACKAGES)


@pytest.mark.parametrize("framework", PACKAGES)
def test_the_lock_file_has_the_packages_and_no_host(framework: str) -> None:
    text = (ROOT / "tests" / "frameworks" / "locks" / f"{framework}.txt").read_text()
    locked = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", text, re.MULTILINE))
    assert set(PACKAGES[framework]) <= set(locked)
    assert "://" not in text
