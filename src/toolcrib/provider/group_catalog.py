"""The tools, prompts and resources of one group under their names, shared by all views of that group.

The catalog follows the snapshot: only sources that are other objects than before are read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from .. import tool_names
from ..catalog.routing import Catalog, Route
from ..hub.access import Access
from ..hub.toolsets import Toolsets
from ..hub.visible_tools import VisibleTools
from ..policy.permissions import Permissions
from ..types import Tool
from .groups import Group, NameMode, SelectedTool, assign_names, choose
from .snapshot import Source

_KINDS: Final = ("tools", "prompts", "resources", "resource_templates")


@dataclass(frozen=True, slots=True)
class SourceOwner:
    """The source of a route; it stays the same when the source changes."""

    id: str
    name: str
    """The slug of the source, which is its name in qualified names."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a group offers of one source, under its names."""

    source: Source
    chosen: list[SelectedTool]
    """The tools that the group selects, under their own names, whatever their state."""
    named: list[SelectedTool]
    prompt_names: Mapping[str, str]
    """The names of the prompts in the group, by the server's names; those that are hidden are left out."""
    whole: bool
    """Whether the group has the prompts, resources and templates, too."""

    @property
    def visible(self) -> bool:
        """Whether callers may know that the source exists."""
        return self.source.enabled and (self.whole or bool(self.chosen))


class GroupCatalog:
    """The lists of one group, or of all sources (None), for any principal."""

    def __init__(self, toolsets: Toolsets) -> None:
        access = Access(Permissions(None, None, None), None, can_ask=False)

        def judge(route: Route[SourceOwner]) -> None:
            access.judge(route, None)

        self._toolsets = toolsets
        self._access, self._judge = access, judge
        self._group: Group | None = None
        self._sources: Mapping[str, Source] = {}
        self._taken: Collection[str] = ()
        self._listed: dict[str, _Listed] = {}
        self._names: dict[tuple[str, str, str], str] = {}
        # By slug and identity; each entry keeps its object alive, so that no other object has the same identity.
        self._made: dict[str, dict[int, tuple[SelectedTool, Tool]]] = {}
        self.selected: dict[str, SelectedTool] = {}
        """The tools that callers can see, by their names in the group."""
        self.catalog: Catalog[SourceOwner] = Catalog(judge, self._name)
        self.tools = VisibleTools(self.catalog, access, toolsets, "this view")

    def follow(
        self, sources: Mapping[str, Source], group: Group | None, taken: Collection[str] = frozenset()
    ) -> GroupCatalog:
        """Bring the lists up to date. Names in `taken` belong to other tools. Returns the catalog itself."""
        if sources is self._sources and group is self._group and taken == self._taken:
            return self
        before, slugs = self._listed, {id: source.slug for id, source in sources.items()}
        regrouped = group is not self._group or taken != self._taken
        kept_slugs = all(slugs.get(id, each.source.slug) == each.source.slug for id, each in before.items())
        reordered = [id for id in before if id in slugs] != [id for id in slugs if id in before]
        if regrouped or not kept_slugs or reordered:
            self._restart()
            before = {}
        after = self._list(sources, group, taken, before)
        self._put(before, after)
        self._sources, self._group, self._taken, self._listed = sources, group, taken, after
        return self

    def find_source(self, name: str) -> Source | None:
        """Return the visible source with this slug or name."""
        found = None
        for each in self._listed.values():
            if each.visible and each.source.slug == name:
                return each.source
            if each.visible and each.source.name == name:
                found = each.source
        return found

    def has_whole_source(self, source_id: str) -> bool:
        """Whether the prompts and resources of a source belong to the group."""
        each = self._listed.get(source_id)
        return each is not None and each.visible and each.whole

    @property
    def slugs(self) -> list[str]:
        """The slugs of the visible sources."""
        return [each.source.slug for each in self._listed.values() if each.visible]

    def find_selected(self, name: str) -> SelectedTool | None:
        """Return a tool that the group selects, by its name in the group, whatever its state; for explanations."""
        named = [tool for each in self._listed.values() for tool in each.named if tool.name == name]
        return next((tool for tool in named if tool.hidden_by is None), named[0] if named else None)

    # ---- following the snapshot ------------------------------------------------------------------------------

    def _restart(self) -> None:
        for slug in [each.source.slug for each in self._listed.values()]:
            self.catalog.drop(slug)
        self._listed, self._names, self._made, self.selected = {}, {}, {}, {}

    def _list(
        self,
        sources: Mapping[str, Source],
        group: Group | None,
        taken: Collection[str],
        before: Mapping[str, _Listed],
    ) -> dict[str, _Listed]:
        mode = NameMode.QUALIFIED if group is None else group.name_mode
        listed = {}
        for id, source in sources.items():
            known = before.get(id)
            if known is not None and known.source is source:
                listed[id] = known
                continue
            chosen = _choose_again(group, source, [] if known is None else known.chosen)
            whole = group is None or group.allows_source(source.name, source.slug)
            named = _qualify(group, chosen, [] if known is None else known.named) if mode is NameMode.QUALIFIED else []
            prompts = {each.name: tool_names.make(source.slug, each.name) for each in source.prompts if each.name}
            listed[id] = _Listed(source, chosen, named, prompts if whole else {}, whole)
        return listed if mode is NameMode.QUALIFIED and not taken else _name_all(listed, mode, taken)

    def _put(self, before: Mapping[str, _Listed], after: Mapping[str, _Listed]) -> None:
        for id in before.keys() - after.keys():
            self._forget(before[id])
            self._made.pop(before[id].source.slug, None)
            self.catalog.drop(before[id].source.slug)
        changed = [each for id, each in after.items() if before.get(id) is not each]
        for each in changed:
            known = before.get(each.source.id)
            if known is not None:
                if _is_renamed(known, each):
                    # The catalog keeps the name of a tool that did not change, and two sources may exchange a name.
                    for kind in _KINDS[:2]:
                        self.catalog.put(each.source.slug, kind, ())
                self._forget(known)
        for each in changed:
            self._put_source(each, is_new=each.source.id not in before)

    def _put_source(self, listed: _Listed, *, is_new: bool) -> None:
        source = listed.source
        if not is_new and not listed.visible:
            self.catalog.drop(source.slug)  # errors must not name it
            return
        if not listed.visible:
            return
        if is_new or not self.catalog.has(source.slug):
            self.catalog.add(source.slug, SourceOwner(source.id, source.slug))
        shown = [each for each in listed.named if each.hidden_by is None and each.record.callable]
        for each in shown:
            self._names["tool", source.slug, each.record.name] = each.name
            self.selected[each.name] = each
        for name, final in listed.prompt_names.items():
            self._names["prompt", source.slug, name] = final
        made = self._made.get(source.slug, {})
        tools = {id(each): made.get(id(each)) or (each, each.tool) for each in shown}
        self._made[source.slug] = tools
        self.catalog.put(source.slug, "tools", [tool for _, tool in tools.values()])
        lists: dict[str, tuple[Any, ...]] = {
            "prompts": tuple(prompt for prompt in source.prompts if prompt.name in listed.prompt_names),
            "resources": source.resources if listed.whole else (),
            "resource_templates": source.resource_templates if listed.whole else (),
        }
        for kind, items in lists.items():
            self.catalog.put(source.slug, kind, items)

    def _forget(self, listed: _Listed) -> None:
        slug = listed.source.slug
        for each in listed.named:
            self._names.pop(("tool", slug, each.record.name), None)
            if (shown := self.selected.get(each.name)) is not None and shown.record.source_id == listed.source.id:
                del self.selected[each.name]
        for name in listed.prompt_names:
            self._names.pop(("prompt", slug, name), None)

    def _name(self, kind: Literal["tool", "prompt"], server: str, name: str) -> str:
        return self._names[kind, server, name]


