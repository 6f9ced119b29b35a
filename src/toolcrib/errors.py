"""The exception tree. Decide by type and attribute, never by words in a message.

ToolcribError                     .server .tool .sent
|- ConfigError                    .file .line .column .key .expected
|  `- MissingVariables            .names: required variables or headers of a source that have no value
|- TransportError                 .status, the HTTP status if there was one
|  |- ConnectError                .permanent: retrying cannot help; .stderr of the server's process
|  |  |- StartError               .exit_code .input_consumed
|  |  `- IssuerUnavailable        the authorisation server cannot be reached; the MCP server may be available
|  |- ConnectionLost              the connection closed before the call was written
|  |  `- SessionExpired           the server no longer knew the session and executed nothing
|  |- CallTimeout (TimeoutError)  the deadline passed
|  |- OutcomeUnknown              the call was sent and no response arrived: the caller decides
|  |- UnansweredTimeout           a CallTimeout and an OutcomeUnknown: the deadline passed after the call was sent
|  `- ProtocolError               the peer violated the protocol; .content_type .sample
|- RemoteError                    .code .data .status: a JSON-RPC error response
|- AuthError                      .status .challenge .authorization_url .reason
|  |- ConsentRefused              .error: the person refused the sign-in, or the authorisation server did
|  `- MissingCredential           .slots: personal credentials that the principal has not stored
|- RateLimited                    .retry_after
|- AccessDenied                   .rule
|- InvalidArguments               .problems: the arguments violate the tool's input schema
|- NotFound                       .nearest: ServerNotFound, ToolNotFound, ResourceNotFound (.uri)
|- BinaryResource                        .uri .mime_type: a resource that was read as text is binary
|- StoreError                     .operation: the provider's database could not be read or written
|- ReviewConflict                 .expected .actual .changes: the reviewed definition of a tool is out of date
`- ToolFailed                     .result; raised by result.raise_for_error()
UsageError (RuntimeError)         outside the tree: incorrect use of the API

Every error has `sent`, `UsageError` included. It says whether the call may have been executed:

False   No byte of the call reached the server, or the server rejected it before executing anything.
True    The call was sent to the server, which may have executed it, partly or completely.
None    Unknown: the error does not concern a single call, or other code than Toolcrib's raised it.

In a multi-round call (`input_required`) the rounds count as one: once an earlier round was answered, `sent` is True.

Longer than 400 lines: the whole tree is in one module, and most of it is documentation.
"""

from __future__ import annotations

import re
from typing import Any, Final

_KIND_OF_URL: Final = re.compile(r"^(http|sse):(?=https?://)")


