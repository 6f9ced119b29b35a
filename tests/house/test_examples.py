"""The demo server, which the documentation starts in every snippet, behaves as a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

DEMO = str(Path(__file__).parents[2] / "examples" / "demo_server.py")


def test_the_demo_server_ends_when_its_input_is_empty() -> None:
    ran = subprocess.run(
        [sys.executable, DEMO], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_demo_server_reads_requests_from_a_file(tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    requests.write_text(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}) + "\n")
    with requests.open() as file:
        ran = subprocess.run(
            [sys.executable, DEMO], stdin=file, capture_output=True, text=True, timeout=30, check=False
        )
    assert (ran.returncode, json.loads(ran.stdout)["result"], ran.stderr) == (0, {}, "")
