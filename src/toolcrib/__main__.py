"""Entry point of `toolcrib` and `python -m toolcrib`: runs the command line, if it is installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec


def main() -> None:
    """Run the command line and exit with its exit code."""
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        sys.exit(f"The command line needs {' and '.join(missing)} (the extra `cli`): pip install click rich")
    try:
        from .cli.app import run  # noqa: PLC0415  # needs the packages that were just checked for

        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:  # before a command could handle it
        sys.exit(130)


if __name__ == "__main__":
    main()
