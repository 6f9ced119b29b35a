"""Access rules, an approver, a filter that depends on the caller, and `explain`."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import toolcrib as tc

files = tc.ToolServer("files")
DISK = {"notes.txt": "buy milk", "old.txt": "1999"}


@files.tool(annotations={"readOnlyHint": True})
def read_file(path: str) -> str:
    """Read a file."""
    return DISK[path]


@files.tool
def write_file(path: str, text: str) -> str:
    """Write a file."""
    DISK[path] = text
    return f"{len(text)} characters in {path}"


@files.tool
def delete_file(path: str) -> str:
    """Delete a file."""
    del DISK[path]
    return f"{path} is gone"


@files.tool
def format_disk() -> str:
    """Delete everything."""
    DISK.clear()
    return "all is gone"


async def ask_a_person(call: tc.ToolCall) -> bool | tc.ToolCall:
    """Approve new files inside drafts/ and deny deletions. Returns True, False, or an edited call."""
    path = call.arguments["path"]
    if call.tool == "delete_file":
        print(f"  (person)  may {call.context.agent} delete {path}? No.")
        return False
    print(f"  (person)  may {call.context.agent} write {path}? In drafts/, yes.")
    return replace(call, arguments={**call.arguments, "path": f"drafts/{path}"})


def only_admins_delete(context: tc.FilterContext, tool: tc.Tool) -> bool:
    return tool.original_name != "delete_file" or context.agent == "admin"


async def attempt(view: tc.HubView, name: str, **arguments: str) -> None:
    try:
        result = await view.call_tool(name, arguments)
        print(f"  {name:<26}{result.text}")
    except tc.AccessDenied as error:
        print(f"  {name:<26}denied: {error.rule}")


async def main() -> None:
    hub = tc.Hub(
        {"files": files},
        disallowed_tools=["mcp__files__format_*"],
        require_approval=["mcp__files__write_*", "mcp__files__delete_*"],
        approve=ask_a_person,
        tool_filter=tc.dynamic_filter(only_admins_delete),
    )
    async with hub:
        for agent in ("guest", "admin"):
            view = hub.view(agent=agent)
            print(f"{agent} sees {', '.join(tool.original_name or '' for tool in await view.list_tools())}")
            await attempt(view, "mcp__files__read_file", path="notes.txt")
            await attempt(view, "mcp__files__write_file", path="plan.txt", text="rest")
            await attempt(view, "mcp__files__delete_file", path="old.txt")
            await attempt(view, "mcp__files__format_disk")
        print("Why?")
        for name in ("read_file", "write_file", "delete_file", "format_disk", "red_file"):
            print(f"  {name:<26}{hub.view(agent='guest').explain(f'mcp__files__{name}')}")
        print("On the disk", DISK)


if __name__ == "__main__":
    asyncio.run(main())
