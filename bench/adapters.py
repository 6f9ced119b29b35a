"""Measures the toolbox against the hub below it, and native tools of agent frameworks against their own MCP clients."""

import argparse
import statistics
import sys
from pathlib import Path

from bench import report
from bench.driving import in_turn, run_driver, say
from bench.report import OURS, Goal, Outcome, Round, row

WAYS = {
    "hub": "hub.call_tool",
    "call": "Toolbox.call",
    "call_json": "Toolbox.call, arguments as JSON text",
    "hub_other_loop": "hub.call_tool from another loop, by asyncio",
    "other_loop": "Toolbox.call from another loop",
    "hub_sync": "hub.call_tool from a thread, by asyncio",
    "sync": "Toolbox.call_sync",
}
FRAMEWORKS = {
    "Strands": ("strands", "strands"),
    "Pydantic AI": ("pydantic_ai_mcp", "pydantic_ai"),
    "LangChain": ("langchain_mcp_adapters", "langchain"),
    "OpenAI Agents": ("openai_agents", "openai_agents"),
    "FastMCP proxy": ("fastmcp", "fastmcp"),
    "crewAI": ("crewai", "crewai"),
}
"""Title -> environment, as scripts/frameworks names it, and the name in the driver."""


def common(options: argparse.Namespace) -> list[str]:
    arguments = [f"--server-python={sys.executable}", f"--seconds={options.seconds}", f"--warm-up={options.warm_up}"]
    return [*arguments, f"--in-flight={options.in_flight}", *(["--free"] if options.free else [])]


def median(rounds: list[Round], first: str, second: str, way: str, metric: str) -> float:
    return statistics.median(each[first][second][way][metric] for each in rounds)


def micros(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f}" if seconds < 0.001 else f"{seconds * 1e6:,.0f}"


# ---- the toolbox ---------------------------------------------------------------------------------------------


def measure_toolbox(options: argparse.Namespace) -> list[Round]:
    """Return, for each round: server -> one call at a time, or many in flight -> way -> figures."""
    rounds = []
    for number in range(1, options.rounds + 1):
        say(f"toolbox: round {number} of {options.rounds}")
        timeout = 120 + 60 * options.seconds
        rounds.append(run_driver(sys.executable, "toolbox_calls", *common(options), timeout=timeout))
    return rounds


def overhead(rounds: list[Round], server: str, pace: str, way: str, metric: str) -> float:
    """Return the time of a call beyond that of the hub: within each round, then the median."""
    return statistics.median(each[server][pace][way][metric] - each[server][pace]["hub"][metric] for each in rounds)


def toolbox_goals(rounds: list[Round], width: int) -> list[Goal]:
    rows = []
    for server in rounds[0]:
        for metric, kind, goal in (
            ("min_wall", "quietest batches", "< 30"),
            ("min_cpu", "quietest batches, processor time", "< 30"),
            ("wall", "median", ""),
            ("cpu", "median, processor time", ""),
        ):
            value = overhead(rounds, server, "sequential", "call", metric) * 1e6
            rows.append(row(f"{server}: time beyond hub.call_tool, {kind}", value, "{:.1f} us", goal))
        value = overhead(rounds, server, "in_flight", "call", "min_cpu") * 1e6
        rows.append(row(f"{server}, {width} in flight: processor time beyond hub.call_tool", value, "{:.1f} us"))
    for server in rounds[0]:
        for way in ("other_loop", "sync"):
            figures = [each[server]["sequential"] for each in rounds]
            value = statistics.median(each[way]["min_cpu"] / each[f"hub_{way}"]["min_cpu"] for each in figures)
            rows.append(row(f"{server}: processor time of {WAYS[way]} / of {WAYS[f'hub_{way}']}", value, "{:.2f}x"))
    return rows


def toolbox_table(rounds: list[Round], width: int) -> list[list[str]]:
    lines = []
    for server in rounds[0]:
        title = f"toolbox, server {'in process' if server == 'in process' else 'over stdio'}"
        lines.append([title, "us", "quietest us", "cpu us", "cpu / hub", f"{width} in flight: us/call", "cpu us/call"])
        for way, words in WAYS.items():
            one = (median(rounds, server, "sequential", way, metric) for metric in ("wall", "min_wall", "min_cpu"))
            many = (median(rounds, server, "in_flight", way, metric) for metric in ("min_wall", "min_cpu"))
            against = statistics.median(
                each[server]["sequential"][way]["min_cpu"] / each[server]["sequential"]["hub"]["min_cpu"]
                for each in rounds
            )
            lines.append([f"  {words}", *map(micros, one), f"{against:.2f}x", *map(micros, many)])
        lines.append([""] * len(lines[0]))
    return lines


