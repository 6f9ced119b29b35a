"""The first five minutes, as a person types them into a real terminal; the screens are what they read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.pictures import FOLDER, PICTURES, normal, said_in, taken
from tests.cli.shell import shell

pytestmark = pytest.mark.slow


def test_the_first_five_minutes(tmp_path: Path) -> None:
    with shell(tmp_path) as person:
        # Nothing is there, and the way on is.
        assert "toolcrib init" in person.run("toolcrib tools")
        assert "toolcrib.toml" in person.run("toolcrib init")
        assert "toolcrib add" in person.run("cat toolcrib.toml")

        assert "demo" in person.run("toolcrib add demo -- python3 demo_server.py")
        servers = person.run("toolcrib servers")
        assert re.search(r"demo +connected +2026-07-28 +5 ", servers)

        tools = person.run("toolcrib tools")
        assert re.search(r"mcp__demo__slow_count +\d+ +Counts slowly and reports progress\.", tools)
        assert "5 tools" in tools
        assert "mcp__demo__slow_count" in person.run("toolcrib tools --search 'count slowly'")

        # A bar moves while the tool works, and is gone when it has answered.
        person.type("toolcrib call slow_count steps=5 seconds=0.3")
        person.until(lambda text: re.search(r"counted to \d.*[━╸╺].*\d+%", text))
        answer = person.until(lambda text: text.endswith("\n$"))
        assert answer.splitlines()[-1] == "counted to 5"
        assert "%" not in answer
        assert '"sum": 5' in person.run("toolcrib call add a=2 b=3")

        # Misspelt words are reported with the right ones.
        assert "mcp__demo__slow_count" in person.run("toolcrib call slow_cuont")
        assert "expected integer" in person.run("toolcrib call slow_count steps=many")
        assert "allowed" in person.run("toolcrib explain slow_count")

        # A server that does not start, and what the doctor says of it.
        person.run("toolcrib add issues -- python3 issues_server.py")
        report = person.run("toolcrib doctor; echo left with $?")
        assert re.search(r"demo +✓ +settings +toolcrib\.toml:\d+", report)
        assert re.search(r"✓ +protocol +2026-07-28 \(modern era\): demo 1\.0\.0", report)
        assert re.search(r"✗ +starts +[<\d]+ m?s +its process exited with code 1", report)
        assert "| Error: the variable ISSUES_TOKEN is required" in report
        assert "fix: set ISSUES_TOKEN under env, as ${ISSUES_TOKEN}" in report
        assert "2 servers: 1 ok, 1 broken" in report
        assert report.endswith("left with 1")

        assert "issues" in person.run("toolcrib remove issues")
        assert person.run("toolcrib doctor; echo left with $?").endswith("left with 0")
        person.run("toolcrib remove demo")
        assert "mcp__demo__" not in person.run("toolcrib tools")


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_in_the_documents_show_what_a_terminal_shows_today(tmp_path: Path, name: str) -> None:
    kept = said_in((FOLDER / f"{name}.svg").read_text("utf-8"))
    now = taken(name, tmp_path / "home")
    assert normal(kept) == normal(said_in(now)), "scripts/pictures takes them anew"
    assert str(tmp_path) not in now
