"""The state of the provider in memory: sources with their lists, and groups, as one immutable value.

It is built per source and replaced by one assignment: a request takes the reference once and uses it to its end. A
change of one source keeps the objects of all others. All lookups on the path of a call are lookups in dicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeVar

from ..types import Prompt, Resource, ResourceTemplate, Wire
from .groups import Group
from .inventory import InventoryTool, ToolState
from .source_config import SourceConfig
from .store.interface import StoredState
from .store.rows import ItemRow, PromptRow, ResourceRow, SourceRow, SourceStateRow, TemplateRow, ToolRow
from .stored_config import approval_hash, config_from_json

_R = TypeVar("_R", ToolRow, PromptRow, ResourceRow, TemplateRow)
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, eq=False)
class Source:
    """A source with what it lists. Compared by identity: an unchanged source is the same object."""

    row: SourceRow = field(repr=False)
    state: SourceStateRow | None = field(default=None, repr=False)
    records: Mapping[str, InventoryTool] = field(default_factory=dict, repr=False)
    """All tools by name, removed ones included."""
    prompt_rows: Mapping[str, ItemRow] = field(default_factory=dict, repr=False)
    resource_rows: Mapping[str, ItemRow] = field(default_factory=dict, repr=False)
    template_rows: Mapping[str, ItemRow] = field(default_factory=dict, repr=False)

    @property
    def id(self) -> str:
        """The id, which never changes."""
        return self.row.id

    @property
    def name(self) -> str:
        """The name of the registration."""
        return self.row.name

    @property
    def slug(self) -> str:
        """The name in qualified tool names."""
        return self.row.slug

    @property
    def enabled(self) -> bool:
        """Whether the source may be used."""
        return self.row.enabled

    @cached_property
    def config(self) -> SourceConfig:
        """The config, with placeholders for secrets."""
        return config_from_json(self.row.config)

    @property
    def approval_hash(self) -> str:
        """A hash over what the source executes or connects to."""
        return approval_hash(self.config)

    @property
    def protocol_version(self) -> str:
        """The protocol version of the last connection; empty before the first one."""
        return str((_NOTHING if self.state is None else self.state.server).get("protocol_version", ""))

    @property
    def generation(self) -> int:
        """Rises when the command, the URL, the environment or a credential changes."""
        return self.row.generation

    @cached_property
    def tools(self) -> tuple[InventoryTool, ...]:
        """The tools that the server lists, in its order, whatever their review state."""
        return tuple(tool for tool in self.records.values() if tool.state is not ToolState.REMOVED)

    @cached_property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts that the server lists, under its own names."""
        return tuple(Prompt.from_wire(wire) for wire in _listed(self.prompt_rows))

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that the server lists."""
        return tuple(Resource.from_wire(wire) for wire in _listed(self.resource_rows))

    @cached_property
    def resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """The resource templates that the server lists."""
        return tuple(ResourceTemplate.from_wire(wire) for wire in _listed(self.template_rows))

    @property
    def instructions(self) -> str | None:
        """The server's instructions for models."""
        given = (_NOTHING if self.state is None else self.state.server).get("instructions")
        return given if isinstance(given, str) else None

    def __repr__(self) -> str:
        return f"<Source {self.name!r} of {len(self.tools)} tools>"

    def with_tools(self, records: Iterable[InventoryTool]) -> Source:
        """Return the source with these records in place of those of the same names."""
        return replace(self, records={**self.records, **{tool.name: tool for tool in records}})


