"""Formats figures as tables. Ratios are computed within each round, then their median: drift between rounds cancels."""

import operator
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Round = dict[str, dict[str, Any]]
OURS, SDK, FASTMCP = "toolcrib", "mcp SDK", "FastMCP"
RAW, BARE, AIOHTTP = "raw pipe", "bare descriptors", "bare aiohttp"
NOISY_SPREAD = 1.5
NOISY_SHARE = 0.6
METRICS = {
    "in_flight_rate": "{width} in flight: calls/s",
    "in_flight_cpu": "{width} in flight: client processor time per call",
    "sequential_p50": "sequential: p50 latency",
    "lifecycle": "connect, list, call, close: time",
}


@dataclass(frozen=True)
class Way:
    """One table: how the clients reach the echo tool, and the goals for Toolcrib."""

    title: str
    over: str
    mode: str
    clients: dict[str, tuple[str, str]]
    """Name in the table -> interpreter and driver; the first one does the least."""
    goals: dict[tuple[str, str], str]
    """Metric and the client that Toolcrib is compared with -> goal."""
    unwanted: tuple[str, ...]
    """Modules that a call with Toolcrib must not load."""


@dataclass(frozen=True)
class Goal:
    """One row: a measured value and, if there is a goal, the goal and whether it is met."""

    name: str
    value: float
    shown: str
    wanted: str = ""
    met: bool | None = None


@dataclass
class Outcome:
    """The figures of one part of the benchmark, with their goals, tables and warnings."""

    figures: dict[str, Any] = field(default_factory=dict)
    goals: dict[str, list[Goal]] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


COMPARE: dict[str, Callable[[float, float], bool]] = {"<=": operator.le, "<": operator.lt, ">=": operator.ge}


def row(name: str, value: float, form: str, goal: str = "") -> Goal:
    """Return a row; `form` formats the value ("{:.2f}x"), `goal` is a comparison and a number (">= 8")."""
    if not goal:
        return Goal(name, value, form.format(value))
    sign, bound = goal.split()
    return Goal(
        name, value, form.format(value), f"{sign} {form.format(float(bound))}", COMPARE[sign](value, float(bound))
    )


def ratio(rounds: list[Round], metric: str, above: str, below: str) -> float:
    return statistics.median(float(each[above][metric] / each[below][metric]) for each in rounds)


def medians(rounds: list[Round]) -> dict[str, dict[str, float]]:
    metrics = (*METRICS, "sequential_p99")
    return {
        client: {metric: statistics.median(each[client][metric] for each in rounds) for metric in metrics}
        for client in rounds[0]
    }


def call_goals(way: Way, rounds: list[Round], width: int) -> list[Goal]:
    rows = []
    for metric, words in METRICS.items():
        for client in way.clients:
            if client != OURS:
                name = f"{words.format(width=width)} against {client}"
                value = ratio(rounds, metric, OURS, client)
                rows.append(row(name, value, "{:.2f}x", way.goals.get((metric, client), "")))
    loaded = {module for each in rounds for module in each[OURS]["modules"]}
    heavy = [module for module in way.unwanted if module in loaded]
    shown = ", ".join(heavy) or "no"
    rows.append(Goal(f"{' or '.join(way.unwanted)} loaded by a call", len(heavy), shown, "no", not heavy))
    return rows


def oauth_goals(rounds: list[Round]) -> list[Goal]:
    def taken(client: str, pace: str, above: str, below: str) -> float:
        return statistics.median(each[client][pace][above] / each[client][pace][below] for each in rounds)

    rows = []
    for client in rounds[0]:
        goal = "<= 1.2" if client == OURS else ""
        for pace, words in {"fast": "64 calls at once", "slow": "64 calls of 50 ms at once"}.items():
            name = f"{client}, {words}: time relative to no provider"
            rows.append(row(name, taken(client, pace, "with", "without"), "{:.2f}x", goal))
    for client in rounds[0]:
        refreshes = max(each[client][pace]["refreshes"] for each in rounds for pace in ("fast", "slow"))
        goal = "<= 1" if client == OURS else ""
        rows.append(row(f"{client}, 100 callers with an expired token: refreshes", refreshes, "{:.0f}", goal))
    against = statistics.median(each[SDK]["slow"]["expired"] / each[OURS]["slow"]["expired"] for each in rounds)
    rows.append(row("100 calls of 50 ms with an expired token: time of the SDK's client / of ours", against, "{:.1f}x"))
    return rows


