"""`x-mcp-header` and `Mcp-Param-*`: the rules and the examples of the specification of 2026-07-28."""

from __future__ import annotations

import base64
import enum
import tracemalloc
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.protocol import jsonrpc
from toolcrib.protocol.param_headers import (
    Declaration,
    InvalidDeclaration,
    declarations,
    header_value,
    parameter_headers,
)

EXECUTE_SQL = {
    "type": "object",
    "properties": {
        "region": {
            "type": "string",
            "description": "The region to execute the query in",
            "x-mcp-header": "Region",
        },
        "query": {"type": "string", "description": "The SQL query to execute"},
    },
    "required": ["region", "query"],
}
MARKED = {"type": "string", "x-mcp-header": "Region"}


def marked(name: Any = "Region", kind: Any = "string") -> dict[str, Any]:
    """Return a schema with one marked parameter `value`."""
    return {"type": "object", "properties": {"value": {"type": kind, "x-mcp-header": name}}}


def sent(value: Any, kind: str = "string") -> str | None:
    """Return the header of one call with `value`."""
    return parameter_headers(declarations(marked(kind=kind)), {"value": value}).get("Mcp-Param-Region")


def decoded(value: str) -> str:
    """Decode a header as the specification describes."""
    if value.startswith("=?base64?") and value.endswith("?="):
        return base64.b64decode(value[9:-2], validate=True).decode()
    return value


# --- declarations


def test_the_example_of_the_specification_sends_its_header() -> None:
    declared = declarations(EXECUTE_SQL)
    assert declared == (Declaration("Mcp-Param-Region", ("region",)),)
    arguments = {"region": "us-west1", "query": "SELECT * FROM users"}
    assert parameter_headers(declared, arguments) == {"Mcp-Param-Region": "us-west1"}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {"a": {"type": "string"}, "b": True}},
        {"properties": None, "items": 5, "allOf": "x", "$defs": [], "anyOf": [None, 1]},
    ],
)
def test_nearly_every_schema_declares_nothing(schema: dict[str, Any]) -> None:
    assert declarations(schema) == ()
    assert parameter_headers((), {"a": "b"}) == {}


@pytest.mark.parametrize("kind", ["string", "integer", "boolean"])
def test_strings_integers_and_booleans_may_be_mirrored(kind: str) -> None:
    assert declarations(marked(kind=kind)) == (Declaration("Mcp-Param-Region", ("value",)),)


@pytest.mark.parametrize(
    "kind", ["number", "array", "object", "null", "", None, True, ["string"], ["string", "null"], {"type": "string"}]
)
def test_no_other_type_may(kind: Any) -> None:
    with pytest.raises(InvalidDeclaration, match="'value': expected a boolean, integer or string"):
        declarations(marked(kind=kind))


def test_a_parameter_without_a_type_may_not_be_mirrored() -> None:
    for schema in ({"x-mcp-header": "A"}, {"x-mcp-header": "A", "anyOf": [{"type": "string"}, {"type": "null"}]}):
        with pytest.raises(InvalidDeclaration, match="got a NoneType"):
            declarations({"properties": {"value": schema}})


@pytest.mark.parametrize("name", ["Region", "TenantId", "Method", "a", "X-1_2.3", "!#$%&'*+-.^_`|~09azAZ"])
def test_a_name_is_a_token_of_http(name: str) -> None:
    assert declarations(marked(name)) == (Declaration(f"Mcp-Param-{name}", ("value",)),)


@pytest.mark.parametrize(
    "name",
    [
        *("", "My Region", "Region:Primary", "Région", "Region\t1", "Region\r\n", "Region\n", "\nRegion", " ", "a/b"),
        *("a(b)", "a,b", "a=b", 'a"b', "a;b", "a@b", "a[b]", "a\\b", "a{b}", "\0", "\x7f", "a\u200b", "\ud800"),
        *(None, True, 5, 10**5000, ["Region"], {"name": "Region"}),
    ],
    ids=lambda name: repr(name)[:20] if isinstance(name, str) else type(name).__name__,
)
def test_any_other_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidDeclaration, match=r"'value': .* is not a valid header name") as caught:
        declarations(marked(name))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("twin", ["Region", "REGION", "region"])
def test_names_are_unique_whatever_their_case(twin: str) -> None:
    schema = {"properties": {"a": MARKED, "b": {"properties": {"c": {"type": "integer", "x-mcp-header": twin}}}}}
    with pytest.raises(InvalidDeclaration, match=f"'b.c': '{twin}' is already used at 'a'"):
        declarations(schema)


