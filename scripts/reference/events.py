"""The page of events."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

import toolcrib.events

from .markdown import bare, code, doc, document, table

HOW = """
`client.on(Event, listener)` and `hub.on(Event, listener)` call `listener` with every event of that type or a subtype,
and return a function that removes the listener. A listener may be sync or async; exceptions in listeners are logged and
ignored. Events are frozen dataclasses of `toolcrib.events`. A program that prints them:
[observability.py](../../examples/observability.py).
"""


def page() -> str:
    """Return the page: every event, in the order of the code."""
    base = toolcrib.events.Event
    kinds = [kind for kind in vars(toolcrib.events).values() if isinstance(kind, type) and issubclass(kind, base)]
    rows = [(code(kind.__name__), doc(kind), ", ".join(_fields(kind))) for kind in kinds]
    return document("Events", HOW, table(("event", "when", "fields"), rows))


def _fields(kind: Any) -> list[str]:
    defaults = {f.name: "" if f.default is MISSING else f" = {f.default!r}" for f in fields(kind)}
    return [code(f"{f.name}: {bare(f.type)}{defaults[f.name]}") for f in fields(kind)]
