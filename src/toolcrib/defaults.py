"""The default values of a `Client`'s options.

Each is overridden by the option of the same name in lower case: `Client(server, connect_timeout=60)`.
"""

from __future__ import annotations

from typing import Final

CONNECT_TIMEOUT: Final = 30.0
"""Seconds for connecting: from the start of the process, or of the first request, to the end of the handshake."""

DOWNLOAD_CONNECT_TIMEOUT: Final = 120.0
"""Seconds for connecting to a server whose command may download it first, such as `npx`, `uvx` or `docker`."""

EXECUTION_TIMEOUT: Final = 30.0
"""Seconds for a call, including waiting, connecting and retries."""

DISCOVERY_TIMEOUT: Final = 30.0
"""Seconds for fetching a list, all pages together."""

MAX_ATTEMPTS: Final = 3
"""Attempts, including the first one, for a request that may be sent again."""

CACHE_TTL_SECONDS: Final = 300.0
"""Seconds that `cache_tools_list=True` keeps a list whose server states no lifetime. No option changes it."""
