"""Settings files to server configs: those of Claude Code and Desktop, VS Code, Cursor, Gemini CLI, and our own TOML.

A server that is wrong fails alone, with an error that names file, line, key and what was expected; a broken file
raises. Nothing is ever started from here.
"""

from .discover import discover_settings
from .load import announce, load_settings, parse_settings
from .merge import SettingsDiff, diff, keep_names, merge
from .models import Overridden, ServerEntry, Settings
from .watcher import Watcher

__all__ = [
    "Overridden",
    "ServerEntry",
    "Settings",
    "SettingsDiff",
    "Watcher",
    "announce",
    "diff",
    "discover_settings",
    "keep_names",
    "load_settings",
    "merge",
    "parse_settings",
]
