"""`toolcrib resources`."""

from __future__ import annotations

from typing import Unpack

from ..console import Column, is_terminal, say, show_json, show_table
from ..lazy_command import Invocation
from ..target import ServerParameters, open_chosen


async def command(invocation: Invocation, long: bool, as_json: bool, **chosen: Unpack[ServerParameters]) -> int:
    """List the resources and the templates."""
    async with open_chosen(invocation, **chosen) as session:
        resources = await session.hub.list_resources()
        templates = await session.hub.list_resource_templates()
        if as_json:
            found = [(each.raw, each.server) for each in resources] + [(each.raw, each.server) for each in templates]
            show_json([{**raw, "server": server} for raw, server in found])
        else:
            rows = [(r.uri, r.server, r.mime_type or "", r.title or r.name, r.description) for r in resources]
            rows += [(t.uri_template, t.server, t.mime_type or "", t.title or t.name, t.description) for t in templates]
            columns = (
                Column("uri", "bold"),
                Column("server", optional=2),
                Column("type", optional=3),
                Column("name", optional=1),
                Column("what it is", text=True),
            )
            show_table(columns, rows, brief=not long)
            if not rows and is_terminal():
                say("no resources")
        return session.code
