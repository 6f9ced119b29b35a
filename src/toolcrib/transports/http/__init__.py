"""The HTTP transports: Streamable HTTP, and HTTP+SSE of revision 2024-11-05."""
