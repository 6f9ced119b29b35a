"""Functions of this process as MCP tools, and the endpoints that serve them."""
