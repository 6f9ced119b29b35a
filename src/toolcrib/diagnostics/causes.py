"""Maps error output of servers and their launchers to causes and fixes. Pure functions.

The patterns match output of real programs: uv, pip, npm, node, docker, and clients of databases and of HTTP APIs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

from ..config import HttpServer, SseServer
from ..config.launchers import Launch
from ..errors import AuthError
from ..oauth.challenge import parse_challenges
from ..settings import ServerEntry
from ..settings.models import place
from .sign_in_state import obstacle_to_sign_in, quote_url

_HOST: Final = r"(?P<host>\[[0-9a-fA-F:.]+\](?::\d+)?|[0-9a-fA-F:]*::[0-9a-fA-F:]*|[\w.-]+(?::\d+)?)"
_PACKAGES_NETWORK: Final = "check the network connection, and whether it needs a proxy"


@dataclass(frozen=True, slots=True)
class Cause:
    """A pattern of error output, its cause and its fix; `what` and `fix` may contain the pattern's named groups."""

    pattern: str
    what: str
    """The cause; empty if the output itself describes it best."""
    fix: str
    option: tuple[str, str] = ("", "")
    """An option of uvx that fixes it, and its value; the fix then shows the whole command line."""


class Diagnosis(NamedTuple):
    """The cause of a failure (empty if the output describes it best), and its fix."""

    what: str
    fix: str


MAX_EXAMINED: Final = 8_000
"""Characters at the end of a server's output that are examined."""
_BACKEND: Final = "it cannot reach {host}, which it needs"
_START_BACKEND: Final = "start the service at {host}, or correct its address under env or args"
_FIND_BACKEND: Final = (
    "correct the name {host} under env or args, or connect to the network (such as a VPN) that has it"
)

