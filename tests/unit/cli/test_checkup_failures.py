from __future__ import annotations

import pytest

from toolyard.cli.checkup.address import is_loopback
from toolyard.cli.checkup.failures import credentials_for, remedy_for
from toolyard.cli.checkup.findings import QUOTED, Checkup, Finding, Verdict, worst
from toolyard.cli.checkup.walk import STEPS, in_order
from toolyard.errors import AuthError


@pytest.mark.parametrize(
    "stderr, remedy",
    [
        ("Traceback...\nModuleNotFoundError: No module named 'mcp.server'", "install mcp.server into the Python"),
        ("Error: Cannot find module '/app/index.js'", "install /app/index.js"),
        ("npm error code E404\nnpm error 404 Not Found - GET https://example.com/x", "name of the npm package"),
        ("npm error code ETARGET\nnpm error notarget No matching version found", "no such version"),
        ("Error: listen EADDRINUSE: address already in use :::3000", "another port"),
        (
            "python3: can't open file '/data/server.py': [Errno 2] No such file or directory",
            "there is no /data/server.py",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data'", "there is no /data"),
        ("Error: GITHUB_PERSONAL_ACCESS_TOKEN not set", "under env, as ${GITHUB_PERSONAL_ACCESS_TOKEN}"),
        ("KeyError: 'API_KEY'", "under env, as ${API_KEY}"),
        ("error: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("usage: server [-h]\nserver: error: unrecognized arguments: --x", "correct args"),
        ("MAX_SIZE is 5\nboom", "it says why"),
        ("", "it says nothing"),
    ],
)
def test_what_a_server_wrote_before_it_ended_leads_to_a_remedy(stderr: str, remedy: str) -> None:
    assert remedy in remedy_for(stderr)


@pytest.mark.parametrize(
    "status, challenge, remedy",
    [
        (401, 'Bearer realm="x"', '"Bearer ${TOKEN}"'),
        (401, 'Bearer resource_metadata="https://example.com/x"', "OAuth"),
        (401, 'Basic realm="x"', '"Basic ${CREDENTIALS}"'),
        (401, None, '"Bearer ${TOKEN}"'),
        (403, 'Bearer error="insufficient_scope", scope="write"', "with the scope write"),
        (403, None, "that allow it"),
    ],
)
def test_the_credentials_that_a_server_wants_are_told_from_its_challenge(
    status: int, challenge: str | None, remedy: str
) -> None:
    assert remedy in credentials_for(AuthError("", status=status, challenge=challenge))


@pytest.mark.parametrize(
    "host, local",
    [("localhost", True), ("a.localhost", True), ("127.1.2.3", True), ("::1", True), ("10.0.0.1", False), ("x", False)],
)
def test_what_never_leaves_this_machine_is_told_by_its_host(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_the_gravest_verdict_counts() -> None:
    assert worst([]) is Verdict.FINE
    assert worst([Verdict.FINE, Verdict.SKIPPED]) is Verdict.SKIPPED
    assert worst([Verdict.BROKEN, Verdict.WARNING, Verdict.FINE]) is Verdict.BROKEN


def test_only_the_last_lines_of_a_server_are_quoted_and_its_secrets_are_not() -> None:
    checkup = Checkup("one", secrets=("hush",))
    checkup.broken("starts", "it ended", "mend it", quoted="\n".join(f"line {n} hush\n" for n in range(100)))
    lines = checkup.findings[0].quoted.splitlines()
    assert len(lines) == QUOTED
    assert lines[-1] == "line 99 <masked>"


def test_findings_are_sorted_as_the_table_of_steps_is() -> None:
    checkup = Checkup("one")
    for step in reversed(STEPS):
        checkup.fine(step, "")
    assert [each.step for each in in_order(checkup).findings] == list(STEPS)


def test_a_finding_for_programs_has_only_what_is_there() -> None:
    assert Finding("ends", Verdict.FINE, "x").to_dict() == {"step": "ends", "verdict": "ok", "text": "x"}
    whole = Finding("ends", Verdict.BROKEN, "x", "mend", 0.5, "said").to_dict()
    assert whole | {"seconds": 0.5, "fix": "mend", "quoted": "said"} == whole
