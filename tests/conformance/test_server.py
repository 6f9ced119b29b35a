"""The official conformance suite against our server: every scenario of both eras.

The suite passes a server that answers in the right form. Its notes have the answers: it is looked at
here. Answers that it does not note are tested in test_server_contents.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conformance.kit import WITHIN_ALL, Judged, JudgedRevision, assert_flawless, listed
from tests.conformance.scenarios import LEGACY, MODERN
from tests.conformance.server_scenarios import ABSENT, ANYTHING, NOTED, OF_REVISION, Seen, fits

pytestmark = pytest.mark.timeout(WITHIN_ALL + 60)  # the first test of a revision waits for all scenarios

CASES = [(name, wire) for wire, table in OF_REVISION.items() for name in table]
ONLY_MODERN_KEYS = {"resultType", "ttlMs", "cacheScope"}


def seen_by_name(judged: Judged) -> dict[str, list[Any]]:
    seen: dict[str, list[Any]] = {}
    for check in judged.checks:
        seen.setdefault(check["name"], []).append(check.get("details"))
    return seen


def results(judged: Judged) -> Iterator[dict[str, Any]]:
    """Every whole result that the suite noted."""
    for check in judged.checks:
        details = check.get("details") or {}
        body = details.get("responseBody") or details.get("response") or {}
        for result in (details.get("result"), body.get("result") if isinstance(body, dict) else None):
            if isinstance(result, dict):
                yield result


def assert_seen(judged: Judged, expected: Seen) -> None:
    """By what the suite noted: the right thing was said, asked or refused."""
    seen = seen_by_name(judged)
    for name, pattern in expected.items():
        patterns = list(pattern) if isinstance(pattern, tuple) else [pattern]
        found = seen.get(name, [])
        assert len(found) == len(patterns), f"{name}: {found}"
        for one, details in zip(patterns, found, strict=True):
            assert fits(one, details), f"{name}: {details}"


def assert_nothing_more_is_asked(judged: Judged, expected: Seen) -> None:
    """A pattern lets more keys pass; of questions there must be none that the scenario does not know."""
    seen = seen_by_name(judged)
    for name, pattern in expected.items():
        questions = pattern.get("result", {}).get("inputRequests") if isinstance(pattern, dict) else None
        if questions is not None:
            assert set(seen[name][0]["result"]["inputRequests"]) == set(questions)


def assert_of_its_era(judged: Judged, wire: str) -> None:
    """Each result says what its era wants said, and nothing that only the other era knows."""
    for result in results(judged):
        if wire == MODERN:
            assert result["resultType"] in ("complete", "input_required")
            assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "toolcrib-conformance"
        else:
            assert ONLY_MODERN_KEYS.isdisjoint(result)
            assert "_meta" not in result


@pytest.mark.parametrize("scenario, wire", [pytest.param(*each, id="-".join(reversed(each))) for each in CASES])
def test_the_server_passes(scenario: str, wire: str, judged_revision: Callable[[str], JudgedRevision]) -> None:
    judged = judged_revision(wire).scenarios[scenario]

    assert_flawless(judged)
    assert set(judged.named("INFO")) == NOTED.get(scenario, set())
    assert_seen(judged, OF_REVISION[wire][scenario])
    assert_nothing_more_is_asked(judged, OF_REVISION[wire][scenario])
    assert_of_its_era(judged, wire)


# ---- nothing is forgotten ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", OF_REVISION)
def test_every_server_scenario_of_a_revision_is_played_and_passed(
    wire: str, judged_revision: Callable[[str], JudgedRevision]
) -> None:
    judged = judged_revision(wire)

    assert judged.scenarios.keys() == OF_REVISION[wire].keys()
    assert judged.code == 0, judged.said


def test_what_is_not_played_is_an_extension_that_is_not_ours() -> None:
    played = {name for table in OF_REVISION.values() for name in table}
    left = {name: marks for name, marks in listed(side="server").items() if name not in played}

    assert {mark for marks in left.values() for mark in marks} == {"extension"}
    assert {name.partition("-")[0] for name in left if not name.startswith("sep-2640-skills")} == {"tasks"}


def test_the_numbers_of_server_scenarios_are_those_that_the_suite_is_known_to_have() -> None:
    assert {wire: len(table) for wire, table in OF_REVISION.items()} == {LEGACY: 33, MODERN: 40}


def test_a_pattern_distinguishes_right_from_wrong() -> None:
    pattern = {"a": [1, {"b": ANYTHING}], "c": ABSENT}

    assert fits(pattern, {"a": [1, {"b": None, "more": 2}], "d": 3})
    assert not fits(pattern, {"a": [1, {"b": None}], "c": None})
    assert not fits(pattern, {"a": [1, {}]})
    assert not fits(pattern, {"a": [1]})
    assert not fits(pattern, {"a": [True, {"b": 1}]})
    assert not fits(pattern, None)
