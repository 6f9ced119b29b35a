"""The interface between the table of cases and the frameworks.

A driver runs one agent of its framework, with tools from Toolcrib and a scripted model, and reports what the model saw.
It is imported only in the environment of its framework.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Ability = Literal[
    "images",  # the model sees images as images
    "error-flag",  # the model, or the framework, gets an error as an error
    "structured",  # structured data arrives as data
    "json-text",  # the framework passes the model's arguments on as text, so that broken JSON reaches the adapter
    "progress",
    "cancel",  # a cancelled run cancels the call
    "live",  # tools that are added or removed during a run are noticed
    "approval",  # the framework asks before a call
]


@dataclass(frozen=True)
class Call:
    """A tool call of the scripted model; arguments that are text are sent as they are, if the framework allows."""

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict)


@dataclass
class Seen:
    """What the model saw of the answer to one call. `is_error` is None if the framework has no flag for it."""

    text: str
    """All text; of a binary part that is neither text nor an image, at least its MIME type."""
    is_error: bool | None = None
    images: list[str] = field(default_factory=list)
    """The MIME types of the images."""
    data: Any = None


@dataclass
class Transcript:
    """What happened in one run."""

    offered: list[list[str]] = field(default_factory=list)
    """The names of the tools that the model was offered, for each of its turns, the last one (without calls) too."""
    schemas: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The input schemas that the model was offered, by the names of the tools; empty if it does not see them."""
    answers: list[list[Seen]] = field(default_factory=list)
    """What the model saw, for each turn with calls; in the order of the calls."""
    progress: list[Any] = field(default_factory=list)
    """Progress reports, as the framework delivered them."""
    approvals: list[str] = field(default_factory=list)
    """The tools that the framework asked about; the driver approves `add` and denies `fail`."""
    final: str = ""
    """The last text of the model, which a scripted model ends with: `done`."""
    error: str = ""
    """`Type: message` of an exception that ended the run."""


@dataclass
class Script:
    """What the scripted model does: in each turn it makes these calls, and afterwards it says `done`."""

    turns: list[list[Call]]
    live: bool = False
    """Use the framework's live form of the tools, if it has one, instead of the snapshot."""
    before_turn: Callable[[int], Awaitable[None]] | None = None
    """Awaited by the scripted model before it answers with turn 0, 1, ...; one more for `done`."""
    loop: asyncio.AbstractEventLoop | None = None
    """The loop of the test, for models that run in other threads."""

    async def prepare(self, turn: int) -> None:
        """Await `before_turn`, from any loop."""
        if self.before_turn is None:
            return
        assert self.loop is not None
        if asyncio.get_running_loop() is self.loop:
            await self.before_turn(turn)
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_awaited(self.before_turn, turn), self.loop))

    def prepare_sync(self, turn: int) -> None:
        """Wait for `before_turn` in a thread without a loop."""
        if self.before_turn is not None:
            assert self.loop is not None
            asyncio.run_coroutine_threadsafe(_awaited(self.before_turn, turn), self.loop).result(60)


async def _awaited(function: Callable[[int], Awaitable[None]], turn: int) -> None:
    await function(turn)


class Driver(Protocol):
    """One framework. A module `tests/frameworks/drivers/NAME.py` defines `driver`, an object with this interface.

    The module may also define `extra_cases`: a dict of async functions that take the driver and assert.
    The cases name tools as the hub does, `mcp__lab__add`; if the framework changes names, the driver translates them.
    """

    package: str
    """The name on PyPI."""
    source: Literal["async", "sync"]
    """The kind of hub that it is given."""
    abilities: frozenset[Ability]

    async def run(self, hub: Any, script: Script) -> Transcript:
        """Run an agent with the tools of the hub. A cancelled caller cancels the run.

        A framework that is sync runs in a thread (`asyncio.to_thread`) with a `toolcrib.sync.Hub`.
        """
        ...
