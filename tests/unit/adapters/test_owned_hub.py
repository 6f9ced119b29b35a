"""A hub that is closed by its owner, with its last user, or at interpreter exit: no process is left."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import toolcrib as tc
from tests.unit.kit import eventually
from toolcrib.adapters import Toolbox
from toolcrib.adapters.owned_hub import OwnedHub
from toolcrib.sync.portal import portal

SERVER = """
import os, toolcrib
server = toolcrib.ToolServer("pids")
server.add_tool(os.getpid, name="pid")
server.run()
"""
PROGRAM = """
import sys, toolcrib
from toolcrib.adapters.owned_hub import OwnedHub
owned = OwnedHub({"pids": toolcrib.StdioServer(sys.executable, [sys.argv[1]])})
print(owned.hub.call_tool("mcp__pids__pid").text)
"""


@pytest.fixture
def server_file(tmp_path: Path) -> Path:
    file = tmp_path / "pid_server.py"
    file.write_text(SERVER)
    return file


@pytest.fixture
def config(server_file: Path) -> tc.StdioServer:
    return tc.StdioServer(sys.executable, [str(server_file)])


def pid_of(owned: OwnedHub) -> int:
    return int(owned.hub.call_tool("mcp__pids__pid").text)


def test_close_ends_the_processes_and_may_be_called_twice(config: tc.StdioServer) -> None:
    owned = OwnedHub({"pids": config})
    pid = pid_of(owned)
    owned.close()
    owned.close()
    assert not psutil.pid_exists(pid)
    with pytest.raises(tc.UsageError):
        owned.hub.list_tools()


def test_a_server_that_cannot_start_raises_and_leaves_no_process(config: tc.StdioServer) -> None:
    before = set(psutil.Process().children())
    with pytest.raises(tc.StartError, match="no-such-program"):
        OwnedHub({"pids": config, "broken": tc.StdioServer("no-such-program")})
    assert set(psutil.Process().children()) <= before


async def test_the_hub_is_closed_with_its_last_user(config: tc.StdioServer) -> None:
    owned = OwnedHub({"pids": config})
    pid = pid_of(owned)
    box = Toolbox(owned.hub)
    owned.close_with(box)
    del owned
    gc.collect()
    assert box.call_sync("mcp__pids__pid").text == str(pid)
    del box
    gc.collect()
    await eventually(lambda: not psutil.pid_exists(pid))


async def test_the_last_user_may_be_collected_on_the_thread_of_the_loop(config: tc.StdioServer) -> None:
    owned = OwnedHub({"pids": config})
    pid = pid_of(owned)
    users = [Toolbox(owned.hub)]
    owned.close_with(users[0])
    portal.do(users.clear)
    gc.collect()
    await eventually(lambda: not psutil.pid_exists(pid))


def test_the_interpreter_closes_what_the_program_left_open(server_file: Path) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM, server_file], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
    assert not psutil.pid_exists(int(run.stdout))


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_does_not_close_the_hub_of_its_parent(config: tc.StdioServer) -> None:
    owned = OwnedHub({"pids": config})
    box = Toolbox(owned.hub)
    owned.close_with(box)
    pid = os.fork()
    if pid == 0:  # the child
        del box
        gc.collect()
        owned.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert pid_of(owned) > 0
    owned.close()
