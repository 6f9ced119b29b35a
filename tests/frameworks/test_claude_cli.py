"""The real Claude CLI, which is part of the wheel of the Claude Agent SDK, with in-process servers of Toolcrib."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

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
RUN_SECONDS: Final = 300

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(RUN_SECONDS + 30), pytest.mark.xdist_group("claude_cli")]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Run all cases in one process, whose environment the CLI inherits: no credentials, and a home of its own."""
    if not PYTHON.exists():
        pytest.fail("the environment is missing; `bash scripts/frameworks claude_agent` installs it")
    ran = subprocess.run(
        [PYTHON, "-m", "tests.frameworks.claude_cli"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path_factory.mktemp("home"))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    found = {outcome["case"]: outcome for outcome in map(json.loads, ran.stdout.splitlines())}
    assert sorted(found) == sorted(CASES), ran.stderr[-5000:]
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_claude_cli(case: str, outcomes: dict[str, dict[str, Any]]) -> None:
    assert not outcomes[case]["detail"], outcomes[case]["detail"]
