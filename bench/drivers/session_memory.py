"""Measures the resident memory of a server per open session of the legacy era. Prints bytes as one line of JSON.

    session_memory.py PYTHON MAKE --sessions N

Measures twice, each time with a new server: idle sessions, and sessions that each hold a connection with an open GET
stream.
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
SETTLE_SECONDS = 0.3


def begin(served: Served, count: int) -> None:
    """Open `count` sessions, one after the other on one connection."""
    connection = Connection(served.port, "legacy")
    for _ in range(count):
        connection.headers.pop("Mcp-Session-Id", None)
        connection.begin()
        if "Mcp-Session-Id" not in connection.headers:
            raise AssertionError("the response has no Mcp-Session-Id")
    connection.socket.close()


def begin_listening(served: Served, count: int, stack: ExitStack) -> None:
    """Open `count` sessions, each with its own connection and an open GET stream."""
    for _ in range(count):
        connection = Connection(served.port, "legacy")
        stack.callback(connection.socket.close)
        connection.begin()
        connection.socket.sendall(connection.head("GET", Accept=STREAM))
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += connection.receive()
        if not answer.startswith(b"HTTP/1.1 200 ") or STREAM.encode() not in answer:
            raise AssertionError(f"expected an event stream, got {answer!r}")


def growth(options: argparse.Namespace, placed: list[str], *, listening: bool) -> float:
    """Return the growth of the server's memory per session, in bytes."""
    with started(options.python, options.make, *placed) as served, ExitStack() as stack:
        served.await_listening()
        sizes = []
        for count in (WARM_UP_SESSIONS, options.sessions):
            if listening:
                begin_listening(served, count, stack)
            else:
                begin(served, count)
            time.sleep(SETTLE_SECONDS)  # until the server has freed the state of the last requests
            sizes.append(served.resident())
    return (sizes[1] - sizes[0]) / options.sessions


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("python")
    parser.add_argument("make")
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--free", action="store_true", help="do not pin processes to processors")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = options.sessions + WARM_UP_SESSIONS + SPARE_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))  # inherited by the server
    placed = keep_apart(options)
    print(
        json.dumps({"idle": growth(options, placed, listening=False), "open": growth(options, placed, listening=True)})
    )


if __name__ == "__main__":
    main()
