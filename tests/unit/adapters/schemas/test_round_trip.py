"""Arguments that are valid under a compiled schema are valid under the original once they are restored.

`Loss.widens` says which losses are exceptions: an assertion was dropped or moved into the description, a union was
widened, a schema was replaced by one for any value, or the branch that arguments were written for cannot be known.
"""

from __future__ import annotations

import json
import re
from typing import Any, get_args

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.corpus import load_corpus
from tests.adapters.generated import from_openapi, schemas, values
from toolcrib.adapters.schemas import CompiledSchema, Target, compile_schema
from toolcrib.adapters.schemas.restoring import Restorer

TARGETS: tuple[Target, ...] = get_args(Target)
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]


def as_json_schema(compiled: CompiledSchema, target: Target) -> Any:
    return from_openapi(compiled.schema) if target == "gemini-openapi" else compiled.schema


def names_in(value: Any) -> set[str]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set(value if isinstance(value, dict) else ()).union(*map(names_in, inner))


def check(schema: Any, target: Target, data: st.DataObject, original: Any) -> None:
    """Check that arguments for the compiled schema, restored, are valid.

    Not covered: arguments with the original name of a renamed property, which an open object accepts unchecked.
    """
    compiled = compile_schema(schema, target)
    offered = as_json_schema(compiled, target)
    validator = jsonschema_rs.validator_for(offered)  # also: it is a valid schema
    if any(loss.widens for loss in compiled.losses):
        return
    arguments = data.draw(values(offered, offered), label=target)
    if not isinstance(arguments, dict) or not validator.is_valid(arguments):
        return
    assert isinstance(compiled.restore, Restorer)
    if names_in(arguments) & set(compiled.restore.names.values()):
        return
    restored = compiled.restore(arguments)
    problems = [error.message for error in original.iter_errors(dict(restored))]
    assert not problems, (target, compiled, arguments, restored)
    if not re.search('"(anyOf|oneOf)"', json.dumps(schema)):  # a restored value may fit another branch
        assert compiled.restore(restored) == restored


@given(data=st.data(), schema=schemas())
@settings(suppress_health_check=QUIET)
def test_restored_arguments_are_valid_unless_a_loss_says_otherwise(data: st.DataObject, schema: dict[str, Any]) -> None:
    original = jsonschema_rs.validator_for(schema)
    for target in TARGETS:
        check(schema, target, data, original)


@given(data=st.data(), name=st.sampled_from(sorted(load_corpus())))
@settings(suppress_health_check=QUIET)
def test_restored_arguments_of_real_tools_are_valid(data: st.DataObject, name: str) -> None:
    schema = load_corpus()[name]
    original = jsonschema_rs.validator_for(schema)
    for target in TARGETS:
        check(schema, target, data, original)