CAUSES: Final = (
    # ---- Python packages
    Cause(
        r"No module named ['\"]mcp\.server\.mcpserver|cannot import name ['\"]MCPServer['\"] from ['\"]mcp",
        "it is written for version 2 of the mcp package, and version 1 is installed",
        "install 'mcp>=2' into the Python that the command starts",
        ("--with", "mcp>=2"),
    ),
    Cause(
        r"No module named ['\"]?mcp\.server\.fastmcp|cannot import name ['\"]\w+['\"] from ['\"]mcp(?:\.[\w.]+)?['\"]"
        r"|'Server' object has no attribute '(?:list|call|get|read|set|subscribe|unsubscribe|progress|request)_",
        "it is written for version 1 of the mcp package, and version 2 is installed",
        "install 'mcp<2' into the Python that the command starts",
        ("--with", "mcp<2"),
    ),
    *(
        Cause(pattern, "it needs Python {version} or newer", "use Python {version} or newer", ("--python", "{version}"))
        for pattern in (
            r"Python version \([^)\n]*\) does not satisfy Python>=?(?P<version>3\.\d+)",
            r"requires? a different [Pp]ython[^\n]*>=?\s*(?P<version>3\.\d+)",
            r"[Rr]equires [Pp]ython(?: version)?:? ?(?:>=? ?)?(?P<version>3\.\d+)",
        )
    ),
    Cause(
        r"[Aa]n executable named `?(?P<wrong>[\w.-]+)`? is not provided by package `?(?P<package>[\w.-]+)`?"
        r"(?:.*\n)+?- (?P<right>[\w.-]+)",
        "the package {package} has no program {wrong}",
        "name the program: uvx --from {package} {right}",
    ),
    Cause(r"No module named ['\"]?(?P<module>[\w.]+)", "", "install {module} into the Python that the command starts"),
    Cause(
        r"Cannot find (?:module|package) ['\"](?P<module>[^'\"]+)",
        "",
        "install {module} where the command looks for it",
    ),
    # ---- fetching a package
    Cause(r"npm (?:error|ERR!) code E404|404 Not Found - GET", "", "correct the name of the npm package"),
    Cause(r"ETARGET|ENOVERSIONS|No matching version", "", "the package has no such version: use another one"),
    Cause(
        r"UnknownIssuer|SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER|CERTIFICATE_VERIFY_FAILED|unable to get local issuer",
        "",
        "it does not trust a certificate: set SSL_CERT_FILE (NODE_EXTRA_CA_CERTS for node) under env",
    ),
    Cause(
        r"npm (?:error|ERR!)[^\n]*(?:ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT)|[Ff]ailed to fetch: `|"
        r"error sending request for url",
        "its package cannot be fetched",
        _PACKAGES_NETWORK,
    ),
    Cause(
        r"not found in the package registry|No solution found|No matching distribution found",
        "",
        "correct the name and version of the PyPI package",
    ),
    # ---- containers
    Cause(
        r"permission denied while trying to connect to the (?:Docker|docker)",
        "you have no permission to use the Docker daemon",
        "add yourself to the group docker, and log in again",
    ),
    Cause(
        r"Cannot connect to the Docker daemon|[Ff]ailed to connect to the docker API|[Ii]s the docker daemon running"
        r"|dial unix [^\n]*docker[^\n]*\.sock",
        "the Docker daemon is not running",
        "start Docker, then try again",
    ),
    Cause(r"Cannot connect to Podman", "Podman is not running", "start it: podman machine start"),
    Cause(
        r"pull access denied for (?P<image>\S+?),|manifest unknown|repository does not exist",
        "the image does not exist or is not public",
        "correct the name of the image; for a private one, run docker login",
    ),
    # ---- what the server itself needs
    Cause(
        r"(?:authori[sz]e|authori[sz]ation|sign[ -]?in|log[ -]?in|visit|browser)[^\n]{0,200}\n?[^\n]{0,200}?"
        r"(?P<url>https?://[^\s'\"<>]+)",
        "it waits for a sign-in at {url}",
        "start the same command by hand in a terminal, open that page and sign in there, then try again",
    ),
    Cause(rf"getaddrinfo (?:ENOTFOUND|EAI_AGAIN) {_HOST}", _BACKEND, _FIND_BACKEND),
    Cause(
        r"(?:[Ff]ailed to resolve|could not translate host name|[Uu]nknown (?:MySQL server )?host|no such host:?) "
        rf"['\"]?{_HOST}",
        _BACKEND,
        _FIND_BACKEND,
    ),
    Cause(rf"lookup {_HOST}(?: on \S+)?: no such host", _BACKEND, _FIND_BACKEND),
    Cause(rf"(?:connect )?(?:ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH) {_HOST}", _BACKEND, _START_BACKEND),
    Cause(
        r"server at ['\"](?P<host>[^'\"]+)['\"](?: \([^)]*\))?, port (?P<port>\d+) failed: "
        r"(?:Connection refused|timeout|Operation timed out)",
        "it cannot reach {host}:{port}, which it needs",
        "start the service at {host}:{port}, or correct its address under env or args",
    ),
    Cause(
        r"ConnectionPool\(host='(?P<host>[^']+)', port=(?P<port>\d+)\): Max retries exceeded",
        "it cannot reach {host}:{port}, which it needs",
        "start the service at {host}:{port}, or correct its address under env or args",
    ),
    Cause(
        rf"(?:connect(?:ing|ion)?|dial tcp|reach)[^\n]{{0,80}}? (?:to |at |tcp )?(?:\w{{1,20}}://)?(?:[^\s/@]{{1,40}}@)?{_HOST}[^\n]{{0,80}}?"
        r"(?:[Cc]onnection refused|refused the connection|actively refused)",
        _BACKEND,
        _START_BACKEND,
    ),
    Cause(
        r"ECONNREFUSED|[Cc]onnection refused|All connection attempts failed|[Cc]onnect call failed",
        "it cannot reach a service that it needs",
        "start that service, or correct its address under env or args",
    ),
    Cause(
        r"ENOTFOUND|EAI_AGAIN|failure in name resolution|Name or service not known|nodename nor servname",
        "it cannot resolve the name of a host that it needs",
        "correct the host under env or args, and check the network connection",
    ),
    Cause(r"EADDRINUSE|[Aa]ddress already in use", "", "another program uses the port: stop it, or use another port"),
    Cause(r"can't open file ['\"]?(?P<file>[^'\":\n]+)", "", "{file} does not exist: correct the paths in args"),
    Cause(
        r"No such file or directory: ['\"]?(?P<file>[^'\"\n]+)", "", "{file} does not exist: correct the paths in args"
    ),
    Cause(r"ENOENT|No such file or directory", "", "a path in args does not exist: correct it"),
    Cause(r"usage:|unrecognized arguments|[Uu]nknown option", "", "correct args: the program does not accept them"),
)
"""The known causes in the order in which they are tried: more specific patterns first."""

