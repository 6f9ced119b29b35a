"""Shared by the modules for model APIs: tools of a source for a model, and the calls that a model makes.

Each of them has three functions. `tools` returns definitions for the request, `calls` reads the calls of a response,
and `results` makes these calls and returns their answers for the next request. The values are plain dicts; no SDK is
needed.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, TypedDict, Unpack

from ..catalog.search import SearchIndex
from ..client.client import Timeout
from ..errors import AccessDenied, InvalidArguments, ToolcribError, UsageError
from ..hub.meta_tools import CALL, MAX_FOUND, SEARCH
from ..types import UNSET, Tool
from .answers import ContentPart, ToolAnswer, to_json
from .result_budget import READ_MORE, KeptResults, answer_read_more, check_budget, limit_answer
from .schemas import Loss, Target, compile_schema
from .tool_source import AnySource, names_for_models
from .toolbox import Arguments, Toolbox, ToolSpec, decode_arguments

OWN_TOOLS: Final = (SEARCH, CALL, READ_MORE)
"""Tools that `results` answers itself."""

_DENIED: Final = "the user did not approve this call"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call that a model wants to make."""

    id: str
    name: str
    arguments: Arguments = None
    """As the model sent them: an object or JSON text."""
    kind: Literal["function", "search"] = "function"
    """`search`: a search for tools of OpenAI Responses that the program has to answer."""


class ToolLoss(NamedTuple):
    """One thing that the definition of a tool does not express: see `Loss`."""

    tool: str
    pointer: str
    keyword: str
    action: str


class ToolList(list[dict[str, Any]]):
    """Tools in the form of a model API, a list of dicts. `losses` is a list of what their schemas do not express."""

    def __init__(self, tools: Iterable[dict[str, Any]] = (), losses: Iterable[ToolLoss] = ()) -> None:
        super().__init__(tools)
        self.losses = list(losses)


class ResultOptions(TypedDict, total=False):
    """Keywords of `results` and `results_sync`, for every model API."""

    timeout: Timeout
    """Seconds for each call."""
    max_result_tokens: int | None
    """An estimate that limits each result. A note at its end says how the model reads the rest with the tool
    `read_more`, which `tools(..., read_more=True)` offers.
    """
    approve: Callable[[ModelCall], bool | Awaitable[bool]] | None
    """Called for each call of a tool that needs approval (`Hub(..., approve="caller")`), before any call is made.
    Without it, such calls are denied.
    """


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The answer to one call; for a search also the tools that it found."""

    call: ModelCall
    answer: ToolAnswer
    found: tuple[ToolSpec, ...] | None = None


AnyTools = AnySource | Toolbox | Sequence[Tool]
"""What `tools` takes: a source, a toolbox, or a list of tools."""


# ---- values of responses ---------------------------------------------------------------------------------------


def read(value: Any, *names: str) -> Any:
    """Return the first of these fields that a dict or an object of an SDK has; None if it has none."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def read_list(value: Any, *names: str) -> list[Any]:
    """Return a list as it is, or that of the first of these fields; an empty list if there is none."""
    found = value if isinstance(value, list | tuple) else read(value, *names)
    return list(found) if isinstance(found, list | tuple) else []


def given_calls(response: Any) -> list[ModelCall] | None:
    """Return a list of calls as it is; None for a response."""
    if isinstance(response, list) and response and all(isinstance(each, ModelCall) for each in response):
        return response
    return None


# ---- tools -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """The tools of a source for one model API: those that a model sees at once, and those that it has to find."""

    loaded: list[ToolSpec]
    deferred: list[ToolSpec]
    losses: list[ToolLoss]

    @property
    def names(self) -> frozenset[str]:
        """The names of all tools."""
        return frozenset(spec.name for spec in (*self.loaded, *self.deferred))


def offer_tools(source: AnyTools, target: Target, *, deferred: bool = False, read_more: bool = False) -> ToolOffer:
    """Return the tools of a source with schemas for a model API; `read_more` adds the tool of this name."""
    if isinstance(source, Sequence):
        specs, losses = _compile_list(source, target)
    else:
        box = _state_of(source).toolbox(source, target, deferred=deferred)
        specs, losses = box.tools(), box.losses
    told = [ToolLoss(name, loss.pointer, loss.keyword, loss.action) for name, loss in losses]
    offer = ToolOffer([s for s in specs if not s.deferred], [s for s in specs if s.deferred], told)
    if read_more:
        offer.loaded.append(own_spec(READ_MORE, target, offer.names))
    return offer


def own_spec(tool: Tool, target: Target, taken: Container[str]) -> ToolSpec:
    """Return one of `OWN_TOOLS` with a schema for a model API."""
    compiled = compile_schema(tool.input_schema, target)
    name = _own_name(tool, taken)
    return ToolSpec(name, tool.description, compiled.schema, tool, strict=compiled.strict)


