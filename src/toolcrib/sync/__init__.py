"""The client and the hub for code without an event loop. They use one portal per process: a daemon thread with a loop.

Any number of threads may use them concurrently. Plain functions (handlers, approvals, interceptors) run in separate
threads, so they may block and may use the client or the hub; async ones run on the portal's loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .client import Changes, Client
from .portal import Portal, portal

if TYPE_CHECKING:
    from .hub import Hub as Hub
    from .hub import HubView as HubView
    from .hub import Resources as Resources

__all__ = ["Changes", "Client", "Hub", "HubView", "Portal", "Resources", "portal"]


def __getattr__(name: str) -> Any:
    # Programs that use only a client do not import the hub.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".hub", __name__), name)
