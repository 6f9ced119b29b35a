from __future__ import annotations

import shlex
import time

import pytest

from toolcrib.config import SecretMask
from toolcrib.config.launchers import parse_command
from toolcrib.diagnostics.causes import credentials_for, diagnose
from toolcrib.diagnostics.report import MAX_QUOTED_LINES, Finding, ServerReport, Verdict, worst
from toolcrib.diagnostics.runner import STEPS, in_order
from toolcrib.errors import AuthError


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
            "/data/server.py does not exist",
        ),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data'", "/data does not exist"),
        ("Error: GITHUB_PERSONAL_ACCESS_TOKEN not set", "under env, as ${GITHUB_PERSONAL_ACCESS_TOKEN}"),
        ("KeyError: 'API_KEY'", "under env, as ${API_KEY}"),
        ("error: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
        ("usage: server [-h]\nserver: error: unrecognized arguments: --x", "correct args"),
    ],
)
def test_what_a_server_wrote_before_it_ended_leads_to_a_remedy(stderr: str, remedy: str) -> None:
    found = diagnose(stderr)
    assert found is not None and remedy in found.fix


@pytest.mark.parametrize("stderr", ["MAX_SIZE is 5\nboom", ""])
def test_words_that_mean_nothing_known_lead_to_no_remedy(stderr: str) -> None:
    assert diagnose(stderr) is None


MCP_2 = (
    "ModuleNotFoundError: No module named 'mcp.server.fastmcp'. This is mcp 2.x, where FastMCP was renamed to MCPServer"
    " (from mcp.server.mcpserver import MCPServer) and other APIs changed; pin 'mcp<2' to keep running v1 code."
)
TOO_OLD = (
    "  x No solution found when resolving tool dependencies:\n"
    "  ╰─▶ Because the current Python version (3.11.7) does not satisfy Python>=3.14 and windows-mcp>=0.8.6 depends on"
    " Python>=3.14, we can conclude that windows-mcp>=0.8.6 cannot be used."
)
DOCKER_29 = (
    "docker: failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is correct and if"
    " the daemon is running: dial unix /var/run/docker.sock: connect: no such file or directory"
)


@pytest.mark.parametrize(
    "line, stderr, what, fix",
    [
        ("uvx thing", MCP_2, "written for version 1 of the mcp package", "uvx --with 'mcp<2' thing"),
        (
            "uvx --python 3.11 thing --a b",
            "ImportError: cannot import name 'McpError' from 'mcp.shared.exceptions' (/x/exceptions.py)",
            "version 2 is installed",
            "uvx --with 'mcp<2' --python 3.11 thing ...",
        ),
        ("uvx thing", "AttributeError: 'Server' object has no attribute 'list_tools'", "version 1", "--with 'mcp<2'"),
        ("python -m thing", MCP_2, "written for version 1", "install 'mcp<2' into the Python"),
        ("uvx thing", "ModuleNotFoundError: No module named 'mcp.server.mcpserver'", "version 2", "--with 'mcp>=2'"),
        ("uvx windows-mcp", TOO_OLD, "it needs Python 3.14 or newer", "uvx --python 3.14 windows-mcp"),
        ("uvx -p 3.11 windows-mcp", TOO_OLD, "Python 3.14", "uvx --python 3.14 windows-mcp"),
        (
            "pipx run windows-mcp",
            (
                "ERROR: Ignored the following versions that require a different python version: 0.6.5 Requires-Python"
                " >=3.13; 0.8.8 Requires-Python >=3.14\nERROR: No matching distribution found for windows-mcp"
            ),
            "Python 3.14",
            "pipx run --python 3.14 windows-mcp",
        ),
        (
            "python -m x",
            "ERROR: Package 'x' requires a different Python: 3.11.7 not in '>=3.12'",
            "Python 3.12",
            "use Python 3.12",
        ),
        (
            "uvx mysql-mcp-server",
            (
                "An executable named `mysql-mcp-server` is not provided by package `mysql-mcp-server`.\n"
                "The following executables are available:\n- mysql_mcp_server\n"
            ),
            "has no program mysql-mcp-server",
            "uvx --from mysql-mcp-server mysql_mcp_server",
        ),
        (
            "docker run -i x",
            "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "the Docker daemon is not running",
            "start Docker",
        ),
        ("docker run -i x", DOCKER_29, "the Docker daemon is not running", "start Docker"),
        (
            "docker run -i x",
            "docker: permission denied while trying to connect to the docker API at unix:///var/run/docker.sock",
            "no permission to use",
            "group docker",
        ),
        ("npx x", "[Redis Error] Error: connect ECONNREFUSED 127.0.0.1:6379\n  at y", "reach 127.0.0.1:6379", "start"),
        ("npx x", "Error: connect ECONNREFUSED ::1:27017", "cannot reach ::1:27017", "start the service at ::1:27017"),
        (
            "npx x",
            "Error: getaddrinfo ENOTFOUND db.internal\n errno: -3008",
            "cannot reach db.internal",
            "name db.internal",
        ),
        (
            "uvx x",
            'connection to server at "127.0.0.1", port 5432 failed: Connection refused',
            "cannot reach 127.0.0.1:5432",
            "start the service at 127.0.0.1:5432",
        ),
        (
            "uvx x",
            "HTTPConnectionPool(host='localhost', port=9200): Max retries exceeded with url: /",
            "cannot reach localhost:9200",
            "start",
        ),
        ("x", "dial tcp 10.1.2.3:443: connect: connection refused", "cannot reach 10.1.2.3:443", "start"),
        ("x", "dial tcp: lookup db.local on 127.0.0.53:53: no such host", "cannot reach db.local", "name db.local"),
        ("uvx x", "httpx.ConnectError: [Errno 111] Connection refused", "cannot reach a service", "its address"),
        (
            "npx x",
            (
                "npm error code ENOTFOUND\nnpm error request to https://registry.example/x failed, reason: getaddrinfo"
                " ENOTFOUND registry.example"
            ),
            "its package cannot be fetched",
            "check the network connection",
        ),
        (
            "npx mcp-remote",
            "Please authorize this client by visiting:\nhttps://auth.example/authorize?x=1\n",
            "waits for a sign-in at https://auth.example/authorize?x=1",
            "by hand in a terminal",
        ),
    ],
)
def test_the_cause_is_reported_with_the_command_that_works(line: str, stderr: str, what: str, fix: str) -> None:
    command, *args = shlex.split(line)
    found = diagnose(stderr, parse_command(command, args))
    assert found is not None
    assert what in found.what
    assert fix in found.fix


