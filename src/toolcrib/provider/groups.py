"""Groups: selections of tools that are offered as one virtual server, under names of their own. Pure.

Patterns: `source/tool` (both may contain `*`), `source:x` for a whole source, which is the same as `x/*`, and `tag:x`.
A source is matched by its slug or its name. A group without `include` patterns allows nothing; `exclude` always wins.

Name modes: `qualified` (`mcp__source__tool`); `plain` (the tool's own name: of equal names, that of the source which
was registered first is used, and the others are hidden, so that names never change because a source was added); `auto`
(plain, but qualified for all tools whose names are equal: here names may change when a source is added).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from .. import tool_names
from ..errors import ConfigError, InvalidArguments
from ..policy.globs import Glob, Globs
from ..types import Tool, Wire
from .inventory import InventoryTool
from .store.rows import GroupRow, GroupRuleRow, make_id

MAX_PATTERNS: Final = 1_000
_PATTERN: Final = "a pattern: 'source/tool', 'source:x', or 'tag:x', each with '*' for any characters"


class NameMode(StrEnum):
    """How a group names its tools."""

    QUALIFIED = "qualified"
    PLAIN = "plain"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Override:
    """What a group changes in a tool. An argument in `arguments` has this value in every call and is not listed."""

    name: str | None = None
    description: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern of a group, parsed."""

    text: str
    source: Glob | None = None
    tool: Glob | None = None
    tag: Glob | None = None

    def matches(self, tool: InventoryTool, slug: str) -> bool:
        """Whether the pattern selects a tool; `slug` is that of its source."""
        if self.tag is not None:
            return any(map(self.tag.matches, tool.tags))
        return self.matches_source(tool.source, slug) and self.tool is not None and self.tool.matches(tool.name)

    def matches_source(self, name: str, slug: str) -> bool:
        """Whether the pattern is about a source, or some of its tools."""
        return self.source is not None and (self.source.matches(slug) or self.source.matches(name))

    @property
    def is_whole_source(self) -> bool:
        """Whether the pattern selects all tools of a source, and so its prompts and resources, too."""
        return self.tool is not None and self.tool.pattern.strip("*") == "" and self.tool.pattern != ""


def parse_pattern(text: object, key: str = "include") -> Pattern:
    """Return a parsed pattern; raise `ConfigError` if it is invalid."""
    if isinstance(text, str) and text.isprintable() and text == text.strip():
        for prefix in ("tag:", "source:"):
            if text.startswith(prefix) and (rest := text.removeprefix(prefix)):
                return Pattern(text, tag=Glob(rest)) if prefix == "tag:" else Pattern(text, Glob(rest), Glob("*"))
        source, slash, tool = text.partition("/")
        if source and slash and tool:
            return Pattern(text, Glob(source), Glob(tool))
    raise ConfigError(f"{key}: expected {_PATTERN}; got {text!r:.200}", key=key, expected=_PATTERN)


