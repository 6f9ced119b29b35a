"""The sync API: one portal for all threads, and clear errors where it cannot be used."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import toolcrib as tc
from tests.unit.kit import LEGACY, SILENCE, PlayedServer
from tests.unit.transports.children import python, run_program
from toolcrib import sync
from toolcrib.client import client as aio
from toolcrib.errors import CallTimeout, ConnectError, RemoteError, UsageError
from toolcrib.protocol import jsonrpc
from toolcrib.sync import Portal, portal
from toolcrib.types import ElicitResult, Wire

BY_THE_WITH_BLOCK = {"connect", "session"}  # the methods of a session belong to the event loop of its client


def text_of(params: Wire) -> Wire:
    return {"content": [{"type": "text", "text": params["arguments"]["nonce"]}]}


def played(**answers: Any) -> PlayedServer:
    return PlayedServer(**{"initialize": LEGACY, "tools__call": text_of, **answers})


def connected(server: PlayedServer | None = None, **options: Any) -> sync.Client:
    return sync.Client(server or played(), mode="legacy", **options)


def until(condition: Callable[[], Any], within: float = 10.0) -> Any:
    end = time.monotonic() + within
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.001)
    return value


# ---- the same face -------------------------------------------------------------------------------------------


def test_every_public_name_of_the_async_client_is_there() -> None:
    public = {name for name in dir(aio.Client) if not name.startswith("_")} - BY_THE_WITH_BLOCK
    assert sorted(public - set(dir(sync.Client))) == []


@pytest.mark.parametrize("name", ["call_tool", "list_tools", "read_resource", "get_prompt", "complete", "ping"])
def test_a_method_has_the_documentation_of_its_async_twin(name: str) -> None:
    assert getattr(sync.Client, name).__doc__ == getattr(aio.Client, name).__doc__
    assert getattr(sync.Client, name).__name__ == name
    assert not inspect.iscoroutinefunction(getattr(sync.Client, name))


def test_a_call_gives_what_the_async_client_gives() -> None:
    with connected(name="mine") as client:
        assert client.call_tool("echo", {"nonce": "a"}).text == "a"
        assert (client.name, client.connected, str(client.status)) == ("mine", True, "connected")
        assert client.server_info is not None
        assert client.server_info.name == "played"
        assert client.counters.received > 0
        assert "mine" in repr(client)
    assert not client.connected


def test_errors_are_the_same_typed_errors() -> None:
    server = played(tools__call=RemoteError(-32000, "broken", {"a": 1}), prompts__get=SILENCE)
    with connected(server) as client:
        with pytest.raises(RemoteError, match="broken") as caught:
            client.call_tool("echo")
        assert (caught.value.code, caught.value.data, caught.value.tool) == (-32000, {"a": 1}, "echo")
        with pytest.raises(CallTimeout):
            client.get_prompt("p", timeout=0.01)


# ---- where it cannot be used ---------------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after", "after an error inside", "after a failed connect"])
def test_outside_the_with_block_the_error_says_so(when: str) -> None:
    server = played()
    client = connected(server)
    if when == "after":
        with client:
            pass
    elif when == "after an error inside":
        with pytest.raises(ValueError, match="mine"), client:
            raise ValueError("mine")
    elif when == "after a failed connect":
        server.answers["initialize"] = RemoteError(-32603, "no")
        with pytest.raises(ConnectError), client:
            pytest.fail("never entered")
    for use in (lambda: client.call_tool("echo"), client.list_tools, client.ping, client.listen):
        with pytest.raises(UsageError, match="with Client"):
            use()


def test_on_the_portals_own_thread_the_error_says_so_instead_of_waiting_for_ever() -> None:
    seen: list[BaseException] = []

    def listener(event: tc.events.ToolExecutionCompleted) -> None:
        try:
            client.call_tool("echo", {"nonce": "b"})
        except UsageError as exc:
            seen.append(exc)

    with connected() as client:
        client.on(tc.events.ToolExecutionCompleted, listener)
        assert client.call_tool("echo", {"nonce": "a"}).text == "a"
    assert "portal's thread" in str(seen[0])


@pytest.mark.parametrize("travel", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_does_not_travel(travel: Callable[[Any], Any]) -> None:
    with pytest.raises(UsageError, match="pickle its server config"):
        travel(connected())


# ---- threads and loops ---------------------------------------------------------------------------------------


def test_many_threads_share_one_client_and_get_their_own_answers() -> None:
    with connected() as client, ThreadPoolExecutor(32) as pool:

        def work(thread: int) -> list[str]:
            return [client.call_tool("echo", {"nonce": f"{thread}-{n}"}).text for n in range(25)]

        for thread, texts in enumerate(pool.map(work, range(32))):
            assert texts == [f"{thread}-{n}" for n in range(25)]


def test_all_clients_share_one_thread() -> None:
    with connected() as one, connected() as two:
        one.call_tool("echo", {"nonce": "a"})
        two.call_tool("echo", {"nonce": "b"})
        assert [thread.name for thread in threading.enumerate()].count("toolcrib-portal") == 1


async def test_a_loop_that_runs_elsewhere_does_not_matter() -> None:
    """As in a notebook, where a loop always runs in the caller's thread."""
    assert asyncio.get_running_loop().is_running()
    with connected() as client:
        assert client.call_tool("echo", {"nonce": "a"}).text == "a"


