"""`toolcrib read`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import ConfigError
from ...hub.hub import Hub
from ...server.components.uri_template import UriTemplate
from ...types import ResourceTemplate
from ..console import show_json
from ..exit_codes import CliError, Exit
from ..lazy_command import Invocation
from ..lookup import split_words
from ..render import show_piece, write_bytes
from ..target import HubSession, open_servers


async def command(
    invocation: Invocation,
    words: Sequence[str],
    output: Path | None,
    config: Path | None,
    as_json: bool,
    timeout: float | None,
) -> int:
    """Read a resource."""
    target, uri, more = split_words("resource", words, config, invocation.command, is_name=bool)
    if more:
        raise CliError(f"there is no server {uri!r} in the settings", hint="toolcrib read [SERVER] URI")
    async with open_servers(target, timeout=timeout, report_failures=len(target.names) == 1) as session:
        contents = await session.hub.read_resource(await _owner(session, uri), uri)
        if as_json:
            show_json(contents.raw)
        elif output is not None:
            write_bytes(contents.data, output)
        else:
            for piece in contents:
                show_piece(piece, Path())
        return Exit.OK


async def _owner(session: HubSession, uri: str) -> str:
    """Return the server of a resource: the one that lists it, else the one with a matching template, else the only one
    that has resources.
    """
    hub = session.hub
    listed = [resource.server for resource in await hub.list_resources() if resource.uri == uri]
    templates = await hub.list_resource_templates()
    fitting = [template.server for template in templates if _fits(template, uri)]
    found = _names(listed) or _names(fitting) or _capable(hub)
    if not found:
        raise CliError("none of the servers has resources", hint="`toolcrib resources` lists them", code=Exit.NOT_FOUND)
    if len(found) > 1:
        raise CliError(f"{len(found)} servers may have {uri}", hint=f"name the server: {' or '.join(found)}")
    return found[0]


def _names(servers: Iterable[str | None]) -> list[str]:
    return [name for name in dict.fromkeys(servers) if name is not None]


def _fits(template: ResourceTemplate, uri: str) -> bool:
    with contextlib.suppress(ConfigError):  # an invalid template matches nothing
        return UriTemplate(template.uri_template).match(uri) is not None
    return False


def _capable(hub: Hub) -> list[str]:
    states = [state for state in hub.list_servers() if state.last_error is None and state.server_info]
    able = [state.name for state in states if state.server_info and "resources" in state.server_info.capabilities]
    return able or [state.name for state in states if len(states) == 1]
