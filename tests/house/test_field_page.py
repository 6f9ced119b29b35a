"""The page about the field test lists the servers that `scripts/field` runs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.field.servers import BROKEN, SERVERS

PAGE = (Path(__file__).parents[2] / "docs/explanation/field-test.md").read_text()


def test_the_page_lists_every_server_with_its_package_and_version() -> None:
    listed = re.findall(r"^\| (\S+) \| `(\S+)` (\S+) \|", PAGE, re.MULTILINE)
    assert listed == [(each.name, each.package.name, each.package.version) for each in SERVERS]


def test_the_page_lists_every_command_that_does_not_start() -> None:
    listed = set(re.findall(r"^\| `((?:uvx|npx) [^`]+)` \|", PAGE, re.MULTILINE))
    assert listed == {" ".join(each.package.command) for each in BROKEN}


def test_names_of_servers_are_unique_and_usable_in_tool_names() -> None:
    names = [each.name for each in (*SERVERS, *BROKEN)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in names)
