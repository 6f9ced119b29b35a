"""Exit codes, and what went wrong in one line and a hint."""

from __future__ import annotations

import sys
import traceback
from enum import IntEnum
from typing import Final

from ..errors import (
    AccessDenied,
    AuthError,
    CallTimeout,
    ConfigError,
    ConnectError,
    NotFound,
    OutcomeUnknown,
    RemoteError,
    StartError,
    ToolcribError,
    UsageError,
)
from .console import complain, plain


class Exit(IntEnum):
    """The exit codes of all commands."""

    OK = 0
    FAILED = 1
    """The tool, or its server, said that it failed; `doctor` found something broken; nothing can be written."""
    USAGE = 2
    """The command line is wrong: unknown command or option, an argument that does not fit the tool's schema."""
    CONFIG = 3
    """A settings file, or a file to be served, is wrong."""
    NOT_FOUND = 4
    """No such server, tool, resource or prompt."""
    UNREACHABLE = 5
    """A server that was asked for cannot be started or reached, or does not speak MCP."""
    DENIED = 6
    """Not allowed: by the settings, by a person, or by the server, which wants other credentials."""
    UNKNOWN = 7
    """No answer in time, or the connection broke: whether the tool ran is not known."""
    BUG = 70
    """Something that should not happen: please report it, with the output of `--debug`."""
    HUNG_UP = 129
    """The terminal was closed."""
    INTERRUPTED = 130
    """Ctrl-C."""
    TERMINATED = 143
    """Told to end by SIGTERM; `run` and `bridge`, for which that is the usual end, leave with 0."""


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
    (StartError, "`toolcrib doctor` goes through its start step by step"),
    (ConnectError, "`toolcrib doctor` goes through the connection step by step"),
    (AccessDenied, "`toolcrib explain NAME` tells which rule decides"),
    (CallTimeout, "--timeout gives it more seconds; it may still be running there"),
    (OutcomeUnknown, "it may have been done: look before you do it again"),
)


QUOTED_LINES: Final = 20
"""Lines of a server's stderr that are shown."""


def code_of(error: BaseException) -> Exit:
    """The exit code for an error."""
    if isinstance(error, CliError):
        return error.code
    if isinstance(error, CallTimeout) and error.sent is False:
        return Exit.UNREACHABLE  # nothing was sent, so nothing ran
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.BUG)


def hint_for(error: BaseException) -> str:
    """What to do next; empty where the error says so itself."""
    if isinstance(error, CliError):
        return error.hint
    if isinstance(error, AuthError):
        from ..diagnostics.causes import credentials_for  # noqa: PLC0415  # slow, and only errors need it

        return credentials_for(error)
    if isinstance(error, CallTimeout) and error.sent is False:
        return "nothing was sent; --timeout gives it more seconds"
    if isinstance(error, ConnectError) and error.status is not None:
        return "is that the address of an MCP server? Most end with /mcp or /sse"
    return next((hint for kind, hint in _HINTS if isinstance(error, kind)), "")


def tell(error: BaseException, *, debug: bool) -> Exit:
    """Say what went wrong, and give the exit code for it."""
    code = code_of(error)
    if debug:
        sys.stderr.write(plain("".join(traceback.format_exception(error))))
    if code is Exit.BUG:
        complain(f"{type(error).__name__}: {error}", "this is a bug of toolcrib: --debug shows where")
        return code
    complain_of(error)
    return code


def complain_of(error: BaseException) -> None:
    """Say what went wrong, and quote the last lines that a server wrote before it."""
    message, stderr = str(error), error.stderr if isinstance(error, ConnectError) else ""
    if stderr:
        from ..diagnostics.causes import without_stderr  # noqa: PLC0415  # slow, and only errors need it

        message = without_stderr(message)
    complain(message, hint_for(error), "\n".join(stderr.splitlines()[-QUOTED_LINES:]))
