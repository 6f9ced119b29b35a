"""Measures servers: calls within one process, `tools/call` over HTTP, memory of sessions."""

import argparse
import json
import statistics
import subprocess
import sys
from typing import Any

from bench import report
from bench.driving import REVISIONS, in_turn, run_driver, say
from bench.report import FASTMCP, OURS, SDK, Goal, Outcome, Round, row

PLAIN, ECHO, SHORT_SDK = "plain function, checked by pydantic", "bare ASGI echo", "mcp SDK, stateless JSON"
SDK1, SHORT_SDK1 = "mcp SDK 1.x", "mcp SDK 1.x, stateless JSON"
ASIDE = {"context": "with a Context", "thread": "sync, in a thread"}
"""Further ways of calling a Toolcrib server, shown for information."""
DIRECT_GOALS = {SDK: ">= 30", SDK1: ">= 30"}
SERVED_GOALS = {ECHO: ">= 0.5", SDK: ">= 8", SHORT_SDK: ">= 8", SDK1: ">= 8", SHORT_SDK1: ">= 8"}
SCALE = 1000
"""Sessions that the reported memory is scaled to, independent of the number that was opened."""
SATURATED = 0.9


# ---- in one process ------------------------------------------------------------------------------------------


def measure_direct(options: argparse.Namespace) -> list[Round]:
    """Return, for each round: library -> way of calling -> seconds."""
    makes = {PLAIN: (sys.executable, "plain"), OURS: (sys.executable, "toolcrib")}
    if options.sdk_python:
        makes |= {SDK: (options.sdk_python, "sdk"), FASTMCP: (options.sdk_python, "fastmcp")}
    if options.sdk1_python:
        makes[SDK1] = (options.sdk1_python, "sdk1")
    arguments = [f"--seconds={options.seconds / 4}", f"--warm-up={options.warm_up}"]
    rounds = []
    for number in range(1, options.rounds + 1):
        say(f"in one process: round {number} of {options.rounds}")
        found = {}
        for name in in_turn(makes, number):
            python, make = makes[name]
            found[name] = run_driver(python, "direct_calls", make, *arguments, timeout=60 + 2 * options.seconds)
        rounds.append({name: found[name] for name in makes})
    return rounds


def direct_goals(rounds: list[Round]) -> list[Goal]:
    rows = []
    for mode, revision in REVISIONS.items():
        taken = statistics.median(each[OURS][mode] for each in rounds)
        rows.append(row(f"call, {revision}: time", taken * 1e6, "{:.1f} us", "<= 40"))
        for name in rounds[0]:
            if name != OURS and mode in rounds[0][name]:
                value = report.ratio(rounds, mode, name, OURS)
                rows.append(row(f"  {name}: its time / toolcrib's", value, "{:.2f}x", DIRECT_GOALS.get(name, "")))
    return rows


def direct_noise(rounds: list[Round]) -> str:
    times = [each[PLAIN]["auto"] for each in rounds]
    return report.warning("in one process", PLAIN, times, 1.0)


def direct_table(rounds: list[Round]) -> list[list[str]]:
    shown = {**REVISIONS, **ASIDE}
    lines = [["in one process, us per call", *shown.values()]]
    for name, first in rounds[0].items():
        medians = {way: statistics.median(each[name][way] for each in rounds) for way in first}
        lines.append([f"  {name}", *(f"{medians[way] * 1e6:.1f}" if way in medians else "" for way in shown)])
    return lines


# ---- over HTTP -----------------------------------------------------------------------------------------------


def servers(options: argparse.Namespace) -> dict[str, dict[str, list[str]]]:
    """Return name in the table -> command and protocol eras; the first server does the least."""
    own, sdk, sdk1 = sys.executable, options.sdk_python, options.sdk1_python
    both, old = list(REVISIONS), ["legacy"]
    found = {
        ECHO: {"command": [own, "bare"], "modes": both},
        OURS: {"command": [own, "toolcrib"], "modes": both},
    }
    if sdk:
        found[SHORT_SDK] = {"command": [sdk, "sdk", "--plain"], "modes": both}
        found[SDK] = {"command": [sdk, "sdk"], "modes": both}
        found[FASTMCP] = {"command": [sdk, "fastmcp"], "modes": both}
    if sdk1:
        found[SHORT_SDK1] = {"command": [sdk1, "sdk1", "--plain"], "modes": old}
        found[SDK1] = {"command": [sdk1, "sdk1"], "modes": old}
    return found


