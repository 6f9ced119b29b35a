"""Runs the drivers, each in its own process and in an order that alternates between rounds."""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DRIVERS = ROOT / "bench" / "drivers"
REVISIONS = {"auto": "2026-07-28", "legacy": "2025-11-25"}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_driver(python: str, driver: str, *arguments: str, timeout: float) -> Any:
    command = [python, str(DRIVERS / f"{driver}.py"), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise SystemExit(f"the driver {driver} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def in_turn(names: Iterable[str], number: int) -> list[str]:
    """Return the order of a round: every second round is reversed, so that no driver always follows the same one."""
    return list(names) if number % 2 else list(reversed(list(names)))
