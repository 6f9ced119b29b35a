"""Where sign-ins are stored: in memory, or in files that only their owner can read.

A store keeps one text per key, and a lock per key that excludes other processes. Its user decides what the text means,
so a store for another place (a database, a vault) has four short methods.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import errno
import fcntl
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from .._util.files import read_regular_file
from .._util.folders import config_folder
from .._util.locks import wait_for_lock
from .._util.sealing import KEY_BYTES, Sealer, SealingKey
from .._util.tasks import run_to_end
from .._util.threads import in_daemon_thread
from ..config import wrong
from ..errors import ConfigError

MAX_FILE_BYTES: Final = 1024 * 1024
ABANDONED_SECONDS: Final = 60.0
"""Age of temporary files in seconds that no process writes any longer."""
KEYRING: Final = "keyring"
"""The value of `key` for a random key in the system's keyring."""
KEYRING_SERVICE: Final = "toolcrib"
KEYRING_NAME: Final = "token-store-key"
_REMOVE: Final = "Remove the file and sign in again"

T = TypeVar("T")


@runtime_checkable
class TokenStore(Protocol):
    """A place for sign-ins. Keys and texts are arbitrary strings."""

    async def load(self, key: str) -> str | None:
        """Return the text of a key; None if there is none."""
        ...

    async def save(self, key: str, text: str) -> None:
        """Store the text of a key; when this returns, other processes see it."""
        ...

    async def delete(self, key: str) -> None:
        """Remove a key, if it is there."""
        ...

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Return a lock that at most one task holds for this key, in all processes and threads that use the store."""
        ...


class MemoryTokenStore:
    """Keeps sign-ins for the life of the process."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._locks: dict[tuple[int, str], threading.Lock] = {}

    async def load(self, key: str) -> str | None:
        """Return the text of a key; None if there is none."""
        return self._texts.get(key)

    async def save(self, key: str, text: str) -> None:
        """Store the text of a key."""
        self._texts[key] = text

    async def delete(self, key: str) -> None:
        """Remove a key, if it is there."""
        self._texts.pop(key, None)

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold the lock of a key; tasks of other event loops are excluded too."""
        # With the process id: a forked process has copies of the locks that others hold at that moment.
        held = self._locks.setdefault((os.getpid(), key), threading.Lock())
        await wait_for_lock(lambda: held.acquire(blocking=False))
        try:
            yield
        finally:
            held.release()

    def __repr__(self) -> str:
        return f"MemoryTokenStore({len(self._texts)} entries)"


class FileTokenStore:
    """Keeps each sign-in in a file of a folder that only its owner can read.

    The default folder is `toolcrib/tokens` in the user's config folder. With a `key`, files are encrypted (AES-GCM):
    32 bytes, the same as URL-safe base64, or `"keyring"` for a random key that is kept in the system's keyring. That
    needs `toolcrib[oauth]`, and `toolcrib[keyring]` for the keyring. Processes with the same folder share its sign-ins.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, key: str | bytes | None = None) -> None:
        if folder is not None and not isinstance(folder, str | os.PathLike):
            raise wrong("folder", "the path of a folder", folder)
        given = Path(folder).expanduser() if folder is not None else config_folder(os.environ) / "toolcrib" / "tokens"
        self.folder = given
        self._key = key
        self._sealer: Sealer | None = None
        if key is not None and key != KEYRING:
            self._sealer = _make_sealer(_sealing_key(key))

    def __repr__(self) -> str:
        return f"FileTokenStore({str(self.folder)!r}{', encrypted' if self._key is not None else ''})"

    async def load(self, key: str) -> str | None:
        """Return the text of a key; raises `ConfigError` if the file is not private or cannot be read."""
        if self._key == KEYRING:
            await self._sealer_in_use()  # reports a missing keyring before a person signs in
        path = self._path(key)
        text = await _in_thread(self._read, path)
        document = _parse(path, text) if text is not None else {}
        return await self._unseal(path, key, document) if "sealed" in document else text

    async def load_all(self) -> dict[Path, str | ConfigError]:
        """Return the text of each file, or why it cannot be read: an encrypted one only with the key of its entry."""
        return await _in_thread(self._load_all)

    async def save(self, key: str, text: str) -> None:
        """Write the text to a new file, and replace the old one by it."""
        if self._key is not None:
            sealed, key_id = (await self._sealer_in_use()).seal({"text": text}, key)
            text = json.dumps({"key_id": key_id, "sealed": base64.b64encode(sealed).decode()})
        # Not cancellable: the thread goes on, and the caller may hold the lock.
        await run_to_end(_in_thread(self._write, self._path(key), text))

    async def delete(self, key: str) -> None:
        """Remove the file of a key, if it is there."""
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
            _remove_abandoned(path)
        except OSError as exc:
            raise _file_error(path, "a file that can be removed", exc) from exc

    @asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold an advisory lock on a file beside the one of the key; it ends with the process that holds it."""
        self._make_folder()
        path = self._path(key).with_suffix(".lock")
        with _lock_file(path) as descriptor:
            await wait_for_lock(lambda: _try_lock(descriptor, path))
            yield

    def _path(self, key: str) -> Path:
        return self.folder / f"{sha256(key.encode()).hexdigest()[:32]}.json"

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_private(self.folder, self.folder.lstat(), stat.S_ISDIR, "a folder", "700")
        except OSError as exc:
            raise _file_error(self.folder, "a folder that can be used", exc) from exc

    def _load_all(self) -> dict[Path, str | ConfigError]:
        try:
            names = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return {}
        except OSError as exc:
            return {self.folder: _file_error(self.folder, "a folder that can be read", exc)}
        found: dict[Path, str | ConfigError] = {}
        for path in (self.folder / name for name in names if name.endswith(".json")):
            try:
                text = self._read(path)
                if text is None:
                    continue  # another process has removed it
                if "sealed" in _parse(path, text):
                    raise _file_error(path, "a file that is not encrypted")
            except ConfigError as exc:
                found[path] = exc
            else:
                found[path] = text
        return found

    def _read(self, path: Path) -> str | None:
        """Return the content of a file; None if it does not exist. Raises `ConfigError` if it is not private."""
        try:
            seen = path.lstat()
            _check_private(self.folder, self.folder.lstat(), stat.S_ISDIR, "a folder", "700")
            _check_private(path, seen, stat.S_ISREG, "a file", "600")
            content = read_regular_file(path, MAX_FILE_BYTES) or b""
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise _file_error(path, "a readable file", exc) from exc
        return content.decode("utf-8", "replace")

    async def _unseal(self, path: Path, key: str, document: dict[str, Any]) -> str:
        if self._key is None:
            raise _file_error(path, "a store with a key, because the file is encrypted", advice="Set key=")
        try:
            sealed = base64.b64decode(document["sealed"])
        except (binascii.Error, TypeError):
            sealed = b""
        sealer, key_id = await self._sealer_in_use(), str(document.get("key_id"))
        if key_id not in sealer.key_ids:
            advice = "Pass the key that it was encrypted with, or remove the file and sign in again"
            raise _file_error(path, "a file that was encrypted with this key", advice=advice)
        with suppress(ConfigError):
            return sealer.open(sealed, key_id, key)["text"]
        raise _file_error(path, "unchanged encrypted data", advice=_REMOVE)

    def _write(self, path: Path, text: str) -> None:
        self._make_folder()
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
            os.replace(temporary, path)
            _remove_abandoned(path)
            _sync_folder(self.folder)
        except OSError as exc:
            with suppress(OSError):
                temporary.unlink()
            raise _file_error(path, "a file that can be written", exc) from exc

    async def _sealer_in_use(self) -> Sealer:
        if self._sealer is None:
            self._make_folder()
            # The keyring may wait for a person who unlocks it: cancelling ends the wait, and not the lock.
            self._sealer = await in_daemon_thread(self._open_keyring)
        return self._sealer

    def _open_keyring(self) -> Sealer:
        path = self.folder / "keyring.lock"
        with _lock_file(path) as descriptor:  # one process creates the key
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except OSError as exc:
                raise _no_locks(path, exc) from exc
            return _make_sealer(_key_of_keyring())


async def _in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Run a function in a thread of the pool, or in this one if the interpreter exits and the pool takes no work."""
    try:
        work = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    except RuntimeError:
        return function(*arguments)
    return await work


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise _file_error(path, "a JSON object", advice=_REMOVE)
    return document


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files that killed processes have left beside a file: they contain tokens."""
    oldest = time.time() - ABANDONED_SECONDS
    for each in path.parent.glob(f".{path.name}.*"):
        with suppress(OSError):
            if each.lstat().st_mtime < oldest:
                each.unlink()


def _make_sealer(key: SealingKey) -> Sealer:
    return Sealer([key], extra="oauth")


def _sealing_key(key: str | bytes) -> SealingKey:
    if isinstance(key, str | bytes):
        with suppress(ConfigError):
            return SealingKey(key) if isinstance(key, bytes) else SealingKey.parse(key)
    # Outside the handler: a chained exception may contain the key.
    advice = 'python -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())" prints a new one'
    raise wrong("key", f'{KEY_BYTES} bytes, the same as URL-safe base64, or "keyring"', key, advice)


def _key_of_keyring() -> SealingKey:
    """Return the key in the system's keyring; a new one is created if there is none."""
    try:
        import keyring  # noqa: PLC0415  # an optional dependency
        from keyring.errors import KeyringError  # noqa: PLC0415
    except ImportError as exc:
        install = 'pip install "toolcrib[keyring]"'
        message = f"keyring: expected to be installed, got no such package. Run: {install}"
        raise ConfigError(message, key="key", expected=install) from exc
    try:
        text = keyring.get_password(KEYRING_SERVICE, KEYRING_NAME)
        if text is None:
            keyring.set_password(KEYRING_SERVICE, KEYRING_NAME, SealingKey(secrets.token_bytes(KEY_BYTES)).to_text())
            text = keyring.get_password(KEYRING_SERVICE, KEYRING_NAME)  # another process may have been faster
    except KeyringError as exc:
        reason = type(exc).__name__
    else:
        return SealingKey.parse(text or "", where="keyring")
    expected = "a keyring"
    advice = "Use FileTokenStore() without key, or with a key of 32 bytes"
    raise ConfigError(f"key: expected {expected}, got {reason}. {advice}", key="key", expected=expected)


