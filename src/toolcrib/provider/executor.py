"""Executes calls of registered tools: checks, cleaned and validated arguments, a leased connection, one outcome.

Nothing on this path reads the store: sources and tools come from the snapshot, and the audit row is kept in memory
until the next batch is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final, NamedTuple, TypedDict

from .. import defaults
from ..client.client import Timeout
from ..client.options import checked_timeout
from ..errors import AccessDenied, InvalidArguments, RemoteError, ToolcribError, ToolNotFound, UsageError
from ..policy.argument_cleaning import clean, clean_for_schema
from ..policy.json_schema import ArgumentValidator
from ..protocol.jsonrpc import INVALID_PARAMS
from ..transports.channel import CallTrace, ProgressHandler
from ..types import UNSET, ToolResult
from ..upstreams.pool import LOCAL
from .approved_calls import ApprovedCalls
from .connections import SourceConnections
from .inventory import InventoryTool, ToolState
from .outcomes import ExecutionResult, find_outcome, make_failure, make_result
from .principals import MAX_PRINCIPAL_LENGTH
from .snapshot import Source
from .source_config import ReviewPolicy
from .store.audit import AuditWriter
from .store.rows import ExecutionRow, make_id

MAX_COMPILED_TOOLS: Final = 10_000
"""Tools whose compiled schemas are kept."""
MAX_ERROR: Final = 300
"""Characters of an error in the audit."""
MAX_GIVEN_NAME: Final = 200
"""Characters, in the audit, of the name of a source or tool that is not known."""


class ExecutionOptions(TypedDict, total=False):
    """Keywords of an execution."""

    principal: str
    """Whose call it is; default `local`."""
    session: str | None
    """The caller's session, for sources with a connection per session."""
    timeout: Timeout
    """Seconds for everything: waiting for a connection, starting the source, the call."""
    idle_timeout: Timeout
    """The longest time without a progress notification."""
    environment: Mapping[str, str] | None
    """Values of variables or headers for this call alone; it gets a connection of its own."""
    on_progress: ProgressHandler | None
    """Called with progress, total and message."""
    meta: Mapping[str, Any] | None
    """The `_meta` of the call."""
    retry_safe: bool | None
    """Whether this call may run twice without harm."""


class Execution:
    """One call that runs: its facts for the metadata of the result and for the audit."""

    __slots__ = ("_began", "_leased_at", "principal", "source", "tool", "trace")

    def __init__(self, source: Source, tool: InventoryTool, principal: str) -> None:
        self.source = source
        self.tool = tool
        self.principal = principal
        self.trace = CallTrace()
        self._began = monotonic()
        self._leased_at: float | None = None

    def note_lease(self) -> None:
        """Note that a connection was leased."""
        self._leased_at = monotonic()

    def left_of(self, timeout: float | None) -> float | None:
        """Return what is left of a time-out that began with the call."""
        return None if timeout is None else max(timeout - (monotonic() - self._began), 0.001)

    def elapsed_ms(self) -> float:
        """Return the milliseconds since the beginning."""
        return (monotonic() - self._began) * 1000

    def describe(self, elapsed_ms: float, *, answered: bool) -> dict[str, Any]:
        """Return the metadata of the result."""
        source, trace = self.source, self.trace
        leased_ms = elapsed_ms if self._leased_at is None else (self._leased_at - self._began) * 1000
        connected_ms = elapsed_ms if trace.connected_at is None else (trace.connected_at - self._began) * 1000
        connected_ms = max(connected_ms, leased_ms)
        timing = {"queue_ms": leased_ms, "start_ms": connected_ms - leased_ms, "call_ms": elapsed_ms - connected_ms}
        return {
            "source": source.name,
            "source_id": source.id,
            "tool": self.tool.name,
            "tool_hash": self.tool.hash,
            "generation": source.generation,
            "principal": self.principal,
            "outcome": "ok",
            "sent": True,
            "attempts": trace.failures + answered,
            "timing": timing,
        }

    def end(
        self, outcome: str, sent: bool | None, elapsed_ms: float, error: str = "", *, answered: bool
    ) -> EndedExecution:
        """Return how the call ended, for the audit."""
        return EndedExecution(self, time.time(), outcome, sent, elapsed_ms, error, self.trace.failures + answered)


class EndedExecution(NamedTuple):
    """How a call ended. Its row is made when it is stored: the call does not wait for that."""

    execution: Execution
    at: float
    outcome: str
    sent: bool | None
    duration_ms: float
    error: str
    attempts: int

    def make_row(self, id: str) -> ExecutionRow:
        """Return the row for the audit."""
        call = self.execution
        return ExecutionRow(
            id=id,
            at=self.at,
            principal=call.principal,
            source_id=call.source.id,
            tool=call.tool.name,
            tool_hash=call.tool.hash,
            generation=call.source.generation,
            outcome=self.outcome,
            sent=self.sent,
            attempts=self.attempts,
            duration_ms=self.duration_ms,
            error=self.error,
        )


