"""Names of principals."""

from __future__ import annotations

from typing import Final

from ..errors import UsageError

MAX_PRINCIPAL_LENGTH: Final = 200


def check_principal(given: object) -> str:
    """Return the name of a principal; raise `UsageError` if it is not a valid one.

    Names are part of keys whose parts are separated by NUL, so they contain printable characters only.
    """
    if isinstance(given, str) and 0 < len(given) <= MAX_PRINCIPAL_LENGTH and given.isprintable():
        return given
    expected = f"a name of 1 to {MAX_PRINCIPAL_LENGTH} printable characters"
    raise UsageError(f"principal: expected {expected}, got {given!r:.100}")
