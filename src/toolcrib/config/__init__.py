"""Configs of servers: `StdioServer`, `HttpServer`, `SseServer`, `PythonServer`. Frozen values, validated when created.

Possible secrets appear neither in a repr nor in an error: the values of headers and environment variables, the user
info and query values of URLs, and the values of variables in settings files. Other command-line arguments are shown;
every process on the machine can read those, so secrets belong in `env`.
"""

from .masking import (
    MASK,
    Expanded,
    MaskedMapping,
    SecretMask,
    mask_arguments,
    mask_urls,
    names_a_secret,
    secrets_of_process,
    secrets_of_web,
)
from .runners import may_download
from .servers import (
    HttpServer,
    PythonServer,
    ServerBase,
    ServerConfig,
    SseServer,
    StdioServer,
    TransportType,
    as_singleton,
    make_identifier,
    secrets_of,
    server_from_dict,
    server_from_json,
)
from .validators import (
    ALIASES,
    CHECKS,
    HeaderValue,
    Timeout,
    check_arguments,
    check_header,
    check_oauth_options,
    check_resource,
    check_scopes,
    check_text,
    one_of,
    with_own_names,
    wrong,
)

__all__ = [
    "ALIASES",
    "CHECKS",
    "MASK",
    "Expanded",
    "HeaderValue",
    "HttpServer",
    "MaskedMapping",
    "PythonServer",
    "SecretMask",
    "ServerBase",
    "ServerConfig",
    "SseServer",
    "StdioServer",
    "Timeout",
    "TransportType",
    "as_singleton",
    "check_arguments",
    "check_header",
    "check_oauth_options",
    "check_resource",
    "check_scopes",
    "check_text",
    "make_identifier",
    "mask_arguments",
    "mask_urls",
    "may_download",
    "names_a_secret",
    "one_of",
    "secrets_of",
    "secrets_of_process",
    "secrets_of_web",
    "server_from_dict",
    "server_from_json",
    "with_own_names",
    "wrong",
]
