"""The page of errors: the tree, and for each error when it is raised, its attributes, and what to do."""

from __future__ import annotations

import inspect
from typing import Any

import toolcrib.errors
from toolcrib.errors import ToolcribError, UsageError

from .markdown import code, codes, doc, document, table

HOW = """
Decide by type and attribute, never by words in a message. `str(error)` begins with the server and the tool; `.message`
is the rest. A failure that the tool reports is a result, not an exception: `result.is_error`; `raise_for_error()`
raises it. The meaning of `sent`: [Exactly one outcome per call](../explanation/one-outcome-per-call.md); every failure
in a table: [Outcomes and retries](../explanation/outcomes-and-retries.md).
"""

WHAT_TO_DO: dict[str, str] = {
    "ToolcribError": "catch this to catch all of them",
    "UsageError": "fix the calling code; the message names the correct form",
    "ConfigError": "fix the setting that it names; `.expected` describes valid values",
    "MissingVariables": "give the variables that `.names` lists in `mcp_env_vars`, or in `pass_environment`",
    "TransportError": "look at `.sent` before you repeat the call",
    "ConnectError": "safe to repeat, and already retried; with `.permanent`, fix the address or the certificate first",
    "StartError": "read `.stderr`: the last output of the server",
    "IssuerUnavailable": "safe to repeat; check the authorisation server with `toolcrib doctor`",
    "ConnectionLost": "safe to repeat; `max_attempts` attempts were made",
    "SessionExpired": "safe to repeat; the client opens a new session",
    "CallTimeout": "set a longer `timeout`, or make fewer concurrent calls",
    "OutcomeUnknown": "ask the server what happened; if the tool is safe to repeat, declare it `retry_safe`",
    "UnansweredTimeout": "as for `OutcomeUnknown`: the call may still be running",
    "ProtocolError": "look at `.sample`: an HTML page means a wrong URL, log lines mean a server that writes to stdout",
    "RemoteError": "read `.code` and `.data`: the server answered with this JSON-RPC error",
    "AuthError": "provide credentials: `headers=` or `auth=`",
    "ConsentRefused": "ask the person; no sign-in is started for 60 seconds",
    "MissingCredential": "store the values that `.slots` lists: `provider.credentials.set(source, slot, value, ...)`",
    "RateLimited": "wait `.retry_after` seconds before the next call",
    "AccessDenied": "change the rule that `.rule` names; `hub.explain(name)` gives details",
    "InvalidArguments": "correct the arguments: `.problems` lists what the tool's schema rejects",
    "NotFound": "look at `.nearest`",
    "ServerNotFound": "look at `.nearest`, or `hub.list_servers()`",
    "ToolNotFound": "look at `.nearest`, or list the tools",
    "ResourceNotFound": "list the resources",
    "BinaryResource": "use `read_bytes`",
    "StoreError": "repair the database and repeat the action; calls of known tools go on meanwhile",
    "ReviewConflict": "look at the tool again and decide about its current definition",
    "ToolFailed": "show the text to the model, which can correct its call",
}


def page() -> str:
    """Return the page: the tree, and a row for each error."""
    kinds = [ToolcribError, *_below(ToolcribError), UsageError]
    rows = [(code(k.__name__), doc(k), codes(_attributes(k)), _sent(k), WHAT_TO_DO[k.__name__]) for k in kinds]
    tree = "\n".join((ToolcribError.__name__, *_drawn(ToolcribError), f"{UsageError.__name__} (RuntimeError)"))
    heads = ("error", "meaning", "attributes", "`sent`", "what to do")
    return document("Errors", HOW, f"```text\n{tree}\n```", table(heads, rows))


def _children(kind: type) -> list[type]:
    """Return the errors whose first base class is `kind`, in the order of the code."""
    everything = [each for each in vars(toolcrib.errors).values() if isinstance(each, type)]
    return [each for each in everything if issubclass(each, Exception) and each.__bases__[0] is kind]


def _below(kind: type) -> list[type]:
    return [each for child in _children(kind) for each in (child, *_below(child))]


def _drawn(kind: type, indent: str = "") -> list[str]:
    lines = []
    children = _children(kind)
    for child in children:
        last = child is children[-1]
        others = ", ".join(base.__name__ for base in child.__bases__[1:])
        lines.append(f"{indent}{'`- ' if last else '|- '}{child.__name__}" + (f" ({others})" if others else ""))
        lines += _drawn(child, indent + ("   " if last else "|  "))
    return lines


def _attributes(kind: Any) -> list[str]:
    taken = [] if kind is UsageError else list(inspect.signature(kind).parameters)
    return [name for name in taken if name != "message"]


def _sent(kind: Any) -> str:
    return str(kind.sent) if hasattr(kind, "sent") else ""
