"""How to reach a server: `StdioServer`, `HttpServer`, `SseServer`. Plain frozen values, checked when they are made.

What can be a secret appears neither in a repr nor in an error: the values of headers and environment variables, and the
user info and query values of URLs. Command-line arguments are shown; every process of the machine can read those, so a
secret belongs into `env`.
"""

from .checks import CHECKS, HeaderValue, Timeout, check_header, wrong
from .masks import MASK, MaskedMapping, mask_urls
from .servers import (
    HttpServer,
    ServerConfig,
    SseServer,
    StdioServer,
    TransportType,
    server_from_dict,
    server_from_json,
)

__all__ = [
    "CHECKS",
    "MASK",
    "HeaderValue",
    "HttpServer",
    "MaskedMapping",
    "ServerConfig",
    "SseServer",
    "StdioServer",
    "Timeout",
    "TransportType",
    "check_header",
    "mask_urls",
    "server_from_dict",
    "server_from_json",
    "wrong",
]
