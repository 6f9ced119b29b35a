"""Reads settings files of Claude Code and Desktop, VS Code, Cursor, Gemini CLI and Toolcrib into server configs.

An invalid entry affects only that server: its error names file, line, key and what was expected. An invalid file
raises `ConfigError`. No server is started here.
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
