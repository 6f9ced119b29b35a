"""`Toolbox`: the tools of a source for an agent, usable from any event loop and any thread."""

from __future__ import annotations

import asyncio
import copy
import inspect
import re
from collections.abc import Callable, Container, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, TypeVar, Unpack

from .. import tool_names
from .._util.suggest import did_you_mean, similar_names
from ..client.client import Timeout
from ..errors import InvalidArguments, ToolcribError, ToolNotFound, UsageError
from ..events import ToolsChanged
from ..policy.globs import Glob
from ..protocol import jsonrpc
from ..transports.channel import ProgressHandler
from ..types import UNSET, Tool, Unset
from .answers import ToolAnswer
from .home_loop import HomeLoop
from .schemas import CompiledSchema, Loss, Target, compile_schema
from .tool_source import AnySource, SourceAccess

R = TypeVar("R")

_FIRST_CHARACTER: Final = re.compile(r"[A-Za-z_]")
_NOT_LISTED: Final = (
    "the tools are not listed yet, and a sync call on the event loop cannot wait for them; "
    "write `box = await Toolbox.load(source)` and use the box in place of the source"
)

Arguments = Mapping[str, Any] | str | bytes | None
"""The arguments of a call, decoded or as JSON text."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is offered to a model.

    `name` has 1 to 64 characters of `[A-Za-z0-9_-]` and begins with a letter or `_`. `input_schema` is a copy that a
    framework may change. `tool` is the tool as the source lists it.
    """

    name: str
    description: str
    input_schema: dict[str, Any] = field(hash=False)
    tool: Tool = field(hash=False, repr=False)
    deferred: bool = False
    needs_approval: bool = False
    strict: bool = False
    """Whether `input_schema` keeps the rules of the strict mode of the toolbox's target."""


