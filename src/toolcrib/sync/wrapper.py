"""Sync wrappers for async objects: each method runs through the portal, inside the `with` block."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, NoReturn, ParamSpec, Protocol, Self, TypeVar

from ..errors import UsageError
from .portal import portal

P = ParamSpec("P")
R = TypeVar("R")


class AsyncContext(Protocol):
    """An async object that is entered and closed."""

    async def __aenter__(self) -> Any: ...

    async def close(self) -> None: ...


A = TypeVar("A")
L = TypeVar("L", bound=AsyncContext)


class SyncWrapper(Generic[A]):
    """A sync wrapper of an async object, its twin."""

    def __init__(self, twin: A) -> None:
        self._twin = twin

    def async_twin(self) -> A:
        """Return the async object, for use on the portal's loop; raises `UsageError` outside the `with` block."""
        self._check_entered()
        return self._twin

    def _check_entered(self) -> None:
        raise NotImplementedError

    def _check_process(self) -> None:
        raise NotImplementedError

    def _do(self, work: Callable[[], R]) -> R:
        """Run a quick function on the loop's thread, entered or not; raises `UsageError` in a forked child."""
        self._check_process()
        return portal.do(work)

    def __repr__(self) -> str:
        return portal.do(lambda: repr(self._twin))


def through_portal(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SyncWrapper[A], P], R]:
    """Return the sync version of an async method, with the same name, parameters and errors."""

    def call(self: SyncWrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        self._check_entered()
        return portal.call(lambda: method(self._twin, *args, **kwargs))

    call.__name__, call.__qualname__, call.__doc__ = method.__name__, method.__qualname__, method.__doc__
    return call


def on_loop(method: Callable[Concatenate[A, P], R]) -> Callable[Concatenate[SyncWrapper[A], P], R]:
    """Return a version of a sync method that runs on the loop's thread, because it reads the state of that thread."""

    def call(self: SyncWrapper[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._do(lambda: method(self._twin, *args, **kwargs))

    call.__name__, call.__qualname__, call.__doc__ = method.__name__, method.__qualname__, method.__doc__
    return call


class ContextWrapper(SyncWrapper[L]):
    """A wrapper that is used inside its `with` block."""

    _noun: ClassVar[str]
    _usage: ClassVar[str]

    def __init__(self, twin: L) -> None:
        super().__init__(twin)
        self._process: int | None = None
        """The id of the process in which it was entered."""
        self._is_entered = False

    def __enter__(self) -> Self:
        if self._is_entered:
            self._check_process()
        self._is_entered = True
        self._process = os.getpid()
        try:
            portal.call(self._twin.__aenter__)
        except BaseException:
            self._is_entered = False
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers report `async with` themselves, because they see no `__aenter__`

        async def __aenter__(self) -> NoReturn:
            name = type(self).__name__
            raise UsageError(f"toolcrib.sync.{name} is not async: write `with {name}(...)`, or use `toolcrib.{name}`")

        async def __aexit__(self, *exc: object) -> None: ...  # without it Python raises its own error instead

    def _check_process(self) -> None:
        if self._is_inherited():
            message = "this process was forked from the one that the {0} belongs to; make a new {0} here"
            raise UsageError(message.format(self._noun))

    def _is_inherited(self) -> bool:
        return self._process not in (None, os.getpid())

    def _check_entered(self) -> None:
        self._check_process()
        if not self._is_entered:
            raise UsageError(f"use a {self._noun} inside its with block: {self._usage}: ...")

    def close(self) -> None:
        """Close it, as leaving the `with` block does."""
        self._is_entered = False
        if not self._is_inherited():  # in a forked child, everything inherited is closed already
            portal.call(self._twin.close)