def measure_served(options: argparse.Namespace) -> dict[str, Any]:
    """Return the rounds of each era, and the HTTP parser of each server."""
    every = servers(options)
    say(f"served over HTTP: {len(every)} servers, {options.rounds} rounds in each era")
    arguments = [f"--servers={json.dumps(every)}", f"--rounds={options.rounds}", f"--seconds={options.seconds / 2}"]
    arguments += [f"--connections={options.in_flight}", f"--warm-up={options.warm_up}"]
    arguments += ["--free"] if options.free else []
    timeout = 120 + len(every) * options.rounds * (10 + 2 * options.seconds)
    return {
        "rounds": run_driver(sys.executable, "served_calls", *arguments, timeout=timeout),
        "parsers": {name: parser_of(each["command"][0]) for name, each in every.items()},
    }


def parser_of(python: str) -> str:
    """Return the HTTP parser that uvicorn uses in this environment: `httptools` if it is installed."""
    done = subprocess.run([python, "-c", "import httptools"], check=False, capture_output=True, timeout=60)
    return "h11" if done.returncode else "httptools"


def served_goals(rounds: list[Round]) -> list[Goal]:
    rows = []
    for metric, words in {"rate": "calls/s", "server_cpu": "processor time of the server per call"}.items():
        for name in rounds[0]:
            if name != OURS:
                value = report.ratio(rounds, metric, OURS, name)
                goal = SERVED_GOALS.get(name, "") if metric == "rate" else ""
                rows.append(row(f"{words} against {name}", value, "{:.2f}x", goal))
    return rows


def served_noise(title: str, rounds: list[Round]) -> str:
    rates = [each[ECHO]["rate"] for each in rounds]
    share = statistics.median(each[ECHO]["rate"] * each[ECHO]["server_cpu"] for each in rounds)
    load = max(each[name]["busy"] for each in rounds for name in each)
    if load > SATURATED:
        return f"!! LIMITED: {title}: the load generator used {load:.0%} of its processor, so the servers may be faster"
    return report.warning(title, ECHO, rates, share)


def served_table(title: str, rounds: list[Round], parsers: dict[str, str]) -> list[list[str]]:
    lines = [[title, "calls/s", "server cpu us/call", "load generator cpu", "HTTP parser"]]
    for name in rounds[0]:
        rate, cpu, busy = (
            statistics.median(each[name][metric] for each in rounds) for metric in ("rate", "server_cpu", "busy")
        )
        lines.append([f"  {name}", f"{rate:,.0f}", f"{cpu * 1e6:.1f}", f"{busy:.0%}", parsers[name]])
    return lines


# ---- the memory of sessions ----------------------------------------------------------------------------------


def measure_sessions(options: argparse.Namespace) -> dict[str, Any]:
    """Return library -> bytes per idle session and per session with an open stream; the SDK opens fewer sessions."""
    say(f"memory of {options.sessions} sessions")
    makes = {OURS: (sys.executable, "toolcrib", options.sessions)}
    if options.sdk_python:
        makes[SDK] = (options.sdk_python, "sdk", max(options.sessions // 5, 1))
    return {
        name: run_driver(
            sys.executable, "session_memory", python, make, f"--sessions={sessions}", timeout=120 + 0.5 * sessions
        )
        for name, (python, make, sessions) in makes.items()
    }


def sessions_goals(sessions: dict[str, Any]) -> list[Goal]:
    rows = []
    for name, figure in sessions.items():
        for kind, words in {"idle": "", "open": ", each with its stream open"}.items():
            goal = "< 60" if name == OURS else ""
            rows.append(row(f"{name}: {SCALE:,} sessions{words}", figure[kind] * SCALE / 1e6, "{:.1f} MB", goal))
    return rows


# ---- all parts -----------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> Outcome:
    """Measure the parts for servers that `--over` includes."""
    out = Outcome()
    if "direct" in options.over:
        direct = out.figures["direct"] = measure_direct(options)
        out.goals["toolcrib in one process"] = direct_goals(direct)
        out.tables.append(report.columns([*direct_table(direct), [""] * 5]))
        out.warnings.append(direct_noise(direct))
    if "served" in options.over:
        served = out.figures["served"] = measure_served(options)
        lines = []
        for mode, revision in REVISIONS.items():
            title, rounds = f"served over HTTP, {revision}", served["rounds"][mode]
            out.goals[f"toolcrib {title}"] = served_goals(rounds)
            lines += [*served_table(title, rounds, served["parsers"]), [""] * 5]
            out.warnings.append(served_noise(title, rounds))
        out.tables.append(report.columns(lines))
        out.figures["sessions"] = measure_sessions(options)
        out.goals["memory of a server on HTTP, legacy era"] = sessions_goals(out.figures["sessions"])
    out.warnings = [warning for warning in out.warnings if warning]
    return out
