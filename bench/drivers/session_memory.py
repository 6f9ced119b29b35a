"""What open sessions of the legacy era cost a server: bytes of resident memory for each. Prints one line of JSON.

    session_memory.py PYTHON MAKE --sessions N

Twice, each time in a fresh server: sessions that were begun and left open, and sessions that each hold a connection
with their standing stream besides.
"""

import argparse
import json
import resource
import time
from contextlib import ExitStack

from http_load import Connection, Served, started
from measure import keep_apart

WARM_UP_SESSIONS = 20
STREAM = "text/event-stream"
SPARE_DESCRIPTORS = 100
SETTLED = 0.3


def begin(served: Served, count: int) -> None:
    """So many sessions, one after the other on one connection."""
    connection = Connection(served.port, "legacy")
    for _ in range(count):
        connection.said.pop("Mcp-Session-Id", None)
        connection.begin()
        if "Mcp-Session-Id" not in connection.said:
            raise AssertionError("the server gave no session")
    connection.socket.close()


def begin_listening(served: Served, count: int, stack: ExitStack) -> None:
    """So many sessions, each with its standing stream on a connection of its own."""
    for _ in range(count):
        connection = Connection(served.port, "legacy")
        stack.callback(connection.socket.close)
        connection.begin()
        connection.socket.sendall(connection.head("GET", Accept=STREAM))
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.received()
        if not answer.startswith(b"HTTP/1.1 200 ") or STREAM.encode() not in answer:
            raise AssertionError(f"there is no standing stream: {answer!r}")


def grown(options: argparse.Namespace, placed: list[str], *, listening: bool) -> float:
    """Bytes for each session."""
    with started(options.python, options.make, *placed) as served, ExitStack() as stack:
        served.await_listening()
        sizes = []
        for count in (WARM_UP_SESSIONS, options.sessions):
            if listening:
                begin_listening(served, count, stack)
            else:
                begin(served, count)
            time.sleep(SETTLED)  # what the last answers left behind is cleared away
            sizes.append(served.resident())
    return (sizes[1] - sizes[0]) / options.sessions


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("make")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--free", action="store_true", help="leave the placing of the processes to the scheduler")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = options.sessions + WARM_UP_SESSIONS + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))  # a server that is started here inherits it
    placed = keep_apart(options)
    print(json.dumps({"idle": grown(options, placed, listening=False), "open": grown(options, placed, listening=True)}))


if __name__ == "__main__":
    main()