def _listed(rows: Mapping[str, ItemRow]) -> Iterable[Wire]:
    """Return the definitions that the server lists, in its order."""
    return (dict(row.definition) for row in rows.values() if not row.removed)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All sources and groups at one moment. Each method that changes something returns a new snapshot."""

    sources: Mapping[str, Source] = field(default_factory=dict, repr=False)
    """The sources by id, in the order of their registration."""
    groups: Mapping[str, Group] = field(default_factory=dict, repr=False)
    """The groups by name."""
    change: int = 0
    """The change counter of the last transaction that is included."""
    by_name: Mapping[str, Source] = field(init=False, repr=False)
    by_slug: Mapping[str, Source] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {source.name: source for source in self.sources.values()})
        object.__setattr__(self, "by_slug", {source.slug: source for source in self.sources.values()})

    @classmethod
    def from_state(cls, state: StoredState) -> Snapshot:
        """Return the snapshot of a stored state."""
        states = {row.source_id: row for row in state.states}
        tools, prompts = _by_source(state.tools), _by_source(state.prompts)
        resources, templates = _by_source(state.resources), _by_source(state.templates)
        sources = {}
        for row in sorted(state.sources, key=lambda row: (row.created_at, row.id)):
            sources[row.id] = make_source(
                row,
                states.get(row.id),
                tools=tools.get(row.id, ()),
                prompts=prompts.get(row.id, ()),
                resources=resources.get(row.id, ()),
                templates=templates.get(row.id, ()),
            )
        groups = {row.name: Group.from_rows(row, state.group_rules) for row in state.groups}
        return cls(sources, groups, state.change)

    def find_source(self, name: str) -> Source | None:
        """Return the source with this slug, name or id."""
        return self.by_slug.get(name) or self.by_name.get(name) or self.sources.get(name)

    def find_tool(self, source_id: str, name: str) -> InventoryTool | None:
        """Return a tool by the id of its source and the server's name of the tool, removed ones included."""
        source = self.sources.get(source_id)
        return None if source is None else source.records.get(name)

    def with_source(self, source: Source, change: int | None = None) -> Snapshot:
        """Return a snapshot with this source in place of the one with the same id, or after all others."""
        before = self.sources.get(source.id)
        if before is not None and before.name != source.name:
            renamed = {name: replace(tool, source=source.name) for name, tool in source.records.items()}
            source = replace(source, records=renamed)
        return replace(self, sources={**self.sources, source.id: source}, change=self._latest(change))

    def without_source(self, source_id: str, change: int | None = None) -> Snapshot:
        """Return a snapshot without a source."""
        sources = {id: source for id, source in self.sources.items() if id != source_id}
        return replace(self, sources=sources, change=self._latest(change))

    def with_group(self, group: Group, change: int | None = None) -> Snapshot:
        """Return a snapshot with this group in place of the one with the same name or id."""
        groups = {name: each for name, each in self.groups.items() if each.id != group.id}
        return replace(self, groups={**groups, group.name: group}, change=self._latest(change))

    def without_group(self, name: str, change: int | None = None) -> Snapshot:
        """Return a snapshot without a group."""
        groups = {key: group for key, group in self.groups.items() if key != name}
        return replace(self, groups=groups, change=self._latest(change))

    def _latest(self, change: int | None) -> int:
        return self.change if change is None else max(change, self.change)


def make_source(
    row: SourceRow,
    state: SourceStateRow | None = None,
    *,
    tools: Iterable[ToolRow] = (),
    prompts: Iterable[PromptRow] = (),
    resources: Iterable[ResourceRow] = (),
    templates: Iterable[TemplateRow] = (),
) -> Source:
    """Return a source of stored rows, with its lists in the order in which the server listed them."""
    order = (_NOTHING if state is None else state.server).get("order", _NOTHING)
    return Source(
        row=row,
        state=state,
        records={each.name: InventoryTool.from_row(each, row.name) for each in _ordered(tools, order.get("tools", ()))},
        prompt_rows={each.name: each for each in _ordered(prompts, order.get("prompts", ()))},
        resource_rows={each.name: each for each in _ordered(resources, order.get("resources", ()))},
        template_rows={each.name: each for each in _ordered(templates, order.get("templates", ()))},
    )


def _ordered(rows: Iterable[_R], names: Iterable[str]) -> list[_R]:
    """Return the rows in the order of these names; those with other names follow, in the order of their own."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    return sorted(rows, key=lambda row: (places.get(row.name, len(places)), row.name))


def _by_source(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.source_id, []).append(row)
    return found
