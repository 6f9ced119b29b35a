"""A server's process: its environment, its group, its last output, and its end, with real processes."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kit import eventually
from tests.unit.transports.children import alive, python
from toolcrib.errors import StartError
from toolcrib.transports.stdio import process
from toolcrib.transports.stdio import watchdog as guarding
from toolcrib.transports.stdio.process import INHERITED, STDERR_KEPT, ServerProcess, Tail, environment
from toolcrib.transports.stdio.watchdog import Watchdog, guard

READY = "import os, signal, sys, time\nprint('ready', flush=True)\n"
POLITE = READY + "sys.stdin.read()"
DEAF = READY + "time.sleep(1000)"
STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + DEAF
LEAVES_BEHIND = """
import os, signal, sys, time
if os.fork() == 0:
    MANNERS
    print(os.getpid(), flush=True)
    time.sleep(1000)
sys.stdin.read()
"""

Spawn = Callable[..., Any]
WATCHES = ["as it is", "no pidfd", "pidfd refused"]


@pytest.fixture
async def spawn() -> AsyncIterator[Spawn]:
    """Start a Python with this code and wait for its first line."""
    made: list[ServerProcess] = []

    async def start(code: str, **options: Any) -> ServerProcess:
        command, *args = python(code)
        options = {"env": None, "cwd": None, "on_exit": lambda: None, **options}
        child = ServerProcess.spawn(command, args, **options)
        made.append(child)
        await eventually(child.stdout.read)
        return child

    yield start
    for child in made:
        await child.stop(force=True)
        child.release()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give processes little time, so that the tests need little."""
    for name in ("SHUTDOWN_GRACE_SECONDS", "FORCED_GRACE_SECONDS", "GROUP_GRACE_SECONDS"):
        monkeypatch.setattr(process, name, 0.1)


@pytest.fixture(params=WATCHES)
def watch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way to detect a child's end: some builds of Python have no pidfds, and some kernels refuse them."""
    if request.param == "no pidfd":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    elif request.param == "pidfd refused":

        def refused(*args: Any) -> int:
            raise OSError(errno.ENOSYS, "not here")

        monkeypatch.setattr(os, "pidfd_open", refused, raising=False)


# ---- environment ---------------------------------------------------------------------------------------------


def test_a_child_inherits_few_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "s3cret")
    monkeypatch.setenv("HOME", "/nowhere")
    assert INHERITED == ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
    assert set(environment(None)) <= set(INHERITED)
    assert environment(None)["HOME"] == "/nowhere"


def test_what_the_config_gives_is_added_and_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    given = {"TERM": "xterm", "API_KEY": "k"}
    assert environment(given)["TERM"] == "xterm"
    assert environment(given)["API_KEY"] == "k"
    assert given == {"TERM": "xterm", "API_KEY": "k"}


def test_a_variable_that_defines_a_shell_function_stays_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "() { :; }; echo owned")
    assert "TERM" not in environment(None)


async def test_the_child_sees_exactly_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_TOKEN", "s3cret")
    child = ServerProcess.spawn("env", [], env={"GIVEN": "yes"}, cwd=None, on_exit=lambda: None)
    await eventually(lambda: child.exit_code is not None)
    seen = dict(line.split("=", 1) for line in child.stdout.read().decode().splitlines())
    seen.pop("_", None)  # some shells and libraries put their own there
    await child.stop()
    child.release()
    assert seen == environment({"GIVEN": "yes"})


async def test_it_runs_in_its_directory_and_in_its_own_session(spawn: Spawn, tmp_path: Path) -> None:
    child = await spawn(POLITE, cwd=str(tmp_path))
    assert psutil.Process(child.pid).cwd() == str(tmp_path)
    assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid


