"""The official conformance suite against our client: every scenario of both eras, and the extensions that we have.

The suite passes a client that sent the right things. Whether it also understood what came back is in its own report.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kit import HERE, Played, assert_flawless, listed, play
from tests.conformance.scenarios import (
    EXTENSIONS,
    HANDSHAKE,
    MODERN,
    NOT_OURS,
    OF_REVISION,
    OLDEST,
    QUICK,
    UNJUDGED,
    Report,
)

CASES = [
    *((name, wire) for wire, table in OF_REVISION.items() for name in table),
    *((name, wire) for wire in (HANDSHAKE, MODERN) for name in EXTENSIONS),
]
SECRETS = ("test-token", "cc-token", "client-secret", "registered-secret", "auth-code", "PRIVATE KEY")


def case(name: str, wire: str) -> Any:
    return pytest.param(name, wire, marks=() if (name, wire) in QUICK else pytest.mark.slow, id=f"{wire}-{name}")


def expected_of(name: str, wire: str) -> Report:
    expected = {**OF_REVISION[wire], **EXTENSIONS}[name]
    agreed = {} if "error" in expected else {"version": MODERN if wire == MODERN else HANDSHAKE}
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


def play_in_time(scenario: str, wire: str, folder: Path, *options: str) -> Played:
    played = play(scenario, wire, folder / "first", *options)
    if played.named("WARNING") == ["ClientRespectsRetryField"]:
        # A little late (too early and too late are failures) may be the machine's load: there is a second try.
        played = play(scenario, wire, folder / "second", *options)
    return played


@pytest.mark.parametrize("scenario, wire", [case(*each) for each in CASES])
def test_the_client_passes(scenario: str, wire: str, tmp_path: Path) -> None:
    played = play_in_time(scenario, wire, tmp_path)

    assert_passed(played, scenario, wire)
    assert played.report["mode"] == "auto"


# ---- the same with what a user may have otherwise ------------------------------------------------------------------


TOLD = [
    *((name, HANDSHAKE, "legacy") for name in ("initialize", "tools_call", "sse-retry", "auth/metadata-default")),
    *((name, MODERN, MODERN) for name in ("tools_call", "sep-2322-client-request-state", "auth/metadata-default")),
]


@pytest.mark.slow
@pytest.mark.parametrize("scenario, wire, mode", TOLD)
def test_a_client_that_is_told_the_era_passes(scenario: str, wire: str, mode: str, tmp_path: Path) -> None:
    played = play_in_time(scenario, wire, tmp_path, "--mode", mode)

    assert_passed(played, scenario, wire)
    assert played.report["mode"] == mode


@pytest.mark.slow
@pytest.mark.parametrize(
    "scenario",
    ["auth/metadata-default", "auth/scope-step-up", "auth/pre-registration", *EXTENSIONS],
)
def test_the_client_passes_with_the_providers_of_the_sdk_1(scenario: str, tmp_path: Path) -> None:
    played = play(scenario, HANDSHAKE, tmp_path, environment="sdk1")

    assert_passed(played, scenario, HANDSHAKE)
    assert played.report["sdk"].startswith("1.")


# ---- nothing is forgotten ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", OF_REVISION)
def test_every_scenario_of_a_revision_is_played(wire: str) -> None:
    assert set(listed("--spec-version", wire)) == set(OF_REVISION[wire])


def test_every_extension_is_played_or_named_as_not_ours() -> None:
    extensions = {name for name, marks in listed().items() if "extension" in marks}

    assert extensions == {*EXTENSIONS, *NOT_OURS}


def test_the_numbers_are_those_that_the_suite_is_known_to_have() -> None:
    assert {wire: len(table) for wire, table in OF_REVISION.items()} == {HANDSHAKE: 19, MODERN: 33, OLDEST: 2}
    assert set(CASES) >= QUICK


def test_the_suite_is_pinned_without_the_name_of_a_host_that_serves_it() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text())
    package = json.loads((HERE / "package.json").read_text())

    assert package["dependencies"] == {"@modelcontextprotocol/conformance": "0.2.0-alpha.12"}
    assert lock["packages"]["node_modules/@modelcontextprotocol/conformance"]["version"] == "0.2.0-alpha.12"
    assert [name for name, entry in lock["packages"].items() if "resolved" in entry] == []
