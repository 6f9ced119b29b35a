"""Exit codes, and errors as one line with a hint."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Mapping
from copy import copy
from enum import IntEnum
from typing import Final, TypeVar

from ..errors import (
    AccessDenied,
    AuthError,
    CallTimeout,
    ConfigError,
    ConnectError,
    IssuerUnavailable,
    NotFound,
    OutcomeUnknown,
    RemoteError,
    StartError,
    ToolcribError,
    UsageError,
)
from .console import complain, note, plain
from .lazy_command import INVOCATION

Error = TypeVar("Error", bound=BaseException)


class Exit(IntEnum):
    """The exit codes of all commands."""

    OK = 0
    FAILED = 1
    """The tool or its server reported an error; `doctor` found something broken; a file cannot be written."""
    USAGE = 2
    """The command line is wrong: unknown command or option, an argument that does not fit the tool's schema."""
    CONFIG = 3
    """A settings file, or a file to be served, is wrong."""
    NOT_FOUND = 4
    """No such server, tool, resource or prompt."""
    UNREACHABLE = 5
    """A requested server cannot be started or reached, or does not speak MCP."""
    DENIED = 6
    """Not allowed: by the settings, by the user, or by the server, which requires other credentials."""
    UNKNOWN = 7
    """No answer in time, or the connection broke during the call: the tool may have run."""
    BUG = 70
    """A bug in toolcrib: please report it, with the output of `--debug`."""
    HUNG_UP = 129
    """The terminal was closed."""
    INTERRUPTED = 130
    """Ctrl-C."""
    TERMINATED = 143
    """Stopped by SIGTERM; `run` and `bridge`, which usually end that way, exit with 0."""


class CliError(Exception):
    """An error of a command: one line, a hint what to do next, and the exit code."""

    def __init__(self, message: str, *, hint: str = "", code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


_CODES: tuple[tuple[type[BaseException], Exit], ...] = (
    (ConfigError, Exit.CONFIG),
    (NotFound, Exit.NOT_FOUND),
    (AccessDenied, Exit.DENIED),
    (AuthError, Exit.DENIED),
    (CallTimeout, Exit.UNKNOWN),
    (OutcomeUnknown, Exit.UNKNOWN),
    (UsageError, Exit.USAGE),
    (RemoteError, Exit.FAILED),
    (ToolcribError, Exit.UNREACHABLE),
    (OSError, Exit.FAILED),
)

_HINTS: tuple[tuple[type[BaseException], str], ...] = (
    (AccessDenied, "`toolcrib explain NAME` shows which rule decides"),
    (
        CallTimeout,
        "the call may still be running; --timeout, or execution_timeout in the server's entry, allows more seconds",
    ),
    (OutcomeUnknown, "the tool may have run: check before you call it again"),
)


QUOTED_LINES: Final = 20
"""Lines of a server's stderr that are shown."""


def code_of(error: BaseException) -> Exit:
    """Return the exit code for an error."""
    if isinstance(error, CliError):
        return error.code
    if isinstance(error, CallTimeout) and error.sent is False:
        return Exit.UNREACHABLE  # nothing was sent, so nothing ran
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.BUG)


def without_advice(error: Error) -> Error:
    """Return an error without advice that only programmers can follow; the hint says what to do on the command line."""
    if not isinstance(error, AuthError) or error.reason == error.message:
        return error
    short = copy(error)
    short.args = (error.reason,)
    return short


def hint_for(error: BaseException) -> str:
    """Return what to do next; empty if the error itself says so."""
    if isinstance(error, CliError):
        return error.hint
    if isinstance(error, AuthError):
        from ..diagnostics.causes import credentials_for  # noqa: PLC0415  # slow, and only errors need it

        invocation = INVOCATION.get()
        return credentials_for(error, invocation.servers.get(error.server or ""), login=invocation.login(error.server))
    if isinstance(error, CallTimeout) and error.sent is False:
        return "nothing was sent; --timeout, or connect_timeout in the server's entry, allows more seconds"
    if isinstance(error, ConnectError) and error.status is not None and not isinstance(error, IssuerUnavailable):
        return f"most URLs of MCP servers end with /mcp or /sse; {_doctor()} diagnoses the connection step by step"
    if isinstance(error, ConnectError):
        what = "start" if isinstance(error, StartError) else "connection"
        return f"{_doctor()} diagnoses the {what} step by step"
    return next((hint for kind, hint in _HINTS if isinstance(error, kind)), "")


def _doctor() -> str:
    return f"`{INVOCATION.get().doctor()}`"


def tell(error: BaseException, *, debug: bool) -> Exit:
    """Print an error, and return its exit code."""
    code = code_of(error)
    if debug:
        sys.stderr.write(plain("".join(traceback.format_exception(error))))
    if code is Exit.BUG:
        complain(f"{type(error).__name__}: {error}", "this is a bug in toolcrib: --debug shows the traceback")
        return code
    complain_of(error)
    return code


def complain_of(error: BaseException) -> None:
    """Print an error, with the last lines that a server wrote before it, and a hint."""
    _complain(error, hint_for(error))


def complain_of_servers(errors: Mapping[str, BaseException]) -> None:
    """Print the errors of several servers; a hint that some of them share follows once, with their names."""
    names: dict[str, list[str]] = {}
    for name, error in errors.items():
        names.setdefault(hint_for(error), []).append(name)
    for error in errors.values():
        hint = hint_for(error)
        _complain(error, hint if len(names[hint]) == 1 else "")
    for hint, servers in names.items():
        if hint and len(servers) > 1:
            note(f"hint: {', '.join(servers)}: {hint}", "")


def _complain(error: BaseException, hint: str) -> None:
    message, stderr = str(without_advice(error)), error.stderr if isinstance(error, ConnectError) else ""
    if stderr:
        from ..diagnostics.causes import without_stderr  # noqa: PLC0415  # slow, and only errors need it

        message = without_stderr(message)
    complain(message, hint, "\n".join(stderr.splitlines()[-QUOTED_LINES:]))
