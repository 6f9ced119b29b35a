"""Starting a server, or connecting to it: how long it takes, what it speaks, whether it answers, what it lists."""

from __future__ import annotations

from typing import Final

from ...client.client import Client
from ...config import HttpServer, ServerConfig, SseServer, StdioServer
from ...errors import ToolyardError
from ...policy.filters import StaticFilter
from ...protocol.eras import MODERN_VERSIONS
from ...transports import process
from ...types import Tool
from .failures import STDOUT_IS_FOR_MCP, explain, explain_list, older_kind
from .findings import Checkup
from .offers import examine_rules, examine_tools
from .patience import Patience, Watch
from .trying import client_for

SLOW: Final = 5.0
"""Seconds of a start from which on it is told."""


async def examine_server(checkup: Checkup, config: ServerConfig, rules: StaticFilter, patience: Patience) -> None:
    """Start it, look at it, and end it again; `rules`: the tools that the settings let through."""
    step = "connects" if isinstance(config, HttpServer | SseServer) else "starts"
    checkup.on_step(step)
    watch = Watch()
    client = client_for(config, checkup.server, patience.left(), checkup.hear)
    try:
        await client.connect()
    except ToolyardError as exc:
        took = watch.seconds
        await client.close()
        older = await older_kind(checkup, config, exc)
        if older is not None:
            checkup.warn(step, "it speaks only the older HTTP+SSE", "give it the type sse: that saves a try", took)
            await examine_server(checkup, older, rules, patience)
            return
        await explain(checkup, step, config, exc, took, patience, is_noisy=client.counters.garbage > 0)
        return
    try:
        _note_start(checkup, step, config, watch.seconds)
        _note_protocol(checkup, client)
        await _examine_answers(checkup, client, config, rules, patience)
    finally:
        checkup.on_step("ends")
        ending = Watch()
        await client.close()
    if isinstance(config, StdioServer) and ending.seconds >= process.GRACE:
        text = "it does not end when its stdin is closed, and had to be ended by a signal"
        checkup.warn("ends", text, "have its author end it at the end of stdin", ending.seconds)


def _note_start(checkup: Checkup, step: str, config: ServerConfig, seconds: float) -> None:
    checkup.facts["start_seconds"] = round(seconds, 4)
    if seconds <= SLOW:
        checkup.fine(step, "", seconds)
    elif isinstance(config, StdioServer):
        fix = "the first start may fetch a package: try again; else install it once instead of fetching it each time"
        checkup.warn(step, "slow", fix, seconds)
    else:
        checkup.warn(step, "slow", "is it far away, or does it sleep? raise connect_timeout", seconds)


def _note_protocol(checkup: Checkup, client: Client) -> None:
    info = client.server_info
    assert info is not None
    era = "modern" if info.protocol_version in MODERN_VERSIONS else "handshake"
    checkup.facts["protocol_version"], checkup.facts["era"] = info.protocol_version, era
    checkup.facts["server_name"], checkup.facts["server_version"] = checkup.said(info.name), checkup.said(info.version)
    who = checkup.said(" ".join(part for part in (info.name, info.version) if part))
    checkup.fine("protocol", f"{info.protocol_version} ({era} era){f': {who}' if who else ''}")


async def _examine_answers(
    checkup: Checkup, client: Client, config: ServerConfig, rules: StaticFilter, patience: Patience
) -> None:
    checkup.on_step("answers")
    watch = Watch()
    try:
        await client.ping(timeout=patience.left())
    except ToolyardError as exc:
        fix = "it connects and then says nothing: is it busy, or does it wait for something?"
        checkup.broken("answers", checkup.said(exc.message), fix, watch.seconds)
        return
    checkup.fine("answers", "", watch.seconds)
    await _examine_lists(checkup, client, config, rules, patience)
    garbage = client.counters.garbage
    if garbage:
        sample = checkup.said(client.counters.last_garbage)
        text = f"it wrote what is no message to stdout ({garbage} times), such as {sample!r}"
        checkup.warn("stdout", text, STDOUT_IS_FOR_MCP)


async def _examine_lists(
    checkup: Checkup, client: Client, config: ServerConfig, rules: StaticFilter, patience: Patience
) -> None:
    info = client.server_info
    declared = info.capabilities if info is not None else {}
    for kind, fetch in (("resources", client.list_resources), ("prompts", client.list_prompts)):
        if kind in declared:
            try:
                checkup.facts[kind] = len(await fetch(timeout=patience.left()))
            except ToolyardError as exc:
                fix = f"have its author answer {kind}/list, or not declare {kind}"
                checkup.warn(kind, f"declared, and not listed: {checkup.said(exc.message)}", fix)
    if "tools" not in declared:
        checkup.facts["tools"] = 0
        if not declared:
            checkup.warn("tools", "it declares nothing that could be used", "have its author declare its tools")
        return
    checkup.on_step("tools")
    watch = Watch()
    try:
        tools = await client.list_tools(use_cache=False, timeout=patience.left())
        seconds = watch.seconds
        paged = bool(tools) and await _is_paged(client, patience)
    except ToolyardError as exc:
        explain_list(checkup, config, exc, watch.seconds)
        return
    _note_tools(checkup, tools, rules, seconds, paged)


async def _is_paged(client: Client, patience: Patience) -> bool:
    return (await client.request("tools/list", {}, timeout=patience.left())).get("nextCursor") is not None


def _note_tools(checkup: Checkup, tools: list[Tool], rules: StaticFilter, seconds: float, paged: bool) -> None:
    offered = [tool for tool in tools if rules(tool)]
    checkup.facts.update(tools=len(offered), paged=paged, tool_names=[tool.name for tool in offered])
    examine_rules(checkup, rules, [tool.name for tool in tools])
    if not tools:
        checkup.warn("tools", "none", "does it want settings, or a login, before it offers any?", seconds)
        return
    examine_tools(checkup, checkup.server, offered)
    count = f"{len(tools)}" if len(offered) == len(tools) else f"{len(offered)} of {len(tools)}"
    plural = "s" if len(tools) > 1 else ""
    text = f"{count} tool{plural}, about {checkup.facts['tokens']:,} tokens{', in pages' if paged else ''}"
    checkup.fine("tools", text, seconds)
