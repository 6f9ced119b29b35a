"""A tool server at a URL with an API key, and a client that calls it in both eras of the protocol.

`python examples/http_client_and_server.py` starts itself a second time as the server, on a free port; with `serve` it
is the server.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping

import toolcrib as tc

KEYS = {"Bearer s3cret": "ada"}
server = tc.ToolServer("library", version="1.0.0")
BOOKS = {"1984": "Orwell", "Emma": "Austen", "Walden": "Thoreau"}


@server.tool
async def find_author(title: str, *, ctx: tc.Context) -> str:
    """Find the author of a book."""
    await ctx.info(f"{ctx.principal} looks for {title}")
    return BOOKS.get(title, "unknown")


@server.tool
async def count_letters(*, ctx: tc.Context) -> dict[str, int]:
    """Count the letters of the titles, with progress."""
    for done, title in enumerate(BOOKS, start=1):
        await ctx.progress(done, len(BOOKS), title)
    return {title: len(title) for title in BOOKS}


def authenticate(headers: Mapping[str, str]) -> str | None:
    """Return the caller, or None to reject the request with 401."""
    return KEYS.get(headers.get("authorization", ""))


async def use(url: str) -> None:
    try:
        async with tc.Client(url, max_attempts=1):
            pass
    except tc.AuthError as error:
        print("without a key  ", error.status, error.challenge)
    locked = tc.HttpServer(url, headers={"Authorization": "Bearer s3cret"})
    print("the config     ", repr(locked).replace(url, "http://.../mcp"))
    for mode in ("auto", "legacy"):
        async with tc.Client(locked, mode=mode, log_handler=lambda line: print("  (log)        ", line.data)) as client:
            assert client.server_info is not None
            print("protocol       ", client.server_info.protocol_version)
            print("  find_author  ", (await client.call_tool("find_author", {"title": "Emma"})).text)
            counted = await client.call_tool("count_letters", on_progress=lambda *step: print("  (progress)   ", *step))
            print("  count_letters", counted.data)


def main() -> None:
    with subprocess.Popen([sys.executable, __file__, "serve"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            asyncio.run(use(process.stderr.readline().split()[-1]))
        finally:
            process.terminate()


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        server.run("http", port=0, auth=authenticate)
    else:
        main()
