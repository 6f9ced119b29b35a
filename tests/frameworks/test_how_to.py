"""The snippets of docs/how-to/any-framework.md work: each gives an agent of its framework tools, results and errors."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.house import snippets

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/any-framework.md"
NAMES = sorted(path.stem for path in (ROOT / "tests/frameworks/how_to").glob("[!_]*.py"))


def test_every_snippet_of_the_page_has_a_case() -> None:
    assert sorted({block.needs for block in snippets.blocks(PAGE.read_text())} - {""}) == NAMES


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_an_agent_lists_calls_and_sees_errors(name: str, tmp_path: Path) -> None:
    python = ROOT / ".peers/frameworks" / name / "bin/python"
    assert python.exists(), f"{name} is not in .peers/frameworks; `bash scripts/frameworks {name}` installs it"
    quiet = {"HAYSTACK_TELEMETRY_ENABLED": "False", "OTEL_SDK_DISABLED": "true", "ANONYMIZED_TELEMETRY": "false"}
    environment = {**os.environ, "HOME": str(tmp_path), **quiet}
    command = [str(python), "-m", "tests.frameworks.how_to", name]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0 and ran.stdout.endswith("ok\n"), ran.stdout + ran.stderr
