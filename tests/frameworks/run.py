"""Runs the cases with one framework, in its environment; prints one line of JSON per case.

`.peers/frameworks/NAME/bin/python -m tests.frameworks.run NAME [CASE ...]`
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any, Final

from tests.frameworks.cases import CASES, NotApplicable

CASE_SECONDS: Final = 30.0
"""The time limit of a case. A case that blocks its thread for twice as long ends the process."""

QUIET: Final = {
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OPENAI_API_KEY": "none",
    "OTEL_SDK_DISABLED": "true",
    "PYDANTIC_AI_DISABLE_TELEMETRY": "1",
    "HTTP_PROXY": "http://127.0.0.1:9",  # nothing may leave this machine
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1,localhost",
}
"""Telemetry off."""

Outcome = dict[str, Any]


def main(name: str, *wanted: str) -> int:
    """Run the cases, or those that are named; return the exit code."""
    results = os.fdopen(os.dup(1), "w")  # frameworks write to stdout too
    with tempfile.TemporaryDirectory(prefix="toolcrib-") as home, redirect_stdout(sys.stderr):
        os.environ.update(QUIET, HOME=home, XDG_CACHE_HOME=home, XDG_CONFIG_HOME=home, CREWAI_STORAGE_DIR=home)
        module = import_module(f"tests.frameworks.drivers.{name}")
        extra: dict[str, Callable[[Any], Awaitable[None]]] = getattr(module, "extra_cases", {})
        cases = {case: function for case, function in {**CASES, **extra}.items() if not wanted or case in wanted}
        outcomes = []
        for case, function in cases.items():
            outcome = run_case(case, function, module.driver)
            outcomes.append(outcome)
            print(json.dumps(outcome), file=results, flush=True)
    return 0 if cases and not any(outcome["outcome"] == "failed" for outcome in outcomes) else 1


def run_case(name: str, function: Callable[[Any], Awaitable[None]], driver: Any) -> Outcome:
    """Run one case on a loop of its own."""
    faulthandler.dump_traceback_later(2 * CASE_SECONDS, exit=True)
    begun = time.monotonic()
    outcome, detail = "passed", ""
    try:
        asyncio.run(_limited(function(driver)))
    except NotApplicable as exc:
        outcome, detail = "not applicable", str(exc)
    except BaseException:  # noqa: BLE001  # the outcome has it
        outcome, detail = "failed", traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()
    return {
        "case": name,
        "extra": name not in CASES,
        "outcome": outcome,
        "seconds": round(time.monotonic() - begun, 2),
        "detail": detail,
    }


async def _limited(work: Awaitable[None]) -> None:
    async with asyncio.timeout(CASE_SECONDS):
        await work


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
