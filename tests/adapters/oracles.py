"""Judges compiled schemas by the SDKs of the providers, offline; prints the problems as JSON.

Runs in an environment of its own: `bash scripts/frameworks oracles`, then
`.peers/frameworks/oracles/bin/python -m tests.adapters.oracles`.

- Gemini `parameters`: `google.genai.types.Schema` rejects unknown keywords, enums of other values than text, and lists
  of types.
- Anthropic, strict: `anthropic.transform_schema` changes what the strict mode does not accept.
- OpenAI, strict: `ensure_strict_json_schema` of the Agents SDK changes or rejects what the strict mode does not accept.
- Bedrock: botocore validates the request.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import anthropic
import boto3
from agents.strict_schema import ensure_strict_json_schema
from botocore.stub import Stubber
from google.genai import types

from tests.adapters.corpus import hard_schemas, load_corpus
from toolcrib.adapters.schemas import Target, compile_schema

PACKAGES = ("anthropic", "openai-agents", "google-genai", "boto3")
RESPONSE = {
    "output": {"message": {"role": "assistant", "content": [{"text": "text"}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
    "metrics": {"latencyMs": 1},
}
BEDROCK = boto3.client(
    "bedrock-runtime", region_name="us-east-1", aws_access_key_id="none", aws_secret_access_key="none"
)


def judge_gemini(schema: dict[str, Any]) -> None:
    types.Schema.model_validate(schema)


def judge_gemini_json(schema: dict[str, Any]) -> None:
    types.FunctionDeclaration(name="tool", parameters_json_schema=schema)


def judge_anthropic(schema: dict[str, Any]) -> None:
    transformed = anthropic.transform_schema(copy.deepcopy(schema))
    # The SDK removes a type beside an enum, where it says nothing new.
    assert transformed == remove_types_of_enums(schema), f"changed to {json.dumps(transformed)}"


def remove_types_of_enums(schema: Any) -> Any:
    if isinstance(schema, list):
        return [remove_types_of_enums(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_enum = isinstance(schema.get("enum"), list)
    return {key: remove_types_of_enums(value) for key, value in schema.items() if not (is_enum and key == "type")}


def judge_openai(schema: dict[str, Any]) -> None:
    transformed = ensure_strict_json_schema(copy.deepcopy(schema))
    assert transformed == schema, f"changed to {json.dumps(transformed)}"


def judge_bedrock(schema: dict[str, Any]) -> None:
    tools = [{"toolSpec": {"name": "tool", "inputSchema": {"json": schema}}}]
    with Stubber(BEDROCK) as stub:
        stub.add_response("converse", RESPONSE)
        messages = [{"role": "user", "content": [{"text": "text"}]}]
        BEDROCK.converse(modelId="model", messages=messages, toolConfig={"tools": tools})


ORACLES: dict[Target, Callable[[dict[str, Any]], None]] = {
    "anthropic-strict": judge_anthropic,
    "openai-strict": judge_openai,
    "gemini": judge_gemini_json,
    "gemini-openapi": judge_gemini,
    "bedrock": judge_bedrock,
}


def main() -> int:
    problems = []
    judged = dict.fromkeys(ORACLES, 0)
    for name, schema in {**load_corpus(), **hard_schemas()}.items():
        for target, judge in ORACLES.items():
            compiled = compile_schema(schema, target)
            if target.endswith("-strict") and not compiled.strict:
                continue
            judged[target] += 1
            try:
                judge(compiled.schema)
            except Exception as error:  # noqa: BLE001  # each SDK has errors of its own
                problems.append({"schema": name, "target": target, "problem": f"{type(error).__name__}: {error}"[:600]})
    versions = {package: version(package) for package in PACKAGES}
    print(json.dumps({"versions": versions, "judged": judged, "problems": problems}, indent=1))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
