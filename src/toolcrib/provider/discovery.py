"""Asks a server for all that it lists."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..client.client import Client, Timeout
from ..errors import ToolcribError
from ..protocol.sanitize import one_line
from ..types import UNSET, ServerInfo, Wire

log = logging.getLogger("toolcrib.provider")


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server listed, as it was received.

    A list is None if the server could not list it, although its tools could be listed; the last list then stays.
    """

    server: ServerInfo
    tools: Sequence[Wire]
    prompts: Sequence[Wire] | None = ()
    resources: Sequence[Wire] | None = ()
    templates: Sequence[Wire] | None = ()


async def list_everything(client: Client, *, timeout: Timeout = UNSET) -> Listing:
    """Return all lists of a server. Raises the error of the tools' list; the others may be missing."""
    await client.connect()
    capabilities = client.session.agreement.server.capabilities
    fetches: dict[str, Any] = {"tools": client.list_tools}
    if "prompts" in capabilities:
        fetches["prompts"] = client.list_prompts
    if "resources" in capabilities:
        fetches["resources"] = client.list_resources
        fetches["templates"] = client.list_resource_templates
    info = client.session.agreement.server
    found = await asyncio.gather(
        *(fetch(use_cache=False, timeout=timeout) for fetch in fetches.values()), return_exceptions=True
    )
    lists: dict[str, list[Wire] | None] = {}
    for kind, result in zip(fetches, found, strict=True):
        if not isinstance(result, BaseException):
            lists[kind] = [item.raw for item in result]
        elif kind == "tools" or not isinstance(result, ToolcribError):
            raise result
        else:
            log.info("%s: %s could not be listed: %s", client.name, kind, one_line(str(result)))
            lists[kind] = None
    tools = lists.pop("tools")
    return Listing(info, tools or (), **lists)


def describe_server(listing: Listing) -> Mapping[str, Any]:
    """Return what the store keeps about a server: what it said about itself, and the order of its lists."""
    info = listing.server
    lists = {
        "tools": _texts(listing.tools, "name"),
        "prompts": _texts(listing.prompts, "name"),
        "resources": _texts(listing.resources, "uri"),
        "templates": _texts(listing.templates, "uriTemplate"),
    }
    return {
        "name": info.name,
        "version": info.version,
        "title": info.title,
        "protocol_version": info.protocol_version,
        "capabilities": info.capabilities,
        "instructions": info.instructions,
        "order": {kind: names for kind, names in lists.items() if names},
    }


def _texts(items: Sequence[Wire] | None, key: str) -> list[str]:
    return [name for item in items or () if isinstance(name := item.get(key), str)]
