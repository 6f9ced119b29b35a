"""The agent parts of two documents, with the Claude Agent SDK, which runs the cases in an environment of its own."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = ROOT / ".peers/frameworks/claude_agent/bin/python"
CASES: Final = [
    (module, node.name)
    for module in ("claude_agent_builder", "rusty_claw_options")
    for node in ast.parse(Path(__file__).with_name(f"{module}.py").read_text()).body
    if isinstance(node, ast.AsyncFunctionDef) and [ast.unparse(name) for name in node.decorator_list] == ["case"]
]

pytestmark = pytest.mark.nightly


@cache
def failures_of(module: str, home: Path) -> dict[str, str]:
    """Return the traceback of each case, or an empty text."""
    if not PYTHON.exists():
        pytest.fail("the SDK is not in .peers/frameworks; `bash scripts/frameworks claude_agent` installs it")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    command = [str(PYTHON), "-m", "tests.contracts.claude_sdk_cases", module]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return {outcome["case"]: outcome["failure"] for outcome in map(json.loads, ran.stdout.splitlines())}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.mark.parametrize("module, case", CASES)
def test_the_agent(module: str, case: str, home: Path) -> None:
    assert failures_of(module, home)[case] == ""
