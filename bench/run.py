"""Runs all drivers in turn for several rounds and prints tables (or, with --json, every figure)."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import adapters, cli, hub, imports, provider, report, served
from bench.driving import REVISIONS, ROOT, in_turn, run_driver, say

SDK_PYTHON = ROOT / ".peers" / "sdk2" / "bin" / "python"
SDK1_PYTHON = ROOT / ".peers" / "sdk1" / "bin" / "python"
FRAMEWORKS = ROOT / ".peers" / "frameworks"
OVER = ["stdio", "json", "events", "direct", "served", "hub", "provider", "adapters", "cli"]
STDIO_GOALS = {
    ("in_flight_rate", report.SDK): ">= 8",
    ("in_flight_rate", report.RAW): ">= 0.5",
    ("sequential_p50", report.RAW): "<= 1.3",
}
JSON_GOALS = {
    ("in_flight_rate", report.SDK): ">= 8",
    ("in_flight_rate", report.AIOHTTP): ">= 0.75",
}


def ways(options: argparse.Namespace) -> list[report.Way]:
    """Return the tables: stdio, and HTTP with both kinds of answers in both eras. Peers run in the chosen era only."""
    own, sdk, mode = sys.executable, options.sdk_python, options.mode
    ours = {report.OURS: (own, "toolcrib_client")}
    peers = {report.SDK: (sdk, "sdk_client"), report.FASTMCP: (sdk, "fastmcp_client")} if sdk else {}
    found = []
    if "stdio" in options.over:
        pipes = {report.BARE: (own, "bare_descriptors"), report.RAW: (own, "raw_pipe")}
        clients = {**pipes, **ours, **peers}
        found.append(
            report.Way(f"stdio, {REVISIONS[mode]}", "stdio", mode, clients, STDIO_GOALS, ("pydantic", "aiohttp"))
        )
    for era in sorted(REVISIONS, key=lambda era: era != mode):
        clients = {report.AIOHTTP: (own, "bare_aiohttp"), **ours, **(peers if era == mode else {})}
        for over, words, goals in (("json", "JSON answers", JSON_GOALS), ("events", "event streams", {})):
            if over in options.over:
                title = f"HTTP, {words}, {REVISIONS[era]}"
                found.append(report.Way(title, over, era, clients, goals, ("pydantic",)))
    return found


def common(options: argparse.Namespace, mode: str) -> list[str]:
    arguments = [f"--server-python={sys.executable}", f"--mode={mode}"]
    arguments += [f"--seconds={options.seconds}", f"--warm-up={options.warm_up}"]
    return [*arguments, "--free"] if options.free else arguments


def measure_calls(way: report.Way, options: argparse.Namespace) -> list[report.Round]:
    arguments = [*common(options, way.mode), f"--over={way.over}"]
    arguments += [f"--in-flight={options.in_flight}", f"--lifecycles={options.lifecycles}"]
    timeout = 60 + 10 * options.seconds + 10 * options.lifecycles
    rounds = []
    for number in range(1, options.rounds + 1):
        say(f"{way.title}: round {number} of {options.rounds}")
        names = in_turn(way.clients, number)
        results = {name: run_driver(*way.clients[name], *arguments, timeout=timeout) for name in names}
        rounds.append({name: results[name] for name in way.clients})
    return rounds


def measure_oauth(options: argparse.Namespace) -> list[report.Round]:
    """Measure calls with OAuth providers, ours and the SDK's; return an empty list if the SDK is not installed."""
    rounds = []
    if options.sdk_python and "json" in options.over:
        for number in range(1, options.rounds + 1):
            say(f"OAuth: round {number} of {options.rounds}")
            arguments = common(options, options.mode)
            timeout = 60 + 20 * options.seconds
            rounds.append(run_driver(options.sdk_python, "oauth_calls", *arguments, timeout=timeout))
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
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each measurement of calls")
    parser.add_argument("--warm-up", type=int, default=200, help="calls before each measurement")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--lifecycles", type=int, default=5, help="cycles of connect, list, call, close per round")
    parser.add_argument("--imports", type=int, default=11, help="fresh interpreters per import")
    parser.add_argument("--idle", type=int, default=100, help="idle connections whose memory is measured")
    parser.add_argument("--sessions", type=int, default=1000, help="open sessions whose memory is measured")
    parser.add_argument("--servers", type=int, default=200, help="servers of the hub")
    parser.add_argument("--tools", type=int, default=50, help="tools per server of the hub, and of a framework")
    parser.add_argument("--provider-tools", type=int, default=5000, help="tools of the provider")
    parser.add_argument(
        "--mode", choices=["auto", "legacy"], default="auto", help="auto: 2026-07-28, legacy: 2025-11-25"
    )
    parser.add_argument(
        "--over",
        nargs="+",
        choices=OVER,
        default=OVER,
        help="parts to measure (default: all). Clients: stdio, json and events (HTTP); servers: direct (in process) "
        "and served (HTTP); hub; provider; adapters; cli",
    )
    parser.add_argument("--free", action="store_true", help="do not pin processes to processors")
    parser.add_argument("--sdk-python", default=str(SDK_PYTHON), help="an interpreter with mcp 2.x and fastmcp 4.x")
    parser.add_argument("--sdk1-python", default=str(SDK1_PYTHON), help="an interpreter with mcp 1.x, for its server")
    parser.add_argument("--frameworks", default=str(FRAMEWORKS), help="a folder with environments of agent frameworks")
    parser.add_argument("--json", action="store_true", help="print every figure of every round as JSON")
    parser.add_argument("--strict", action="store_true", help="exit with code 1 if a goal is missed")
    options = parser.parse_args()
    if not Path(options.sdk_python).exists():
        say(f"!! NOT MEASURED: the SDK, FastMCP and OAuth ({options.sdk_python} does not exist)")
        options.sdk_python = None
    if not Path(options.sdk1_python).exists():
        say(f"!! NOT MEASURED: the SDK 1.x ({options.sdk1_python} does not exist)")
        options.sdk1_python = None
    return options


