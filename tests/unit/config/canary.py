"""A secret, and the texts that must not contain it."""

from __future__ import annotations

import traceback

CANARY = "canary-7f3a"
URL = "https://tools.example.com/mcp"


def rotating_token() -> str:
    return f"Bearer {CANARY}"


def every_text_of(error: BaseException) -> str:
    """Return everything that a traceback, a logger or an error reporter could show of an object."""
    texts = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None:
            texts += [str(each), repr(each), repr(vars(each)), *map(str, each.args), str(getattr(each, "doc", ""))]
            waiting += [each.__cause__, each.__context__]
    return "\n".join([*texts, *traceback.format_exception(error)])
