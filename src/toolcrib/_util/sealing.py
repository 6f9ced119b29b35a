"""Encrypts secrets for the store, with AES-GCM. The keys are outside the database: in a file or in `TOOLCRIB_KEY`.

A key is 32 random bytes, written as URL-safe base64. A file has one key per line, `TOOLCRIB_KEY` one or more, separated
by blanks or commas. The first key encrypts; all of them decrypt, so a key is replaced by adding a new one before it,
sealing everything again, and removing the old one.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .._util.files import read_regular_file
from ..errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_VARIABLE: Final = "TOOLCRIB_KEY"
"""The environment variable with the keys."""
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
MAX_KEY_FILE_BYTES: Final = 64 * 1024
_FORMAT: Final = b"\x01"
"""The first byte of sealed data: the version of its format."""
_KEY_FORM: Final = f"{KEY_BYTES} bytes as URL-safe base64"


@dataclass(frozen=True, slots=True)
class SealingKey:
    """A key of 32 bytes. Its `id` identifies it in the store and reveals nothing about it."""

    key: bytes = field(repr=False)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ConfigError(f"key: expected {_KEY_FORM}", key="key", expected=_KEY_FORM)
        object.__setattr__(self, "id", sha256(b"toolcrib key id\0" + self.key).hexdigest()[:16])

    @classmethod
    def generate(cls) -> SealingKey:
        """Return a new random key."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def parse(cls, text: str, *, where: str = KEY_VARIABLE) -> SealingKey:
        """Return the key that this text holds; `where` names its origin in errors."""
        try:
            padded = text + "=" * (-len(text) % 4)
            key = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
        except (binascii.Error, UnicodeEncodeError):
            key = b""
        # Raised outside the `except` block: a chained error would contain the key.
        if len(key) != KEY_BYTES:
            advice = "Restore the key from a backup, or create one with SealingKey.generate().to_text()"
            raise ConfigError(
                f"{where}: expected keys of {_KEY_FORM}, got a key of another form. {advice}",
                key=where,
                expected=_KEY_FORM,
            )
        return cls(key)

    def to_text(self) -> str:
        """Return the key as URL-safe base64, as it is written in files and in `TOOLCRIB_KEY`."""
        return base64.urlsafe_b64encode(self.key).decode().rstrip("=")


class Sealer:
    """Encrypts mappings of secrets with the first of its keys, and decrypts what any of them encrypted.

    `extra` is the extra of Toolcrib that has the required package, for the error if it is not installed.
    """

    def __init__(self, keys: Iterable[SealingKey], *, extra: str = "provider") -> None:
        found = tuple(keys)
        if not found:
            raise ConfigError("keys: expected at least one key", key="keys", expected="at least one key")
        cipher = _cipher_class(extra)
        self._current = found[0]
        self._ciphers: dict[str, AESGCM] = {key.id: cipher(key.key) for key in found}

    @property
    def key_id(self) -> str:
        """The id of the key that encrypts."""
        return self._current.id

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The ids of all keys, the one that encrypts first."""
        return tuple(self._ciphers)

    def seal(self, plaintext: Mapping[str, str], associated: str) -> tuple[bytes, str]:
        """Return the encrypted mapping and the id of the key.

        `open` needs the same `associated`, such as the id of the source: sealed data that was copied to another row of
        the store cannot be opened there.
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        text = json.dumps(dict(plaintext), ensure_ascii=True, separators=(",", ":")).encode()
        data = self._ciphers[self.key_id].encrypt(nonce, text, _associated(self.key_id, associated))
        return _FORMAT + nonce + data, self.key_id

    def open(self, sealed: bytes, key_id: str, associated: str) -> dict[str, str]:
        """Return the mapping that `seal` encrypted; raise `ConfigError` if the key is missing or the data changed."""
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            advice = (
                f"Add the key with the id {key_id} to {KEY_VARIABLE} or to the key file, or enter the secrets again"
            )
            message = f"{KEY_VARIABLE}: the stored secrets were encrypted with a key that is not available. {advice}"
            raise ConfigError(message, key=KEY_VARIABLE, expected=f"the key with the id {key_id}")
        text = _decrypt(cipher, bytes(sealed), _associated(key_id, associated))
        if text is None:
            expected = "data that was sealed for this row, unchanged"
            message = f"sealed: expected {expected}. Restore the database from a backup, or enter the secrets again"
            raise ConfigError(message, key="sealed", expected=expected)
        opened: dict[str, str] = json.loads(text)
        return opened


