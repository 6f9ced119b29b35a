"""What every framework must do with the tools of a hub: one function per case, which runs an agent and asserts.

A case raises `NotApplicable` if the framework lacks what it needs.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import toolcrib as tc
import toolcrib.sync
from tests.frameworks.driver import Ability, Call, Driver, Script, Seen, Transcript
from tests.frameworks.lab import DEMO, Lab, UnlistedSource, kill
from tests.unit.kit import eventually
from toolcrib.adapters import Toolbox

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class NotApplicable(Exception):
    """The framework has no such thing."""


class Bench:
    """A hub with `lab` and `demo`, and a driver that runs agents with it."""

    def __init__(self, driver: Driver, hub: Any, lab: Lab, stack: AsyncExitStack) -> None:
        self.driver = driver
        self.hub = hub
        self.lab = lab
        self._stack = stack

    async def run(
        self, *turns: list[Call], live: bool = False, before_turn: Callable[[int], Awaitable[None]] | None = None
    ) -> Transcript:
        """Run an agent whose model makes these calls, turn by turn, and then says `done`."""
        script = Script(list(turns), live, before_turn, asyncio.get_running_loop())
        return await self.driver.run(self.hub, script)

    async def answer(self, name: str, /, **arguments: Any) -> Seen:
        """Run an agent whose model makes one call, and return what it saw."""
        transcript = await self.run([Call(name, arguments)])
        return only_answer(transcript)

    async def demo_pid(self) -> int:
        """Return the id of the process of `demo`."""
        read = self.hub.resources.read_text
        text = (
            await asyncio.to_thread(read, "demo", "demo://status")
            if self.driver.source == "sync"
            else await read("demo", "demo://status")
        )
        return int(json.loads(text)["pid"])

    async def tool_names(self) -> list[str]:
        """Return the names of the tools that the hub has."""
        listed = self.hub.list_tools
        tools = await asyncio.to_thread(listed) if self.driver.source == "sync" else await listed()
        return [tool.name for tool in tools]

    async def wait_for_tool(self, name: str, present: bool = True) -> None:
        """Wait until the hub has a tool, or has it no longer."""
        async with asyncio.timeout(10):
            while (name in await self.tool_names()) is not present:
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Close the hub."""
        await self._stack.aclose()


@asynccontextmanager
async def open_bench(driver: Driver, **options: Any) -> AsyncIterator[Bench]:
    """Open a hub with the options."""
    lab = Lab()
    servers = {"lab": lab.server, "demo": DEMO}
    async with AsyncExitStack() as stack:
        if driver.source == "sync":
            hub = toolcrib.sync.Hub(servers, **options)
            await asyncio.to_thread(hub.__enter__)
            stack.push_async_callback(asyncio.to_thread, hub.__exit__, None, None, None)
            yield Bench(driver, hub, lab, stack)
        else:
            yield Bench(driver, await stack.enter_async_context(tc.Hub(servers, **options)), lab, stack)


def require(driver: Driver, ability: Ability) -> None:
    """Raise `NotApplicable` if the framework lacks the ability."""
    if ability not in driver.abilities:
        raise NotApplicable(f"{driver.package} has no {ability}")


def only_answer(transcript: Transcript) -> Seen:
    """Return the answer of a run with one call, which ended as the model wanted."""
    assert not transcript.error, transcript.error
    assert transcript.final == "done", transcript
    assert [len(turn) for turn in transcript.answers] == [1], transcript
    return transcript.answers[0][0]


def check_error(driver: Driver, seen: Seen) -> None:
    """Check that the model, or the framework, knows the answer for an error."""
    if "error-flag" in driver.abilities:
        assert seen.is_error is True, seen


def check_success(seen: Seen) -> None:
    """Check that the answer is not taken for an error."""
    assert not seen.is_error, seen


def has_name(names: list[str], name: str) -> bool:
    """Return whether a tool is offered; some frameworks change its name."""
    return _plain(name) in map(_plain, names)


def _plain(name: str) -> str:
    return re.sub("_+", "_", name.lower().replace("-", "_"))


# ---- lists -------------------------------------------------------------------------------------------------------


