"""The calculator of Strands' documentation, on the `mcp` SDK 1.x, unchanged except for the port: calculator.py PORT"""

from __future__ import annotations

import os
import sys
import threading

from mcp.server import FastMCP

# Create an MCP server
mcp = FastMCP("Calculator Server", port=int(sys.argv[1]), log_level="ERROR")


# Define a tool
@mcp.tool(description="Calculator tool which performs calculations")
def calculator(x: int, y: int) -> int:
    return x + y


# It cannot outlive its parent.
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()

# Run the server with SSE transport
mcp.run(transport="sse")
