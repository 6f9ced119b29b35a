"""`toolcrib watch`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from ...config import HttpServer, SseServer
from ...errors import ToolcribError
from ...protocol.metadata import LOG_LEVELS, LogLevel
from ..console import cell, is_terminal, json_line, out, stdout
from ..exit_codes import CliError, Exit
from ..interactive import TerminalUser
from ..key_values import is_argument
from ..lazy_command import Invocation
from ..lookup import find_tool
from ..monitor import Activity, Monitor, message_of
from ..target import HubSession, Target, choose, is_url
from .call import arguments_for

_COLOURS: Final = {
    "status": "cyan",
    "call": "green",
    "result": "bold green",
    "progress": "blue",
    "log": "yellow",
    "stderr": "dim",
}
_OF_LISTS: Final = "magenta"


async def command(
    invocation: Invocation,
    words: Sequence[str],
    uris: Sequence[str],
    call: str,
    level: str,
    poll: float,
    seconds: float | None,
    count: int | None,
    config: Path | None,
    as_lines: bool,
    timeout: float | None,
) -> int:
    """Show live what servers send."""
    if level not in LOG_LEVELS:
        raise CliError(f"--level: unknown level {level!r}", hint=f"levels are {', '.join(LOG_LEVELS)}")
    arguments = [word for word in words if not is_url(word) and is_argument(word)]
    if arguments and not call:
        raise CliError(f"{arguments[0]} is an argument, but no tool is given", hint="--call NAME names the tool")
    target = choose([word for word in words if word not in arguments], config, invocation.command)
    if timeout is not None:
        target = target.with_timeout(timeout)
    target = await target.with_stored_sign_ins()
    monitor = Monitor(target.settings, level=cast("LogLevel", level), approve=TerminalUser().approve)
    doing = [partial(_subscribe, monitor, uri) for uri in uris]
    doing.append(partial(_poll, monitor, poll))
    if call:
        doing.append(partial(_call, monitor, call, arguments, target))
    try:
        await _show(monitor, _do(monitor, doing), seconds, count, as_lines=as_lines)
    finally:
        await monitor.hub.close()
    return Exit.OK


# ---- concurrent work ------------------------------------------------------------------------------------


async def _do(monitor: Monitor, doing: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Start the servers, then run all of this concurrently; the first error ends the watch."""
    await monitor.hub.start()
    states = monitor.hub.list_servers()
    # A server that connected and went away again was started: the hub reconnects to it.
    errors = [s.last_error for s in states if s.last_error is not None and s.name not in monitor.reached]
    if len(errors) == len(states):
        raise errors[0] if errors else CliError("no server to watch", code=Exit.NOT_FOUND)
    await asyncio.gather(*(do() for do in doing))


async def _subscribe(monitor: Monitor, uri: str) -> None:
    """Subscribe at the servers that list the resource, or at all if none does: its URI may match a template."""
    states = monitor.hub.list_servers()
    states = [state for state in states if state.connected] or states
    owners = [state for state in states if any(resource.uri == uri for resource in state.resources)]
    await asyncio.gather(*(_report_updates(monitor, state.name, uri) for state in owners or states))


async def _report_updates(monitor: Monitor, server: str, uri: str) -> None:
    try:
        async with monitor.hub.listen(server, uri, tools=False, prompts=False, resources=False) as changes:
            monitor.tell(server, "resource", f"subscribed to {uri}", uri=uri, state="subscribed")
            async for change in changes:
                monitor.tell(server, "resource", f"{change.uri} changed", uri=change.uri, state="changed")
    except ToolcribError as exc:
        monitor.tell(server, "resource", f"no subscription to {uri}: {message_of(exc)}", uri=uri, state="refused")


async def _poll(monitor: Monitor, every: float) -> None:
    """Refresh servers behind a URL regularly, as they do not announce that they go away."""
    remote = [s.name for s in monitor.hub.list_servers() if isinstance(s.config, HttpServer | SseServer)]
    silent: set[str] = set()
    while remote:
        await asyncio.sleep(every)
        for name in remote:
            try:
                await monitor.hub.refresh(name)
            except ToolcribError as exc:
                if name not in silent:
                    monitor.status(name, "silent", f"no answer: {message_of(exc)}")
                silent.add(name)
            else:
                if name in silent:
                    monitor.status(name, "connected", "answers again")
                silent.discard(name)


async def _call(monitor: Monitor, name: str, arguments: list[str], target: Target) -> None:
    tool = await find_tool(HubSession(monitor.hub, []), name)
    values = arguments_for(tool, arguments, {}, check=True)
    server, own = tool.server or "", tool.original_name or tool.name
    timeouts: dict[str, Any] = target.call_timeouts(server)
    try:
        on_progress = partial(monitor.on_progress, server, own)
        result = await monitor.hub.call_tool(tool.name, values, on_progress=on_progress, **timeouts)
    except ToolcribError as exc:
        monitor.tell(server, "result", f"{own}: {message_of(exc)}", tool=own, is_error=True)
    else:
        monitor.tell(server, "result", f"{own}: {result.text}", tool=own, is_error=result.is_error, result=result.raw)


# ---- what is shown ---------------------------------------------------------------------------------------------


async def _show(
    monitor: Monitor, work: Coroutine[Any, Any, None], seconds: float | None, count: int | None, *, as_lines: bool
) -> None:
    """Print activities until `seconds` or `count` is reached, or the work fails."""
    working = asyncio.create_task(work)
    try:
        async with asyncio.timeout(seconds):
            shown = 0
            while count is None or shown < count:
                _print(await _next(monitor, working), as_lines=as_lines)
                shown += 1
    except TimeoutError as exc:
        if isinstance(exc, ToolcribError):
            raise
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


async def _next(monitor: Monitor, working: asyncio.Task[None]) -> Activity:
    """Return the next activity; if the work fails, raise its error after all activities before it."""
    seeing = asyncio.ensure_future(monitor.next())
    try:
        waiting: list[asyncio.Future[Any]] = [seeing]
        if not working.done() or working.exception() is not None:
            waiting.append(working)
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if not seeing.done():
            # One more turn of the loop delivers the last activity.
            await asyncio.sleep(0)
        if not seeing.done() and working.done():
            working.result()
        return await seeing
    finally:
        seeing.cancel()


def _print(activity: Activity, *, as_lines: bool) -> None:
    if as_lines:
        stdout().write(json_line(activity.to_dict()) + "\n")
    else:
        _print_to_a_person(activity)
    stdout().flush()


def _print_to_a_person(activity: Activity) -> None:
    clock = datetime.fromtimestamp(activity.at).strftime("%H:%M:%S.%f")[:-3]  # noqa: DTZ006  # local time
    if not is_terminal():
        stdout().write("\t".join((clock, activity.server, activity.kind, cell(activity.text))) + "\n")
        return
    from rich.text import Text  # noqa: PLC0415  # slow; only for a terminal

    line = Text.assemble((clock, "dim"), "  ", (f"{activity.server:<12}", "bold"), " ")
    line.append(f"{activity.kind:<9} ", _COLOURS.get(activity.kind, _OF_LISTS))
    line.append(cell(activity.text))
    out().print(line, soft_wrap=True)