@dataclass(frozen=True, slots=True)
class Group:
    """A selection of tools. `overrides` maps patterns `source/tool` to what is changed; the most specific one applies.

    Raises `ConfigError` for invalid fields.
    """

    name: str
    description: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    overrides: Mapping[str, Override] = field(default_factory=dict, hash=False)
    name_mode: NameMode = NameMode.QUALIFIED
    id: str = field(default_factory=make_id, compare=False)
    created_at: float = field(default=0.0, compare=False)
    _include: tuple[Pattern, ...] = field(init=False, repr=False, compare=False)
    _exclude: tuple[Pattern, ...] = field(init=False, repr=False, compare=False)
    _overrides: Globs = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_text("name", self.name)
        if not tool_names.is_server_name(self.name):
            expected = "letters, digits and -, in parts joined by single _"
            raise ConfigError(f"name: expected {expected}; got {self.name!r:.200}", key="name", expected=expected)
        _check_text("description", self.description)
        for key in ("include", "exclude"):
            given = getattr(self, key)
            if isinstance(given, str) or not isinstance(given, Iterable):
                expected = "a list of patterns, such as ['github/*']"
                raise ConfigError(f"{key}: expected {expected}; got {given!r:.200}", key=key, expected=expected)
            patterns = tuple(given)
            if len(patterns) > MAX_PATTERNS:
                expected = f"at most {MAX_PATTERNS} patterns"
                raise ConfigError(f"{key}: expected {expected}; got {len(patterns)}", key=key, expected=expected)
            object.__setattr__(self, f"_{key}", tuple(parse_pattern(text, key) for text in patterns))
            object.__setattr__(self, key, patterns)
        object.__setattr__(self, "name_mode", _check_mode(self.name_mode))
        object.__setattr__(self, "overrides", _check_overrides(self.overrides))
        object.__setattr__(self, "_overrides", Globs(self.overrides))

    def find_include(self, tool: InventoryTool, slug: str) -> str | None:
        """Return the first pattern that includes a tool."""
        return next((each.text for each in self._include if each.matches(tool, slug)), None)

    def find_exclude(self, tool: InventoryTool, slug: str) -> str | None:
        """Return the first pattern that excludes a tool."""
        return next((each.text for each in self._exclude if each.matches(tool, slug)), None)

    def allows(self, tool: InventoryTool, slug: str) -> bool:
        """Whether the group has a tool; `slug` is that of its source."""
        return self.find_include(tool, slug) is not None and self.find_exclude(tool, slug) is None

    def allows_source(self, name: str, slug: str) -> bool:
        """Whether the group has the prompts, resources and templates of a source: if it includes the whole source."""
        included, excluded = (
            any(each.is_whole_source and each.matches_source(name, slug) for each in patterns)
            for patterns in (self._include, self._exclude)
        )
        return included and not excluded

    def find_override(self, tool: InventoryTool, slug: str) -> Override | None:
        """Return what the group changes in a tool, if anything."""
        found = self._overrides.find(f"{slug}/{tool.name}") or self._overrides.find(f"{tool.source}/{tool.name}")
        return None if found is None else self.overrides[found.pattern]

    @classmethod
    def from_rows(cls, row: GroupRow, rules: Iterable[GroupRuleRow]) -> Group:
        """Return the group of stored rows."""
        ordered = sorted((rule for rule in rules if rule.group_id == row.id), key=lambda rule: rule.position)
        return cls(
            name=row.name,
            description=row.description,
            include=tuple(rule.pattern for rule in ordered if rule.kind == "include"),
            exclude=tuple(rule.pattern for rule in ordered if rule.kind == "exclude"),
            overrides={rule.pattern: Override(**rule.data) for rule in ordered if rule.kind == "override"},
            name_mode=NameMode(row.name_mode),
            id=row.id,
            created_at=row.created_at,
        )

    def to_rows(self) -> tuple[GroupRow, list[GroupRuleRow]]:
        """Return the group as rows of the store. Rules that were stored before have to be deleted."""
        row = GroupRow(
            id=self.id,
            name=self.name,
            description=self.description,
            name_mode=self.name_mode.value,
            created_at=self.created_at,
        )
        rules: list[tuple[str, str, Wire]] = [
            *(("include", pattern, {}) for pattern in self.include),
            *(("exclude", pattern, {}) for pattern in self.exclude),
            *(("override", pattern, _override_data(each)) for pattern, each in self.overrides.items()),
        ]
        return row, [
            GroupRuleRow(id=make_id(), group_id=self.id, position=place, kind=kind, pattern=pattern, data=data)
            for place, (kind, pattern, data) in enumerate(rules)
        ]


def _override_data(override: Override) -> Wire:
    return {
        "name": override.name,
        "description": override.description,
        "arguments": dict(override.arguments),
    }


def _check_mode(given: object) -> NameMode:
    try:
        return NameMode(given)  # type: ignore[arg-type]  # an unknown value raises
    except ValueError:
        expected = ", ".join(NameMode)
        message = f"name_mode: expected one of {expected}; got {given!r:.200}"
        raise ConfigError(message, key="name_mode", expected=expected) from None


def _check_overrides(given: object) -> dict[str, Override]:
    if not isinstance(given, Mapping):
        expected = "a mapping of patterns to overrides"
        raise ConfigError(f"overrides: expected {expected}; got {given!r:.200}", key="overrides", expected=expected)
    checked: dict[str, Override] = {}
    for pattern, value in given.items():
        parsed = parse_pattern(pattern, "overrides")
        key = f"overrides[{pattern!r}]"
        if parsed.source is None or pattern.startswith("source:"):
            raise ConfigError(f"{key}: expected 'source/tool'", key=key, expected="'source/tool'")
        override = value
        if isinstance(value, Mapping):
            if unknown := value.keys() - {"name", "description", "arguments"}:
                expected = "name, description, arguments"
                raise ConfigError(f"{key}: unknown {sorted(unknown)!r:.200}", key=key, expected=expected)
            override = Override(**value)
        if not isinstance(override, Override):
            raise ConfigError(f"{key}: expected an Override; got {value!r:.200}", key=key, expected="an Override")
        checked[pattern] = _check_override(key, override, exact="*" not in pattern)
    return checked


