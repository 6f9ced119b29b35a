"""One server from its entry to its tools: every step that can be made, in order."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from .._util.deadline import Deadline
from ..config import HttpServer, ServerConfig, SseServer, StdioServer, may_download, secrets_of
from ..config.launchers import Package, package_of
from ..defaults import DOWNLOAD_CONNECT_TIMEOUT
from ..policy.filters import static_filter
from ..settings import ServerEntry
from ..transports.stdio.process import environment
from .command import examine_file, examine_program
from .connectivity import examine_address
from .packages import fetched_version
from .report import ServerReport, nobody
from .settings_entry import examine_entry
from .startup import examine_server

TIMEOUT: Final = 30.0
"""Seconds for a server, if nobody says otherwise."""

STEPS: Final = {
    "settings": "its entry can be read",
    "variables": "every ${NAME} in it stands for something",
    "placeholders": "every value in it is a real one",
    "secrets": "no secret stands in it in plain text",
    "command": "its program, or its Python file, is there",
    "package": "the package that is fetched has a version",
    "address": "what is sent to it cannot be read on the way",
    "host": "its host has an address",
    "port": "somebody listens there",
    "tls": "its certificate can be trusted",
    "starts": "it starts, and speaks MCP",
    "connects": "it can be reached, and speaks MCP",
    "protocol": "which version and era it speaks",
    "answers": "it answers",
    "resources": "what it declares is listed",
    "prompts": "what it declares is listed",
    "tools": "its tools can be listed",
    "rules": "the names in its lists of tools are names of tools",
    "descriptions": "every tool is described",
    "types": "every parameter has a type, and LLM APIs take the schemas",
    "names": "LLM APIs take the names, and none is there twice",
    "tokens": "its tools leave room in a model's context",
    "stdout": "it writes nothing but messages there",
    "ends": "it ends when it is let go",
}
"""What is looked at, in the order of the table, and what is fine. A step that does not concern a server is left out."""


async def examine(
    entry: ServerEntry,
    *,
    timeout: float | None,
    start: bool,
    default_timeout: float | None = None,
    on_step: Callable[[str], object] = nobody,
    on_stderr: Callable[[str], object] = nobody,
) -> ServerReport:
    """Go through one server. With `start` false nothing is started nor asked.

    `timeout` is for all of its steps together; None: what its settings give it to connect, else `default_timeout`.
    """
    report = ServerReport(entry.name, on_step=on_step, on_stderr=on_stderr)
    config = entry.config
    if config is not None:
        report.secrets = secrets_of(config)
        report.facts["transport"] = config.transport_type.value
    report.on_step("settings")
    examine_entry(report, entry, os.environ)
    if config is None:
        return report
    if not start:
        report.skip("starts", "disabled in its settings; name it to start it")
    left = Deadline(timeout or time_to_connect(config.connect_timeout) or default_timeout or _usual_timeout(config))
    if await _is_there(report, config, left, start) and start:
        await examine_server(report, config, static_filter(entry.allowed_tools, entry.blocked_tools), left)
    # Only now: what was started tells the version.
    if isinstance(config, StdioServer) and (package := package_of(config.command, config.args)):
        _note_package(report, package, config)
    return in_order(report)


def time_to_connect(said: Any) -> float | None:
    """Return the seconds that settings give a server to connect; None if they do not say so."""
    return said if isinstance(said, int | float) else None


def _usual_timeout(config: ServerConfig) -> float:
    downloads = isinstance(config, StdioServer) and may_download(config.command, config.args)
    return DOWNLOAD_CONNECT_TIMEOUT if downloads else TIMEOUT


async def _is_there(report: ServerReport, config: ServerConfig, deadline: Deadline, ask: bool) -> bool:
    if isinstance(config, StdioServer):
        return examine_program(report, config)
    if isinstance(config, HttpServer | SseServer):
        return ask and await examine_address(report, config, deadline)
    return examine_file(report, config)


def _note_package(report: ServerReport, package: Package, config: StdioServer) -> None:
    report.facts["package"] = {"registry": package.registry, "name": package.name, "version": package.version}
    if package.version is not None:
        report.fine("package", f"{package.spelled} ({package.registry})")
        return
    text = f"{package.spelled} has no fixed version: its next start may run other code, with other tools"
    version = fetched_version(package, environment(config.env))
    if version is not None:
        fix = f"write {package.pinned(version)}"
    elif said := report.facts.get("server_version"):
        fix = f"write {package.pinned(said)}, if {said}, as it calls itself, is the package's version"
    else:
        fix = f"write {package.pinned('VERSION')}"
    report.warn("package", text, fix)


def in_order(report: ServerReport) -> ServerReport:
    """The findings as the table of steps has them."""
    order = list(STEPS)
    report.findings.sort(key=lambda finding: order.index(finding.step))
    return report
