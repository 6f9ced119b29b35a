"""Measures `tools/call` over HTTP: starts all servers, then loads each in turn. Prints one line of JSON.

    served_calls.py --servers '{"NAME": {"command": ["PYTHON", "MAKE", "--plain"], "modes": ["auto", "legacy"]}, ...}'

An idle server uses no processor time, so all servers run through all rounds and are warm.
"""

import argparse
import json
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from http_load import Served, connected, load, started
from measure import keep_apart


def measure(servers: dict[str, Served], options: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Return era -> rounds -> server -> figures."""
    figures: dict[str, list[dict[str, Any]]] = {}
    for mode in ("auto", "legacy"):
        figures[mode] = []
        speakers = [name for name in servers if mode in options.servers[name]["modes"]]
        for number in range(options.rounds):
            # Every second round is reversed, so that no server always follows the same one.
            order = reversed(speakers) if number % 2 else speakers
            found = {name: one_load(servers[name], mode, options) for name in order}
            figures[mode].append({name: found[name] for name in speakers})
    return figures


def one_load(served: Served, mode: str, options: argparse.Namespace) -> dict[str, float]:
    with connected(served, mode, options.connections) as connections:
        return asdict(load(served, connections, options.warm_up, options.seconds))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", type=json.loads, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--warm-up", type=int, default=200, help="answers before each measurement")
    parser.add_argument("--free", action="store_true", help="do not pin processes to processors")
    options = parser.parse_args()
    placed = keep_apart(options)
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(started(*each["command"], *placed)) for name, each in options.servers.items()
        }
        for served in servers.values():
            served.await_listening()
        print(json.dumps(measure(servers, options)))


if __name__ == "__main__":
    main()