# ---- how it does not begin -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, cwd, message",
    [
        ("no-such-command-anywhere", None, "command not found: 'no-such-command-anywhere'; install it"),
        ("npx -y foo", None, "command not found: 'npx -y foo'; use 'npx' as command, and put the rest into args"),
        ("/no such folder/server", None, "command not found: '/no such folder/server'; install it"),
        ("TMP/plain", None, "check the file's permissions"),
        ("TMP/nonsense", None, "could not be started: .*Exec format error"),
        ("cat", "/no/such/folder", "'/no/such/folder' does not exist; check `cwd`"),
        ("a\0b", None, "could not be started"),
    ],
    ids=["missing", "command line", "missing path", "not executable", "no program", "no directory", "NUL"],
)
async def test_a_child_that_cannot_be_started_is_reported_with_what_to_do_and_not_tried_again(
    command: str, cwd: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("no program")
    (tmp_path / "nonsense").write_text("no program")
    (tmp_path / "nonsense").chmod(0o755)
    before = len(psutil.Process().children())
    with pytest.raises(StartError, match=message) as caught:
        ServerProcess.spawn(command.replace("TMP", str(tmp_path)), [], env=None, cwd=cwd, on_exit=lambda: None)
    assert not caught.value.sent
    assert caught.value.permanent
    assert len(psutil.Process().children()) == before


async def test_the_path_of_the_config_decides_where_a_command_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "my-server").write_text("#!/bin/sh\necho ready; cat\n")
    (tmp_path / "my-server").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    child = ServerProcess.spawn("my-server", [], env={"PATH": path}, cwd=None, on_exit=lambda: None)
    await eventually(child.stdout.read)
    await child.stop()
    child.release()
    assert child.exit_code == 0


class Interrupt(BaseException):
    """A `BaseException`, like `KeyboardInterrupt`."""


class Interrupted(Watchdog):
    """The signal arrives when the watchdog has just been given the child."""

    def watch(self, group: int) -> None:
        super().watch(group)
        self.group = group
        raise Interrupt


async def test_a_start_that_is_interrupted_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, living, descriptors = Interrupted(), set(process._living), len(os.listdir("/dev/fd"))
    monkeypatch.setattr(process, "guard", mine)
    with pytest.raises(Interrupt):
        ServerProcess.spawn("sleep", ["1000"], env=None, cwd=None, on_exit=lambda: None)
    groups = set(mine._groups)
    mine.detach()
    assert not psutil.pid_exists(mine.group)
    assert len(os.listdir("/dev/fd")) <= descriptors
    assert process._living == living
    assert groups == set(), "the id of its group may soon be reused"


async def test_without_a_guard_a_server_starts_and_ends_as_ever(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "guard", Watchdog())
    monkeypatch.setattr(guarding, "_SCRIPT", "exit 3")
    child = await spawn(POLITE)
    assert "watchdog could not be started" in caplog.text
    await child.stop()
    child.release()
    assert child.exit_code == 0


# ---- how it ends ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("watch")
@pytest.mark.parametrize("code, status", [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9)])
async def test_its_own_end_is_reported_once_with_the_exit_code(spawn: Spawn, code: str, status: int) -> None:
    exits: list[int] = []
    child = await spawn(READY + code, on_exit=lambda: exits.append(1))
    await eventually(lambda: exits)
    assert child.exit_code == status
    await child.stop()
    assert exits == [1]


@pytest.mark.usefixtures("watch")
async def test_a_program_that_ignores_the_ends_of_its_children_learns_of_this_one(spawn: Spawn) -> None:
    """The kernel then keeps no exit code, and waiting for the child is an error."""
    exits: list[int] = []
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        child = await spawn(READY + "sys.exit(3)", on_exit=lambda: exits.append(1))
        await eventually(lambda: exits)
        await child.stop()
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert exits == [1]


@pytest.mark.usefixtures("watch")
@pytest.mark.parametrize("watch", WATCHES[1:], indirect=True)
def test_a_child_that_outlives_the_event_loop_ends_without_trouble() -> None:
    async def start() -> ServerProcess:
        return ServerProcess.spawn("cat", [], env=None, cwd=None, on_exit=lambda: None)

    child = asyncio.run(start())
    (waiting,) = (thread for thread in threading.enumerate() if thread.name == f"toolcrib-wait-{child.pid}")
    child.kill()
    waiting.join(10)  # if it raises, pytest reports it
    child.release()
    assert child not in process._living


