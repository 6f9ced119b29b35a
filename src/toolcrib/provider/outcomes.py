"""The outcome of an execution, and the one table that maps every typed error to its forms.

An error has three forms: an `ExecutionResult` for callers of the library, an MCP reply for callers of the gateway's MCP
endpoint, and a problem document (RFC 9457) for callers of its REST interface.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from .. import errors
from ..errors import RemoteError, ToolcribError, UsageError
from ..protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from ..types import ToolResult, Wire

ERROR_META: Final = "dev.toolcrib/error"
"""The `_meta` key of a reply that describes the error."""
RATE_LIMITED: Final = 429
"""The JSON-RPC code of a rejected call; codes from -32768 to -32000 are reserved."""


class Outcome(NamedTuple):
    """One row of the table: how an error is shown."""

    error: type[Exception]
    code: str
    """The outcome in the audit, in problem documents and in `_meta`."""
    status: int
    """The HTTP status of the problem document."""
    title: str
    jsonrpc: int | None = None
    """The JSON-RPC code of the reply; None if the reply is a tool result with `isError`, which models can read."""


OUTCOMES: Final = (
    Outcome(errors.UnansweredTimeout, "unanswered_timeout", 504, "The tool did not answer in time"),
    Outcome(errors.CallTimeout, "timeout", 504, "The deadline passed before the call was sent"),
    Outcome(errors.OutcomeUnknown, "outcome_unknown", 502, "The call was sent and its answer was lost"),
    Outcome(errors.ConnectionLost, "connection_lost", 503, "The connection closed before the call was sent"),
    Outcome(errors.StartError, "start_failed", 502, "The source could not be started"),
    Outcome(errors.ConnectError, "connect_failed", 502, "The source cannot be reached"),
    Outcome(errors.ProtocolError, "protocol_error", 502, "The source violated the protocol"),
    Outcome(errors.TransportError, "transport_error", 502, "The connection to the source failed"),
    Outcome(errors.RemoteError, "remote_error", 502, "The source answered with an error", INTERNAL_ERROR),
    Outcome(errors.MissingCredential, "missing_credential", 403, "A personal credential is missing"),
    Outcome(errors.AuthError, "source_auth", 502, "The source rejected the credentials"),
    Outcome(errors.RateLimited, "rate_limited", 429, "Too many calls", RATE_LIMITED),
    Outcome(errors.AccessDenied, "access_denied", 403, "A rule forbids the call"),
    Outcome(errors.InvalidArguments, "invalid_arguments", 422, "The arguments violate the tool's schema"),
    Outcome(errors.ToolNotFound, "tool_not_found", 404, "No such tool", INVALID_PARAMS),
    Outcome(errors.ServerNotFound, "source_not_found", 404, "No such source", INVALID_PARAMS),
    Outcome(errors.NotFound, "not_found", 404, "Not found", INVALID_PARAMS),
    Outcome(errors.MissingVariables, "missing_variables", 503, "Required variables of the source have no value"),
    Outcome(errors.ConfigError, "invalid_config", 400, "Invalid configuration", INVALID_PARAMS),
    Outcome(errors.StoreError, "store_unavailable", 503, "The store cannot be read or written", INTERNAL_ERROR),
    Outcome(errors.ReviewConflict, "review_conflict", 409, "The tool changed since it was reviewed", INVALID_PARAMS),
    Outcome(errors.BinaryResource, "binary_resource", 406, "The resource is binary", INVALID_PARAMS),
    Outcome(errors.ToolFailed, "tool_error", 502, "The tool reported an error"),
    Outcome(ToolcribError, "error", 500, "The call failed", INTERNAL_ERROR),
    Outcome(UsageError, "usage_error", 400, "Incorrect use of the API", INTERNAL_ERROR),
)
"""The first row whose class matches is used, so subclasses come before their base classes."""


def find_outcome(error: BaseException) -> Outcome:
    """Return the row of the table for an error."""
    return next(row for row in OUTCOMES if isinstance(error, row.error))


@dataclass(slots=True)
class ExecutionResult:
    """The one outcome of an execution. `success` is the opposite of `is_error`.

    `result` is the complete result if the tool answered, also if it reported an error. `exception` is the typed error
    if there is no result; its `sent` says whether the tool may have run.
    """

    success: bool
    content: list[dict[str, Any]]
    is_error: bool = False
    error: str | None = None
    execution_time_ms: float = 0.0
    metadata: dict[str, Any] | None = None
    result: ToolResult | None = None
    exception: ToolcribError | None = None

    def get_text(self) -> str:
        """Return the text of all text blocks, joined by newlines."""
        return "\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")

    def raise_for_error(self) -> ExecutionResult:
        """Raise the typed error, or `ToolFailed` if the tool reported one; return the result otherwise."""
        if self.exception is not None:
            raise self.exception
        if self.result is not None:
            self.result.raise_for_error()
        return self


def make_result(result: ToolResult, elapsed_ms: float, metadata: dict[str, Any]) -> ExecutionResult:
    """Return the outcome of a call that the tool answered."""
    content = result.raw.get("content")
    is_error = result.is_error
    error = (result.text or "the tool reported an error without a text") if is_error else None
    return ExecutionResult(
        not is_error, content if isinstance(content, list) else [], is_error, error, elapsed_ms, metadata, result
    )


def make_failure(error: ToolcribError, elapsed_ms: float, metadata: dict[str, Any]) -> ExecutionResult:
    """Return the outcome of a call that ended without an answer of the tool."""
    metadata["sent"] = error.sent
    metadata["outcome"] = find_outcome(error).code
    text = str(error)
    return ExecutionResult(False, [{"type": "text", "text": text}], True, text, elapsed_ms, metadata, exception=error)


def make_reply(error: ToolcribError) -> Wire:
    """Return the MCP reply to a call that failed, or raise `RemoteError` if the reply is a JSON-RPC error."""
    row = find_outcome(error)
    data = _describe(error, row)
    if isinstance(error, RemoteError):
        raise RemoteError(error.code, error.message, error.data, server=error.server, tool=error.tool) from error
    if row.jsonrpc is not None:
        raise RemoteError(row.jsonrpc, str(error), data, server=error.server, tool=error.tool) from error
    return {"content": [{"type": "text", "text": str(error)}], "isError": True, "_meta": {ERROR_META: data}}


def make_problem(error: ToolcribError | UsageError) -> dict[str, Any]:
    """Return the problem document (RFC 9457) of an error."""
    row = find_outcome(error)
    return {
        "type": f"urn:toolcrib:error:{row.code}",
        "title": row.title,
        "status": row.status,
        "detail": str(error),
        **_describe(error, row),
    }


_DETAILS: Final = ("server", "tool", "slots", "names", "problems", "key", "expected", "rule", "nearest", "retry_after")


def _describe(error: BaseException, row: Outcome) -> Mapping[str, Any]:
    found = {name: getattr(error, name, None) for name in _DETAILS}
    given = {name: list(value) if isinstance(value, tuple) else value for name, value in found.items() if value}
    return {"code": row.code, "sent": getattr(error, "sent", None), **given}