class _CompiledTool:
    """What the path of a call needs of a tool's definition."""

    __slots__ = ("schema", "validator", "wraps_result")

    def __init__(self, tool: InventoryTool) -> None:
        known = tool.tool
        self.schema = known.input_schema
        self.validator = ArgumentValidator(known.input_schema)
        self.wraps_result = known.wraps_result


class Executor:
    """Executes calls. `on_stale` is called with the id of a source that rejects a call of a tool that is listed."""

    def __init__(self, connections: SourceConnections, audit: AuditWriter, on_stale: Callable[[str], None]) -> None:
        self._connections = connections
        self._audit = audit
        self._on_stale = on_stale
        self._approved = ApprovedCalls(on_stale)
        self._tools: dict[str, _CompiledTool] = {}
        """What was compiled of each definition, by its hash."""

    async def execute(
        self, source: Source, tool: InventoryTool, arguments: Mapping[str, Any] | None, options: ExecutionOptions
    ) -> ExecutionResult:
        """Execute a call and return its one outcome; only a cancellation or a `UsageError` is raised."""
        execution = Execution(source, tool, options.get("principal", LOCAL))
        try:
            result = await self._run(execution, arguments, options)
        except ToolcribError as exc:
            elapsed = execution.elapsed_ms()
            self._record_failure(execution, exc, elapsed)
            return make_failure(exc, elapsed, execution.describe(elapsed, answered=False))
        except BaseException as exc:
            self._record_failure(execution, exc, execution.elapsed_ms())
            raise
        elapsed = execution.elapsed_ms()
        self._record(execution, result, elapsed)
        outcome = make_result(result, elapsed, execution.describe(elapsed, answered=True))
        if outcome.is_error and outcome.metadata is not None:
            outcome.metadata["outcome"] = "tool_error"
        return outcome

    async def call(
        self, source: Source, tool: InventoryTool, arguments: Mapping[str, Any] | None, options: ExecutionOptions
    ) -> ToolResult:
        """Execute a call and return the tool's result, or raise one typed error."""
        execution = Execution(source, tool, options.get("principal", LOCAL))
        try:
            result = await self._run(execution, arguments, options)
        except BaseException as exc:
            self._record_failure(execution, exc, execution.elapsed_ms())
            raise
        self._record(execution, result, execution.elapsed_ms())
        return result

    async def _run(
        self, execution: Execution, arguments: Mapping[str, Any] | None, options: ExecutionOptions
    ) -> ToolResult:
        source, tool = execution.source, execution.tool
        try:
            check_callable(source, tool)
            compiled = self._compiled(tool)
            cleaned = _check_arguments(source, compiled, arguments)
            timeout = find_timeout(source, options.get("timeout", UNSET))
            lease = self._connections.lease(
                source,
                execution.principal,
                session=options.get("session"),
                environment=options.get("environment"),
                timeout=timeout,
            )
            async with lease as client:
                execution.note_lease()
                if source.config.review is not ReviewPolicy.FOLLOW:
                    await self._approved.check(client, source, tool, execution.left_of(timeout))
                result = await client.call_tool(
                    tool.name,
                    cleaned,
                    timeout=execution.left_of(timeout),
                    idle_timeout=options.get("idle_timeout", UNSET),
                    on_progress=options.get("on_progress"),
                    meta=options.get("meta"),
                    retry_safe=options.get("retry_safe"),
                    _trace=execution.trace,
                )
        except ToolNotFound as exc:
            if exc.sent:
                self._on_stale(source.id)
            raise
        except ToolcribError as exc:
            exc.server, exc.tool = source.name, tool.name
            if isinstance(exc, RemoteError) and exc.code == INVALID_PARAMS:
                self._on_stale(source.id)  # it may no longer have the tool, or other arguments
            raise
        if compiled.wraps_result:
            # A connection that has not seen the list does not know that the result is wrapped.
            return ToolResult(result.raw, elapsed=result.elapsed, wrapped=True)
        return result

    def _compiled(self, tool: InventoryTool) -> _CompiledTool:
        found = self._tools.get(tool.hash)
        if found is None:
            if len(self._tools) >= MAX_COMPILED_TOOLS:
                self._tools.clear()
            found = self._tools[tool.hash] = _CompiledTool(tool)
        return found

    def _record(self, execution: Execution, result: ToolResult, elapsed_ms: float) -> None:
        outcome = "tool_error" if result.is_error else "ok"
        self._audit.record(execution.end(outcome, True, elapsed_ms, answered=True))

    def _record_failure(self, execution: Execution, error: BaseException, elapsed_ms: float) -> None:
        outcome, text = _describe_failure(error)
        sent = error.sent if isinstance(error, ToolcribError | UsageError) else None
        self._audit.record(execution.end(outcome, sent, elapsed_ms, text, answered=False))

    def record_unsent(
        self, source: Source | str, tool: str, principal: str, error: BaseException, elapsed_ms: float
    ) -> None:
        """Record a call that failed before its source (then `source` is the name as given) or its tool was found.

        All texts may be as a caller gave them, so their length is limited.
        """
        outcome, text = _describe_failure(error)
        self._audit.record(
            ExecutionRow(
                id=make_id(),
                at=time.time(),
                principal=str(principal)[:MAX_PRINCIPAL_LENGTH],
                source_id=source.id if isinstance(source, Source) else str(source)[:MAX_GIVEN_NAME],
                tool=str(tool)[:MAX_GIVEN_NAME],
                tool_hash="",
                generation=source.generation if isinstance(source, Source) else 0,
                outcome=outcome,
                sent=False,
                attempts=0,
                duration_ms=elapsed_ms,
                error=text,
            )
        )


