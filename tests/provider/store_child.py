"""What a child process does with a store: `store_child.py COMMAND URL [ARGUMENTS]`."""

from __future__ import annotations

import asyncio
import importlib
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.provider.store_rows import make_source, make_tool, make_version  # after the path is set
from toolcrib.errors import StoreError
from toolcrib.provider.store import open_store
from toolcrib.provider.store.interface import Operation, Put
from toolcrib.provider.store.sql_store import SqlStore

ROWS_PER_REGISTRATION = 100
SMALL_FILE = 512 * 1024


def make_registration(number: str) -> list[Operation]:
    """A source with many tools and their versions, as a registration commits them."""
    source = make_source(f"s{number}")
    tools = [make_tool(source.id, f"t{each}") for each in range(ROWS_PER_REGISTRATION)]
    return [Put(source), *map(Put, tools), Put(make_version(1, tools[0].id))]


async def open_and_commit(url: str) -> None:
    async with await open_store(url) as store:
        print(await store.commit([]))


def report(line: str) -> None:
    """Write a line in one piece: a process that is killed meanwhile has written all of it or nothing.

    `print` writes the end of the line separately where PYTHONUNBUFFERED is set.
    """
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


async def commit_for_ever(url: str) -> None:
    """Commit registrations, and report the number of each before and after."""
    async with await open_store(url) as store:
        for number in range(1_000_000):
            name = f"{os.getpid()}-{number}"
            report(f"began {name}")
            await store.commit(make_registration(name))
            report(f"committed {name}")


def commit_in_forks(url: str) -> None:
    """For each line of stdin, fork a process that commits for ever, and wait until it was killed.

    A fork starts at once; a new interpreter would first load all modules. This process has no threads.
    """
    for module in ("aiosqlite", "alembic", "asyncpg", "sqlalchemy.dialects.postgresql.asyncpg"):
        importlib.import_module(module)
    while sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            report(f"started {os.getpid()}")
            asyncio.run(commit_for_ever(url))
        os.waitpid(pid, 0)
        report("ended")


async def expect_failure(store: SqlStore, words: tuple[str, ...], number: str) -> None:
    try:
        await store.commit(make_registration(number))
    except StoreError as exc:
        failure = exc
    else:
        raise AssertionError("the commit succeeded")
    print(failure)
    assert failure.operation == "commit" and any(word in str(failure) for word in words), failure


async def use_read_only_file(path: str) -> None:
    """Run as a user whom the permissions of files concern."""
    file = Path(path)
    async with await open_store(file) as warm:  # loads all modules, which the other user may not be able to read
        await warm.commit(make_registration("1"))
    if os.geteuid() == 0:
        for each in (file.parent, *file.parent.iterdir()):
            os.chown(each, 65534, 65534)
        os.setgid(65534)
        os.setuid(65534)
    file.chmod(0o400)
    async with await open_store(file) as store:
        await expect_failure(store, ("read-only",), "2")
        assert [row.id for row in (await store.load()).sources] == ["s1"]
        file.chmod(0o600)
        await store.commit(make_registration("2"))
        assert [row.id for row in (await store.load()).sources] == ["s1", "s2"]


async def fill_disk(path: str) -> None:
    """Use a small file system if it can be mounted, else limit the size of files."""
    folder = Path(path).parent
    mounted = (
        os.geteuid() == 0
        and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True).returncode
        == 0
    )
    print("tmpfs" if mounted else "RLIMIT_FSIZE")
    try:
        async with await open_store(path) as store:
            await store.commit(make_registration("1"))
            if mounted:
                (folder / "filler").write_bytes(b"x")
                with (folder / "filler").open("wb", buffering=0) as filler:
                    with_room = True
                    while with_room:
                        try:
                            filler.write(b"x" * 4096)
                        except OSError:
                            with_room = False
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILE, resource.RLIM_INFINITY))
            await fail_until_there_is_room(store)
            if mounted:
                (folder / "filler").unlink()
            else:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            await store.commit(make_registration("new"))
            state = await store.load()
            assert "snew" in {row.id for row in state.sources}
            assert len(state.tools) == ROWS_PER_REGISTRATION * len(state.sources)
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)


async def fail_until_there_is_room(store: SqlStore) -> None:
    """Commit until the disk is full; then reads still work."""
    for number in range(50):
        try:
            await store.commit(make_registration(f"f{number}"))
        except StoreError:
            break
    await expect_failure(store, ("the disk is full", "cannot be read or written"), "late")
    state = await store.load()
    assert len(state.tools) == ROWS_PER_REGISTRATION * len(state.sources) and "slate" not in {
        row.id for row in state.sources
    }


def main() -> None:
    command, argument = sys.argv[1:3]
    if command == "fork":
        commit_in_forks(argument)
        return
    commands = {
        "open": open_and_commit,
        "read-only": use_read_only_file,
        "full": fill_disk,
    }
    asyncio.run(commands[command](argument))


if __name__ == "__main__":
    main()
