"""What a server offers, seen with the eyes of a model and of its API: pure."""

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
"""Tokens of a server's tools from which on they are told: a model pays them with every message."""

_TYPED: Final = frozenset({"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"})
_REFUSED_AT_TOP: Final = ("anyOf", "oneOf", "allOf")


def examine_tools(report: ServerReport, server: str, tools: Sequence[Tool]) -> None:
    """What makes tools hard to use, or impossible."""
    _examine_descriptions(report, tools)
    _examine_schemas(report, tools)
    _examine_names(report, server, tools)
    tokens = sum(estimate_tokens(replace(tool, name=tool_names.make(server, tool.name))) for tool in tools)
    report.facts["tokens"] = tokens
    if tokens > MANY_TOKENS:
        text = f"its tools take about {tokens:,} tokens of every conversation"
        fix = "let through only those that are used (allowed_tools), or defer them (Toolset.defer_all)"
        report.warn("tokens", text, fix)


def examine_rules(report: ServerReport, rules: StaticFilter, tools: Sequence[str]) -> None:
    """Whether a name in the server's own lists is that of no tool: misspelt it lets through, or blocks, nothing."""
    for key, listed in (("allowed_tools", rules.allowed or ()), ("blocked_tools", rules.blocked)):
        unknown = sorted({*listed} - {*tools})
        if unknown:
            meant = did_you_mean(nearest(unknown[0], tools)) or f": the tools are {few(tools) or 'none'}"
            report.warn("rules", f"{key}: there is no tool {few(unknown)}", f"correct the name{meant}")


def idle_patterns(rules: Mapping[str, Any], tools: Collection[str]) -> Iterator[tuple[str, str]]:
    """The hub's rules with a pattern that fits none of its tools."""
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
    """Names of tools that several servers have, and which servers."""
    owners: dict[str, list[str]] = {}
    for server, tools in offered.items():
        for name in dict.fromkeys(tools):
            owners.setdefault(name, []).append(server)
    return {name: servers for name, servers in owners.items() if len(servers) > 1}


def few(found: Iterable[str]) -> str:
    """The first of several, and how many more there are."""
    given = [one_line(each, 60) or '""' for each in found]
    rest = len(given) - 5
    return ", ".join(given[:5]) + (f" and {rest} more" if rest > 0 else "")


def _examine_descriptions(report: ServerReport, tools: Sequence[Tool]) -> None:
    # A description that only repeats the name describes nothing.
    silent = [tool.name for tool in tools if (tool.description or "").strip() in ("", tool.name, f"Tool: {tool.name}")]
    report.facts["without_description"] = silent
    if silent:
        text = f"without a description: {few(silent)}; a model can only guess what they do"
        report.warn("descriptions", text, "have its author describe them")


def _examine_schemas(report: ServerReport, tools: Sequence[Tool]) -> None:
    untyped = [f"{tool.name}.{name}" for tool in tools for name in untyped_parameters(tool.input_schema)]
    report.facts["without_type"] = untyped
    if untyped:
        text = f"parameters without a type: {few(untyped)}; a model can only guess what they take"
        report.warn("types", text, "have its author give each a type in the tool's inputSchema")
    refused = [tool.name for tool in tools if any(key in tool.input_schema for key in _REFUSED_AT_TOP)]
    refused += [tool.name for tool in tools if tool.input_schema.get("type", "object") != "object"]
    report.facts["refused_schemas"] = refused
    if refused:
        text = f"schemas that LLM APIs refuse (they want a plain object at the top): {few(refused)}"
        report.warn("types", text, "have its author make them properties of one object; till then block these tools")


def _examine_names(report: ServerReport, server: str, tools: Sequence[Tool]) -> None:
    twice = [name for name, count in Counter(tool.name for tool in tools).items() if count > 1 or not name]
    report.facts["colliding"] = twice
    if twice:
        text = f"names that are empty or there twice: {few(twice)}; only the first can be called"
        report.warn("names", text, "have its author give each tool a name of its own")
    aliases = {}
    for tool in tools:
        if (whole := tool_names.make(server, tool.name)) != (short := tool_names.alias(whole)):
            aliases[tool.name] = short
    report.facts["aliases"] = aliases
    if aliases:
        text = f"names that LLM APIs refuse as they are: {few(aliases)}"
        instead = f"nothing to do: models are given an alias, as {next(iter(aliases.values()))}"
        report.warn("names", text, _shorter(aliases) or instead)


def _shorter(aliases: Iterable[str]) -> str:
    """Whether a shorter name for the server would be enough."""
    shortest = [tool_names.make("x", tool) for tool in aliases]
    room = tool_names.ALIAS_LIMIT - max(map(len, shortest)) + 1
    if any(name != tool_names.alias(name) for name in shortest):
        return ""
    return f"a name of at most {room} characters for this server makes them fit"