def main() -> int:
    options = parse_options()
    figures: dict[str, Any] = {"ways": {}}
    goals: dict[str, list[report.Goal]] = {}
    for way in ways(options):
        rounds = measure_calls(way, options)
        noise = report.noise(way, rounds)
        figures["ways"][way.title] = {"clients": report.medians(rounds), "rounds": rounds, "noise": noise}
        goals[f"toolcrib over {way.title}"] = report.call_goals(way, rounds, options.in_flight)
    if oauth := measure_oauth(options):
        figures["oauth"] = oauth
        goals["with an OAuth provider"] = report.oauth_goals(oauth)
    if "stdio" in options.over:
        figures["idle"] = measure_idle(options.idle)
        goals["memory over stdio"] = report.memory_goals(figures["idle"])
    parts = [
        served.measure(options),
        hub.measure(options),
        provider.measure(options),
        adapters.measure(options),
        cli.measure(options),
    ]
    for part in parts:
        figures |= part.figures
        goals |= part.goals
    say("imports")
    figures["imports"] = imports.measure(sys.executable, options.sdk_python, options.imports)
    goals["imports"] = report.import_goals(figures["imports"])
    if options.json:
        print(json.dumps({**figures, "goals": {title: list(map(asdict, rows)) for title, rows in goals.items()}}))
    else:
        measured = {title: way["clients"] for title, way in figures["ways"].items()}
        warnings = [way["noise"] for way in figures["ways"].values() if way["noise"]]
        tables = [report.clients_tables(measured, options.in_flight)] if measured else []
        for part in parts:
            tables += part.tables
            warnings += part.warnings
        print(*tables, report.goals_tables(goals), *warnings, sep="\n")
    return 1 if options.strict and any(goal.met is False for rows in goals.values() for goal in rows) else 0
