"""The official conformance suite against our client: every scenario of both eras, and the extensions that we have.

The suite passes a client that sent the right things. Whether it also understood what came back is in its own report.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kit import HERE, OWN, WITHIN_ALL, Played, PlayedRevision, assert_flawless, listed, play
from tests.conformance.scenarios import (
    EXTENSIONS,
    LEGACY,
    MODERN,
    NOT_OURS,
    OF_REVISION,
    OLDEST,
    QUICK,
    UNJUDGED,
    WITH_THE_SDK,
    Report,
)
from tests.peers.forking import ForkServer

pytestmark = pytest.mark.timeout(WITHIN_ALL + 60)  # the first test of a revision waits for all scenarios

CASES = [
    *((name, wire) for wire, table in OF_REVISION.items() for name in table),
    *((name, wire) for wire in (LEGACY, MODERN) for name in EXTENSIONS),
]
SECRETS = ("test-token", "cc-token", "client-secret", "registered-secret", "auth-code", "PRIVATE KEY")


def case(name: str, wire: str) -> Any:
    return pytest.param(name, wire, marks=() if (name, wire) in QUICK else pytest.mark.slow, id=f"{wire}-{name}")


def expected_of(name: str, wire: str) -> Report:
    expected = {**OF_REVISION[wire], **EXTENSIONS}[name]
    agreed = {} if "error" in expected else {"version": MODERN if wire == MODERN else LEGACY}
    return {"error": {}, "tasks_left": [], **agreed, **expected}


def assert_reported(played: Played, expected: Report) -> None:
    """By what the client says that it did and got; and it says that, no secrets, and nothing else."""
    assert played.report, played.client_stderr
    error = played.report.get("error", {})
    seen = {**played.report, "error": {key: value for key, value in error.items() if key in expected["error"]}}
    assert {key: seen.get(key) for key in expected} == expected, error
    assert played.client_stderr == ""
    assert not [secret for secret in SECRETS if secret in json.dumps(played.report)]


def assert_sent_once(played: Played) -> None:
    """By what the suite noted, where it did: no call but a refused one is sent again, and no refusal is without use."""
    notes = played.requests()
    if not notes:
        return
    refused = [note for note in played.answers() if note["statusCode"] in (401, 403)]
    calls = [note for note in notes if note["rpc"] == "tools/call"]
    refused_calls = [note for note in refused if note["rpc"] == "tools/call"]
    assert len(calls) - len(refused_calls) == len(played.report["calls"])
    if not played.report.get("error") and refused:
        assert len(refused) == max(played.report["authorised"], 1)


def assert_passed(played: Played, scenario: str, wire: str) -> None:
    assert_flawless(played, UNJUDGED.get(scenario, set()))
    assert_reported(played, expected_of(scenario, wire))
    assert_sent_once(played)


def is_late(played: Played) -> bool:
    """A little late (too early and too late are failures) may be the machine's load: there is a second try."""
    return played.named("WARNING") == ["ClientRespectsRetryField"]


@pytest.fixture
def play_alone(client_of: Callable[[str], ForkServer], tmp_path: Path) -> Callable[..., Played]:
    """Run a scenario in a revision in its own run of the suite."""

    def play_one(scenario: str, wire: str, mode: str = "auto", environment: str = OWN) -> Played:
        provider = "own" if environment == OWN else "sdk"
        played = play(scenario, wire, tmp_path / "first", client_of(environment), mode, provider)
        if is_late(played):
            return play(scenario, wire, tmp_path / "second", client_of(environment), mode, provider)
        return played

    return play_one


@pytest.mark.parametrize("scenario, wire", [case(*each) for each in CASES])
def test_the_client_passes(
    scenario: str,
    wire: str,
    played_revision: Callable[[str], PlayedRevision],
    play_alone: Callable[..., Played],
    pytestconfig: pytest.Config,
) -> None:
    if scenario in EXTENSIONS or pytestconfig.getoption("tier") == "quick":
        played = play_alone(scenario, wire)
    else:
        played = played_revision(wire).scenarios[scenario]
        if is_late(played):
            played = play_alone(scenario, wire)

    assert_passed(played, scenario, wire)
    assert played.report["mode"] == "auto"


@pytest.mark.slow
@pytest.mark.parametrize("wire", OF_REVISION)
def test_the_clients_of_a_revision_exit_as_they_report(
    wire: str, played_revision: Callable[[str], PlayedRevision]
) -> None:
    played = played_revision(wire)

    errors = [name for name, each in played.scenarios.items() if "error" in each.report]
    assert re.findall(r"^Client exited with code (.+)$", played.said, re.MULTILINE) == ["1"] * len(errors)
    assert "Client timed out" not in played.said


# ---- the same with what a user may have otherwise ------------------------------------------------------------------


TOLD = [
    *((name, LEGACY, "legacy") for name in ("initialize", "tools_call", "sse-retry", "auth/metadata-default")),
    *((name, MODERN, MODERN) for name in ("tools_call", "sep-2322-client-request-state", "auth/metadata-default")),
]


@pytest.mark.slow
@pytest.mark.parametrize("scenario, wire, mode", TOLD)
def test_a_client_with_a_fixed_era_passes(
    scenario: str, wire: str, mode: str, play_alone: Callable[..., Played]
) -> None:
    played = play_alone(scenario, wire, mode)

    assert_passed(played, scenario, wire)
    assert played.report["mode"] == mode


@pytest.mark.slow
@pytest.mark.parametrize("environment, version", [("sdk1", "1."), ("sdk2", "2.")])
@pytest.mark.parametrize(
    "scenario",
    ["auth/metadata-default", "auth/scope-step-up", "auth/pre-registration", *WITH_THE_SDK],
)
def test_the_client_passes_with_the_providers_of_the_sdk(
    scenario: str, environment: str, version: str, play_alone: Callable[..., Played]
) -> None:
    played = play_alone(scenario, LEGACY, environment=environment)

    assert_passed(played, scenario, LEGACY)
    assert played.report["sdk"].startswith(version)


# ---- nothing is forgotten ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("wire", OF_REVISION)
def test_every_scenario_of_a_revision_is_played(wire: str, played_revision: Callable[[str], PlayedRevision]) -> None:
    assert played_revision(wire).scenarios.keys() == OF_REVISION[wire].keys()


def test_every_extension_is_played_or_named_as_not_ours() -> None:
    extensions = {name for name, marks in listed().items() if "extension" in marks}

    assert extensions == {*EXTENSIONS, *NOT_OURS}


def test_the_numbers_are_those_that_the_suite_is_known_to_have() -> None:
    assert {wire: len(table) for wire, table in OF_REVISION.items()} == {LEGACY: 19, MODERN: 33, OLDEST: 2}
    assert set(CASES) >= QUICK


def test_the_suite_is_pinned_without_the_name_of_a_host_that_serves_it() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    package = json.loads((HERE / "package.json").read_text())

    assert package["dependencies"] == {"@modelcontextprotocol/conformance": "0.2.0-alpha.12"}
    assert lock["packages"]["node_modules/@modelcontextprotocol/conformance"]["version"] == "0.2.0-alpha.12"
    assert [name for name, entry in lock["packages"].items() if "resolved" in entry] == []
