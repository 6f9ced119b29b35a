"""Starts the servers of toolcrib.toml and prints each one when it is ready: `python start.py [SERVER]...`."""

from __future__ import annotations

import asyncio
import sys
import time

import toolcrib as tc


async def main(names: list[str]) -> int:
    settings = tc.load_settings("toolcrib.toml")
    servers = {name: server for name, server in settings.servers.items() if not names or name in names}
    began = time.monotonic()
    hub = tc.Hub(servers, start_timeout=0)

    def show(event: tc.events.ToolsChanged) -> None:
        print(f"  {event.server} is ready after {time.monotonic() - began:.1f} s", flush=True)

    hub.on(tc.events.ToolsChanged, show)
    async with hub:
        failed = [server for server in await hub.ready() if not server.connected]
    for server in failed:
        print(f"  {server.last_error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
