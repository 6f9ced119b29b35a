"""The snippets of docs/how-to/agent-frameworks.md, for the drivers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import toolcrib as tc
import toolcrib.sync
from tests.house import snippets

PAGE: Final = Path(__file__).parents[2] / "docs/how-to/agent-frameworks.md"


def load_ask(name: str) -> Any:
    """Run the block of the page that needs this framework, and return its function `ask(model, servers, question)`."""
    (block,) = [block for block in snippets.blocks(PAGE.read_text()) if block.needs == name]
    names: dict[str, Any] = {"__name__": "snippet", "sync": toolcrib.sync, "tc": tc}
    exec(compile("\n" * (block.line - 1) + block.body, str(PAGE), "exec", dont_inherit=True), names)
    return names["ask"]
