"""`Toolbox`: the tools of a source for an agent, usable from any event loop and any thread."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypedDict, Unpack

from .. import tool_names
from .._util.suggest import did_you_mean, similar_names
from ..client.client import Timeout
from ..client.options import checked_timeout
from ..client.tool_calls import listing_before_call
from ..config import wrong
from ..errors import InvalidArguments, ToolcribError, ToolNotFound, UsageError
from ..hub.meta_tools import CALL
from ..policy.globs import Glob
from ..protocol import jsonrpc
from ..transports.channel import ProgressHandler
from ..types import UNSET, Tool
from .answers import ToolAnswer
from .progress_relay import ProgressRelay
from .schemas import CompiledSchema, Loss, Target, compile_schema
from .tool_source import AnySource, BoundSource, ListedTool

_NOT_LISTED: Final = (
    "the tools are not listed yet, and a sync call on the event loop cannot wait for them; "
    "write `box = await Toolbox.load(source)` and use the box in place of the source"
)

_JSON_TYPES: Final = {
    list: "an array",
    tuple: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
}

Arguments = Mapping[str, Any] | str | bytes | None
"""The arguments of a call, decoded or as JSON text."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is offered to a model."""

    name: str
    """1 to 64 characters of `[A-Za-z0-9_-]`; the first one is a letter or `_`."""
    description: str
    input_schema: dict[str, Any] = field(hash=False)
    """The JSON Schema of the arguments, for the toolbox's target; a copy that a framework may change."""
    tool: Tool = field(hash=False, repr=False)
    """The tool as the source lists it."""
    deferred: bool = False
    """Whether the source defers the tool: a model should see it only after a search."""
    needs_approval: bool = False
    """Whether the framework has to ask before a call, and then to pass `approved=True`."""
    strict: bool = False
    """Whether `input_schema` keeps the rules of the strict mode of the toolbox's target."""


class ToolboxOptions(TypedDict, total=False):
    """Keywords of `Toolbox`, and of the functions of the framework modules that take a source."""

    names: Iterable[str] | None
    """Only tools whose names match one of these patterns, such as `mcp__fs__read_*`. None: all tools."""
    timeout: Timeout
    """Seconds for each call."""
    deferred: bool
    """Whether deferred tools are offered, too, marked as deferred."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A tool that the toolbox offers."""

    listed: ListedTool
    compiled: CompiledSchema

    def to_spec(self) -> ToolSpec:
        name, tool, deferred, needs_approval = self.listed
        text = tool.description or tool.title or tool.original_name or tool.name
        schema = _copy(self.compiled.schema)
        return ToolSpec(name, text, schema, tool, deferred, needs_approval, self.compiled.strict)


