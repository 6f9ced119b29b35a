"""Watching real files for changes, checked by the test or by the watcher's task."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.settings.files import write
from toolcrib.config import StdioServer
from toolcrib.errors import ConfigError, UsageError
from toolcrib.settings import Settings, Watcher, load_settings

BOUND = 30.0


def servers(**commands: str) -> dict[str, Any]:
    return {"mcpServers": {name: {"command": command} for name, command in commands.items()}}


class Reports:
    """Records the reports of a watcher."""

    def __init__(self) -> None:
        self.settings: list[Settings] = []
        self.errors: list[ConfigError] = []
        self.something = asyncio.Event()

    def change(self, settings: Settings) -> None:
        self.settings.append(settings)
        self.something.set()

    async def error(self, error: ConfigError) -> None:
        self.errors.append(error)
        self.something.set()

    async def next(self) -> None:
        await asyncio.wait_for(self.something.wait(), BOUND)
        self.something.clear()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / ".mcp.json", servers(a="1"))


def watcher(path: Any, reports: Reports, **options: Any) -> Watcher:
    return Watcher(path, reports.change, on_error=reports.error, **options)


async def test_a_change_is_reported_with_the_new_settings(file: Path) -> None:
    reports = Reports()
    watch = watcher(file, reports, settings=load_settings(file))
    assert not await watch.check()
    write(file, servers(a="1", b="2"))
    assert await watch.check()
    assert not await watch.check()
    (new,) = reports.settings
    assert new.servers == {"a": StdioServer("1"), "b": StdioServer("2")}
    assert watch.settings is new


async def test_without_initial_settings_the_first_check_reports_them(file: Path) -> None:
    reports = Reports()
    assert await watcher(file, reports).check()
    assert reports.settings[0].servers == {"a": StdioServer("1")}


async def test_a_change_before_the_first_check_is_reported(file: Path) -> None:
    reports = Reports()
    before = load_settings(file)
    write(file, servers(a="2"))
    assert await watcher(file, reports, settings=before).check()
    assert reports.settings[0].servers == {"a": StdioServer("2")}


async def test_a_change_that_means_nothing_is_not_reported(file: Path) -> None:
    reports = Reports()
    watch = watcher(file, reports, settings=load_settings(file))
    write(file, '// a comment\n{"mcpServers": {"a": {"command": "1", "args": [],},},}')
    assert not await watch.check()
    os.utime(file, (1, 1))
    assert not await watch.check()
    write(file, '{"hub": {"command": "none of ours"}, "mcpServers": {"a": {"command": "1"}}}')
    assert not await watch.check()
    assert reports.settings == []


async def test_two_writes_of_the_same_size_in_one_tick_are_both_seen(file: Path) -> None:
    reports = Reports()
    watch = watcher(file, reports)
    for command in "234567":
        seen = file.stat()
        write(file, servers(a=command))
        os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        await watch.check()
    assert [settings.servers["a"] for settings in reports.settings] == [StdioServer(command) for command in "234567"]


async def test_a_broken_file_is_reported_once_and_the_last_settings_stay(file: Path) -> None:
    reports = Reports()
    watch = watcher(file, reports, settings=load_settings(file))
    write(file, '{"mcpServers": {')
    assert await watch.check()
    assert not await watch.check()
    (error,) = reports.errors
    assert f"{file}:1:17" in str(error)
    assert watch.settings is not None and watch.settings.servers == {"a": StdioServer("1")}
    write(file, servers(a="2"))
    assert await watch.check()
    assert reports.settings[0].servers == {"a": StdioServer("2")}


async def test_a_file_that_is_gone_is_reported_once_and_comes_back(file: Path) -> None:
    reports = Reports()
    watch = watcher(file, reports, settings=load_settings(file))
    file.unlink()
    await watch.check()
    await watch.check()
    assert len(reports.errors) == 1
    write(file, servers(a="1"))
    assert not await watch.check(), "it says what it said before"
    write(file, servers(a="2"))
    assert await watch.check()


async def test_a_file_that_is_replaced_is_seen(file: Path) -> None:
    reports = Reports()
    watch = watcher(file, reports, settings=load_settings(file))
    write(file.with_name("new"), servers(a="2")).replace(file)
    assert await watch.check()


async def test_of_several_files_any_may_change(tmp_path: Path) -> None:
    one = write(tmp_path / "one.json", servers(a="1", b="1"))
    two = write(tmp_path / "two.json", servers(b="2"))
    reports = Reports()
    watch = watcher([one, two], reports)
    await watch.check()
    write(two, servers(c="3"))
    await watch.check()
    assert [settings.servers for settings in reports.settings] == [
        {"a": StdioServer("1"), "b": StdioServer("2")},
        {"a": StdioServer("1"), "b": StdioServer("1"), "c": StdioServer("3")},
    ]


async def test_a_variable_that_was_set_meanwhile_is_seen_with_the_next_change(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(file, servers(a="${TOOLCRIB_TEST}"))
    reports = Reports()
    watch = watcher(file, reports)
    await watch.check()
    assert reports.settings[0].failed
    monkeypatch.setenv("TOOLCRIB_TEST", "set")
    write(file, servers(a="${TOOLCRIB_TEST}") | {"touched": True})
    await watch.check()
    assert reports.settings[1].servers == {"a": StdioServer("set")}


async def test_its_own_task_looks_again_and_again_until_it_is_closed(file: Path) -> None:
    reports = Reports()
    async with watcher(file, reports, interval=0.01) as watch:
        await reports.next()
        write(file, servers(a="2"))
        await reports.next()
        write(file, "{")
        await reports.next()
        task = watch._task
    assert task is not None and task.done()
    assert [settings.servers["a"] for settings in reports.settings] == [StdioServer("1"), StdioServer("2")]
    assert len(reports.errors) == 1
    await watch.close()


async def test_a_watcher_can_be_closed_during_a_look(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports()
    watch = watcher(file, reports).start()
    await asyncio.sleep(0)  # its task runs until it waits for the thread that looks
    await watch.close()
    assert (reports.settings, reports.errors, caplog.messages) == ([], [], [])


async def test_a_callback_may_close_its_watcher(file: Path) -> None:
    closed = asyncio.Event()

    async def close(settings: Settings) -> None:
        await watch.close()
        closed.set()

    watch = Watcher(file, close, interval=0.01).start()
    task = watch._task
    assert task is not None
    await asyncio.wait_for(closed.wait(), BOUND)
    await asyncio.wait([task], timeout=BOUND)
    assert task.cancelled()


async def test_a_callback_that_fails_does_not_end_the_watching(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports()

    def fails(settings: Settings) -> None:
        reports.change(settings)
        raise ValueError("of the callback")

    with caplog.at_level(logging.ERROR, "toolcrib.settings"):
        async with Watcher(file, fails, interval=0.01):
            await reports.next()
            write(file, servers(a="2"))
            await reports.next()
    assert len(reports.settings) == 2
    assert "a callback of the settings watcher failed" in caplog.text


async def test_without_a_listener_an_error_is_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = Watcher(write(file, "{"), lambda settings: None)
    with caplog.at_level(logging.WARNING, "toolcrib.settings"):
        assert not await watch.check()
    assert "the last settings stay in force" in caplog.text


async def test_a_warning_is_not_repeated_at_each_change(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    reports = Reports()
    watch = watcher(file, reports)
    with caplog.at_level(logging.WARNING, "toolcrib.settings"):
        for command in "12":
            write(file, {"mcpServers": {"a": {"command": command, "zzz": 1}}})
            await watch.check()
    assert len(reports.settings) == 2
    assert caplog.text.count("zzz: unknown key") == 1


@pytest.mark.parametrize("paths, interval", [([], 1.0), (["x"], 0.0), (["x"], -1.0)])
def test_nothing_to_watch_is_a_mistake_of_the_program(paths: list[str], interval: float) -> None:
    with pytest.raises(UsageError):
        Watcher(paths, lambda settings: None, interval=interval)
