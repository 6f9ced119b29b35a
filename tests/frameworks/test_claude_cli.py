"""The real Claude CLI, which is part of the wheel of the Claude Agent SDK, with in-process servers of Toolcrib."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = ROOT / ".peers" / "frameworks" / "claude_agent" / "bin" / "python"
CASES: Final = (
    "calls_tools_of_a_hub",
    "keeps_the_rules_of_permissions",
    "asks_about_tools_that_need_approval",
    "connects_servers_of_all_kinds",
    "one_bad_tool_does_not_end_the_run",
    "a_dead_server_is_an_error_and_heals",
)

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("case", CASES)
def test_the_claude_cli(case: str, tmp_path: Path) -> None:
    """The CLI inherits the environment of the process that runs the case: no credentials, and a home of its own."""
    if not PYTHON.exists():
        pytest.fail("the environment is missing; `bash scripts/frameworks claude_agent` installs it")
    ran = subprocess.run(
        [PYTHON, "-m", "tests.frameworks.claude_cli", case],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    (outcome,) = map(json.loads, ran.stdout.splitlines())
    assert not outcome["detail"], outcome["detail"] + ran.stderr[-3000:]
