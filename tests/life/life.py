"""A random life of clients, hubs and servers: `scripts/life --minutes 10 --seed 1`.

Phases follow each other until the time is over. In each, several tasks or threads connect, call, cancel, disconnect,
close, kill and restart at random, over one transport and one era of the protocol. All the time, and after each phase,
`checks.py` looks whether the promises hold. The first broken one ends the run with exit code 1, the seed and the last
operations. A seed gives the same choices; what they meet depends on the machine's timing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import psutil

import toolcrib as tc
from tests.life.checks import (
    Broken,
    Complaints,
    Journal,
    Ledger,
    Possessions,
    Watchdog,
    idles,
    idles_in_threads,
    no_tasks_left,
    settled,
)
from toolcrib import sync
from toolcrib.errors import ToolcribError, UsageError

SERVER = str(Path(__file__).with_name("life_server.py"))
BARE_SERVER = str(Path(__file__).parents[1] / "faults" / "bad_server.py")
TRANSPORTS = ("stdio", "bare", "http")
"""`bare` is stdio to a server that starts in 20 ms, so that more happens."""
MODES = {"legacy": "legacy", "modern": "2026-07-28", "auto": "auto"}
CONNECT_TIMEOUT = 10.0
CLOSING = 12.0
"""Seconds within which a disconnect, or the end of a client, must be over: a server gets 2 s for each way to end."""
FAST = tc.ReconnectPolicy(base_delay=0.01, max_delay=0.2, max_retries=3, jitter_factor=0.0)


class WebServer:
    """The HTTP server of one phase, as a process that can be killed and started again on its port."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None
        self.lives = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def start(self) -> None:
        self.lives += 1
        self.process = subprocess.Popen(
            [sys.executable, SERVER, str(self._journal), "http", str(self.port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait_until_ready(self) -> None:
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if time.monotonic() > end:
                raise RuntimeError("the HTTP server of the test does not start")
            time.sleep(0.02)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Slot:
    """A client that several tasks use; `ended`: `close` was called."""

    client: tc.Client
    ended: bool = False


@dataclass
class Life:
    """One run."""

    seed: int
    transports: list[str]
    folder: Path
    seconds: float
    journal: Journal = field(default_factory=Journal)
    phase: int = 0
    phase_name: str = ""

    def __post_init__(self) -> None:
        self.watchdog = Watchdog(self.journal, self.give_up)
        self.complaints = Complaints()
        self.web: WebServer | None = None
        self.ledger = Ledger(self.folder / "journal-0")
        self.began = time.monotonic()

    # ---- the run -----------------------------------------------------------------------------------------------

    def run(self) -> int:
        kinds = [self._clients, self._hub, self._threads]
        try:
            for kind in kinds:  # what is made once for a process, and kept, is made here
                for transport in self.transports:
                    self._one_phase(kind, transport, "auto", 0.5, None)
            baseline = Possessions.now()
            while time.monotonic() - self.began < self.seconds:
                rng = random.Random(f"{self.seed}/{self.phase}")
                kind = rng.choices(kinds, (5, 2, 2))[0]
                transport, mode = rng.choice(self.transports), rng.choice([*MODES])
                self._one_phase(kind, transport, mode, rng.uniform(1, 4), baseline)
        except Broken as exc:
            self.give_up(str(exc))
        self._say(f"ended well after {time.monotonic() - self.began:.0f} s, {self.phase} phases, seed {self.seed}")
        sys.stdout.write(f"\n{self.journal.table()}\n")
        return 0

    def _one_phase(
        self,
        kind: Callable[[random.Random, str, str, float], None],
        transport: str,
        mode: str,
        seconds: float,
        baseline: Possessions | None,
    ) -> None:
        self.phase += 1
        self.phase_name = f"{kind.__name__.strip('_')}, {transport}, {mode}"
        rng = random.Random(f"{self.seed}/{self.phase}/{self.phase_name}")
        path = self.folder / f"journal-{self.phase}"
        self.ledger = Ledger(path)
        self.journal.note(f"=== phase {self.phase}: {self.phase_name}")
        if transport == "http":
            self.web = WebServer(path)
            self.web.start()
            self.web.wait_until_ready()
        try:
            kind(rng, transport, mode, seconds)
            if self.web is not None:
                asyncio.run(self._sessions_end(self.web))
        finally:
            if self.web is not None:
                self.web.kill()
                self.web = None
        if baseline is not None:
            settled(baseline)
        self.ledger.check()
        calls = len(self.ledger.outcomes)
        self._say(
            f"phase {self.phase}: {self.phase_name}: {calls} calls, {sum(self.journal.operations.values())} in all"
        )
        path.unlink(missing_ok=True)

    def _say(self, text: str) -> None:
        sys.stdout.write(f"[{time.monotonic() - self.began:7.1f} s] {text}\n")
        sys.stdout.flush()

    def give_up(self, why: str) -> NoReturn:
        """Say what is wrong and how to get there again, and end the process as it is."""
        lines = ["", f"BROKEN: {why}", f"seed {self.seed}, phase {self.phase}: {self.phase_name}", "last operations:"]
        sys.stdout.write("\n".join([*lines, *self.journal.last, "", self.journal.table(), ""]))
        sys.stdout.flush()
        if self.web is not None:
            self.web.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(1)

    # ---- operations --------------------------------------------------------------------------------------------

    async def do(
        self,
        kind: str,
        work: Awaitable[Any],
        limit: float,
        *,
        cancel: Callable[[], Coroutine[Any, Any, None]] | None = None,
        ended: Callable[[], bool] = lambda: False,
        note: str = "",
    ) -> Any:
        """One operation: its result or its error, within its time. `cancel`: cancelled after that."""
        self.journal.note(f"{kind} {note}")
        with self.watchdog.watch(f"{kind} {note}", limit):
            task = asyncio.ensure_future(work)
            if cancel is not None:
                await cancel()
                task.cancel()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
        self.judge(kind, note, outcome, cancelled=cancel is not None, ended=ended())
        return outcome

    def judge(self, kind: str, note: str, outcome: Any, *, cancelled: bool, ended: bool) -> None:
        name = type(outcome).__name__ if isinstance(outcome, BaseException) else "ok"
        if getattr(outcome, "is_error", False):
            name = "is_error"
        self.journal.count(kind, name)
        self.journal.note(f"    {kind} {note} -> {name}")
        if not isinstance(outcome, BaseException) or isinstance(outcome, ToolcribError):
            return
        if isinstance(outcome, asyncio.CancelledError):
            if not cancelled:
                raise Broken(f"{kind} {note} raised CancelledError, but nothing cancelled it")
        elif not (isinstance(outcome, UsageError) and ended):
            raise Broken(f"{kind} {note} raised {outcome!r}") from outcome

    async def call(self, slot: Slot, rng: random.Random, how: str) -> None:
        """Make one call with a unique nonce."""
        timeout = rng.choice([0.0005, 0.01, 0.1]) if how == "deadline" else 5.0
        tool = {"long": "slow", "fail": "fail", "block": "block"}.get(how) or rng.choice(["echo", "echo", "slow"])
        tool = "slow" if tool == "block" and slot.client.name == "bare" else tool
        safe = rng.random() < 0.1
        nonce = self.ledger.open(f"{self.phase}", repeatable=safe)
        arguments: dict[str, Any] = {"nonce": nonce}
        if tool in ("slow", "block"):
            arguments["seconds"] = rng.choice([0.01, 0.1, 0.4])
        progress = (lambda *_: None) if rng.random() < 0.3 else None
        work = slot.client.call_tool(tool, arguments, timeout=timeout, on_progress=progress, retry_safe=safe or None)
        cancel = _moment(rng) if how == "cancelled" else None
        outcome = await self.do(
            f"call {how}", work, timeout, cancel=cancel, ended=lambda: slot.ended, note=f"{tool} {nonce}"
        )
        self.ledger.close(nonce, outcome)

    # ---- phases ------------------------------------------------------------------------------------------------

    def _clients(self, rng: random.Random, transport: str, mode: str, seconds: float) -> None:
        asyncio.run(self._clients_phase(rng, transport, mode, seconds))

    async def _clients_phase(self, rng: random.Random, transport: str, mode: str, seconds: float) -> None:
        self.watchdog.loops.append(asyncio.get_running_loop())

        def new() -> Slot:
            most = rng.choice([None, None, 1, 4])
            return Slot(self._client(tc.Client, transport, mode, max_in_flight=most))

        slots = [new() for _ in range(rng.randint(1, 3))]
        old: list[Slot] = []
        end = time.monotonic() + seconds

        async def worker(number: int) -> None:
            own = random.Random(f"{self.seed}/{self.phase}/{number}")
            while time.monotonic() < end:
                at = own.randrange(len(slots))
                operation = own.choices([*CLIENT_OPERATIONS], [*CLIENT_OPERATIONS.values()])[0]
                if operation.startswith("call "):
                    await self.call(slots[at], own, operation.removeprefix("call "))
                elif operation in ("close", "connect and close"):
                    old.append(slots[at])
                    slots[at] = new()
                    await self._close(old[-1], own, connecting=operation != "close")
                elif operation == "kill":
                    await self._kill(own)
                else:
                    await self._operate(operation, slots[at], own)
                await asyncio.sleep(own.choice([0, 0, 0.001, 0.02]))

        await _all(worker(number) for number in range(rng.randint(1, 6)))
        await idles()
        for slot in slots:
            await self._close(slot, rng, connecting=False)
        for slot in old:  # a second close does no harm
            await self._close(slot, rng, connecting=False)
        await no_tasks_left()
        await idles()
        self.watchdog.loops.pop()

    def _client(self, made: Callable[..., Any], transport: str, mode: str, **options: Any) -> Any:
        return made(
            self._server(transport),
            mode=MODES[mode],
            name=transport,
            reconnect=FAST,
            connect_timeout=CONNECT_TIMEOUT,
            **options,
        )

    def _server(self, transport: str) -> Any:
        if transport == "stdio":
            return tc.StdioServer(sys.executable, [SERVER, str(self.ledger.path), "stdio"])
        if transport == "bare":
            script = json.dumps({"log": str(self.ledger.path)})
            return tc.StdioServer(sys.executable, ["-S", "-E", BARE_SERVER, script])
        assert self.web is not None
        return tc.HttpServer(self.web.url)

    async def _close(self, slot: Slot, rng: random.Random, *, connecting: bool) -> None:
        """Close a client; `connecting`: in the turn of the loop in which it begins to connect."""
        slot.ended = True
        if connecting:
            both = asyncio.gather(slot.client.connect(), slot.client.close(), return_exceptions=True)
            first, second = await self.do("connect and close", both, CONNECT_TIMEOUT + CLOSING)
            for outcome in (first, second):
                self.judge("connect and close, each", "", outcome, cancelled=False, ended=True)
        else:
            await self.do("close", slot.client.close(), CLOSING)

    async def _operate(self, operation: str, slot: Slot, rng: random.Random) -> None:
        client, limit = slot.client, CONNECT_TIMEOUT

        def ended() -> bool:
            return slot.ended

        match operation:
            case "connect":
                await self.do(operation, client.connect(), limit, ended=ended)
            case "connect cancelled":
                await self.do(operation, client.connect(), limit, cancel=_moment(rng), ended=ended)
            case "disconnect":
                await self.do(operation, client.disconnect(), CLOSING, ended=ended)
            case "disconnect cancelled":
                await self.do(operation, client.disconnect(), CLOSING, cancel=_moment(rng), ended=ended)
            case "list":
                await self.do(operation, client.list_tools(use_cache=False, timeout=5), 5, ended=ended)
            case "ping":
                await self.do(operation, client.ping(timeout=5), 5, ended=ended)
            case "connect and disconnect":
                await self._connect_and_disconnect(client, rng, ended)
            case "status":
                self.journal.count(operation, str(client.status.state))
            case _:
                raise AssertionError(operation)

    async def _connect_and_disconnect(self, client: tc.Client, rng: random.Random, ended: Callable[[], bool]) -> None:
        """Both in one turn of the loop, in one order or the other."""
        work = [client.connect(), client.disconnect()]
        if rng.random() < 0.3:
            work.reverse()
        if rng.random() < 0.5:
            work.insert(1, asyncio.sleep(0))
        both = asyncio.gather(*work, return_exceptions=True)
        outcomes = await self.do("connect and disconnect", both, CONNECT_TIMEOUT + CLOSING)
        for outcome in outcomes:
            self.judge("connect and disconnect, each", "", outcome, cancelled=False, ended=ended())

    async def _kill(self, rng: random.Random) -> None:
        """`kill -9` of a server; an HTTP server is started again, at once or a moment later."""
        if self.web is not None:
            self.journal.note("kill and restart the HTTP server")
            self.web.kill()
            await asyncio.sleep(rng.choice([0, 0.05, 0.3]))
            if self.web.process is None:
                self.web.start()
            self.journal.count("restart of the HTTP server", "ok")
            await asyncio.sleep(rng.choice([0, 0.5, 1]))
            return
        servers = [each for each in psutil.Process().children() if _is_server(each)]
        if servers:
            victim = rng.choice(servers)
            self.journal.note(f"kill {victim.pid}")
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
            self.journal.count("kill of a stdio server", "ok")

    def _hub(self, rng: random.Random, transport: str, mode: str, seconds: float) -> None:
        asyncio.run(self._hub_phase(rng, transport, mode, seconds))

    async def _hub_phase(self, rng: random.Random, transport: str, mode: str, seconds: float) -> None:
        self.watchdog.loops.append(asyncio.get_running_loop())
        names = [f"s{number}" for number in range(rng.randint(1, 3))]
        hub = tc.Hub(
            {name: self._server(transport) for name in names},
            mode=MODES[mode],
            reconnect=FAST,
            connect_timeout=CONNECT_TIMEOUT,
            start=rng.choice(["eager", "lazy"]),
        )
        slot = Slot(hub)  # type: ignore[arg-type]  # its calls are the client's
        end = time.monotonic() + seconds
        await self.do("hub start", hub.start(), 2 * CONNECT_TIMEOUT)

        async def worker(number: int) -> None:
            own = random.Random(f"{self.seed}/{self.phase}/{number}")
            while time.monotonic() < end:
                name = own.choice(names)
                operation = own.choices([*HUB_OPERATIONS], [*HUB_OPERATIONS.values()])[0]
                if operation.startswith("call "):
                    await self._hub_call(slot, own, name, operation.removeprefix("call "))
                elif operation == "kill":
                    await self._kill(own)
                elif operation == "list":
                    await self.do("hub list", hub.list_tools(), CONNECT_TIMEOUT)
                elif operation == "refresh":
                    cancel = _moment(own) if own.random() < 0.3 else None
                    await self.do("hub refresh", hub.refresh(name), 2 * CONNECT_TIMEOUT, cancel=cancel)
                elif operation == "replace":
                    await self.do("hub remove", hub.remove_server(name), CLOSING)
                    added = hub.add_server(name, self._server(transport), start=own.choice(["eager", "lazy"]))
                    await self.do("hub add", added, 2 * CONNECT_TIMEOUT + CLOSING)
                await asyncio.sleep(own.choice([0, 0, 0.001, 0.02]))

        await _all(worker(number) for number in range(rng.randint(1, 4)))
        await idles()
        slot.ended = True
        await self.do("hub close", hub.close(), CLOSING)
        await no_tasks_left()
        await idles()
        self.watchdog.loops.pop()

    async def _hub_call(self, slot: Slot, rng: random.Random, server: str, how: str) -> None:
        timeout = rng.choice([0.001, 0.05]) if how == "deadline" else 5.0
        nonce = self.ledger.open(f"{self.phase}")
        work = slot.client.call_tool(f"mcp__{server}__echo", {"nonce": nonce}, timeout=timeout)
        cancel = _moment(rng) if how == "cancelled" else None
        outcome = await self.do(f"hub call {how}", work, timeout, cancel=cancel, note=nonce)
        self.ledger.close(nonce, outcome)

    def _threads(self, rng: random.Random, transport: str, mode: str, seconds: float) -> None:
        """The sync client from several threads, one of which disconnects all the time."""
        client = self._client(sync.Client, transport, mode)
        crew = Crew(self, client, time.monotonic() + seconds)
        with self.watchdog.watch("enter a sync client", CONNECT_TIMEOUT):
            client.__enter__()
        crew.run(rng.randint(2, 5))
        idles_in_threads()
        crew.do("sync close", client.close, CLOSING)
        idles_in_threads()

    # ---- sessions of the HTTP server -------------------------------------------------------------------------

    async def _sessions_end(self, web: WebServer) -> None:
        """Clients that connect and close leave no session; an interrupted handshake may, and is counted."""
        if web.process is None:
            web.start()
        web.wait_until_ready()

        async def count() -> int:
            async with tc.Client(tc.HttpServer(web.url), mode=MODES["modern"]) as client:
                return int((await client.call_tool("sessions", timeout=10)).text)

        with self.watchdog.watch("counting sessions", 60):
            before = await count()
            for _ in range(3):
                async with tc.Client(tc.HttpServer(web.url), mode="legacy") as client:
                    await client.ping(timeout=10)
            end = time.monotonic() + 5
            while (after := await count()) > before:
                if time.monotonic() > end:
                    raise Broken(f"{after - before} of 3 sessions were left at the server")
                await asyncio.sleep(0.05)
        self.journal.outcomes["sessions left by interrupted handshakes", "sessions"] += before
        self.journal.operations["sessions left by interrupted handshakes"] += before
        await no_tasks_left()


class Crew:
    """Threads that use one sync client."""

    def __init__(self, life: Life, client: sync.Client, end: float) -> None:
        self._life, self._client, self._end = life, client, end
        self._broken: list[Broken] = []

    def run(self, callers: int) -> None:
        work = {"disconnecter": self._disconnect, **{f"caller-{n}": self._call_or_list for n in range(callers)}}
        threads = [threading.Thread(target=self._repeat, args=each, name=f"life-{each[0]}") for each in work.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._broken:
            raise self._broken[0]

    def do(self, kind: str, work: Callable[[], Any], limit: float, note: str = "") -> Any:
        """One operation, as `Life.do`."""
        self._life.journal.note(f"{kind} {note}")
        outcome: Any
        with self._life.watchdog.watch(f"{kind} {note}", limit):
            try:
                outcome = work()
            except Exception as exc:  # noqa: BLE001  # judged below
                outcome = exc
        self._life.judge(kind, note, outcome, cancelled=False, ended=False)
        return outcome

    def _repeat(self, name: str, work: Callable[[random.Random], None]) -> None:
        own = random.Random(f"{self._life.seed}/{self._life.phase}/{name}")
        try:
            while time.monotonic() < self._end and not self._broken:
                work(own)
        except Broken as exc:
            self._broken.append(exc)

    def _call_or_list(self, own: random.Random) -> None:
        if own.random() < 0.1:
            self.do("sync list", partial(self._client.list_tools, use_cache=False, timeout=5), 5)
            return
        ledger = self._life.ledger
        nonce, timeout = ledger.open(f"{self._life.phase}"), own.choice([0.001, 0.05, 5.0, 5.0])
        work = partial(self._client.call_tool, "echo", {"nonce": nonce}, timeout=timeout)
        ledger.close(nonce, self.do("sync call", work, timeout, nonce))

    def _disconnect(self, own: random.Random) -> None:
        self.do("sync disconnect", self._client.disconnect, CLOSING)
        time.sleep(own.choice([0, 0, 0.001, 0.05]))


CLIENT_OPERATIONS = {
    "call short": 25,
    "call long": 8,
    "call fail": 5,
    "call block": 2,
    "call cancelled": 15,
    "call deadline": 10,
    "connect": 6,
    "connect cancelled": 5,
    "connect and disconnect": 6,
    "connect and close": 2,
    "disconnect": 5,
    "disconnect cancelled": 3,
    "close": 2,
    "kill": 3,
    "list": 4,
    "ping": 4,
    "status": 2,
}
HUB_OPERATIONS = {
    "call short": 30,
    "call cancelled": 12,
    "call deadline": 10,
    "list": 5,
    "refresh": 4,
    "replace": 2,
    "kill": 3,
}


def _moment(rng: random.Random) -> Callable[[], Coroutine[Any, Any, None]]:
    """When to cancel: after some turns of the loop, or some time."""
    turns = rng.choice([0, 0, 1, 2, 3, 5, None])
    seconds = rng.choice([0.0005, 0.005, 0.05, 0.3])

    async def wait() -> None:
        if turns is None:
            await asyncio.sleep(seconds)
        else:
            for _ in range(turns):
                await asyncio.sleep(0)

    return wait


async def _all(work: Any) -> None:
    """Run side by side; the first that is broken ends them all."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _is_server(process: psutil.Process) -> bool:
    try:
        return bool({SERVER, BARE_SERVER} & {*process.cmdline()})
    except psutil.Error:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/life", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default: 1)")
    parser.add_argument("--seed", type=int, default=None, help="which random choices (default: by the clock)")
    every = ",".join(TRANSPORTS)
    parser.add_argument("--transports", default=every, help=f"some of {every} (default: all)")
    given = parser.parse_args()
    transports = given.transports.split(",")
    if not transports or {*transports} - {*TRANSPORTS}:
        parser.error(f"--transports: expected some of {every}, got {given.transports!r}")
    seed = given.seed if given.seed is not None else int(time.time())
    with tempfile.TemporaryDirectory(prefix="toolcrib-life-") as folder:
        life = Life(seed, transports, Path(folder), given.minutes * 60)
        sys.stdout.write(f"life: seed {seed}, {given.minutes:g} minutes, {', '.join(transports)}\n")
        return life.run()


if __name__ == "__main__":
    sys.exit(main())
