"""MCP without I/O: what goes over the wire, in both eras, as functions of values and tables."""
