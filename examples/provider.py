"""Registers a plugin and a program with the tools provider, executes their tools, and restarts.

Needs the extra `provider`. Run it with `python examples/provider.py`.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import toolcrib as tc
from toolcrib.provider import Provider

HERE = Path(__file__).parent


def row(label: object, text: object) -> None:
    print(f"  {label!s:<14}{text}")


async def main(folder: Path) -> None:
    async with Provider(folder / "tools.db") as provider:
        print("Registered")
        # A plugin folder with a manifest. The token is encrypted in the store.
        notes = await provider.register(
            {
                "name": "Notes",
                "url": "mcp://notes",
                "source_type": "mcp",
                "mcp_plugin_dir": str(HERE / "notes_plugin"),
                "mcp_lifecycle_mode": "singleton",
                "mcp_env_vars": {"NOTES_TOKEN": "s3cret-1234"},
            }
        )
        # Any server config is a source, too.
        demo = await provider.add_source("demo", tc.StdioServer("python3", [str(HERE / "demo_server.py")]))
        for source in (notes, demo):
            row(source.name, f"{source.config.lifecycle_mode}, {len(source.tools)} tools")

        print("Executed")
        for arguments in ({"text": "milk"}, {"txt": "bread"}):
            outcome = await provider.execute("Notes", "write_note", arguments, principal="alice", timeout=10)
            row("write_note", outcome.get_text() if outcome.success else type(outcome.exception).__name__)
        row("whoami", (await provider.execute("Notes", "whoami", principal="alice")).get_text())

        print("A group, as an agent sees it")
        await provider.groups.create("writers", include=["Notes/*", "demo/add"], exclude=["*/whoami"])
        view = provider.view("alice", group="writers")
        for tool in await view.list_tools():
            row(tool.original_name or "", tool.name)
        row("list_notes", (await view.call_tool("mcp__Notes__list_notes")).text)

    async with Provider(folder / "tools.db") as provider:
        print("After a restart")
        row("listed", f"{len(provider.list_tools())} tools, {len(provider.connections())} connections")
        row("list_notes", (await provider.execute("Notes", "list_notes")).get_text())
        row("connections", len(provider.connections()))
        for call in await provider.executions(source="Notes", limit=3):
            row("audit", f"{call.principal} {call.tool} {call.outcome}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(main(Path(made)))
