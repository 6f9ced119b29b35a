"""A server as a child process that speaks over stdin and stdout."""
