"""Package runners: commands such as `npx` and `uvx` that may download a server before they start it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final

_SUBCOMMANDS: Final[Mapping[str, frozenset[str]]] = {
    "npx": frozenset(),
    "pnpx": frozenset(),
    "bunx": frozenset(),
    "uvx": frozenset(),
    "pipx": frozenset(),
    "docker": frozenset(),
    "podman": frozenset(),
    "uv": frozenset({"run"}),
    "npm": frozenset({"exec", "x"}),
    "pnpm": frozenset({"dlx"}),
    "yarn": frozenset({"dlx"}),
    "bun": frozenset({"x"}),
}
"""Package runners and the subcommands, one of which the arguments must contain; an empty set means any."""


def may_download(command: str, args: Sequence[str] = ()) -> bool:
    """Return whether starting this command may download a package or an image first.

    Recognises npx, pnpx, bunx, uvx, pipx, docker and podman, `uv run`, `uv tool run`, `npm exec`, `pnpm dlx`,
    `yarn dlx` and `bun x`, by name or path, also behind `env NAME=VALUE`. Options may precede the subcommand, so the
    subcommand is searched for among all arguments up to `--`: an argument that only looks like one counts too.
    """
    words = [command, *args]
    if PurePath(command).name == "env":
        words = words[1:]
        while words and (words[0].startswith("-") or "=" in words[0]):
            words = words[1:]
    if not words:
        return False
    required = _SUBCOMMANDS.get(PurePath(words[0]).name)
    if not required:
        return required is not None
    head = words[1 : words.index("--")] if "--" in words else words[1:]
    return not required.isdisjoint(head)
