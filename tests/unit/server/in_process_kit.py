"""Shared parts of the tests of in-process calls: a server with one tool of each kind that records its calls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import toolcrib as tc

ERAS = ["legacy", "2026-07-28"]
both = pytest.mark.parametrize("mode", ERAS)


class SampleServer:
    """A server with one tool of each kind, which records the calls."""

    def __init__(self) -> None:
        self.server = server = tc.ToolServer("crib", "1.0.0", instructions="Be kind")
        self.seen: list[Any] = []
        self.entered = 0
        self.gate = asyncio.Event()
        self.thread_gate = threading.Event()
        for function in (self.add, self.keep, self.wait, self.stubborn, self.block, self.talk, self.question):
            server.add_tool(function)

    async def add(self, a: int, b: int) -> int:
        return a + b

    async def keep(self, value: Any) -> None:
        self.seen.append(value)

    async def wait(self, *, ctx: tc.Context) -> str:
        self.entered += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.seen.append("cancelled" if ctx.cancelled else "odd")
            raise
        return "waited"

    async def stubborn(self) -> str:
        self.entered += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.seen.append("swallowed")
        return "too late"

    def block(self, *, ctx: tc.SyncContext) -> str:
        self.entered += 1
        assert self.thread_gate.wait(30)
        self.seen.append(ctx.cancelled)
        return "unblocked"

    async def talk(self, times: int, *, ctx: tc.Context) -> str:
        for number in range(times):
            await ctx.progress(number, times, f"step {number}")
            await ctx.info(f"line {number}")
            await ctx.debug("small talk")
        return "said"

    async def question(self, kind: str, *, ctx: tc.Context) -> Any:
        if kind == "elicit":
            return (await ctx.elicit("Go on?", {"type": "object", "properties": {"ok": {"type": "boolean"}}})).data
        if kind == "sample":
            return (await ctx.sample("Capital of France?")).text
        return [root.uri for root in await ctx.roots()]