def _choose_again(group: Group | None, source: Source, before: list[SelectedTool]) -> list[SelectedTool]:
    """Return the tools of a source that a group selects; records that are the same objects as before are not judged."""
    kept = {id(each.record): each for each in before}
    new = choose(group, [tool for tool in source.tools if id(tool) not in kept], source.slug)
    fresh = {id(each.record): each for each in new}
    found = (kept.get(id(tool)) or fresh.get(id(tool)) for tool in source.tools)
    return [each for each in found if each is not None]


def _qualify(group: Group | None, chosen: list[SelectedTool], before: list[SelectedTool]) -> list[SelectedTool]:
    """Return the tools of one source under qualified names, as the same objects as before where possible."""
    if group is not None and group.overrides:  # tools may have equal names
        return assign_names(chosen, NameMode.QUALIFIED)
    kept = {id(each.record): each for each in before}
    new = assign_names([each for each in chosen if id(each.record) not in kept], NameMode.QUALIFIED)
    fresh = {id(each.record): each for each in new}
    return [kept.get(id(each.record)) or fresh[id(each.record)] for each in chosen]


def _is_renamed(before: _Listed, after: _Listed) -> bool:
    names = [{each.record.name: (each.name, each.hidden_by) for each in listed.named} for listed in (before, after)]
    kept = names[0].keys() & names[1].keys()
    renamed = any(names[0][name] != names[1][name] for name in kept)
    return renamed or before.prompt_names != after.prompt_names


def _name_all(listed: dict[str, _Listed], mode: NameMode, taken: Collection[str]) -> dict[str, _Listed]:
    """Return the lists with names that depend on those of all sources; lists whose names stay are the same objects."""
    named = iter(assign_names([tool for each in listed.values() for tool in each.chosen], mode, taken))
    prompts = _name_prompts(listed, mode)
    renamed = {}
    for id, each in listed.items():
        tools = [next(named) for _ in each.chosen]
        if tools == each.named and prompts[id] == each.prompt_names:
            renamed[id] = each
        else:
            renamed[id] = replace(each, named=tools, prompt_names=prompts[id])
    return renamed


def _name_prompts(listed: Mapping[str, _Listed], mode: NameMode) -> dict[str, dict[str, str]]:
    offered = {id: [p.name for p in each.source.prompts if p.name] if each.whole else [] for id, each in listed.items()}
    counts = Counter(name for names in offered.values() for name in dict.fromkeys(names))
    seen: set[str] = set()
    found: dict[str, dict[str, str]] = {}
    for id, names in offered.items():
        found[id] = {}
        for name in dict.fromkeys(names):
            plain = mode is NameMode.PLAIN or (mode is NameMode.AUTO and counts[name] == 1)
            final = name if plain else tool_names.make(listed[id].source.slug, name)
            if final not in seen:
                seen.add(final)
                found[id][name] = final
    return found
