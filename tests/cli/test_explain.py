"""`toolcrib explain`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.kit import DEMO, run_cli


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "toolcrib.toml").write_text(
        f"""
[hub]
allowed_tools = ["mcp__demo__add", "mcp__dead__*", "mcp__off__*"]
disallowed_tools = ["mcp__*__fail"]
[servers.demo]
command = {json.dumps(DEMO[0])}
args = [{json.dumps(DEMO[1])}]
blocked_tools = ["greet"]
[servers.dead]
command = {json.dumps(sys.executable)}
args = ["-c", "import sys; sys.exit('no key')"]
[servers.off]
command = "nothing"
disabled = true
""",
        "utf-8",
    )
    return tmp_path


@pytest.mark.parametrize(
    "name, told",
    [
        ("mcp__demo__add", "mcp__demo__add: allowed by allowed_tools: mcp__demo__add"),
        ("add", "mcp__demo__add: allowed by allowed_tools: mcp__demo__add"),
        ("mcp__demo__echo", "needs approval: not in allowed_tools"),
        ("mcp__demo__fail", "denied by disallowed_tools: mcp__*__fail"),
        ("mcp__nobody__fail", "denied by disallowed_tools: mcp__*__fail"),
        ("greet", "hidden by the"),
        ("mcp__demo__ad", "demo does not list this tool; did you mean 'mcp__demo__add'"),
        ("ad", "ad: there is no tool 'ad'; did you mean 'mcp__demo__add'"),
        ("zebra", "dead has not listed its tools yet; its status is failed"),
        (
            "mcp__dead__x",
            "dead has not listed its tools yet; its status is failed (the server's process exited with code 1",
        ),
        ("mcp__off__x", "off has not listed its tools yet; its status is disabled"),
        ("mcp__nobody__x", "does not begin with the name of a server of this hub"),
    ],
)
def test_the_deciding_rule_is_shown_for_existing_and_missing_tools(name: str, told: str, folder: Path) -> None:
    ran = run_cli("explain", name, cwd=folder)
    assert ran.code == 0 and told in ran.out and ran.err == ""


def test_a_server_given_on_the_command_line_can_be_explained(tmp_path: Path) -> None:
    ran = run_cli("explain", "echo", "--", *DEMO, cwd=tmp_path)
    assert ran.out == "mcp__demo_server__echo: allowed (no rule applies)\n"
    assert run_cli("explain", "--", *DEMO, cwd=tmp_path).err.startswith("error: no tool given")
