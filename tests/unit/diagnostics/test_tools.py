from __future__ import annotations

from typing import Any

import pytest

from toolcrib.diagnostics.report import ServerReport, Verdict
from toolcrib.diagnostics.tools import MANY_TOKENS, examine_tools, same_names, untyped_parameters
from toolcrib.types import Tool


def tool(name: str, description: str = "does it", **schema: Any) -> Tool:
    return Tool.from_wire({"name": name, "description": description, "inputSchema": {"type": "object", **schema}})


def found(*tools: Tool, server: str = "one") -> ServerReport:
    checkup = ServerReport(server)
    examine_tools(checkup, server, tools)
    return checkup


def test_tools_with_descriptions_and_types_are_not_reported() -> None:
    checkup = found(tool("add", properties={"a": {"type": "number"}, "b": {"$ref": "#/$defs/B"}}))
    assert checkup.findings == []
    assert checkup.facts["tokens"] > 0


def test_tools_without_a_description_are_named() -> None:
    (finding,) = found(tool("a", ""), tool("b", " b "), tool("c")).findings
    assert (finding.step, finding.verdict) == ("descriptions", Verdict.WARNING)
    assert "a, b;" in finding.text
    assert finding.fix


@pytest.mark.parametrize(
    "properties, untyped",
    [
        ({"a": {"description": "what?"}, "b": {"enum": [1]}, "c": True}, ["a", "c"]),
        ({"a": {"anyOf": [{"type": "string"}]}, "b": {"const": 1}}, []),
        ("nonsense", []),
    ],
)
def test_parameters_without_a_type_are_found(properties: Any, untyped: list[str]) -> None:
    assert untyped_parameters({"type": "object", "properties": properties}) == untyped
    steps = [each.step for each in found(tool("t", properties=properties)).findings]
    assert steps == (["types"] if untyped else [])


@pytest.mark.parametrize("schema", [{"anyOf": [{}]}, {"type": "array"}])
def test_schemas_that_model_apis_refuse_are_named(schema: dict[str, Any]) -> None:
    (finding,) = found(tool("odd", **schema)).findings
    assert "LLM APIs reject" in finding.text
    assert "odd" in finding.text


def test_a_name_with_letters_that_model_apis_refuse_is_reported_with_its_alias() -> None:
    checkup = found(tool("get.user"))
    (finding,) = checkup.findings
    assert "get.user" in finding.text
    assert checkup.facts["aliases"]["get.user"] in finding.fix


def test_a_name_that_is_only_too_long_is_fixed_by_a_shorter_name_of_the_server() -> None:
    name = "t" * 40
    (finding,) = found(tool(name), server="a-server-with-a-long-name").findings
    assert "at most 17 characters" in finding.fix
    assert found(tool(name), server="x" * 17).findings == []


def test_a_duplicate_name_is_reported() -> None:
    (finding,) = found(tool("same"), tool("other"), tool("same")).findings
    assert finding.step == "names"
    assert "same" in finding.text
    assert "other" not in finding.text


def test_tools_that_cost_many_tokens_are_reported_with_what_can_be_done() -> None:
    long = tool("long", "word " * MANY_TOKENS)
    (finding,) = found(long).findings
    assert finding.step == "tokens"
    assert "allowed_tools" in finding.fix


def test_names_that_several_servers_have_are_found() -> None:
    assert same_names({"a": ["read", "write"], "b": ["read"], "c": ["other", "other"]}) == {"read": ["a", "b"]}


def test_many_names_are_cut_short() -> None:
    (finding,) = found(*(tool(f"t{n}", "") for n in range(9))).findings
    assert "t4 and 4 more" in finding.text
