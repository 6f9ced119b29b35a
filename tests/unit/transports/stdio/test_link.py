"""The link to a child over its pipes: real children, every byte accounted for."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kit import eventually, turns
from tests.unit.transports.children import ECHO, Gate, Linked, alive, run_program, server
from toolcrib.config import MASK
from toolcrib.errors import ConnectionLost, StartError, UsageError
from toolcrib.protocol import limits
from toolcrib.protocol.limits import MAX_MESSAGE
from toolcrib.transports.stdio import link, process
from toolcrib.transports.stdio.link import StdioLink
from toolcrib.transports.stdio.watchdog import guard

BIG = "x" * 300_000  # more than a pipe holds
LATE_ECHO = "import sys\nopen(sys.argv[1]).read()\n" + ECHO


def says(text: bytes, then: str = "sys.stdin.read()") -> Any:
    """Return a child that writes these bytes."""
    return server(f"import sys\nsys.stdout.buffer.write({text!r})\nsys.stdout.flush()\n{then}")


def message(n: int, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "m", "params": {"n": n, **more}}


def numbers(linked: Linked) -> list[int]:
    return [each["params"]["n"] for each in linked.taker.messages]


# ---- out -----------------------------------------------------------------------------------------------------


async def test_what_is_sent_comes_whole_and_in_order() -> None:
    async with Linked(server(ECHO)) as linked:
        for n in range(500):
            linked.link.send(message(n, text="\u00e9\n\u2028", size="x" * (n % 50)))
            if n % 100 == 0:
                await asyncio.sleep(0)
        await eventually(lambda: len(linked.taker.messages) == 500)
        assert numbers(linked) == list(range(500))
        assert linked.taker.messages[0]["params"]["text"] == "\u00e9\n\u2028"


async def test_the_messages_of_one_turn_of_the_loop_go_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[int] = []
    write = os.write

    def counting(fd: int, data: Any) -> int:
        writes.append(len(data))
        return write(fd, data)

    async with Linked(server(ECHO)) as linked:
        monkeypatch.setattr(link.os, "write", counting)
        for n in range(100):
            linked.link.send(message(n))
        assert len(writes) == 1, "the first is written at once: a single message need not wait"
        await eventually(lambda: len(linked.taker.messages) == 100)
        monkeypatch.undo()
        assert len(writes) == 2


async def test_a_message_larger_than_the_pipe_is_sent_from_its_first_byte_on_and_comes_whole(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    async with Linked(server(LATE_ECHO, gate.path)) as linked:
        first, second = linked.link.send(message(1, big=BIG)), linked.link.send(message(2))
        await asyncio.sleep(0)
        assert (first.sent, second.sent) == (True, False)
        assert not linked.link.withdraw(first)
        await gate.open()
        await eventually(lambda: len(linked.taker.messages) == 2)
        assert second.sent
        assert linked.taker.messages[0] == message(1, big=BIG)


async def test_what_the_pipe_has_not_got_can_be_taken_back_and_never_arrives(tmp_path: Path) -> None:
    gate, chance = Gate(tmp_path), random.Random(7)
    async with Linked(server(LATE_ECHO, gate.path)) as linked:
        tickets = {n: linked.link.send(message(n, big="x" * chance.choice([1, 10_000, 100_000]))) for n in range(60)}
        await asyncio.sleep(0)
        withdrawn = {n for n, ticket in tickets.items() if chance.random() < 0.5 and linked.link.withdraw(ticket)}
        refused = [n for n, ticket in tickets.items() if ticket.sent]
        assert withdrawn and refused and not withdrawn & set(refused)
        await gate.open()
        await eventually(lambda: len(linked.taker.messages) == 60 - len(withdrawn))
        assert numbers(linked) == [n for n in range(60) if n not in withdrawn]
        assert linked.taker.garbage == []


async def test_everything_taken_back_leaves_a_pipe_that_works(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    async with Linked(server(LATE_ECHO, gate.path)) as linked:
        linked.link.send(message(0, big=BIG))
        for ticket in [linked.link.send(message(n)) for n in range(1, 20)]:
            assert linked.link.withdraw(ticket)
        await gate.open()
        await eventually(lambda: linked.taker.messages)
        linked.link.send(message(99))
        await eventually(lambda: numbers(linked) == [0, 99])


async def test_what_json_cannot_say_is_refused_and_the_next_message_is_fine() -> None:
    async with Linked(server(ECHO)) as linked:
        with pytest.raises(UsageError):
            linked.link.send({"x": object()})
        linked.link.send(message(1))
        await eventually(lambda: numbers(linked) == [1])


# ---- in ------------------------------------------------------------------------------------------------------


async def test_batches_crlf_and_blank_lines_are_taken() -> None:
    async with Linked(says(b'\n\r\n{"a":1}\r\n[{"b":2},{"c":3}]\n\n')) as linked:
        await eventually(lambda: len(linked.taker.messages) == 2)
        assert linked.taker.messages == [{"a": 1}, [{"b": 2}, {"c": 3}]]
        assert linked.taker.garbage == []


async def test_an_invalid_message_is_reported_with_its_start_and_the_rest_continues() -> None:
    lines = [b"Starting server...", b'{"text":"\xff"}', b'{"cut":', b"[" * 200 + b"]" * 200, b'{"fine":1}']
    async with Linked(says(b"\n".join(lines) + b"\n")) as linked:
        await eventually(lambda: linked.taker.messages)
        assert linked.taker.messages == [{"fine": 1}]
        assert [head for _, head in linked.taker.garbage] == lines[:-1]
        assert "Starting server" in linked.taker.garbage[0][0].sample


async def test_a_line_above_the_cap_is_reported_at_once_and_passed_over() -> None:
    code = (
        "import sys\nout = sys.stdout.buffer\nout.write(b'{\"id\":1,' + b'x' * int(sys.argv[1]))\nout.flush()\n"
        'sys.stdin.readline()\nout.write(b\'"}\\n{"fine":1}\\n\')\nout.flush()\nsys.stdin.read()'
    )
    async with Linked(server(code, str(MAX_MESSAGE + 70_000))) as linked:
        await eventually(lambda: linked.taker.garbage)
        error, head = linked.taker.garbage[0]
        assert "16,777,216" in str(error)
        assert head.startswith(b'{"id":1,xxx')
        linked.link.send(message(1))
        await eventually(lambda: linked.taker.messages)
        assert linked.taker.messages == [{"fine": 1}]
        assert len(linked.taker.garbage) == 1


# ---- stderr --------------------------------------------------------------------------------------------------


async def test_every_line_of_stderr_is_received_and_the_last_of_it_kept() -> None:
    received: list[str] = []
    code = "import sys\nfor n in range(20000): print('line', n, file=sys.stderr)\nsys.stdin.read()"
    async with Linked(server(code), received.append) as linked:
        await eventually(lambda: len(received) == 20_000)
        assert received == [f"line {n}" for n in range(20_000)]
        assert len(linked.process.tail.text()) <= 64 * 1024
        assert linked.process.tail.text().endswith("line 19999\n")


async def test_a_line_of_stderr_that_comes_in_pieces_is_received_whole() -> None:
    received: list[str] = []
    code = "import os, sys\nos.write(2, b'one\\r\\nha')\nsys.stdin.readline()\nos.write(2, b'lf\\n')\nsys.stdin.read()"
    async with Linked(server(code), received.append) as linked:
        await eventually(lambda: linked.process.tail.text().endswith("ha"))
        linked.link.send(message(1))
        await eventually(lambda: received == ["one", "half"])


async def test_a_stderr_handler_that_raises_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    def bad(line: str) -> None:
        raise ValueError("my own fault")

    code = "import sys\nprint('oh', file=sys.stderr, flush=True)\n" + ECHO
    async with Linked(server(code), bad) as linked:
        linked.link.send(message(1))
        await eventually(lambda: numbers(linked) == [1] and "my own fault" in caplog.text)


# ---- the end -------------------------------------------------------------------------------------------------


async def test_messages_before_the_end_are_received_before_the_end_is_reported() -> None:
    lines = b"".join(json.dumps(message(n)).encode() + b"\n" for n in range(2000))
    code = "print('my last words', file=sys.stderr)\nsys.exit(3)"
    async with Linked(says(lines, code)) as linked:
        await eventually(lambda: linked.taker.lost)
        assert numbers(linked) == list(range(2000))
        (error,) = linked.taker.lost
        assert isinstance(error, StartError)
        assert (error.exit_code, error.stderr) == (3, "my last words\n")
        assert "exited with code 3; stderr: my last words" in str(error)


async def test_secrets_stay_secret_in_banners_in_last_output_and_inside_each_other() -> None:
    env = {"DB_USER": "admin", "DB_URL": "postgres://admin:s3cret@host", "KEY": "line-one-9f\nline-two-9f"}
    code = (
        "import os, sys; print(os.environ['DB_URL'], flush=True)\n"
        "sys.exit('\\n  '.join([os.environ['DB_URL'], *os.environ['KEY'].splitlines()]))"
    )
    async with Linked(server(code, env=env)) as linked:
        await eventually(lambda: linked.taker.lost)
        ((garbage, _),) = linked.taker.garbage
        (lost,) = linked.taker.lost
        assert isinstance(lost, StartError)
        shown = f"{garbage.sample} {lost} {lost.stderr}"
        assert shown.count(MASK) >= 3
        assert not any(part in shown for part in ("s3cret", "admin", "line-one-9f", "line-two-9f"))


@pytest.mark.parametrize(
    "code, message",
    [
        ("os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("os.close(1); sys.stdin.read()", "closed its stdin or stdout but is still running"),
    ],
)
async def test_other_ends_are_reported_too(code: str, message: str) -> None:
    async with Linked(server("import os, sys\n" + code)) as linked:
        await eventually(lambda: linked.taker.lost)
        assert message in str(linked.taker.lost[0])


async def test_a_child_that_closes_its_stdin_is_lost_and_what_it_did_not_get_was_not_sent() -> None:
    async with Linked(server("import os, time\nos.close(0)\nprint('{}', flush=True)\ntime.sleep(1000)")) as linked:
        await eventually(lambda: linked.taker.messages)
        ticket = linked.link.send(message(1))
        assert not ticket.sent
        assert linked.link.withdraw(ticket)
        await eventually(lambda: linked.taker.lost)
        later = linked.link.send(message(2))
        assert linked.link.withdraw(later)


@pytest.mark.parametrize(
    "code, received",
    [
        ("os.close(0); print('{}', flush=True)", False),  # ended before anything was written
        ("print('{}', flush=True); time.sleep(0.2)", False),  # the message stays in the pipe
        ("print('{}', flush=True); sys.stdin.readline()", True),
    ],
)
async def test_the_exit_shows_whether_the_child_had_read_the_message(code: str, received: bool) -> None:
    async with Linked(server("import os, sys, time\n" + code)) as linked:
        await eventually(lambda: linked.taker.messages)
        linked.link.send(message(1))
        await eventually(lambda: linked.taker.lost)
        assert linked.taker.lost[0].input_consumed is received


async def test_a_child_that_was_sent_nothing_has_read_nothing() -> None:
    async with Linked(server("")) as linked:
        await eventually(lambda: linked.taker.lost)
        assert linked.taker.lost[0].input_consumed is False


async def test_after_the_loss_nothing_more_is_reported() -> None:
    async with Linked(says(b'{"a":1}\n', "")) as linked:
        await eventually(lambda: linked.taker.lost)
        await linked.link.close(force=False)
        assert len(linked.taker.lost) == 1


async def test_what_is_queued_is_written_before_the_link_is_closed(tmp_path: Path) -> None:
    """A child that reads late, but not too late, receives everything."""
    kept = tmp_path / "kept"
    gate = Gate(tmp_path)
    code = "import sys\nopen(sys.argv[1]).read()\nopen(sys.argv[2], 'wb').write(sys.stdin.buffer.read())"
    linked = Linked(server(code, gate.path, str(kept)))
    await linked.__aenter__()
    linked.link.send(message(1, big=BIG))
    linked.link.send(message(2))
    await asyncio.gather(linked.link.close(force=False), gate.open())
    assert [json.loads(line)["params"]["n"] for line in kept.read_text().splitlines()] == [1, 2]
    assert linked.taker.lost == []


async def test_a_child_that_keeps_writing_while_it_is_closed_is_drained_and_ends() -> None:
    code = "import sys\nsys.stdin.read()\nsys.stdout.write('x' * 3_000_000)\nsys.stdout.flush()\nsys.exit(5)"
    linked = Linked(server(code))
    await linked.__aenter__()
    await linked.link.close(force=False)
    assert linked.process.exit_code == 5
    assert linked.taker.messages == linked.taker.garbage == linked.taker.lost == []


@pytest.mark.parametrize("at", ["the flush", "the stop"])
async def test_a_close_that_is_cancelled_leaves_nothing_behind(tmp_path: Path, at: str) -> None:
    """The child neither reads nor ends by itself; the close is cancelled at its first or second step."""
    linked = Linked(server(LATE_ECHO, Gate(tmp_path).path))
    await linked.__aenter__()
    if at == "the flush":
        linked.link.send(message(1, big=BIG))
    closing = asyncio.create_task(linked.link.close(force=False))
    await turns()
    assert linked.process.stdin.closed == (at == "the stop")
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    try:
        await eventually(lambda: not alive(linked.pid), within=5)
        assert linked.process.stdout.closed
        await eventually(lambda: linked.process not in process._living, within=5)
        assert linked.pid not in guard._groups
    finally:
        linked.process.kill()


async def test_closing_twice_or_what_was_never_opened_is_nothing() -> None:
    await StdioLink(server(ECHO)).close(force=False)
    linked = Linked(server(ECHO))
    await linked.__aenter__()
    await asyncio.gather(linked.link.close(force=False), linked.link.close(force=True))
    await linked.link.close(force=False)
    assert not alive(linked.pid)
    assert linked.process.stdin.closed


async def test_a_byte_order_mark_before_the_first_answer_is_accepted() -> None:
    async with Linked(says(b'\xef\xbb\xbf{"a":1}\n{"b":2}\n')) as linked:
        await eventually(lambda: len(linked.taker.messages) == 2)
        assert linked.taker.messages == [{"a": 1}, {"b": 2}]
        assert linked.taker.garbage == []


WITHOUT_FCNTL = """
import asyncio, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "termios"):
            raise ModuleNotFoundError(f"No module named {name!r}")

