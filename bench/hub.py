"""Measures a hub over many in-process servers: starting, listing and searching tools, calling a tool."""

import argparse
import statistics
import sys

from bench import report
from bench.driving import in_turn, run_driver, say
from bench.report import FASTMCP, OURS, SDK, Goal, Outcome, Round, row

GROUP, MOUNTED = f"{SDK}, ClientSessionGroup", f"{FASTMCP}, mounted"
WAYS = {
    "list": "list_tools",
    "search": "search_tools, 3 words",
    "long_search": "search_tools, 7 words",
    "first_search": "first search, which indexes all tools",
}
GOALS = {"list": "<= 5", "search": "<= 10", "long_search": "<= 10"}
"""Limits in milliseconds."""


def measure_hub(options: argparse.Namespace) -> list[Round]:
    """Return, for each round: library -> seconds of each start and of each operation."""
    makes = {OURS: (sys.executable, "toolcrib")}
    if options.sdk_python:
        makes |= {GROUP: (options.sdk_python, "sdk"), MOUNTED: (options.sdk_python, "fastmcp")}
    arguments = [f"--servers={options.servers}", f"--tools={options.tools}"]
    arguments += [f"--seconds={options.seconds / 4}", f"--warm-up={options.warm_up}"]
    rounds = []
    for number in range(1, options.rounds + 1):
        say(f"hub with {options.servers} servers: round {number} of {options.rounds}")
        found = {}
        for name in in_turn(makes, number):
            python, make = makes[name]
            timeout = 120 + options.servers + 5 * options.seconds
            found[name] = run_driver(python, "many_servers", make, *arguments, timeout=timeout)
        rounds.append({name: found[name] for name in makes})
    return rounds


def median(rounds: list[Round], name: str, way: str) -> float:
    return statistics.median(each[name][way] for each in rounds)


def starts(rounds: list[Round], name: str) -> dict[int, float]:
    """Return number of servers -> seconds per server."""
    return {
        int(count): statistics.median(each[name]["starts"][count] for each in rounds) / int(count)
        for count in rounds[0][name]["starts"]
    }


def surcharge(rounds: list[Round], name: str) -> float:
    """Return the extra time of a call through the hub, compared with a client connected to the one server."""
    return statistics.median(each[name]["call"] - each[name]["bare"] for each in rounds)


def goals(rounds: list[Round]) -> list[Goal]:
    rows = [row(words, median(rounds, OURS, way) * 1e3, "{:.2f} ms", GOALS.get(way, "")) for way, words in WAYS.items()]
    rows.append(row("call: time beyond the bare client", surcharge(rounds, OURS) * 1e6, "{:.1f} us", "< 15"))
    per_server = starts(rounds, OURS)
    few, many = min(per_server), max(per_server)
    for count, taken in per_server.items():
        rows.append(row(f"start and first list of {count}: time per server", taken * 1e3, "{:.2f} ms"))
    growth = per_server[many] / per_server[few]
    rows.append(row(f"  time per server with {many} / with {few}", growth, "{:.2f}x", "<= 2"))
    for name in rounds[0]:
        if name != OURS:
            for way in ("list", "call"):
                value = report.ratio(rounds, way, name, OURS)
                rows.append(row(f"{name}: its time / toolcrib's, {way}", value, "{:.2f}x"))
            theirs = starts(rounds, name)[many] / per_server[many]
            rows.append(row(f"{name}: its time / toolcrib's, start of {many}", theirs, "{:.2f}x"))
    return rows


def table(title: str, rounds: list[Round]) -> list[list[str]]:
    counts = list(starts(rounds, OURS))
    head = ["list ms", "call us", "bare call us", *(f"start of {count} ms" for count in counts)]
    lines = [[title, *head]]
    for name in rounds[0]:
        per_server = starts(rounds, name)
        lines.append(
            [
                f"  {name}",
                f"{median(rounds, name, 'list') * 1e3:.2f}",
                *(f"{median(rounds, name, way) * 1e6:.1f}" for way in ("call", "bare")),
                *(f"{per_server[count] * count * 1e3:.0f}" for count in counts),
            ]
        )
    return lines


def measure(options: argparse.Namespace) -> Outcome:
    """Measure the hub if `--over` includes it."""
    out = Outcome()
    if "hub" in options.over:
        title = f"hub with {options.servers} servers of {options.tools} tools"
        rounds = out.figures["hub"] = measure_hub(options)
        out.goals[f"toolcrib {title}"] = goals(rounds)
        lines = table(title, rounds)
        out.tables.append(report.columns([*lines, [""] * len(lines[0])]))
        noise = report.warning(title, "bare client", [each[OURS]["bare"] for each in rounds], 1.0)
        out.warnings += [noise] if noise else []
    return out
