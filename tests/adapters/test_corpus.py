"""The schemas of real servers compile for every target, and the SDKs of the providers accept the results."""

from __future__ import annotations

import json
import subprocess
from typing import get_args

import jsonschema_rs
import pytest

from tests.adapters.corpus import FOLDER, hard_schemas, load_corpus
from tests.adapters.generated import from_openapi
from tests.frameworks.environments import ROOT, find_python
from toolcrib._util.schema_document import subschemas
from toolcrib.adapters.schemas import Target, compile_schema

TARGETS: tuple[Target, ...] = get_args(Target)


def test_the_corpus_has_servers_of_both_registries() -> None:
    servers = [json.loads(file.read_text()) for file in FOLDER.glob("*.json")]
    assert len(servers) >= 15
    assert {server["registry"] for server in servers} == {"npm", "PyPI"}
    assert all(server["tools"] and server["version"] for server in servers)


@pytest.mark.parametrize("target", TARGETS)
def test_every_tool_compiles(target: Target) -> None:
    for name, schema in load_corpus().items():
        compiled = compile_schema(schema, target)
        offered = from_openapi(compiled.schema) if target == "gemini-openapi" else compiled.schema
        jsonschema_rs.validator_for(offered)
        assert set(offered["properties"]) >= set(offered.get("required", ())), name


@pytest.mark.parametrize("target,share", [("openai-strict", 0.85), ("anthropic-strict", 0.85)])
def test_most_tools_can_be_strict(target: Target, share: float) -> None:
    found = [compile_schema(schema, target).strict for schema in load_corpus().values()]
    assert sum(found) / len(found) > share


@pytest.mark.nightly
def test_the_sdks_of_the_providers_accept_the_corpus(pytestconfig: pytest.Config) -> None:
    command = [str(find_python("oracles", pytestconfig)), "-m", "tests.adapters.oracles"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    assert report["problems"] == []
    assert all(count > 250 for count in report["judged"].values())


GEMINI_KEYWORDS = {
    *("$defs", "$ref", "type", "format", "description", "enum", "items", "prefixItems", "minItems", "maxItems"),
    *("minimum", "maximum", "anyOf", "properties", "additionalProperties", "required"),
}
"""What Gemini documents for `parametersJsonSchema`; no SDK checks it."""


def test_schemas_for_gemini_have_only_documented_keywords() -> None:
    for name, schema in {**load_corpus(), **hard_schemas()}.items():
        waiting = [compile_schema(schema, "gemini").schema]
        while waiting:
            node = waiting.pop()
            assert node.keys() <= GEMINI_KEYWORDS, name
            assert "$ref" not in node or len(node) == 1, name
            waiting += [part for _, _, part in subschemas(node) if isinstance(part, dict)]
