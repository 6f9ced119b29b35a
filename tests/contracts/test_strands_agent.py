"""Strands' MCP tools, sentence by sentence: the agent. The cases are in `strands_agent.py`; Strands runs them."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.frameworks.environments import ROOT, find_python

SOURCE = Path(__file__).with_name("strands_agent.py")
CASES = [
    node.name
    for node in ast.parse(SOURCE.read_text()).body
    if isinstance(node, ast.FunctionDef) and [ast.unparse(name) for name in node.decorator_list] == ["case"]
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> dict[str, str]:
    """The traceback of each case, or an empty text."""
    python = find_python("strands", pytestconfig)
    home = str(tmp_path_factory.mktemp("home"))
    environment = {"PATH": os.environ["PATH"], "HOME": home, "OTEL_SDK_DISABLED": "true"}
    command = [str(python), "-m", "tests.contracts.strands_agent"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    outcomes = map(json.loads, ran.stdout.splitlines())
    return {outcome["case"]: outcome["failure"] for outcome in outcomes}


@pytest.mark.parametrize("case", CASES)
def test_the_agent(case: str, failures: dict[str, str]) -> None:
    assert failures[case] == ""
