"""Stores of sign-ins: private files, encryption, the keyring, and locks between tasks, threads and processes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail

import toolcrib as tc
from toolcrib._util.sealing import SealingKey

TEXT = json.dumps({"version": 1, "canary": "s3cret-refresh-token"})
KEY = bytes(range(32))
BOUND = 10.0


class MemoryKeyring(KeyringBackend):  # type: ignore[misc]
    """A keyring for tests: no real one runs without a desktop."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.passwords.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.passwords[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.passwords[service, username]


@pytest.fixture
def use_keyring() -> Iterator[Callable[[KeyringBackend], None]]:
    before = keyring.get_keyring()
    yield keyring.set_keyring
    keyring.set_keyring(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


@pytest.fixture(params=["memory", "file", "encrypted file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> tc.TokenStore:
    if request.param == "memory":
        return tc.MemoryTokenStore()
    return tc.FileTokenStore(tmp_path / "tokens", key=KEY if request.param == "encrypted file" else None)


async def test_texts_are_stored_replaced_and_deleted(store: tc.TokenStore) -> None:
    assert await store.load("a") is None
    await store.save("a", TEXT)
    await store.save("b", "{}")
    assert (await store.load("a"), await store.load("b")) == (TEXT, "{}")
    await store.save("a", '{"new": 1}')
    assert await store.load("a") == '{"new": 1}'
    await store.delete("a")
    await store.delete("a")
    assert (await store.load("a"), await store.load("b")) == (None, "{}")


async def test_one_task_holds_the_lock_of_a_key_and_other_keys_are_free(store: tc.TokenStore) -> None:
    order: list[str] = []

    async def second() -> None:
        async with store.lock("a"):
            order.append("second")

    async with asyncio.timeout(BOUND):
        async with store.lock("a"):
            waiting = asyncio.create_task(second())
            async with store.lock("b"):
                order.append("other key")
            order.append("first")
        await waiting
    assert order == ["other key", "first", "second"]


async def test_a_lock_excludes_tasks_of_other_event_loops(store: tc.TokenStore) -> None:
    order: list[str] = []
    began = threading.Event()

    async def other() -> None:
        began.set()
        async with store.lock("a"):
            order.append("other loop")

    thread = threading.Thread(target=lambda: asyncio.run(other()))
    async with store.lock("a"):
        thread.start()
        await asyncio.to_thread(began.wait, BOUND)
        order.append("this loop")
    await asyncio.to_thread(thread.join, BOUND)
    assert order == ["this loop", "other loop"]


async def test_a_cancelled_waiter_leaves_the_lock_usable(store: tc.TokenStore) -> None:
    async def wait() -> None:
        async with store.lock("a"):
            raise AssertionError("the lock is held")

    async with store.lock("a"):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wait(), 0.05)
    async with asyncio.timeout(BOUND), store.lock("a"):
        pass


# ---- private files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
async def test_the_folder_and_its_files_are_private_whatever_the_umask_is(tmp_path: Path, mask: int) -> None:
    store = tc.FileTokenStore(tmp_path / "a" / "tokens")
    before = os.umask(mask)
    try:
        await store.save("key", TEXT)
        async with store.lock("key"):
            pass
    finally:
        os.umask(before)
    assert mode_of(store.folder) == 0o700
    assert {mode_of(each) for each in store.folder.iterdir()} == {0o600}
    assert len(entries(store.folder)) == 1


async def test_the_names_of_files_do_not_contain_the_url(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path)
    tmp_path.chmod(0o700)
    await store.save("https://user.example/../../etc/passwd", TEXT)
    assert [each.parent for each in entries(tmp_path)] == [tmp_path]
    assert "example" not in entries(tmp_path)[0].name


def link_file(folder: Path) -> None:
    (file,) = entries(folder)
    file.rename(folder / "target")
    file.symlink_to(folder / "target")


def link_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))


def replace_by_folder(folder: Path) -> None:
    (file,) = entries(folder)
    file.unlink()
    file.mkdir()


