"""`toolcrib bridge`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from ...bridge.proxy import Proxy
from ...config import HttpServer, ServerConfig, SseServer
from ...diagnostics.causes import without_stderr
from ...errors import StartError
from ...policy.filters import static_filter
from ...server.serving.run import run_to_end, serve
from ...settings.variables import Scope
from ..console import note
from ..exit_codes import CliError, code_of, hint_for
from ..serve_options import (
    AllowRemote,
    Host,
    Http,
    Port,
    Transport,
    UrlPath,
    Way,
    announce,
    as_options,
    way_of,
    with_plain_logging,
)
from ..settings_edit import pairs
from ..shared_options import TIMEOUT, Config, Timeout
from ..shell_completion import server_names
from ..target import choose

EXAMPLES: Final = """
toolcrib bridge https://host/mcp                for a client that only starts programs
toolcrib bridge --http -- npx -y some-server    for a client that only speaks HTTP
"""


def command(
    ctx: typer.Context,
    server: Annotated[
        str | None,
        typer.Argument(
            metavar="[SERVER]",
            help="A name from the settings, a URL, or FILE.py[:NAME]; or a command after --.",
            show_default=False,
            autocompletion=server_names,
        ),
    ] = None,
    transport: Way = Transport.STDIO,
    http: Http = False,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    path: UrlPath = None,
    allow_remote: AllowRemote = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="For the server behind a URL; ${VAR} is replaced."),
    ] = None,
    config: Config = None,
    timeout: Timeout = TIMEOUT,
) -> None:
    """Offer a server to clients that speak another way: a remote one over stdio, a local one over HTTP.

    Both sides may speak either era of the protocol. Over HTTP each session has a server process of its own; clients of
    2026-07-28, which has no sessions, share one.
    """
    way = way_of(ctx, http, transport)
    name, upstream = _upstream(ctx, server, config)
    if header:
        upstream = _with_headers(upstream, header)
    options: dict[str, Any] = {"name": name, "stderr_handler": note}
    if timeout is not None:
        options |= {"connect_timeout": timeout, "discovery_timeout": timeout}
    with_plain_logging(ctx.obj.debug)
    bridging = _bridge(upstream, way, options, host=host, port=port, path=path, allow_remote=allow_remote)
    with as_options():
        run_to_end(announce(name, way, bridging))


async def _bridge(upstream: ServerConfig, way: Transport, options: dict[str, Any], **serving: Any) -> None:
    proxy = Proxy(upstream, alone=way is Transport.STDIO, **options)
    try:
        try:
            await proxy.start()
        except StartError as exc:  # what it wrote was shown as it came
            raise CliError(without_stderr(exc.message), hint=hint_for(exc), code=code_of(exc)) from exc
        await serve(proxy, way.value, **serving)
    finally:
        await proxy.close()


def _upstream(ctx: typer.Context, server: str | None, config: Any) -> tuple[str, ServerConfig]:
    """The one server that is meant, as the settings let it through."""
    if server is None and not ctx.obj.command:
        raise CliError(
            "which server?", hint="a name from the settings, a URL, or a command: toolcrib bridge --http -- COMMAND"
        )
    entry = choose([] if server is None else [server], config, ctx.obj.command).settings.entries[0]
    if entry.config is None:
        raise entry.error or CliError(f"{entry.name} has no settings")
    if entry.allowed_tools is None and not entry.blocked_tools:
        return entry.name, entry.config
    return entry.name, replace(entry.config, tool_filter=static_filter(entry.allowed_tools, entry.blocked_tools))


def _with_headers(config: ServerConfig, given: list[str]) -> ServerConfig:
    if not isinstance(config, HttpServer | SseServer):
        raise CliError("--header: only a server behind a URL takes headers")
    scope = Scope(os.environ)
    more = {name: scope.expand(value) for name, value in pairs("--header", given).items()}
    return replace(config, headers={**(config.headers or {}), **more})
