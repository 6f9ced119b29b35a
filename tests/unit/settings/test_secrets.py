"""Values from the environment reach the server and are never shown."""

from __future__ import annotations

import copy
import json
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from tests.unit.config.canary import CANARY, every_text_of
from tests.unit.settings.files import entry, write
from toolcrib import Client, Hub
from toolcrib.config import StdioServer
from toolcrib.errors import ToolcribError
from toolcrib.settings import load_settings

SECRETS: dict[str, dict[str, Any]] = {
    "args": {"command": "x", "args": ["--token=${SECRET}", "plain"]},
    "command": {"command": "${SECRET}"},
    "cwd": {"command": "x", "cwd": "/${SECRET}"},
    "env": {"command": "x", "env": {"A": "${SECRET}"}},
    "own env": {"command": "x", "args": ["${A}"], "env": {"A": "${SECRET}"}},
    "default": {"command": "x", "args": ["${NOPE:-${SECRET}}"]},
    "url": {"url": "https://h/${SECRET}/mcp"},
    "host": {"url": "https://${SECRET}.example.com/"},
    "query": {"url": "https://h/?key=${SECRET}"},
    "behind a variable": {"url": "${BASE}/mcp?key=canary-7f3a"},
    "headers": {"url": "https://h/", "headers": {"Authorization": "Bearer ${SECRET}"}},
    "ca": {"url": "https://h/", "ca": "/${SECRET}.pem", "client_cert": ["/${SECRET}", "/${SECRET}"]},
    "proxy": {"url": "https://h/", "proxy": "http://h/${SECRET}"},
    "python": {"python": "${SECRET}.py"},
    "wrong url": {"url": "${SECRET}"},
    "wrong header": {"url": "https://h/", "headers": {"A": "${SECRET}\n"}},
    "wrong arg": {"command": "x", "args": ["${SECRET}\u0000"]},
}


@pytest.mark.parametrize("kind", SECRETS)
async def test_what_stands_for_a_variable_is_shown_nowhere(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    file = write(tmp_path / ".mcp.json", {"mcpServers": {"s": SECRETS[kind]}})
    environ = {"SECRET": CANARY, "BASE": "https://h"}
    settings = load_settings(file, environ=environ)
    (found,) = settings.entries
    shown = [repr(settings), str(settings), repr(found), repr(found.config), str(settings.warnings)]
    shown += [every_text_of(found.error)] if found.error else [found.config.server_identifier]  # type: ignore[union-attr]
    hub = Hub.from_config(file, environ=environ)
    shown += [repr(hub), repr(hub.list_servers()), hub.explain("mcp__s__t")]
    assert [text for text in [*shown, caplog.text] if CANARY in text] == []
    assert found.error is None or kind.startswith("wrong")


def test_a_text_with_a_variable_is_shown_unexpanded_and_is_otherwise_the_text(tmp_path: Path) -> None:
    values = {"command": "x", "args": ["--token=${TOKEN}", "$${TOKEN}", "${HOME}"], "cwd": "${HOME}"}
    config = entry(tmp_path, values).config
    assert config is not None
    assert repr(config) == "StdioServer(command='x', args=['--token=${TOKEN}', '${TOKEN}', '${HOME}'], cwd='${HOME}')"
    assert config.server_identifier == "stdio:x:--token=${TOKEN}:${TOKEN}:${HOME}"
    assert config == StdioServer("x", ["--token=t0ken", "${TOKEN}", "/home-of-tests"], cwd="/home-of-tests")
    for twin in (pickle.loads(pickle.dumps(config)), copy.deepcopy(config)):
        assert twin == config and repr(twin) == repr(config)
    # The plain form is for others: it contains nothing of Toolcrib.
    plain = config.to_dict()
    assert plain["args"] == ["--token=t0ken", "${TOKEN}", "/home-of-tests"]
    assert {type(text) for text in (*plain["args"], plain["cwd"])} == {str}
    web = entry(tmp_path, {"url": "https://u:${TOKEN}@h/${TOKEN}?k=${TOKEN}"}).config
    assert repr(web) == "HttpServer(url='https://<masked>@h/${TOKEN}?k=<masked>')"


async def test_a_program_gets_what_stands_for_the_variable(tmp_path: Path) -> None:
    code = "import json, os, sys; json.dump([sys.argv[1:], os.getcwd()], open('said', 'w'))"
    values = {"command": sys.executable, "args": ["-c", code, "--token=${TOKEN}"], "cwd": "${FOLDER}"}
    file = write(tmp_path / ".mcp.json", {"mcpServers": {"s": values}})
    settings = load_settings(file, environ={"TOKEN": CANARY, "FOLDER": str(tmp_path)})
    with pytest.raises(ToolcribError) as caught:
        await Client(settings.servers["s"]).connect()
    assert json.loads((tmp_path / "said").read_text()) == [[f"--token={CANARY}"], str(tmp_path)]
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("key", ["command", "cwd"])
async def test_an_error_of_the_start_shows_no_variable(key: str, tmp_path: Path) -> None:
    values = {"command": sys.executable, key: "/nowhere/${TOKEN}"}
    file = write(tmp_path / ".mcp.json", {"mcpServers": {"s": values}})
    config = load_settings(file, environ={"TOKEN": CANARY}).servers["s"]
    with pytest.raises(ToolcribError, match=r"/nowhere/\$\{TOKEN\}") as caught:
        await Client(config).connect()
    assert CANARY not in every_text_of(caught.value)
