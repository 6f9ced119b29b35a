"""Credentials of principals: what the server sees is the caller's own value, on every kind of source."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.provider.kit import SmallSource, value_of
from tests.unit.kit import eventually
from toolcrib.errors import AccessDenied, ConfigError, MissingCredential, ToolNotFound
from toolcrib.provider.provider import Provider

SLOT = "X-Token"
VARIABLE = "TOKEN"
CALLS_OF_EACH = 4


@dataclass(frozen=True)
class Kind:
    """A kind of source: `local` ones get the value as a variable, remote ones as a header."""

    name: str
    era: str = "modern"
    local: bool = False
    transport: str = "streamable_http"

    @property
    def slot(self) -> str:
        return VARIABLE if self.local else SLOT

    @contextlib.contextmanager
    def registered(self, small: SmallSource, **fields: Any) -> Iterator[dict[str, Any]]:
        """Yield the registration; a remote source is served meanwhile."""
        if self.local:
            yield small.form(self.transport, **fields)
            return
        with small.remote(sse=self.transport == "sse") as (url, _):
            given = {"name": small.name, "url": url, "source_type": "mcp", "mcp_transport_type": self.transport}
            yield {**given, "mcp_server_url": url, **fields}

    def seen_in(self, value: dict[str, Any]) -> set[str | None]:
        """Return all values of the slot that the server saw with a call."""
        if self.local:
            return {value["env"].get(VARIABLE)}
        return {value[each].get(SLOT.lower()) for each in ("headers", "stream_headers") if each in value}


KINDS = [
    Kind("stdio", local=True, transport="stdio"),
    Kind("spawned HTTP", local=True),
    Kind("spawned SSE", era="legacy", local=True, transport="sse"),
    Kind("remote modern HTTP"),
    Kind("remote legacy HTTP", era="legacy"),
    Kind("remote SSE", era="legacy", transport="sse"),
]
of_every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name.replace(" ", "-"))


@pytest.mark.parametrize("lifecycle", ["singleton", "transient"])
@of_every_kind
async def test_concurrent_principals_never_use_the_credential_of_each_other(
    tmp_path: Path, kind: Kind, lifecycle: str
) -> None:
    small = SmallSource(tmp_path, era=kind.era)
    with kind.registered(small, personal=[kind.slot], mcp_lifecycle_mode=lifecycle) as form:
        async with Provider(tmp_path / "tools.db") as provider:
            await provider.register(form)
            for name in ("alice", "bob"):
                await provider.credentials.set("small", kind.slot, f"token-of-{name}", principal=name)
            callers = ["alice", "bob"] * CALLS_OF_EACH
            outcomes = await asyncio.gather(
                *(provider.execute("small", "see", {"names": [VARIABLE]}, principal=name) for name in callers)
            )
            processes: dict[str, set[Any]] = {"alice": set(), "bob": set()}
            for name, outcome in zip(callers, outcomes, strict=True):
                value = value_of(outcome)
                assert kind.seen_in(value) == {f"token-of-{name}"}, (name, value)
                processes[name].add(value["pid"] if kind.local else value.get("session"))
            if kind.local or kind.era == "legacy":
                assert not processes["alice"] & processes["bob"]
                expected = CALLS_OF_EACH if lifecycle == "transient" else 1
                assert len(processes["alice"]) == expected
            views = [provider.view(name) for name in ("alice", "bob")]
            seen = await asyncio.gather(
                *(view.call_tool("mcp__small__see", {"names": [VARIABLE]}) for view in views * CALLS_OF_EACH)
            )
            values = [kind.seen_in(json.loads(each.text)) for each in seen]
            assert values == [{"token-of-alice"}, {"token-of-bob"}] * CALLS_OF_EACH
    assert not small.processes()


@pytest.mark.parametrize(
    "fields, era, shared",
    [
        pytest.param({}, "modern", False, id="stdio"),
        pytest.param({"stateless": True}, "modern", True, id="stateless"),
        pytest.param({"stateless": True, "personal": [VARIABLE]}, "modern", False, id="stateless-with-slot"),
    ],
)
async def test_principals_share_a_process_only_if_the_source_is_stateless_and_has_no_slot(
    tmp_path: Path, fields: dict[str, Any], era: str, shared: bool
) -> None:
    small = SmallSource(tmp_path, era=era)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), **fields)
        pids = []
        for name in ("alice", "bob"):
            if "personal" in fields:
                await provider.credentials.set("small", VARIABLE, name, principal=name)
            pids.append(value_of(await provider.execute("small", "see", {}, principal=name))["pid"])
        assert (pids[0] == pids[1]) is shared


@of_every_kind
async def test_a_missing_credential_is_named_and_nothing_starts(tmp_path: Path, kind: Kind) -> None:
    small = SmallSource(tmp_path, era=kind.era)
    with kind.registered(small, personal=[kind.slot]) as form:
        async with Provider(tmp_path / "tools.db") as provider:
            await provider.register(form)
            await provider.credentials.set("small", kind.slot, "for lists", principal="admin", discovery=True)
            await provider.refresh("small")
            await provider.credentials.set("small", kind.slot, "token-of-alice", principal="alice")
            await provider.execute("small", "see", {}, principal="alice")
            before = len(provider.connections())
            refused = await provider.execute("small", "see", {}, principal="bob")
            assert isinstance(refused.exception, MissingCredential)
            assert refused.exception.slots == (kind.slot,) and kind.slot in str(refused.exception)
            assert refused.metadata is not None and refused.metadata["sent"] is False
            with pytest.raises(MissingCredential):
                await provider.view("bob").call_tool("mcp__small__see", {})
            assert len(provider.connections()) == before
            assert "token-of-alice" not in repr(refused) and "for lists" not in repr(refused)


async def test_without_a_discovery_credential_lists_are_those_of_each_principal(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, prompts=[{"name": "greet"}], resources=[{"name": "r", "uri": "note://one"}])
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=[VARIABLE])
        assert provider.list_tools("small") == [] and not provider.connections()
        assert "own credentials" in provider.status("small").reason
        await provider.credentials.set("small", VARIABLE, "a", principal="alice")
        alice, bob = provider.view("alice"), provider.view("bob")
        assert "mcp__small__see" in {tool.name for tool in await alice.list_tools()}
        assert [each.name for each in await alice.list_prompts()] == ["mcp__small__greet"]
        assert [each.uri for each in await alice.list_resources()] == ["note://one"]
        assert (await bob.list_tools(), await bob.list_prompts(), await bob.list_resources()) == ([], [], [])
        assert await bob.search_tools("see") == []
        with pytest.raises(ToolNotFound):
            await bob.call_tool("mcp__small__see", {})
        assert provider.list_tools("small") == []
    assert b"greet" not in b"".join(file.read_bytes() for file in tmp_path.glob("tools.db*"))


async def test_the_discovery_credential_lists_tools_for_all_and_is_used_for_nothing_else(tmp_path: Path) -> None:
    small = SmallSource(tmp_path, prompts=[{"name": "greet"}])
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=[VARIABLE])
        await provider.credentials.set("small", VARIABLE, "for lists", principal="admin", discovery=True)
        await provider.credentials.set("small", VARIABLE, "a", principal="alice")
        await eventually(lambda: provider.list_tools("small"))
        assert {tool.name for tool in await provider.view("bob").list_tools()} >= {"mcp__small__see"}
        assert await provider.view("bob").list_prompts() == []  # prompts are always personal
        refused = await provider.execute("small", "see", {}, principal="admin")
        assert isinstance(refused.exception, MissingCredential)
        value = value_of(await provider.execute("small", "see", {"names": [VARIABLE]}, principal="alice"))
        assert value["env"] == {VARIABLE: "a"}
        (info,) = [each for each in provider.credentials.list("small") if each.kind == "discovery"]
        assert "for lists" not in repr(info)
        await eventually(lambda: len(small.processes()) == 1)


async def test_the_source_goes_on_working_when_the_discovery_credential_is_removed(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=[VARIABLE])
        await provider.credentials.set("small", VARIABLE, "for lists", principal="admin", discovery=True)
        await provider.refresh("small")
        await provider.credentials.set("small", VARIABLE, "a", principal="alice")
        await provider.credentials.remove("small", principal="admin", discovery=True)
        assert value_of(await provider.execute("small", "echo", {"text": "x"}, principal="alice")) == "x"
        names = [tool.name for tool in await provider.view("alice").list_tools()]
        assert len(names) == len(set(names)) and "mcp__small__echo" in names
        result = await provider.view("alice").call_tool("mcp__small__echo", {"text": "y"})
        assert result.text == '"y"'


@of_every_kind
async def test_a_changed_credential_takes_effect_at_once(tmp_path: Path, kind: Kind) -> None:
    small = SmallSource(tmp_path, era=kind.era)
    with kind.registered(small, personal=[kind.slot], mcp_lifecycle_mode="singleton") as form:
        async with Provider(tmp_path / "tools.db") as provider:
            await provider.register(form)
            calling = True

            async def call_all_the_time() -> None:
                while calling:
                    await provider.execute("small", "see", {"names": [VARIABLE]}, principal="alice")
                    await asyncio.sleep(0)

            for number in range(3):
                await provider.credentials.set("small", kind.slot, f"token-{number}", principal="alice")
                outcome = await provider.execute("small", "see", {"names": [VARIABLE]}, principal="alice")
                assert kind.seen_in(value_of(outcome)) == {f"token-{number}"}
            background = asyncio.create_task(call_all_the_time())
            for number in range(3, 6):
                await provider.credentials.set("small", kind.slot, f"token-{number}", principal="alice")
                outcome = await provider.execute("small", "see", {"names": [VARIABLE]}, principal="alice")
                assert kind.seen_in(value_of(outcome)) == {f"token-{number}"}
            calling = False
            await background
            await provider.credentials.remove("small", principal="alice")
            gone = await provider.execute("small", "see", {}, principal="alice")
            assert isinstance(gone.exception, MissingCredential)
            await eventually(lambda: not provider.connections("small"))


@pytest.mark.parametrize(
    "slot, value, words",
    [
        ("TOKN", "x", "slot: expected one of TOKEN, got 'TOKN'; did you mean 'TOKEN'"),
        (VARIABLE, "", "value: expected a text"),
        (VARIABLE, 7, "value: expected a text"),
        (VARIABLE, "s" * 70_000, "value: expected a text"),
    ],
    ids=["unknown-slot", "empty", "number", "long"],
)
async def test_a_wrong_credential_is_refused_without_its_value(
    tmp_path: Path, slot: str, value: Any, words: str
) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=[VARIABLE])
        with pytest.raises(ConfigError) as caught:
            await provider.credentials.set("small", slot, value, principal="alice")
        assert words in str(caught.value) and "sss" not in str(caught.value)
        assert provider.credentials.list() == []


async def test_decisions_about_tools_hold_in_the_lists_of_principals(tmp_path: Path) -> None:
    small = SmallSource(tmp_path)
    async with Provider(tmp_path / "tools.db") as provider:
        await provider.add_source("small", small.server(), personal=[VARIABLE])
        await provider.credentials.set("small", VARIABLE, "for lists", principal="admin", discovery=True)
        await provider.refresh("small")
        await provider.block("small", "echo")
        await provider.disable_tool("small", "see")
        await provider.tag("small", "sleep", ["slow"])
        await provider.groups.create("fast", include=["small/*"], exclude=["tag:slow"])
        await provider.credentials.set("small", VARIABLE, "a", principal="alice")
        await provider.credentials.remove("small", principal="admin", discovery=True)
        for tool in ("echo", "see"):
            result = await provider.execute("small", tool, principal="alice")
            assert isinstance(result.exception, AccessDenied), result
        names = {tool.name for tool in await provider.view("alice").list_tools()}
        assert names.isdisjoint({"mcp__small__echo", "mcp__small__see"})
        assert "mcp__small__sleep" in names
        fast = {tool.name for tool in await provider.view("alice", "fast").list_tools()}
        assert "mcp__small__progress" in fast
        assert "mcp__small__sleep" not in fast
