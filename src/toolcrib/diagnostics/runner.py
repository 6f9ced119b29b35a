"""Checks one server, from its entry in the settings to its tools, in the order of `STEPS`."""

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
from ..settings.models import place
from ..transports.stdio.process import environment
from .command import examine_file, examine_program
from .connectivity import examine_address
from .packages import fetched_version
from .report import ServerReport, ignore_text
from .settings_entry import examine_entry
from .sign_in_steps import find_sign_in
from .startup import examine_server

TIMEOUT: Final = 30.0
"""Seconds for checking a server, unless an option or its settings give another time."""

STEPS: Final = {
    "settings": "its entry can be read",
    "variables": "every ${NAME} in it has a value",
    "placeholders": "no value in it is a placeholder",
    "secrets": "it has no secret in plain text",
    "command": "its program, or its Python file, exists",
    "package": "the version of its package is fixed",
    "address": "traffic to it is encrypted",
    "host": "its host name can be resolved",
    "port": "its port accepts connections",
    "tls": "its certificate is trusted",
    "starts": "it starts, and speaks MCP",
    "connects": "it can be reached, and speaks MCP",
    "resource": "its metadata names an authorisation server, if it requires a sign-in",
    "issuer": "the authorisation server can be used, if it requires a sign-in",
    "sign-in": "it accepts the stored tokens, if it requires a sign-in",
    "protocol": "always: it shows the protocol version and the era",
    "answers": "it answers a ping",
    "resources": "its resources can be listed, if declared",
    "prompts": "its prompts can be listed, if declared",
    "tools": "its tools can be listed",
    "rules": "allowed_tools and blocked_tools name existing tools",
    "descriptions": "every tool has a description",
    "types": "every parameter has a type, and LLM APIs accept the schemas",
    "names": "LLM APIs accept the names of its tools, and all are different",
    "tokens": "its tools leave enough of a model's context",
    "stdout": "it writes only MCP messages to stdout",
    "ends": "its process exits when stdin is closed",
}
"""The steps in the order of the table, each with what is fine. Steps that do not apply to a server are left out."""


async def examine(
    entry: ServerEntry,
    *,
    timeout: float | None,
    start: bool,
    default_timeout: float | None = None,
    login: str | None = None,
    on_step: Callable[[str], object] = ignore_text,
    on_stderr: Callable[[str], object] = ignore_text,
) -> ServerReport:
    """Check one server. If `start` is false, no process is started and no request is sent.

    `timeout` limits all steps together; None means the `connect_timeout` of its settings, else `default_timeout`.
    `login` is the command that signs in to it.
    """
    login = login or f"toolcrib auth login {entry.name}"
    report = ServerReport(entry.name, on_step=on_step, on_stderr=on_stderr, entry=entry, login=login)
    config = entry.config
    if entry.source is not None:
        report.timeout_place = place(entry, "connect_timeout")
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
        rules, auth = static_filter(entry.allowed_tools, entry.blocked_tools), await find_sign_in(report, entry)
        await examine_server(report, config, rules, left, auth)
    # Last, because the running server reports its version.
    if isinstance(config, StdioServer) and (package := package_of(config.command, config.args)):
        _note_package(report, package, config)
    return in_order(report)


def time_to_connect(said: Any) -> float | None:
    """Return the `connect_timeout` of a server's settings in seconds; None if it is not set."""
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
        fix = f"write {package.pinned(said)}, if {said}, the version that the server reports, is the package's"
    else:
        fix = f"write {package.pinned('VERSION')}"
    report.warn("package", text, fix)


def in_order(report: ServerReport) -> ServerReport:
    """Sort the findings in the order of `STEPS`, and return the report."""
    order = list(STEPS)
    report.findings.sort(key=lambda finding: order.index(finding.step))
    return report
