"""`ToolServer`: functions of this process as MCP tools, resources and prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Unpack, cast, overload

from ..config.validators import wrong
from ..errors import UsageError
from ..types import Tool, Wire
from .changes import LISTS, UPDATED, ChangeWatchers
from .components.collection import ComponentCollection
from .components.completion import Completions
from .components.prompts import PromptFunction, PromptOptions, prompt
from .components.resources import ResourceFunction, ResourceOptions, TemplateFunction, resource
from .components.tools import NameStyle, ToolFunction, ToolOptions, made
from .in_process import InProcessChannel
from .jsonrpc_handler import JsonRpcHandler
from .router import Router

if TYPE_CHECKING:
    from .serving.run import App, AppOptions, ServeOptions

F = TypeVar("F", bound=Callable[..., Any])
Transport = Literal["stdio", "http", "streamable-http", "streamable_http", "sse"]

CACHE_TTL: Final = 300.0
"""Seconds for which a modern client may keep a list. It is notified earlier if the list changes."""


class ToolServer:
    """Functions of this process as tools, resources and prompts: called directly by a `Client`, or served to others.

    `version` is your server's own. `name_style="dashed"` names tools with `-` for `_`. `mask_errors` keeps the texts of
    unexpected exceptions from callers. `page_size` cuts lists into pages; `cache_ttl` tells modern clients for how many
    seconds they may keep a list unless they are notified of a change (0: not at all). `auth` is a callable that gets
    the headers of an HTTP request and gives who asks, or None to refuse. Everything may be added and removed at any
    time, from any thread: clients are told.
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
        self.name = name
        self.version = version
        self.instructions = instructions
        self.name_style = name_style
        self.mask_errors = mask_errors
        self.page_size = page_size
        self.cache_ttl = cache_ttl
        self.auth = auth
        for key, good, expected in _CHECKS:
            if not good(getattr(self, key)):
                raise wrong(key, expected, getattr(self, key))
        self.info: Wire = {"name": name, "version": version}
        """Who this server is, as clients see it."""
        if title is not None:
            self.info["title"] = title
        if website_url is not None:
            self.info["websiteUrl"] = website_url
        if icons is not None:
            self.info["icons"] = [dict(icon) for icon in icons]
        self.changes = ChangeWatchers()
        self.tools: ComponentCollection[ToolFunction] = ComponentCollection("tool", self.notify_tools_changed)
        self.prompts: ComponentCollection[PromptFunction] = ComponentCollection("prompt", self.notify_prompts_changed)
        self.resources: ComponentCollection[ResourceFunction] = ComponentCollection(
            "resource", self.notify_resources_changed
        )
        self.templates: ComponentCollection[TemplateFunction] = ComponentCollection(
            "resource template", self.notify_resources_changed
        )
        self.completions = Completions()
        self.router = Router(self)
        self._jsonrpc_handler = JsonRpcHandler(self)

    def __repr__(self) -> str:
        return f"<ToolServer {self.name} {self.version}: {len(self.tools)} tools>"

    # ---- tools -----------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(self, function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...

    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Offer a function as a tool: `@server.tool`, or `@server.tool(name=..., ...)` with the options of `tool`.

        The function itself is given back, and can be called as before.
        """
        if function is None:
            return cast("Callable[[F], F]", partial(self._adding, self.add_tool, options))
        self.add_tool(function, **options)
        return function

    def add_tool(self, function: Callable[..., Any] | ToolFunction, **options: Unpack[ToolOptions]) -> ToolFunction:
        """Offer a function, a method, or what `@tool` made. With `input_schema` it gets one dict of arguments.

        What has the same name is replaced.
        """
        if not isinstance(function, ToolFunction):
            options = {"name_style": self.name_style, **options}
        tool = made(function, **options)
        if tool.unbound:
            raise UsageError(f"{tool.name} is a method: add it from an instance, server.add_tool(thing.{tool.name})")
        self.tools.put(tool.name, tool)
        return tool

    def get_tool(self, name: str) -> ToolFunction | None:
        """The tool of this name, if there is one."""
        return self.tools.get(name)

    def list_tools(self) -> list[Tool]:
        """What clients see of the tools, in the order in which they were added."""
        return [Tool.from_wire(each.wire) for each in self.tools]

    def remove_tool(self, name: str) -> None:
        """Offer it no more; `ToolNotFound` if there is none of this name."""
        self.tools.remove(name)

    # ---- resources and prompts -------------------------------------------------------------------------------

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Offer a function as the resource at `uri`, or with `{variables}` in it as a template of resources."""
        if callable(uri):
            raise UsageError('a resource needs its URI: @server.resource("config://app")')
        return cast("Callable[[F], F]", partial(self._adding, partial(self.add_resource, uri=uri), options))

    def add_resource(
        self,
        function: Callable[..., Any] | ResourceFunction | TemplateFunction,
        uri: str | None = None,
        **options: Unpack[ResourceOptions],
    ) -> ResourceFunction | TemplateFunction:
        """Offer a function at `uri`, or what `@resource` made. What has the same URI is replaced."""
        made: ResourceFunction | TemplateFunction
        if isinstance(function, ResourceFunction | TemplateFunction):
            if uri is not None or options:
                raise UsageError("it is a resource already, with a URI and options of its own")
            made = function
        elif uri is None:
            raise UsageError('a resource needs its URI: add_resource(function, "config://app")')
        else:
            made = resource(uri, **options)(function)
        if isinstance(made, TemplateFunction):
            self.templates.put(made.uri_template, made)
        else:
            self.resources.put(made.uri, made)
        return made

    def remove_resource(self, uri: str) -> None:
        """Offer the resource, or the template, no more; `ResourceNotFound` if there is none."""
        if self.templates.get(uri) is not None:
            self.templates.remove(uri)
        else:
            self.resources.remove(uri)

    @overload
    def prompt(self, function: F, /) -> F: ...

    @overload
    def prompt(self, function: None = None, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...

    def prompt(self, function: F | None = None, /, **options: Unpack[PromptOptions]) -> F | Callable[[F], F]:
        """Offer a function as a prompt: `@server.prompt`, or `@server.prompt(name=..., ...)`."""
        if function is None:
            return cast("Callable[[F], F]", partial(self._adding, self.add_prompt, options))
        self.add_prompt(function, **options)
        return function

    def add_prompt(
        self, function: Callable[..., Any] | PromptFunction, **options: Unpack[PromptOptions]
    ) -> PromptFunction:
        """Offer a function as a prompt, or what `@prompt` made. What has the same name is replaced."""
        if not isinstance(function, PromptFunction):
            made: PromptFunction = prompt(**options)(function)
        elif options:
            raise UsageError(f"{function.name} is a prompt already: give its options to @prompt, or add its function")
        else:
            made = function
        self.prompts.put(made.name, made)
        return made

    def remove_prompt(self, name: str) -> None:
        """Offer it no more; `NotFound` if there is none of this name."""
        self.prompts.remove(name)

    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Let a function suggest values for an argument of a prompt (by name) or a variable of a template (by URI)."""

        def add(function: F) -> F:
            self.completions.add(ref, argument, function)
            return function

        return add

    @staticmethod
    def _adding(add: Callable[..., Any], options: Mapping[str, Any], function: F) -> F:
        add(function, **options)
        return function

    # ---- changes ---------------------------------------------------------------------------------------------

    def notify_resource_updated(self, uri: str) -> None:
        """Tell the clients that subscribed to this resource that it is not what it was. From any thread."""
        self.changes.publish(UPDATED, uri)

    def notify_tools_changed(self) -> None:
        """Tell clients to list the tools again. Adding and removing does it by itself."""
        self.changes.publish(LISTS["toolsListChanged"])

    def notify_prompts_changed(self) -> None:
        """Tell clients to list the prompts again."""
        self.changes.publish(LISTS["promptsListChanged"])

    def notify_resources_changed(self) -> None:
        """Tell clients to list the resources again."""
        self.changes.publish(LISTS["resourcesListChanged"])

    # ---- the doors -------------------------------------------------------------------------------------------

    def make_channel(self) -> InProcessChannel:
        """How a `Client` in this process gets here: `Client(server)`."""
        return InProcessChannel(self.router)

    async def handle(self, request: Wire | str | bytes) -> Wire | None:
        """The JSON-RPC door: one request, its answer; None for a notification.

        No session and no `initialize` is needed. Requests of both eras are answered, and nothing is raised for what is
        wrong with a request: that is an error answer.
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
        """Serve until it is stopped, at `/mcp` (or `/sse`) unless told otherwise.

        Beyond loopback only with `auth`, or with `allow_remote=True`.
        """
        from .serving.run import run  # noqa: PLC0415  # web servers take long to load: only those who serve wait

        options.setdefault("auth", self.auth)
        run(self, transport, host=host, port=port, path=path, allow_remote=allow_remote, **options)

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
        """`run` inside of a running event loop."""
        from .serving.run import serve  # noqa: PLC0415  # the same

        options.setdefault("auth", self.auth)
        await serve(self, transport, host=host, port=port, path=path, allow_remote=allow_remote, **options)

    def asgi(self, *, path: str = "/mcp", **options: Unpack[AppOptions]) -> App:
        """An ASGI app with the endpoint at `path`, to be mounted in another one or served by any ASGI server."""
        from .serving.run import make_app  # noqa: PLC0415  # the same

        options.setdefault("auth", self.auth)
        return make_app(self, path=path, **options)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_CHECKS: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    ("name", _is_text, "a text that is not empty"),
    ("version", _is_text, "a text that is not empty"),
    ("name_style", lambda value: value in ("as_is", "dashed"), '"as_is" or "dashed"'),
    ("page_size", lambda value: value is None or (type(value) is int and value > 0), "a number above 0, or None"),
    ("cache_ttl", lambda value: type(value) in (int, float) and 0 <= value < 1e9, "seconds, 0 or more"),
    ("auth", lambda value: value is None or callable(value), "a callable, or None"),
)
