"""The published schemas and example messages of the protocol."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

SPEC = Path(__file__).parents[1] / "data" / "spec"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
EXAMPLES = SPEC / MODERN / "examples"


def example(path: str) -> Any:
    """Return the example `Type/name`."""
    return json.loads((EXAMPLES / f"{path}.json").read_text())


def examples(kind: str) -> list[Any]:
    found = [json.loads(path.read_text()) for path in sorted((EXAMPLES / kind).iterdir())]
    assert found, f"no examples of {kind}"
    return found


@cache
def _schema(revision: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SPEC / revision / "schema.json").read_text())
    return loaded


@cache
def _validator(revision: str, definition: str) -> Any:
    schema = _schema(revision)
    assert definition in schema["$defs"], f"{revision} does not define {definition}"
    return jsonschema_rs.validator_for({**schema, "$ref": f"#/$defs/{definition}"})


def faults(revision: str, definition: str, message: Any) -> list[str]:
    """Return the violations of the schema of that revision; empty if the message is valid."""
    return [
        f"{'/'.join(map(str, e.instance_path))}: {e.message}"
        for e in _validator(revision, definition).iter_errors(message)
    ]
