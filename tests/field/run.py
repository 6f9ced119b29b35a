"""Run real servers from PyPI and npm: all of them in one hub with a cold package cache, then one after the other.

The hub comes first because it needs the empty cache; the single runs then start from what it has fetched. A server
that fails in the hub and works alone has failed because of the others.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil

import toolcrib as tc
from tests.field.servers import BROKEN, PUBLISHED_BEFORE, SERVERS, BrokenServer, FieldServer, fill_in

ROOT = Path(__file__).parents[2]
SINGLE_SECONDS = 300.0
HUB_SECONDS = 900.0
CALL_SECONDS = 60.0
CLOSE_SECONDS = 60.0
RUN_SECONDS = 2400.0
RUN_MARK = "TOOLCRIB_FIELD_RUN"
"""Environment variable of every server of a run: finds processes that were left behind."""
PASSED_ON = (
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_SYSTEM_CERTS",
    "npm_config_registry",
)
"""How this machine reaches the registries. Servers get no other variable of this process."""


@dataclass
class Answer:
    """The outcome of one call."""

    kind: str
    """"result", "tool error", "JSON-RPC error", or the name of an exception of Toolcrib."""
    text: str

    def meets(self, server: FieldServer) -> bool:
        if server.returns:
            return self.kind == "result" and server.returns in self.text
        return self.kind in ("result", "tool error", "JSON-RPC error")


@dataclass
class Report:
    """The observations of one server."""

    name: str
    package: str
    version: str
    needs: str = ""
    protocol_version: str = ""
    tools: int | None = None
    start_seconds_warm: float | None = None
    start_seconds_cold: float | None = None
    """In the hub with the cold cache, the download included."""
    ready_seconds_cold: float | None = None
    """From the start of the hub until this server was ready: `start_seconds_cold` and the time in the queue."""
    answer: Answer | None = None
    answer_in_hub: Answer | None = None
    doctor: str = ""
    doctor_says: list[str] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)


# ---- surroundings of a run -----------------------------------------------------------------------------------------


class Surroundings:
    """The folders, package caches and settings files of one run."""

    def __init__(self, folder: Path, caches: Path) -> None:
        self.folder = folder
        self.mark = secrets.token_hex(8)
        self.caches = {"UV_CACHE_DIR": str(caches / "uv"), "npm_config_cache": str(caches / "npm")}

    def write_settings(self, stage: str, servers: Iterable[FieldServer | BrokenServer]) -> Path:
        """Write an `.mcp.json` for `servers`, each with a new home folder, and return its path."""
        entries: dict[str, Any] = {}
        for server in servers:
            home = self.home_of(stage, server)
            _furnish(home)
            command, *args = fill_in(server.package.command, str(home))
            env = {**self._environment(home), **fill_in(dict(server.env), str(home))}
            entries[server.name] = {"command": command, "args": args, "env": env, "cwd": str(home)}
        file = self.folder / stage / ".mcp.json"
        file.write_text(json.dumps({"mcpServers": entries}, indent=2))
        return file

    def home_of(self, stage: str, server: FieldServer | BrokenServer) -> Path:
        return self.folder / stage / server.name

    def _environment(self, home: Path) -> dict[str, str]:
        env = {name: f"${{{name}}}" for name in PASSED_ON if name in os.environ}
        # The configuration files of uv and npm are in the real home folder, which the servers do not get.
        for name, file in (("npm_config_userconfig", ".npmrc"), ("UV_CONFIG_FILE", ".config/uv/uv.toml")):
            if (path := Path.home() / file).exists():
                env[name] = str(path)
        pins = {"UV_EXCLUDE_NEWER": PUBLISHED_BEFORE, "npm_config_before": PUBLISHED_BEFORE}
        return {**env, **pins, **self.caches, "HOME": str(home), RUN_MARK: self.mark}

    async def leftovers(self) -> list[psutil.Process]:
        """Return the processes of this run that are still there, after a moment to end."""
        found = _marked(self.mark)
        _, alive = await asyncio.to_thread(psutil.wait_procs, found, 10)
        return alive


def _furnish(home: Path) -> None:
    home.mkdir(parents=True)
    (home / "hello.txt").write_text("hello from the field\n")
    git = ["git", "-c", "user.name=field", "-c", "user.email=field@example.com", "-C", str(home / "repository")]
    subprocess.run(["git", "init", "--quiet", str(home / "repository")], check=True, timeout=30)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "first commit"], check=True, timeout=30)


def _marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(RUN_MARK) == mark:
                found.append(process)
    return found


# ---- one server alone ----------------------------------------------------------------------------------------------


async def run_single(server: FieldServer, file: Path, home: Path, report: Report) -> None:
    """Run doctor on the server, then start it, list its tools and make its call."""
    await _examine(server, file, report)
    settings = tc.load_settings(file)
    begin = time.monotonic()
    try:
        async with asyncio.timeout(SINGLE_SECONDS), tc.Client(settings.servers[server.name]) as client:
            report.tools = len(await client.list_tools())
            report.start_seconds_warm = time.monotonic() - begin
            report.protocol_version = client.server_info.protocol_version if client.server_info else ""
            report.answer = await _call(client, server.tool, server, home)
    except (tc.ToolcribError, TimeoutError) as error:
        report.unmet.append(f"alone: {_name_error(error)}")
        return
    if not report.tools:
        report.unmet.append("alone: no tools")
    _judge("alone", server, report.answer, report)


async def _call(caller: tc.Client | tc.Hub, tool: str, server: FieldServer, home: Path) -> Answer:
    try:
        result = await caller.call_tool(tool, fill_in(dict(server.arguments), str(home)), timeout=CALL_SECONDS)
    except tc.RemoteError as error:
        return Answer("JSON-RPC error", str(error))
    except tc.ToolcribError as error:
        return Answer(type(error).__name__, str(error))
    return Answer("tool error" if result.is_error else "result", result.text)


def _judge(where: str, server: FieldServer, answer: Answer, report: Report) -> None:
    if not answer.meets(server):
        expected = f"a result with {server.returns!r}" if server.returns else "an answer of the server"
        report.unmet.append(f"{where}: {server.tool}: expected {expected}, got {answer.kind}: {_shorten(answer.text)}")


async def _examine(server: FieldServer | BrokenServer, file: Path, report: Report) -> None:
    """Run `toolcrib doctor`. A slow start is not a defect: the server may have to be downloaded first."""
    code, said = await _run_doctor(server.name, file)
    if said is None:
        report.unmet.append(f"doctor: {code}")
        return
    report.doctor = said["verdict"]
    steps = [step for step in said["steps"] if step["verdict"] not in ("ok", "skipped")]
    report.doctor_says = [": ".join(filter(None, (s["step"], s["text"], s.get("fix", "")))) for s in steps]
    if isinstance(server, BrokenServer):
        fixes = "; ".join(step.get("fix", "") for step in steps)
        if report.doctor != "error" or server.fix not in fixes:
            report.unmet.append(f"doctor: expected error and the fix {server.fix!r}, got {report.doctor} and {fixes!r}")
    elif report.doctor == "error" or {step["step"] for step in steps} - {"starts"} != set(server.doctor_warns):
        expected = f"warnings for {', '.join(server.doctor_warns)}" if server.doctor_warns else "ok"
        got = "; ".join(report.doctor_says) or report.doctor
        report.unmet.append(f"doctor: expected {expected}, got {got}")


async def _run_doctor(name: str, file: Path) -> tuple[str, dict[str, Any] | None]:
    command = [sys.executable, "-m", "toolcrib", "doctor", name, "--config", str(file), "--json"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe)
    try:
        async with asyncio.timeout(SINGLE_SECONDS):
            out, err = await process.communicate()
    except TimeoutError:
        return f"no verdict within {SINGLE_SECONDS:.0f} s", None
    finally:
        if process.returncode is None:
            await _end(process)
    try:
        return "", next(each for each in json.loads(out)["servers"] if each["server"] == name)
    except (ValueError, KeyError, StopIteration):
        return f"exit code {process.returncode}: {_shorten(err.decode(errors='replace'))}", None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let doctor end its server first; kill it if that takes too long."""
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), 15)
    except TimeoutError:
        process.kill()
        await process.wait()