for name in ("fcntl", "termios"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Blocked())
import toolcrib

async def main():
    try:
        await toolcrib.Client(toolcrib.StdioServer("cat")).connect()
    except toolcrib.StartError as error:
        print(error.permanent, error.message)

asyncio.run(main())
"""


async def test_without_fcntl_a_process_is_refused_with_the_reason() -> None:
    program = run_program(WITHOUT_FCNTL)
    out, err = await asyncio.to_thread(program.communicate)
    assert "stdio servers need a POSIX system" in out, err
    assert out.startswith("True"), "trying again cannot help"


# ---- the limit of the queue

NEVER_READS = "import time\nprint('{}', flush=True)\ntime.sleep(1000)"


def reply(n: int, size: int = 0) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": n, "result": {"pad": "x" * size}}


async def filled_pipe(linked: Linked) -> None:
    """Fill the pipe of a child that does not read, with requests, which the limit does not count."""
    await eventually(lambda: linked.taker.messages)
    for n in range(10):
        linked.link.send({"jsonrpc": "2.0", "id": n, "method": "m", "params": {"pad": BIG}})
    assert linked.link._child.writer.size > 0


@pytest.mark.parametrize("size, most", [(0, limits.MAX_QUEUED), (50_000, 167), (100_000, 83)])
async def test_too_many_replies_that_wait_end_the_link_and_say_why(
    monkeypatch: pytest.MonkeyPatch, size: int, most: int
) -> None:
    monkeypatch.setattr(limits, "MAX_QUEUED_LARGE_BYTES", limits.MAX_QUEUED_BYTES)
    async with Linked(server(NEVER_READS)) as linked:
        await filled_pipe(linked)
        for n in range(most):
            linked.link.send(reply(n, size))
        assert linked.taker.lost == []
        linked.link.send(reply(0, size))
        (error,) = linked.taker.lost
        assert isinstance(error, ConnectionLost)
        assert f"{most:,} replies and notifications" in str(error)


async def test_large_replies_have_their_own_limit() -> None:
    """They carry results of the client's handlers: two of them must not disconnect a server that is slow to read."""
    async with Linked(server(NEVER_READS)) as linked:
        await filled_pipe(linked)
        for n in range(2):
            linked.link.send(reply(n, limits.MAX_QUEUED_BYTES + 1))
        linked.link.send(reply(2))
        assert linked.taker.lost == []


