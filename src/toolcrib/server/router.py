"""The request handler of a `ToolServer`: routes each request to the function that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .._util.suggest import did_you_mean
from ..errors import RemoteError
from ..protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from ..protocol.param_headers import Declaration
from ..types import Wire
from .changes import ChangeWatch
from .components.collection import ComponentCollection, shown
from .components.resources import ResourceFunction, TemplateFunction, find_template, not_found
from .context import Context
from .definition import ServerDefinition
from .handler import Deliver, Peer, RequestContext

Work = Callable[[Context | None], Coroutine[Any, Any, Wire]]


class Router:
    """Answers requests with the tools, resources and prompts that a `ToolServer` offers at that moment."""

    def __init__(self, server: ServerDefinition) -> None:
        self._server = server
        self._answers: dict[str, Callable[[Wire, RequestContext], Coroutine[Any, Any, Wire]]] = {
            "tools/list": self._list_tools,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "completion/complete": self._complete,
        }

    # ---- RequestHandler --------------------------------------------------------------------------------------

    def describe(self, peer: Peer) -> Wire:  # noqa: ARG002  # the same for all clients
        """Return `serverInfo`, the capabilities offered now, and perhaps `instructions`."""
        server = self._server
        description: Wire = {"capabilities": self.capabilities(), "serverInfo": server.info}
        if server.instructions:
            description["instructions"] = server.instructions
        return description

    def capabilities(self) -> Wire:
        """Return the capabilities: tools always, because one may be added at any time; others if there are any."""
        server = self._server
        declared: Wire = {"logging": {}, "tools": {"listChanged": True}}
        if len(server.prompts):
            declared["prompts"] = {"listChanged": True}
        if len(server.resources) or len(server.templates):
            declared["resources"] = {"subscribe": True, "listChanged": True}
        if server.completions.offers(server.prompts, server.templates):
            declared["completions"] = {}
        return declared

    def may_ask(self, method: str, params: Wire) -> bool:
        """Return whether the function that answers takes a context."""
        server = self._server
        if method == "tools/call":
            tool = server.tools.get(params.get("name"))
            return tool is not None and tool.takes_context
        if method == "prompts/get":
            prompt = server.prompts.get(params.get("name"))
            return prompt is not None and prompt.takes_context
        if method == "resources/read":
            found = self._resource_at(params.get("uri"))
            return found is not None and found[0].takes_context
        return False

    def mirrored(self, tool: str) -> tuple[Declaration, ...]:
        """Return the arguments of a tool that modern clients repeat in HTTP headers."""
        found = self._server.tools.get(tool)
        return found.headers or () if found is not None else ()

    async def watch(self, wanted: Wire, peer: Peer, deliver: Deliver) -> ChangeWatch:  # noqa: ARG002  # the same for all clients
        """Watch for changes; `wanted` has the form of `notifications` in `subscriptions/listen`."""
        return self._server.changes.watch(wanted, deliver, lambda uri: self._resource_at(uri) is not None)

    async def answer(self, method: str, params: Wire, request_context: RequestContext) -> Wire:
        """Return the result of a request; raises `RemoteError` for an error answer."""
        if method == "tools/call":  # first and inlined, because it is by far the most frequent
            server = self._server
            tool = server.tools.get(params.get("name"))
            if tool is None:
                raise unknown_tool(server.tools, params.get("name"))
            arguments = params.get("arguments")
            if type(arguments) is not dict:
                arguments = _arguments(arguments)
            if not tool.takes_context:
                return await tool.call(arguments, None, mask_errors=server.mask_errors)
            return await self._in_context(
                request_context, lambda context: tool.call(arguments, context, mask_errors=server.mask_errors)
            )
        answer = self._answers.get(method)
        if answer is None:
            raise RemoteError(METHOD_NOT_FOUND, f"Method not found: {shown(method)}")
        return await answer(params, request_context)

    # ---- lists -----------------------------------------------------------------------------------------------

    async def _list_tools(self, params: Wire, request_context: RequestContext) -> Wire:
        return self._page("tools", self._server.tools, params, request_context)

    async def _list_prompts(self, params: Wire, request_context: RequestContext) -> Wire:
        return self._page("prompts", self._server.prompts, params, request_context)

    async def _list_resources(self, params: Wire, request_context: RequestContext) -> Wire:
        return self._page("resources", self._server.resources, params, request_context)

    async def _list_templates(self, params: Wire, request_context: RequestContext) -> Wire:
        return self._page("resourceTemplates", self._server.templates, params, request_context)

    def _page(
        self, field: str, collection: ComponentCollection[Any], params: Wire, request_context: RequestContext
    ) -> Wire:
        server = self._server
        entries, following = collection.page(params.get("cursor"), server.page_size)
        result: Wire = {field: entries}
        if following is not None:
            result["nextCursor"] = following
        result["ttlMs"] = int(server.cache_ttl * 1000)
        result["cacheScope"] = "public" if request_context.peer.principal is None and server.auth is None else "private"
        return result

    # ---- resources, prompts, completion ----------------------------------------------------------------------

    async def _read_resource(self, params: Wire, request_context: RequestContext) -> Wire:
        uri = params.get("uri")
        if not isinstance(uri, str):
            raise RemoteError(INVALID_PARAMS, "uri: must be a string")
        mask, found = self._server.mask_errors, self._resource_at(uri)
        if found is None:
            raise not_found(uri)
        resource, variables = found

        async def read(context: Context | None) -> Wire:
            if isinstance(resource, TemplateFunction):
                return {"contents": await resource.read(uri, variables, context, mask_errors=mask)}
            return {"contents": await resource.read(context, mask_errors=mask)}

        return await self._in_context(request_context, read) if resource.takes_context else await read(None)

    def _resource_at(self, uri: Any) -> tuple[ResourceFunction | TemplateFunction, dict[str, str]] | None:
        """Return the resource at a URI, or else the best matching template with its variables."""
        resource = self._server.resources.get(uri)
        if resource is not None:
            return resource, {}
        return find_template(self._server.templates, uri) if isinstance(uri, str) else None

    async def _get_prompt(self, params: Wire, request_context: RequestContext) -> Wire:
        server, name = self._server, params.get("name")
        prompt = server.prompts.get(name)
        if prompt is None:
            raise RemoteError(
                INVALID_PARAMS, f"Unknown prompt: {shown(name)}{did_you_mean(server.prompts.nearest(name))}"
            )
        arguments, mask = _arguments(params.get("arguments")), server.mask_errors
        if not prompt.takes_context:
            return await prompt.get(arguments, None, mask_errors=mask)
        return await self._in_context(request_context, lambda context: prompt.get(arguments, context, mask_errors=mask))

    async def _complete(self, params: Wire, request_context: RequestContext) -> Wire:
        server = self._server

        def work(context: Context | None) -> Coroutine[Any, Any, Wire]:
            return server.completions.complete(
                params, server.prompts, server.templates, context, mask_errors=server.mask_errors
            )

        return await (
            self._in_context(request_context, work) if server.completions.takes_context(params) else work(None)
        )

    # ---- a context ----------------------------------------------------------------------------------------------

    async def _in_context(self, request_context: RequestContext, work: Work) -> Wire:
        """Run a function with a context that ends when the function does."""
        context = Context(request_context, self._server)
        cancelled = False
        try:
            return await work(context)
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            context.finish(cancelled=cancelled)


def unknown_tool(tools: ComponentCollection[Any], name: Any) -> RemoteError:
    """Return the error for an unknown tool, with suggestions of similar names."""
    if not isinstance(name, str):
        return RemoteError(INVALID_PARAMS, "name: must be the name of a tool")
    return RemoteError(INVALID_PARAMS, f"Unknown tool: {shown(name)}{did_you_mean(tools.nearest(name))}")


def _arguments(given: Any) -> Wire:
    if given is None:
        return {}
    if isinstance(given, dict):
        return given
    raise RemoteError(INVALID_PARAMS, "arguments: must be an object")
