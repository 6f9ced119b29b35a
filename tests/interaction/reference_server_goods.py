"""Features of the reference server besides tools: resources, templates, prompts, completions."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

RESOURCES = [
    {"uri": "memo://text", "name": "text", "title": "A text", "mimeType": "text/plain", "size": 9},
    {"uri": "memo://blob", "name": "blob", "description": "Some bytes", "mimeType": "application/octet-stream"},
    {"uri": "memo://both", "name": "both"},
]
TEMPLATES = [
    {"uriTemplate": "memo://people/{name}", "name": "people", "mimeType": "text/plain"},
    {"uriTemplate": "memo://places/{name}", "name": "places", "title": "Places"},
]
PROMPTS = [
    {
        "name": "greet",
        "title": "Greet",
        "description": "Greet somebody",
        "arguments": [
            {"name": "name", "description": "Who", "required": True},
            {"name": "count", "description": "How often"},
        ],
    },
    {"name": "plain"},
]

_TEXT = {"uri": "memo://text", "mimeType": "text/plain", "text": "good day\n"}
_BLOB = {
    "uri": "memo://blob",
    "mimeType": "application/octet-stream",
    "blob": b64encode(b"\x00\xffbytes").decode(),
}
_PIECES = {"memo://text": [_TEXT], "memo://blob": [_BLOB], "memo://both": [_TEXT, _BLOB]}


def resource(uri: str) -> list[dict[str, Any]] | None:
    """Return the contents of the resource at `uri`."""
    if uri.startswith("memo://people/"):
        return [{"uri": uri, "mimeType": "text/plain", "text": f"This is {uri.removeprefix('memo://people/')}."}]
    return _PIECES.get(uri)


def prompt(name: str, arguments: dict[str, str]) -> dict[str, Any] | None:
    """Return the filled-in prompt. Arguments that are not strings are left out, so that tests notice them."""
    texts = {key: value for key, value in arguments.items() if isinstance(value, str)}
    if name == "plain":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello."}}]}
    if name != "greet":
        return None
    return {
        "description": "A greeting",
        "messages": [
            {"role": "user", "content": {"type": "text", "text": f"Greet {texts.get('name')} {texts.get('count')}"}},
            {"role": "assistant", "content": {"type": "image", "data": b64encode(b"png").decode(), "mimeType": "x/y"}},
        ],
    }


def complete(params: dict[str, Any]) -> dict[str, Any]:
    """Return values that begin with the given one; those of a prompt depend on the language chosen before."""
    language = params.get("context", {}).get("arguments", {}).get("language", "en")
    names = {
        "greet": {"en": ["Ada", "Alan", "Grace"], "de": ["Adele", "Berta"]}[language],
        "memo://people/{name}": ["ann", "bob"],
    }[params["ref"].get("name") or params["ref"]["uri"]]
    found = [name for name in names if name.startswith(params["argument"]["value"])]
    return {"values": found, "total": len(names), "hasMore": len(found) < len(names)}