class ToolcribError(Exception):
    """Base class of all errors that Toolcrib raises, except for `UsageError`."""

    sent: bool | None = None
    """Whether the call may have been executed: False (it was not), True (it was, or may have been), None (unknown)."""

    def __init__(
        self, message: str = "", *, server: str | None = None, tool: str | None = None, sent: bool | None = None
    ) -> None:
        super().__init__(message)
        self.server = server
        self.tool = tool
        if sent is not None:
            self.sent = sent

    @property
    def message(self) -> str:
        """The text of the error, what happened and what to do next, without the names of server and tool."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        """Return server, tool and message on one line; control characters are removed, as servers supply part of it."""
        # A client's default name is the identifier of its config, `http:https://...`: only the URL is shown.
        server = _KIND_OF_URL.sub("", self.server) if self.server else ""
        place = " ".join(part for part in (server, self.tool) if part)
        text = f"{place}: {self.message}" if place else self.message
        return text if text.isprintable() else _without_controls(" ".join(text.split()))


class UsageError(RuntimeError):
    """Raised for incorrect use of the API; fix the calling code. Nothing was sent to a server."""

    sent = False


class ConfigError(ToolcribError):
    """Raised for an invalid setting.

    `key` names the setting, `file`, `line` and `column` its position if it is from a file, `expected` a valid value.
    """

    sent = False

    def __init__(
        self,
        message: str = "",
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        key: str | None = None,
        expected: str | None = None,
        server: str | None = None,
    ) -> None:
        super().__init__(message, server=server)
        self.file = file
        self.line = line
        self.column = column
        self.key = key
        self.expected = expected


class MissingVariables(ConfigError):
    """Raised if required variables or headers of a source have no value; `names` lists all of them."""

    def __init__(self, message: str = "", *, server: str | None = None, names: tuple[str, ...] = ()) -> None:
        super().__init__(message, server=server, key="mcp_env_vars", expected=", ".join(names))
        self.names = names


class TransportError(ToolcribError):
    """Raised if the connection to the server fails, or the server violates the protocol.

    `status` is the HTTP status, if a response had one.
    """

    sent = False

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        tool: str | None = None,
        sent: bool | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(message, server=server, tool=tool, sent=sent)
        self.status = status


class ConnectError(TransportError):
    """Raised if no connection to the server could be established; the call was never sent.

    `permanent` is True if retrying cannot help. `stderr` holds the last lines that the server's process wrote there.
    """

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        status: int | None = None,
        permanent: bool = False,
        stderr: str = "",
    ) -> None:
        super().__init__(message, server=server, status=status)
        self.permanent = permanent
        self.stderr = stderr


class StartError(ConnectError):
    """Raised if the server's process could not be started, or exited before it answered the handshake.

    `exit_code` is the process's exit code, if it exited. `input_consumed` is True if it had read the client's first
    message before that.
    """

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        exit_code: int | None = None,
        stderr: str = "",
        input_consumed: bool = False,
        permanent: bool = False,
    ) -> None:
        super().__init__(message, server=server, permanent=permanent, stderr=stderr)
        self.exit_code = exit_code
        self.input_consumed = input_consumed


class IssuerUnavailable(ConnectError):
    """Raised if an authorisation server cannot be reached, or cannot answer now; the MCP server may be available."""


class ConnectionLost(TransportError):
    """Raised if the connection closed before the call was written; the call was never sent."""


class SessionExpired(ConnectionLost):
    """Raised if the server rejected the call because the session had expired; the next call opens a new session."""


class CallTimeout(TransportError, TimeoutError):
    """Raised if the deadline passed before the call was sent; the subclass `UnansweredTimeout`: after it was sent."""


class OutcomeUnknown(TransportError):
    """Raised if the call was sent and no response arrived: the server may have executed it, so it is not sent again."""

    sent = True


class UnansweredTimeout(CallTimeout, OutcomeUnknown):
    """Raised if the deadline passed after the call was sent: the server may have executed it or be executing it."""

    sent = True


class ProtocolError(TransportError):
    """Raised if the peer violated the protocol; `sample` holds the first 200 characters of what it sent.

    It is a `TransportError`, so that one `except` clause catches lost connections, time-outs and malformed responses.
    Unless it is raised before the call was written, `sent` is True: a server that sends a malformed response may have
    executed the call.
    """

    sent = True

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        tool: str | None = None,
        sent: bool | None = None,
        status: int | None = None,
        content_type: str | None = None,
        sample: str = "",
    ) -> None:
        super().__init__(message, server=server, tool=tool, sent=sent, status=status)
        self.content_type = content_type
        self.sample = sample[:200]


class RemoteError(ToolcribError):
    """Raised if the server answered with a JSON-RPC error; `code` and `data` are those of the error.

    `sent` is True: the server received the call and may have executed it before it failed.
    """

    sent = True

    def __init__(
        self,
        code: int = -32603,
        message: str = "",
        data: Any = None,
        *,
        server: str | None = None,
        tool: str | None = None,
    ) -> None:
        if type(code) is not int or not isinstance(message, str):
            raise TypeError(f"expected an integer code and a string message, got {code!r} and {message!r:.100}")
        super().__init__(message, server=server, tool=tool)
        self.code = code
        self.data = data
        self.status: int | None = None
        """The HTTP status of the response, if it was an error status."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.code, self.message, self.data), self.__dict__)

    def __str__(self) -> str:
        return f"{super().__str__()} [{self.code}]"


class AuthError(ToolcribError):
    """Raised if the server requires authorisation that is not available; it rejected the request without executing it.

    `status` is the HTTP status, `challenge` the `WWW-Authenticate` header of the response. `authorization_url` is the
    URL that a person must open to sign in, if an `OAuth` without interaction needs one. `reason` is the message without
    advice that only programmers can follow.
    """

    sent = False

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        sent: bool | None = None,
        status: int | None = None,
        challenge: str | None = None,
        authorization_url: str | None = None,
        reason: str | None = None,
    ) -> None:
        super().__init__(message, server=server, sent=sent)
        self.status = status
        self.challenge = challenge
        self.authorization_url = authorization_url
        self.reason = message if reason is None else reason


