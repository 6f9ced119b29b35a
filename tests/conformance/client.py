"""The client under test: Toolcrib's public face against one mock server of the official conformance suite.

python client.py [--mode MODE] [--provider own|sdk] URL

The suite says in the environment which scenario it plays. It judges only what reaches its mock, so the last line of
stdout is a report, as JSON, of what this side asked for and got. Exit code 1: it ended in an error, which is in there.
The scenarios auth/* take Toolcrib's own OAuth, or with `--provider sdk` that of the `mcp` SDK. By hand:
MCP_CONFORMANCE_SCENARIO=tools_call python client.py http://localhost:3001/mcp
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

import toolcrib as tc

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "initialize")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
WITHIN = 25.0  # the suite ends us after 30 s, and then the failure would not be reported

A_VALUE_OF = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "object": {}, "array": [], "null": None}


def filled_in(schema: Mapping[str, Any], names: Iterable[str] | None = None) -> dict[str, Any]:
    """A form as a patient person fills it in: the default where there is one, else any value of the type."""
    fields = schema.get("properties", {})
    return {
        name: fields[name].get("default", A_VALUE_OF[fields[name]["type"]])
        for name in (fields if names is None else names)
    }


class Visit:
    """One stay at the mock server, and the report about it."""

    def __init__(self, url: str, mode: str, auth: Any) -> None:
        self.asked: list[str] = []
        self.report: dict[str, Any] = {"scenario": SCENARIO, "mode": mode, "calls": [], "asked": self.asked}
        self.client = tc.Client(
            tc.HttpServer(url),
            mode=mode,
            elicitation_handler=self._answer,
            sampling_handler=lambda _: "a model's answer",
            roots=["file:///crib"],
            **({} if auth is None else {"auth": auth}),
        )

    def _answer(self, request: tc.ElicitRequest) -> dict[str, Any]:
        self.asked.append(request.message)
        return filled_in(request.schema)

    async def look_around(self) -> list[tc.Tool]:
        info = self.client.server_info
        assert info is not None
        self.report |= {"server": info.name, "version": info.protocol_version}
        tools = await self.client.list_tools()
        self.report["tools"] = [tool.name for tool in tools]
        return tools

    async def call(self, *calls: tuple[str, Mapping[str, Any]]) -> None:
        """All at once; the report has the answers in the order of the calls."""
        answers = await asyncio.gather(*(self.client.call_tool(name, arguments) for name, arguments in calls))
        for (name, _), answer in zip(calls, answers, strict=True):
            self.report["calls"].append([name, answer.raise_for_error().text])


# ---- what to do in a scenario, once the tools are listed ---------------------------------------------------------

Plan = Callable[[Visit, list[tc.Tool]], Awaitable[None]]


async def look(visit: Visit, tools: list[tc.Tool]) -> None:
    """Nothing more: the scenario is about connecting and listing."""


async def add(visit: Visit, tools: list[tc.Tool]) -> None:
    await visit.call(("add_numbers", {"a": 5, "b": 3}))


async def call_all(visit: Visit, tools: list[tc.Tool]) -> None:
    """Every tool that we were shown, at the same time."""
    await visit.call(*((t.name, filled_in(t.input_schema, t.input_schema.get("required", ()))) for t in tools))


async def call_in_turn(visit: Visit, tools: list[tc.Tool]) -> None:
    """The values of the scenario's context."""
    for call in CONTEXT["toolCalls"]:
        await visit.call((call["name"], call["arguments"]))


async def echo_schema(visit: Visit, tools: list[tc.Tool]) -> None:
    (rich,) = (tool for tool in tools if tool.name == "json_schema_2020_12_tool")
    await visit.call(("json_schema_echo", {"schema": rich.input_schema}))


async def use_a_schema_with_a_reference(visit: Visit, tools: list[tc.Tool]) -> None:
    """The mock serves no call, but our arguments are cleaned by the schema before that."""
    try:
        await visit.client.call_tool("lookup_user", {"id": "ann", "profile": None})
    except tc.RemoteError as exc:
        visit.report["calls"].append(["lookup_user", exc.code])


async def use_everything(visit: Visit, tools: list[tc.Tool]) -> None:
    """Every kind of request that has a name in it."""
    await call_all(visit, tools)
    resources = await visit.client.list_resources()
    prompts = await visit.client.list_prompts()
    for resource in resources:
        await visit.client.read_resource(resource.uri)
    for prompt in prompts:
        await visit.client.get_prompt(prompt.name)
    visit.report |= {"resources": [r.uri for r in resources], "prompts": [p.name for p in prompts]}


async def ask_twice(visit: Visit, tools: list[tc.Tool]) -> None:
    await visit.client.ping()
    await visit.client.list_tools(use_cache=False)


PLANS: dict[str, Plan] = {
    "initialize": look,
    "json-schema-ref-no-deref": use_a_schema_with_a_reference,
    "tools_call": add,
    "request-metadata": ask_twice,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_in_turn,
    "json-schema-2020-12-preservation": echo_schema,
}


async def visit_server(url: str, mode: str, provider: str) -> dict[str, Any]:
    person = auth = None
    if SCENARIO.startswith("auth/"):
        # Only here is the SDK needed.
        signing_in: Any = import_module("sign_in" if provider == "own" else "sdk_sign_in")
        person = signing_in.Person()
        auth = await signing_in.provider(SCENARIO, url, CONTEXT, person)
    visit = Visit(url, mode, auth)
    report = visit.report
    try:
        async with asyncio.timeout(WITHIN), visit.client:
            tools = await visit.look_around()
            await PLANS.get(SCENARIO, call_all)(visit, tools)
    except (tc.ToolcribError, TimeoutError) as exc:
        report["error"] = {
            "type": type(exc).__name__,
            "status": getattr(exc, "status", None),
            "cause": type(exc.__cause__).__name__,
            "message": str(exc),
        }
    finally:
        report |= person.report() if person is not None else {"authorised": 0}
        report["tasks_left"] = [repr(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    return report


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--mode", default="auto", help="the client's option: auto, legacy or a modern version")
    options.add_argument("--provider", default="own", choices=["own", "sdk"], help="whose OAuth to use")
    options.add_argument("url")
    given = options.parse_args()
    report = asyncio.run(visit_server(given.url, given.mode, given.provider))
    print(json.dumps(report))
    return 1 if "error" in report else 0


if __name__ == "__main__":
    sys.exit(main())