# ---- the frameworks ------------------------------------------------------------------------------------------


def measure_frameworks(options: argparse.Namespace) -> list[Round]:
    """Return, for each round: framework -> kind of figures -> way -> figures. Those not installed are left out."""
    found = {}
    for title, (environment, name) in FRAMEWORKS.items():
        python = Path(options.frameworks) / environment / "bin" / "python"
        if python.exists():
            found[title] = (str(python), name)
        else:
            say(f"!! NOT MEASURED: {title}. Install it with `bash scripts/frameworks {environment}`")
    arguments = [*common(options), f"--tools={options.tools}"]
    rounds = []
    for number in range(1, options.rounds + 1 if found else 1):
        taken = {}
        for title in in_turn(found, number):
            say(f"{title}: round {number} of {options.rounds}")
            python, name = found[title]
            timeout = 180 + 60 * options.seconds
            taken[title] = run_driver(python, "framework_calls", name, *arguments, timeout=timeout)
        rounds.append({title: taken[title] for title in found})
    return rounds


def against_ours(rounds: list[Round], title: str, kind: str, way: str, metric: str) -> float:
    """Return the time of another way / the adapter's: within each round, then the median."""
    return statistics.median(each[title][kind][way][metric] / each[title][kind][OURS][metric] for each in rounds)


def framework_goals(rounds: list[Round], width: int) -> list[Goal]:
    kinds = {"sequential": "a call", "in_flight": f"a call of {width} in flight", "list": "a list"}
    return [
        row(f"{title}: {words} with its {way} / with toolcrib, {metric_words}", value, "{:.1f}x")
        for title in rounds[0]
        for kind, words in kinds.items()
        for way in rounds[0][title][kind]
        if not way.startswith(OURS)
        for metric, metric_words in (("min_wall", "time"), ("min_cpu", "processor time"))
        for value in [against_ours(rounds, title, kind, way, metric)]
    ]


def framework_table(rounds: list[Round], width: int, tools: int) -> list[list[str]]:
    lines = []
    for title in rounds[0]:
        figures = rounds[0][title]
        head = [title, "us", "quietest us", "cpu us", "cpu / toolcrib", f"{width} in flight: us/call", "cpu us/call"]
        lines.append([*head, f"list of {tools}: us", "cpu us"])
        for way in figures["sequential"]:
            one = (median(rounds, title, "sequential", way, metric) for metric in ("wall", "min_wall", "min_cpu"))
            against = against_ours(rounds, title, "sequential", way, "min_cpu")
            cells = [f"  {way}", *map(micros, one), f"{against:.2f}x"]
            for kind in ("in_flight", "list"):
                values = (median(rounds, title, kind, way, metric) for metric in ("min_wall", "min_cpu"))
                cells += map(micros, values) if way in figures[kind] else ["-", "-"]
            lines.append(cells)
        lines.append([""] * len(lines[0]))
    return lines


def measure(options: argparse.Namespace) -> Outcome:
    """Measure the adapters if `--over` includes them."""
    out = Outcome()
    if "adapters" in options.over:
        width = options.in_flight
        toolbox, frameworks = measure_toolbox(options), measure_frameworks(options)
        out.figures["adapters"] = {"toolbox": toolbox, "frameworks": frameworks}
        out.goals["toolcrib toolbox"] = toolbox_goals(toolbox, width)
        out.tables.append(report.columns(toolbox_table(toolbox, width)))
        bare = [each["in process"]["sequential"]["hub"]["wall"] for each in toolbox]
        noise = report.warning("toolbox, server in process", "hub", bare, 1.0)
        out.warnings += [noise] if noise else []
        if frameworks:
            out.goals["agent frameworks"] = framework_goals(frameworks, width)
            out.tables.append(report.columns(framework_table(frameworks, width, options.tools)))
    return out
