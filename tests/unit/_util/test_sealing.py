"""Sealed secrets: encryption, keys in files and in the environment, rotation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib._util.sealing import (
    KEY_VARIABLE,
    Sealer,
    SealingKey,
    load_sealer,
    read_key_file,
    rotate_key_file,
)
from toolcrib.errors import ConfigError

SECRETS = {"env.TOKEN": "canary-value", "url.user": "ü:\n\ud800"}


def test_what_is_sealed_can_be_opened() -> None:
    sealer = Sealer([SealingKey.generate()])
    sealed, key_id = sealer.seal(SECRETS, "source-1")
    assert sealer.open(sealed, key_id, "source-1") == SECRETS
    assert b"canary" not in sealed
    assert key_id == sealer.key_id
    assert sealer.seal(SECRETS, "source-1")[0] != sealed


def test_sealed_data_opens_only_where_it_belongs_and_unchanged() -> None:
    sealer = Sealer([SealingKey.generate()])
    sealed, key_id = sealer.seal(SECRETS, "source-1")
    changed = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
    for data, place in [
        (sealed, "source-2"),
        (sealed[:-1], "source-1"),
        (b"", "source-1"),
        *((c, "source-1") for c in changed),
    ]:
        with pytest.raises(ConfigError, match="sealed: expected data that was sealed for this row") as caught:
            sealer.open(data, key_id, place)
        assert caught.value.key == "sealed"


def test_a_missing_key_is_named_by_its_id() -> None:
    sealed, key_id = Sealer([SealingKey.generate()]).seal(SECRETS, "a")
    with pytest.raises(ConfigError, match=f"Add the key with the id {key_id}"):
        Sealer([SealingKey.generate()]).open(sealed, key_id, "a")


def test_an_old_key_still_opens_and_the_new_one_seals(tmp_path: Path) -> None:
    path = tmp_path / "key"
    old = Sealer(read_key_file(path))
    sealed, key_id = old.seal(SECRETS, "a")
    new = rotate_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    both = Sealer(read_key_file(path))
    assert both.key_ids == (new.id, key_id)
    assert both.open(sealed, key_id, "a") == SECRETS
    assert both.seal(SECRETS, "a")[1] == new.id


def test_a_key_file_is_created_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "key"
    first = read_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_key_file(path) == first
    assert [each.name for each in path.parent.iterdir()] == ["key"]


def test_processes_that_create_the_file_together_get_the_same_key(tmp_path: Path) -> None:
    code = "import sys; from toolcrib._util.sealing import read_key_file; print(read_key_file(sys.argv[1])[0].id)"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "key")], stdout=subprocess.PIPE) for _ in range(4)
    ]
    assert len({process.communicate(timeout=60)[0] for process in started}) == 1
    assert [process.returncode for process in started] == [0] * 4


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    read_key_file(path)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_key_file(path)


@pytest.mark.parametrize("content", [b"", b"\n", b"short\n", b"\xff" * 43, b"!" * 43])
def test_a_file_without_valid_keys_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError) as caught:
        read_key_file(path)
    assert caught.value.expected


def test_a_folder_a_pipe_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(ConfigError, match="regular file"):
            read_key_file(tmp_path / name)
    with pytest.raises(ConfigError, match="readable file"):
        read_key_file(tmp_path / "missing", create=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="readable file"):
        read_key_file(tmp_path / "file" / "key")


def test_the_environment_variable_comes_before_the_file(tmp_path: Path) -> None:
    one, two = SealingKey.generate(), SealingKey.generate()
    sealer = load_sealer(tmp_path / "key", {KEY_VARIABLE: f"{one.to_text()}, {two.to_text()}"})
    assert sealer.key_ids == (one.id, two.id)
    assert not (tmp_path / "key").exists()
    assert load_sealer(tmp_path / "key", {KEY_VARIABLE: " "}).key_id == read_key_file(tmp_path / "key")[0].id


def test_errors_and_reprs_do_not_show_keys() -> None:
    key = SealingKey.generate()
    assert key.to_text() not in repr(key)
    with pytest.raises(ConfigError) as caught:
        load_sealer("unused", {KEY_VARIABLE: key.to_text()[:-5]})
    assert key.to_text()[:10] not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.key == KEY_VARIABLE
    with pytest.raises(ConfigError):
        Sealer([])


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ConfigError, match=r'pip install "toolcrib\[provider\]"'):
        Sealer([SealingKey.generate()])
