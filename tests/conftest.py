"""For all tests: whatever they did, no process of theirs may be left when they are over."""

from __future__ import annotations

import os
import uuid

import psutil
import pytest

# PATH is the one variable that reaches every descendant, also through a client that passes few others on.
MARK = f"/nonexistent/toolyard-tests-{uuid.uuid4()}"
GRACE = 5.0


def pytest_configure(config: pytest.Config) -> None:
    os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), MARK))


def _is_ours(process: psutil.Process) -> bool:
    try:
        return MARK in process.environ().get("PATH", "")
    except psutil.Error:  # gone, a zombie, or somebody else's: in no case a survivor of ours
        return False


def _survivors() -> list[psutil.Process]:
    """Every living process that descends from this one, orphans included."""
    me = psutil.Process()
    found = {*me.children(recursive=True), *filter(_is_ours, psutil.process_iter())} - {me}
    _, alive = psutil.wait_procs(found, timeout=GRACE)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    survivors = _survivors()
    if not survivors:
        return
    session.exitstatus = pytest.ExitCode.TESTS_FAILED
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        reporter.write_line(f"\nFAILED: {len(survivors)} processes were left by the tests:", red=True)
        for process in survivors:
            reporter.write_line(f"  {process.pid} {' '.join(process.cmdline())[:200]}", red=True)
    for process in survivors:
        process.kill()
    psutil.wait_procs(survivors, timeout=GRACE)
