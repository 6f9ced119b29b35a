"""For all tests: the tiers, the profiles of Hypothesis, and the check that no process outlives the run."""

from __future__ import annotations

import os
import signal
import sys
import uuid
from collections.abc import Generator
from typing import Any, Final

import psutil
import pytest
from hypothesis import HealthCheck, settings

TIERS: Final = ("quick", "all", "nightly")
"""What `scripts/test`, `scripts/test --all` and `scripts/test --nightly` run."""
LEFT_OUT: Final = {"quick": ("slow", "nightly", "serial"), "all": ("nightly",), "nightly": ()}
"""Markers of the tests that a tier leaves out."""

# PATH is the one variable that reaches every descendant, also through a client that passes few others on.
MARK: Final = f"/nonexistent/toolcrib-tests-{uuid.uuid4()}"
EXIT_GRACE_SECONDS: Final = 5.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, default="quick", help="which tests run: see CONTRIBUTING.md")


def pytest_configure(config: pytest.Config) -> None:
    if not _is_worker(config):  # the workers of xdist inherit the mark
        os.environ["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), MARK))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts background jobs so, and children would inherit it: Ctrl-C could not be tested.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _load_hypothesis_profile(config.getoption("tier"))


def _load_hypothesis_profile(tier: str) -> None:
    """Load the profile of the tier: the same examples in every run of a change, random ones only at night."""
    examples = {"quick": 20, "all": 100 if sys.version_info[:2] == (3, 11) else 15, "nightly": 500}[tier]
    is_nightly = tier == "nightly"
    settings.register_profile(
        tier,
        max_examples=examples,
        derandomize=not is_nightly,
        print_blob=is_nightly,
        deadline=None,  # machines are shared: a slow example is not a failure
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile(tier)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = LEFT_OUT[config.getoption("tier")]
    deselected = [item for item in items if any(item.get_closest_marker(name) for name in left_out)]
    if deselected and not any("::" in argument for argument in config.args):  # a test that is named runs anyway
        config.hook.pytest_deselected(items=deselected)
        gone = set(deselected)
        items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape what UTF-8 cannot encode: a log line with a lone surrogate would end the worker that reports it."""
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_encodable, value)) if type(value) in (list, tuple) else value
    return value


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _has_mark(process: psutil.Process) -> bool:
    try:
        return MARK in process.environ().get("PATH", "")
    except psutil.Error:  # it has ended, is a zombie, or belongs to another user: not a survivor of these tests
        return False


def _survivors() -> list[psutil.Process]:
    """Return every living process that descends from this one, orphans included."""
    me = psutil.Process()
    found = {*me.children(recursive=True), *filter(_has_mark, psutil.process_iter())} - {me}
    _, alive = psutil.wait_procs(found, timeout=EXIT_GRACE_SECONDS)
    return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if it leaves processes behind. The controller of xdist checks, after its workers have ended."""
    if _is_worker(session.config):
        return
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
    psutil.wait_procs(survivors, timeout=EXIT_GRACE_SECONDS)