@contextmanager
def _lock_file(path: Path) -> Iterator[int]:
    """Open a file to lock, and unlock and close it afterwards.

    It is opened anew each time: a lock belongs to an open file, so tasks and threads exclude each other too.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as exc:
        raise _file_error(path, "a file that can be locked, not a link", exc) from exc
    process = os.getpid()
    try:
        yield descriptor
    finally:
        if os.getpid() == process:  # a forked process has the same open file, and must not release the lock
            # Explicitly, since a forked process would keep it. Fails on file systems without locks.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _try_lock(descriptor: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        if exc.errno in (errno.EWOULDBLOCK, errno.EINTR):
            return False
        raise _no_locks(path, exc) from exc
    return True


def _no_locks(path: Path, exc: OSError) -> ConfigError:
    return _file_error(path, "a file system with locks", exc, advice="Use a folder on a local disk")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_private(path: Path, seen: os.stat_result, is_kind: Any, kind: str, mode: str) -> None:
    if not is_kind(seen.st_mode):
        raise _file_error(path, f"{kind}, not a link or anything else")
    if seen.st_uid != os.geteuid():
        raise _file_error(path, f"{kind} of the user that runs this process")
    if seen.st_mode & 0o077:
        raise _file_error(
            path, f"{kind} that only its owner can use (mode 0{mode})", advice=f"Run: chmod {mode} {path}"
        )


def _file_error(path: Path, expected: str, exc: OSError | None = None, advice: str = "") -> ConfigError:
    reason = f", got {exc.strerror or type(exc).__name__}" if exc is not None else ""
    message = f"{path}: expected {expected}{reason}" + (f". {advice}" if advice else "")
    return ConfigError(message, file=str(path), key="store", expected=expected)
