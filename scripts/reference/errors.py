"""The page of errors: the tree, and for each of them when it comes, what it knows, and what to do."""

from __future__ import annotations

import inspect
from typing import Any

import toolcrib.errors
from toolcrib.errors import ToolcribError, UsageError

from .markdown import code, codes, doc, document, table

HOW = """
Decide by type and attribute, never by words in a message. `str(error)` begins with the server and the tool; `.message`
is the rest. A tool's own failure is no exception but a result: `result.is_error`, or `result.raise_for_error()`.
Why `sent` matters: [Outcomes and retries](../explanation/outcomes-and-retries.md).
"""

WHAT_TO_DO: dict[str, str] = {
    "ToolcribError": "catch this to catch all of them",
    "UsageError": "mend the calling code: it names what to write instead",
    "ConfigError": "mend the setting that it names; `.expected` says how",
    "TransportError": "look at `.sent` before you repeat the call",
    "ConnectError": "safe to repeat, and was repeated already; with `.permanent` mend the address or certificate first",
    "StartError": "read `.stderr`: it is what the server said before it ended",
    "ConnectionLost": "safe to repeat; `max_retries` attempts were made",
    "SessionExpired": "safe to repeat; a new session is made by itself",
    "CallTimeout": "give it a longer `timeout`, or fewer calls at once (`max_in_flight`)",
    "OutcomeUnknown": "ask the server what happened, or repeat it if twice does no harm; then say so with `retry_safe`",
    "UnansweredTimeout": "as for both of its parents: the call may still be at work",
    "ProtocolError": "look at `.sample`: a page of HTML means a wrong URL, log lines on stdout a wrong server",
    "RemoteError": "the server refused: `.code` and `.data` say why",
    "AuthError": "give credentials: `headers=` or `auth=`",
    "RateLimited": "come again after `.retry_after` seconds",
    "AccessDenied": "change the rule that `.rule` names; `hub.explain(name)` tells more",
    "NotFound": "look at `.nearest`",
    "ServerNotFound": "look at `.nearest`, or `hub.list_servers()`",
    "ToolNotFound": "look at `.nearest`, or list the tools",
    "ResourceNotFound": "list the resources",
    "BinaryResource": "use `read_bytes`",
    "ToolFailed": "show the text to the model: it can mend its call",
}


def page() -> str:
    """The tree, and a row for each error."""
    kinds = [ToolcribError, *_below(ToolcribError), UsageError]
    rows = [(code(k.__name__), doc(k), codes(_knows(k)), _sent(k), WHAT_TO_DO[k.__name__]) for k in kinds]
    tree = "\n".join((ToolcribError.__name__, *_drawn(ToolcribError), f"{UsageError.__name__} (RuntimeError)"))
    heads = ("error", "when", "has", "`sent`", "what to do")
    return document("Errors", HOW, f"```text\n{tree}\n```", table(heads, rows))


def _children(kind: type) -> list[type]:
    """The errors whose first parent it is, in the order of the code."""
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


def _knows(kind: Any) -> list[str]:
    taken = [] if kind is UsageError else list(inspect.signature(kind).parameters)
    return [name for name in taken if name != "message"]


def _sent(kind: Any) -> str:
    return str(kind.sent) if hasattr(kind, "sent") else ""
