"""The defaults of a `Client`, by name. The options take their values from here.

Each is overridden by the option of the same name in lower case: `Client(server, connect_timeout=60)`.
"""

from __future__ import annotations

from typing import Final

CONNECT_TIMEOUT: Final = 30.0
"""Seconds from the start of the process, or of the first request, to the answered handshake."""

DOWNLOAD_CONNECT_TIMEOUT: Final = 120.0
"""The same for commands that may download the server first: `npx`, `uvx`, `docker` and the like."""

EXECUTION_TIMEOUT: Final = 30.0
"""Seconds for a call, with waiting, connecting and retries."""

DISCOVERY_TIMEOUT: Final = 30.0
"""Seconds for a whole list, all its pages."""

MAX_ATTEMPTS: Final = 3
"""Attempts in all at a request that may be sent again."""

CACHE_TTL_SECONDS: Final = 300.0
"""How long `cache_tools_list=True` keeps a list whose server gives no time of its own. No option changes it."""
