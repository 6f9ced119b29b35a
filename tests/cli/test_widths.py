"""What terminals of different widths show: names that can be copied, and texts that are broken at words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.kit import ROOT, show_cli, write_settings
from tests.cli.wordy_server import ABOUT, PROMPT, TOOL, URI

WORDY = {"python": str(ROOT / "tests/cli/wordy_server.py")}
SERVER = "arxiv-mcp-server"
FULL = f"mcp__{SERVER}__{TOOL}"
WHY = "something that nobody could have foreseen went wrong while the configuration was being read from the environment"
BROKEN = (sys.executable, "-c", f"import sys; sys.exit({WHY!r})")


def shown(*words: str, folder: Path, width: int) -> str:
    write_settings(folder, {SERVER: WORDY, "broken-by-something": BROKEN}).chmod(0o600)
    screen = show_cli(*words, cwd=folder, width=width, height=80)
    return screen.text


def on_one_line(text: str) -> str:
    """Return the text with line breaks replaced by spaces."""
    return " ".join(text.replace("  | ", " ").split())


def holds(text: str, name: str, width: int) -> bool:
    """Return whether the text has the unbroken name. The terminal breaks names that are wider than itself."""
    return name in text if len(name) <= width else name in text.replace("\n", "")


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_name_and_no_word_is_broken(tmp_path: Path, width: int) -> None:
    first = ABOUT.partition(". ")[0]
    tools = shown("tools", folder=tmp_path, width=width)
    assert holds(tools, FULL, width)
    assert first[:25] in tools
    assert WHY in on_one_line(tools)
    assert ABOUT in on_one_line(shown("tools", "--long", folder=tmp_path, width=width))
    servers = shown("servers", folder=tmp_path, width=width)
    assert all(word in servers for word in (SERVER, "broken-by-something", "connected", "failed"))
    assert WHY in on_one_line(servers)
    assert holds(shown("resources", folder=tmp_path, width=width), URI, width)
    prompts = shown("prompts", folder=tmp_path, width=width)
    assert holds(prompts, f"mcp__{SERVER}__{PROMPT}", width)
    assert "question= [language=]" in prompts
    explained = shown("explain", TOOL, folder=tmp_path, width=width)
    assert holds(explained, FULL, width)
    assert "allowed (no rule applies)" in on_one_line(explained)
    doctor = shown("doctor", folder=tmp_path, width=width)
    assert TOOL in doctor
    assert WHY in on_one_line(doctor)
    assert "its process exited with code 1 before it answered" in on_one_line(doctor)
    for text in (tools, servers, prompts, explained, doctor):
        assert "\N{REPLACEMENT CHARACTER}" not in text


def test_columns_that_matter_less_are_left_out_first(tmp_path: Path) -> None:
    headings = {
        width: shown("servers", folder=tmp_path, width=width).splitlines()[1].split() for width in (60, 80, 120)
    }
    assert headings[60] == ["server", "status", "tools", "tokens"]
    assert headings[80] == ["server", "status", "era", "tools", "prompts", "tokens"]
    assert headings[120][-2:] == ["start", "ms"]


def test_messages_are_wrapped_at_words(tmp_path: Path) -> None:
    screen = show_cli("tools", cwd=tmp_path, width=50)
    assert screen.code == 3
    assert (
        "`toolcrib init` writes a settings file; or name a server: toolcrib tools -- npx -y some-server"
        in on_one_line(screen.text)
    )
