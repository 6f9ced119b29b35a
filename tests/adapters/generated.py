"""Hypothesis strategies: schemas as servers may send them, and arguments for a compiled schema."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "x y", "input", "kind", "größe")
PATTERNS = ("^a", "b$", "^[a-c]{1,3}$", "^(?!x)")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([0.5, 1.0, 2.5]),
    st.sampled_from(["", "a", "ab", "1"]),
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
)


# ---- schemas -------------------------------------------------------------------------------------------------------


@st.composite
def strings(draw: st.DrawFn) -> dict[str, Any]:
    return draw(
        st.fixed_dictionaries(
            {"type": st.just("string")},
            optional={
                "minLength": st.integers(0, 2),
                "maxLength": st.integers(2, 4),
                "pattern": st.sampled_from(PATTERNS),
                "format": st.sampled_from(["date-time", "uri", "int64", "other"]),
                "enum": st.lists(st.sampled_from(["a", "ab", "1", "true"]), min_size=1, unique=True),
                "default": st.just("a"),
            },
        )
    )


@st.composite
def numbers(draw: st.DrawFn) -> dict[str, Any]:
    return draw(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["integer", "number"])},
            optional={
                "minimum": st.integers(-2, 0),
                "exclusiveMinimum": st.sampled_from([-1, 0, 0.5]),
                "maximum": st.integers(2, 4),
                "exclusiveMaximum": st.sampled_from([3, 4, 4.5]),
                "multipleOf": st.sampled_from([1, 2, 0.5]),
            },
        )
    )


FIXED = st.one_of(
    st.fixed_dictionaries({"const": SCALARS}),
    st.fixed_dictionaries({"enum": st.lists(SCALARS, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"type": st.just("integer"), "enum": st.just([1, 2])}),
)
REFERENCES = st.fixed_dictionaries(
    {"$ref": st.sampled_from(["#/$defs/A", "#/$defs/B", "#"])}, optional={"description": st.just("text")}
)
LEAVES = st.one_of(
    strings(),
    numbers(),
    FIXED,
    REFERENCES,
    st.sampled_from([True, {}, {"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}]),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                [["string", "integer"], ["integer", "null"], ["object", "null"], ["array", "string"]]
            )
        },
        optional={"minimum": st.just(0), "maxLength": st.just(2), "enum": st.just(["a", 1, None])},
    ),
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects whose properties have these schemas."""
    names = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)},
        optional={
            "required": names,
            "additionalProperties": st.one_of(st.booleans(), inner),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(2, 4),
            "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=1),
            "patternProperties": st.fixed_dictionaries({"^x": inner}),
            "propertyNames": st.just({"maxLength": 4}),
            "title": st.just("Title"),
            "unevaluatedProperties": st.just(False),
        },
    ).map(_less_often)


def _less_often(schema: dict[str, Any]) -> dict[str, Any]:
    """Return an object with fewer rare keywords, so that many objects can be strict."""
    rare = ("dependentRequired", "patternProperties", "propertyNames", "unevaluatedProperties", "minProperties")
    dropped = rare if len(schema.get("properties", {})) != 1 else rare[1:3]
    return {key: value for key, value in schema.items() if key not in dropped}


def arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(2, 3),
            "uniqueItems": st.booleans(),
        },
    )


def combinations(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    branches = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({"anyOf": branches}, optional={"description": st.just("text")}),
        st.fixed_dictionaries({"oneOf": branches}),
        st.fixed_dictionaries({"allOf": branches}),
        st.tuples(
            objects(inner), st.sampled_from(["anyOf", "oneOf"]), st.lists(objects(inner), min_size=1, max_size=2)
        ).map(lambda parts: {**parts[0], parts[1]: parts[2]}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner}),
    )


SUBSCHEMAS = st.recursive(
    LEAVES, lambda inner: st.one_of(objects(inner), objects(inner), arrays(inner), combinations(inner)), max_leaves=8
)


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Return a schema with definitions, of which some contain themselves."""
    root = draw(st.one_of(objects(SUBSCHEMAS), objects(SUBSCHEMAS), combinations(objects(SUBSCHEMAS))))
    definitions = {"A": draw(objects(LEAVES)), "B": draw(st.one_of(strings(), objects(LEAVES), arrays(LEAVES)))}
    return {**root, "$defs": definitions}


# ---- arguments -----------------------------------------------------------------------------------------------------


def from_openapi(schema: Any) -> Any:
    """Return JSON Schema for a schema in the OpenAPI subset of Gemini."""
    if isinstance(schema, list):
        return [from_openapi(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: from_openapi(each) for name, each in value.items()}
        elif key == "type":
            found[key] = value.lower()
        elif key in ("enum", "default", "required"):
            found[key] = value
        elif key != "nullable":
            found[key] = from_openapi(value)
    return {"anyOf": [found, {"type": "null"}]} if schema.get("nullable") else found


@st.composite
def values(draw: st.DrawFn, schema: Any, root: Any, depth: int = 0) -> Any:
    """Return a value that often matches a compiled schema."""
    if not isinstance(schema, dict) or not schema or depth > 6:
        return draw(JSON if depth < 4 else SCALARS)
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        return draw(values(root["$defs"][name], root, depth + 1))
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema and (word != "allOf" or "type" not in schema):
            branch = draw(st.sampled_from(schema[word]))
            if branch.keys().isdisjoint({"type", "properties", "anyOf", "oneOf", "$ref"}):
                branch = {**{key: value for key, value in schema.items() if key != word}, **branch}
            elif "properties" in schema:
                branch = {**branch, "properties": {**schema["properties"], **branch.get("properties", {})}}
            return draw(values(branch, root, depth + 1))
    named = schema.get("type", "object" if "properties" in schema else None)
    kind = draw(st.sampled_from(named)) if isinstance(named, list) else named
    if kind == "object":
        return draw(_object_values(schema, root, depth))
    if kind == "array":
        return draw(_array_values(schema, root, depth))
    scalars = {
        "string": st.sampled_from(["", "a", "ab", "abc", "b", "xyz", "1", "true"]),
        "integer": st.integers(-3, 5),
        "number": st.sampled_from([-1, 0, 0.5, 1, 2, 2.5, 3, 4]),
        "boolean": st.booleans(),
        "null": st.none(),
    }
    return draw(scalars.get(kind, SCALARS))


@st.composite
def _object_values(draw: st.DrawFn, schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
    found = {}
    required = schema.get("required", [])
    for name, inner in schema.get("properties", {}).items():
        if name in required or draw(st.booleans()):
            found[name] = draw(values(inner, root, depth + 1))
    for name in required:
        if name not in found:
            found[name] = draw(SCALARS)
    rest = schema.get("additionalProperties", True)
    if rest is not False and draw(st.integers(0, 3)) == 0:
        found[draw(st.sampled_from([*NAMES, "other"]))] = draw(values(rest, root, depth + 1))
    return found


@st.composite
def _array_values(draw: st.DrawFn, schema: dict[str, Any], root: Any, depth: int) -> list[Any]:
    count = draw(st.integers(schema.get("minItems", 0), max(schema.get("minItems", 0), schema.get("maxItems", 2))))
    prefix = schema.get("prefixItems", [])
    items = [prefix[index] if index < len(prefix) else schema.get("items", {}) for index in range(count)]
    return [draw(values(inner, root, depth + 1)) for inner in items]
