"""The parameter that the server fills in itself: the context of the call. It is no part of the schema."""

from __future__ import annotations

from typing import ClassVar


class CallContext:
    """Base of the classes with which a function annotates the parameter that gets the context of the call."""

    __slots__ = ()

    _blocking: ClassVar[bool] = False
    """Whether its methods wait for their answer in the function's own thread, which must not be the event loop's."""

    def _for_thread(self) -> CallContext:
        """Return the form for a function that runs in a thread."""
        return self
