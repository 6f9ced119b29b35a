"""Starts a server, or connects to it, and checks its start-up time, protocol version, responses and lists."""

from __future__ import annotations

from typing import Final

from .._util.deadline import Deadline, Stopwatch
from ..client.client import Client
from ..config import HttpServer, ServerConfig, SseServer, StdioServer
from ..errors import ToolcribError
from ..oauth.providers import OAuth
from ..policy.filters import StaticFilter
from ..protocol.versions import MODERN_VERSIONS
from ..transports.stdio import process
from ..types import Tool
from .diagnosis import STDOUT_IS_FOR_MCP, explain, explain_list, older_kind
from .probe import client_for
from .report import ServerReport
from .sign_in_steps import note_sign_in
from .tools import examine_rules, examine_tools

SLOW_START_SECONDS: Final = 5.0
"""Seconds for a start above which a warning is reported."""


async def examine_server(
    report: ServerReport, config: ServerConfig, rules: StaticFilter, deadline: Deadline, auth: OAuth | None = None
) -> None:
    """Start a server or connect to it, check it, and close it.

    `rules` are the tools that the settings allow, `auth` is the provider with the stored sign-in.
    """
    step = "connects" if isinstance(config, HttpServer | SseServer) else "starts"
    report.on_step(step)
    stopwatch = Stopwatch()
    client = client_for(config, report.server, deadline.left(), report.hear, auth)
    try:
        await client.connect()
    except ToolcribError as exc:
        took = stopwatch.seconds
        await client.close()
        older = await older_kind(report, config, exc)
        if older is not None:
            report.warn(step, "it speaks only the older HTTP+SSE", "set type to sse, which saves an attempt", took)
            await examine_server(report, older, rules, deadline, auth)
            return
        await explain(report, step, config, exc, took, deadline, is_noisy=client.counters.malformed > 0)
        return
    try:
        _note_start(report, step, config, stopwatch.seconds)
        if auth is not None and isinstance(config, HttpServer | SseServer):
            await note_sign_in(report, config, auth)
        _note_protocol(report, client)
        await _examine_answers(report, client, config, rules, deadline)
    finally:
        report.on_step("ends")
        ending = Stopwatch()
        await client.close()
    if isinstance(config, StdioServer) and ending.seconds >= process.SHUTDOWN_GRACE_SECONDS:
        text = "it does not exit when its stdin is closed, and had to be killed by a signal"
        report.warn("ends", text, "ask its author to let it exit at the end of stdin", ending.seconds)


def _note_start(report: ServerReport, step: str, config: ServerConfig, seconds: float) -> None:
    report.facts["start_seconds"] = round(seconds, 4)
    if seconds <= SLOW_START_SECONDS:
        report.fine(step, "", seconds)
    elif isinstance(config, StdioServer):
        fix = "the first start may fetch a package: try again; if it stays slow, install the package permanently"
        report.warn(step, "slow", fix, seconds)
    else:
        report.warn(step, "slow", "it may be far away, or be starting on demand: raise connect_timeout", seconds)


def _note_protocol(report: ServerReport, client: Client) -> None:
    info = client.server_info
    assert info is not None
    era = "modern" if info.protocol_version in MODERN_VERSIONS else "legacy"
    report.facts["protocol_version"], report.facts["era"] = info.protocol_version, era
    report.facts["server_name"], report.facts["server_version"] = report.said(info.name), report.said(info.version)
    who = report.said(" ".join(part for part in (info.name, info.version) if part))
    report.fine("protocol", f"{info.protocol_version} ({era} era){f': {who}' if who else ''}")


async def _examine_answers(
    report: ServerReport, client: Client, config: ServerConfig, rules: StaticFilter, deadline: Deadline
) -> None:
    report.on_step("answers")
    stopwatch = Stopwatch()
    try:
        await client.ping(timeout=deadline.left())
    except ToolcribError as exc:
        fix = "it connects but does not answer: check whether it is busy or waits for something"
        report.broken("answers", report.said(exc.message), fix, stopwatch.seconds)
        return
    report.fine("answers", "", stopwatch.seconds)
    await _examine_lists(report, client, config, rules, deadline)
    malformed = client.counters.malformed
    if malformed:
        sample = report.said(client.counters.last_malformed)
        if malformed == 1:
            text = f"wrote 1 line to stdout that is not an MCP message: {sample!r}"
        else:
            text = f"wrote {malformed} lines to stdout that are not MCP messages, such as {sample!r}"
        report.warn("stdout", text, STDOUT_IS_FOR_MCP)


async def _examine_lists(
    report: ServerReport, client: Client, config: ServerConfig, rules: StaticFilter, deadline: Deadline
) -> None:
    info = client.server_info
    declared = info.capabilities if info is not None else {}
    for kind, fetch in (("resources", client.list_resources), ("prompts", client.list_prompts)):
        if kind in declared:
            try:
                report.facts[kind] = len(await fetch(timeout=deadline.left()))
            except ToolcribError as exc:
                fix = f"ask its author to implement {kind}/list, or not to declare {kind}"
                report.warn(kind, f"declared, but cannot be listed: {report.said(exc.message)}", fix)
    if "tools" not in declared:
        report.facts["tools"] = 0
        if not declared:
            report.warn("tools", "it declares no capabilities", "ask its author to declare its tools")
        return
    report.on_step("tools")
    stopwatch = Stopwatch()
    try:
        tools = await client.list_tools(use_cache=False, timeout=deadline.left())
        seconds = stopwatch.seconds
        paged = bool(tools) and await _is_paged(client, deadline)
    except ToolcribError as exc:
        explain_list(report, config, exc, stopwatch.seconds)
        return
    _note_tools(report, tools, rules, seconds, paged)


async def _is_paged(client: Client, deadline: Deadline) -> bool:
    return (await client.request("tools/list", {}, timeout=deadline.left())).get("nextCursor") is not None


def _note_tools(report: ServerReport, tools: list[Tool], rules: StaticFilter, seconds: float, paged: bool) -> None:
    offered = [tool for tool in tools if rules(tool)]
    report.facts.update(tools=len(offered), paged=paged, tool_names=[tool.name for tool in offered])
    examine_rules(report, rules, [tool.name for tool in tools])
    if not tools:
        report.warn("tools", "none", "check whether it needs settings or a login before it offers tools", seconds)
        return
    examine_tools(report, report.server, offered)
    count = f"{len(tools)}" if len(offered) == len(tools) else f"{len(offered)} of {len(tools)}"
    plural = "s" if len(tools) > 1 else ""
    text = f"{count} tool{plural}, about {report.facts['tokens']:,} tokens{', in pages' if paged else ''}"
    report.fine("tools", text, seconds)
