"""Sixty tools, of which a model sees four; it finds the others by searching."""

from __future__ import annotations

import asyncio
from functools import partial

import toolcrib as tc

THINGS = ("issue", "label", "branch", "release", "comment", "milestone", "webhook", "team", "review", "pipeline")
VERBS = {
    "create": "Create a new {} in a repository",
    "close": "Close or archive a {}",
    "list": "List every {} that matches a filter",
    "rename": "Give a {} another name",
    "watch": "Subscribe to changes of a {}",
    "export": "Write a {} to a CSV file",
}


def forge() -> tc.ToolServer:
    """Return a server with sixty tools."""
    server = tc.ToolServer("forge")
    for verb, text in VERBS.items():
        for thing in THINGS:
            server.add_tool(partial(act, verb, thing), name=f"{verb}_{thing}", description=text.format(thing))
    return server


def act(verb: str, thing: str, /, repository: str, name: str) -> str:
    return f"{verb} {thing} {name} in {repository}"


def cost(tools: list[tc.Tool]) -> str:
    return f"{len(tools)} tools, about {sum(map(tc.estimate_tokens, tools))} tokens"


async def main() -> None:
    async with tc.Hub({"forge": forge()}) as hub:
        print("all          ", cost(await hub.list_tools()))
        hub.toolsets.register(tc.Toolset("forge").defer_all().keep_loaded("list_issue", "create_comment"))
        view = hub.view(meta_tools=True)
        tools = await view.list_tools()
        print("deferred     ", cost(tools))
        for tool in tools:
            print("              ", tool.name)

        print("the model searches")
        found = await view.call_tool("search_tools", {"query": "make a new milestone", "limit": 3})
        for tool in found.data["tools"]:
            print("              ", tool["name"])
        print("now listed   ", cost(await view.list_tools()))
        print("and calls    ", end=" ")
        made = await view.call_tool("mcp__forge__create_milestone", {"repository": "toolcrib", "name": "1.0"})
        print(made.text)
        print("another view ", cost(await hub.view(meta_tools=True).list_tools()))
        print("within budget", cost(await hub.search_tools("export to csv", limit=50, token_budget=300)))


if __name__ == "__main__":
    asyncio.run(main())
