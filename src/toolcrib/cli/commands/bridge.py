"""`toolcrib bridge`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from ...bridge.proxy import Proxy
from ...config import HttpServer, SseServer
from ...diagnostics.causes import without_stderr
from ...errors import StartError
from ...policy.filters import static_filter
from ...server.serving.run import run_to_end, serve
from ...settings import ServerEntry
from ...settings.variables import Scope
from ..console import note
from ..exit_codes import CliError, Exit, code_of, hint_for
from ..lazy_command import Invocation
from ..serve_options import (
    ServeParameters,
    Transport,
    announce,
    as_options,
    choose_transport,
    with_plain_logging,
)
from ..server_sign_in import with_stored_sign_in
from ..settings_edit import pairs
from ..target import choose


def command(
    invocation: Invocation,
    server: str | None,
    header: Sequence[str],
    config: Path | None,
    timeout: float | None,
    **options: Unpack[ServeParameters],
) -> None:
    """Offer a server to clients that use another transport."""
    transport, where = choose_transport(**options)
    entry = _upstream(server, config, invocation.command)
    if header:
        entry = _with_headers(entry, header)
        invocation.record(entry)
    proxy_options: dict[str, Any] = {"name": entry.name, "stderr_handler": note}
    if timeout is not None:
        proxy_options |= {"connect_timeout": timeout, "discovery_timeout": timeout}
    with_plain_logging(invocation.debug)
    bridging = _bridge(entry, transport, proxy_options, where)
    with as_options():
        run_to_end(announce(entry.name, transport, bridging))


async def _bridge(entry: ServerEntry, transport: Transport, options: dict[str, Any], where: dict[str, Any]) -> None:
    entry = await with_stored_sign_in(entry)
    if entry.config is None:
        raise entry.error or CliError(f"{entry.name} has no settings", code=Exit.CONFIG)
    proxy = Proxy(entry.config, alone=transport is Transport.STDIO, **entry.client_options, **options)
    try:
        try:
            await proxy.start()
        except StartError as exc:  # its stderr was already printed
            raise CliError(without_stderr(exc.message), hint=hint_for(exc), code=code_of(exc)) from exc
        await serve(proxy, transport.value, **where)
    finally:
        await proxy.close()


def _upstream(server: str | None, config: Path | None, command: Sequence[str]) -> ServerEntry:
    """Return the server to offer, with the tool filter of the settings."""
    if server is None and not command:
        raise CliError(
            "no server given",
            hint="give a name, a URL, or a command: toolcrib bridge --http -- COMMAND",
        )
    entry = choose([] if server is None else [server], config, command).settings.entries[0]
    if entry.config is None:
        raise entry.error or CliError(f"{entry.name} has no settings")
    if entry.allowed_tools is None and not entry.blocked_tools:
        return entry
    rules = static_filter(entry.allowed_tools, entry.blocked_tools)
    return replace(entry, config=replace(entry.config, tool_filter=rules))


def _with_headers(entry: ServerEntry, given: Sequence[str]) -> ServerEntry:
    config = entry.config
    if not isinstance(config, HttpServer | SseServer):
        raise CliError("--header: only a server behind a URL takes headers")
    scope = Scope(os.environ)
    more = {name: scope.expand(value) for name, value in pairs("--header", given).items()}
    return replace(entry, config=replace(config, headers={**(config.headers or {}), **more}))
