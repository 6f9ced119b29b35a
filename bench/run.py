"""Runs the drivers in turn, several rounds, and prints the table (or, with --json, every figure)."""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import imports, report

ROOT = Path(__file__).resolve().parent.parent
DRIVERS = ROOT / "bench" / "drivers"
SDK_PYTHON = ROOT / ".peers" / "sdk2" / "bin" / "python"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_driver(python: str, driver: str, *arguments: str, timeout: float) -> Any:
    command = [python, str(DRIVERS / f"{driver}.py"), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise SystemExit(f"the driver {driver} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def clients(sdk_python: str | None) -> dict[str, tuple[str, str]]:
    """Name in the table -> interpreter and driver."""
    found = {
        report.BARE: (sys.executable, "bare_descriptors"),
        report.RAW: (sys.executable, "raw_pipe"),
        report.OURS: (sys.executable, "toolyard_client"),
    }
    if sdk_python:
        found[report.SDK] = (sdk_python, "sdk_client")
        found["FastMCP"] = (sdk_python, "fastmcp_client")
    return found


def measure_calls(options: argparse.Namespace) -> list[report.Round]:
    arguments = [f"--server-python={sys.executable}", f"--mode={options.mode}", f"--seconds={options.seconds}"]
    arguments += [f"--in-flight={options.in_flight}", f"--lifecycles={options.lifecycles}"]
    if options.free:
        arguments.append("--free")
    timeout = 60 + 10 * options.seconds + 10 * options.lifecycles
    table = clients(options.sdk_python)
    rounds = []
    for number in range(1, options.rounds + 1):
        say(f"round {number} of {options.rounds}")
        # Every second round runs backwards: nobody always follows the same neighbour.
        names = list(table) if number % 2 else list(reversed(table))
        results = {name: run_driver(*table[name], *arguments, timeout=timeout) for name in names}
        rounds.append({name: results[name] for name in table})
    return rounds


def measure_idle(connections: int) -> dict[str, float]:
    say(f"memory of {connections} idle connections")
    arguments = (sys.executable, "idle_memory", f"--connections={connections}")
    timeout = 60 + 2.0 * connections
    return {
        "resident_kib": run_driver(*arguments, timeout=timeout),
        "traced_kib": run_driver(*arguments, "--traced", timeout=timeout),
    }


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each measurement of calls")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--lifecycles", type=int, default=5, help="connect, list, call, close: times per round")
    parser.add_argument("--imports", type=int, default=11, help="fresh interpreters per import")
    parser.add_argument("--idle", type=int, default=100, help="idle connections whose memory is measured")
    parser.add_argument(
        "--mode", choices=["auto", "legacy"], default="auto", help="auto: 2026-07-28, legacy: 2025-11-25"
    )
    parser.add_argument("--free", action="store_true", help="leave the placing of the processes to the scheduler")
    parser.add_argument("--sdk-python", default=str(SDK_PYTHON), help="an interpreter with mcp 2.x and fastmcp 4.x")
    parser.add_argument("--json", action="store_true", help="every figure of every round")
    parser.add_argument("--strict", action="store_true", help="a missed goal is a failure")
    options = parser.parse_args()
    if not Path(options.sdk_python).exists():
        say(f"!! NOT MEASURED: the SDK and FastMCP ({options.sdk_python} is not there)")
        options.sdk_python = None
    return options


def main() -> int:
    options = parse_options()
    rounds = measure_calls(options)
    idle = measure_idle(options.idle)
    say("imports")
    imported = imports.measure(sys.executable, options.sdk_python, options.imports)
    figures = report.medians(rounds)
    noise = report.noise(rounds)
    goals = report.call_goals(rounds, options.in_flight) + report.memory_goals(idle) + report.import_goals(imported)
    if options.json:
        shown = {"clients": figures, "rounds": rounds, "idle": idle, "imports": imported, "noise": noise}
        print(json.dumps({**shown, "goals": [asdict(goal) for goal in goals]}, indent=2))
    else:
        print(report.clients_table(figures, options.in_flight), report.goals_table(goals), noise, sep="\n\n")
    return 1 if options.strict and any(goal.met is False for goal in goals) else 0