@pytest.mark.serial
def test_reading_a_long_hostile_text_is_quick() -> None:
    began = time.process_time()
    for piece in ("visit ", "connect to a ", "requires a different Python ", "An executable named a\n", "connecting"):
        diagnose(piece * 100_000)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    "status, challenge, remedy",
    [
        (401, 'Bearer realm="x"', '"Bearer ${TOKEN}"'),
        (401, 'Bearer resource_metadata="https://example.com/x"', "`toolcrib auth login NAME`"),
        (401, 'Bearer resource_metadata="https://example.com/x"', "auth="),
        (401, 'Basic realm="x"', '"Basic ${CREDENTIALS}"'),
        (401, None, '"Bearer ${TOKEN}"'),
        (401, 'Bearer realm="x"', "run `toolcrib auth login NAME` if the server uses OAuth; else"),
        (401, None, "run `toolcrib auth login NAME` if the server uses OAuth; else"),
        (403, 'Bearer error="insufficient_scope", scope="write"', "with the scope write"),
        (403, None, "that allow it"),
    ],
)
def test_the_credentials_that_a_server_wants_are_read_from_its_challenge(
    status: int, challenge: str | None, remedy: str
) -> None:
    assert remedy in credentials_for(AuthError("", status=status, challenge=challenge))


@pytest.mark.parametrize(
    "query, remedy",
    [
        ("?scope=read+write", "`toolcrib auth login NAME --scope read --scope write` signs you in again"),
        ("?scope=read+%24%28x%29", "--scope read --scope '$(x)'`"),
        ("", "`toolcrib auth login NAME --scope write` signs you in again"),
    ],
)
def test_all_scopes_are_requested_if_some_are_missing(query: str, remedy: str) -> None:
    challenge = 'Bearer error="insufficient_scope", scope="write"'
    error = AuthError("", status=403, challenge=challenge, authorization_url=f"https://example.com/authorize{query}")
    assert remedy in credentials_for(error)


def test_the_gravest_verdict_counts() -> None:
    assert worst([]) is Verdict.FINE
    assert worst([Verdict.FINE, Verdict.SKIPPED]) is Verdict.SKIPPED
    assert worst([Verdict.BROKEN, Verdict.WARNING, Verdict.FINE]) is Verdict.BROKEN


def test_only_the_last_lines_of_a_server_are_quoted_and_its_secrets_are_not() -> None:
    checkup = ServerReport("one", secrets=SecretMask(["hush"]))
    checkup.broken("starts", "it ended", "mend it", quoted="\n".join(f"line {n} hush\n" for n in range(100)))
    lines = checkup.findings[0].quoted.splitlines()
    assert len(lines) == MAX_QUOTED_LINES
    assert lines[-1] == "line 99 <masked>"


def test_findings_are_sorted_as_the_table_of_steps_is() -> None:
    checkup = ServerReport("one")
    for step in reversed(STEPS):
        checkup.fine(step, "")
    assert [each.step for each in in_order(checkup).findings] == list(STEPS)


def test_a_finding_for_programs_has_only_what_is_there() -> None:
    assert Finding("ends", Verdict.FINE, "x").to_dict() == {"step": "ends", "verdict": "ok", "text": "x"}
    whole = Finding("ends", Verdict.BROKEN, "x", "mend", 0.5, "said").to_dict()
    assert whole | {"seconds": 0.5, "fix": "mend", "quoted": "said"} == whole
