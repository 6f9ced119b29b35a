"""The context of a call: a parameter that the server fills in. The schema does not include it."""

from __future__ import annotations

from typing import ClassVar


class CallContext:
    """Base class of the contexts. A parameter annotated with a subclass receives the context of the call."""

    __slots__ = ()

    _blocking: ClassVar[bool] = False
    """Whether its methods block the function's thread until they are answered; not allowed on the event loop."""

    def _for_thread(self) -> CallContext:
        """Return the form for a function that runs in a thread."""
        return self
