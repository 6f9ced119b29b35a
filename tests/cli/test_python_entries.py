"""A server that is a Python file: in settings, in a hub, for a client, on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import toolcrib as tc
from tests.cli.kit import run_cli
from toolcrib.settings import load_settings

TOOLS = """
import toolcrib as tc

server = tc.ToolServer("garden", "1.0")

@server.tool
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool
def shout(text: str) -> str:
    return text.upper()

if __name__ == "__main__":
    raise SystemExit("this is not for a hub")
"""


@pytest.fixture(autouse=True)
def _path_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's folder is put on the path of this process: not beyond the test."""
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    (tmp_path / "tools.py").write_text(TOOLS)
    file = tmp_path / "toolcrib.toml"
    file.write_text('[servers.garden]\npython = "tools.py"\nblocked_tools = ["shout"]\n')
    return file


async def test_a_hub_has_the_tools_of_the_file(settings: Path) -> None:
    async with tc.Hub.from_config(settings) as hub:
        assert [tool.name for tool in await hub.list_tools()] == ["mcp__garden__add"]
        assert (await hub.call_tool("mcp__garden__add", {"a": 2, "b": 3})).text == "5"


async def test_json_settings_know_the_key_too(settings: Path) -> None:
    file = settings.with_name(".mcp.json")
    file.write_text(json.dumps({"mcpServers": {"garden": {"python": "tools.py:server"}}}))
    async with tc.Hub.from_config(file) as hub:
        assert (await hub.call_tool("mcp__garden__shout", {"text": "hey"})).text == "HEY"


async def test_a_client_takes_a_file_directly(settings: Path) -> None:
    async with tc.Client(tc.PythonServer(str(settings.with_name("tools.py")))) as client:
        assert client.server_info is not None and client.server_info.name == "garden"
        assert (await client.call_tool("add", {"a": 1, "b": 1})).text == "2"


async def test_two_clients_of_one_file_meet_the_same_server(tmp_path: Path) -> None:
    file = tmp_path / "counting.py"
    file.write_text(
        "import toolcrib as tc\nserver = tc.ToolServer('c')\ncalls = []\n"
        "@server.tool\ndef count() -> int:\n    calls.append(1)\n    return len(calls)\n"
    )
    config = tc.PythonServer(str(file))
    async with tc.Client(config) as one, tc.Client(config) as other:
        assert [(await client.call_tool("count")).text for client in (one, other, one)] == ["1", "2", "3"]


async def test_a_connection_after_a_change_has_the_new_code(tmp_path: Path) -> None:
    file = tmp_path / "changing.py"
    text = "import toolcrib as tc\nserver = tc.ToolServer('c')\n@server.tool\ndef word() -> str:\n    return 'old'\n"
    file.write_text(text)
    async with tc.Client(tc.PythonServer(str(file))) as client:
        assert (await client.call_tool("word")).text == "old"
        file.write_text(text.replace("old", "new"))
        assert (await client.call_tool("word")).text == "old"
        await client.disconnect()
        assert (await client.call_tool("word")).text == "new"


async def test_a_changed_entry_is_followed(settings: Path) -> None:
    (settings.parent / "other.py").write_text(TOOLS.replace("add", "plus"))
    async with tc.Hub.from_config(settings) as hub:
        settings.write_text('[servers.garden]\npython = "other.py"\n')
        assert (await hub.reload()).changed == ("garden",)
        assert (await hub.call_tool("mcp__garden__plus", {"a": 2, "b": 3})).text == "5"


async def test_a_file_that_is_wrong_fails_alone(settings: Path) -> None:
    settings.write_text(settings.read_text() + '\n[servers.broken]\npython = "broken.py"\n')
    broken = settings.with_name("broken.py")
    broken.write_text("import toolcrib\n\nserver = toolcrib.ToolServer(\n")
    async with tc.Hub.from_config(settings) as hub:
        assert (await hub.call_tool("mcp__garden__add", {"a": 2, "b": 3})).text == "5"
        state = next(state for state in hub.list_servers() if state.name == "broken")
        error = state.last_error
        assert isinstance(error, tc.ConfigError)
        assert (error.file, error.line) == (str(broken), 3)
        assert str(error) == f"broken: {broken}:3: SyntaxError: '(' was never closed"


def test_reading_the_settings_runs_nothing(tmp_path: Path) -> None:
    file = tmp_path / "toolcrib.toml"
    file.write_text('[servers.s]\npython = "tools.py"\n')
    (tmp_path / "tools.py").write_text("raise AssertionError\n")
    assert load_settings(file).servers == {"s": tc.PythonServer(str(tmp_path / "tools.py"))}


def test_the_command_line_lists_and_calls_them(settings: Path) -> None:
    listed = run_cli("tools", cwd=settings.parent)
    assert (listed.code, [row[0] for row in listed.rows]) == (0, ["mcp__garden__add"]), listed.err
    called = run_cli("call", "mcp__garden__add", "a=2", "b=40", cwd=settings.parent)
    assert called.code == 0, called.err
    assert "42" in called.out


def test_the_command_line_says_what_is_wrong_with_a_file(settings: Path) -> None:
    settings.with_name("tools.py").write_text("import toolcrib as tc\n1 / 0\n")
    listed = run_cli("tools", cwd=settings.parent)
    assert listed.code == 3
    assert f"{settings.with_name('tools.py')}:2: ZeroDivisionError: division by zero" in listed.err
    assert "Traceback" not in listed.err


def test_output_of_an_in_process_server_is_not_part_of_the_answer(tmp_path: Path) -> None:
    chatty = TOOLS.replace("    return a + b", "    print('adding')\n    return a + b") + "\nprint('here I am')\n"
    (tmp_path / "tools.py").write_text(chatty)
    (tmp_path / "toolcrib.toml").write_text('[servers.garden]\npython = "tools.py"\n')
    listed = run_cli("tools", "--json", cwd=tmp_path)
    assert [tool["name"] for tool in listed.json] == ["mcp__garden__add", "mcp__garden__shout"]
    assert "here I am" in listed.err
    called = run_cli("call", "add", "a=1", "b=2", "--json", cwd=tmp_path)
    assert called.json["structuredContent"] == {"result": 3}
    assert "adding" in called.err