def load_sealer(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Sealer:
    """Return a sealer with the keys in `TOOLCRIB_KEY` or, if it is not set, in the file, which is created if needed."""
    given = environ.get(KEY_VARIABLE, "")
    if given.strip():
        return Sealer(SealingKey.parse(word) for word in given.replace(",", " ").split())
    return Sealer(read_key_file(path))


def read_key_file(path: str | os.PathLike[str], *, create: bool = True) -> tuple[SealingKey, ...]:
    """Return the keys in a file; without a file, a new one with one key is created.

    Processes that create the file at the same time all get the same key. A file that other users can read or write, or
    that belongs to another user, raises `ConfigError`.
    """
    file = Path(path)
    try:
        if create and not os.path.lexists(file):
            _write_new(file, [SealingKey.generate()])
        _check_mode(file)
        content = read_regular_file(file, MAX_KEY_FILE_BYTES)
        if content is None:
            raise _file_error(file, "a regular file")
    except OSError as exc:
        raise _file_error(file, "a readable file", f"{exc.strerror or type(exc).__name__}. Check the path") from exc
    lines = content.decode("ascii", "replace").split()
    if not lines:
        raise _file_error(file, "at least one key", "Restore it from a backup; a new key cannot open stored secrets")
    return tuple(SealingKey.parse(line, where=str(file)) for line in lines)


def rotate_key_file(path: str | os.PathLike[str]) -> SealingKey:
    """Add a new key at the beginning of a key file, so that it encrypts from now on; return the new key."""
    file = Path(path)
    keys = read_key_file(file, create=False)
    new = SealingKey.generate()
    temporary = _write_temporary(file, [new, *keys])
    os.replace(temporary, file)
    return new


def _write_new(file: Path, keys: list[SealingKey]) -> None:
    """Create the file with its complete content in one step; an existing file stays as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = _write_temporary(file, keys)
    try:
        with contextlib.suppress(FileExistsError):  # another process was faster: its key is used
            os.link(temporary, file)
    finally:
        temporary.unlink()


def _write_temporary(file: Path, keys: list[SealingKey]) -> Path:
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="ascii") as written:
        written.writelines(f"{key.to_text()}\n" for key in keys)
        written.flush()
        os.fsync(descriptor)
    return temporary


def _check_mode(file: Path) -> None:
    seen = file.stat()
    if not stat.S_ISREG(seen.st_mode):
        raise _file_error(file, "a regular file")
    if seen.st_mode & 0o077:
        raise _file_error(file, "a file that only its owner can read (mode 0600)", f"Run: chmod 600 {file}")
    if seen.st_uid != os.geteuid():
        raise _file_error(file, "a file of the user that runs this process", "Change its owner")


def _file_error(file: Path, expected: str, advice: str = "") -> ConfigError:
    message = f"{file}: expected {expected}" + (f". {advice}" if advice else "")
    return ConfigError(message, file=str(file), key="key file", expected=expected)


def _associated(key_id: str, associated: str) -> bytes:
    return b"toolcrib sealed\0" + _FORMAT + key_id.encode() + b"\0" + associated.encode("utf-8", "surrogatepass")


def _decrypt(cipher: AESGCM, sealed: bytes, associated: bytes) -> bytes | None:
    """Return the plain text, None if the data is not what was sealed."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415  # an optional dependency

    nonce, data = sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
    if not sealed.startswith(_FORMAT) or len(nonce) < NONCE_BYTES:
        return None
    try:
        return cipher.decrypt(nonce, data, associated)
    except InvalidTag:
        return None


def _cipher_class(extra: str) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415  # an optional dependency
    except ImportError as exc:
        install = f'pip install "toolcrib[{extra}]"'
        message = f"cryptography: expected to be installed, got no such package. Run: {install}"
        raise ConfigError(message, key="cryptography", expected=install) from exc
    return AESGCM
