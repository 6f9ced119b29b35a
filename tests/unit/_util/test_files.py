"""Reading files and detecting changes, with real files and writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolcrib._util import files
from toolcrib._util.files import FilePoller, read_regular_file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("one")
    return path


@pytest.fixture(params=[False, True], ids=["any write", "content only"])
def poller(request: pytest.FixtureRequest, file: Path) -> FilePoller:
    made = FilePoller(content_only=request.param)
    made.follow([file])
    return made


def set_time(path: Path, seconds: float) -> None:
    os.utime(path, (seconds, seconds))


# ---- reading


def test_a_file_is_read_up_to_the_limit(file: Path) -> None:
    assert read_regular_file(file, 10) == b"one"
    assert read_regular_file(file, 2) == b"on"


def test_folders_pipes_and_devices_are_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, Path(os.devnull)):
        assert read_regular_file(path, 10) is None


def test_what_cannot_be_opened_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_regular_file(tmp_path / "missing", 10)
    for path in ("a\0b", "\ud800"):
        with pytest.raises(ValueError):
            read_regular_file(tmp_path / path, 10)


# ---- following


def test_files_given_at_first_count_as_changed_once(file: Path) -> None:
    poller = FilePoller([file, file.with_name("missing")])
    assert poller.poll() == [file, file.with_name("missing")]
    assert poller.poll() == []


def test_followed_files_are_unchanged_until_they_change(poller: FilePoller, file: Path) -> None:
    assert poller.poll() == []
    file.write_text("two, and more")
    assert poller.poll() == [file]
    assert poller.poll() == []


def test_a_file_that_is_replaced_by_another_is_changed(poller: FilePoller, file: Path) -> None:
    new = file.with_name("new")
    new.write_text("two")
    os.utime(new, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    new.replace(file)
    assert poller.poll() == [file]
    assert poller.poll() == []


def test_a_file_is_changed_when_it_disappears_and_when_it_is_there_again(poller: FilePoller, file: Path) -> None:
    file.unlink()
    assert poller.poll() == [file]
    assert poller.poll() == []
    file.write_text("one")
    assert poller.poll() == [file]
    assert poller.poll() == []


def test_a_file_that_is_deleted_and_made_again_between_two_looks(file: Path) -> None:
    polled, by_content = FilePoller(), FilePoller(content_only=True)
    for each in (polled, by_content):
        each.follow([file])
    file.unlink()
    file.write_text("one")
    set_time(file, 1)
    assert (polled.poll(), by_content.poll()) == ([file], [])


def test_writes_of_the_same_size_in_one_tick_of_the_clock_are_seen(poller: FilePoller, file: Path) -> None:
    for text in ("two", "six", "ten"):
        seen = file.stat()
        file.write_text(text)
        os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
        assert poller.poll() == [file]


def test_the_same_content_with_another_time_is_a_change_unless_only_content_counts(file: Path) -> None:
    polled, by_content = FilePoller(), FilePoller(content_only=True)
    for each in (polled, by_content):
        each.follow([file])
    set_time(file, 1)
    assert (polled.poll(), by_content.poll()) == ([file], [])
    assert (polled.poll(), by_content.poll()) == ([], [])


def test_changed_permissions_are_not_a_change(poller: FilePoller, file: Path) -> None:
    file.chmod(0o644 if file.stat().st_mode & 0o100 else 0o744)
    assert poller.poll() == []


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 300, "file/below"])
def test_a_path_that_no_file_can_have_is_followed_without_an_error(file: Path, name: str) -> None:
    path = file.parent / name
    poller = FilePoller([path, file])
    assert poller.poll() == [path, file]
    assert poller.poll() == []


def test_a_file_is_changed_when_it_becomes_unreadable_and_readable_again(poller: FilePoller, file: Path) -> None:
    file.unlink()
    file.symlink_to(file)  # unreadable for root too
    assert poller.poll() == [file]
    assert poller.poll() == []
    file.unlink()
    file.write_text("one")
    assert poller.poll() == [file]


def test_pipes_are_followed_without_waiting_for_a_writer(poller: FilePoller, file: Path) -> None:
    file.unlink()
    os.mkfifo(file)
    assert poller.poll() == [file]
    assert poller.poll() == []


def test_beyond_the_compared_bytes_the_size_counts(
    poller: FilePoller, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_COMPARED_BYTES", 2)
    poller.poll()
    file.write_text("on and on")
    assert poller.poll() == [file]


def test_only_the_files_named_last_are_followed(poller: FilePoller, file: Path) -> None:
    other = file.with_name("other")
    file.write_text("before the other is followed")
    poller.follow([file, other, other])
    assert poller.poll() == [file]
    other.write_text("there")
    assert poller.poll() == [other]
    poller.follow([other])
    file.write_text("not followed")
    assert poller.poll() == []


@pytest.mark.parametrize("settled", [True, False])
def test_a_file_is_read_again_only_while_it_is_young(
    file: Path, monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    monkeypatch.setattr(files, "SETTLED_SECONDS", -1.0 if settled else 1e12)
    reads = []

    def read(path: Path, max_bytes: int) -> Any:
        reads.append(path)
        return read_regular_file(path, max_bytes)

    monkeypatch.setattr(files, "read_regular_file", read)
    poller = FilePoller([file])
    for _ in range(3):
        poller.poll()
    assert len(reads) == (1 if settled else 3)