def _check_override(key: str, override: Override, *, exact: bool) -> Override:
    if override.name is not None:
        _check_text(f"{key}.name", override.name)
        if not override.name.strip() or not override.name.isprintable() or not exact:
            expected = "a name, and a pattern without '*'"
            message = f"{key}.name: expected {expected}; got {override.name!r:.200}"
            raise ConfigError(message, key=f"{key}.name", expected=expected)
    if override.description is not None:
        _check_text(f"{key}.description", override.description)
    arguments: object = override.arguments
    if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
        expected = "a mapping of arguments to values"
        message = f"{key}.arguments: expected {expected}; got {arguments!r:.200}"
        raise ConfigError(message, key=f"{key}.arguments", expected=expected)
    return override


def _check_text(key: str, value: object) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"{key}: expected a text; got {value!r:.200}", key=key, expected="a text")


# ---- the selection -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SelectedTool:
    """A tool as a group offers it."""

    record: InventoryTool
    slug: str
    name: str
    """The name under which the group lists the tool."""
    override: Override | None = None
    hidden_by: str | None = None
    """The tool, as `source/tool`, that has the same name and so hides this one."""

    @property
    def tool(self) -> Tool:
        """The definition in force with the overrides applied, under the server's name."""
        tool, override = self.record.tool, self.override
        if override is None:
            return tool
        wire: Wire = dict(self.record.definition)
        if override.description is not None:
            wire["description"] = override.description
        if override.arguments:
            wire["inputSchema"] = _without_arguments(tool.input_schema, override.arguments)
        return Tool.from_wire(wire)

    def fill(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments of a call with those that the group sets; raise `InvalidArguments` for one of these."""
        if self.override is None or not self.override.arguments:
            return arguments
        fixed = self.override.arguments
        if given := [name for name in arguments if name in fixed]:
            problems = tuple(f"{name}: this tool has no such argument" for name in given)
            message = f"unknown arguments: {', '.join(map(repr, given))}. Call the tool without them"
            raise InvalidArguments(message, server=self.slug, tool=self.record.name, problems=problems)
        return {**arguments, **fixed}


def _without_arguments(schema: Wire, names: Iterable[str]) -> Wire:
    left_out = set(names)
    changed = dict(schema)
    if isinstance(properties := schema.get("properties"), Mapping):
        changed["properties"] = {name: value for name, value in properties.items() if name not in left_out}
    if isinstance(required := schema.get("required"), list):
        changed["required"] = [name for name in required if name not in left_out]
    return changed


def select(
    group: Group | None, tools: Iterable[InventoryTool], slugs: Mapping[str, str] | None = None
) -> list[SelectedTool]:
    """Return the tools that a group offers, in their order; those that a colliding name hides have `hidden_by`.

    The order of `tools` is that of the registration of their sources. The state of a tool is not considered. `slugs`
    are those of the sources, by id; default: slugs of their names. Without a group, all tools are selected.
    """
    slugs = slugs or {}
    chosen: list[SelectedTool] = []
    for tool in tools:
        chosen += choose(group, (tool,), slugs.get(tool.source_id) or tool_names.slug(tool.source))
    return assign_names(chosen, NameMode.QUALIFIED if group is None else group.name_mode)


def choose(group: Group | None, tools: Iterable[InventoryTool], slug: str) -> list[SelectedTool]:
    """Return the tools of one source that a group selects, under their own names or those of the overrides."""
    if group is None:
        return [SelectedTool(tool, slug, tool.name) for tool in tools]
    chosen = []
    for tool in tools:
        if group.allows(tool, slug):
            override = group.find_override(tool, slug)
            own = tool.name if override is None or override.name is None else override.name
            chosen.append(SelectedTool(tool, slug, own, override))
    return chosen


def assign_names(chosen: list[SelectedTool], mode: NameMode, taken: Collection[str] = ()) -> list[SelectedTool]:
    """Return selected tools, which have their own names, with the names of the mode.

    Of equal names the first is used; also two tools of one source can have one name, by an override. Names in `taken`
    belong to tools that are not among these.
    """
    counts = Counter(each.name for each in chosen)
    first: dict[str, str] = {}
    named = []
    for each in chosen:
        is_plain = mode is NameMode.PLAIN or (mode is NameMode.AUTO and counts[each.name] == 1)
        name = each.name if is_plain else tool_names.make(each.slug, each.name)
        original = f"{each.slug}/{each.record.name}"
        holder = first.setdefault(name, name if name in taken else original)
        named.append(replace(each, name=name, hidden_by=None if holder is original else holder))
    return named
