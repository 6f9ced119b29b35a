"""One server: the connection that is kept alive, and the typed methods over it."""
