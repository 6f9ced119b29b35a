"""Records the input schemas of the servers of the field test: `python -m tests.adapters.record_corpus [SERVER ...]`.

Starts each server with Toolcrib and writes `corpus/NAME.json`: the package, its version, and the name and input schema
of each tool. Texts of schemas are shortened. Needs node, npm, uvx and the network; `scripts/up` installs uvx in .tools.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import toolcrib as tc
from tests.field.run import SINGLE_SECONDS, Surroundings, say
from tests.field.servers import SERVERS, FieldServer

CORPUS = Path(__file__).parent / "corpus"
MAX_TEXT = 60
"""Characters of descriptions that are kept."""


async def record(server: FieldServer, place: Surroundings) -> None:
    """Start a server and write the schemas of its tools."""
    settings = tc.load_settings(place.write_settings(server.name, [server]))
    async with asyncio.timeout(SINGLE_SECONDS), tc.Client(settings.servers[server.name]) as client:
        tools = await client.list_tools()
    recorded = {tool.name: shorten(tool.input_schema) for tool in sorted(tools, key=lambda tool: tool.name)}
    package = server.package
    head = {"registry": package.registry, "package": package.name, "version": package.version}
    text = json.dumps({**head, "tools": recorded}, indent=1, ensure_ascii=False)
    (CORPUS / f"{server.name}.json").write_text(text + "\n")
    say(f"{server.name}: {len(recorded)} tools")


def shorten(value: Any) -> Any:
    """Return a schema with short descriptions; everything else is as the server sent it."""
    if isinstance(value, dict):
        return {
            key: item[:MAX_TEXT] if key == "description" and isinstance(item, str) else shorten(item)
            for key, item in value.items()
        }
    return [shorten(item) for item in value] if isinstance(value, list) else value


async def main(names: list[str]) -> int:
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        place = Surroundings(Path(folder), Path(folder) / "caches")
        for server in SERVERS:
            if names and server.name not in names:
                continue
            try:
                await record(server, place)
            except (tc.ToolcribError, TimeoutError) as error:
                say(f"{server.name}: {type(error).__name__}: {str(error)[:300]}")
                failed.append(server.name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
