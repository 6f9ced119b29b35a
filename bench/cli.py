"""Measures the command line: whole processes, from start to exit, as a user at a terminal experiences them."""

import argparse
import json
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench import report
from bench.driving import ROOT, in_turn, say
from bench.report import FASTMCP, OURS, Goal, Outcome, Round, row

PYTHON, SERVER, IMPORTS = "bare python", "server's own start", "imports of toolcrib only"
TIMEOUT = 120.0
SERVER_COMMAND = [sys.executable, str(ROOT / "examples" / "demo_server.py")]
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}},
}

Start = Callable[[dict[str, str]], None]
"""Runs a command once in the given environment and returns when its output was received."""


@dataclass(frozen=True, eq=False)
class Task:
    """One table: a job for a command line, and the programs that do it; the first one does the least."""

    key: str
    title: str
    ways: dict[str, Start]
    goals: dict[str, str]
    """Name of the program that Toolcrib is compared with -> goal."""


# ---- commands -----------------------------------------------------------------------------------------------


def command(*words: str, says: str = "") -> Start:
    """Return a function that runs a process with piped output and exits if the output does not contain `says`."""

    def start(env: dict[str, str]) -> None:
        done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT, env=env, check=False)
        if done.returncode or says not in done.stdout:
            raise SystemExit(f"{shlex.join(words)} failed:\n{done.stdout}{done.stderr}")

    return start


def greet_server(env: dict[str, str]) -> None:
    """Start the server and read its first answer: the lower bound for every command that uses the server."""
    with subprocess.Popen(SERVER_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.write(json.dumps(HELLO).encode() + b"\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        server.kill()
    if b"protocolVersion" not in answer:
        raise SystemExit(f"{shlex.join(SERVER_COMMAND)} answered {answer!r}")


def beside(python: str, name: str) -> str:
    """Return the path of a command that is installed next to this interpreter."""
    return str(Path(python).with_name(name))


def tasks(options: argparse.Namespace) -> list[Task]:
    own, ours = sys.executable, beside(sys.executable, "toolcrib")
    helps = {PYTHON: command(own, "-c", "pass"), OURS: command(ours, "--help", says="doctor")}
    listed = {OURS: command(ours, "tools", "--", *SERVER_COMMAND, says="slow_count")}
    called = {OURS: command(ours, "call", "add", "a=2", "b=3", "--", *SERVER_COMMAND, says='"sum": 5')}
    if options.sdk_python:
        peer, server = beside(options.sdk_python, "fastmcp"), f"--command={shlex.join(SERVER_COMMAND)}"
        helps[FASTMCP] = command(peer, "--help", says="inspect")
        listed[FASTMCP] = command(peer, "list", server, says="slow_count")
        # FastMCP does not accept key=value arguments after --command: it takes the first one for the server.
        given = '--input-json={"a": 2, "b": 3}'
        called[FASTMCP] = command(peer, "call", server, "--target=add", given, says='"sum": 5')
    return [
        Task("help", "--help", helps, {FASTMCP: "<= 0.5"}),
        Task("tools", "tools of a stdio server", {**lower_bounds("tools"), **listed}, {}),
        Task("call", "call of a tool of a stdio server", {**lower_bounds("call"), **called}, {}),
    ]


def lower_bounds(module: str) -> dict[str, Start]:
    """Return the parts that every such command includes: the start of the server, and the imports."""
    program = f"import toolcrib.cli.app, toolcrib.cli.commands.{module}"
    return {SERVER: greet_server, IMPORTS: command(sys.executable, "-c", program)}


# ---- measurement ---------------------------------------------------------------------------------------------


def timed(start: Start, env: dict[str, str]) -> dict[str, float]:
    """Return the wall time and the processor time of a run, including its child processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    start(env)
    seconds, after = perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": seconds, "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}


def measure_task(task: Task, rounds: int, env: dict[str, str]) -> list[Round]:
    """Measure `rounds` rounds, after one run that only compiles the bytecode."""
    say(f"toolcrib {task.title}: compiling")
    for start in task.ways.values():
        start(env)
    found = []
    for number in range(1, rounds + 1):
        say(f"toolcrib {task.title}: round {number} of {rounds}")
        taken = {name: timed(task.ways[name], env) for name in in_turn(task.ways, number)}
        found.append({name: taken[name] for name in task.ways})
    return found


def measure_tasks(options: argparse.Namespace) -> dict[Task, list[Round]]:
    with tempfile.TemporaryDirectory(prefix="bench-") as compiled:
        # Installed packages are compiled; a source tree or a fresh environment may not be. A shared bytecode cache
        # makes all of them equal.
        env = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        return {task: measure_task(task, options.rounds, env) for task in tasks(options)}


# ---- report --------------------------------------------------------------------------------------------------


def beyond(rounds: list[Round], name: str) -> float:
    """Return the seconds beyond the time that the server alone needs until it answers."""
    return statistics.median(each[name]["seconds"] - each[SERVER]["seconds"] for each in rounds)


def goals(task: Task, rounds: list[Round]) -> list[Goal]:
    users = [name for name in (OURS, FASTMCP) if SERVER in task.ways and name in task.ways]
    rows = [row(f"{name}: time beyond the {SERVER}", beyond(rounds, name) * 1e3, "{:.0f} ms") for name in users]
    for name in task.ways:
        if name != OURS:
            value = report.ratio(rounds, "seconds", OURS, name)
            rows.append(row(f"time against {name}", value, "{:.2f}x", task.goals.get(name, "")))
    return rows


def table(task: Task, rounds: list[Round]) -> list[list[str]]:
    lines = [[f"toolcrib {task.title}", "ms", "cpu ms"]]
    for name in task.ways:
        medians = (statistics.median(each[name][metric] for each in rounds) for metric in ("seconds", "cpu"))
        lines.append([f"  {name}", *(f"{value * 1e3:.0f}" for value in medians)])
    return lines


def noise(task: Task, rounds: list[Round]) -> str:
    bare = next(iter(task.ways))
    busy = statistics.median(each[bare]["cpu"] / each[bare]["seconds"] for each in rounds)
    return report.warning(f"toolcrib {task.title}", bare, [each[bare]["seconds"] for each in rounds], busy)


def measure(options: argparse.Namespace) -> Outcome:
    """Measure the command line if `--over` includes it."""
    out = Outcome()
    if "cli" in options.over:
        found = measure_tasks(options)
        out.figures["cli"] = {task.key: rounds for task, rounds in found.items()}
        lines = []
        for task, rounds in found.items():
            out.goals[f"toolcrib {task.title}"] = goals(task, rounds)
            lines += [*table(task, rounds), [""] * 3]
            warning = noise(task, rounds)
            out.warnings += [warning] if warning else []
        out.tables.append(report.columns(lines))
    return out
