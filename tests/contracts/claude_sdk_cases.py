"""Runs the cases of a module in the environment of the Claude Agent SDK; prints one line of JSON for each.

`.peers/frameworks/claude_agent/bin/python -m tests.contracts.claude_sdk_cases MODULE`
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from importlib import import_module
from typing import Final

CASE_SECONDS: Final = 30.0


def main(module: str) -> None:
    """Run all cases of a module."""
    for name, function in import_module(f"tests.contracts.{module}").CASES.items():
        failure = ""
        try:
            asyncio.run(asyncio.wait_for(function(), CASE_SECONDS))
        except Exception:  # noqa: BLE001  # the test shows it
            failure = traceback.format_exc()
        print(json.dumps({"case": name, "failure": failure}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