class Toolbox:
    """The tools of a `Hub`, `HubView` or `Client`, also of `toolcrib.sync`, or of a provider's view, for any framework.

    Calls may come from any event loop and thread; they run on the loop that the source belongs to. A call returns a
    `ToolAnswer` and raises no `ToolcribError`: a model can read what went wrong, and whether the tool ran. Wrong use of
    the toolbox raises `UsageError`.

    `target` compiles the schemas for a model API; for the other keywords see `ToolboxOptions`.
    """

    def __init__(
        self,
        source: AnySource,
        *,
        target: Target | None = None,
        names: Iterable[str] | None = None,
        timeout: Timeout = UNSET,
        deferred: bool = False,
        _listed: tuple[ListedTool, ...] | None = None,
    ) -> None:
        if isinstance(names, str):
            raise wrong("names", "a list of names or patterns, such as ['mcp__fs__read_*']", names)
        self._source = source if isinstance(source, BoundSource) else BoundSource(source)
        self._target = target
        self._names = None if names is None else tuple(names)
        self._timeout = timeout if timeout is UNSET else checked_timeout("timeout", timeout)
        self._deferred = deferred
        self._globs = [Glob(tool_names.pattern(name) or name) for name in self._names or ()]
        # Both are replaced, never changed: other threads may be reading them.
        self._listed: tuple[ListedTool, ...] | None = None
        self._entries: dict[str, _Entry] = {}
        if _listed is not None:
            self._keep(_listed)

    @classmethod
    async def load(
        cls, source: AnySource, *, target: Target | None = None, **options: Unpack[ToolboxOptions]
    ) -> Toolbox:
        """Return a toolbox that has listed its tools, so that `tools()` works on the event loop of the source."""
        box = cls(source, target=target, **options)
        await box.list_tools()
        return box

    @property
    def source(self) -> BoundSource:
        """The source, with the loop that it belongs to."""
        return self._source

    async def for_run(self, *, agent: Any = None, run_context: Any = None) -> Toolbox:
        """Return a toolbox of the hub as one agent sees it in a run; this toolbox if the source is not a hub."""

        async def view() -> Toolbox:
            make = getattr(self._source.source, "view", None)
            if make is None:
                return self
            return Toolbox(make(agent=agent, run_context=run_context), target=self._target, **self._options)

        return await self._source.home.run(view)

    @property
    def _options(self) -> ToolboxOptions:
        return {"names": self._names, "timeout": self._timeout, "deferred": self._deferred}

    def derive(self, *, target: Target | None = None, **options: Unpack[ToolboxOptions]) -> Toolbox:
        """Return a toolbox of the same source and list, with another target or other options."""
        merged: ToolboxOptions = {**self._options, **options}
        same_list = merged["deferred"] == self._deferred
        listed = self._listed if same_list else None
        return Toolbox(self._source, target=target or self._target, _listed=listed, **merged)

    # ---- lists -------------------------------------------------------------------------------------------------

    def tools(self) -> list[ToolSpec]:
        """Return the current tools; their schemas are copies.

        On the event loop of the source it cannot wait for servers: if it would have to, it returns the last list, and
        raises `UsageError` if there is none.
        """
        home = self._source.home
        if not home.is_running_here():
            home.wait(self._refresh)
        elif (listed := self._source.peek_tools(self._deferred)) is not None:
            self._keep(listed)
        elif self._listed is None:
            raise UsageError(_NOT_LISTED)
        return self._specs()

    async def list_tools(self) -> list[ToolSpec]:
        """Return the current tools; their schemas are copies."""
        await self._source.home.run(self._refresh)
        return self._specs()

    @property
    def losses(self) -> list[tuple[str, Loss]]:
        """Everything that the schemas of the last list do not express for the target, with the name of each tool."""
        return [(name, loss) for name, entry in self._entries.items() for loss in entry.compiled.losses]

    def __contains__(self, name: object) -> bool:
        """Return whether the last list has a tool that models call by this name."""
        return name in self._entries

    def _specs(self) -> list[ToolSpec]:
        return [entry.to_spec() for entry in self._entries.values()]

    async def _refresh(self) -> None:
        """List the tools; runs on the home loop."""
        self._keep(await self._source.list_tools(self._deferred))

    def _keep(self, listed: tuple[ListedTool, ...]) -> None:
        before, entries = self._entries, {}
        for each in listed:
            if self._names is not None and not self._includes(each):
                continue
            known = before.get(each.name)
            if known is None or not (known.listed.tool is each.tool or known.listed.tool == each.tool):
                entries[each.name] = _Entry(each, compile_schema(each.tool.input_schema, self._target))
            else:
                entries[each.name] = known if known.listed == each else _Entry(each, known.compiled)
        self._listed, self._entries = listed, entries

    def _includes(self, listed: ListedTool) -> bool:
        return any(glob.matches(listed.tool.name) or glob.matches(listed.name) for glob in self._globs)

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

        `arguments` may be JSON text. `on_progress`, sync or async, is called on the caller's event loop, with the
        caller's context variables. A caller that is cancelled cancels the call. `approved=True` says that the user
        approved the call: see `ToolSpec.needs_approval`. Raises `UsageError` after the source was closed, and if the
        source's event loop is blocked.
        """
        home = self._source.home
        if home.is_running_here():
            if on_progress is None:
                return await self._call(name, arguments, None, timeout, approved)
            return await self._call_with_progress(name, arguments, on_progress, timeout, approved)
        if on_progress is None:
            return await home.run(lambda: self._call(name, arguments, None, timeout, approved))
        relay = ProgressRelay(on_progress)
        report = relay.make_remote(asyncio.get_running_loop())
        answer = await home.run(lambda: self._call(name, arguments, report, timeout, approved))
        await relay.drain()
        return answer

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

        `on_progress` is called on the thread of the source's event loop. An interrupted wait cancels the call. Raises
        `UsageError` on the thread of the source's event loop.
        """
        home = self._source.home
        if on_progress is None:
            return home.wait(lambda: self._call(name, arguments, None, timeout, approved))
        context, handler = contextvars.copy_context(), on_progress
        return home.wait(lambda: self._call_with_progress(name, arguments, handler, timeout, approved, context))

    async def _call_with_progress(
        self,
        name: str,
        arguments: Arguments,
        on_progress: ProgressHandler,
        timeout: Timeout,
        approved: bool,
        context: contextvars.Context | None = None,
    ) -> ToolAnswer:
        """Make one call whose progress is reported here, on the home loop."""
        relay = ProgressRelay(on_progress, context)
        answer = await self._call(name, arguments, relay.report, timeout, approved)
        await relay.drain()
        return answer

    async def _call(
        self, name: str, arguments: Arguments, on_progress: ProgressHandler | None, timeout: Timeout, approved: bool
    ) -> ToolAnswer:
        """Make one call; runs on the home loop."""
        options: dict[str, Any] = {}
        limit = self._timeout if timeout is UNSET else timeout
        if limit is not UNSET:
            options["timeout"] = limit
        if on_progress is not None:
            options["on_progress"] = on_progress
        try:
            given = arguments if type(arguments) is dict else decode_arguments(arguments, name)
            entry = self._entries.get(name) or await self._find(name)
            if entry is not None:
                name, given = entry.listed.tool.name, entry.compiled.restore(given)
                if self._names is not None and entry.listed.tool is CALL:
                    self._check_included(given.get("name"))
            # Without an entry, the source knows why it does not offer the tool.
            result = await self._source.call_tool(name, given, approved, options)
        except ToolcribError as exc:
            return ToolAnswer.from_error(exc)
        return ToolAnswer.from_result(result)

    async def _find(self, name: str) -> _Entry | None:
        """Return a tool by its own name, or one that is not in the last list; None if the source does not offer it.

        Raises `ToolNotFound` if this toolbox offers only some tools: the source might know the name by another name.
        """
        entry = None if self._listed is None else self._find_listed(name)
        if entry is None:
            with listing_before_call():
                await self._refresh()
            entry = self._find_listed(name)
        if entry is None and self._names is not None:
            raise self._make_not_found(name)
        return entry

    def _check_included(self, name: object) -> None:
        """Raise `ToolNotFound` if a call by the meta tool of a view names a tool that `names` leaves out."""
        if isinstance(name, str) and not any(glob.matches(name) for glob in self._globs):
            raise self._make_not_found(name)

    def _make_not_found(self, name: str) -> ToolNotFound:
        near = similar_names(name, self._entries)
        return ToolNotFound(f"there is no tool of this name{did_you_mean(near)}", tool=name, nearest=near)

    def _find_listed(self, name: str) -> _Entry | None:
        entries = self._entries
        return entries.get(name) or next((each for each in entries.values() if each.listed.tool.name == name), None)

    # ---- changes -----------------------------------------------------------------------------------------------

    def on_change(self, listener: Callable[[], Any]) -> Callable[[], None]:
        """Call `listener`, sync or async, on the source's event loop, when the tools may have changed.

        Returns a function that removes the listener; it may be called from any thread, and after the source was closed.
        """
        source = self._source
        stop = source.home.do(lambda: source.on_change(listener))

        def remove() -> None:
            with contextlib.suppress(UsageError):  # the source is closed, or its loop has ended: nothing is called
                source.home.do(stop)

        return remove

    # ---- other methods -----------------------------------------------------------------------------------------

    def __copy__(self) -> Toolbox:
        return self

    def __deepcopy__(self, memo: Any) -> Toolbox:
        return self  # frameworks copy their tools; the connections behind them cannot be copied

    def __reduce__(self) -> NoReturn:
        raise UsageError("a toolbox holds connections and cannot be pickled; make a new one from a hub")

    def __repr__(self) -> str:
        return f"<Toolbox tools={len(self._entries)}>"


def decode_arguments(arguments: Arguments, tool: str) -> Mapping[str, Any]:
    """Return the arguments as a mapping; raise `InvalidArguments`."""
    value: Any = arguments
    if isinstance(arguments, str | bytes):
        try:
            value = jsonrpc.decode(arguments, repair=True) if arguments.strip() else None
        except ToolcribError as exc:
            raise InvalidArguments(
                f"arguments: expected a JSON object, got text that is not valid JSON ({exc.message})", tool=tool
            ) from exc
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArguments(
            f"arguments: expected a JSON object, got {_JSON_TYPES.get(type(value), 'no JSON')}", tool=tool
        )
    return value


def _copy(value: Any) -> Any:
    """Return a copy of a JSON value; much faster than `copy.deepcopy`."""
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    return value


def as_toolbox(
    source: AnySource | Toolbox, *, target: Target | None = None, **options: Unpack[ToolboxOptions]
) -> Toolbox:
    """Return a toolbox for a source, or one that is derived from a toolbox."""
    if not isinstance(source, Toolbox):
        return Toolbox(source, target=target, **options)
    return source.derive(target=target, **options) if options or target is not None else source