# ---- all servers in one hub ----------------------------------------------------------------------------------------


async def run_hub(servers: Sequence[FieldServer], place: Surroundings, reports: Mapping[str, Report]) -> float:
    """Start all servers in one hub, call all of them at the same time, and return the seconds that the start took."""
    hub = tc.Hub.from_config(place.write_settings("hub", servers), start_timeout=HUB_SECONDS)
    begin = time.monotonic()

    def on_ready(event: tc.events.ToolsChanged) -> None:
        report = reports[event.server]
        if report.ready_seconds_cold is None:
            report.ready_seconds_cold = time.monotonic() - begin
            say(f"  {report.ready_seconds_cold:6.1f} s  {event.server} is ready")

    def on_failure(event: tc.events.ConnectionFailed) -> None:
        say(f"  {time.monotonic() - begin:6.1f} s  {event.server} FAILED: {_name_error(event.error)}")
        reports[event.server].unmet.append(f"hub: {_name_error(event.error)}")

    hub.on(tc.events.ToolsChanged, on_ready)
    hub.on(tc.events.ConnectionFailed, on_failure)
    try:
        async with asyncio.timeout(HUB_SECONDS):
            await hub.start()
            took = time.monotonic() - begin
            for state in hub.list_servers():
                report = reports[state.name]
                report.start_seconds_cold = state.startup_seconds
                report.tools = len(state.tools)
                report.protocol_version = state.server_info.protocol_version if state.server_info else ""
            await asyncio.gather(*(_call_in_hub(hub, server, place, reports[server.name]) for server in servers))
            for state in hub.list_servers():
                if state.status.state is not tc.ConnectionState.CONNECTED and not reports[state.name].unmet:
                    text = f"hub: {state.status.state} after the call: {_name_error(state.last_error)}"
                    reports[state.name].unmet.append(text)
    finally:
        async with asyncio.timeout(CLOSE_SECONDS):
            await hub.close()
    return took


