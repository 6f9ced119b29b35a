"""The URL of a store: which forms are accepted, what is refused, and that the password is never shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.errors import ConfigError
from toolcrib.provider.store import open_store
from toolcrib.provider.store.opening import parse_store_url


@pytest.mark.parametrize(
    "url, path",
    [
        ("sqlite:///tools.db", "tools.db"),
        ("sqlite:///folder/tools.db", "folder/tools.db"),
        ("sqlite:////var/lib/tools.db", "/var/lib/tools.db"),
        ("sqlite+aiosqlite:///tools.db", "tools.db"),
        ("tools.db", "tools.db"),
        ("/var/lib/odd ?#%20 name.db", "/var/lib/odd ?#%20 name.db"),
        (Path("tools.db"), "tools.db"),
    ],
)
def test_a_file_is_given_by_url_or_path(url: str | Path, path: str) -> None:
    assert parse_store_url(url) == Path.cwd() / path


def test_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert parse_store_url("~/tools.db") == parse_store_url("sqlite:///~/tools.db") == Path("/somewhere/tools.db")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", ":memory:"])
def test_sqlite_can_be_in_memory(url: str) -> None:
    assert parse_store_url(url) is None


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg", "PostgreSQL"])
def test_postgresql_has_several_schemes(scheme: str) -> None:
    assert parse_store_url(f"{scheme}://u:p@host:1/db") == "postgresql://u:p@host:1/db"


@pytest.mark.parametrize(
    "url, words",
    [
        ("", "got an empty string"),
        ("mysql://root:Canary@host/db", "got the scheme 'mysql'"),
        ("://root:Canary@host/db", "got a URL without a scheme"),
        ("root:Canary@host://db", "got a URL without a scheme"),
        ("sqlite://tools.db", "three slashes before a relative path"),
        ("sqlite:///tools.db?password=Canary", "with options"),
        ("postgresql://root:Canary@host:port/db", "cannot be parsed"),
        ("postgresql://host/db?password=Canary", "got 'password'"),
    ],
)
async def test_an_invalid_url_is_refused_without_its_password(url: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        await open_store(url)
    assert caught.value.key == "store" and caught.value.expected
    assert "Can" not in f"{caught.value} {caught.value!r}"
    assert caught.value.__cause__ is None and caught.value.__suppress_context__ == ("parsed" in words)


@pytest.mark.parametrize(
    "missing, url, extras",
    [
        ("sqlalchemy.ext.asyncio", "sqlite://", "provider"),
        ("alembic", "sqlite://", "provider"),
        ("aiosqlite", "sqlite://", "provider"),
        ("asyncpg", "postgresql://host/db", "provider,postgres"),
    ],
)
async def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, missing: str, url: str, extras: str
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError) as caught:
        await open_store(url)
    assert f'pip install "toolcrib[{extras}]"' in str(caught.value)


def test_the_package_and_its_values_are_imported_without_the_libraries() -> None:
    code = """
import sys
import toolcrib.provider.store, toolcrib.provider.store.audit, toolcrib.provider.store.interface
loaded = {"sqlalchemy", "alembic", "aiosqlite", "asyncpg"} & set(sys.modules)
assert not loaded, loaded
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
