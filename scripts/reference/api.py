"""The page of public names: each with its signature and its docstring."""

from __future__ import annotations

import enum
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_args, is_typeddict

import toolcrib
import toolcrib.settings
import toolcrib.sync

from .markdown import WIDTH, attribute_docs, bare, code, codes, doc, document, signature, table

HOW = """
Every name of `import toolcrib as tc`, except [errors](errors.md) and [events](events.md), which have their own pages.
The guides explain how they are used: [client](../client.md), [HTTP](../http.md), [tool servers](../servers.md),
[hub](../hub.md), [settings](../settings.md). Time-outs are in seconds; `None` means no time-out, and `UNSET` means the
client's option.
"""

SECTIONS = {
    "One server": "client",
    "Server configs": "config",
    "Many servers": "hub catalog",
    "Which tools": "policy",
    "Authorisation": "oauth",
    "Functions as tools": "server",
    "Settings files": "settings",
    "Transports": "transports",
    "Values": "types",
}

_COMMON = frozenset[str].intersection(
    *(frozenset(field.name for field in fields(kind)) for kind in get_args(toolcrib.ServerConfig))
)
"""Fields of all configs. The tables list them after the fields of each config."""


def page() -> str:
    """Return all names, section by section."""
    parts = [HOW, table(("section", "names"), [(title, _links(title)) for title in SECTIONS])]
    for title in SECTIONS:
        parts += [f"## {title}", *(part for name in _names(title) for part in entry(name, getattr(toolcrib, name)))]
        if title == "Settings files":
            more = [name for name in toolcrib.settings.__all__ if name not in toolcrib.__all__]
            parts += ["Also in `toolcrib.settings`:"]
            parts += [part for name in more for part in entry(name, getattr(toolcrib.settings, name))]
    return document("API", *parts, *_sync())


def _names(title: str) -> list[str]:
    return [name for name, home in toolcrib._HOME.items() if home.partition(".")[0] in SECTIONS[title].split()]


def _links(title: str) -> str:
    return ", ".join(f"[`{name}`](#{_anchor(name)})" for name in _names(title))


def _anchor(name: str) -> str:
    """Return the anchor that GitHub generates; headings that differ only in case are numbered."""
    before = [each for section in SECTIONS for each in _names(section)]
    same = sum(each.lower() == name.lower() for each in before[: before.index(name)])
    return name.lower() + (f"-{same}" if same else "")


def entry(name: str, thing: Any) -> Iterator[str]:
    """Yield the parts of the description of one public name."""
    yield f"### {name}"
    if not (inspect.isclass(thing) or inspect.isroutine(thing)):  # another name for a type
        definition = f"{name} = {bare(str(thing))}"
        if len(definition) <= WIDTH:
            yield f"```py\n{definition}\n```"
        else:
            yield f"Another name for the union of {codes(map(bare, get_args(thing)))}."
        return
    if is_typeddict(thing):
        texts = attribute_docs(thing)
        yield doc(thing)
        yield table(
            ("key", "type", "meaning"),
            [(code(key), code(bare(kind)), texts.get(key, "")) for key, kind in _annotations(thing).items()],
        )
        return
    if inspect.isclass(thing) and issubclass(thing, enum.Enum):
        yield doc(thing)
        yield codes(each.value for each in thing)
        return
    if not is_dataclass(thing) and not getattr(thing, "_is_protocol", False):
        yield f"```py\n{signature(name, thing)}\n```"
    yield doc(thing)
    if inspect.isclass(thing):
        yield _parameters(thing)
        yield _fields(thing)
        yield from _members(thing)


def _parameters(kind: Any) -> str:
    """Return a table of the parameters that the docstring of `__init__` describes."""
    text = doc(kind.__init__) if "__init__" in vars(kind) else ""
    described = inspect.cleandoc(text.partition("Args:\n")[2])
    rows = re.findall(r"^(\w+): (.*(?:\n +.*)*)", described, re.MULTILINE)
    return table(("parameter", "meaning"), [(code(name), " ".join(words.split())) for name, words in rows])


def _annotations(kind: Any) -> dict[str, Any]:
    return {key: getattr(value, "__forward_arg__", value) for key, value in kind.__annotations__.items()}


def _fields(kind: Any) -> str:
    if not is_dataclass(kind):
        return ""
    # A config's options are those of the client, which says what they mean.
    texts = {**(attribute_docs(toolcrib.ClientOptions) if _is_config(kind) else {}), **attribute_docs(kind)}
    shown = [field for field in fields(kind) if not field.name.startswith("_")]
    shown.sort(key=lambda field: (field.kw_only, _is_config(kind) and field.name in _COMMON))
    rows = [(code(f.name), code(bare(f.type)), _default(f), texts.get(f.name, "")) for f in shown]
    heads = ("field", "type", "default", "meaning")
    used = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    return table([heads[column] for column in used], [[row[column] for column in used] for row in rows])


def _is_config(kind: type) -> bool:
    return kind in get_args(toolcrib.ServerConfig)


def _default(field: Any) -> str:
    if field.default is not MISSING:
        return code(field.default.__name__ if inspect.isfunction(field.default) else repr(field.default))
    return "" if field.default_factory is MISSING else "empty"


def _members(kind: type) -> Iterator[str]:
    """Yield public methods and properties, first those of the class, then those of its bases in this package."""
    seen: set[str] = set()
    for base in kind.__mro__:
        # The methods of `AuthProvider` are for connections, not for users.
        if not base.__module__.startswith("toolcrib") or base.__name__ == "AuthProvider":
            continue
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)
            if name.startswith("_") or name in seen or not (isinstance(member, property) or callable(function)):
                continue
            seen.add(name)
            yield _member(kind.__name__, name, member)


def _member(owner: str, name: str, member: Any) -> str:
    text = doc(member)
    if isinstance(member, property):
        shown = f"{name}: {bare(member.fget.__annotations__.get('return', ''))}"  # type: ignore[union-attr]
    else:
        mark = {classmethod: "@classmethod\n", staticmethod: "@staticmethod\n"}.get(type(member), "")
        function = getattr(member, "__func__", member)
        shown = mark + signature(name, function).replace("(cls, ", "(").replace("(cls)", "()")
        shown = shown.replace("(\n    cls,\n", "(\n")
    return f"#### {owner}.{name}\n```py\n{shown}\n```\n{text}"


def _sync() -> Iterator[str]:
    yield "## Without an event loop"
    yield "`toolcrib.sync`. " + doc(toolcrib.sync)
    rows = []
    for name in ("Client", "Hub", "HubView", "Resources", "Changes"):
        kind = getattr(toolcrib.sync, name)
        methods = [each for each in dir(kind) if not each.startswith("_")]
        rows.append((code(f"sync.{name}"), doc(kind).splitlines()[0], codes(methods)))
    yield table(("class", "meaning", "members, as in the async class"), rows)
