"""A server whose names are long: what a terminal shows of them must still be fit to be copied."""

from __future__ import annotations

import toolcrib as tc

TOOL = "research-discovery-of-papers-and-preprints"
PROMPT = "summarise-everything-that-was-found-before"
URI = "papers://archive/collections/preprints/2026/november/index"
ABOUT = "Finds papers that have something to do with a question and orders them by date. Slow."

server = tc.ToolServer("wordy", "1.0")


@server.tool(name=TOOL, description=ABOUT)
def research(question: str, limit: int = 10) -> str:
    return question


@server.resource(URI, description=ABOUT)
def index() -> str:
    return "index"


@server.prompt(name=PROMPT, description=ABOUT)
def summarise(question: str, language: str = "en") -> str:
    return question


if __name__ == "__main__":
    server.run()
