"""mcp__server__tool: how the tools of many servers get names that never collide.

A server's name has no `__` in it and no `_` at its ends, so the first `__` after the prefix is always where it ends:
two different pairs of server and tool never make the same name. Nobody splits one, though: routing is by table.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable
from hashlib import sha256

from .errors import ConfigError, UsageError

SERVER_NAME = re.compile(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")
ALIAS_LIMIT = 64
"""The longest tool name that the usual model APIs take."""

_PREFIX = "mcp__"
_ALIAS = re.compile(r"[A-Za-z0-9_-]+")
_DIGITS = 8


def is_server_name(name: str) -> bool:
    """Whether `name` can stand in a qualified name as it is; where not, `slug` makes one that can."""
    return SERVER_NAME.fullmatch(name) is not None


def make(server: str, tool: str) -> str:
    """The qualified name `mcp__{server}__{tool}`; a tool's name is taken as it is, whatever it holds."""
    if not is_server_name(server):
        expected = "letters, digits and -, in parts joined by single _"
        message = f"{server!r} cannot be a server's name: expected {expected}; slug() makes one"
        raise ConfigError(message, key="name", expected=expected)
    return f"{_PREFIX}{server}__{tool}"


def slug(display_name: str, taken: Container[str] = ()) -> str:
    """A legal server name for a free text, itself where it is one; counted on (`-2`, `-3`) while it is in `taken`."""
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
    """A legal server name for each: itself where it is one, so that nobody else's slug takes it away."""
    given = list(display_names)
    taken = {name for name in given if is_server_name(name)}
    found = {}
    for display in given:
        found[display] = display if display in taken else slug(display, taken)
        taken.add(found[display])
    return found


def alias(name: str, taken: Container[str] = (), limit: int = ALIAS_LIMIT) -> str:
    """A name for interfaces that allow only `[A-Za-z0-9_-]` and `limit` characters: `name` itself where it fits.

    What has to be repaired always gets a short hash of the whole name, so `a.b` never takes the place of `a_b`, and the
    outcome does not depend on who came first. The way back is the caller's table.
    """
    if limit < 2 * _DIGITS:
        raise UsageError(f"an alias needs at least {2 * _DIGITS} characters, not {limit}")
    if len(name) <= limit and name not in taken and _ALIAS.fullmatch(name):
        return name
    # No `_` at its end: with the one that follows it would make a `__`, and the alias be another server's name.
    head = re.sub(r"[^A-Za-z0-9_-]", "_", name)[: limit - _DIGITS - 1].rstrip("_")
    source = name.encode("utf-8", "surrogatepass")
    while True:
        digest = sha256(source)
        candidate = f"{head}_{digest.hexdigest()[:_DIGITS]}"
        if candidate not in taken:
            return candidate
        source = digest.digest()


def pattern(text: str) -> str | None:
    """The pattern over qualified names that `text` stands for; None if it is none, because no name can match it.

    `*` stands for any run of characters; a server alone, `mcp__github`, for all of its tools.
    """
    if text.startswith(_PREFIX) and is_server_name(text.removeprefix(_PREFIX)):
        return f"{text}__*"
    head, star, _ = text.partition("*")
    if text != text.strip() or not _is_beginning(head, exact=not star):
        return None
    return text


def _is_beginning(head: str, *, exact: bool) -> bool:
    """Whether some qualified name begins so, or is it. What follows a star may be part of any tool's name."""
    if not head.startswith(_PREFIX):
        return not exact and _PREFIX.startswith(head)
    server, separator, _ = head.removeprefix(_PREFIX).partition("__")
    if separator:
        return is_server_name(server)
    # The name goes on behind the star, so what is there must be a beginning of one.
    return not exact and is_server_name(f"{server}x")
