"""`toolcrib tools`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.cli.kit import DEMO, GOODS, run_cli, show_cli, terminal, write_settings

DEMO_TOOLS = ["add", "echo", "slow_count", "fail", "greet"]


def test_tools_are_lines_of_name_tokens_and_description_where_a_program_reads(tmp_path: Path) -> None:
    ran = run_cli("tools", "--", *DEMO, cwd=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert [row[0] for row in ran.rows] == [f"mcp__demo_server__{name}" for name in DEMO_TOOLS]
    assert all(int(tokens) > 0 for _, tokens, _ in ran.rows)
    assert ran.rows[0][2] == "Adds two numbers."


def test_json_has_each_tool_whole_under_its_qualified_name(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": DEMO, "goods": GOODS})
    tools = run_cli("tools", "--json", cwd=tmp_path).json
    by_name = {tool["name"]: tool for tool in tools}
    add = by_name["mcp__demo__add"]
    assert (add["server"], add["original_name"]) == ("demo", "add")
    assert add["inputSchema"]["required"] == ["a", "b"] and add["outputSchema"] and add["tokens"] > 0
    assert "mcp__goods__typed" in by_name


def test_a_server_of_the_settings_can_be_chosen(tmp_path: Path) -> None:
    write_settings(tmp_path, {"demo": DEMO, "goods": GOODS})
    assert {row[0].split("__")[1] for row in run_cli("tools", "goods", cwd=tmp_path).rows} == {"goods"}


def test_a_search_returns_the_best_first_up_to_the_limit(tmp_path: Path) -> None:
    ran = run_cli("tools", "--search", "count slowly", "--limit", "1", "--", *DEMO, cwd=tmp_path)
    assert [row[0] for row in ran.rows] == ["mcp__demo_server__slow_count"]
    ran = run_cli("tools", "--search", "zebra", "--", *DEMO, cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "")


def test_the_schema_is_one_more_column_or_a_table_on_a_terminal(tmp_path: Path) -> None:
    ran = run_cli("tools", "--schema", "--", *DEMO, cwd=tmp_path)
    assert json.loads(ran.rows[0][3])["required"] == ["a", "b"]
    write_settings(tmp_path, {"goods": GOODS})
    screen = show_cli("tools", "--schema", cwd=tmp_path)
    assert screen.code == 0
    row = next(line.split() for line in screen.lines if line.startswith(" count"))
    assert row == ["count", "integer", "required"]
    assert "red|green" in screen.text and "array of string" in screen.text


def test_on_a_terminal_it_is_a_table_with_the_sum(tmp_path: Path) -> None:
    screen = show_cli("tools", "--", *DEMO, cwd=tmp_path)
    assert screen.code == 0
    lines = screen.text.splitlines()
    assert lines[1].split() == ["tool", "tokens", "what", "it", "does"]
    tokens = [int(line.split()[1]) for line in lines if line.startswith(" mcp__")]
    assert len(tokens) == 5 and lines[-1] == f"5 tools, about {sum(tokens)} tokens"


def test_nothing_to_list_is_said_to_a_person(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import toolcrib as tc\nserver = tc.ToolServer('a')\n", "utf-8")
    write_settings(tmp_path, {"a": {"python": "a.py"}})
    for words, told in (
        (("tools",), "no tools"),
        (("tools", "--search", "zebra"), "no tool matches 'zebra'"),
        (("resources",), "no resources"),
        (("prompts",), "no prompts"),
    ):
        screen = show_cli(*words, cwd=tmp_path)
        assert screen.code == 0
        assert screen.text == told


def test_a_tool_that_needs_approval_is_listed_and_one_that_is_denied_is_not(tmp_path: Path) -> None:
    (tmp_path / "toolcrib.toml").write_text(
        f'[hub]\nallowed_tools = ["mcp__demo__add"]\ndisallowed_tools = ["mcp__demo__fail"]\n'
        f"[servers.demo]\ncommand = {json.dumps(DEMO[0])}\nargs = [{json.dumps(DEMO[1])}]\n",
        "utf-8",
    )
    assert [row[0][11:] for row in run_cli("tools", cwd=tmp_path).rows] == ["add", "echo", "slow_count", "greet"]


def test_a_reader_of_only_the_first_line_causes_no_error(tmp_path: Path) -> None:
    script = f"{sys.executable} -m toolcrib tools --json -- {' '.join(DEMO)} | head -c 20; echo ${{PIPESTATUS[0]}}"
    with terminal("-c", script, cwd=tmp_path, program=("bash",)) as screen:
        assert screen.exit_code() == 0
    assert screen.text.endswith("0") and "Broken" not in screen.text and "Traceback" not in screen.text


def test_a_description_is_one_line_on_a_terminal_unless_all_of_it_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "import toolcrib as tc\nserver = tc.ToolServer('a')\n"
        "@server.tool(description='First sentence. Second one.')\ndef short() -> str: return ''\n"
        f"@server.tool(description={'word ' * 60!r})\ndef long() -> str: return ''\n",
        "utf-8",
    )
    write_settings(tmp_path, {"a": {"python": "a.py"}})
    screen = show_cli("tools", cwd=tmp_path, width=80)
    assert screen.code == 0
    assert next(line for line in screen.lines if "mcp__a__short" in line).endswith("   First sentence.")
    assert "Second" not in screen.text and screen.text.count("…") == 1
    assert all(line.startswith((" mcp__a__", " tool", " ─", "2 tools")) for line in screen.text.splitlines() if line)
    screen = show_cli("tools", "--long", cwd=tmp_path, width=80)
    assert screen.code == 0
    assert "Second one." in screen.text and screen.text.count("word") == 60
