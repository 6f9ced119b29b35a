"""The stdio transport: a server as a child process."""