async def test_a_cancellation_that_does_not_fit_is_left_out() -> None:
    async with Linked(server(NEVER_READS)) as linked:
        await filled_pipe(linked)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        tickets = [linked.link.send(cancelled) for _ in range(limits.MAX_QUEUED + 50)]
        assert linked.taker.lost == []
        assert all(linked.link.withdraw(ticket) for ticket in tickets)
        linked.link.send(reply(1))
        assert linked.taker.lost == [], "what was withdrawn does not count"


async def test_requests_that_were_withdrawn_do_not_stay_in_the_queue() -> None:
    async with Linked(server(NEVER_READS)) as linked:
        await filled_pipe(linked)
        for _ in range(10):
            tickets = [linked.link.send({"jsonrpc": "2.0", "id": n, "method": "m"}) for n in range(1_000)]
            assert all(linked.link.withdraw(ticket) for ticket in tickets)
        assert len(linked.link._child.writer) < 3_000
        assert linked.taker.lost == []


async def test_what_the_child_reads_makes_room_again(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    async with Linked(server(LATE_ECHO, gate.path)) as linked:
        linked.link.send({"jsonrpc": "2.0", "id": 0, "method": "m", "params": {"pad": BIG}})
        for n in range(limits.MAX_QUEUED):
            linked.link.send(reply(n))
        await gate.open()
        await eventually(lambda: len(linked.taker.messages) == limits.MAX_QUEUED + 1)
        for n in range(limits.MAX_QUEUED):
            linked.link.send(reply(n))
        assert linked.taker.lost == []
