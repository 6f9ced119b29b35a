"""The snapshot: built from stored rows, changed per source."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.provider.kit import make_snapshot_source, make_source_row, make_state_row, make_tools
from toolcrib.provider.groups import Group
from toolcrib.provider.inventory import ToolState, diff_items
from toolcrib.provider.snapshot import Snapshot
from toolcrib.provider.store.interface import StoredState
from toolcrib.provider.store.rows import PromptRow, ResourceRow, TemplateRow


def test_a_stored_state_is_read() -> None:
    rows = [make_source_row("b", at=2.0), make_source_row("a", name="The A", at=1.0)]
    tools = make_tools("x", "y", source="The A", id="id-a")
    removed = replace(tools[1], state=ToolState.REMOVED, state_before_removal=ToolState.ACTIVE)
    prompts = diff_items(PromptRow, (), [{"name": "p"}], source_id="id-a", now=1.0).rows.values()
    resources = diff_items(ResourceRow, (), [{"uri": "r://1"}], source_id="id-b", now=1.0).rows.values()
    templates = diff_items(TemplateRow, (), [{"uriTemplate": "r://{x}"}], source_id="id-b", now=1.0).rows.values()
    group = Group("g", include=("a/*",))
    group_row, rules = group.to_rows()
    snapshot = Snapshot.from_state(
        StoredState(
            change=5,
            sources=rows,
            states=[make_state_row("id-a", "failed", "exit code 1")],
            tools=[tool.to_row() for tool in (tools[0], removed)],
            prompts=list(prompts),  # type: ignore[arg-type]  # rows of the class that was given
            resources=list(resources),  # type: ignore[arg-type]
            templates=list(templates),  # type: ignore[arg-type]
            groups=[group_row],
            group_rules=rules,
        )
    )
    assert [source.slug for source in snapshot.sources.values()] == ["a", "b"]
    a, b = snapshot.by_slug["a"], snapshot.by_slug["b"]
    assert snapshot.find_source("The A") is snapshot.find_source("a") is snapshot.find_source("id-a") is a
    assert snapshot.find_source("c") is None
    assert a.tools == (tools[0],) and snapshot.find_tool("id-a", "y") == removed
    assert snapshot.find_tool("id-c", "x") is None
    assert ([each.name for each in a.prompts], a.instructions, a.generation) == (["p"], "Be brief.", 1)
    assert [each.uri for each in b.resources] == ["r://1"]
    assert [each.uri_template for each in b.resource_templates] == ["r://{x}"]
    assert b.instructions is None
    assert snapshot.groups == {"g": group} and snapshot.change == 5


def test_a_change_keeps_the_other_parts() -> None:
    a, b = make_snapshot_source("a", ["x"]), make_snapshot_source("b", ["y"])
    first = Snapshot().with_source(a, change=1).with_source(b, change=2)
    assert list(first.sources.values()) == [a, b]
    changed = first.with_source(a.with_tools([replace(a.records["x"], enabled=False)]), change=3)
    assert changed.sources[b.id] is b and first.sources[a.id] is a
    assert (first.change, changed.change, changed.with_source(a, change=2).change) == (2, 3, 3)
    renamed = changed.with_source(replace(a, row=replace(a.row, name="New")))
    assert renamed.by_name["New"].records["x"].source == "New" and "a" not in renamed.by_name
    assert list(renamed.without_source(a.id).sources) == [b.id]
    group = Group("g", include=("a/*",))
    grouped = renamed.with_group(group)
    assert grouped.sources is renamed.sources
    assert list(grouped.with_group(replace(group, name="h")).groups) == ["h"]
    assert grouped.without_group("g").groups == {}


def test_a_source_is_shown_with_its_name_and_its_number_of_tools() -> None:
    assert repr(make_snapshot_source("a", ["x", "y"])) == "<Source 'a' of 2 tools>"
