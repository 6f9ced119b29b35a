"""Arguments that are valid under a compiled schema are valid under the original once they are restored."""

from __future__ import annotations

import copy
import json
from typing import Any, get_args

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.adapters.generated import from_openapi, schemas, values
from toolcrib.adapters.schemas import Target, compile_schema

TARGETS: tuple[Target, ...] = get_args(Target)
VARIANTS: dict[str, tuple[Target, ...]] = {
    "anthropic": ("anthropic", "anthropic-strict"),
    "openai": ("openai", "openai-strict"),
    "gemini": ("gemini", "gemini-openapi"),
}


def validator(schema: Any) -> Any:
    return jsonschema_rs.validator_for(schema)


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.data(), schema=schemas())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large])
def test_restored_arguments_are_valid_unless_a_loss_says_otherwise(
    target: Target, data: st.DataObject, schema: dict[str, Any]
) -> None:
    before = json.dumps(schema)
    compiled = compile_schema(schema, target)
    assert json.dumps(schema) == before
    assert compiled == compile_schema(copy.deepcopy(schema), target)
    offered = from_openapi(compiled.schema) if target == "gemini-openapi" else compiled.schema
    check = validator(offered)  # also: it is a valid schema
    if any(loss.widens for loss in compiled.losses):
        return
    arguments = data.draw(values(offered, offered))
    assume(isinstance(arguments, dict) and check.is_valid(arguments))
    restored = compiled.restore(arguments)
    problems = [error.message for error in validator(schema).iter_errors(dict(restored))]
    assert not problems, (compiled, arguments, restored)
    assert compiled.restore(restored) == restored
