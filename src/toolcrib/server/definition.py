"""The definition of a server: its name and options, and the tools, resources and prompts that it offers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar, Unpack, cast, overload

from ..config.validators import wrong
from ..errors import UsageError
from ..types import Tool, Wire
from .changes import LISTS, UPDATED, ChangeWatchers
from .components.collection import ComponentCollection
from .components.completion import Completions
from .components.prompts import PromptFunction, PromptOptions, prompt
from .components.resources import ResourceFunction, ResourceOptions, TemplateFunction, resource
from .components.tools import NameStyle, ToolFunction, ToolOptions, made

F = TypeVar("F", bound=Callable[..., Any])

CACHE_TTL: Final = 300.0
"""Seconds for which a modern client may keep a list. It is notified earlier if the list changes."""


class ServerDefinition:
    """A server without its endpoints: what `Router` answers from, and what a function sees as `Context.server`."""

    def __init__(
        self,
        info: Wire,
        *,
        instructions: str | None,
        name_style: NameStyle,
        mask_errors: bool,
        page_size: int | None,
        cache_ttl: float,
        auth: Callable[..., Any] | None,
    ) -> None:
        self.info = info
        """The server's name and version, as clients see them."""
        self.name: str = info["name"]
        self.version: str = info["version"]
        self.instructions = instructions
        self.name_style = name_style
        self.mask_errors = mask_errors
        self.page_size = page_size
        self.cache_ttl = cache_ttl
        self.auth = auth
        for key, good, expected in _CHECKS:
            if not good(getattr(self, key)):
                raise wrong(key, expected, getattr(self, key))
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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} {self.version}: {len(self.tools)} tools>"

    # ---- tools -----------------------------------------------------------------------------------------------

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(self, function: None = None, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...

    def tool(self, function: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Offer a function as a tool: `@server.tool`, or `@server.tool(name=..., ...)` with the options of `tool`.

        Returns the function itself, which can be called as before.
        """
        if function is None:
            return cast("Callable[[F], F]", partial(self._adding, self.add_tool, options))
        self.add_tool(function, **options)
        return function

    def add_tool(self, function: Callable[..., Any] | ToolFunction, **options: Unpack[ToolOptions]) -> ToolFunction:
        """Offer a function, a method, or the result of `@tool`; replaces a tool with the same name.

        With `input_schema` the function gets one dict of arguments.
        """
        if not isinstance(function, ToolFunction):
            options = {"name_style": self.name_style, **options}
        tool = made(function, **options)
        if tool.unbound:
            raise UsageError(f"{tool.name} is a method: add it from an instance, server.add_tool(thing.{tool.name})")
        self.tools.put(tool.name, tool)
        return tool

    def get_tool(self, name: str) -> ToolFunction | None:
        """Return the tool of this name, or None."""
        return self.tools.get(name)

    def list_tools(self) -> list[Tool]:
        """Return the tools as clients see them, in the order in which they were added."""
        return [Tool.from_wire(each.wire) for each in self.tools]

    def remove_tool(self, name: str) -> None:
        """Remove a tool; raises `ToolNotFound` if there is none of this name."""
        self.tools.remove(name)

    # ---- resources and prompts -------------------------------------------------------------------------------

    def resource(self, uri: str, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
        """Offer a function as the resource at `uri`, or as a resource template if `uri` has `{variables}`."""
        if callable(uri):
            raise UsageError('a resource needs its URI: @server.resource("config://app")')
        return cast("Callable[[F], F]", partial(self._adding, partial(self.add_resource, uri=uri), options))

    def add_resource(
        self,
        function: Callable[..., Any] | ResourceFunction | TemplateFunction,
        uri: str | None = None,
        **options: Unpack[ResourceOptions],
    ) -> ResourceFunction | TemplateFunction:
        """Offer a function at `uri`, or the result of `@resource`; replaces a resource with the same URI."""
        made: ResourceFunction | TemplateFunction
        if isinstance(function, ResourceFunction | TemplateFunction):
            if uri is not None or options:
                raise UsageError("the function is a resource already: pass its URI and options to @resource only")
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
        """Remove a resource or a template; raises `ResourceNotFound` if there is none at this URI."""
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
        """Offer a function as a prompt, or the result of `@prompt`; replaces a prompt with the same name."""
        if not isinstance(function, PromptFunction):
            made: PromptFunction = prompt(**options)(function)
        elif options:
            raise UsageError(f"{function.name} is a prompt already: pass its options to @prompt, or add its function")
        else:
            made = function
        self.prompts.put(made.name, made)
        return made

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt; raises `NotFound` if there is none of this name."""
        self.prompts.remove(name)

    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Register a function that completes an argument of a prompt (by name) or a variable of a template (by URI)."""

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
        """Notify the clients that subscribed to this resource of a change. May be called from any thread."""
        self.changes.publish(UPDATED, uri)

    def notify_tools_changed(self) -> None:
        """Notify clients that the list of tools changed. Adding and removing a tool does this automatically."""
        self.changes.publish(LISTS["toolsListChanged"])

    def notify_prompts_changed(self) -> None:
        """Notify clients that the list of prompts changed."""
        self.changes.publish(LISTS["promptsListChanged"])

    def notify_resources_changed(self) -> None:
        """Notify clients that the list of resources changed."""
        self.changes.publish(LISTS["resourcesListChanged"])


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


_CHECKS: Final[tuple[tuple[str, Callable[[Any], bool], str], ...]] = (
    ("name", _is_text, "a non-empty string"),
    ("version", _is_text, "a non-empty string"),
    ("name_style", lambda value: value in ("as_is", "dashed"), '"as_is" or "dashed"'),
    ("page_size", lambda value: value is None or (type(value) is int and value > 0), "a positive integer, or None"),
    ("cache_ttl", lambda value: type(value) in (int, float) and 0 <= value < 1e9, "a number of seconds, 0 or more"),
    ("auth", lambda value: value is None or callable(value), "a callable, or None"),
)
