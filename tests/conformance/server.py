"""The server under test: what the official conformance suite asks a server for, as a `ToolServer` offers it.

python tests/conformance/server.py --port P          serves both eras on http://127.0.0.1:P/mcp

The suite by hand, against it: conformance server --url http://127.0.0.1:P/mcp --scenario S --spec-version V
"""

from __future__ import annotations

import argparse
import logging

import server_goods
import server_questions
import server_tools

import toolcrib as tc

server = tc.ToolServer(
    "toolcrib-conformance",
    version="1.0.0",
    instructions="Everything here is for the conformance suite.",
    cache_ttl=60,
)
server_tools.offer(server)
server_questions.offer(server)
server_goods.offer(server)


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, default=3001)
    logging.basicConfig(level="WARNING")
    server.run("http", port=options.parse_args().port)
