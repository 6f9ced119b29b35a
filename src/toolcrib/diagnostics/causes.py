"""What servers and their launchers write when something is wrong: the cause of each, and what fixes it. Pure.

The texts are those of real programs: uv, pip, npm, node, docker, and clients of databases and of HTTP APIs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..config.launchers import Launch
from ..errors import AuthError

OAUTH_FIX: Final = (
    "this version cannot sign in there by itself. If the provider issues tokens, put one under headers: "
    '"Authorization": "Bearer ${TOKEN}"; in Python, pass an OAuth provider as auth=, for instance that of the mcp SDK'
)
_HOST: Final = r"(?P<host>\[[0-9a-fA-F:.]+\](?::\d+)?|[0-9a-fA-F:]*::[0-9a-fA-F:]*|[\w.-]+(?::\d+)?)"
_PACKAGES_NETWORK: Final = "it needs the network to fetch its package: is there one, and does it need a proxy?"


@dataclass(frozen=True, slots=True)
class Cause:
    """A text that tells why a server does not work. Named groups of `pattern` can stand in `what` and `fix`."""

    pattern: str
    what: str
    """The cause; empty where the text itself says it best."""
    fix: str
    option: tuple[str, str] = ("", "")
    """An option of uvx that fixes it, and its value: the fix is then the whole command line."""


class Diagnosis(NamedTuple):
    """What was recognised."""

    what: str
    fix: str


LONGEST: Final = 8_000
"""Characters, from the end, of a server's words that are looked at."""
_BACKEND: Final = "it cannot reach {host}, which it needs"
_START_BACKEND: Final = "start what listens at {host}, or correct that address under env or args"
_FIND_BACKEND: Final = "correct the name {host} under env or args; is it one of a network that you are not in now?"

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
    Cause(r"ETARGET|ENOVERSIONS|No matching version", "", "there is no such version of the package: give another one"),
    Cause(
        r"UnknownIssuer|SELF_SIGNED_CERT|UNABLE_TO_GET_ISSUER|CERTIFICATE_VERIFY_FAILED|unable to get local issuer",
        "",
        "it does not trust the certificates here: give it SSL_CERT_FILE (for node NODE_EXTRA_CA_CERTS) under env",
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
        "you may not use the Docker daemon",
        "add yourself to the group docker, and log in again",
    ),
    Cause(
        r"Cannot connect to the Docker daemon|[Ff]ailed to connect to the docker API|[Ii]s the docker daemon running"
        r"|dial unix [^\n]*docker[^\n]*\.sock",
        "the Docker daemon does not run",
        "start Docker, then try again",
    ),
    Cause(r"Cannot connect to Podman", "Podman does not run", "start it: podman machine start"),
    Cause(
        r"pull access denied for (?P<image>\S+?),|manifest unknown|repository does not exist",
        "there is no such image, or it is not public",
        "correct the name of the image; docker login is for private ones",
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
        "start what listens at {host}:{port}, or correct that address under env or args",
    ),
    Cause(
        r"ConnectionPool\(host='(?P<host>[^']+)', port=(?P<port>\d+)\): Max retries exceeded",
        "it cannot reach {host}:{port}, which it needs",
        "start what listens at {host}:{port}, or correct that address under env or args",
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
        "it cannot find the address of a host that it needs",
        "correct that host under env or args; is there a network?",
    ),
    Cause(
        r"EADDRINUSE|[Aa]ddress already in use", "", "something listens there already: end that, or give another port"
    ),
    Cause(r"can't open file ['\"]?(?P<file>[^'\":\n]+)", "", "there is no {file}: correct the paths in args"),
    Cause(r"No such file or directory: ['\"]?(?P<file>[^'\"\n]+)", "", "there is no {file}: correct the paths in args"),
    Cause(r"ENOENT|No such file or directory", "", "one of the paths in args is not there"),
    Cause(r"usage:|unrecognized arguments|[Uu]nknown option", "", "correct args: the program does not know them"),
)
"""In the order in which they are looked for: the more a text says, the earlier."""

_MISSING: Final = re.compile(r"missing|required|not set|unset|must|environ|provide|undefined|KeyError", re.IGNORECASE)
_VARIABLE: Final = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")


def diagnose(text: str, launch: Launch | None = None) -> Diagnosis | None:
    """Return what a server's own words say about its failure; None if nothing in them is known.

    `launch` is its command line, which decides how the fix is spelled.
    """
    text = text[-LONGEST:]
    for cause in CAUSES:
        found = [*re.finditer(cause.pattern, text)]
        if found:
            # The last one: what a program writes last is mostly why it ended.
            words = {name: value for name, value in found[-1].groupdict().items() if value is not None}
            return Diagnosis(cause.what.format_map(words), _fix(cause, words, launch))
    for line in reversed(text.splitlines()):
        if _MISSING.search(line) and (variable := _VARIABLE.search(line)):
            return Diagnosis(
                "", f"give it {variable[0]} under env, as ${{{variable[0]}}}: a server gets few variables of yours"
            )
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
    """Return whether a challenge names the metadata that OAuth begins with."""
    return "resource_metadata" in (error.challenge or "")


def credentials_for(error: AuthError, *, oauth: bool = False) -> str:
    """Return how to give a server what its challenge asks for; `oauth`: it has metadata for OAuth."""
    challenge = error.challenge or ""
    if error.status == 403:
        scope = re.search(r'scope="?([^",]+)', challenge)
        return f"get credentials {f'with the scope {scope[1]}' if scope else 'that allow it'} from who runs it"
    if oauth or wants_oauth(error):
        return OAUTH_FIX
    if challenge.lower().startswith("basic"):
        return 'put user and password in base64 under headers: "Authorization": "Basic ${CREDENTIALS}"'
    return 'put its token under headers: "Authorization": "Bearer ${TOKEN}", and export TOKEN=...'


def without_stderr(message: str) -> str:
    """Return the message of an error without what it quotes of the server's stderr: that is shown in whole lines."""
    for mark in ("; stderr: ", "; its stderr ends with: "):
        message = message.partition(mark)[0]
    return message