class ToolboxOptions(TypedDict, total=False):
    """Keywords of `Toolbox`, and of every function of the adapters that takes a source."""

    names: Iterable[str] | None
    timeout: Timeout
    deferred: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tool of the last list."""

    name: str
    tool: Tool
    compiled: CompiledSchema
    deferred: bool
    needs_approval: bool

    def to_spec(self) -> ToolSpec:
        schema = copy.deepcopy(self.compiled.schema)
        text = self.tool.description or self.tool.title or self.tool.original_name or self.tool.name
        return ToolSpec(self.name, text, schema, self.tool, self.deferred, self.needs_approval, self.compiled.strict)


class Toolbox:
    """The tools of a `Hub`, `HubView`, `Client`, their sync twins, or a provider's view, for any agent framework.

    Calls may come from any event loop and thread; they run on the loop that the source belongs to. A call returns a
    `ToolAnswer` and raises no `ToolcribError`: a model can read what went wrong, and whether the tool ran.

    `names` limits the toolbox to tools whose names match one of these patterns. `timeout` is that of each call, in
    seconds. `deferred` also offers deferred tools, marked as such. `target` compiles the schemas for a model API.
    """

    def __init__(
        self,
        source: AnySource,
        *,
        target: Target | None = None,
        _list: tuple[list[Tool], frozenset[str]] | None = None,
        **options: Unpack[ToolboxOptions],
    ) -> None:
        self._access = source if isinstance(source, SourceAccess) else SourceAccess(source)
        self._options = options
        self._target = target
        names = options.get("names")
        self._patterns = None if names is None else tuple(Glob(tool_names.pattern(name) or name) for name in names)
        self._timeout = options.get("timeout", UNSET)
        self._entries: dict[str, _Entry] = {}
        if _list is not None:
            self._keep(*_list)

    @classmethod
    async def load(cls, source: AnySource, **options: Unpack[ToolboxOptions]) -> Toolbox:
        """Return a toolbox that has listed the tools, so that `tools()` need not wait for them."""
        box = cls(source, **options)
        await box.list_tools()
        return box

    @property
    def access(self) -> SourceAccess:
        """The source, with the loop that it belongs to."""
        return self._access

    async def for_run(self, *, agent: Any = None, run_context: Any = None) -> Toolbox:
        """Return a toolbox of the hub as one agent sees it in a run; this toolbox if the source is not a hub."""

        async def view() -> Toolbox:
            make = getattr(self._access.source, "view", None)
            if make is None:
                return self
            return Toolbox(make(agent=agent, run_context=run_context), target=self._target, **self._options)

        return await self._access.home.run(view)

    def derive(self, *, target: Target | None = None, **options: Unpack[ToolboxOptions]) -> Toolbox:
        """Return a toolbox of the same source and list, with another target or other options."""
        merged: ToolboxOptions = {**self._options, **options}
        tools = [entry.tool for entry in self._entries.values()]
        known = (tools, self._deferred_names()) if tools else None
        return Toolbox(self._access, target=target or self._target, _list=known, **merged)

    @property
    def home(self) -> HomeLoop:
        """The event loop on which the calls run."""
        return self._access.home

    # ---- lists -------------------------------------------------------------------------------------------------

    def tools(self) -> list[ToolSpec]:
        """Return the tools now; their schemas are copies.

        On the event loop of the source it cannot wait: if servers must be asked, it returns the last list, and raises
        `UsageError` if there is none.
        """
        if not self._access.home.is_current:
            return self._access.home.wait(self.list_tools)
        listing = self._refresh()
        try:
            listing.send(None)
        except StopIteration:
            return self._specs()
        listing.close()
        if not self._entries:
            raise UsageError(_NOT_LISTED)
        return self._specs()

    async def list_tools(self) -> list[ToolSpec]:
        """Return the tools; their schemas are copies."""
        await self._access.home.run(self._refresh)
        return self._specs()

    @property
    def losses(self) -> list[tuple[str, Loss]]:
        """What the schemas of the last list could not express for the target, with the name of each tool."""
        return [(entry.name, loss) for entry in self._entries.values() for loss in entry.compiled.losses]

    def _specs(self) -> list[ToolSpec]:
        return [entry.to_spec() for entry in self._entries.values()]

    def _deferred_names(self) -> frozenset[str]:
        return frozenset(entry.tool.name for entry in self._entries.values() if entry.deferred)

    async def _refresh(self) -> None:
        """List the tools; runs on the home loop."""
        tools, deferred = await self._access.list_tools(self._options.get("deferred", False))
        self._keep(tools, deferred)

    def _keep(self, tools: Iterable[Tool], deferred: frozenset[str]) -> None:
        before = {entry.tool.name: entry for entry in self._entries.values()}
        entries: dict[str, _Entry] = {}
        for tool in tools:
            if not self._includes(tool.name):
                continue
            name = name_for_models(self._access.model_name(tool.name), entries)
            known = before.get(tool.name)
            unchanged = known is not None and known.tool is tool
            compiled = known.compiled if known is not None and unchanged else self._compile(tool)
            ask = self._access.needs_approval(tool.name)
            entries[name] = _Entry(name, tool, compiled, tool.name in deferred, ask)
        self._entries = entries

    def _compile(self, tool: Tool) -> CompiledSchema:
        return compile_schema(tool.input_schema, self._target)

    def _includes(self, name: str) -> bool:
        return self._patterns is None or any(pattern.matches(name) for pattern in self._patterns)

    # ---- calls -------------------------------------------------------------------------------------------------

    async def call(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        on_progress: ProgressHandler | None = None,
        timeout: Timeout = UNSET,
        approved: bool = False,
    ) -> ToolAnswer:
        """Call a tool by the name that a `ToolSpec` has, and return its answer.

        `arguments` may be JSON text. `on_progress` is called on the caller's event loop. A caller that is cancelled
        cancels the call. Raises `UsageError` after the source was closed, and if the source's event loop is blocked.
        """
        home = self._access.home
        if on_progress is not None and not home.is_running_here():
            on_progress = _on_loop(asyncio.get_running_loop(), on_progress)
        return await home.run(lambda: self._call(name, arguments, on_progress, timeout, approved))

    def call_sync(
        self,
        name: str,
        arguments: Arguments = None,
        *,
        on_progress: ProgressHandler | None = None,
        timeout: Timeout = UNSET,
        approved: bool = False,
    ) -> ToolAnswer:
        """Call a tool and block this thread until the answer is there; see `call`.

        `on_progress` is called on the thread of the source's event loop. Raises `UsageError` on that thread itself.
        """
        return self._access.home.wait(lambda: self._call(name, arguments, on_progress, timeout, approved))

    async def _call(
        self, name: str, arguments: Arguments, on_progress: ProgressHandler | None, timeout: Timeout, approved: bool
    ) -> ToolAnswer:
        """Make one call; runs on the home loop."""
        try:
            entry = self._entries.get(name) or await self._find(name)
            given = decode_arguments(arguments, name)
            options: dict[str, Any] = {}
            if on_progress is not None:
                options["on_progress"] = on_progress
            if approved:
                options["approved"] = True
            limit = self._timeout if isinstance(timeout, Unset) else timeout
            if not isinstance(limit, Unset):
                options["timeout"] = limit
            if entry is None:  # the source knows why the tool is not in the list
                result = await self._access.call_tool(name, given, options)
            else:
                result = await self._access.call_tool(entry.tool.name, entry.compiled.restore(given), options)
        except ToolcribError as exc:
            return ToolAnswer.from_error(exc)
        return ToolAnswer.from_result(result)

    async def _find(self, name: str) -> _Entry | None:
        """Return a tool by its own name, or a new one that is not in the last list; None if the list has no such tool.

        Raises `ToolNotFound` for a tool that the patterns of this toolbox exclude.
        """
        for fresh in (False, True):
            if fresh or not self._entries:
                await self._refresh()
            for entry in self._entries.values():
                if name in (entry.name, entry.tool.name):
                    return entry
        if self._includes(name):
            return None
        near = similar_names(name, self._entries)
        raise ToolNotFound(f"there is no tool of this name{did_you_mean(near)}", tool=name, nearest=tuple(near))

    # ---- changes -----------------------------------------------------------------------------------------------

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener`, on the source's event loop, when the tools change. Returns a function that removes it."""

        async def register() -> Callable[[], None]:
            source = self._access.source
            if hasattr(source, "on"):
                stop: Callable[[], None] = source.on(ToolsChanged, lambda _: listener())
            else:
                stop = source.on_tools_changed(listener)
            return stop

        return self._do(register)

    def _do(self, make: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Run a coroutine that does not wait, on the home loop."""
        if not self._access.home.is_current:
            return self._access.home.wait(make)
        try:
            make().send(None)
        except StopIteration as done:
            result: R = done.value
            return result
        raise AssertionError("it waited")

    def __deepcopy__(self, memo: Any) -> Toolbox:
        return self  # frameworks copy their tools; the connections behind them cannot be copied

    def __repr__(self) -> str:
        return f"<Toolbox tools={len(self._entries)}>"


def name_for_models(name: str, taken: Container[str] = ()) -> str:
    """Return a name that every model API accepts, as `ToolSpec` describes it, and that is not `taken`."""
    return tool_names.alias(name if _FIRST_CHARACTER.match(name) else f"_{name}", taken)


def decode_arguments(arguments: Arguments, tool: str) -> Mapping[str, Any]:
    """Return the arguments as a mapping; raise `InvalidArguments`."""
    value: Any = arguments
    if isinstance(arguments, str | bytes):
        try:
            value = jsonrpc.decode(arguments) if arguments.strip() else None
        except ToolcribError as exc:
            raise InvalidArguments(f"the arguments are not valid JSON: {exc.message}", tool=tool) from exc
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArguments(f"arguments: expected a JSON object, got {type(value).__name__}", tool=tool)
    return value


def _on_loop(loop: asyncio.AbstractEventLoop, handler: ProgressHandler) -> ProgressHandler:
    """Return a handler that calls `handler` on another loop."""
    running: set[asyncio.Future[None]] = set()

    def call(progress: float, total: float | None, message: str | None) -> None:
        answer = handler(progress, total, message)
        if inspect.isawaitable(answer):
            future = asyncio.ensure_future(answer)
            running.add(future)
            future.add_done_callback(running.discard)

    def forward(progress: float, total: float | None, message: str | None) -> None:
        loop.call_soon_threadsafe(call, progress, total, message)

    return forward


def as_toolbox(
    source: AnySource | Toolbox, *, target: Target | None = None, **options: Unpack[ToolboxOptions]
) -> Toolbox:
    """Return a toolbox for a source, or one that is derived from a toolbox."""
    if not isinstance(source, Toolbox):
        return Toolbox(source, target=target, **options)
    return source.derive(target=target, **options) if options or target is not None else source
