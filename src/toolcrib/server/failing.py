"""What an exception in somebody's function says."""

from __future__ import annotations

import logging

logger = logging.getLogger("toolcrib.server.tools")


def words(exc: BaseException) -> str:
    """The message of an exception, or its name where that says nothing alone."""
    try:
        text = str(exc)
    except Exception as bad:  # an exception that cannot even say what it is
        logger.debug("%s has no words", type(exc).__name__, exc_info=bad)
        text = ""
    # What these two hold is a key or an exit code.
    if text and not isinstance(exc, KeyError | SystemExit):
        return text
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__
