"""The exception tree. Decide by type and attribute, never by words in a message.

ToolcribError                     .server .tool .sent
|- ConfigError                    .file .line .column .key .expected
|- TransportError                 .status, the HTTP status if there was one
|  |- ConnectError                .permanent: retrying cannot help; .stderr of the server's process
|  |  `- StartError               .exit_code .input_consumed
|  |- ConnectionLost              the connection was gone before the call was written
|  |  `- SessionExpired           the server no longer knew the session and executed nothing
|  |- CallTimeout (TimeoutError)  the deadline passed
|  |- OutcomeUnknown              the call was sent and no answer came: the caller decides
|  |- UnansweredTimeout           both of the last two
|  `- ProtocolError               the peer violated the protocol; .content_type .sample
|- RemoteError                    .code .data .status: a JSON-RPC error response
|- AuthError                      .status .challenge
|- RateLimited                    .retry_after
|- AccessDenied                   .rule
|- NotFound                       .nearest: ServerNotFound, ToolNotFound, ResourceNotFound (.uri)
|- BinaryResource                        .uri .mime_type: a resource that was read as text is binary
`- ToolFailed                     .result, from result.raise_for_error()
UsageError (RuntimeError)         outside the tree: the caller's code is wrong

`sent` is on every error, `UsageError` included. It says whether the call can have been executed:

False   No byte of the call reached the server, or the server refused it before executing anything.
True    The call was handed to the server. It ran, or may have run, in part or as a whole.
None    Unknown: the error is not about one call, or was raised outside of Toolcrib.

In a multi-round call (`input_required`) the rounds count as one: once an earlier round was answered, `sent` is True.
"""

from __future__ import annotations

from typing import Any


class ToolcribError(Exception):
    """Base of everything that Toolcrib raises on purpose, except for `UsageError`."""

    sent: bool | None = None
    """Whether the call can have been executed: False (no), True (yes, or it may have been), None (unknown)."""

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
        """What happened and what to do next, without the server's name."""
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        """Return server, tool and message on one line without control characters: remote text may be part of it."""
        place = " ".join(part for part in (self.server, self.tool) if part)
        text = f"{place}: {self.message}" if place else self.message
        return text if text.isprintable() else _without_controls(" ".join(text.split()))


class UsageError(RuntimeError):
    """Raised for incorrect use of the API; fix the calling code. Nothing was sent."""

    sent = False


class ConfigError(ToolcribError):
    """A setting is wrong: which one, where, and what was expected instead."""

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


class TransportError(ToolcribError):
    """The connection to the server failed, or what arrived over it violated the protocol."""

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
    """No connection could be made; the call was never sent.

    `stderr` is the end of what the server's process wrote there, if it has a process.
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
    """The server's process did not start, or ended before it answered; `input_consumed`: after it had read what we
    sent."""

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


class ProtocolError(TransportError):
    """The peer violated the protocol; `sample` holds the first 200 characters of what it sent.

    A `TransportError`, so that one `except` catches connections, time-outs and broken answers. Unless raised before the
    call was written, `sent` is True: a server whose answer is broken may have executed the call.
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
    """The server answered with a JSON-RPC error.

    `sent` is True: the server received the call, and an error response may follow execution.
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


class AuthError(ToolcribError):
    """The server requires authorisation that was not available; it refused the request without executing it."""

    sent = False

    def __init__(
        self,
        message: str = "",
        *,
        server: str | None = None,
        sent: bool | None = None,
        status: int | None = None,
        challenge: str | None = None,
    ) -> None:
        super().__init__(message, server=server, sent=sent)
        self.status = status
        self.challenge = challenge


class RateLimited(ToolcribError):
    """The server asked for a pause that is longer than the deadline allows; it refused the request unexecuted."""

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
    """A rule of this client, hub or server forbids the call; `rule` names it."""

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


class NotFound(ToolcribError):
    """The name is unknown; `nearest` lists similar names. `sent` is True if the server itself said so."""

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
    """No server of that name exists here; `server` is the name that was asked for."""


class ToolNotFound(NotFound):
    """No such tool; `tool` is the name that was asked for, `server` the server if the name says which."""


class ResourceNotFound(NotFound):
    """No such resource; `uri` is the one that was asked for."""

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
    """The resource was read as text and is binary; use `read_bytes`. `uri` and `mime_type` describe the content."""

    sent = True

    def __init__(
        self, message: str = "", *, server: str | None = None, uri: str = "", mime_type: str | None = None
    ) -> None:
        super().__init__(message, server=server)
        self.uri = uri
        self.mime_type = mime_type


class ToolFailed(ToolcribError):
    """The tool itself reported an error; `result` is its whole answer."""

    sent = True

    def __init__(
        self, message: str = "", *, server: str | None = None, tool: str | None = None, result: Any = None
    ) -> None:
        # The message quotes the tool and ends up in logs; `result` has the text as it was received.
        super().__init__(_without_controls(message), server=server, tool=tool)
        self.result = result


def _without_controls(text: str) -> str:
    """Return `text` with control, bidi and zero-width characters replaced; newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
