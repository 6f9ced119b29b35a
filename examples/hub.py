"""A hub with a child process and two in-process servers, with rules, an approver, an audit log and a search."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tool_server import server as math

import toolcrib as tc

notes = tc.ToolServer("notes", version="1.0.0")
written = ["milk and bread", "call Ada"]


@notes.tool
def write_note(text: str) -> int:
    """Write a note; returns the number of notes."""
    written.append(text)
    return len(written)


@notes.tool(annotations={"readOnlyHint": True})
def find_notes(words: str) -> list[str]:
    """Find the notes that contain these words."""
    return [note for note in written if words in note]


@notes.tool
def delete_notes() -> None:
    """Delete all notes."""
    written.clear()


@notes.resource("notes://all", mime_type="text/plain")
def all_notes() -> str:
    return "\n".join(written)


def row(what: object, happened: object) -> None:
    print(f"  {what!s:<24}{happened}")


def only_admins_delete(context: tc.FilterContext, tool: tc.Tool) -> bool:
    return "delete" not in tool.name or context.agent == "admin"


def ask_a_person(call: tc.ToolCall) -> bool:
    row("(asked)", f"{call.tool} {dict(call.arguments)}")
    return "password" not in call.arguments["text"]


async def show_calls(hub: tc.Hub) -> None:
    row("mcp__math__add", (await hub.call_tool("mcp__math__add", {"a": 2, "b": 3})).data)
    row("mcp__demo__echo", (await hub.call_tool("mcp__demo__echo", {"text": "hello"})).text)
    row("mcp__notes__write_note", (await hub.call_tool("mcp__notes__write_note", {"text": "water the ivy"})).data)
    try:
        await hub.call_tool("mcp__notes__write_note", {"text": "the password is ivy"})
    except tc.AccessDenied as error:
        row(type(error).__name__, f"{error.message} ({error.rule})")
    row("notes://all", repr(await hub.resources.read_text("notes", "notes://all")))


async def main() -> None:
    hub = tc.Hub(
        {
            "demo": tc.StdioServer(sys.executable, [str(Path(__file__).with_name("demo_server.py"))]),
            "math": math,
            "notes": notes,
        },
        disallowed_tools=["mcp__demo__fail", "mcp__math__c*"],
        require_approval=["mcp__notes__write_*"],
        approve=ask_a_person,
        tool_filter=tc.dynamic_filter(only_admins_delete),
    )

    @hub.intercept("mcp__notes__*")
    async def audit(call: tc.ToolCall, proceed: tc.CallNext) -> tc.ToolResult:
        try:
            result = await proceed(call)
        except tc.AccessDenied:
            row("(audit)", f"{call.tool}: refused")
            raise
        row("(audit)", f"{call.tool}: {'failed' if result.is_error else 'done'}")
        return result

    async with hub:
        print("Servers")
        for server in hub.list_servers():
            row(server.name, f"{server.status}, {len(server.tools)} tools, about {server.tokens} tokens")

        print("Tools visible to everyone")
        for tool in await hub.list_tools():
            row(tool.name, tool.description)

        print("Calls")
        await show_calls(hub)

        print("Why not?")
        admin = hub.view(agent="admin")
        row("delete_notes", hub.explain("mcp__notes__delete_notes"))
        row("  for an admin", admin.explain("mcp__notes__delete_notes"))
        row("fail", hub.explain("mcp__demo__fail"))
        row("write_note", hub.explain("mcp__notes__write_note"))

        print("Deferred tools")
        hub.toolsets.register(tc.Toolset("demo").defer_all())
        hub.toolsets.register(tc.Toolset("notes").defer_all().keep_loaded("find_notes"))
        row("listed", ", ".join(tool.original_name or tool.name for tool in await admin.list_tools()))
        for tool in await admin.search_tools("delete every note", limit=2, load=True):
            row("found", tool.name)
        row("listed", ", ".join(tool.original_name or tool.name for tool in await admin.list_tools()))
    row("status", hub.list_servers()[0].status.state)


if __name__ == "__main__":
    asyncio.run(main())