def test_nested_properties_may_be_mirrored() -> None:
    schema = {
        "properties": {
            "where": {"type": "object", "properties": {"at": {"type": "object", "properties": {"region": MARKED}}}},
            "tenant": {"type": "string", "x-mcp-header": "Tenant"},
        }
    }
    declared = declarations(schema)
    assert set(declared) == {
        Declaration("Mcp-Param-Region", ("where", "at", "region")),
        Declaration("Mcp-Param-Tenant", ("tenant",)),
    }
    assert parameter_headers(declared, {"where": {"at": {"region": "eu"}}, "tenant": "acme", "region": "us"}) == {
        "Mcp-Param-Region": "eu",
        "Mcp-Param-Tenant": "acme",
    }


@pytest.mark.parametrize(
    "schema, where",
    [
        (MARKED, "the root of the schema"),
        ({"properties": {"a": {"type": "array", "items": MARKED}}}, "'a.items'"),
        ({"properties": {"a": {"items": [MARKED]}}}, "'a.items'"),
        ({"properties": {"a": {"items": {"properties": {"b": MARKED}}}}}, "'a.items.b'"),
        ({"properties": {"a": {"prefixItems": [{}, MARKED]}}}, "'a.prefixItems'"),
        ({"properties": {"a": {"contains": MARKED}}}, "'a.contains'"),
        ({"oneOf": [{"properties": {"a": MARKED}}]}, "'oneOf.a'"),
        ({"anyOf": [{}, {"properties": {"a": MARKED}}]}, "'anyOf.a'"),
        ({"properties": {"a": {"allOf": [MARKED]}}}, "'a.allOf'"),
        ({"not": {"properties": {"a": MARKED}}}, "'not.a'"),
        ({"if": {"properties": {"a": MARKED}}}, "'if.a'"),
        ({"then": {"properties": {"a": MARKED}}}, "'then.a'"),
        ({"else": {"properties": {"a": MARKED}}}, "'else.a'"),
        ({"$defs": {"R": MARKED}, "properties": {"a": {"$ref": "#/$defs/R"}}}, "'$defs.R'"),
        ({"definitions": {"R": {"properties": {"a": MARKED}}}}, "'definitions.R.a'"),
        ({"additionalProperties": MARKED}, "'additionalProperties'"),
        ({"patternProperties": {"^a": MARKED}}, "'patternProperties.^a'"),
        ({"dependentSchemas": {"a": {"properties": {"b": MARKED}}}}, "'dependentSchemas.a.b'"),
    ],
)
def test_a_property_that_is_not_reached_by_properties_alone_may_not(schema: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        declarations(schema)
    assert str(caught.value).startswith(f"x-mcp-header at {where}: allowed only for properties")


@pytest.mark.parametrize("keyword", ["default", "const", "enum", "examples", "example", "x-other"])
def test_the_word_in_data_is_not_a_declaration(keyword: str) -> None:
    assert declarations({"properties": {"a": {keyword: {"x-mcp-header": "A"}}}, keyword: [{"x-mcp-header": ""}]}) == ()


def test_a_parameter_may_have_the_name_of_the_annotation() -> None:
    assert declarations({"properties": {"x-mcp-header": {"type": "number"}}}) == ()
    schema = {"properties": {"x-mcp-header": MARKED, "properties": {"properties": {"items": {"type": "string"}}}}}
    assert declarations(schema) == (Declaration("Mcp-Param-Region", ("x-mcp-header",)),)


def test_a_deep_schema_is_read_without_recursion_nor_a_whole_path_for_each_leaf() -> None:
    deep: dict[str, Any] = {"type": "string", "x-mcp-header": "Deep"}
    for _ in range(3000):
        deep = {"properties": {"a": deep, "b": {}, "c": {}}}
    tracemalloc.start()
    try:
        assert declarations(deep) == (Declaration("Mcp-Param-Deep", ("a",) * 3000),)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000  # whole paths are ten times as much


def test_hostile_names_cannot_disturb_the_error_message() -> None:
    with pytest.raises(InvalidDeclaration) as caught:
        declarations({"properties": {"\x1b[31m\u202e" + "x" * 10_000: {"type": "number", "x-mcp-header": "A"}}})
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


# --- values


@pytest.mark.parametrize(
    "value, header",
    [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        (" us-west1", "=?base64?IHVzLXdlc3Qx?="),
        ("us-west1 ", "=?base64?dXMtd2VzdDEg?="),
        (" us-west1 ", "=?base64?IHVzLXdlc3QxIA==?="),
        ("us west 1", "us west 1"),
        ("日本語", "=?base64?5pel5pys6Kqe?="),
        ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
        ("\tindented", "=?base64?CWluZGVudGVk?="),
        ("", ""),
        ("my-tool_name", "my-tool_name"),
        ("file:///projects/myapp/config.json", "file:///projects/myapp/config.json"),
        ("file:///path/to/file%20name.txt", "file:///path/to/file%20name.txt"),
        ("https://example.com/resource?id=123", "https://example.com/resource?id=123"),
        # The markers count only together, in lower case.
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
    ],
)
def test_a_value_is_itself_or_base64_between_the_markers(value: str, header: str) -> None:
    assert header_value(value) == header
    assert sent(value) == header


@pytest.mark.parametrize("character", ["\0", "\t", "\r", "\n", "\x1f", "\x7f", "\x80", "\u00a0", "é", "\u2028", "😀"])
def test_no_character_that_a_header_cannot_carry_is_sent_plain(character: str) -> None:
    value = f"a{character}b"
    assert header_value(value).startswith("=?base64?")
    assert decoded(header_value(value)) == value


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.from_regex(r"\A=\?base64\?.*\?=\Z"))
def test_every_text_comes_back_and_its_header_is_safe(value: str) -> None:
    header = header_value(value)
    assert header.isascii() and header.isprintable() and header == header.strip()
    assert decoded(header) == value


