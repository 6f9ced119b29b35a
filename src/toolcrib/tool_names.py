"""Qualified names `mcp__server__tool`, which never collide between servers.

A server's name contains no `__` and no `_` at its ends, so it always ends at the first `__` after the prefix: two
different pairs of server and tool never have the same qualified name. No code splits a name, though: routing uses a
table.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable
from hashlib import sha256

from .errors import ConfigError, UsageError

SERVER_NAME = re.compile(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")
SERVER_NAME_RULE = "letters, digits and -, in parts joined by single _"
"""What `SERVER_NAME` accepts, for error messages."""
ALIAS_LIMIT = 64
"""The longest tool name that common model APIs accept."""

_PREFIX = "mcp__"
_ALIAS = re.compile(r"[A-Za-z0-9_-]+")
_DIGITS = 8


def invalid_server_name(name: object) -> str:
    """Return the message of the error for a name that cannot be part of a qualified name."""
    return f"{name!r} is not a valid server name: expected {SERVER_NAME_RULE}"


def is_server_name(name: str) -> bool:
    """Return whether `name` can be used in a qualified name unchanged; if not, `slug` makes a legal name of it."""
    return SERVER_NAME.fullmatch(name) is not None


def make(server: str, tool: str) -> str:
    """Return the qualified name `mcp__{server}__{tool}`; the tool's name may contain any characters."""
    if not is_server_name(server):
        message = f"{invalid_server_name(server)}. tool_names.slug() makes a valid one"
        raise ConfigError(message, key="name", expected=SERVER_NAME_RULE)
    return f"{_PREFIX}{server}__{tool}"


def slug(display_name: str, taken: Container[str] = ()) -> str:
    """Return a legal server name for any text: the text itself if it is one, with `-2`, `-3`, ... if it is `taken`."""
    base = display_name
    if not is_server_name(base):
        plain = unicodedata.normalize("NFKD", display_name).encode("ascii", "ignore").decode()
        words = re.sub(r"[^A-Za-z0-9_-]+", "-", plain)
        base = re.sub(r"_+", "_", words).strip("-_") or "server"
    name, count = base, 1
    while name in taken:
        count += 1
        name = f"{base}-{count}"
    return name


def unique(display_names: Iterable[str]) -> dict[str, str]:
    """Return a legal server name for each display name; legal ones stay as they are, and no slug equals one of them."""
    given = list(display_names)
    taken = {name for name in given if is_server_name(name)}
    found = {}
    for display in given:
        found[display] = display if display in taken else slug(display, taken)
        taken.add(found[display])
    return found


def alias(name: str, taken: Container[str] = (), limit: int = ALIAS_LIMIT) -> str:
    """Return a name for APIs that allow only `[A-Za-z0-9_-]` and `limit` characters: `name` itself if it is allowed.

    A name that has to be changed always gets a short hash of the original, so the alias of `a.b` is never `a_b`, and
    the result does not depend on the order of the names. The caller keeps a table to map aliases back.
    """
    if limit < 2 * _DIGITS:
        raise UsageError(f"limit: expected at least {2 * _DIGITS} characters, got {limit}")
    if len(name) <= limit and name not in taken and _ALIAS.fullmatch(name):
        return name
    # No `_` at its end: with the `_` that follows it would make `__`, and the alias could name another server.
    head = re.sub(r"[^A-Za-z0-9_-]", "_", name)[: limit - _DIGITS - 1].rstrip("_")
    source = name.encode("utf-8", "surrogatepass")
    while True:
        digest = sha256(source)
        candidate = f"{head}_{digest.hexdigest()[:_DIGITS]}"
        if candidate not in taken:
            return candidate
        source = digest.digest()


def pattern(text: str) -> str | None:
    """Return `text` as a pattern for qualified names; None if no qualified name can match it.

    `*` matches any run of characters; a server alone, `mcp__github`, matches all of its tools.
    """
    if text.startswith(_PREFIX) and is_server_name(text.removeprefix(_PREFIX)):
        return f"{text}__*"
    head, star, _ = text.partition("*")
    if text != text.strip() or not _is_beginning(head, exact=not star):
        return None
    return text


def _is_beginning(head: str, *, exact: bool) -> bool:
    """Return whether a qualified name can begin with `head`; with `exact`, whether `head` can be a whole one."""
    if not head.startswith(_PREFIX):
        return not exact and _PREFIX.startswith(head)
    server, separator, _ = head.removeprefix(_PREFIX).partition("__")
    if separator:
        return is_server_name(server)
    # The server's name continues after the star, so `server` must be the beginning of a legal one.
    return not exact and is_server_name(f"{server}x")
