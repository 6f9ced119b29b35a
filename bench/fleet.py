"""The many servers that a hub is measured with: all different, and the same in every run and for every make.

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
    "assignee": ("string", "The user who is to take care of it."),
    "body": ("string", "The text, in Markdown."),
    "dry_run": ("boolean", "Say what would be done, and do nothing."),
    "format": ("string", "The format of the answer: json, csv or text."),
    "labels": ("array", "Labels to put on it."),
    "limit": ("integer", "How many to give at most."),
    "notify": ("boolean", "Whether everybody who follows it is told."),
    "title": ("string", "A short title that people will read."),
    "workspace": ("string", "The workspace, if it is not the default one."),
}


class Described(NamedTuple):
    """A tool, as every make is given it."""

    name: str
    description: str
    schema: dict[str, Any]


def every_tool() -> list[Described]:
    """All tools that there are; servers share them, as `list_issues` is to be found at more than one."""
    choice = random.Random(1)
    return [described(verb, noun, choice) for noun in NOUNS for verb in VERBS]


def described(verb: str, noun: str, choice: random.Random) -> Described:
    properties: dict[str, Any] = {f"{noun}_id": {"type": "string", "description": f"The {noun}, by its identifier."}}
    for name in choice.sample(sorted(PARAMETERS), 4):
        kind, description = PARAMETERS[name]
        properties[name] = {"type": kind, "description": description}
    description = f"{verb.capitalize()} a {noun} of a {choice.choice(NOUNS)}. Gives the {noun} as it is afterwards."
    return Described(f"{verb}_{noun}", description, {"type": "object", "properties": properties})


def servers(count: int, tools: list[T], each: int) -> dict[str, list[T]]:
    """So many servers by name, each with so many of the tools."""
    names = [f"{NOUNS[number % len(NOUNS)]}-{number}" for number in range(count)]
    return {name: random.Random(name).sample(tools, each) for name in names}
