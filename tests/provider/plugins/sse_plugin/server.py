"""Runs the server of python_plugin over SSE, on the port in PORT."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

sys.argv[1:] = ["sse"]
runpy.run_path(str(Path(__file__).parents[1] / "python_plugin" / "server.py"), run_name="__main__")
