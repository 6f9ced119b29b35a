"""A secret given in any place where one can be given is found nowhere but where it belongs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import toolcrib as tc
from tests.provider.kit import SmallSource, value_of
from tests.unit.kit import eventually
from toolcrib.errors import ToolcribError
from toolcrib.events import InventoryChanged
from toolcrib.provider.provider import Provider
from toolcrib.provider.store import open_store


class Canaries:
    """Secrets by the place in which they are given. Half of them has the form of a token, half that of a word."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def make(self, place: str) -> str:
        """Return a new secret for a place."""
        self.values[place] = f"canary{secrets.token_hex(12)}"
        return self.values[place]

    def find_in(self, text: str | bytes, *, but: tuple[str, ...] = ()) -> list[str]:
        """Return the places whose secrets are in a text."""
        given = text.encode("utf-8", "replace") if isinstance(text, str) else text
        return [place for place, value in self.values.items() if place not in but and value.encode() in given]


class Records(logging.Handler):
    """All log records at DEBUG, as text with their exceptions."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{self.format(record)} {record.args!r}")


@pytest.fixture
def records() -> Iterator[Records]:
    root, handler = logging.getLogger(), Records()
    loggers = [root, logging.getLogger("toolcrib")]
    before = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    for each, level in zip(loggers, before, strict=True):
        each.setLevel(level)


def processes_with(canaries: Canaries, what: str, but: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Return the command lines of the children of this process whose `environ` or `cmdline` has a secret."""
    found = {}
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError, psutil.Error):
            places = canaries.find_in(Path(f"/proc/{child.pid}/{what}").read_bytes(), but=but)
            if places:
                found[" ".join(child.cmdline())[-60:]] = places
    return found


