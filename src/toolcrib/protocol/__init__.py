"""The protocol without I/O: messages, framing and headers of both eras, as pure functions and tables."""
