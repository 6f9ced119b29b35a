"""Executions: their metadata, their deadlines, and what happens to them when a source changes or ends under load."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import toolcrib as tc
from tests.provider.kit import SmallSource, value_of
from tests.unit.kit import eventually
from toolcrib.errors import (
    AccessDenied,
    CallTimeout,
    ConnectionLost,
    InvalidArguments,
    OutcomeUnknown,
    RemoteError,
    ServerNotFound,
    StartError,
    ToolNotFound,
    UnansweredTimeout,
)
from toolcrib.provider.outcomes import ExecutionResult
from toolcrib.provider.provider import Provider

STRICT = {
    "name": "strict",
    "inputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
}


def facts_of(result: ExecutionResult) -> dict[str, Any]:
    assert result.metadata is not None and result.success is not result.is_error
    return result.metadata


async def outcomes_in_store(file: Path) -> Counter[str]:
    async with Provider(file) as provider:
        return Counter(row.outcome for row in await provider.executions(limit=10_000))


async def test_the_metadata_describes_the_call(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        source = await provider.add_source("small", small.server())
        await provider.disable("small")
        await provider.enable("small")
        first = await provider.execute("small", "sleep", {"seconds": 0.05}, principal="alice")
        second = await provider.execute(source.id, "echo", {"text": "x"}, principal="alice")
        for result in (first, second):
            facts = facts_of(result)
            assert (facts["source"], facts["source_id"], facts["principal"]) == ("small", source.id, "alice")
            assert facts["tool_hash"] == provider.get_tool("small", facts["tool"]).hash
            assert (facts["generation"], facts["sent"], facts["attempts"]) == (1, True, 1)
            assert facts["outcome"] == "ok" and result.exception is None and result.error is None
            assert sum(facts["timing"].values()) == pytest.approx(result.execution_time_ms)
            assert min(facts["timing"].values()) >= 0
        woken, warm = facts_of(first)["timing"], facts_of(second)["timing"]
        assert woken["start_ms"] > 0 and woken["call_ms"] >= 50
        assert warm["start_ms"] < woken["start_ms"]


async def test_a_crash_is_one_outcome_and_the_next_call_starts_the_source_again(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server())
        lost = await provider.execute("small", "crash")
        assert isinstance(lost.exception, OutcomeUnknown) and facts_of(lost)["outcome"] == "outcome_unknown"
        assert facts_of(lost)["sent"] is True and facts_of(lost)["attempts"] == 1
        (ended,) = [entry for entry in provider.history("small") if entry.kind == "exit"]
        assert "the small server crashes" in ended.data["stderr"] and "3" in ended.data["reason"]
        assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"
        assert provider.status("small").state == "connected"


@pytest.mark.parametrize(
    "source, tool, arguments, error",
    [
        ("small", "strict", {"count": "many"}, InvalidArguments),
        ("small", "strict", {}, InvalidArguments),
        ("small", "strikt", {"count": 1}, ToolNotFound),
        ("smal", "strict", {"count": 1}, ServerNotFound),
    ],
    ids=["wrong-type", "missing", "unknown-tool", "unknown-source"],
)
async def test_a_wrong_call_starts_nothing(
    tmp_path: Path, source: str, tool: str, arguments: dict[str, Any], error: type[Exception]
) -> None:
    small = SmallSource(tmp_path, tools=[STRICT])
    file = tmp_path / "tools.db"
    async with Provider(file) as provider:
        await provider.add_source("small", small.server())
    async with Provider(file) as provider:
        result = await provider.execute(source, tool, arguments)
        assert isinstance(result.exception, error) and facts_of(result)["sent"] is False
        assert facts_of(result)["attempts"] == 0 and result.get_text() == result.error == str(result.exception)
        assert not provider.connections() and not small.processes()
        assert not [entry for entry in provider.history("small")[1:] if entry.kind == "start"][1:]


async def test_the_deadline_covers_waking_and_says_whether_the_call_was_sent(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), idle_seconds=0.05)
        await eventually(lambda: not provider.connections())
        small.change(start="hang")
        asleep = await provider.execute("small", "echo", {"text": "x"}, timeout=0.3)
        assert isinstance(asleep.exception, CallTimeout) and not isinstance(asleep.exception, UnansweredTimeout)
        assert (facts_of(asleep)["sent"], facts_of(asleep)["outcome"]) == (False, "timeout")
        small.change(start=None)
        await eventually(lambda: not small.processes())
        assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"
        sent = await provider.execute("small", "sleep", {"seconds": 30}, timeout=0.3)
        assert isinstance(sent.exception, UnansweredTimeout)
        assert (facts_of(sent)["sent"], facts_of(sent)["outcome"]) == (True, "unanswered_timeout")


async def test_the_deadline_covers_the_lists_of_a_principal(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, start="hang")
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=["TOKEN"], execution_timeout=0.3)
        await provider.credentials.set("small", "TOKEN", "x", principal="alice")
        for options in ({"timeout": 0.2}, {}):
            result = await provider.execute("small", "echo", {"text": "x"}, principal="alice", **options)
            assert isinstance(result.exception, CallTimeout) and facts_of(result)["sent"] is False
        with pytest.raises(CallTimeout):
            await provider.view("alice").call_tool("mcp__small__echo", {"text": "x"}, timeout=0.2)
    assert not small.processes()


async def test_a_source_that_cannot_start_gives_a_typed_error_with_its_last_words(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), idle_seconds=0.05)
        await eventually(lambda: not provider.connections())
        small.change(start="crash")
        result = await provider.execute("small", "echo", {"text": "x"})
        assert isinstance(result.exception, StartError) and "cannot start" in str(result.exception)
        assert facts_of(result)["sent"] is False
        status = provider.status("small")
        assert status.state == "failed" and "cannot start" in status.reason
        assert [tool.name for tool in provider.list_tools("small")]


async def test_a_cancelled_caller_frees_its_connection_and_is_in_the_audit(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    file = tmp_path / "tools.db"
    async with Provider(file) as provider:
        await provider.add_source("small", small.server())
        calls = [asyncio.create_task(provider.execute("small", "sleep", {"seconds": 30})) for _ in range(3)]
        await eventually(lambda: sum(each.leases for each in provider.connections()) == 3)
        calls[0].cancel()
        assert isinstance((await asyncio.gather(calls[0], return_exceptions=True))[0], asyncio.CancelledError)
        assert sum(each.leases for each in provider.connections()) == 2
        for call in calls[1:]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert sum(each.leases for each in provider.connections()) == 0
        assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"
    assert await outcomes_in_store(file) == {"cancelled": 3, "ok": 1}


async def test_progress_reaches_the_caller(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    seen: list[Any] = []

    async def note(*step: Any) -> None:
        seen.append(step)

    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server())
        assert value_of(await provider.execute("small", "progress", on_progress=note)) == "done"
        await eventually(lambda: len(seen) == 2)
        assert seen == [(1, 2, "step 1"), (2, 2, "step 2")]


async def test_values_of_one_call_are_seen_by_that_call_alone(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(env={"MODE": "usual"}))
        ask = {"names": ["MODE", "EXTRA"]}
        special, usual = await asyncio.gather(
            provider.execute("small", "see", ask, environment={"MODE": "special", "EXTRA": "1"}),
            provider.execute("small", "see", ask),
        )
        assert value_of(special)["env"] == {"MODE": "special", "EXTRA": "1"}
        assert value_of(usual)["env"] == {"MODE": "usual"}
        assert value_of(special)["pid"] != value_of(usual)["pid"]
        again = value_of(await provider.execute("small", "see", ask))
        assert again["pid"] == value_of(usual)["pid"] and again["env"] == {"MODE": "usual"}
        await eventually(lambda: len(small.processes()) == 1)


async def test_each_session_has_its_own_process_if_the_source_asks_for_it(tmp_path: Path) -> None:
    small, shared = SmallSource(tmp_path), SmallSource(tmp_path, "shared")
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), per_session=True)
        await provider.add_source("shared", shared.server())

        async def pid(source: str, session: str | None, principal: str = "alice") -> Any:
            return value_of(await provider.execute(source, "see", principal=principal, session=session))["pid"]

        pids = [await pid("small", session) for session in ("s1", "s2", None)]
        assert len(set(pids)) == 3 and await pid("small", "s1") == pids[0]
        assert await pid("small", "s1", "bob") not in pids
        assert await pid("shared", "s1") == await pid("shared", "s2")


# ---- changes under load --------------------------------------------------------------------------------------------


class Load:
    """Calls of several callers, one after the other, until the context ends; `results` has all outcomes."""

    def __init__(self, provider: Provider, callers: int = 4, seconds: float = 0.02) -> None:
        self.results: list[ExecutionResult] = []
        self._provider = provider
        self._seconds = seconds
        self._callers = callers
        self._going_on = True
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Load:
        self._tasks = [asyncio.create_task(self._call(f"user-{number}")) for number in range(self._callers)]
        await eventually(lambda: len(self.results) >= self._callers)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._going_on = False
        await asyncio.gather(*self._tasks)

    async def _call(self, principal: str) -> None:
        ask = {"seconds": self._seconds, "names": ["LEVEL"]}
        while self._going_on:
            self.results.append(await self._provider.execute("small", "see", ask, principal=principal))
            await asyncio.sleep(0)

    async def more(self, count: int = 8) -> None:
        """Wait until so many further calls have ended."""
        wanted = len(self.results) + count
        await eventually(lambda: len(self.results) >= wanted)


async def test_calls_end_on_the_config_with_which_they_began(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    file = tmp_path / "tools.db"
    async with Provider(file) as provider:
        await provider.add_source("small", small.server(env={"LEVEL": "1"}))
        async with Load(provider) as load:
            end = tmp_path / "end"
            given = {"until": str(end), "names": ["LEVEL"]}
            long = asyncio.create_task(provider.execute("small", "see", given, timeout=60))
            await eventually(lambda: any(each.principal == "local" and each.leases for each in provider.connections()))
            for level in (2, 3):
                updated = await provider.update_source("small", small.server(env={"LEVEL": str(level)}))
                assert updated.generation == level and not long.done()
                await load.more()
            end.touch()
        assert value_of(await long)["env"] == {"LEVEL": "1"} and facts_of(await long)["generation"] == 1
        assert all(value_of(each)["env"]["LEVEL"] == str(facts_of(each)["generation"]) for each in load.results)
        assert {facts_of(each)["generation"] for each in load.results} == {1, 2, 3}
        await eventually(lambda: {each.key.generation for each in provider.connections()} == {3})
    async with Provider(file) as provider:
        assert provider.get_source("small").generation == 3
        assert value_of(await provider.execute("small", "see", {"names": ["LEVEL"]}))["env"] == {"LEVEL": "3"}


async def test_a_failed_update_leaves_everything_and_the_next_one_is_in_force(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(env={"LEVEL": "1"}))
        ask = {"names": ["LEVEL"]}
        pid = value_of(await provider.execute("small", "see", ask))["pid"]
        small.change(refuse=["tools/list"])
        with pytest.raises(RemoteError):
            await provider.update_source("small", small.server(env={"LEVEL": "2"}), require_ready=True)
        small.change(refuse=[])
        same = value_of(await provider.execute("small", "see", ask))
        assert (same["pid"], same["env"]) == (pid, {"LEVEL": "1"})
        await eventually(lambda: small.processes() == [pid])
        await provider.update_source("small", small.server(env={"LEVEL": "3"}))
        assert value_of(await provider.execute("small", "see", ask))["env"] == {"LEVEL": "3"}


@pytest.mark.parametrize("path", ["", "/"], ids=["no-path", "slash"])
async def test_a_remote_source_that_was_down_at_its_registration_can_be_called_later(tmp_path: Path, path: str) -> None:
    small = SmallSource(tmp_path)
    with small.remote() as (url, _):
        port = urlsplit(url).port
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", tc.HttpServer(f"http://127.0.0.1:{port}{path}"))
        assert provider.status("small").state == "failed" and provider.list_tools() == []
        with small.remote(port=port or 0):
            await provider.update_source("small", tc.HttpServer(f"http://127.0.0.1:{port}{path}"))
            assert (provider.get_source("small").config.server_url or "").endswith("/mcp")
            assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"


async def test_a_source_that_failed_at_its_registration_is_listed_by_a_refresh(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    with small.remote() as (url, _):
        pass
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", tc.HttpServer(url.removesuffix("/mcp")))
        with small.remote(port=urlsplit(url).port or 0):
            await provider.refresh("small")
            assert (provider.get_source("small").config.server_url or "").endswith("/mcp")
            assert value_of(await provider.execute("small", "echo", {"text": "x"})) == "x"


async def test_disabling_under_load_refuses_calls_and_ends_the_processes(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server())
        async with Load(provider) as load:
            await provider.disable("small")
            assert not small.processes()
            begun = len(load.results)
            await load.more(12)
            assert not small.processes() and not provider.connections()
            last = load.results[-4:]
            assert all(isinstance(each.exception, AccessDenied) for each in last)
            allowed = (AccessDenied, ConnectionLost, OutcomeUnknown, type(None))
            assert {type(each.exception) for each in load.results} <= set(allowed)
            assert provider.status("small").state == "disabled"
            assert await provider.view("alice").list_tools() == []
            await provider.enable("small")
            await eventually(lambda: any(each.success for each in load.results[begun:]))


async def test_removing_under_load_ends_the_processes_and_the_name_can_be_used_again(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        first = await provider.add_source("small", small.server())
        async with Load(provider) as load:
            await provider.remove_source("small")
            assert not small.processes()
            await load.more(12)
            assert not provider.connections() and isinstance(load.results[-1].exception, ServerNotFound)
            allowed = (ServerNotFound, ConnectionLost, OutcomeUnknown, type(None))
            assert {type(each.exception) for each in load.results} <= set(allowed)
            second = await provider.add_source("small", small.server())
            assert second.id != first.id
            await eventually(lambda: load.results[-1].success)


async def test_closing_with_calls_in_flight_leaves_no_process_and_loses_no_row(tmp_path: Path) -> None:
    small, hanging = SmallSource(tmp_path), SmallSource(tmp_path, "hanging")
    file = tmp_path / "tools.db"
    async with Provider(file) as provider:
        await provider.add_source("small", small.server())
        await provider.add_source("hanging", hanging.server(), mcp_lifecycle_mode="transient")
        await provider.add_source("own", small.server(), personal=["TOKEN"])
        await provider.credentials.set("own", "TOKEN", "x", principal="user-0")
        hanging.change(start="hang")
        calls = [
            asyncio.create_task(provider.execute("small", "sleep", {"seconds": 30}, principal=f"user-{number}"))
            for number in range(4)
        ]
        await eventually(lambda: sum(each.leases for each in provider.connections("small")) == 4)
        await eventually(lambda: all(each.connected for each in provider.connections("small")))
        calls += [asyncio.create_task(provider.execute("hanging", "echo", {"text": "x"})) for _ in range(2)]
        await eventually(lambda: len(hanging.processes()) == 2)
    results = await asyncio.gather(*calls)
    assert not small.processes() and not hanging.processes()
    assert all(isinstance(each.exception, OutcomeUnknown | ConnectionLost) for each in results)
    assert [facts_of(each)["sent"] for each in results] == [True] * 4 + [False] * 2
    stored = await outcomes_in_store(file)
    assert stored.total() == len(calls)


async def test_a_closed_provider_ends_lists_that_are_being_fetched(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, start="hang")
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=["TOKEN"])
        await provider.credentials.set("small", "TOKEN", "x", principal="alice")
        call = asyncio.create_task(provider.execute("small", "echo", principal="alice"))
        await eventually(small.processes)
    assert isinstance((await call).exception, ConnectionLost)
    assert not small.processes()


# ---- groups and views ----------------------------------------------------------------------------------------------


async def test_a_group_is_the_same_for_all_principals_and_calls_keep_their_owner(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(env={"LEVEL": "1"}))
        await provider.groups.create(
            "readers",
            include=["small/see", "small/echo"],
            exclude=["*/echo"],
            overrides={"small/see": {"name": "look", "arguments": {"names": ["LEVEL"]}}},
            name_mode="plain",
        )
        pids = set()
        for name in ("alice", "bob"):
            view = provider.view(name, "readers")
            assert [tool.name for tool in await view.list_tools()] == ["look"]
            seen = json.loads((await view.call_tool("look", {})).text)
            assert seen["env"] == {"LEVEL": "1"}
            pids.add(seen["pid"])
            with pytest.raises(ToolNotFound):
                await view.call_tool("mcp__small__echo", {"text": "x"})
        assert len(pids) == 2
        await provider.groups.update("readers", include=["small/echo"], exclude=[])
        assert [tool.name for tool in await provider.view("alice", "readers").list_tools()] == ["echo"]
        await provider.disable_tool("small", "echo")
        assert await provider.view("alice", "readers").list_tools() == []
        refused = await provider.execute("small", "echo", {"text": "x"})
        assert isinstance(refused.exception, AccessDenied)
