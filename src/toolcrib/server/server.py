"""`ToolServer`: offers functions of this process as MCP tools, resources and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ..types import Wire
from .components.tools import NameStyle
from .definition import CACHE_TTL, ServerDefinition
from .in_process import InProcessChannel
from .jsonrpc_handler import JsonRpcHandler
from .router import Router

if TYPE_CHECKING:
    from .serving.run import App, AppOptions, ServeOptions

Transport = Literal["stdio", "http", "streamable-http", "streamable_http", "sse"]


class ToolServer(ServerDefinition):
    """Offers functions of this process as tools, resources and prompts, to a `Client` in this process or over the wire.

    `version` is the version of your server. `name_style="dashed"` replaces `_` in tool names with `-`. `mask_errors`
    hides the texts of unexpected exceptions from callers. `page_size` divides lists into pages. `cache_ttl` is the
    number of seconds for which modern clients may cache a list unless they are notified of a change (0: not at all).
    `auth` is a callable that gets the headers of an HTTP request and returns the principal, or None to reject the
    request. Components can be added and removed at any time, from any thread; clients are notified.
    """

    def __init__(
        self,
        name: str,
        version: str = "0.0.0",
        *,
        title: str | None = None,
        instructions: str | None = None,
        icons: Iterable[Mapping[str, Any]] | None = None,
        website_url: str | None = None,
        name_style: NameStyle = "as_is",
        mask_errors: bool = False,
        page_size: int | None = None,
        cache_ttl: float = CACHE_TTL,
        auth: Callable[..., Any] | None = None,
    ) -> None:
        info: Wire = {"name": name, "version": version}
        if title is not None:
            info["title"] = title
        if website_url is not None:
            info["websiteUrl"] = website_url
        if icons is not None:
            info["icons"] = [dict(icon) for icon in icons]
        super().__init__(
            info,
            instructions=instructions,
            name_style=name_style,
            mask_errors=mask_errors,
            page_size=page_size,
            cache_ttl=cache_ttl,
            auth=auth,
        )
        self.router = Router(self)
        self._jsonrpc_handler = JsonRpcHandler(self.router)

    # ---- endpoints -------------------------------------------------------------------------------------------

    def make_channel(self) -> InProcessChannel:
        """Return the channel for a `Client` in this process; `Client(server)` calls this."""
        return InProcessChannel(self.router)

    async def handle(self, request: Wire | str | bytes) -> Wire | None:
        """Return the JSON-RPC answer to one request; None for a notification.

        Needs no session and no `initialize`, and answers requests of both eras. For an invalid request it returns an
        error answer and does not raise.
        """
        return await self._jsonrpc_handler.handle(request)

    def run(
        self,
        transport: Transport = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        path: str | None = None,
        allow_remote: bool = False,
        **options: Unpack[ServeOptions],
    ) -> None:
        """Serve until a signal arrives or stdin ends; over HTTP at `/mcp` (or `/sse`) unless `path` is given.

        A host other than loopback requires `auth` or `allow_remote=True`.
        """
        from .serving.run import run_to_end  # noqa: PLC0415  # slow to load, and needed only to serve

        run_to_end(self.run_async(transport, host=host, port=port, path=path, allow_remote=allow_remote, **options))

    async def run_async(
        self,
        transport: Transport = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        path: str | None = None,
        allow_remote: bool = False,
        **options: Unpack[ServeOptions],
    ) -> None:
        """Serve as `run` does, on the running event loop."""
        from .serving.run import serve  # noqa: PLC0415  # see `run`

        options.setdefault("auth", self.auth)
        await serve(self, transport, host=host, port=port, path=path, allow_remote=allow_remote, **options)

    def asgi(self, *, path: str = "/mcp", **options: Unpack[AppOptions]) -> App:
        """Return an ASGI app with the endpoint at `path`, to mount in another app or to run in any ASGI server."""
        from .serving.run import make_app  # noqa: PLC0415  # see `run`

        options.setdefault("auth", self.auth)
        return make_app(self, path=path, **options)