def _describe_failure(error: BaseException) -> tuple[str, str]:
    """Return the outcome and the text for the audit."""
    if isinstance(error, ToolcribError | UsageError):
        return find_outcome(error).code, str(error)[:MAX_ERROR]
    if isinstance(error, Exception):  # a defect of this program, or of a callback
        return "internal_error", f"{type(error).__name__}: {error}"[:MAX_ERROR]
    return "cancelled", str(error)[:MAX_ERROR]


def _check_arguments(source: Source, tool: _CompiledTool, arguments: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return the arguments without what models write for "nothing"; raise `InvalidArguments`."""
    given: object = arguments
    if given is not None and not isinstance(given, Mapping):
        raise UsageError(
            f"arguments: expected a mapping of names to values, got {type(given).__name__}. "
            "Decode JSON text with json.loads first"
        )
    cleaned: Mapping[str, Any] = {}
    if arguments:
        cleaned, mode = dict(arguments), source.config.options.get("clean_arguments", "schema")
        if mode == "schema":
            cleaned = clean_for_schema(cleaned, tool.schema)
        elif mode == "always":
            cleaned = clean(cleaned)
    problems = tool.validator.problems(cleaned)
    if problems:
        message = f"the arguments violate the tool's schema; nothing was sent: {'; '.join(problems)}"
        raise InvalidArguments(message, problems=tuple(problems))
    return cleaned


def check_enabled(source: Source, tool: str | None = None) -> None:
    """Raise `AccessDenied` if a source is disabled."""
    if not source.enabled:
        message = f"the source is disabled; enable it with provider.enable({source.name!r})"
        raise AccessDenied(message, server=source.name, tool=tool, rule="source disabled")


def advise_discovery(source: Source) -> str:
    """Return how an operator makes the tools of a source known that only single principals list."""
    slots = " and ".join(map(repr, source.config.personal_slots))
    return (
        "only tools that are listed with a discovery credential can be reviewed: store one with "
        f"provider.credentials.set({source.name!r}, slot, value, principal=..., discovery=True) for {slots}, "
        f"call provider.refresh({source.name!r})"
    )


def check_callable(source: Source, tool: InventoryTool) -> None:
    """Raise the reason why a tool cannot be called, if there is one."""
    check_enabled(source, tool.name)
    if tool.callable:
        return
    if tool.state is ToolState.REMOVED:
        message = "the source no longer lists this tool"
        raise ToolNotFound(message, server=source.name, tool=tool.name)
    if tool.state is ToolState.BLOCKED:
        message, rule = "the tool is blocked by a reviewer", "review: blocked"
    elif tool.state is ToolState.ACTIVE:
        message, rule = "the tool is disabled", "tool disabled"
    else:
        change = "changed since it was approved" if tool.state is ToolState.WITHHELD else "was not approved yet"
        review = f"look at provider.review({source.name!r}), then approve or block it"
        message = f"the tool {change}; {review if tool.id else f'{advise_discovery(source)}; {review}'}"
        rule = f"review: {tool.state.value}"
    raise AccessDenied(message, server=source.name, tool=tool.name, rule=rule)


def find_timeout(source: Source, given: Timeout) -> float | None:
    """Return how many seconds a call may take: as given with it, or as the source's config says."""
    if given is not UNSET:
        return checked_timeout("timeout", given)
    configured = source.config.options.get("execution_timeout", defaults.EXECUTION_TIMEOUT)
    return None if configured is None else float(configured)
