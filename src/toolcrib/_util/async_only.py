"""A clear error for `with` on an object that needs `async with`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ..errors import UsageError


class AsyncOnly:
    """Base class of async context managers that have a sync version in `toolcrib.sync` under the same name."""

    __slots__ = ()

    if not TYPE_CHECKING:  # type checkers report `with` themselves, because they see no `__enter__`

        def __enter__(self) -> NoReturn:
            name = type(self).__name__
            raise UsageError(f"{name} is async: write `async with {name}(...)`, or use `toolcrib.sync.{name}`")

        def __exit__(self, *exc: object) -> None: ...  # without it Python raises its own error instead
