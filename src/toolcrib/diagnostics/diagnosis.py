"""Finds out why a server does not start or cannot be reached, and how to fix it."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from .._util.deadline import Deadline
from ..client.connector import OLDER
from ..config import HttpServer, ServerConfig, SseServer, StdioServer, mask_urls
from ..config.launchers import Launch, parse_command
from ..errors import (
    AuthError,
    ConfigError,
    ConnectError,
    IssuerUnavailable,
    ProtocolError,
    RateLimited,
    RemoteError,
    StartError,
    ToolcribError,
)
from ..protocol.jsonrpc import METHOD_NOT_FOUND
from ..transports.factory import older_way
from .causes import diagnose, without_stderr
from .probe import client_for
from .report import ServerReport
from .sign_in_steps import ISSUER_UNAVAILABLE_FIX, explain_config_error, explain_refusal

SIMILAR_URL_TIMEOUT: Final = 5.0
"""Seconds for checking whether the server answers at a similar URL."""

STDOUT_IS_FOR_MCP: Final = "ask its author to write logs to stderr: stdout is reserved for MCP"

_PLACES: Final = ("/mcp", "/sse", "/mcp/", "/api/mcp")
_NOT_HERE: Final = frozenset({200, 301, 302, 307, 308, 400, 404, 405, 406, 410, 415, 501})
"""HTTP statuses of URLs without an MCP server, or with one of the other HTTP transport."""


async def explain(
    report: ServerReport,
    step: str,
    config: ServerConfig,
    error: ToolcribError,
    seconds: float,
    deadline: Deadline,
    *,
    is_noisy: bool,
) -> None:
    """Report why the step failed, with a fix; `is_noisy`: the server wrote lines to stdout that are not messages."""
    said = report.said(error.message)
    if isinstance(error, StartError):
        report.facts["exit_code"] = error.exit_code
        _note_failure(report, step, config, _ended(error), error.stderr, _by_hand(error), seconds)
    elif isinstance(error, AuthError):
        await explain_refusal(report, step, config, error, seconds)
    elif isinstance(error, IssuerUnavailable):
        report.broken("issuer", said, ISSUER_UNAVAILABLE_FIX)
        text = "the stored sign-in cannot be used: the authorisation server does not answer"
        report.broken(step, text, "see the step issuer", seconds)
    elif isinstance(error, RateLimited):
        report.broken(step, said, "wait, and try again later", seconds)
    elif isinstance(error, ConfigError):
        text, fix = explain_config_error(error)
        report.broken(step, report.said(text), report.said(fix), seconds)
    elif isinstance(config, HttpServer | SseServer):
        report.facts["status"] = getattr(error, "status", None)
        report.broken(step, said, await _where_else(report, config, error), seconds)
    elif is_noisy:
        report.broken(step, said, STDOUT_IS_FOR_MCP, seconds, stderr_of(error, report))
    elif isinstance(error.__cause__, RemoteError) and error.__cause__.code == METHOD_NOT_FOUND:
        text = "not an MCP server: it does not implement initialize, or echoes its input"
        report.broken(step, text, "correct the command: this program is not an MCP server", seconds)
    else:
        more = f"{deadline.seconds * 4:g}"
        setting = f"connect_timeout = {more} in {report.timeout_place}"
        slow = f"if it is only slow, set {setting}, or give doctor --timeout {more}"
        fix = f"check that it is an MCP server for stdio; {slow}"
        _note_failure(report, step, config, error.message, stderr_of(error, report), fix, seconds)


def explain_list(report: ServerReport, config: ServerConfig, error: ToolcribError, seconds: float) -> None:
    """Report why a connected server cannot list its tools."""
    launch, stderr = launch_of(config), stderr_of(error, report)
    found = diagnose(error.message, launch) or diagnose(stderr, launch)
    what, fix = found or ("", "tools/list fails: report it to the server's author")
    text = _joined(f"its tools cannot be listed: {error.message}", what)
    report.broken("tools", report.said(text), report.said(fix), seconds, stderr)


def _note_failure(
    report: ServerReport, step: str, config: ServerConfig, text: str, stderr: str, fix: str, seconds: float
) -> None:
    """Report a failure with the server's stderr and the fix for the cause found there, else with `fix`."""
    text = without_stderr(text)
    found = diagnose(stderr, launch_of(config))
    if found is not None:
        text, fix = _joined(text, found.what), found.fix
    report.broken(step, report.said(text), report.said(fix), seconds, stderr)


