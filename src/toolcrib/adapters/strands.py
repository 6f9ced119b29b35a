"""Tools for Strands Agents.

    with toolcrib.sync.Hub.from_config(".mcp.json") as hub:
        agent = Agent(tools=strands.tools(hub))
        agent("What is in my notes?")

`agent("...")` runs on another event loop, in another thread: use `toolcrib.sync.Hub` with it, and the async `Hub`
with `agent.invoke_async` and `agent.stream_async`. `Agent(hooks=[strands.live_tools(hub)])` follows the tools of the
hub instead of taking a snapshot. Progress arrives as a `tool_stream_event`. A tool that needs approval
(`Hub(..., approve="caller")`) interrupts the agent; it runs if the response to the interrupt is True or "yes".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final, Unpack

try:
    from strands.hooks import AgentInitializedEvent, BeforeModelCallEvent, HookProvider, HookRegistry
    from strands.types.events import ToolResultEvent
    from strands.types.tools import AgentTool, ToolContext
except ImportError as exc:
    raise ImportError(
        "toolcrib.adapters.strands needs strands-agents 1.62 or later: pip install -U strands-agents"
    ) from exc

from .. import tool_names
from ..errors import UsageError
from ..types import Wire
from .answers import ToolAnswer
from .run_tools import RunTools
from .tool_source import AnySource
from .toolbox import Toolbox, ToolboxOptions, ToolSpec, as_toolbox

CANCEL_POLL_SECONDS: Final = 0.05
"""How often the cancel signal of the agent is read, which is an event of another thread."""

_YES: Final = frozenset({"a", "approve", "approved", "true", "y", "yes"})


def tools(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> list[AgentTool]:
    """Return a snapshot of the tools, for `Agent(tools=...)`."""
    box = as_toolbox(source, **options)
    return list(_tools_of(box, box.tools()).values())


def live_tools(source: AnySource | Toolbox, **options: Unpack[ToolboxOptions]) -> HookProvider:
    """Return a hook provider for `Agent(hooks=[...])`, which updates the agent's tools before every model call."""
    return _ToolUpdates(as_toolbox(source, **options))


class StrandsTool(AgentTool):
    """A tool of a source. Made by `tools`."""

    def __init__(self, box: Toolbox, spec: ToolSpec, name: str) -> None:
        super().__init__()
        self._name = name
        self.box = box
        self.spec = spec

    @property
    def tool_name(self) -> str:
        """The name for the model."""
        return self._name

    @property
    def tool_type(self) -> str:
        """Where the tool comes from."""
        return "toolcrib"

    @property
    def tool_spec(self) -> dict[str, Any]:
        """The definition for the model."""
        definition: dict[str, Any] = {
            "name": self._name,
            "description": self.spec.description,
            "inputSchema": {"json": self.spec.input_schema},
        }
        if self.spec.tool.output_schema:
            definition["outputSchema"] = {"json": dict(self.spec.tool.output_schema)}
        if self.spec.tool.annotations:
            definition["annotations"] = dict(self.spec.tool.annotations)
        return definition

    async def stream(
        self,
        tool_use: dict[str, Any],
        invocation_state: dict[str, Any],
        **kwargs: Any,  # noqa: ARG002  # for future versions of Strands
    ) -> AsyncIterator[Any]:
        """Call the tool; yield its progress, and at the end its result."""
        agent = invocation_state.get("agent")
        approved = False
        if self.spec.needs_approval and agent is not None:
            approved = _ask(tool_use, agent, invocation_state)
            if not approved:
                yield ToolResultEvent(_failure(tool_use, "the call was not approved. The tool did not run."))
                return
        signal = getattr(agent, "cancel_signal", None)
        reports: asyncio.Queue[tuple[float, float | None, str | None] | None] = asyncio.Queue()
        call = asyncio.ensure_future(
            self.box.call(
                self.spec.name,
                tool_use["input"],
                on_progress=lambda *report: reports.put_nowait(report),
                approved=approved,
            )
        )
        call.add_done_callback(lambda _: reports.put_nowait(None))
        try:
            while True:
                try:
                    report = await asyncio.wait_for(reports.get(), CANCEL_POLL_SECONDS)
                except TimeoutError:
                    if signal is not None and signal.is_set():
                        call.cancel()
                    continue
                if report is None:
                    break
                yield dict(zip(("progress", "total", "message"), report, strict=True))
        finally:
            call.cancel()  # if the run ends before the call
        if call.cancelled():
            yield ToolResultEvent(_failure(tool_use, "the call was cancelled. The tool may have run."))
        else:
            answer = call.result()
            yield ToolResultEvent(_result_of(answer, tool_use), exception=answer.error)

    def __deepcopy__(self, memo: Any) -> StrandsTool:
        return self


class _ToolUpdates(HookProvider):
    """Keeps the tools of an agent equal to those of a toolbox."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._tools = RunTools(box)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:  # noqa: ARG002  # as above
        registry.add_callback(AgentInitializedEvent, self._add_first_tools)
        registry.add_callback(BeforeModelCallEvent, self._update_tools)

    def _add_first_tools(self, event: AgentInitializedEvent) -> None:
        with suppress(UsageError):  # they are not listed yet: the first model call does
            self._update(event.agent, self._tools.tools())

    async def _update_tools(self, event: BeforeModelCallEvent) -> None:
        self._update(event.agent, await self._tools.list_tools())

    def _update(self, agent: Any, specs: list[ToolSpec]) -> None:
        registry = agent.tool_registry
        new = _tools_of(self._box, specs)
        for name, tool in list(registry.registry.items()):
            if isinstance(tool, StrandsTool) and tool.box is self._box and name not in new:
                del registry.registry[name]
        for name, tool in new.items():
            old = registry.registry.get(name)
            if isinstance(old, StrandsTool) and old.box is self._box:
                registry.replace(tool)
            else:
                registry.register_tool(tool)


def _tools_of(box: Toolbox, specs: list[ToolSpec]) -> dict[str, StrandsTool]:
    """Return the tools by name. Strands rejects names that differ only in `-` and `_`: the second one gets a hash."""
    found: dict[str, StrandsTool] = {}
    taken: set[str] = set()
    for spec in specs:
        name = spec.name
        if name.replace("-", "_") in taken:
            name = tool_names.alias(name, {name})
        taken.add(name.replace("-", "_"))
        found[name] = StrandsTool(box, spec, name)
    return found


def _ask(tool_use: dict[str, Any], agent: Any, invocation_state: dict[str, Any]) -> bool:
    """Interrupt the agent, or return the response if it was resumed with one."""
    context = ToolContext(tool_use=tool_use, agent=agent, invocation_state=invocation_state)
    reason = {"tool": tool_use["name"], "input": tool_use["input"]}
    response = context.interrupt("toolcrib_approval", reason=reason)
    return response is True or str(response).strip().lower() in _YES


def _result_of(answer: ToolAnswer, tool_use: dict[str, Any]) -> Wire:
    if answer.result is None:
        return _failure(tool_use, answer.text)
    result = answer.result.to_tool_result(tool_use["toolUseId"])
    if answer.has_data:
        data = answer.data
        result["structuredContent"] = data if isinstance(data, dict) else {"result": data}
    return result


def _failure(tool_use: dict[str, Any], text: str) -> Wire:
    return {"toolUseId": tool_use["toolUseId"], "status": "error", "content": [{"text": text}]}
