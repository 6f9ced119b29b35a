"""Servers for the hub benchmark: all different, but the same in every run and for every library.

Standard library only: the drivers run in the peers' environments too.
"""

import random
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

VERBS = ("archive", "assign", "create", "delete", "export", "find", "get", "list", "merge", "move", "send", "update")
NOUNS = (
    "account", "alert", "article", "branch", "build", "calendar", "channel", "comment", "contact", "contract",
    "customer", "dashboard", "database", "device", "document", "event", "file", "folder", "image", "invoice",
    "issue", "label", "lead", "message", "metric", "milestone", "note", "order", "page", "payment",
    "permission", "playlist", "product", "project", "query", "record", "release", "report", "repository", "review",
    "schedule", "shipment", "snapshot", "song", "table", "task", "team", "ticket", "user", "workflow",
)  # fmt: skip
PARAMETERS = {
    "after": ("string", "Only what changed after this time, in ISO 8601."),
    "assignee": ("string", "The user to assign it to."),
    "body": ("string", "The text, in Markdown."),
    "dry_run": ("boolean", "Report the changes without applying them."),
    "format": ("string", "The output format: json, csv or text."),
    "labels": ("array", "Labels to add."),
    "limit": ("integer", "Maximum number of results."),
    "notify": ("boolean", "Whether to notify all followers."),
    "title": ("string", "A short, readable title."),
    "workspace": ("string", "The workspace; the default one if omitted."),
}


class Described(NamedTuple):
    """Name, description and input schema of a tool."""

    name: str
    description: str
    schema: dict[str, Any]


def every_tool() -> list[Described]:
    """Return all tools. Servers share them, as `list_issues` exists on more than one real server."""
    choice = random.Random(1)
    return [described(verb, noun, choice) for noun in NOUNS for verb in VERBS]


def described(verb: str, noun: str, choice: random.Random) -> Described:
    properties: dict[str, Any] = {f"{noun}_id": {"type": "string", "description": f"The {noun}, by its identifier."}}
    for name in choice.sample(sorted(PARAMETERS), 4):
        kind, description = PARAMETERS[name]
        properties[name] = {"type": kind, "description": description}
    description = f"{verb.capitalize()} a {noun} of a {choice.choice(NOUNS)}. Returns the updated {noun}."
    return Described(f"{verb}_{noun}", description, {"type": "object", "properties": properties})


def servers(count: int, tools: list[T], each: int) -> dict[str, list[T]]:
    """Return `count` server names, each with a random sample of `each` tools."""
    names = [f"{NOUNS[number % len(NOUNS)]}-{number}" for number in range(count)]
    return {name: random.Random(name).sample(tools, each) for name in names}