def import_goals(imports: dict[str, float]) -> list[Goal]:
    rows = [
        row("import toolcrib", imports["toolcrib"], "{:.3f} s", "<= 0.15"),
        row("from toolcrib import Client, StdioServer", imports["toolcrib_client"], "{:.3f} s", "<= 0.15"),
        row("import asyncio, orjson (lower bound)", imports["floor"], "{:.3f} s"),
        row("from toolcrib import ToolServer", imports["toolcrib_server"], "{:.3f} s"),
    ]
    if "mcp" in imports:
        rows.append(row("import mcp", imports["mcp"], "{:.3f} s"))
        rows.append(row("import of the SDK's server", imports["mcp_server"], "{:.3f} s"))
        rows.append(row("import mcp / import toolcrib", imports["mcp"] / imports["toolcrib"], "{:.2f}x", ">= 5"))
        used = imports["mcp_client"] / imports["toolcrib_client"]
        rows.append(row("import of the SDK's client / of toolcrib's client", used, "{:.2f}x", ">= 5"))
    return rows


def memory_goals(idle: dict[str, float]) -> list[Goal]:
    return [
        row("idle connection: resident memory", idle["resident_kib"], "{:.0f} KiB", "< 200"),
        row("idle connection: Python allocations", idle["traced_kib"], "{:.0f} KiB"),
    ]


def noise(way: Way, rounds: list[Round]) -> str:
    """Return a warning if the bare client did not have the processors to itself."""
    bare = next(iter(way.clients))
    rates = [each[bare]["in_flight_rate"] for each in rounds]
    busy = statistics.median(each[bare]["in_flight_rate"] * each[bare]["in_flight_cpu"] for each in rounds)
    return warning(way.title, bare, rates, busy)


def warning(title: str, bare: str, figures: list[float], busy: float) -> str:
    """Return a warning if the bare implementation of a table varied too much or had too little processor time.

    On a quiet machine it is busy nearly all the time and equally fast in every round. Noise slows the bare
    implementation most, which makes the others look better than they are.
    """
    spread = max(figures) / min(figures)
    if spread < NOISY_SPREAD and busy > NOISY_SHARE:
        return ""
    return (
        f"!! NOISY: {title}: the {bare} varied {spread:.1f}-fold and had its processor {busy:.0%} of the time; "
        "these results are unreliable, run the benchmark again on a quiet machine"
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


def clients_tables(ways: dict[str, dict[str, dict[str, float]]], width: int) -> str:
    """Return one table of figures per way, with the same columns."""
    lines = []
    for title, clients in ways.items():
        lines.append([title, "p50 us", "p99 us", f"{width} in flight /s", "client cpu us/call", "connect..close ms"])
        for client, figure in clients.items():
            lines.append(
                [
                    f"  {client}",
                    f"{figure['sequential_p50'] * 1e6:.1f}",
                    f"{figure['sequential_p99'] * 1e6:.1f}",
                    f"{figure['in_flight_rate']:,.0f}",
                    f"{figure['in_flight_cpu'] * 1e6:.1f}",
                    f"{figure['lifecycle'] * 1e3:.1f}",
                ]
            )
        lines.append([""] * 6)
    return columns(lines)


def goals_tables(tables: dict[str, list[Goal]]) -> str:
    verdicts = {None: "", True: "ok", False: "MISSED"}
    lines = []
    for title, goals in tables.items():
        lines.append([title, "measured", "goal", ""])
        lines += [[f"  {goal.name}", goal.shown, goal.wanted, verdicts[goal.met]] for goal in goals]
        lines.append([""] * 4)
    return columns(lines)
