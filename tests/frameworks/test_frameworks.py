"""Every agent framework passes the table of cases, in an environment of its own."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.frameworks.cases import CASES
from tests.frameworks.environments import ROOT, find_python

ALWAYS: Final = ("crewai", "pydantic_ai", "strands")
"""The frameworks that every change is tested with; the others are tested at night."""
FRAMEWORKS: Final = [
    pytest.param(name, marks=pytest.mark.slow if name in ALWAYS else pytest.mark.nightly)
    for name in sorted(path.stem for path in (ROOT / "tests" / "frameworks" / "drivers").glob("[a-z]*.py"))
]
RUN_SECONDS: Final = 300

Run = tuple[dict[str, dict[str, Any]], str]

pytestmark = pytest.mark.timeout(RUN_SECONDS + 30)


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Callable[[str], Run]:
    """Return the outcomes of all cases with a framework, and its log. One process per framework and session."""
    shared = tmp_path_factory.getbasetemp()
    if hasattr(pytestconfig, "workerinput"):
        shared = shared.parent  # of all workers

    def run(name: str) -> Run:
        python = find_python(name, pytestconfig)
        output, log = shared / f"{name}.jsonl", shared / f"{name}.log"
        with (shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not output.exists():
                _run_cases(python, name, output, log)
        outcomes = map(json.loads, output.read_text().splitlines())
        return {outcome["case"]: outcome for outcome in outcomes}, log.read_text(errors="replace")

    return run


def _run_cases(python: Path, name: str, output: Path, log: Path) -> None:
    with output.open("w") as out, log.open("w") as err:
        subprocess.run(
            [python, "-m", "tests.frameworks.run", name],
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            timeout=RUN_SECONDS,
            cwd=ROOT,
            env={key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL", "TMPDIR") if key in os.environ},
        )


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("case", CASES)
def test_the_framework(framework: str, case: str, run_of: Callable[[str], Run]) -> None:
    outcomes, log = run_of(framework)
    assert case in outcomes, f"the run ended before this case:\n{log[-5000:]}"
    if outcomes[case]["outcome"] == "not applicable":
        pytest.skip(outcomes[case]["detail"])
    assert outcomes[case]["outcome"] == "passed", outcomes[case]["detail"]


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_cases_of_one_framework(framework: str, run_of: Callable[[str], Run]) -> None:
    outcomes, log = run_of(framework)
    assert set(CASES) <= set(outcomes), f"the run ended early:\n{log[-5000:]}"
    failed = [outcome for outcome in outcomes.values() if outcome["extra"] and outcome["outcome"] == "failed"]
    assert not failed, "\n".join(f"{outcome['case']}:\n{outcome['detail']}" for outcome in failed)
