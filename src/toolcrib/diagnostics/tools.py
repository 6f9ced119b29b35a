"""Checks whether models and their APIs can use the tools of a server. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from .. import tool_names
from .._util.schema_document import SchemaDocument
from .._util.suggest import did_you_mean
from ..catalog.routing import nearest
from ..catalog.tokens import estimate_tokens
from ..hub.config_sync import PERMISSIONS
from ..policy.filters import StaticFilter
from ..policy.permissions import Permissions
from ..protocol.sanitize import one_line
from ..types import Tool
from .report import ServerReport

MANY_TOKENS: Final = 10_000
"""Tokens of a server's tools above which a warning is reported: they are part of every request to a model."""

_TYPED: Final = frozenset({"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"})
_REFUSED_AT_TOP: Final = ("anyOf", "oneOf", "allOf")


def examine_tools(report: ServerReport, server: str, tools: Sequence[Tool]) -> None:
    """Report what makes tools hard or impossible to use."""
    _examine_descriptions(report, tools)
    _examine_schemas(report, tools)
    _examine_names(report, server, tools)
    tokens = sum(estimate_tokens(replace(tool, name=tool_names.make(server, tool.name))) for tool in tools)
    report.facts["tokens"] = tokens
    if tokens > MANY_TOKENS:
        text = f"its tools take about {tokens:,} tokens of every conversation"
        fix = "allow only the tools that are used (allowed_tools), or defer them (Toolset.defer_all)"
        report.warn("tokens", text, fix)


def examine_rules(report: ServerReport, rules: StaticFilter, tools: Sequence[str]) -> None:
    """Report names in the server's `allowed_tools` and `blocked_tools` that no tool has: they have no effect."""
    for key, listed in (("allowed_tools", rules.allowed or ()), ("blocked_tools", rules.blocked)):
        unknown = sorted({*listed} - {*tools})
        if unknown:
            meant = did_you_mean(nearest(unknown[0], tools)) or f": the tools are {few(tools) or 'none'}"
            report.warn("rules", f"{key}: unknown tool {few(unknown)}", f"correct the name{meant}")


def idle_patterns(rules: Mapping[str, Any], tools: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the hub's rules whose pattern matches none of its tools: the option and the pattern."""
    for key in PERMISSIONS:
        patterns = rules.get(key) or ()
        for pattern in () if isinstance(patterns, str) else patterns:
            fits = Permissions(disallowed_tools=[pattern])
            if all(fits.decide(tool).kind == "allow" for tool in tools):
                yield key, pattern


def untyped_parameters(schema: Mapping[str, Any]) -> list[str]:
    """Return the parameters whose schema names neither a type nor values."""
    properties = SchemaDocument(schema).properties(schema)
    return [str(name) for name, each in properties.items() if not (isinstance(each, Mapping) and _TYPED & each.keys())]


def same_names(offered: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the tool names that several servers have, each with these servers."""
    owners: dict[str, list[str]] = {}
    for server, tools in offered.items():
        for name in dict.fromkeys(tools):
            owners.setdefault(name, []).append(server)
    return {name: servers for name, servers in owners.items() if len(servers) > 1}


def few(found: Iterable[str]) -> str:
    """Return the first five names, and how many more there are."""
    given = [one_line(each, 60) or '""' for each in found]
    rest = len(given) - 5
    return ", ".join(given[:5]) + (f" and {rest} more" if rest > 0 else "")


def _examine_descriptions(report: ServerReport, tools: Sequence[Tool]) -> None:
    # A description that only repeats the name describes nothing.
    silent = [tool.name for tool in tools if (tool.description or "").strip() in ("", tool.name, f"Tool: {tool.name}")]
    report.facts["without_description"] = silent
    if silent:
        text = f"without a description: {few(silent)}; a model can only guess what they do"
        report.warn("descriptions", text, "ask its author to describe them")


def _examine_schemas(report: ServerReport, tools: Sequence[Tool]) -> None:
    untyped = [f"{tool.name}.{name}" for tool in tools for name in untyped_parameters(tool.input_schema)]
    report.facts["without_type"] = untyped
    if untyped:
        text = f"parameters without a type: {few(untyped)}; a model can only guess their values"
        report.warn("types", text, "ask its author to add a type to each in the tool's inputSchema")
    refused = [tool.name for tool in tools if any(key in tool.input_schema for key in _REFUSED_AT_TOP)]
    refused += [tool.name for tool in tools if tool.input_schema.get("type", "object") != "object"]
    report.facts["refused_schemas"] = refused
    if refused:
        text = f"schemas that LLM APIs reject (they require a plain object at the top level): {few(refused)}"
        report.warn("types", text, "ask its author to use one object with properties; until then, block these tools")


def _examine_names(report: ServerReport, server: str, tools: Sequence[Tool]) -> None:
    twice = [name for name, count in Counter(tool.name for tool in tools).items() if count > 1 or not name]
    report.facts["colliding"] = twice
    if twice:
        text = f"empty or duplicate names: {few(twice)}; only the first tool of each name can be called"
        report.warn("names", text, "ask its author to give each tool a unique name")
    aliases = {}
    for tool in tools:
        if (whole := tool_names.make(server, tool.name)) != (short := tool_names.alias(whole)):
            aliases[tool.name] = short
    report.facts["aliases"] = aliases
    if aliases:
        text = f"names that LLM APIs reject: {few(aliases)}"
        instead = f"nothing to do: models get an alias, such as {next(iter(aliases.values()))}"
        report.warn("names", text, _shorter(aliases) or instead)


def _shorter(aliases: Iterable[str]) -> str:
    """Return the fix for too long names, if a shorter name of the server is enough; else an empty text."""
    shortest = [tool_names.make("x", tool) for tool in aliases]
    room = tool_names.ALIAS_LIMIT - max(map(len, shortest)) + 1
    if any(name != tool_names.alias(name) for name in shortest):
        return ""
    return f"rename the server to at most {room} characters"