class ConsentRefused(AuthError):
    """Raised if the person refused the sign-in, or the authorisation server answered with another error.

    `error` is its error code, such as `access_denied`.
    """

    def __init__(self, message: str = "", *, server: str | None = None, error: str = "") -> None:
        super().__init__(message, server=server, status=401)
        self.error = error


class MissingCredential(AuthError):
    """Raised if a principal has not stored its own credentials for a source; `slots` names them. Nothing was sent."""

    def __init__(self, message: str = "", *, server: str | None = None, slots: tuple[str, ...] = ()) -> None:
        super().__init__(message, server=server)
        self.slots = slots


class RateLimited(ToolcribError):
    """Raised if the server is busy (HTTP 429, or 503 with `Retry-After`) and no further attempt is possible.

    The server rejected the request without executing it. `retry_after` is the pause that it asked for, in seconds, or
    None.
    """

    sent = False

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        tool: str | None = None,
        sent: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, server=server, tool=tool, sent=sent)
        self.retry_after = retry_after


class AccessDenied(ToolcribError):
    """Raised if a rule of the client, hub or server forbids the call; `rule` names the rule."""

    sent = False

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        tool: str | None = None,
        sent: bool | None = None,
        rule: str | None = None,
    ) -> None:
        super().__init__(message, server=server, tool=tool, sent=sent)
        self.rule = rule


class InvalidArguments(ToolcribError):
    """Raised if the arguments of a call violate the tool's input schema; `problems` lists why. Nothing was sent."""

    sent = False

    def __init__(
        self, message: str = "", *, server: str | None = None, tool: str | None = None, problems: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.problems = problems


class NotFound(ToolcribError):
    """Raised for an unknown name; `nearest` lists similar names. `sent` is True if the server reported the error."""

    sent = False

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        tool: str | None = None,
        sent: bool | None = None,
        nearest: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, server=server, tool=tool, sent=sent)
        self.nearest = nearest


class ServerNotFound(NotFound):
    """Raised if the hub or the settings have no server of that name; `server` is the requested name."""


class ToolNotFound(NotFound):
    """Raised for an unknown tool; `tool` is the requested name, `server` the server if the name contains it."""


class ResourceNotFound(NotFound):
    """Raised for an unknown resource; `uri` is the requested URI."""

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        sent: bool | None = None,
        nearest: tuple[str, ...] = (),
        uri: str = "",
    ) -> None:
        super().__init__(message, server=server, sent=sent, nearest=nearest)
        self.uri = uri


class BinaryResource(ToolcribError):
    """Raised if a binary resource is read as text; use `read_bytes`. `uri` and `mime_type` are those of the content."""

    sent = True

    def __init__(
        self, message: str = "", *, server: str | None = None, uri: str = "", mime_type: str | None = None
    ) -> None:
        super().__init__(message, server=server)
        self.uri = uri
        self.mime_type = mime_type


class StoreError(ToolcribError):
    """Raised if the provider's database cannot be read or written; `operation` says what was attempted.

    Nothing was changed. Tools that are registered already can still be called.
    """

    sent = False

    def __init__(self, message: str = "", *, operation: str = "") -> None:
        super().__init__(message)
        self.operation = operation


class ReviewConflict(ToolcribError):
    """Raised if a decision is about a definition of a tool that is no longer the one that waits for a review.

    `expected` is the hash that was given, `actual` that of the current definition. `changes` lists the differences
    between the definition in force and the current one. Nothing was changed.
    """

    sent = False

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        tool: str | None = None,
        expected: str = "",
        actual: str = "",
        changes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.expected = expected
        self.actual = actual
        self.changes = changes


class ToolFailed(ToolcribError):
    """Raised by `result.raise_for_error()` if the tool reported an error; `result` is the complete result."""

    sent = True

    def __init__(
        self, message: str = "", *, server: str | None = None, tool: str | None = None, result: Any = None
    ) -> None:
        # The message quotes the tool and is logged; `result` keeps the text as it was received.
        super().__init__(_without_controls(message), server=server, tool=tool)
        self.result = result


def _without_controls(text: str) -> str:
    """Return `text` with control, bidi and zero-width characters replaced; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