async def offers_all_tools_under_valid_names(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        transcript = await bench.run()
        assert not transcript.error and transcript.final == "done", transcript
        (names,) = transcript.offered
        assert all(NAME.fullmatch(name) for name in names), names
        expected = await bench.tool_names()
        assert "mcp__lab__add" in expected and "mcp__demo__echo" in expected
        assert all(has_name(names, name) for name in expected), (names, expected)


async def passes_the_schema_of_a_tool_on(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        schemas = (await bench.run()).schemas
        if not schemas:
            raise NotApplicable("the scripted model does not see schemas")
        (schema,) = [schema for name, schema in schemas.items() if _plain(name) == "mcp_lab_greet"]
        assert schema["type"] == "object", schema
        assert set(schema["properties"]) == {"name", "title"}, schema
        assert "name" in schema["required"], schema
        if "title" in schema["required"]:  # strict: an optional argument may be null instead
            assert "null" in json.dumps(schema["properties"]["title"]), schema


# ---- results -----------------------------------------------------------------------------------------------------


async def shows_text(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        seen = await bench.answer("mcp__demo__echo", text="hello from afar")
        check_success(seen)
        assert "hello from afar" in seen.text, seen


async def shows_structured_data(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        seen = await bench.answer("mcp__lab__weather", city="Bern")
        check_success(seen)
        if "structured" in driver.abilities:
            assert seen.data == {"city": "Bern", "degrees": 7}, seen
        assert "Bern" in seen.text and "7" in seen.text, seen


async def shows_data_that_no_text_shows(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        seen = await bench.answer("mcp__lab__report")
        check_success(seen)
        if "structured" in driver.abilities and seen.data is not None:
            assert seen.data == {"pages": 12345}, seen
        else:
            assert "12345" in seen.text, seen


async def shows_a_number(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        seen = await bench.answer("mcp__lab__add", a=2, b=3)
        check_success(seen)
        assert "5" in seen.text, seen
        assert bench.lab.calls == [("add", {"a": 2, "b": 3})]


async def shows_an_image(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        seen = await bench.answer("mcp__lab__plot")
        check_success(seen)
        if "images" in driver.abilities:
            assert seen.images == ["image/png"], seen
        else:
            assert "image/png" in seen.text, seen


async def drops_no_content(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        seen = await bench.answer("mcp__lab__mixed")
        check_success(seen)
        for part in ("a caption", "audio/wav", "memo://3", "an embedded memo", "application/pdf"):
            assert part in seen.text, (part, seen)
        assert "image/png" in seen.text or seen.images == ["image/png"], seen


async def shows_the_error_of_a_tool(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        seen = await bench.answer("mcp__lab__fail", reason="the disk is full")
        check_error(driver, seen)
        assert "the disk is full" in seen.text, seen
        assert bench.lab.ran("fail") == 1


async def goes_on_after_many_errors(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        failing = [[Call("mcp__lab__fail", {"reason": f"error {number}"})] for number in range(4)]
        transcript = await bench.run(*failing, [Call("mcp__lab__add", {"a": 1, "b": 1})])
        assert not transcript.error and transcript.final == "done", transcript
        assert "2" in transcript.answers[-1][0].text, transcript


async def reports_progress(driver: Driver) -> None:
    require(driver, "progress")
    async with open_bench(driver) as bench:
        transcript = await bench.run([Call("mcp__lab__count", {"steps": 3})])
        assert "counted to 3" in only_answer(transcript).text
        assert len(transcript.progress) == 3, transcript.progress
        assert "step 3" in str(transcript.progress[-1]), transcript.progress


# ---- arguments ---------------------------------------------------------------------------------------------------


async def takes_null_for_an_optional_argument(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        seen = await bench.answer("mcp__lab__greet", name="Ada", title=None)
        check_success(seen)
        assert "Hello Ada" in seen.text, seen
        assert bench.lab.calls == [("greet", {"name": "Ada"})]


async def explains_wrong_types(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        transcript = await bench.run(
            [Call("mcp__lab__add", {"a": "three", "b": 4})], [Call("mcp__lab__add", {"a": 3, "b": 4})]
        )
        assert not transcript.error and transcript.final == "done", transcript
        check_error(driver, transcript.answers[0][0])
        assert transcript.answers[0][0].text, transcript
        assert bench.lab.calls == [("add", {"a": 3, "b": 4})]
        assert "7" in transcript.answers[1][0].text, transcript


async def explains_broken_json(driver: Driver) -> None:
    require(driver, "json-text")
    async with open_bench(driver) as bench:
        transcript = await bench.run(
            [Call("mcp__lab__add", '{"a": 3, "b": ')], [Call("mcp__lab__add", '{"a":3,"b":4}')]
        )
        assert not transcript.error and transcript.final == "done", transcript
        check_error(driver, transcript.answers[0][0])
        assert "JSON" in transcript.answers[0][0].text, transcript
        assert bench.lab.ran("add") == 1
        assert "7" in transcript.answers[1][0].text, transcript


async def explains_an_unknown_tool(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        transcript = await bench.run([Call("mcp__lab__nope")], [Call("mcp__lab__add", {"a": 3, "b": 4})])
        assert not transcript.error and transcript.final == "done", transcript
        assert transcript.answers[0][0].text, transcript
        assert "7" in transcript.answers[1][0].text, transcript


# ---- access ------------------------------------------------------------------------------------------------------


async def does_not_offer_a_hidden_tool(driver: Driver) -> None:
    async with open_bench(driver, disallowed_tools=["mcp__lab__secret"]) as bench:
        transcript = await bench.run([Call("mcp__lab__secret")], [Call("mcp__lab__add", {"a": 3, "b": 4})])
        assert not transcript.error and transcript.final == "done", transcript
        assert not any(has_name(names, "mcp__lab__secret") for names in transcript.offered), transcript
        assert "the secret" not in str(transcript.answers)
        assert bench.lab.ran("secret") == 0
        assert "7" in transcript.answers[1][0].text, transcript


async def explains_a_denied_call(driver: Driver) -> None:
    denied = {"require_approval": ["mcp__lab__secret"], "approve": lambda call: False}
    async with open_bench(driver, **denied) as bench:
        seen = await bench.answer("mcp__lab__secret")
        check_error(driver, seen)
        assert "did not run" in seen.text, seen
        assert bench.lab.ran("secret") == 0


async def asks_for_approval(driver: Driver) -> None:
    require(driver, "approval")
    asked = {"require_approval": ["mcp__lab__add", "mcp__lab__fail"], "approve": "caller"}
    async with open_bench(driver, **asked) as bench:
        transcript = await bench.run(
            [Call("mcp__lab__add", {"a": 3, "b": 4})],
            [Call("mcp__lab__fail", {"reason": "it ran"})],
            [Call("mcp__lab__greet", {"name": "Ada"})],
        )
        assert not transcript.error and transcript.final == "done", transcript
        assert list(map(_plain, transcript.approvals)) == ["mcp_lab_add", "mcp_lab_fail"], transcript
        assert "7" in transcript.answers[0][0].text, transcript
        assert [name for name, _ in bench.lab.calls] == ["add", "greet"]


async def asks_for_every_call(driver: Driver) -> None:
    require(driver, "approval")
    async with open_bench(driver, require_approval=["mcp__lab__add"], approve="caller") as bench:
        call = Call("mcp__lab__add", {"a": 3, "b": 4})
        transcript = await bench.run([call], [call, call])
        assert not transcript.error and transcript.final == "done", transcript
        assert len(transcript.approvals) == 3, transcript
        assert bench.lab.ran("add") == 3
        assert ["7" in seen.text for turn in transcript.answers for seen in turn] == [True] * 3, transcript


async def does_not_run_an_unapproved_call(driver: Driver) -> None:
    if "approval" in driver.abilities:
        raise NotApplicable("the framework asks")
    async with open_bench(driver, require_approval=["mcp__lab__add"], approve="caller") as bench:
        seen = await bench.answer("mcp__lab__add", a=3, b=4)
        check_error(driver, seen)
        assert bench.lab.ran("add") == 0


# ---- the life of servers and runs --------------------------------------------------------------------------------


async def runs_parallel_calls(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        calls = [Call("mcp__lab__add", {"a": 3, "b": 4}), Call("mcp__lab__greet", {"name": "Ada"})]
        transcript = await bench.run(calls)
        assert not transcript.error and transcript.final == "done", transcript
        first, second = transcript.answers[0]
        assert "7" in first.text and "Hello Ada" in second.text, transcript


async def notices_new_and_removed_tools(driver: Driver) -> None:
    require(driver, "live")
    async with open_bench(driver) as bench:

        async def change(turn: int) -> None:
            if turn == 0:
                bench.lab.add_fresh()
                bench.lab.server.remove_tool("weather")
                await bench.wait_for_tool("mcp__lab__fresh")
                await bench.wait_for_tool("mcp__lab__weather", present=False)

        calls = [Call("mcp__lab__add", {"a": 3, "b": 4})], [Call("mcp__lab__fresh")]
        transcript = await bench.run(*calls, live=True, before_turn=change)
        assert not transcript.error and transcript.final == "done", transcript
        assert "fresh air" in transcript.answers[1][0].text, transcript
        assert has_name(transcript.offered[0], "mcp__lab__weather")
        assert not has_name(transcript.offered[0], "mcp__lab__fresh")
        assert has_name(transcript.offered[1], "mcp__lab__fresh")
        assert not has_name(transcript.offered[1], "mcp__lab__weather")


async def keeps_its_tools_if_they_cannot_be_listed(driver: Driver) -> None:
    require(driver, "live")
    source = UnlistedSource()
    box = await Toolbox.load(source)

    async def fail(turn: int) -> None:
        source.is_broken = turn == 0

    turns = [[Call("mcp__lab__add")], [Call("mcp__lab__add")]]
    script = Script(turns, live=True, before_turn=fail, loop=asyncio.get_running_loop())
    transcript = await driver.run(box, script)
    assert not transcript.error and transcript.final == "done", transcript
    assert ["added" in seen.text for turn in transcript.answers for seen in turn] == [True, True], transcript
    assert all(has_name(names, "mcp__lab__add") for names in transcript.offered), transcript


async def survives_the_death_of_a_server(driver: Driver) -> None:
    async with open_bench(driver) as bench:
        first = await bench.demo_pid()

        async def end(turn: int) -> None:
            if turn == 1:
                kill(first)

        calls = [[Call("mcp__demo__echo", {"text": f"message {turn}"})] for turn in range(3)]
        transcript = await bench.run(*calls, before_turn=end)
        assert not transcript.error and transcript.final == "done", transcript
        assert "message 0" in transcript.answers[0][0].text, transcript
        assert "message 2" in transcript.answers[2][0].text, transcript
        killed = transcript.answers[1][0]
        if "message 1" not in killed.text:  # then the model must know whether the tool ran
            check_error(driver, killed)
            assert "did not run" in killed.text or "may have run" in killed.text, killed
        assert await bench.demo_pid() != first


async def cancels_the_call_of_a_cancelled_run(driver: Driver) -> None:
    require(driver, "cancel")
    async with open_bench(driver) as bench:
        run = asyncio.create_task(bench.run([Call("mcp__lab__wait")]))
        await eventually(lambda: bench.lab.is_waiting or run.done())
        assert bench.lab.is_waiting, run
        run.cancel()
        await asyncio.wait([run], timeout=10)
        assert run.done()
        await eventually(lambda: bench.lab.was_cancelled)


async def refuses_calls_after_the_block(driver: Driver) -> None:
    async with open_bench(driver) as bench:

        async def close(turn: int) -> None:
            if turn == 0:
                await bench.close()

        transcript = await bench.run([Call("mcp__lab__add", {"a": 3, "b": 4})], before_turn=close)
        answers = " ".join(seen.text for turn in transcript.answers for seen in turn)
        # Some frameworks show every exception of a tool to the model.
        assert transcript.error.startswith("UsageError") or "closed" in answers or "block" in answers, transcript
        assert bench.lab.ran("add") == 0


CASES: Final[dict[str, Callable[[Driver], Awaitable[None]]]] = {
    case.__name__: case
    for case in (
        offers_all_tools_under_valid_names,
        passes_the_schema_of_a_tool_on,
        shows_text,
        shows_structured_data,
        shows_data_that_no_text_shows,
        shows_a_number,
        shows_an_image,
        drops_no_content,
        shows_the_error_of_a_tool,
        goes_on_after_many_errors,
        reports_progress,
        takes_null_for_an_optional_argument,
        explains_wrong_types,
        explains_broken_json,
        explains_an_unknown_tool,
        does_not_offer_a_hidden_tool,
        explains_a_denied_call,
        asks_for_approval,
        asks_for_every_call,
        does_not_run_an_unapproved_call,
        runs_parallel_calls,
        notices_new_and_removed_tools,
        keeps_its_tools_if_they_cannot_be_listed,
        survives_the_death_of_a_server,
        cancels_the_call_of_a_cancelled_run,
        refuses_calls_after_the_block,
    )
}