def _joined(text: str, what: str) -> str:
    return f"{text}: {what}" if what else text


def launch_of(config: ServerConfig) -> Launch | None:
    """Return the parsed command line of a server; None if it has none."""
    return parse_command(config.command, config.args) if isinstance(config, StdioServer) else None


# ---- a program that exited ------------------------------------------------------------------------------------


def stderr_of(error: ToolcribError, report: ServerReport) -> str:
    """Return the last lines that the server's process wrote to stderr before it failed."""
    return (error.stderr if isinstance(error, ConnectError) else "") or "\n".join(report.stderr)


def _ended(error: StartError) -> str:
    if error.exit_code is None:
        return error.message
    if error.exit_code < 0:
        return f"its process was killed by signal {-error.exit_code} before it answered"
    return f"its process exited with code {error.exit_code} before it answered"


def _by_hand(error: StartError) -> str:
    if error.exit_code == 0:
        return "check that the program starts a server and keeps running: a Python file must call server.run()"
    if error.stderr.strip():
        return "see its output above; if that is not enough, run the same command in a terminal"
    return "it wrote nothing to stderr: run the same command in a terminal to see what it prints"


# ---- a URL that is not that of an MCP server -------------------------------------------------------------------


async def older_kind(report: ServerReport, config: ServerConfig, error: ToolcribError) -> SseServer | None:
    """Return a config for the same URL over HTTP+SSE if the server speaks only that; clients detect it as well."""
    older = older_way(config) if getattr(error, "status", None) in OLDER else None
    return older if older is not None and await _answers(older, report.server) else None


async def _where_else(report: ServerReport, config: HttpServer | SseServer, error: ToolcribError) -> str:
    status = getattr(error, "status", None)
    if status is not None and status not in _NOT_HERE and not isinstance(error, ProtocolError):
        return "the server has a problem: ask its operator"
    report.on_step("trying similar URLs")
    return await _nearby(config, report.server) or "ask for the URL of its MCP endpoint, which usually ends in /mcp"


async def _nearby(config: HttpServer | SseServer, name: str) -> str:
    """Return a fix with the URL or transport at which a server answers instead; empty if there is none."""
    given = {f.name: getattr(config, f.name) for f in fields(SseServer) if f.name != "url"}
    other: type[Any] = SseServer if isinstance(config, HttpServer) else HttpServer
    candidates: list[HttpServer | SseServer] = [other(config.url, **given)]
    for path in _PLACES:
        url = urlunsplit(urlsplit(config.url)._replace(path=path, fragment=""))
        if url != config.url:
            candidates.append(SseServer(url, **given) if path == "/sse" else HttpServer(url, **given))
    answers = await asyncio.gather(*(_answers(each, name) for each in candidates))
    found = next((each for each, yes in zip(candidates, answers, strict=True) if yes), None)
    if found is None:
        return ""
    kind = "sse" if isinstance(found, SseServer) else "http"
    if found.url == config.url:
        return f"it speaks the other HTTP transport: set type to {kind}"
    return f"an MCP server answers at {mask_urls(found.url)}: use that as url, with type {kind}"


async def _answers(config: HttpServer | SseServer, name: str) -> bool:
    client = client_for(config, name, SIMILAR_URL_TIMEOUT)
    try:
        await client.connect()
    except ToolcribError:
        return False
    finally:
        await client.close()
    return True
