"""Makes the channel to a server from the argument of a `Client`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from ..config import (
    HttpServer,
    PythonServer,
    SecretMask,
    ServerConfig,
    SseServer,
    StdioServer,
    secrets_of,
)
from ..errors import ConfigError
from .channel import Channel, ChannelSource, Counters
from .jsonrpc_stream import StreamChannel
from .message_stream import MessageLink
from .python_file import load_file, server_in
from .sdk_streams import SdkServer, connector, is_sdk_server
from .spawned_http import SpawnedHttpServer
from .stdio.link import StdioLink

if TYPE_CHECKING:
    from .http.address_guard import AddressRules

Target = ServerConfig | ChannelSource | Callable[[], Any]
ServerLike = Target | str
"""The server argument of a `Client`: a config, a URL, a `ToolServer`, or a callable that opens a transport.

Also a server object of FastMCP or of the `mcp` SDK, whose type is not known here.
"""


def target_of(server: Any) -> Target:
    """Check the server argument of a `Client` and return the target. A string is a URL, never a command."""
    if isinstance(server, ServerConfig):
        return server
    if isinstance(server, str):
        if server.startswith(("http://", "https://")):
            return HttpServer(server)
        raise ConfigError(
            "server: expected an http:// or https:// URL, got a string that is not a URL. Use StdioServer(command, "
            "args) for a local process, PythonServer(file) for a Python file, or Hub.from_config(path) for a settings "
            "file",
            key="server",
            expected="http:// or https:// URL",
        )
    if isinstance(server, Mapping | os.PathLike):
        raise ConfigError(
            f"server: expected one server, got {type(server).__name__}. Use Hub.from_config(...) for a settings file "
            "or its dict",
            key="server",
            expected="a server config, URL, ToolServer or transport callable",
        )
    if isinstance(server, ChannelSource):
        return server
    if is_sdk_server(server):
        return SdkServer(server)
    if callable(server):
        return cast("Callable[[], Any]", server)
    raise ConfigError(
        f"server: expected a server such as StdioServer(command, args), a URL or a ToolServer, got an object of type "
        f"{type(server).__name__}",
        key="server",
        expected="StdioServer, HttpServer, SseServer, PythonServer, a URL, a ToolServer or a transport callable",
    )


def open_channel(
    target: Target,
    counters: Counters,
    on_stderr: Callable[[str], object] | None,
    auth: Any = None,
    address_policy: AddressRules | None = None,
) -> Channel:
    """Return a new channel to the target, which is not open yet.

    `address_policy` restricts the addresses of remote servers. A process that is started here is not remote.
    """
    if isinstance(target, StdioServer):
        process = StdioLink(target, on_stderr=on_stderr)
        return StreamChannel(process, counters, process.secrets)
    if isinstance(target, HttpServer):
        from .http.channel import HttpChannel  # noqa: PLC0415  # aiohttp is slow to import
        from .http.network import Egress  # noqa: PLC0415  # the same

        return HttpChannel(target, counters, auth, egress=Egress(address_policy))
    if isinstance(target, SseServer):
        from .http.legacy_sse import SseLink  # noqa: PLC0415  # the same
        from .http.network import Egress  # noqa: PLC0415  # the same

        stream = SseLink(target, auth, egress=Egress(address_policy))
        return StreamChannel(stream, counters, stream.secrets)
    if isinstance(target, SpawnedHttpServer):
        return target.make_channel(counters, on_stderr)
    if isinstance(target, PythonServer):
        return server_in(load_file(target.file), target.variable).make_channel()
    if isinstance(target, ChannelSource):
        return target.make_channel()
    return StreamChannel(MessageLink(connector(target)), counters)


def mask_for(target: Target) -> SecretMask | None:
    """Return a mask that hides the secrets of the target's config; None if the target is not a config with secrets."""
    if isinstance(target, SpawnedHttpServer):
        return target.secrets
    return secrets_of(target) if isinstance(target, StdioServer | HttpServer | SseServer) else None


def uses_streamable_http(target: Target) -> bool:
    """Return whether each request to the target is an HTTP exchange with headers of its own."""
    if isinstance(target, SpawnedHttpServer):
        return target.transport == "streamable_http"
    return isinstance(target, HttpServer)


def older_way(target: Target) -> SseServer | None:
    """Return the config to use if the server supports only HTTP+SSE; None if that does not apply."""
    if not isinstance(target, HttpServer) or not target.streamable:
        return None
    return SseServer(**{f.name: getattr(target, f.name) for f in fields(SseServer)})
