"""A stdio server with many tools, for the provider: `tools_server.py COUNT FILE`.

Each list has what FILE contains in the description of every hundredth tool, so a benchmark can change the tools of the
running server.
"""

import sys
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from echo_server import METHODS, STALE, main
from fleet import every_tool

CHANGED_SHARE = 100


def make_tools(count: int, text: str) -> list[dict[str, Any]]:
    return [
        {
            "name": f"{described.name}_{number}",
            "description": described.description + (text if number % CHANGED_SHARE == 0 else ""),
            "inputSchema": described.schema,
        }
        for number, described in enumerate(islice(cycle(every_tool()), count))
    ]


def serve(count: int, file: Path) -> None:
    METHODS["tools/list"] = lambda params: {"tools": make_tools(count, file.read_text()), **STALE}
    main()


if __name__ == "__main__":
    serve(int(sys.argv[1]), Path(sys.argv[2]))
