"""Measures the toolbox against the hub below it, and against the MCP clients of agent frameworks on the same server."""

import argparse
import statistics
import sys
from pathlib import Path

from bench import report
from bench.driving import in_turn, run_driver, say
from bench.report import OURS, Goal, Outcome, Round, row

WAYS = {"toolbox": "call of a toolbox", "toolbox_json": "call with arguments as JSON text"}
ENVIRONMENTS = Path(__file__).parents[1] / ".peers" / "frameworks"
PEERS = {
    "langchain-mcp-adapters": ("langchain_mcp_adapters", "langchain-mcp-adapters"),
    f"{OURS} in LangChain": ("langchain", "toolcrib-langchain"),
}
"""Name in the table -> environment and driver. A peer whose environment was not made is left out."""


def measure_calls(options: argparse.Namespace) -> list[Round]:
    """Return, for each round: library -> figures of each way of calling."""
    makes = {OURS: (sys.executable, "toolcrib")}
    for name, (environment, make) in PEERS.items():
        python = ENVIRONMENTS / environment / "bin" / "python"
        if python.exists():
            makes[name] = (str(python), make)
    arguments = [f"--server-python={sys.executable}", f"--seconds={options.seconds}", f"--warm-up={options.warm_up}"]
    rounds = []
    for number in range(1, options.rounds + 1):
        say(f"adapters: round {number} of {options.rounds}")
        found = {}
        for name in in_turn(makes, number):
            python, make = makes[name]
            timeout = 120 + 20 * options.seconds
            found[name] = run_driver(python, "toolbox_calls", make, *arguments, timeout=timeout)
        rounds.append({name: found[name] for name in makes})
    return rounds


def overhead(rounds: list[Round], name: str, way: str, metric: str) -> float:
    """Return the time of a call beyond that of the client below: within each round, then the median."""
    return statistics.median(each[name][way][metric] - each[name]["below"][metric] for each in rounds)


def goals(rounds: list[Round]) -> list[Goal]:
    rows = []
    for way, words in WAYS.items():
        for metric, kind, goal in (
            ("min_wall", "quietest batches", "< 30"),
            ("min_cpu", "quietest batches, processor time", "< 30"),
            ("wall", "median", ""),
            ("cpu", "median, processor time", ""),
        ):
            value = overhead(rounds, OURS, way, metric) * 1e6
            wanted = goal if way == "toolbox" else ""
            rows.append(row(f"{words}: time beyond hub.call_tool, {kind}", value, "{:.1f} us", wanted))
    for name in rounds[0]:
        if name != OURS:
            value = statistics.median(each[name]["toolbox"]["wall"] / each[OURS]["toolbox"]["wall"] for each in rounds)
            rows.append(row(f"{name}: its time / the toolbox's", value, "{:.2f}x"))
    return rows


def table(rounds: list[Round]) -> list[list[str]]:
    lines = [["adapters, calls", "us", "quietest us", "cpu us", "time / toolbox"]]
    for name in rounds[0]:
        for way in rounds[0][name]:
            label = f"{name}, client below" if way == "below" else f"{name}, {WAYS[way]}" if name == OURS else name
            values = [statistics.median(r[name][way][metric] for r in rounds) for metric in ("wall", "min_wall", "cpu")]
            against = statistics.median(r[name][way]["wall"] / r[OURS]["toolbox"]["wall"] for r in rounds)
            lines.append([f"  {label}", *(f"{value * 1e6:.1f}" for value in values), f"{against:.2f}x"])
    return lines


def measure(options: argparse.Namespace) -> Outcome:
    """Measure the adapters if `--over` includes them."""
    out = Outcome()
    if "adapters" in options.over:
        rounds = measure_calls(options)
        out.figures["adapters"] = rounds
        out.goals["toolcrib adapters"] = goals(rounds)
        lines = table(rounds)
        out.tables.append(report.columns([*lines, [""] * len(lines[0])]))
        noise = report.warning("adapters", "hub", [each[OURS]["below"]["wall"] for each in rounds], 1.0)
        out.warnings += [noise] if noise else []
    return out