_MISSING: Final = re.compile(r"missing|required|not set|unset|must|environ|provide|undefined|KeyError", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")


def diagnose(text: str, launch: Launch | None = None) -> Diagnosis | None:
    """Return the cause of a server's failure and its fix, from the server's output; None if no cause is recognised.

    `launch` is the server's command line, which the fix may quote.
    """
    text = text[-MAX_EXAMINED:]
    for cause in CAUSES:
        found = [*re.finditer(cause.pattern, text)]
        if found:
            # The last match: what a program writes last is usually why it exited.
            words = {name: value for name, value in found[-1].groupdict().items() if value is not None}
            return Diagnosis(cause.what.format_map(words), _fix(cause, words, launch))
    for line in reversed(text.splitlines()):
        if _MISSING.search(line) and (variable := _VARIABLE.search(line)):
            name = variable[0]
            return Diagnosis("", f"set {name} under env, as ${{{name}}}: servers inherit only a few of your variables")
    return None


def _fix(cause: Cause, words: dict[str, str], launch: Launch | None) -> str:
    fix = cause.fix.format_map(words)
    option, value = cause.option[0], cause.option[1].format_map(words)
    if option and launch is not None and launch.kind in ("uvx", "uv"):
        # --with can be given several times.
        return f"{fix}: {launch.with_option(option, value, instead_of=() if option == '--with' else ('-p', option))}"
    if option == "--python" and launch is not None and launch.kind == "pipx":
        return f"{fix}: {launch.with_option(option, value, instead_of=(option,))}"
    return fix


def wants_oauth(error: AuthError) -> bool:
    """Return whether a challenge names OAuth metadata."""
    return "resource_metadata" in (error.challenge or "")


def lacks_scopes(error: AuthError) -> bool:
    """Return whether a server rejected a token because it has too few scopes."""
    challenge = parse_challenges([error.challenge or ""])
    return error.status == 403 and challenge is not None and challenge.error == "insufficient_scope"


def missing_scopes(error: AuthError) -> tuple[str, ...]:
    """Return the scopes that the challenge of a server names."""
    challenge = parse_challenges([error.challenge or ""])
    return challenge.scope if challenge is not None else ()


def required_scopes(error: AuthError) -> tuple[str, ...]:
    """Return all scopes to request after `insufficient_scope`: the stored ones and the missing ones.

    They are those of the authorisation URL; without one, only the scopes of the challenge are known.
    """
    query = parse_qs(urlsplit(error.authorization_url or "").query)
    return tuple(dict.fromkeys(" ".join(query.get("scope", ())).split())) or missing_scopes(error)


def scope_options(scopes: Iterable[str]) -> str:
    """Return the options of `auth login` that request these scopes.

    They are quoted: the names are the server's, and the user may paste the line into a shell.
    """
    return "".join(f" --scope {shlex.quote(scope)}" for scope in scopes)


def credentials_for(
    error: AuthError,
    entry: ServerEntry | None = None,
    *,
    oauth: bool = False,
    login: str = "toolcrib auth login NAME",
) -> str:
    """Return how to supply the credentials that a server asks for.

    `entry` is the server's, if it is known; `oauth` is True if the server publishes OAuth metadata, `login` the command
    that signs in to it.
    """
    if error.status == 403:
        return _permissions_for(error, login)
    challenge = (error.challenge or "").lower()
    is_basic = challenge.startswith("basic")
    oauth = oauth or wants_oauth(error) or error.authorization_url is not None
    obstacle = obstacle_to_sign_in(entry) if entry is not None else None
    if entry is not None and obstacle == "credentials":
        where = f" of {entry.name} in {place(entry, 'headers')}" if entry.source is not None else ""
        instead = "" if is_basic and not oauth else f", or remove it and run `{login}`"
        return f"correct the Authorization header{where}{instead}"
    if entry is not None and obstacle == "off" and oauth:
        return f"the sign-in is turned off in {place(entry, 'oauth')}: turn it on there, and run `{login}`"
    if oauth:
        return f"`{login}` signs you in; in Python, pass auth=OAuth()"
    if is_basic:
        return 'put user and password in base64 under headers: "Authorization": "Basic ${CREDENTIALS}"'
    if entry is not None and entry.source is None and isinstance(entry.config, HttpServer | SseServer):
        url = quote_url(entry.config.url)
        token = f"add it with its token: toolcrib add NAME {url} --header 'Authorization=Bearer ${{TOKEN}}'"
    else:
        token = 'put its token under headers: "Authorization": "Bearer ${TOKEN}", and export TOKEN=...'
    return token if obstacle == "off" else f"run `{login}` if the server uses OAuth; else {token}"


def _permissions_for(error: AuthError, login: str) -> str:
    """Return how to get credentials that allow a request."""
    if lacks_scopes(error) and error.authorization_url is not None:
        return f"`{login}{scope_options(required_scopes(error))}` signs you in again, with the missing scopes"
    scopes = " ".join(missing_scopes(error))
    return f"get credentials {f'with the scope {scopes}' if scopes else 'that allow it'} from the server's operator"


def without_stderr(message: str) -> str:
    """Return the message of an error without its quote of the server's stderr, which is shown separately."""
    for mark in ("; stderr: ", "; its stderr ends with: "):
        message = message.partition(mark)[0]
    return message
