"""Groups: which tools they select, and under which names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.provider.kit import make_definition, make_tools
from toolcrib.errors import ConfigError, InvalidArguments
from toolcrib.provider.groups import Group, NameMode, Override, select
from toolcrib.provider.inventory import InventoryTool
from toolcrib.provider.review import set_tags


def tagged(tool: InventoryTool, *tags: str) -> InventoryTool:
    return set_tags(tool, tags).tool


GITHUB = make_tools("create_issue", "delete_repo", "search", source="GitHub MCP", id="1")
FILES = [
    tagged(tool, "safe") if tool.name == "search" else tool
    for tool in make_tools("read", "search", source="fs", id="2")
]
TOOLS = [*GITHUB, *FILES]
SLUGS = {"1": "github", "2": "fs"}


def chosen(*include: str, exclude: Any = (), mode: Any = "qualified") -> list[str]:
    group = Group("g", include=include, exclude=exclude, name_mode=mode)
    return [each.name for each in select(group, TOOLS, SLUGS) if each.hidden_by is None]


@pytest.mark.parametrize(
    "include, exclude, names",
    [
        ((), (), []),
        ((), ("fs/*",), []),
        (("github/*",), (), ["github/create_issue", "github/delete_repo", "github/search"]),
        (("source:github",), (), ["github/create_issue", "github/delete_repo", "github/search"]),
        (("source:GitHub MCP",), ("*/delete_*",), ["github/create_issue", "github/search"]),
        (("GitHub MCP/create_*",), (), ["github/create_issue"]),
        (("*/search",), ("source:fs",), ["github/search"]),
        (("tag:safe",), (), ["fs/search"]),
        (("tag:s*", "fs/read"), (), ["fs/read", "fs/search"]),
        (("*/*",), ("tag:safe", "github/*"), ["fs/read"]),
        (("search",), None, None),
    ],
)
def test_a_group_selects_by_source_tool_and_tag(include: Any, exclude: Any, names: Any) -> None:
    if names is None:
        with pytest.raises(ConfigError, match="expected a pattern"):
            Group("g", include=include)
        return
    group = Group("g", include=include, exclude=exclude)
    assert [f"{each.slug}/{each.record.name}" for each in select(group, TOOLS, SLUGS)] == names


PATTERNS = st.sampled_from(
    ["*/*", "github/*", "fs/*", "*/search", "tag:safe", "tag:*", "source:fs", "github/d*", "fs/read", "nothing/*"]
)


@settings(max_examples=100, deadline=None)
@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=4), PATTERNS)
def test_exclusion_always_wins(include: list[str], exclude: list[str], more: str) -> None:
    def found(include: list[str], exclude: list[str]) -> set[str]:
        return {
            each.record.id for each in select(Group("g", include=tuple(include), exclude=tuple(exclude)), TOOLS, SLUGS)
        }

    assert found([], exclude) == set()
    assert found(include, exclude) == found(include, []) - found(exclude, [])
    assert found([*include, more], exclude) >= found(include, exclude) >= found(include, [*exclude, more])
    assert found(include, [*exclude, "*/*"]) == set()
    assert found(include, exclude) == found(include[::-1], exclude[::-1])


def test_names_by_mode() -> None:
    assert chosen("*/*")[2:] == ["mcp__github__search", "mcp__fs__read", "mcp__fs__search"]
    assert chosen("*/*", mode="plain") == ["create_issue", "delete_repo", "search", "read"]
    assert chosen("*/*", mode="auto") == [
        "create_issue",
        "delete_repo",
        "mcp__github__search",
        "read",
        "mcp__fs__search",
    ]
    hidden = [
        each for each in select(Group("g", include=("*/*",), name_mode=NameMode.PLAIN), TOOLS, SLUGS) if each.hidden_by
    ]
    assert [(each.record.source, each.hidden_by) for each in hidden] == [("fs", "github/search")]
    assert [each.name for each in select(None, FILES)] == ["mcp__fs__read", "mcp__fs__search"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abc"), unique=True, max_size=3), max_size=4),
    st.lists(st.sampled_from("abcd"), unique=True),
)
def test_a_plain_name_never_changes_because_a_source_was_added(sources: list[list[str]], added: list[str]) -> None:
    group = Group("g", include=("*/*",), name_mode=NameMode.PLAIN)
    tools = [
        tool for place, names in enumerate(sources) for tool in make_tools(*names, source=f"s{place}", id=str(place))
    ]
    before = {each.name: each.record for each in select(group, tools) if each.hidden_by is None}
    after = {
        each.name: each.record
        for each in select(group, [*tools, *make_tools(*added, source="new", id="new")])
        if each.hidden_by is None
    }
    assert before.items() <= after.items()


def test_overrides() -> None:
    definition = make_definition("create", repo={"type": "string"}, title={"type": "string"})
    definition["inputSchema"]["required"] = ["repo", "title"]
    tools = make_tools(definition, source="github")
    override = Override(name="report_bug", description="Report a bug.", arguments={"repo": "our/app"})
    group = Group(
        "g", include=("github/*",), overrides={"github/create": override, "github/*": Override(description="x")}
    )
    (selected,) = select(group, tools)
    assert selected.name == "mcp__github__report_bug"
    assert (selected.tool.name, selected.tool.description) == ("create", "Report a bug.")
    assert selected.tool.input_schema == {
        "type": "object",
        "properties": {"title": {"type": "string"}},
        "required": ["title"],
    }
    assert selected.tool.raw["description"] == "Report a bug."
    assert definition["description"] == "Do create."  # the inventory is unchanged
    assert selected.fill({"title": "a"}) == {"title": "a", "repo": "our/app"}
    with pytest.raises(InvalidArguments, match="'repo'") as caught:
        selected.fill({"repo": "their/app"})
    assert caught.value.sent is False and len(caught.value.problems) == 1
    (other,) = select(Group("g", include=("*/*",)), tools)
    assert other.tool.description == "Do create." and other.fill({"repo": "x"}) == {"repo": "x"}


def test_a_group_is_stored_and_read() -> None:
    override = Override(name="n", arguments={"a": [1]})
    group = Group("g", "About", ("a/*", "tag:x"), ("b/*",), {"a/b": override}, NameMode.AUTO)
    row, rules = group.to_rows()
    assert Group.from_rows(row, reversed(rules)) == group
    assert [rule.kind for rule in rules] == ["include", "include", "exclude", "override"]


def test_prompts_and_resources_belong_to_a_group_with_the_whole_source() -> None:
    def allows(*include: str, exclude: Any = ()) -> bool:
        return Group("g", include=include, exclude=exclude).allows_source("GitHub MCP", "github")

    assert allows("github/*") and allows("source:git*") and allows("*/*") and allows("GitHub MCP/*")
    assert not allows() and not allows("github/a*") and not allows("tag:*")
    assert not allows("*/*", exclude=("source:github",)) and allows("*/*", exclude=("github/a",))


@pytest.mark.parametrize(
    "fields, key",
    [
        ({"name": "a b"}, "name"),
        ({"name": 3}, "name"),
        ({"description": None}, "description"),
        ({"include": "a/*"}, "include"),
        ({"include": None}, "include"),
        ({"include": ["a"]}, "include"),
        ({"include": ["/a"]}, "include"),
        ({"include": ["a/"]}, "include"),
        ({"include": ["tag:"]}, "include"),
        ({"include": [" a/b"]}, "include"),
        ({"exclude": [3]}, "exclude"),
        ({"exclude": ["a/b\x1b"]}, "exclude"),
        ({"include": ["a/b"] * 1001}, "include"),
        ({"name_mode": "short"}, "name_mode"),
        ({"overrides": []}, "overrides"),
        ({"overrides": {"tag:x": {}}}, "overrides['tag:x']"),
        ({"overrides": {"a/b": 3}}, "overrides['a/b']"),
        ({"overrides": {"a/b": {"names": "x"}}}, "overrides['a/b']"),
        ({"overrides": {"a/*": {"name": "x"}}}, "overrides['a/*'].name"),
        ({"overrides": {"a/b": {"name": ""}}}, "overrides['a/b'].name"),
        ({"overrides": {"a/b": {"description": 3}}}, "overrides['a/b'].description"),
        ({"overrides": {"a/b": {"arguments": ["x"]}}}, "overrides['a/b'].arguments"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Group(**{"name": "g", **fields})
    assert caught.value.key == key and caught.value.expected
    assert caught.value.message.startswith(key.partition("[")[0])