async def _call_in_hub(hub: tc.Hub, server: FieldServer, place: Surroundings, report: Report) -> None:
    tool = f"mcp__{server.name}__{server.tool}"
    report.answer_in_hub = await _call(hub, tool, server, place.home_of("hub", server))
    _judge("hub", server, report.answer_in_hub, report)


# ---- what is printed -----------------------------------------------------------------------------------------------


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _name_error(error: BaseException | None) -> str:
    return f"{type(error).__name__}: {_shorten(str(error))}" if error else "no error"


def _shorten(text: str, width: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _answer_cell(report: Report) -> str:
    answer = report.answer or report.answer_in_hub
    if answer is None:
        return "-"
    return answer.kind + (f" (needs {report.needs})" if report.needs and answer.kind != "result" else "")


def _table(reports: Iterable[Report]) -> str:
    head = ("", "server", "version", "protocol", "tools", "warm s", "cold s", "call", "doctor")
    rows = [
        (
            "✗" if each.unmet else "✓",
            each.name,
            each.version,
            each.protocol_version or "-",
            "-" if each.tools is None else str(each.tools),
            _seconds(each.start_seconds_warm),
            _seconds(each.start_seconds_cold),
            _answer_cell(each),
            each.doctor or "-",
        )
        for each in reports
    ]
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *rows))
    return "\n".join(lines)


# ---- a run ---------------------------------------------------------------------------------------------------------


