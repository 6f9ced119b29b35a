"""From figures to the table. A ratio is taken within each round, then the median: drift between rounds cancels out."""

import operator
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Round = dict[str, dict[str, Any]]
OURS, RAW, BARE, SDK = "toolyard", "raw pipe", "bare descriptors", "mcp SDK"
NOISY_SPREAD = 1.5
NOISY_SHARE = 0.6
FORBIDDEN_MODULES = ("pydantic", "aiohttp")


@dataclass(frozen=True)
class Goal:
    """One row: what was measured and, where there is a goal, what it is and whether it is met."""

    name: str
    value: float
    shown: str
    wanted: str = ""
    met: bool | None = None


COMPARE: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, "<": operator.lt, ">=": operator.ge}


def row(name: str, value: float, form: str, goal: str = "") -> Goal:
    """`form` shows the value ("{:.2f}x"), `goal` is a comparison and a number (">= 8")."""
    if not goal:
        return Goal(name, value, form.format(value))
    sign, bound = goal.split()
    return Goal(
        name, value, form.format(value), f"{sign} {form.format(float(bound))}", COMPARE[sign](value, float(bound))
    )


def ratio(rounds: list[Round], metric: str, above: str, below: str) -> float:
    return statistics.median(float(each[above][metric] / each[below][metric]) for each in rounds)


def medians(rounds: list[Round]) -> dict[str, dict[str, float]]:
    metrics = ("sequential_p50", "sequential_p99", "in_flight_rate", "in_flight_cpu", "lifecycle")
    return {
        client: {metric: statistics.median(each[client][metric] for each in rounds) for metric in metrics}
        for client in rounds[0]
    }


def call_goals(rounds: list[Round], width: int) -> list[Goal]:
    clients = rounds[0]
    rows = []
    for client in clients:
        if client != OURS:
            goal = {SDK: ">= 8", RAW: ">= 0.5"}.get(client, "")
            name = f"{width} in flight: calls/s against {client}"
            rows.append(row(name, ratio(rounds, "in_flight_rate", OURS, client), "{:.2f}x", goal))
    for client in clients:
        if client != OURS:
            name = f"sequential: p50 latency against {client}"
            rows.append(
                row(name, ratio(rounds, "sequential_p50", OURS, client), "{:.2f}x", "<= 1.3" if client == RAW else "")
            )
    for client in clients:
        if client != OURS:
            name = f"connect, list, call, close: time against {client}"
            rows.append(row(name, ratio(rounds, "lifecycle", OURS, client), "{:.2f}x"))
    loaded = {module for each in rounds for module in each[OURS]["modules"]}
    heavy = [module for module in FORBIDDEN_MODULES if module in loaded]
    shown = ", ".join(heavy) or "neither"
    rows.append(Goal("pydantic or aiohttp loaded by a stdio call", len(heavy), shown, "neither", not heavy))
    return rows


def import_goals(imports: dict[str, float]) -> list[Goal]:
    rows = [
        row("import toolyard", imports["toolyard"], "{:.3f} s", "<= 0.15"),
        row("from toolyard import Client, StdioServer", imports["toolyard_client"], "{:.3f} s", "<= 0.15"),
        row("import asyncio, orjson (the floor)", imports["floor"], "{:.3f} s"),
    ]
    if "mcp" in imports:
        rows.append(row("import mcp", imports["mcp"], "{:.3f} s"))
        rows.append(row("import mcp / import toolyard", imports["mcp"] / imports["toolyard"], "{:.2f}x", ">= 5"))
        used = imports["mcp_client"] / imports["toolyard_client"]
        rows.append(row("the same with the client's names", used, "{:.2f}x", ">= 5"))
    return rows


def memory_goals(idle: dict[str, float]) -> list[Goal]:
    return [
        row("idle connection: resident memory of ours", idle["resident_kib"], "{:.0f} KiB", "< 200"),
        row("idle connection: Python allocations of ours", idle["traced_kib"], "{:.0f} KiB"),
    ]


def noise(rounds: list[Round]) -> str:
    """A warning if the barest client did not have the processors for itself: it needs both, so noise flatters the others.

    Alone it is busy nearly all the time and the same in every round.
    """
    rates = [each[BARE]["in_flight_rate"] for each in rounds]
    spread = max(rates) / min(rates)
    busy = statistics.median(each[BARE]["in_flight_rate"] * each[BARE]["in_flight_cpu"] for each in rounds)
    if spread < NOISY_SPREAD and busy > NOISY_SHARE:
        return ""
    return (
        f"!! NOISY: the bare descriptors varied {spread:.1f}-fold and had its processor {busy:.0%} of the time; "
        "the verdicts on calls are not to be believed, run it again on a quiet machine"
    )


def columns(lines: list[list[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def clients_table(figures: dict[str, dict[str, float]], width: int) -> str:
    lines = [["client", "p50 us", "p99 us", f"{width} in flight /s", "own cpu us/call", "connect..close ms"]]
    for client, figure in figures.items():
        lines.append(
            [
                client,
                f"{figure['sequential_p50'] * 1e6:.1f}",
                f"{figure['sequential_p99'] * 1e6:.1f}",
                f"{figure['in_flight_rate']:,.0f}",
                f"{figure['in_flight_cpu'] * 1e6:.1f}",
                f"{figure['lifecycle'] * 1e3:.1f}",
            ]
        )
    return columns(lines)


def goals_table(goals: list[Goal]) -> str:
    verdicts = {None: "", True: "ok", False: "MISSED"}
    lines = [["toolyard", "measured", "goal", ""]]
    lines += [[goal.name, goal.shown, goal.wanted, verdicts[goal.met]] for goal in goals]
    return columns(lines)