@pytest.mark.usefixtures("impatient", "watch")
@pytest.mark.parametrize(
    "code, status",
    [(POLITE, 0), (DEAF, -signal.SIGTERM), (STUBBORN, -signal.SIGKILL)],
    ids=["polite", "deaf", "stubborn"],
)
async def test_closing_ends_stdin_then_terminates_then_kills(spawn: Spawn, code: str, status: int) -> None:
    child = await spawn(code)
    await child.stop()
    assert child.exit_code == status
    assert not alive(child.pid)


@pytest.mark.parametrize("manners", ["pass", "signal.signal(15, signal.SIG_IGN)"], ids=["plain", "stubborn"])
async def test_what_the_child_leaves_behind_is_ended_with_its_group(
    manners: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader ends at once; its child does not."""
    monkeypatch.setattr(process, "GROUP_GRACE_SECONDS", 0.1)  # the leader keeps its grace: a busy machine may need it
    code = LEAVES_BEHIND.replace("MANNERS", manners)
    command, *args = python(code)
    child = ServerProcess.spawn(command, args, env=None, cwd=None, on_exit=lambda: None)
    grandchild = int(await eventually(child.stdout.read))
    await child.stop()
    child.release()
    assert child.exit_code == 0
    await eventually(lambda: not alive(grandchild))


@pytest.mark.usefixtures("impatient")
async def test_the_group_is_swept_even_if_the_leader_has_gone_by_itself() -> None:
    code = "import os, time\nif os.fork() == 0:\n    print(os.getpid(), flush=True)\n    time.sleep(1000)"
    command, *args = python(code)
    child = ServerProcess.spawn(command, args, env=None, cwd=None, on_exit=lambda: None)
    grandchild = int(await eventually(child.stdout.read))
    await eventually(lambda: child.exit_code == 0)
    assert alive(grandchild)
    await child.stop()
    child.release()
    await eventually(lambda: not alive(grandchild))


async def test_killing_ends_the_whole_group_before_it_returns() -> None:
    """For when there is no time for a graceful end: a cancelled close, or the end of the interpreter."""
    command, *args = python(LEAVES_BEHIND.replace("MANNERS", "signal.signal(15, signal.SIG_IGN)"))
    child = ServerProcess.spawn(command, args, env=None, cwd=None, on_exit=lambda: None)
    grandchild = int(await eventually(child.stdout.read))
    child.kill()
    assert child.exit_code == -signal.SIGKILL
    child.release()
    assert child not in process._living
    await eventually(lambda: not alive(grandchild))


async def test_nothing_of_it_is_kept_when_it_is_released(spawn: Spawn) -> None:
    before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc") else set()
    child = await spawn(POLITE)
    await child.stop()
    child.release()
    assert child.stdin.closed and child.stdout.closed and child.stderr.closed
    assert child not in process._living
    assert child.pid not in guard._groups
    if before:
        # The watchdog's pipe, opened with the first server of a process, may be new.
        assert len(os.listdir("/proc/self/fd")) <= len(before) + 1


# ---- last output ----------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=STDERR_KEPT // 2), max_size=12))
def test_a_tail_keeps_the_last_bytes_and_a_bounded_number_of_them(chunks: list[bytes]) -> None:
    tail = Tail()
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    assert b"".join(tail._chunks).endswith(whole[-STDERR_KEPT:])
    assert sum(map(len, tail._chunks)) < 2 * STDERR_KEPT
    assert len(tail.text()) <= STDERR_KEPT


def test_a_tail_is_reported_without_what_could_fool_a_terminal() -> None:
    tail = Tail()
    tail.add(b"line one\n\x1b[31mred\xff\n")
    assert tail.text() == "line one\n\ufffd[31mred\ufffd\n"


def test_many_small_writes_cost_no_more_memory_than_the_bytes() -> None:
    tail = Tail()
    for _ in range(200_000):
        tail.add(b"x")
    assert len(tail._chunks) <= STDERR_KEPT + 1


async def test_no_shell_is_between_us_and_the_command() -> None:
    """Shell syntax in arguments has no effect."""
    child = ServerProcess.spawn("echo", ["$HOME", "; exit 3", "*"], env=None, cwd=None, on_exit=lambda: None)
    await eventually(lambda: child.exit_code is not None)
    assert child.stdout.read() == b"$HOME ; exit 3 *\n"
    await child.stop()
    child.release()