def with_own_search(offer: ToolOffer, target: Target, search: Literal["own"] | None) -> list[ToolSpec]:
    """Return the tools for an API that cannot defer tools: the loaded ones and, if there are others, a search for them.

    Without a search, the deferred tools are offered as well.
    """
    if not offer.deferred or search is None:
        return [*offer.loaded, *offer.deferred]
    # A view with meta tools lists its own search.
    own = [own_spec(tool, target, ()) for tool in (SEARCH, CALL) if not any(s.tool is tool for s in offer.loaded)]
    return [*offer.loaded, *own]


def _own_name(tool: Tool, taken: Container[str]) -> str:
    """Return the name of one of `OWN_TOOLS`; another one if the source has a tool of this name."""
    return f"toolcrib_{tool.name}" if tool.name in taken else tool.name


def _compile_list(tools: Sequence[Tool], target: Target) -> tuple[list[ToolSpec], list[tuple[str, Loss]]]:
    for tool in tools:
        if not isinstance(tool, Tool):
            raise UsageError(f"tools: expected a source or a list of toolcrib.Tool, got {type(tool).__name__} in it")
    names = names_for_models({tool.name: tool.name for tool in tools})
    specs: dict[str, ToolSpec] = {}
    losses: list[tuple[str, Loss]] = []
    for tool in tools:
        name = names[tool.name]
        if name in specs:
            continue
        compiled = compile_schema(tool.input_schema, target)
        text = tool.description or tool.title or tool.original_name or tool.name
        specs[name] = ToolSpec(name, text, compiled.schema, tool, strict=compiled.strict)
        losses += [(name, loss) for loss in compiled.losses]
    return list(specs.values()), losses


# ---- what is kept for a source -----------------------------------------------------------------------------------


class SourceState:
    """State that is kept as long as a source lives: compiled tools, a search index, and the rest of cut results."""

    def __init__(self) -> None:
        self.kept = KeptResults()
        self._boxes: dict[tuple[Target, bool], tuple[Toolbox, asyncio.AbstractEventLoop | None]] = {}
        self._index = SearchIndex()

    def toolbox(self, source: AnySource | Toolbox, target: Target, *, deferred: bool) -> Toolbox:
        """Return the toolbox of the source for a model API."""
        box, loop = self._boxes.get((target, deferred), (None, None))
        if box is None or (loop is not None and loop.is_closed()):
            if isinstance(source, Toolbox):
                derived = source.derive(target=target, deferred=True) if deferred else source.derive(target=target)
                box, loop = derived, None
            else:
                box, loop = Toolbox(_weak(source), target=target, deferred=deferred), _running_loop()
            self._boxes[target, deferred] = box, loop
        return box

    def search(self, specs: Iterable[ToolSpec], query: str, limit: int) -> list[ToolSpec]:
        """Return the tools that match the words best."""
        by_tool = {id(spec.tool): spec for spec in specs}
        # Other threads may replace it at the same time: this search uses its own.
        self._index = index = self._index.updated(spec.tool for spec in by_tool.values())
        return [by_tool[id(hit.tool)] for hit in index.search(query, limit=limit)]


_STATES: Final[weakref.WeakKeyDictionary[Any, SourceState]] = weakref.WeakKeyDictionary()
_LOCK: Final = threading.Lock()


def _state_of(source: Any) -> SourceState:
    with _LOCK:
        try:
            return _STATES.setdefault(source, SourceState())
        except TypeError:  # no weak references to it
            return SourceState()


def _weak(source: Any) -> Any:
    """Return a proxy that does not keep the source alive: what is kept for a source must end with it."""
    try:
        return weakref.proxy(source)
    except TypeError:
        return source


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


# ---- calls -----------------------------------------------------------------------------------------------------


async def run_calls(
    source: AnySource | Toolbox, calls: list[ModelCall], target: Target, **options: Unpack[ResultOptions]
) -> list[CallOutcome]:
    """Make all calls concurrently and return their outcomes in the order of the calls. A cancelled caller cancels them.

    A call that fails has an error as its answer and does not affect the others.
    """
    if not calls:
        return []
    run = _CallRun(source, target, options)
    steps = await run.prepare(calls)
    approvals: list[bool] = []
    for step in steps:
        approved = run.ask(step)
        approvals.append(bool(await approved if inspect.isawaitable(approved) else approved))
    return await run.make(steps, approvals)


def run_calls_sync(
    source: AnySource | Toolbox, calls: list[ModelCall], target: Target, **options: Unpack[ResultOptions]
) -> list[CallOutcome]:
    """Make all calls concurrently and block this thread until all outcomes are there; see `run_calls`."""
    if not calls:
        return []
    run = _CallRun(source, target, options)
    steps = run.box.source.home.wait(lambda: run.prepare(calls))
    approvals: list[bool] = []
    for step in steps:
        approved = run.ask(step)
        if inspect.isawaitable(approved):
            if inspect.iscoroutine(approved):
                approved.close()
            raise UsageError("approve: expected a function that is not async; await `results` to use one that is")
        approvals.append(bool(approved))
    return run.box.source.home.wait(lambda: run.make(steps, approvals))


