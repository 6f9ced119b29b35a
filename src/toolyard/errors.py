"""What can go wrong, as types. Decide by type and attribute, never by words in a message.

ToolyardError                     .server .tool
|- ConfigError                    .file .line .column .key .expected
|- TransportError                 .sent (False: surely not executed), .status where HTTP said one
|  |- ConnectError                never sent; .permanent: trying again cannot help
|  |  `- StartError               .exit_code .stderr .heard
|  |- ConnectionLost              never sent: the connection was gone before the write
|  |  `- SessionExpired           never executed: the server did not know our session any more
|  |- CallTimeout (TimeoutError)  the deadline passed
|  |- OutcomeUnknown              bytes were handed over and no answer came: the caller decides
|  `- UnansweredTimeout           both of the last two
|- ProtocolError                  the peer broke the protocol; .sample, the first 200 characters
|- RemoteError                    .code .data: a JSON-RPC error reply
|- AuthError                      .status .challenge
|- RateLimited                    .retry_after
|- AccessDenied                   .rule
|- NotFound                       ServerNotFound, ToolNotFound (.nearest), ResourceNotFound
|- NotText                        .uri .mime_type: a resource that was read as text is binary
`- ToolFailed                     .result, from result.raise_for_error()
UsageError (RuntimeError)         outside the tree: the caller's code is wrong
"""

from __future__ import annotations

from typing import Any


class ToolyardError(Exception):
    """Base of everything that Toolyard raises on purpose, but for `UsageError`."""

    def __init__(self, message: str = "", *, server: str | None = None, tool: str | None = None) -> None:
        super().__init__(message)
        self.server = server
        self.tool = tool

    @property
    def message(self) -> str:
        """What happened and what to do next, without the server's name."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        place = " ".join(part for part in (self.server, self.tool) if part)
        return f"{place}: {self.message}" if place else self.message


class UsageError(RuntimeError):
    """The calling code is wrong: no outcome of a call, a bug to mend."""


class ConfigError(ToolyardError):
    """A setting is wrong: which one, where, and what was expected instead."""

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


class TransportError(ToolyardError):
    """The way to the server failed. `sent` tells whether the call can have been executed."""

    sent = False

    def __init__(
        self, message: str = "", *, server: str | None = None, tool: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.status = status


class ConnectError(TransportError):
    """No connection could be made; the call was never sent."""

    def __init__(
        self, message: str = "", *, server: str | None = None, status: int | None = None, permanent: bool = False
    ) -> None:
        super().__init__(message, server=server, status=status)
        self.permanent = permanent


class StartError(ConnectError):
    """The server's process did not start, or ended before it answered; `heard`: after it had read what we sent."""

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        exit_code: int | None = None,
        stderr: str = "",
        heard: bool = False,
        permanent: bool = False,
    ) -> None:
        super().__init__(message, server=server, permanent=permanent)
        self.exit_code = exit_code
        self.stderr = stderr
        self.heard = heard


class ConnectionLost(TransportError):
    """The connection was gone before the call was written; it was never sent."""


class SessionExpired(ConnectionLost):
    """The server did not know our session any more and executed nothing; a new one is made for the next call."""


class CallTimeout(TransportError, TimeoutError):
    """The deadline passed. As this very class: before anything was sent."""


class OutcomeUnknown(TransportError):
    """The call was handed over and no answer came: it may have been executed, and is not sent twice."""

    sent = True


class UnansweredTimeout(CallTimeout, OutcomeUnknown):
    """The deadline passed after the call was handed over: it may have been, or still be, executed."""

    sent = True


class ProtocolError(ToolyardError):
    """The peer broke the protocol."""

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        tool: str | None = None,
        status: int | None = None,
        content_type: str | None = None,
        sample: str = "",
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.status = status
        self.content_type = content_type
        self.sample = sample[:200]


class RemoteError(ToolyardError):
    """The server answered with a JSON-RPC error."""

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
            raise TypeError(f"a code is an integer and a message a text, not {code!r} and {message!r:.100}")
        super().__init__(message, server=server, tool=tool)
        self.code = code
        self.data = data
        self.status: int | None = None
        """What HTTP said with it, if that was a failure too."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.code, self.message, self.data), self.__dict__)

    def __str__(self) -> str:
        return f"{super().__str__()} [{self.code}]"


class AuthError(ToolyardError):
    """The server wants authorisation that we could not give; the call was not executed."""

    sent = False

    def __init__(
        self, message: str = "", *, server: str | None = None, status: int | None = None, challenge: str | None = None
    ) -> None:
        super().__init__(message, server=server)
        self.status = status
        self.challenge = challenge


class RateLimited(ToolyardError):
    """The server asked for a pause that is longer than the deadline allows; the call was not executed."""

    sent = False

    def __init__(
        self, message: str = "", *, server: str | None = None, tool: str | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.retry_after = retry_after


class AccessDenied(ToolyardError):
    """A rule of ours forbids this; `rule` names it."""

    def __init__(
        self, message: str = "", *, server: str | None = None, tool: str | None = None, rule: str | None = None
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.rule = rule


class NotFound(ToolyardError):
    """There is no such thing; `nearest` are the names that look like it."""

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        tool: str | None = None,
        nearest: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.nearest = nearest


class ServerNotFound(NotFound):
    """No server of that name is known here."""


class ToolNotFound(NotFound):
    """The server has no such tool."""


class ResourceNotFound(NotFound):
    """The server has no such resource."""


class NotText(ToolyardError):
    """The resource was read, and it is binary: `read_bytes` gives it. `uri` and `mime_type` are those of the piece."""

    def __init__(
        self, message: str = "", *, server: str | None = None, uri: str = "", mime_type: str | None = None
    ) -> None:
        super().__init__(message, server=server)
        self.uri = uri
        self.mime_type = mime_type


class ToolFailed(ToolyardError):
    """The tool itself reported an error; `result` is its whole answer."""

    def __init__(
        self, message: str = "", *, server: str | None = None, tool: str | None = None, result: Any = None
    ) -> None:
        super().__init__(message, server=server, tool=tool)
        self.result = result