@pytest.mark.parametrize(
    "value, kind, header",
    [
        (True, "boolean", "true"),
        (False, "boolean", "false"),
        (42, "integer", "42"),
        (-7, "integer", "-7"),
        (0, "integer", "0"),
        (42.0, "integer", "42"),
        (2**53 - 1, "integer", "9007199254740991"),
        # Out of the safe range, or of another type: the server refuses it, and must not blame a missing header.
        (2**64, "integer", "18446744073709551616"),
        (3.14159, "integer", "3.14159"),
        ("42", "integer", "42"),
        (True, "string", "true"),
        (5, "string", "5"),
    ],
)
def test_booleans_and_numbers_are_written_as_in_json(value: Any, kind: str, header: str) -> None:
    assert sent(value, kind) == header


def test_an_absent_or_null_value_has_no_header() -> None:
    declared = declarations(EXECUTE_SQL)
    assert parameter_headers(declared, {"query": "SELECT 1"}) == {}
    assert parameter_headers(declared, {"region": None, "query": "SELECT 1"}) == {}
    assert parameter_headers(declared, {}) == {}


@pytest.mark.parametrize("where", [None, "eu", 5, True, [], ["region"], {}, {"region": None}, {"at": "eu"}, object()])
def test_a_way_that_ends_early_has_no_header(where: Any) -> None:
    declared = declarations({"properties": {"where": {"properties": {"region": MARKED}}}})
    assert parameter_headers(declared, {"where": where}) == {}


class Region(enum.Enum):
    WEST = "us-west1"


class TextRegion(str, enum.Enum):  # noqa: UP042 - not StrEnum: its own str() says "TextRegion.WEST"
    WEST = "us-west1"


class Priority(enum.IntEnum):
    HIGH = 9


class Spoken(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


@pytest.mark.parametrize(
    "value, header",
    [
        (Region.WEST, "us-west1"),
        (TextRegion.WEST, "us-west1"),
        (Priority.HIGH, "9"),
        (Spoken("us-west1"), "us-west1"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_header_says_what_the_body_says(value: Any, header: str) -> None:
    assert jsonrpc.decode(jsonrpc.encode({"value": value}))["value"] in {header, 9}
    assert sent(value) == header
    assert type(sent(value)) is str


def endless() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize(
    "value",
    [[], ["a"], {}, {"a": 1}, (1, 2), {1, 2}, b"bytes", object(), 10**5000, endless(), print, 1j],
    ids=lambda value: type(value).__name__,
)
def test_what_no_header_can_say_has_none_and_never_raises(value: Any) -> None:
    assert sent(value) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", "a\udc00b", 1e300, -0.0])
def test_an_odd_value_never_raises_and_its_header_is_safe(value: Any) -> None:
    header = sent(value)
    assert header is not None
    assert header.isascii() and header.isprintable()


ARGUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["region", "a", "b"]), inner),
)


@given(st.dictionaries(st.sampled_from(["region", "a", "b"]), ARGUMENTS))
def test_no_arguments_make_it_raise(arguments: dict[str, Any]) -> None:
    declared = (Declaration("Mcp-Param-A", ("a",)), Declaration("Mcp-Param-R", ("a", "region")))
    for header in parameter_headers(declared, arguments).values():
        assert header.isascii() and header.isprintable() and header == header.strip()