@dataclass(frozen=True, slots=True)
class _Step:
    """One call: as the model made it, the call that it stands for, the own tool or the spec that it names, an error."""

    given: ModelCall
    call: ModelCall
    own: Tool | None = None
    spec: ToolSpec | None = None
    error: ToolAnswer | None = None


class _CallRun:
    """The calls of one response."""

    def __init__(self, source: AnySource | Toolbox, target: Target, options: ResultOptions) -> None:
        self._state = _state_of(source)
        self.box = self._state.toolbox(source, target, deferred=True)
        self._timeout = options.get("timeout", UNSET)
        self._budget = options.get("max_result_tokens")
        self._approve = options.get("approve")
        self._specs: dict[str, ToolSpec] = {}
        check_budget(self._budget)

    async def prepare(self, calls: list[ModelCall]) -> list[_Step]:
        """Find the tools of the calls; the tools are listed only if that is necessary."""
        own = {name for tool in OWN_TOOLS for name in (tool.name, f"toolcrib_{tool.name}")}
        if self._approve is not None or any(call.kind == "search" or call.name in own for call in calls):
            try:
                specs = await self.box.list_tools()
            except ToolcribError:
                specs = []  # each call will say so
            self._specs = {spec.name: spec for spec in specs}
            self._specs |= {spec.tool.name: spec for spec in specs if spec.tool.name not in self._specs}
        return [self._prepare(call) for call in calls]

    def _prepare(self, call: ModelCall) -> _Step:
        if call.kind == "search":
            return _Step(call, call, SEARCH)
        own = next((tool for tool in OWN_TOOLS if call.name == _own_name(tool, self._specs)), None)
        listed = self._specs.get(call.name)
        if listed is not None and listed.tool is CALL:  # of a view: the tool that it calls may need an approval
            own = CALL
        if own is not CALL:
            return _Step(call, call, own, listed)
        try:
            inner = self._unwrap(call)
        except ToolcribError as exc:
            return _Step(call, call, error=ToolAnswer.from_error(exc))
        return _Step(call, inner, spec=self._specs.get(inner.name))

    def _unwrap(self, call: ModelCall) -> ModelCall:
        """Return the call that a call of `call_tool` stands for."""
        given = decode_arguments(call.arguments, call.name)
        name = given.get("name")
        if not isinstance(name, str) or any(name == _own_name(tool, self._specs) for tool in OWN_TOOLS):
            raise InvalidArguments(
                f"name: expected the name of a tool, as {SEARCH.name} gave it, got {name!r}", tool=call.name
            )
        return replace(call, name=name, arguments=given.get("arguments"))

    def ask(self, step: _Step) -> bool | Awaitable[bool]:
        """Return whether a call is approved; False for one that needs no approval."""
        if self._approve is None or step.spec is None or not step.spec.needs_approval:
            return False
        return self._approve(step.call)

    async def make(self, steps: list[_Step], approvals: list[bool]) -> list[CallOutcome]:
        """Make the calls concurrently."""
        work = (self._make(step, approved) for step, approved in zip(steps, approvals, strict=True))
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failed:  # wrong use of the source, which is the same for all calls
            raise failed[0]
        return [outcome for outcome in outcomes if isinstance(outcome, CallOutcome)]

    async def _make(self, step: _Step, approved: bool) -> CallOutcome:
        call, found = step.call, None
        if step.error is not None:
            answer = step.error
        elif step.own is not None:
            answer, found = self._answer(step.own, call)
        elif self._approve is not None and step.spec is not None and step.spec.needs_approval and not approved:
            answer = ToolAnswer.from_error(AccessDenied(_DENIED, tool=call.name))
        else:
            answer = await self.box.call(call.name, call.arguments, timeout=self._timeout, approved=approved)
        if step.own is not READ_MORE:
            answer = limit_answer(answer, self._budget, self._state.kept, _own_name(READ_MORE, self.box))
        return CallOutcome(step.given, answer, found)

    def _answer(self, own: Tool, call: ModelCall) -> tuple[ToolAnswer, tuple[ToolSpec, ...] | None]:
        """Return the answer to a call of one of `OWN_TOOLS`, and the tools that a search found."""
        try:
            given = decode_arguments(call.arguments, call.name)
            if own is READ_MORE:
                return answer_read_more(given, self._budget, self._state.kept, call.name), None
            found = self._search(given, call.name)
        except ToolcribError as exc:
            return ToolAnswer.from_error(exc), None
        shown = [{"name": s.name, "description": s.description, "input_schema": s.input_schema} for s in found]
        text = to_json(shown) if shown else "No tool matches these words: try others."
        return ToolAnswer((ContentPart("text", text),)), tuple(found)

    def _search(self, given: Mapping[str, Any], tool: str) -> list[ToolSpec]:
        query, limit = given.get("query"), given.get("limit", 5)
        if not isinstance(query, str) or not query.strip():
            raise InvalidArguments("query: expected words that say what the tool should do", tool=tool)
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            limit = 5
        specs = {id(spec): spec for spec in self._specs.values()}.values()
        deferred = [spec for spec in specs if spec.deferred]
        return self._state.search(deferred or specs, query, min(limit, MAX_FOUND))
