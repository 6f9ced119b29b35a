"""Lists of tools for frameworks that list them for every turn, and the tools of single runs of agents."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

from ..errors import ToolcribError
from .toolbox import Toolbox, ToolSpec

log = logging.getLogger("toolcrib.adapters")

MAX_RUNS: Final = 256
"""Runs that are remembered; the one that was not used for the longest time is forgotten."""


class RunTools:
    """The tools of an agent in one run, or in all runs, with the last list of them."""

    def __init__(self, box: Toolbox, owner: Any = None) -> None:
        self.box = box
        self._owner = owner  # kept alive: its identity may be the key of the run
        self._listed: dict[str, ToolSpec] = {}

    async def list_tools(self) -> list[ToolSpec]:
        """Return the tools, or the last list if the source cannot list them: the run goes on without new tools."""
        try:
            return self._keep(await self.box.list_tools())
        except ToolcribError as exc:
            return self._last_list(exc)

    def tools(self) -> list[ToolSpec]:
        """Return the tools as `list_tools` does, without an event loop; see `Toolbox.tools`."""
        try:
            return self._keep(self.box.tools())
        except ToolcribError as exc:
            return self._last_list(exc)

    def _keep(self, specs: list[ToolSpec]) -> list[ToolSpec]:
        self._listed = {spec.name: spec for spec in specs}
        return specs

    def _last_list(self, error: ToolcribError) -> list[ToolSpec]:
        log.warning("cannot list the tools, the last list is used: %s", error)
        return list(self._listed.values())

    def needs_approval(self, name: str) -> bool:
        """Return whether a tool of the last list needs an approval."""
        return name in self._listed and self._listed[name].needs_approval


class RunToolsRegistry:
    """The tools of each run: of a hub, they are those that its filters let this agent see."""

    def __init__(self, box: Toolbox) -> None:
        self.shared = RunTools(box)
        """For callers that do not belong to a run."""
        self._runs: OrderedDict[Hashable, RunTools] = OrderedDict()

    async def get(self, key: Hashable, *, agent: Any, run_context: Any, owner: Any = None) -> RunTools:
        """Return the tools of a run. A key that contains identities needs their objects as `owner`."""
        run = self._runs.get(key)
        if run is None:
            box = await self.shared.box.for_run(agent=agent, run_context=run_context)
            run = self._runs.setdefault(key, RunTools(box, owner))
            if len(self._runs) > MAX_RUNS:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return run
