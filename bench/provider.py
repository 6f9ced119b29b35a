"""Measures a provider: calls of a registered tool against the bare client, and a source with thousands of tools."""

import argparse
import statistics
import sys
from typing import Any

from bench import report
from bench.driving import in_turn, run_driver, say
from bench.report import FASTMCP, OURS, Goal, Outcome, Round, row

PROXY = f"{FASTMCP}, proxy"
WAYS = {"execute": "execute", "view": "call_tool of a view"}
OPERATIONS = {
    "register": "register: list, compare, store",
    "start": "start: open, load, close",
    "refresh": "refresh, nothing changed",
    "refresh_changed": "refresh, every hundredth changed",
    "first_list": "first list of a view",
    "list": "list of a view",
    "first_search": "first search, which indexes all tools",
    "search": "search, 3 words",
}
GOALS = {"list": "<= 5", "search": "<= 10"}
"""Limits in milliseconds."""


# ---- calls ---------------------------------------------------------------------------------------------------


def measure_calls(options: argparse.Namespace) -> list[Round]:
    """Return, for each round: library -> figures of each way of calling."""
    makes = {OURS: (sys.executable, "toolcrib")}
    if options.sdk_python:
        makes[PROXY] = (options.sdk_python, "fastmcp")
    arguments = [f"--server-python={sys.executable}", f"--in-flight={options.in_flight}"]
    arguments += [f"--seconds={options.seconds}", f"--warm-up={options.warm_up}"]
    arguments += ["--free"] if options.free else []
    rounds = []
    for number in range(1, options.rounds + 1):
        say(f"provider, calls: round {number} of {options.rounds}")
        found = {}
        for name in in_turn(makes, number):
            python, make = makes[name]
            timeout = 120 + 20 * options.seconds
            found[name] = run_driver(python, "provider_calls", make, *arguments, timeout=timeout)
        rounds.append({name: found[name] for name in makes})
    return rounds


def median(rounds: list[Round], name: str, *path: str) -> float:
    """Return the median of one figure over all rounds."""

    def pick(figures: Any) -> float:
        for key in path:
            figures = figures[key]
        return float(figures)

    return statistics.median(pick(each[name]) for each in rounds)


def overhead(rounds: list[Round], name: str, way: str, metric: str) -> float:
    """Return the time of a call beyond that of the bare client: within each round, then the median."""
    return statistics.median(
        each[name]["sequential"][way][metric] - each[name]["sequential"]["bare"][metric] for each in rounds
    )


def call_goals(rounds: list[Round], width: int) -> list[Goal]:
    rows = []
    for way, words in WAYS.items():
        for metric, kind, goal in (
            ("min_wall", "quietest batches", "< 25"),
            ("min_cpu", "quietest batches, processor time", "< 25"),
            ("wall", "median", ""),
            ("cpu", "median, processor time", ""),
        ):
            value = overhead(rounds, OURS, way, metric) * 1e6
            rows.append(row(f"{words}: time beyond the bare client, {kind}", value, "{:.1f} us", goal))
    rows.append(row("audit of a call, afterwards: processor time", median(rounds, OURS, "audit") * 1e6, "{:.1f} us"))
    rows.append(row("lease of a pooled connection", median(rounds, OURS, "lease") * 1e6, "{:.1f} us"))
    for way, words in WAYS.items():
        value = statistics.median(
            each[OURS]["in_flight"][way]["rate"] / each[OURS]["in_flight"]["bare"]["rate"] for each in rounds
        )
        rows.append(row(f"{words}, {width} in flight: calls/s against the bare client", value, "{:.2f}x"))
    statements = median(rounds, OURS, "in_flight", "execute", "statements")
    rows.append(row("SQL statements per call, with those of the audit", statements, "{:.3f}", "< 0.1"))
    if PROXY in rounds[0]:
        theirs, ours = (overhead(rounds, name, "execute", "min_wall") for name in (PROXY, OURS))
        rows.append(row(f"{PROXY}: its time beyond its client / toolcrib's", theirs / ours, "{:.0f}x"))
    return rows


def calls_table(rounds: list[Round], width: int) -> list[list[str]]:
    lines = [["provider, calls", "us", "quietest us", "cpu us", f"{width} in flight /s", "cpu us/call"]]
    for name in rounds[0]:
        for way in rounds[0][name]["sequential"]:
            label = f"{name}, bare client" if way == "bare" else name if name != OURS else f"{name}, {WAYS[way]}"
            sequential = (median(rounds, name, "sequential", way, metric) for metric in ("wall", "min_wall", "cpu"))
            rate, cpu = (median(rounds, name, "in_flight", way, metric) for metric in ("rate", "cpu"))
            figures = [*(f"{value * 1e6:.1f}" for value in sequential), f"{rate:,.0f}", f"{cpu * 1e6:.1f}"]
            lines.append([f"  {label}", *figures])
    return lines


# ---- many tools ----------------------------------------------------------------------------------------------


def measure_tools(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return, for each round: number of tools -> operation -> times."""
    arguments = [f"--server-python={sys.executable}", f"--tools={options.provider_tools}"]
    timeout = 120 + options.provider_tools / 20
    rounds = []
    for number in range(1, options.rounds + 1):
        say(f"provider with {options.provider_tools} tools: round {number} of {options.rounds}")
        rounds.append(run_driver(sys.executable, "provider_tools", *arguments, timeout=timeout))
    return rounds


def tool_goals(rounds: list[dict[str, Any]]) -> list[Goal]:
    few, many = (pick(rounds[0], key=int) for pick in (min, max))
    rows = []
    for operation, words in OPERATIONS.items():
        value = statistics.median(each[many][operation]["wall"] for each in rounds)
        rows.append(row(words, value * 1e3, "{:.2f} ms", GOALS.get(operation, "")))
    for operation in ("start", "register", "refresh"):
        times = int(many) / int(few)
        growth = statistics.median(
            each[many][operation]["cpu"] / each[few][operation]["cpu"] / times for each in rounds
        )
        name = f"{operation}: processor time per tool with {many} / with {few}"
        rows.append(row(name, growth, "{:.2f}x", "<= 2"))
    against = statistics.median(each[many]["refresh"]["cpu"] / each[many]["bare_list"]["cpu"] for each in rounds)
    rows.append(row("refresh, nothing changed: processor time against the bare client's list", against, "{:.2f}x"))
    memory = statistics.median(each[many]["bytes_per_tool"] for each in rounds)
    rows.append(row("memory of 1,000 tools, with one view", memory / 1000, "{:.1f} MB"))
    return rows


def measure(options: argparse.Namespace) -> Outcome:
    """Measure the provider if `--over` includes it."""
    out = Outcome()
    if "provider" in options.over:
        calls, tools = measure_calls(options), measure_tools(options)
        out.figures["provider"] = {"calls": calls, "tools": tools}
        out.goals["toolcrib provider, calls"] = call_goals(calls, options.in_flight)
        out.goals[f"toolcrib provider with {options.provider_tools} tools"] = tool_goals(tools)
        lines = calls_table(calls, options.in_flight)
        out.tables.append(report.columns([*lines, [""] * len(lines[0])]))
        bare = [each[OURS]["sequential"]["bare"]["wall"] for each in calls]
        noise = report.warning("provider, calls", "bare client", bare, 1.0)
        out.warnings += [noise] if noise else []
    return out
