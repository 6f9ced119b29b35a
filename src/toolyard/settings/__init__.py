"""Settings files to server configs: those of Claude Code and Desktop, VS Code, Cursor, Gemini CLI, and our own TOML.

A server that is wrong fails alone, with an error that names file, line, key and what was expected; a broken file
raises. Nothing is ever started from here.
"""

from .discover import discover_settings
from .merging import Difference, diff, keep_names, merge
from .reading import announce, load_settings, parse_settings
from .values import Overridden, ServerEntry, Settings
from .watching import Watcher

__all__ = [
    "Difference",
    "Overridden",
    "ServerEntry",
    "Settings",
    "Watcher",
    "announce",
    "diff",
    "discover_settings",
    "keep_names",
    "load_settings",
    "merge",
    "parse_settings",
]