async def test_a_secret_is_found_nowhere(
    tmp_path: Path, records: Records, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    canaries = Canaries()
    make = canaries.make
    folder = tmp_path / "data"
    folder.mkdir()
    file = folder / "tools.db"
    events: list[Any] = []
    texts: list[str] = []
    local, other, own, argued = (SmallSource(tmp_path, name) for name in ("local", "other", "own", "argued"))
    web, broken = SmallSource(tmp_path, "web", era="legacy"), SmallSource(tmp_path, "broken", start="crash")
    monkeypatch.setenv("PASSED_ON", make("process environment"))
    monkeypatch.setenv("NOT_PASSED_ON", make("variable that is not passed on"))
    key = secrets.token_urlsafe(32)
    canaries.values["key"] = key
    (folder / "toolcrib.key").write_text(key + "=\n")
    (folder / "toolcrib.key").chmod(0o600)

    async with Provider(file) as provider:
        provider.on(InventoryChanged, events.append)
        await provider.add_source(
            "local", local.server(env={"API_KEY": make("variable")}), pass_environment=["PASSED_ON"]
        )
        await provider.register(other.form(mcp_env_vars={"SETTING": make("variable with a harmless name")}))
        await provider.add_source("own", own.server(), personal=["TOKEN"])
        await provider.credentials.set("own", "TOKEN", make("credential"), principal="alice")
        await provider.credentials.set("own", "TOKEN", make("discovery credential"), principal="admin", discovery=True)
        await provider.refresh("own")
        words = [*argued.command[1:], "stdio", "--token", make("argument"), f"--password={make('argument with =')}"]
        source = await provider.add_source("argued", tc.StdioServer(argued.command[0], words))
        assert any("looks like a secret" in warning for warning in source.config.warnings)
        await provider.register(
            broken.form(mcp_env_vars={"API_KEY": make("variable of a source that fails")}, name="broken")
        )
        with web.remote() as (url, served):
            with_user = url.replace("http://", f"http://user:{make('user info')}@")
            secret_url = f"{url}?api_key={make('query')}"
            headers = {"Authorization": f"Bearer {make('header')}", "X-Plain": make("header with a harmless name")}
            await provider.add_source("web", tc.HttpServer(secret_url, headers=headers))
            await provider.add_source("web of a user", tc.HttpServer(with_user))
            for name in ("web", "web of a user"):
                assert len(provider.list_tools(name)) > 1, provider.status(name)
            results = [
                await provider.execute("local", "echo", {"text": "x"}),
                await provider.execute("local", "crash"),
                await provider.execute("other", "echo", {"text": "x"}),
                await provider.execute("own", "echo", {"text": "x"}, principal="alice"),
                await provider.execute("own", "echo", {"text": "x"}, principal="bob"),
                await provider.execute("argued", "echo", {"text": "x"}),
                await provider.execute("broken", "echo", {"text": "x"}),
                await provider.execute("web", "echo", {"text": "x"}),
                await provider.execute("web of a user", "echo", {"text": "x"}),
                await provider.execute(
                    "local", "echo", {"text": "x"}, environment={"API_KEY": make("environment of a call")}
                ),
            ]
            # The secrets reach the server that they are for.
            seen = value_of(
                await provider.execute("local", "see", {"names": ["API_KEY", "PASSED_ON", "NOT_PASSED_ON"]})
            )
            assert canaries.find_in(str(seen)) == ["process environment", "variable"]
            sent = str(served.requests)
            assert canaries.find_in(sent) == ["query", "header", "header with a harmless name"]
            # `ps` and the environments of other processes
            assert await eventually(local.processes) and own.processes()
            in_arguments = ("argument", "argument with =")
            assert processes_with(canaries, "cmdline", but=in_arguments) == {}
            for small, allowed in (
                (local, ("variable", "process environment")),
                (other, ("variable with a harmless name",)),
                (own, ("credential",)),
                (argued, ()),
            ):
                for pid in small.processes():
                    with contextlib.suppress(OSError):
                        environ = Path(f"/proc/{pid}/environ").read_bytes()
                        assert canaries.find_in(environ, but=allowed) == [], small.name
        # Errors: the remote source is gone, the update is wrong, the call is wrong.
        results += [await provider.execute(each, "echo", {}, timeout=5) for each in ("web", "web of a user")]
        for attempt in (
            provider.update_source("web", {"url": secret_url, "headers": {"Bad Name": canaries.values["header"]}}),
            provider.add_source("local", local.server(env={"API_KEY": canaries.values["variable"]})),
            provider.register(other.form(mcp_env_vars={"A=B": canaries.values["variable"]}, name="wrong")),
            provider.credentials.set("own", "WRONG", canaries.values["credential"], principal="alice"),
        ):
            with pytest.raises(ToolcribError) as caught:
                await attempt
            texts += [str(caught.value), repr(caught.value), repr(vars(caught.value))]
        for result in results:
            texts += [
                repr(result),
                str(result.metadata),
                str(result.exception),
                repr(vars(result.exception or Exception())),
            ]
        for source in provider.list_sources():
            texts += [repr(source), str(source), repr(source.config), repr(source.row.config), repr(source.state)]
            texts += [str(provider.status(source.name)), repr(provider.history(source.name))]
        texts += [repr(provider), repr(provider.connections()), repr(provider.list_tools()), repr(events)]
        texts += [repr(provider.credentials.list()), repr(provider.credentials), repr(provider.view("alice"))]
        texts += [repr(await provider.admin_actions(limit=1000))]
        await asyncio.sleep(0)
        live_files = {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "toolcrib.key"}
        assert {name: found for name, data in live_files.items() if (found := canaries.find_in(data))} == {}
    async with Provider(file) as provider:
        texts.append(repr(await provider.executions(limit=1000)))
        assert len(await provider.executions(limit=1000)) >= len(results) - 1
    async with await open_store(file) as store:
        texts.append(repr(await store.load()))
    for number, text in enumerate(texts):
        assert canaries.find_in(text) == [], (number, text[:500])
    assert {text[:300]: found for text in records.texts if (found := canaries.find_in(text))} == {}
    assert len(records.texts) > 20
    output = capfd.readouterr()
    assert canaries.find_in(output.out + output.err) == []
    assert all(each.stat().st_mode & 0o077 == 0 for each in folder.iterdir())
    stored = {each.name: each.read_bytes() for each in folder.iterdir() if each.name != "toolcrib.key"}
    assert stored and {name: found for name, data in stored.items() if (found := canaries.find_in(data))} == {}


async def test_the_password_of_the_database_is_in_no_error(records: Records) -> None:
    password = f"canary{secrets.token_hex(12)}"
    url = f"postgresql://user:{password}@127.0.0.1:1/tools"
    provider = Provider(url)
    assert password not in repr(provider)
    with pytest.raises(ToolcribError) as caught:
        async with provider:
            pass
    error: BaseException | None = caught.value
    while error is not None:
        assert password not in str(error) and password not in repr(error)
        error = error.__cause__
    assert not [text for text in records.texts if password in text]


async def test_a_wrong_key_is_named_and_opens_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = SmallSource(tmp_path)
    file = tmp_path / "tools.db"
    async with Provider(file) as provider:
        await provider.add_source("small", small.server(env={"API_KEY": "canary-of-the-source"}))
    key = (tmp_path / "toolcrib.key").read_text().strip()
    os.replace(tmp_path / "toolcrib.key", tmp_path / "away.key")
    async with Provider(file) as provider:
        assert [source.name for source in provider.list_sources()] == ["small"] and provider.list_tools()
        result = await provider.execute("small", "echo", {"text": "x"})
        assert not result.success and "key" in (result.error or "") and key not in str(result)
        assert not small.processes()
    monkeypatch.setenv("TOOLCRIB_KEY", key)
    async with Provider(file) as provider:
        seen = value_of(await provider.execute("small", "see", {"names": ["API_KEY", "TOOLCRIB_KEY"]}))
        assert seen["env"] == {"API_KEY": "canary-of-the-source"}


async def test_a_source_with_a_sign_in_is_refused_without_a_browser_and_its_secret_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    server = tc.HttpServer("https://tools.example/mcp", oauth={"client_id": "app", "client_secret": "canary-secret"})
    async with Provider(tmp_path / "tools.db") as provider:
        with pytest.raises(tc.ConfigError, match="oauth: expected no value in a registration"):
            await provider.add_source("remote", server)
        assert provider.list_sources() == []
    assert opened == []
    assert not [each for each in tmp_path.iterdir() if each.is_file() and b"canary-secret" in each.read_bytes()]
