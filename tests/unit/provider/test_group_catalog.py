"""The catalog of a group, which follows the snapshot step by step, equals one that is built at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.provider.kit import make_definition, make_snapshot_source
from toolcrib.hub.toolsets import Toolsets
from toolcrib.provider.group_catalog import GroupCatalog
from toolcrib.provider.groups import Group, NameMode, Override
from toolcrib.provider.inventory import ToolState, diff_items
from toolcrib.provider.snapshot import Snapshot, Source
from toolcrib.provider.store.rows import PromptRow

SLUGS = st.sampled_from(["a", "b", "c"])
NAMES = st.lists(st.sampled_from(["x", "y", "z"]), unique=True)
GROUPS = st.builds(
    lambda include, exclude, mode, renamed: Group(
        "g",
        include=tuple(include),
        exclude=tuple(exclude),
        name_mode=mode,
        overrides={"a/x": Override(name="y")} if renamed else {},
    ),
    st.lists(st.sampled_from(["*/*", "a/*", "b/x", "source:c"]), max_size=2),
    st.lists(st.sampled_from(["a/y", "source:b"]), max_size=1),
    st.sampled_from(NameMode),
    st.booleans(),
)


@st.composite
def sources(draw: st.DrawFn) -> Source:
    tools = [make_definition(name, draw(st.sampled_from(["one", "two"]))) for name in draw(NAMES)]
    source = make_snapshot_source(draw(SLUGS), tools, enabled=draw(st.integers(0, 4)) > 0)
    prompts = [{"name": name} for name in draw(NAMES)]
    source = replace(source, prompt_rows=diff_items(PromptRow, (), prompts, source_id=source.id, now=1.0).rows)
    states = {name: draw(st.sampled_from([*ToolState, ToolState.ACTIVE])) for name in source.records}
    return source.with_tools([replace(source.records[name], state=state) for name, state in states.items()])


def contents(lists: GroupCatalog) -> dict[str, Any]:
    catalog = lists.catalog
    return {
        "tools": {name: (route.owner, route.original, route.tool) for name, route in catalog.routes.items()},
        "prompts": {name: (route.owner, route.original) for name, route in catalog.prompts.items()},
        "aliases": catalog.aliases,
        "selected": {name: (each.record, each.override) for name, each in lists.selected.items()},
        "sources": sorted(lists.slugs),
        "listed": sorted(tool.name for tool in lists.tools.tools()),
        "known": {name: catalog.server_of(f"mcp__{name}__x") for name in "abc"},
    }


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_following_equals_building_anew(data: st.DataObject) -> None:
    snapshot, group = Snapshot(), data.draw(st.none() | GROUPS)
    followed = GroupCatalog(Toolsets())
    for _ in range(data.draw(st.integers(1, 6))):
        step = data.draw(st.integers(0, 5))
        if step == 0 and snapshot.sources:
            snapshot = snapshot.without_source(data.draw(st.sampled_from(sorted(snapshot.sources))))
        elif step == 1 and group is not None:
            group = data.draw(GROUPS)
        elif step == 2 and snapshot.sources:
            source = snapshot.sources[data.draw(st.sampled_from(sorted(snapshot.sources)))]
            changed = {n: replace(t, enabled=data.draw(st.booleans())) for n, t in source.records.items()}
            snapshot = snapshot.with_source(source.with_tools(changed.values()))
        else:
            snapshot = snapshot.with_source(data.draw(sources()))
        followed.follow(snapshot.sources, group)
        assert contents(followed) == contents(GroupCatalog(Toolsets()).follow(snapshot.sources, group))
        shown = contents(followed)["tools"]
        if group is None or group.name_mode is NameMode.QUALIFIED:
            assert all(name.startswith(f"mcp__{owner.name}__") for name, (owner, _, _) in shown.items())
        for each in followed.selected.values():
            assert each.record.callable and snapshot.sources[each.record.source_id].enabled
            assert group is None or group.allows(each.record, each.slug)