def replace_by_pipe(folder: Path) -> None:
    (file,) = entries(folder)
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize(
    "spoil, problem",
    [
        (lambda folder: entries(folder)[0].chmod(0o640), "chmod 600"),
        (lambda folder: entries(folder)[0].chmod(0o604), "chmod 600"),
        (lambda folder: entries(folder)[0].chmod(0o620), "chmod 600"),
        (lambda folder: folder.chmod(0o750), "chmod 700"),
        (lambda folder: folder.chmod(0o701), "chmod 700"),
        (link_file, "not a link"),
        (link_folder, "not a link"),
        (replace_by_folder, "expected a file"),
        (replace_by_pipe, "expected a file"),
        (lambda folder: entries(folder)[0].write_text("[1]"), "expected a JSON object"),
        (lambda folder: entries(folder)[0].write_bytes(b"\xff\x00"), "expected a JSON object"),
        (lambda folder: entries(folder)[0].write_text(""), "expected a JSON object"),
        (lambda folder: entries(folder)[0].write_text(TEXT[:-5]), "expected a JSON object"),
    ],
    ids=[
        "file readable by the group",
        "file readable by others",
        "file writable by the group",
        "folder readable by the group",
        "folder searchable by others",
        "file is a link",
        "folder is a link",
        "file is a folder",
        "file is a pipe",
        "JSON of another kind",
        "binary",
        "empty",
        "cut off",
    ],
)
async def test_what_is_not_private_or_damaged_is_refused(
    tmp_path: Path, spoil: Callable[[Path], Any], problem: str
) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("key", TEXT)
    spoil(store.folder)
    with pytest.raises(tc.ConfigError, match=problem) as caught:
        await store.load("key")
    assert str(store.folder) in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_files_of_another_user_are_refused(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("key", TEXT)
    os.chown(entries(store.folder)[0], 12345, 12345)
    with pytest.raises(tc.ConfigError, match="of the user that runs this process"):
        await store.load("key")


async def test_nothing_is_written_to_a_folder_that_others_can_read(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    store = tc.FileTokenStore(folder)
    with pytest.raises(tc.ConfigError, match="chmod 700"):
        await store.save("key", TEXT)
    with pytest.raises(tc.ConfigError, match="chmod 700"):
        async with store.lock("key"):
            raise AssertionError
    assert list(folder.iterdir()) == []


async def test_a_link_in_place_of_the_file_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("key", "{}")
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (file,) = entries(store.folder)
    file.unlink()
    file.symlink_to(victim)
    await store.save("key", TEXT)
    assert victim.read_text() == "untouched"
    assert not file.is_symlink()


async def test_a_link_in_place_of_the_lock_file_is_refused(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    async with store.lock("key"):
        pass
    (lock,) = store.folder.glob("*.lock")
    lock.unlink()
    lock.symlink_to(tmp_path / "created")
    with pytest.raises(tc.ConfigError, match="link"):
        async with store.lock("key"):
            raise AssertionError
    assert not (tmp_path / "created").exists()


async def test_an_entry_that_cannot_be_removed_is_reported(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("key", TEXT)
    replace_by_folder(store.folder)
    with pytest.raises(tc.ConfigError, match="that can be removed"):
        await store.delete("key")


@pytest.mark.parametrize("call", ["fsync", "replace"])
async def test_a_write_that_fails_leaves_the_old_entry_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("key", "{}")

    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as changed:
        changed.setattr(os, call, fails)
        with pytest.raises(tc.ConfigError, match="No space left"):
            await store.save("key", TEXT)
    assert await store.load("key") == "{}"
    assert len(list(store.folder.iterdir())) == 1


async def test_files_are_synced_before_they_replace_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    calls: list[str] = []
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        calls.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        fsync(descriptor)

    def replaced(source: Any, target: Any) -> None:
        calls.append("replace")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    await store.save("key", TEXT)
    assert calls == ["sync file", "replace", "sync folder"]


async def test_readers_see_whole_entries_while_another_task_writes(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    texts = [json.dumps({"n": n, "text": str(n) * 20_000}) for n in range(4)]
    await store.save("key", texts[0])

    async def write() -> None:
        for _ in range(10):
            for text in texts:
                await store.save("key", text)

    writing = asyncio.create_task(write())
    while not writing.done():
        assert await store.load("key") in texts
    await writing


def test_the_default_folder_is_in_the_config_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert tc.FileTokenStore().folder == tmp_path / "toolcrib" / "tokens"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tc.FileTokenStore("~/mine").folder == tmp_path / "mine"


HOLDER = """
import asyncio, sys, toolcrib as tc
async def main():
    async with tc.FileTokenStore(sys.argv[1]).lock("key"):
        print("held", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


async def test_the_lock_of_a_process_that_is_killed_is_free(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == b"held\n"
            store = tc.FileTokenStore(folder)

            async def take() -> None:
                async with store.lock("key"):
                    pass

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(take(), 0.1)
        finally:
            process.kill()
        await asyncio.to_thread(process.wait)
        await asyncio.wait_for(take(), BOUND)


async def test_a_cancelled_write_ends_before_the_lock_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("key", "{}")
    began, released, fsync = threading.Event(), threading.Event(), os.fsync

    def wait(descriptor: int) -> None:
        began.set()
        released.wait(BOUND)
        fsync(descriptor)

    async def write() -> None:
        async with store.lock("key"):
            await store.save("key", '{"new": 1}')

    async def read() -> str | None:
        async with store.lock("key"):
            return await store.load("key")

    monkeypatch.setattr(os, "fsync", wait)
    writing = asyncio.create_task(write())
    await asyncio.to_thread(began.wait, BOUND)
    writing.cancel()
    reading = asyncio.create_task(read())
    await asyncio.wait([reading], timeout=0.2)
    released.set()
    assert await reading == '{"new": 1}'
    with pytest.raises(asyncio.CancelledError):
        await writing


async def test_a_process_that_was_forked_meanwhile_does_not_keep_the_lock(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    async with store.lock("key"):
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
    try:
        async with asyncio.timeout(5), store.lock("key"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


FORKING_HOLDER = """
import asyncio, os, sys, toolcrib as tc
async def main():
    async with tc.FileTokenStore(sys.argv[1]).lock("key"):
        child = os.fork()
        if child == 0:
            sys.exit()  # leaves the context of the lock
        os.waitpid(child, 0)
        print("held", flush=True)
        sys.stdin.read()
asyncio.run(main())
"""


async def test_a_forked_process_that_ends_does_not_release_the_lock_of_its_parent(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    words = [sys.executable, "-c", FORKING_HOLDER, str(store.folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"held\n"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), store.lock("key"):
                raise AssertionError("the lock is held")
        await asyncio.to_thread(process.communicate)
    async with asyncio.timeout(BOUND), store.lock("key"):
        pass


async def test_a_file_system_without_locks_is_reported_and_leaves_no_open_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    store = tc.FileTokenStore(tmp_path / "tokens")
    opened = set()
    monkeypatch.setattr(fcntl, "flock", fails)
    for _ in range(3):
        with pytest.raises(tc.ConfigError, match=r"expected a file system with locks, got No locks.*local disk"):
            async with store.lock("key"):
                raise AssertionError
        opened.add(len(os.listdir("/proc/self/fd")))
    assert len(opened) == 1


# ---- encryption ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [KEY, SealingKey(KEY).to_text()], ids=["bytes", "base64"])
async def test_encrypted_files_show_nothing_and_open_with_the_key(tmp_path: Path, key: str | bytes) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens", key=key)
    await store.save("https://server.example/mcp", TEXT)
    (file,) = entries(store.folder)
    content = file.read_text()
    assert set(json.loads(content)) == {"sealed", "key_id"}
    assert "s3cret" not in content
    assert "server.example" not in content
    assert mode_of(file) == 0o600
    assert await tc.FileTokenStore(store.folder, key=KEY).load("https://server.example/mcp") == TEXT


def copy_entry(folder: Path) -> None:
    first, second = entries(folder)
    content = (first.read_bytes(), second.read_bytes())
    first.write_bytes(content[1])
    second.write_bytes(content[0])


def change_byte(folder: Path) -> None:
    for file in entries(folder):
        document = json.loads(file.read_text())
        sealed = document["sealed"]
        document["sealed"] = sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:]
        file.write_text(json.dumps(document))


def write_no_base64(folder: Path) -> None:
    for file in entries(folder):
        file.write_text(json.dumps({**json.loads(file.read_text()), "sealed": 17}))


@pytest.mark.parametrize("spoil", [copy_entry, change_byte, write_no_base64])
async def test_an_encrypted_entry_that_was_copied_or_changed_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens", key=KEY)
    await store.save("a", TEXT)
    await store.save("b", "{}")
    spoil(store.folder)
    with pytest.raises(tc.ConfigError, match="Remove the file and sign in again") as caught:
        await store.load("a")
    assert "s3cret" not in str(caught.value)
    assert str(store.folder) in str(caught.value)


@pytest.mark.parametrize("key", [None, bytes(32)], ids=["no key", "another key"])
async def test_an_encrypted_entry_needs_its_key(tmp_path: Path, key: bytes | None) -> None:
    await tc.FileTokenStore(tmp_path / "tokens", key=KEY).save("a", TEXT)
    with pytest.raises(tc.ConfigError, match="key"):
        await tc.FileTokenStore(tmp_path / "tokens", key=key).load("a")


async def test_entries_from_before_the_key_are_read_and_encrypted_at_the_next_write(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    await tc.FileTokenStore(folder).save("a", TEXT)
    store = tc.FileTokenStore(folder, key=KEY)
    assert await store.load("a") == TEXT
    await store.save("a", TEXT)
    assert "s3cret" not in entries(folder)[0].read_text()


@pytest.mark.parametrize("key", [b"short", "short", "x" * 100, b"\x00" * 33])
def test_a_key_of_another_form_is_refused_without_showing_it(tmp_path: Path, key: str | bytes) -> None:
    with pytest.raises(tc.ConfigError, match="32 bytes") as caught:
        tc.FileTokenStore(tmp_path, key=key)
    assert str(key) not in str(caught.value)
    assert "short" not in str(caught.value)


@pytest.mark.parametrize(
    "folder, key, named",
    [
        (5, None, "folder"),
        (b"tokens", None, "folder"),
        ("tokens", 5, "key"),
        ("tokens", "", "key"),
        ("tokens", b"", "key"),
    ],
)
def test_options_of_another_type_are_named(folder: Any, key: Any, named: str) -> None:
    with pytest.raises(tc.ConfigError) as caught:
        tc.FileTokenStore(folder, key=key)
    assert caught.value.key == named
    assert str(caught.value).startswith(f"{named}: expected")


# ---- keyring ---------------------------------------------------------------------------------------------------


async def test_the_keyring_holds_one_random_key_and_no_tokens(
    tmp_path: Path, use_keyring: Callable[[KeyringBackend], None]
) -> None:
    backend = MemoryKeyring()
    use_keyring(backend)
    store = tc.FileTokenStore(tmp_path / "tokens", key="keyring")
    await store.save("a", TEXT)
    await store.save("b", "{}")
    (password,) = backend.passwords.values()
    key = SealingKey.parse(password)
    assert len(key.key) == 32
    assert "s3cret" not in password
    assert "s3cret" not in entries(store.folder)[0].read_text() + entries(store.folder)[1].read_text()
    assert await tc.FileTokenStore(store.folder, key="keyring").load("a") == TEXT
    assert await tc.FileTokenStore(store.folder, key=key.key).load("a") == TEXT
    assert list(backend.passwords.values()) == [password]

    use_keyring(MemoryKeyring())
    with pytest.raises(tc.ConfigError, match="expected a file that was encrypted with this key"):
        await tc.FileTokenStore(store.folder, key="keyring").load("a")


class SlowKeyring(MemoryKeyring):
    """A keyring that lets a second store look for the key before the first one has written it, if it can."""

    def __init__(self) -> None:
        super().__init__()
        self._both = threading.Barrier(2)
        self._writing = threading.Lock()

    def get_password(self, service: str, username: str) -> str | None:
        found = super().get_password(service, username)
        if found is None:
            with contextlib.suppress(threading.BrokenBarrierError):
                self._both.wait(0.2)  # broken if the other store is locked out
        elif self._writing.locked():
            self._writing.release()
        return found

    def set_password(self, service: str, username: str, password: str) -> None:
        assert self._writing.acquire(timeout=BOUND)  # until the writer has read it back
        super().set_password(service, username, password)


async def test_stores_that_create_the_key_at_the_same_time_use_the_same_one(
    tmp_path: Path, use_keyring: Callable[[KeyringBackend], None]
) -> None:
    backend = SlowKeyring()
    use_keyring(backend)
    stores = [tc.FileTokenStore(tmp_path / "tokens", key="keyring") for _ in range(2)]
    await asyncio.gather(*(store.save(str(at), TEXT) for at, store in enumerate(stores)))
    assert len(backend.passwords) == 1
    for store in (*stores, tc.FileTokenStore(tmp_path / "tokens", key="keyring")):
        assert [await store.load("0"), await store.load("1")] == [TEXT, TEXT]


async def test_a_keyring_that_waits_for_its_owner_blocks_no_time_limit(
    tmp_path: Path, use_keyring: Callable[[KeyringBackend], None]
) -> None:
    unlocked = threading.Event()

    class WaitingKeyring(MemoryKeyring):
        def get_password(self, service: str, username: str) -> str | None:
            unlocked.wait(BOUND)
            return super().get_password(service, username)

    use_keyring(WaitingKeyring())
    stores = [tc.FileTokenStore(tmp_path / "tokens", key="keyring") for _ in range(2)]
    asking = asyncio.create_task(stores[0].save("a", TEXT))
    for store in stores:  # the second one waits for the lock of the first
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(store.save("a", TEXT), 0.05)
    assert not asking.done()
    unlocked.set()
    await asyncio.wait_for(asking, BOUND)
    assert await stores[1].load("a") == TEXT


async def test_a_cancelled_creation_of_the_key_makes_no_second_one(
    tmp_path: Path, use_keyring: Callable[[KeyringBackend], None]
) -> None:
    writing, unlocked = threading.Event(), threading.Event()
    made: list[str] = []

    class SlowToWrite(MemoryKeyring):
        def set_password(self, service: str, username: str, password: str) -> None:
            made.append(password)
            writing.set()
            unlocked.wait(BOUND)
            super().set_password(service, username, password)

    use_keyring(SlowToWrite())
    cancelled, other = (tc.FileTokenStore(tmp_path / "tokens", key="keyring") for _ in range(2))
    asking = asyncio.create_task(cancelled.save("a", TEXT))
    await asyncio.to_thread(writing.wait, BOUND)
    asking.cancel()
    await asyncio.wait([asking])
    saving = asyncio.create_task(other.save("a", TEXT))
    await asyncio.wait([saving], timeout=0.05)
    unlocked.set()
    await asyncio.wait_for(saving, BOUND)
    assert len(made) == 1
    assert await cancelled.load("a") == TEXT


class LockedKeyring(MemoryKeyring):
    """A keyring whose owner does not unlock it."""

    def get_password(self, service: str, username: str) -> str | None:
        raise keyring.errors.KeyringLocked("locked")


@pytest.mark.parametrize("backend", [fail.Keyring(), LockedKeyring()], ids=["no backend", "locked"])
async def test_without_a_keyring_nothing_is_stored_and_the_error_names_the_file_store(
    tmp_path: Path, use_keyring: Callable[[KeyringBackend], None], backend: KeyringBackend
) -> None:
    use_keyring(backend)
    store = tc.FileTokenStore(tmp_path / "tokens", key="keyring")
    with pytest.raises(tc.ConfigError, match=r"Use FileTokenStore\(\) without key"):
        await store.save("a", TEXT)
    assert entries(store.folder) == []


async def test_without_the_package_for_keyrings_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)  # as if it were not installed
    store = tc.FileTokenStore(tmp_path / "tokens", key="keyring")
    with pytest.raises(tc.ConfigError, match=r'keyring: expected to be installed.*pip install "toolcrib\[keyring\]"'):
        await store.save("a", TEXT)
    assert entries(store.folder) == []


async def test_a_damaged_key_in_the_keyring_is_refused_without_showing_it(
    tmp_path: Path, use_keyring: Callable[[KeyringBackend], None]
) -> None:
    backend = MemoryKeyring()
    backend.passwords["toolcrib", "token-store-key"] = "damaged-key"
    use_keyring(backend)
    with pytest.raises(tc.ConfigError, match="keyring") as caught:
        await tc.FileTokenStore(tmp_path / "tokens", key="keyring").save("a", TEXT)
    assert "damaged-key" not in str(caught.value)


async def test_stores_show_no_secrets(tmp_path: Path) -> None:
    memory = tc.MemoryTokenStore()
    await memory.save("a", TEXT)
    shown = repr(memory) + repr(tc.FileTokenStore(tmp_path, key=SealingKey(KEY).to_text()))
    assert "s3cret" not in shown
    assert SealingKey(KEY).to_text() not in shown
    assert "encrypted" in shown


# ---- ends of programs ------------------------------------------------------------------------------------------


async def test_texts_are_stored_when_the_pool_of_threads_has_ended(store: tc.TokenStore) -> None:
    await asyncio.get_running_loop().shutdown_default_executor()
    await store.save("a", TEXT)
    assert await store.load("a") == TEXT


async def test_old_temporary_files_of_killed_processes_are_removed(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("a", TEXT)
    [path] = entries(store.folder)
    old, new, foreign = (store.folder / f".{name}" for name in (f"{path.name}.1", f"{path.name}.2", "b.json.1"))
    for action in (store.save("a", "{}"), store.delete("a")):
        for each in (old, new, foreign):
            each.write_text(TEXT)
        for each in (old, foreign):
            os.utime(each, (0, 0))
        await action
        assert (old.exists(), new.exists(), foreign.exists()) == (False, True, True)


async def test_a_forked_process_does_not_inherit_locks_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    store = tc.MemoryTokenStore()
    async with store.lock("a"):
        monkeypatch.setattr(os, "getpid", lambda: 1)
        async with asyncio.timeout(BOUND), store.lock("a"):
            pass


# ---- all files -------------------------------------------------------------------------------------------------


async def test_all_texts_of_the_folder_are_returned(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    assert await store.load_all() == {}
    for key in ("a", "b"):
        await store.save(key, json.dumps({"key": key}))
        async with store.lock(key):
            pass  # leaves a lock file
    assert sorted(str(text) for text in (await store.load_all()).values()) == ['{"key": "a"}', '{"key": "b"}']
    await store.delete("a")
    assert list((await store.load_all()).values()) == ['{"key": "b"}']


@pytest.mark.parametrize(
    "spoil, problem",
    [
        (lambda path: path.write_text("{"), "expected a JSON object"),
        (lambda path: path.write_text("[" * 100_000), "expected a JSON object"),
        (lambda path: path.chmod(0o644), "chmod 600"),
        (lambda path: path.write_text('{"sealed": "eA==", "key_id": "x"}'), "expected a file that is not encrypted"),
    ],
    ids=["damaged", "nested too deeply", "not private", "encrypted"],
)
async def test_a_file_that_cannot_be_read_is_an_error_beside_the_other_texts(
    tmp_path: Path, spoil: Callable[[Path], object], problem: str
) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("a", TEXT)
    (good,) = entries(store.folder)
    await store.save("b", TEXT)
    (bad,) = {*entries(store.folder)} - {good}
    spoil(bad)
    found = await store.load_all()
    assert found.pop(good) == TEXT
    ((path, error),) = found.items()
    assert path == bad and isinstance(error, tc.ConfigError)
    assert problem in str(error) and error.file == str(bad) and "s3cret" not in str(error)


async def test_the_files_of_a_folder_that_others_can_use_are_not_read(tmp_path: Path) -> None:
    store = tc.FileTokenStore(tmp_path / "tokens")
    await store.save("a", TEXT)
    store.folder.chmod(0o755)
    (error,) = (await store.load_all()).values()
    assert isinstance(error, tc.ConfigError) and "chmod 700" in str(error)
    file = tmp_path / "file"
    file.write_text("")
    (error,) = (await tc.FileTokenStore(file).load_all()).values()
    assert isinstance(error, tc.ConfigError) and "expected a folder that can be read" in str(error)
