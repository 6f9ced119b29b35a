"""Writing lines to real pipes and sockets: in order, batched, withdrawn, and with a peer that does not read."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.kit import eventually
from toolcrib._util import pipe_writer
from toolcrib._util.pipe_writer import BATCH_BYTES, COMPACT_FROM, PipeWriter, QueuedLine

BIG = b"x" * 1_000_000 + b"\n"


class Pipe:
    """A real pipe with a writer at one end, which the test reads at the other."""

    def __init__(self) -> None:
        self.source, self.sink = os.pipe()
        os.set_blocking(self.sink, False)
        os.set_blocking(self.source, False)
        self.broken: list[OSError] = []
        self.writer = PipeWriter(self.sink, self.broken.append)

    def write(self, data: bytes, on_left: Callable[[], None] | None = None) -> QueuedLine:
        line = QueuedLine(data, on_left)
        self.writer.write(line)
        return line

    def read(self) -> bytes:
        """Return what is in the pipe now."""
        parts = []
        while True:
            try:
                part = os.read(self.source, 1 << 20)
            except BlockingIOError:
                return b"".join(parts)
            if not part:
                return b"".join(parts)
            parts.append(part)

    async def read_all(self) -> bytes:
        """Read until the queue is empty."""
        parts = [self.read()]
        while self.writer.size:
            await asyncio.sleep(0)
            parts.append(self.read())
        return b"".join([*parts, self.read()])

    def close_source(self) -> None:
        os.close(self.source)
        self.source = -1

    def close(self) -> None:
        self.writer.close()
        for fd in (self.source, self.sink):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
async def pipe() -> Iterator[Pipe]:  # type: ignore[misc]
    pipe = Pipe()
    yield pipe
    pipe.close()


async def test_the_first_line_is_written_at_once_and_the_others_of_the_turn_together(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes: list[bytes] = []
    write = os.write

    def spy(fd: int, data: bytes) -> int:
        writes.append(bytes(data))
        return write(fd, data)

    monkeypatch.setattr(pipe_writer.os, "write", spy)
    lines = [pipe.write(b"%d\n" % n) for n in range(5)]
    assert [line.sent for line in lines] == [True, False, False, False, False]
    assert (pipe.writer.size, pipe.writer.written) == (8, 2)
    await asyncio.sleep(0)
    assert writes == [b"0\n", b"1\n2\n3\n4\n"]
    assert all(line.sent for line in lines)
    assert (pipe.writer.size, pipe.writer.written) == (0, 10)
    assert pipe.read() == b"0\n1\n2\n3\n4\n"


async def test_a_batch_is_bounded_and_a_large_line_is_not_copied_into_one(
    pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined: list[int] = []
    write = os.write

    def spy(fd: int, data: bytes | memoryview) -> int:
        if isinstance(data, bytes):  # else it is the rest of a line, which is not copied
            joined.append(len(data))
        return write(fd, data)

    pipe.write(b"first\n")
    monkeypatch.setattr(pipe_writer.os, "write", spy)
    pipe.write(b"small\n")
    pipe.write(BIG)
    for _ in range(100):
        pipe.write(b"y" * 999 + b"\n")
    expected = b"first\nsmall\n" + BIG + (b"y" * 999 + b"\n") * 100
    assert await pipe.read_all() == expected
    assert joined[:2] == [6, len(BIG)]
    assert max(joined[2:]) <= BATCH_BYTES


async def test_what_a_full_pipe_does_not_take_waits_and_goes_out_in_order(pipe: Pipe) -> None:
    first, second = pipe.write(BIG), pipe.write(b"second\n")
    assert first.sent
    assert not second.sent
    await asyncio.sleep(0)
    assert not second.sent
    assert pipe.writer.size + pipe.writer.written == len(BIG) + 7
    assert await pipe.read_all() == BIG + b"second\n"
    assert second.sent
    assert pipe.write(b"third\n").sent, "the queue is empty"
    assert pipe.read() == b"third\n"


async def test_a_line_of_which_nothing_was_written_can_be_withdrawn(pipe: Pipe) -> None:
    first, second, third = pipe.write(BIG), pipe.write(b"second\n"), pipe.write(b"third\n")
    assert not pipe.writer.withdraw(first)
    assert pipe.writer.withdraw(second)
    assert pipe.writer.withdraw(second), "twice is no error"
    assert await pipe.read_all() == BIG + b"third\n"
    assert not second.sent
    assert not pipe.writer.withdraw(third)


async def test_withdrawn_lines_do_not_stay_in_the_queue(pipe: Pipe) -> None:
    pipe.write(BIG)
    for _ in range(10):
        lines = [pipe.write(b"line\n") for _ in range(COMPACT_FROM)]
        assert all(pipe.writer.withdraw(line) for line in lines)
    assert len(pipe.writer) <= COMPACT_FROM + 1
    last = pipe.write(b"last\n")
    assert await pipe.read_all() == BIG + b"last\n"
    assert last.sent
    assert len(pipe.writer) == 0


async def test_when_everything_that_waits_is_withdrawn_nothing_waits(pipe: Pipe) -> None:
    while not pipe.writer.size:
        pipe.write(b"x" * 4096)
    pipe.read()
    full = [pipe.write(b"x" * 4096) for _ in range(100)]
    await asyncio.sleep(0)
    rest = [line for line in full if not line.sent]
    drained = pipe.writer.drained()
    assert drained is not None
    for line in rest:
        assert pipe.writer.withdraw(line)
    if pipe.writer.size:  # the pipe took a part of the line before them
        await pipe.read_all()
    assert drained.done()
    assert pipe.writer.drained() is None
    assert len(pipe.writer) == 0
    pipe.read()
    assert pipe.write(b"next\n").sent


async def test_draining_and_flushing_end_when_everything_is_written(pipe: Pipe) -> None:
    assert pipe.writer.drained() is None
    await pipe.writer.flush(10)
    pipe.write(BIG)
    drained = pipe.writer.drained()
    assert drained is not None
    assert pipe.writer.drained() is drained
    flushing = asyncio.create_task(pipe.writer.flush(60))
    await asyncio.sleep(0)
    assert not flushing.done()
    assert await pipe.read_all() == BIG
    await asyncio.wait_for(flushing, 10)
    assert drained.done()


async def test_flushing_a_pipe_that_nothing_reads_ends_after_its_time(pipe: Pipe) -> None:
    pipe.write(BIG)
    await pipe.writer.flush(0.01)
    assert pipe.writer.size


async def test_a_cancelled_flush_leaves_the_others_waiting(pipe: Pipe) -> None:
    pipe.write(BIG)
    drained = pipe.writer.drained()
    flushing = asyncio.create_task(pipe.writer.flush(60))
    await asyncio.sleep(0)
    flushing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flushing
    assert drained is not None
    assert not drained.done()


async def test_closing_drops_pending_writes_and_writes_nothing_further(pipe: Pipe) -> None:
    left: list[int] = []
    pipe.write(BIG)
    waiting = pipe.write(b"waiting\n", lambda: left.append(1))
    drained = pipe.writer.drained()
    pipe.writer.close()
    pipe.writer.close()
    assert drained is not None
    assert drained.done()
    late = pipe.write(b"late\n", lambda: left.append(2))
    await asyncio.sleep(0)
    assert pipe.read().strip(b"x") == b""
    await asyncio.sleep(0)
    assert pipe.read() == b"", "the rest of the first line does not follow either"
    assert not waiting.sent and not late.sent
    assert pipe.writer.withdraw(waiting) and pipe.writer.withdraw(late)
    assert (pipe.writer.size, len(pipe.writer), left) == (0, 0, [1, 2])
    assert pipe.broken == []


@pytest.mark.parametrize("blocked", [False, True])
async def test_a_pipe_without_a_reader_is_reported_once(pipe: Pipe, blocked: bool) -> None:
    if blocked:
        pipe.write(BIG)
    waiting = pipe.write(b"waiting\n") if blocked else None
    drained = pipe.writer.drained()
    pipe.close_source()
    if not blocked:
        pipe.write(b"first\n")
    await eventually(lambda: pipe.broken)
    assert [type(error) for error in pipe.broken] == [BrokenPipeError]
    assert pipe.writer.closed
    assert pipe.writer.size == 0
    assert drained is None or drained.done()
    assert waiting is None or pipe.writer.withdraw(waiting)
    assert not pipe.write(b"more\n").sent
    assert len(pipe.broken) == 1


async def test_a_line_that_leaves_the_queue_is_reported_once(pipe: Pipe) -> None:
    left: list[str] = []
    pipe.write(BIG, lambda: left.append("sent in part"))
    assert left == ["sent in part"]
    withdrawn = pipe.write(b"withdrawn\n", lambda: left.append("withdrawn"))
    pipe.write(b"sent\n", lambda: left.append("sent"))
    pipe.writer.withdraw(withdrawn)
    pipe.writer.withdraw(withdrawn)
    await pipe.read_all()
    pipe.writer.close()
    assert left == ["sent in part", "withdrawn", "sent"]


async def test_a_socket_is_written_like_a_pipe() -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    broken: list[OSError] = []
    writer = PipeWriter(ours.fileno(), broken.append)
    line = QueuedLine(BIG)
    writer.write(line)
    received = bytearray()
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    while len(received) < len(BIG):
        received += await loop.sock_recv(theirs, 1 << 20)
    assert bytes(received) == BIG
    await eventually(lambda: not writer.size)
    theirs.close()
    writer.write(QueuedLine(b"more\n"))
    assert [type(error) for error in broken] == [BrokenPipeError]
    ours.close()


async def test_a_file_takes_everything_at_once(tmp_path) -> None:
    with (tmp_path / "out").open("wb") as file:
        writer = PipeWriter(file.fileno(), lambda _: None)
        for n in range(3):
            writer.write(QueuedLine(b"%d\n" % n))
        writer.write(QueuedLine(BIG))
        await asyncio.sleep(0)
        assert writer.size == 0
    assert (tmp_path / "out").read_bytes() == b"0\n1\n2\n" + BIG


ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 200_000)),
    st.tuples(st.just("withdraw"), st.integers(0, 30)),
    st.tuples(st.just("read"), st.integers(1, 200_000)),
    st.tuples(st.just("turn"), st.just(0)),
)


@given(st.lists(ACTIONS, max_size=25), st.integers(512, 100_000))
def test_exactly_what_was_not_withdrawn_arrives_in_order_whatever_the_pipe_takes(
    actions: list[tuple[str, int]], most: int
) -> None:
    """Every system call accepts at most `most` bytes, as with a slow reader."""

    async def run() -> None:
        pipe = Pipe()
        received = bytearray()
        lines: list[tuple[bytes, QueuedLine]] = []
        withdrawn: set[int] = set()
        for action, number in actions:
            if action == "write":
                data = b"%d:" % len(lines) + b"z" * number + b"\n"
                lines.append((data, pipe.write(data)))
            elif action == "withdraw" and lines:
                index = number % len(lines)
                if pipe.writer.withdraw(lines[index][1]):
                    withdrawn.add(index)
            elif action == "read":
                with contextlib.suppress(BlockingIOError):
                    received.extend(os.read(pipe.source, number))
            else:
                await asyncio.sleep(0)
            left = sum(len(data) for n, (data, _) in enumerate(lines) if n not in withdrawn)
            assert pipe.writer.size + pipe.writer.written == left
        received += await pipe.read_all()
        assert bytes(received) == b"".join(data for n, (data, _) in enumerate(lines) if n not in withdrawn)
        assert all(line.sent == (n not in withdrawn) for n, (_, line) in enumerate(lines))
        pipe.close()

    write = os.write
    with patch.object(pipe_writer.os, "write", lambda fd, data: write(fd, data[:most])):
        asyncio.run(run())