def test_a_client_may_be_entered_in_one_thread_and_left_in_another() -> None:
    client = connected()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(client.__enter__).result(10)
    assert client.call_tool("echo", {"nonce": "a"}).text == "a"
    with ThreadPoolExecutor(1) as pool:
        pool.submit(client.__exit__).result(10)
    assert not client.connected


class Interrupt(BaseException):
    """A `BaseException`, like `KeyboardInterrupt`."""


def test_an_interrupted_caller_takes_its_call_with_it() -> None:
    """The signal that ends the waiting in the main thread also cancels the call at the server."""
    server = played(tools__call=SILENCE)

    def interrupt(*args: Any) -> None:
        raise Interrupt

    def when_it_waits() -> None:
        until(lambda: server.named("tools/call"))
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)  # type: ignore[arg-type]

    before = signal.signal(signal.SIGUSR1, interrupt)
    helper = threading.Thread(target=when_it_waits)
    try:
        with connected(server) as client:
            helper.start()
            with pytest.raises(Interrupt):
                client.call_tool("echo", {"nonce": "a"})
            until(lambda: server.named("notifications/cancelled"))
            assert client.connected
            server.answers["tools/call"] = text_of
            assert client.call_tool("echo", {"nonce": "b"}).text == "b"
    finally:
        helper.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_portal_begins_its_thread_once_and_when_it_is_needed() -> None:
    mine = Portal()
    assert mine._thread is None

    async def where() -> threading.Thread:
        return threading.current_thread()

    with ThreadPoolExecutor(8) as pool:
        threads = set(pool.map(lambda _: mine.call(where), range(100)))
    assert threads == {mine._thread}
    assert mine._thread is not None
    assert mine._thread.daemon
    loop = mine._loop
    assert loop is not None
    loop.call_soon_threadsafe(loop.stop)
    mine._thread.join(10)
    loop.close()


# ---- handlers ------------------------------------------------------------------------------------------------


class Asking(PlayedServer):
    """Requests input from the client during a call, and answers with that input."""

    def __init__(self, method: str, params: Wire) -> None:
        super().__init__(initialize=LEGACY, tools__call=self.ask, ping={})
        self.question = {"jsonrpc": "2.0", "id": "q", "method": method, "params": params}

    async def ask(self, params: Wire) -> Wire:
        await self.end.send(self.question)
        while not (answers := [m for m in self.received if m.get("id") == "q"]):
            await asyncio.sleep(0.001)
        return {"content": [{"type": "text", "text": jsonrpc.encode(answers[-1].get("result", answers[-1])).decode()}]}


def asked(handlers: dict[str, Any], method: str, params: Wire | None = None) -> Wire:
    with connected(Asking(method, params or {}), **handlers) as client:
        answer: Wire = jsonrpc.decode(client.call_tool("x", timeout=10).text)
        return answer


