"""Why a server does not start or cannot be reached, and what can be done about it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import fields
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from ...client.dialing import OLDER
from ...config import HttpServer, ServerConfig, SseServer, mask_urls
from ...errors import AuthError, ConfigError, ProtocolError, RateLimited, RemoteError, StartError, ToolyardError
from ...protocol.jsonrpc import METHOD_NOT_FOUND
from ...transports.opening import older_way
from .findings import Checkup
from .patience import Patience
from .trying import client_for

NEARBY: Final = 5.0
"""Seconds for a look whether the server is at a place nearby."""

STDOUT_IS_FOR_MCP: Final = "have its author write logs to stderr: stdout is for MCP alone"

_PLACES: Final = ("/mcp", "/sse", "/mcp/", "/api/mcp")
_NOT_HERE: Final = frozenset({200, 301, 302, 307, 308, 400, 404, 405, 406, 410, 415, 501})
"""Statuses that a place gives where there is no MCP server, or one of the other kind."""

_REMEDIES: Final = (
    (r"No module named ['\"]?([\w.]+)", "install {0} into the Python that the command starts"),
    (r"Cannot find (?:module|package) ['\"]([^'\"]+)", "install {0} where the command looks for it"),
    (r"npm (?:error|ERR!) code E404|404 Not Found - GET", "correct the name of the npm package"),
    (r"not found in the package registry|No solution found", "correct the name and version of the PyPI package"),
    (r"ETARGET|ENOVERSIONS|No matching version", "there is no such version of the package: give another one"),
    (
        r"UnknownIssuer|SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER|CERTIFICATE_VERIFY_FAILED|unable to get local issuer",
        "it does not trust the certificates here: give it SSL_CERT_FILE (for node NODE_EXTRA_CA_CERTS) under env",
    ),
    (r"ENOTFOUND|EAI_AGAIN|failure in name resolution", "it needs the network to start: is there one?"),
    (r"EADDRINUSE|[Aa]ddress already in use", "something listens there already: end that, or give another port"),
    (r"Cannot connect to the Docker daemon", "start Docker"),
    (r"can't open file ['\"]?([^'\":\n]+)", "there is no {0}: correct the paths in args"),
    (r"No such file or directory: ['\"]?([^'\"\n]+)", "there is no {0}: correct the paths in args"),
    (r"ENOENT|No such file or directory", "one of the paths in args is not there"),
    (r"usage:|unrecognized arguments|[Uu]nknown option", "correct args: the program does not know them"),
)
_MISSING: Final = re.compile(r"missing|required|not set|unset|must|environ|provide|undefined|KeyError", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")


async def explain(
    checkup: Checkup,
    step: str,
    config: ServerConfig,
    error: ToolyardError,
    seconds: float,
    patience: Patience,
    *,
    is_noisy: bool,
) -> None:
    """Note why the step failed, with a fix; `is_noisy`: the server wrote what is no message."""
    said = checkup.said(error.message)
    if isinstance(error, StartError):
        checkup.facts["exit_code"] = error.exit_code
        checkup.broken(step, checkup.said(_ended(error)), remedy_for(error.stderr), seconds, error.stderr)
    elif isinstance(error, AuthError):
        checkup.facts.update(status=error.status, challenge=checkup.said(error.challenge or ""))
        checkup.broken(step, checkup.said(_refusal(error)), credentials_for(error), seconds)
    elif isinstance(error, RateLimited):
        checkup.broken(step, said, "wait, and try again later", seconds)
    elif isinstance(error, ConfigError):
        checkup.broken(step, said, f"give {error.expected}" if error.expected else "correct its settings", seconds)
    elif isinstance(config, HttpServer | SseServer):
        checkup.facts["status"] = getattr(error, "status", None)
        checkup.broken(step, said, await _where_else(checkup, config, error), seconds)
    elif is_noisy:
        checkup.broken(step, said, STDOUT_IS_FOR_MCP, seconds)
    elif isinstance(error.__cause__, RemoteError) and error.__cause__.code == METHOD_NOT_FOUND:
        text = "it is no MCP server: it does not know initialize, or only sends back what it is sent"
        checkup.broken(step, text, "correct the command: this program does something else", seconds)
    else:
        more = f"--timeout {patience.seconds * 4:g}"
        fix = f"is it an MCP server that speaks over stdio? one that is only slow needs more time: {more}"
        checkup.broken(step, said, fix, seconds)


# ---- a program that ended -------------------------------------------------------------------------------------


def _ended(error: StartError) -> str:
    if error.exit_code is None:
        return error.message
    if error.exit_code < 0:
        return f"its process was ended by signal {-error.exit_code} before it answered"
    return f"its process ended with exit code {error.exit_code} before it answered"


def remedy_for(stderr: str) -> str:
    """What can be done about a server that wrote this and ended."""
    # From the end: what a program says last is mostly why it went.
    lines = stderr.splitlines()[::-1]
    for pattern, remedy in _REMEDIES:
        for line in lines:
            if found := re.search(pattern, line):
                return remedy.format(*found.groups())
    for line in lines:
        if _MISSING.search(line) and (variable := _VARIABLE.search(line)):
            return f"give it {variable[0]} under env, as ${{{variable[0]}}}: a server gets few variables of yours"
    said = "it says why" if stderr.strip() else "it says nothing"
    return f"{said}: start the same command by hand, and look at what it writes"


# ---- a place that refused -------------------------------------------------------------------------------------


def _refusal(error: AuthError) -> str:
    said = f"; it says: {error.challenge}" if error.challenge else ""
    what = "it wants credentials" if error.status == 401 else "it does not take these credentials"
    return f"{what} (HTTP {error.status}){said}"


def credentials_for(error: AuthError) -> str:
    """How to give a server what it asks for in its challenge."""
    challenge = error.challenge or ""
    if error.status == 403:
        scope = re.search(r'scope="?([^",]+)', challenge)
        return f"get credentials {f'with the scope {scope[1]}' if scope else 'that allow it'} from who runs it"
    if "resource_metadata" in challenge:
        return 'it uses OAuth: log in there, and put the token under headers: "Authorization": "Bearer ${TOKEN}"'
    if challenge.lower().startswith("basic"):
        return 'put user and password in base64 under headers: "Authorization": "Basic ${CREDENTIALS}"'
    return 'put its token under headers: "Authorization": "Bearer ${TOKEN}", and export TOKEN=...'


async def older_kind(checkup: Checkup, config: ServerConfig, error: ToolyardError) -> SseServer | None:
    """The server at this very URL, if it is of the older kind: a client finds that out by itself, too."""
    older = older_way(config) if getattr(error, "status", None) in OLDER else None
    return older if older is not None and await _answers(older, checkup.server) else None


async def _where_else(checkup: Checkup, config: HttpServer | SseServer, error: ToolyardError) -> str:
    status = getattr(error, "status", None)
    if status is not None and status not in _NOT_HERE and not isinstance(error, ProtocolError):
        return "is the server well? ask who runs it"
    checkup.on_step("looking nearby")
    return await _nearby(config, checkup.server) or "ask for the URL of its MCP endpoint: mostly it ends in /mcp"


async def _nearby(config: HttpServer | SseServer, name: str) -> str:
    """Where, or by which way, a server answers instead; empty if nowhere."""
    given = {f.name: getattr(config, f.name) for f in fields(SseServer) if f.name != "url"}
    other: type[Any] = SseServer if isinstance(config, HttpServer) else HttpServer
    candidates: list[HttpServer | SseServer] = [other(config.url, **given)]
    for path in _PLACES:
        url = urlunsplit(urlsplit(config.url)._replace(path=path, fragment=""))
        if url != config.url:
            candidates.append(SseServer(url, **given) if path == "/sse" else HttpServer(url, **given))
    answers = await asyncio.gather(*(_answers(each, name) for each in candidates))
    found = next((each for each, yes in zip(candidates, answers, strict=True) if yes), None)
    if found is None:
        return ""
    kind = "sse" if isinstance(found, SseServer) else "http"
    if found.url == config.url:
        return f"it is a server of the other kind: give it the type {kind}"
    return f"there is an MCP server at {mask_urls(found.url)}: give that as url, with the type {kind}"


async def _answers(config: HttpServer | SseServer, name: str) -> bool:
    client = client_for(config, name, NEARBY)
    try:
        await client.connect()
    except ToolyardError:
        return False
    finally:
        await client.close()
    return True
