"""The example agent with Strands runs against a local server that speaks Bedrock's Converse API."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.frameworks.environments import ROOT, find_python

EXPECTED: Final = """\
user   How many apples will there be, if I bring four?
model  mcp__shop__stock {'fruit': 'apples'}
tool   error: unknown fruit: apples; known: apple, pear
model  mcp__shop__stock {'fruit': 'apple'}
tool   success: 3
model  mcp__demo__add {'a': 3, 'b': 4}
tool   success: {"sum": 7}
model  There will be 7 apples.
"""

pytestmark = pytest.mark.slow


def answer(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the next message of the model: it corrects a failed call, adds, and answers with the sum."""
    results = [block["toolResult"] for message in messages for block in message["content"] if "toolResult" in block]

    def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"toolUse": {"toolUseId": f"call-{len(results)}", "name": name, "input": arguments}}

    match [result["status"] for result in results]:
        case []:
            return call("mcp__shop__stock", {"fruit": "apples"})
        case ["error"]:
            return call("mcp__shop__stock", {"fruit": "apple"})
        case ["error", "success"]:
            return call("mcp__demo__add", {"a": int(results[-1]["content"][0]["text"]), "b": 4})
        case _:
            return {"text": f"There will be {json.loads(results[-1]['content'][0]['text'])['sum']} apples."}


@pytest.fixture
def requests() -> list[dict[str, Any]]:
    """The bodies of the requests to the model."""
    return []


@pytest.fixture
def converse_url(requests: list[dict[str, Any]]) -> Iterator[str]:
    """The URL of a server that answers Converse requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(body)
            block = answer(body["messages"])
            reply = {
                "output": {"message": {"role": "assistant", "content": [block]}},
                "stopReason": "tool_use" if "toolUse" in block else "end_turn",
                "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
                "metrics": {"latencyMs": 1},
            }
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_the_agent_answers_with_the_tools_of_two_servers(
    converse_url: str, requests: list[dict[str, Any]], tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    python = find_python("strands", pytestconfig)
    environment = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": converse_url,
        "AWS_REGION": "eu-central-1",
        "AWS_SECRET_ACCESS_KEY": "test",
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    command = [python, ROOT / "examples" / "strands_agent.py"]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == EXPECTED
    names = [tool["toolSpec"]["name"] for tool in requests[0]["toolConfig"]["tools"]]
    assert {"mcp__shop__stock", "mcp__demo__add"} <= set(names)
    example = (ROOT / "examples" / "strands_agent.py").read_text()
    assert len(example.splitlines()) < 60


def test_the_page_of_examples_shows_this_output() -> None:
    assert EXPECTED in (ROOT / "examples" / "README.md").read_text()