def test_a_sync_handler_may_block_and_may_use_the_client_itself() -> None:
    def answer(request: Any) -> str:
        assert threading.current_thread() is not portal._thread
        return f"took {client.ping():.0f} s"

    with connected(Asking("sampling/createMessage", {"messages": []}), sampling_handler=answer) as client:
        assert "took 0 s" in client.call_tool("x", timeout=10).text


ASKS = """
import json, sys
def say(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
info = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "asking", "version": "1"}}
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        say(id=message["id"], result=info)
    elif message.get("method") == "tools/call":
        say(id="q", method=sys.argv[1], params={"message": "?", "messages": []})
"""
HANGS = """
import contextlib, sys, threading
import toolcrib as tc
from toolcrib.sync import Client
option, how, *server = sys.argv[1:]
asked = threading.Event()

def hang(*args):
    asked.set()
    threading.Event().wait()

def call():
    with contextlib.suppress(tc.ToolcribError):
        client.call_tool("x")

client = Client(tc.StdioServer(server[0], server[1:]), mode="legacy", **{option: hang}).__enter__()
threading.Thread(target=call, daemon=True).start()
assert asked.wait(20)
if how == "closed":
    client.close()
"""


@pytest.mark.parametrize("how", ["closed", "left open"])
@pytest.mark.parametrize(
    "option, method",
    [
        ("sampling_handler", "sampling/createMessage"),
        ("elicitation_handler", "elicitation/create"),
        ("roots", "roots/list"),
    ],
)
def test_a_handler_that_hangs_does_not_keep_the_interpreter_from_ending(option: str, method: str, how: str) -> None:
    """The handler may wait for a user who has left."""
    program = run_program(HANGS, option, how, *python(ASKS, method))
    try:
        _, err = program.communicate(timeout=30)
    finally:
        program.kill()
        program.wait()
    assert (program.returncode, err) == (0, "")


async def _later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


class AsyncCallable:
    def __init__(self, value: Any) -> None:
        self.value = value

    async def __call__(self, *args: Any) -> Any:
        return await _later(self.value)


def handlers_giving(value: Any) -> dict[str, Any]:
    async def coroutine_function(*args: Any) -> Any:
        return await _later(value)

    return {
        "sync": lambda *args: value,
        "async": coroutine_function,
        "a lambda around a coroutine": lambda *args: _later(value),
        "an object with an async call": AsyncCallable(value),
    }


@pytest.mark.parametrize("kind", ["sync", "async", "a lambda around a coroutine", "an object with an async call"])
def test_handlers_of_every_kind_are_taken_as_by_the_async_client(kind: str) -> None:
    sampled = asked({"sampling_handler": handlers_giving("Paris")[kind]}, "sampling/createMessage", {"messages": []})
    assert sampled["content"]["text"] == "Paris"
    elicited = asked({"elicitation_handler": handlers_giving(ElicitResult("decline"))[kind]}, "elicitation/create")
    assert elicited == {"action": "decline"}
    rooted = asked({"roots": handlers_giving(["file:///a"])[kind]}, "roots/list")
    assert rooted == {"roots": [{"uri": "file:///a"}]}


def test_the_callers_own_options_are_not_changed() -> None:
    options: dict[str, Any] = {"sampling_handler": lambda request: "x"}
    handler = options["sampling_handler"]
    connected(**options)
    assert options["sampling_handler"] is handler


@pytest.mark.parametrize("made", [lambda: tc.Client("http://127.0.0.1:9/mcp"), tc.Hub], ids=["Client", "Hub"])
def test_with_on_an_async_object_names_both_ways(made: Callable[[], Any]) -> None:
    subject = made()
    name = type(subject).__name__
    with pytest.raises(tc.UsageError, match=rf"`async with {name}\(...\)`, or use `toolcrib.sync.{name}`"), subject:
        pass


@pytest.mark.parametrize("made", [lambda: sync.Client("http://127.0.0.1:9/mcp"), sync.Hub], ids=["Client", "Hub"])
async def test_async_with_on_a_sync_object_names_both_ways(made: Callable[[], Any]) -> None:
    subject = made()
    name = type(subject).__name__
    with pytest.raises(tc.UsageError, match=rf"write `with {name}\(...\)`, or use `toolcrib.{name}`"):
        async with subject:
            pass
