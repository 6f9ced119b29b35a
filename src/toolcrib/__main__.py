"""`toolcrib`, and `python -m toolcrib`: the command line, if it is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line and leave with its exit code."""
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        sys.exit(f"The command line needs {' and '.join(missing)}, the extra `cli`: pip install click rich")
    try:
        from .cli.app import run  # noqa: PLC0415  # needs the extra that was just looked for

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:  # so early that no command was there to take it
        sys.exit(130)


if __name__ == "__main__":
    main()