async def run(options: argparse.Namespace) -> int:
    """Run everything that `options` ask for, print the table, and return the exit code."""
    chosen = [server for server in SERVERS if not options.only or server.name in options.only]
    broken = [server for server in BROKEN if not options.only or server.name in options.only]
    everything: list[FieldServer | BrokenServer] = [*chosen, *broken]
    reports = {
        each.name: Report(each.name, each.package.name, each.package.version, getattr(each, "needs", ""))
        for each in everything
    }
    hub_seconds: float | None = None
    async with _surroundings(cold=not options.skip_cold) as place:
        if chosen and not options.skip_cold:
            say(f"servers in one hub: {len(chosen)}, cold package cache, {os.cpu_count()} cores")
            try:
                hub_seconds = await run_hub(chosen, place, reports)
                say(f"  the start of the hub took {hub_seconds:.1f} s")
            except TimeoutError:
                for report in reports.values():
                    report.unmet.append(f"hub: not done within {HUB_SECONDS:.0f} s")
            await _expect_no_leftovers(place, reports)
        file = place.write_settings("single", everything)
        for at, server in enumerate(everything, 1):
            report = reports[server.name]
            say(f"[{at}/{len(reports)}] {server.name}: {' '.join(server.package.command)}")
            if isinstance(server, FieldServer):
                await run_single(server, file, place.home_of("single", server), report)
            else:
                await _examine(server, file, report)
            await _expect_no_leftovers(place, reports)
            for text in report.unmet:
                say(f"  ✗ {text}")
    print(_table(reports.values()))
    unmet = [f"{report.name}: {text}" for report in reports.values() for text in report.unmet]
    print(f"\nservers: {len(reports)}, expectations not met: {len(unmet)}", *unmet, sep="\n  ")
    if options.json:
        results = {
            "hub_seconds": hub_seconds,
            "servers": [asdict(reports[server.name]) for server in chosen],
            "broken": [asdict(reports[server.name]) for server in broken],
            "unmet": unmet,
        }
        Path(options.json).write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n")
    return 1 if unmet else 0


@contextlib.asynccontextmanager
async def _surroundings(*, cold: bool) -> AsyncIterator[Surroundings]:
    """Yield the surroundings of a run; afterwards end its processes and remove its folders."""
    with tempfile.TemporaryDirectory(prefix="toolcrib-field-", ignore_cleanup_errors=True) as folder:
        place = Surroundings(Path(folder), Path(folder, "cache") if cold else ROOT / ".peers/field")
        try:
            yield place
        finally:
            for process in _marked(place.mark):
                with contextlib.suppress(psutil.Error):
                    process.kill()


async def _expect_no_leftovers(place: Surroundings, reports: Mapping[str, Report]) -> None:
    for process in await place.leftovers():
        with contextlib.suppress(psutil.Error):
            owner = Path(process.environ()["HOME"]).name
            reports[owner].unmet.append(f"a process was left behind: {_shorten(' '.join(process.cmdline()), 80)}")
            process.kill()


async def _run_bounded(options: argparse.Namespace) -> int:
    """Run, and clean up on a time-out or a termination signal."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with asyncio.timeout(RUN_SECONDS):
        return await run(options)


def main() -> int:
    names = [*(each.name for each in SERVERS), *(each.name for each in BROKEN)]
    parser = argparse.ArgumentParser(prog="scripts/field", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAME", action="append", choices=names, help=f"one of: {', '.join(names)}")
    parser.add_argument("--skip-cold", action="store_true", help="no hub; packages are kept in .peers/field")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE, a path from the root of the project")
    options = parser.parse_args()
    if missing := [program for program in ("uvx", "npx", "git") if shutil.which(program) is None]:
        parser.error(f"not found on PATH: {', '.join(missing)}")
    try:
        return asyncio.run(_run_bounded(options))
    except TimeoutError:
        say(f"not done within {RUN_SECONDS:.0f} s")
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interrupted")
    return 1
