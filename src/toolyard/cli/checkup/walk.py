"""One server from its entry to its tools: every step that can be made, in order."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from ...config import HttpServer, ServerConfig, SseServer, StdioServer, may_download
from ...defaults import DOWNLOAD_CONNECT_TIMEOUT
from ...policy.filters import static_filter
from ...settings import ServerEntry
from ...transports.process import environment
from ..launchers import Package, package_of
from .address import examine_address
from .entry import examine_entry
from .findings import Checkup, nobody
from .packages import fetched_version
from .patience import Patience
from .program import examine_file, examine_program
from .secret import values_of
from .starts import examine_server

PATIENCE: Final = 30.0
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
    patience: float | None = None,
    on_step: Callable[[str], object] = nobody,
    on_stderr: Callable[[str], object] = nobody,
) -> Checkup:
    """Go through one server. With `start` false nothing is started nor asked.

    `timeout` is for all of its steps together; None: what its settings give it to connect, else `patience`.
    """
    checkup = Checkup(entry.name, on_step=on_step, on_stderr=on_stderr)
    config = entry.config
    if config is not None:
        checkup.secrets = values_of(config)
        checkup.facts["transport"] = config.transport_type.value
    checkup.on_step("settings")
    examine_entry(checkup, entry, os.environ)
    if config is None:
        return checkup
    if not start:
        checkup.skip("starts", "disabled in its settings; name it to start it")
    left = Patience(timeout or time_to_connect(config.connect_timeout) or patience or _usual_patience(config))
    if await _is_there(checkup, config, left, start) and start:
        await examine_server(checkup, config, static_filter(entry.allowed_tools, entry.blocked_tools), left)
    # Only now: what was started tells the version.
    if isinstance(config, StdioServer) and (package := package_of(config.command, config.args)):
        _note_package(checkup, package, config)
    return in_order(checkup)


def time_to_connect(said: Any) -> float | None:
    """Return the seconds that settings give a server to connect; None if they do not say so."""
    return said if isinstance(said, int | float) else None


def _usual_patience(config: ServerConfig) -> float:
    downloads = isinstance(config, StdioServer) and may_download(config.command, config.args)
    return DOWNLOAD_CONNECT_TIMEOUT if downloads else PATIENCE


async def _is_there(checkup: Checkup, config: ServerConfig, patience: Patience, ask: bool) -> bool:
    if isinstance(config, StdioServer):
        return examine_program(checkup, config)
    if isinstance(config, HttpServer | SseServer):
        return ask and await examine_address(checkup, config, patience)
    return examine_file(checkup, config)


def _note_package(checkup: Checkup, package: Package, config: StdioServer) -> None:
    checkup.facts["package"] = {"registry": package.registry, "name": package.name, "version": package.version}
    if package.version is not None:
        checkup.fine("package", f"{package.spelled} ({package.registry})")
        return
    text = f"{package.spelled} has no fixed version: its next start may run other code, with other tools"
    version = fetched_version(package, environment(config.env))
    if version is not None:
        fix = f"write {package.pinned(version)}"
    elif said := checkup.facts.get("server_version"):
        fix = f"write {package.pinned(said)}, if {said}, as it calls itself, is the package's version"
    else:
        fix = f"write {package.pinned('VERSION')}"
    checkup.warn("package", text, fix)


def in_order(checkup: Checkup) -> Checkup:
    """The findings as the table of steps has them."""
    order = list(STEPS)
    checkup.findings.sort(key=lambda finding: order.index(finding.step))
    return checkup
