"""The page of `toolcrib.adapters`: its names, targets and options, and the functions of every module.

The modules for frameworks are parsed, not imported: the frameworks are not installed where the page is made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import toolcrib.adapters
from toolcrib.adapters.model_calls import ResultOptions
from toolcrib.adapters.schemas.rules import RULES
from toolcrib.adapters.toolbox import ToolboxOptions

from .api import entry
from .frameworks import TITLES
from .markdown import code, codes, document, fenced, parsed_signature, table

FOLDER: Final = Path(toolcrib.adapters.__file__).parent
MODELS: Final = ("anthropic_messages", "openai_responses", "openai_chat", "gemini", "bedrock_converse")
FRAMEWORKS: Final = tuple(name for name in TITLES if (FOLDER / f"{name}.py").exists())
CLASSES: Final = {
    "crewai": ("CrewTools",),
    "llama_index": ("ToolProgress", "ApprovalRequested"),
    "pydantic_ai": ("ToolcribProgressEvent",),
}
"""Classes that a program uses; the others implement an interface of their framework."""

FIRST: Final = ("Toolbox", "ToolSpec", "ToolAnswer", "ContentPart", "compile_schema", "CompiledSchema", "Loss")
"""Names in front of the others, which are sorted."""

TARGETS: Final = {
    "anthropic": "Anthropic Messages",
    "anthropic-strict": "Anthropic Messages, tools with `strict`",
    "openai": "OpenAI Responses and Chat Completions",
    "openai-strict": "OpenAI Responses and Chat Completions, tools with `strict`",
    "gemini": "Gemini, the subset of JSON Schema in `parametersJsonSchema`",
    "gemini-openapi": "Gemini, the subset of OpenAPI in `parameters`",
    "bedrock": "Bedrock Converse",
    "nullable": "frameworks that validate arguments by the offered schema: optional properties also allow null, "
    "which is removed before the call",
}

HOW = """
Every name of `toolcrib.adapters`, as in `from toolcrib.adapters import Toolbox, strands`. The guides:
[any model](../how-to/any-model.md), [agent frameworks](../how-to/agent-frameworks.md),
[any other framework](../how-to/any-framework.md). What arrives in each framework, and the tested versions:
[Agent frameworks](frameworks.md).
"""

TYPES: Final = (
    ("AnySource", "a `Hub`, a `HubView`, a `Client`, one of these from `toolcrib.sync`, or a provider's view"),
    ("AnyTools", "an `AnySource`, a `Toolbox`, or a list of `Tool`"),
    ("Source", "for the Claude Agent SDK: an `AnySource`, a `Toolbox`, a `ToolServer` or a `ServerRegistry`"),
    ("Arguments", "a mapping, JSON text (`str` or `bytes`), or None"),
    ("PartKind", '`"text"`, `"image"`, `"audio"`, `"file"` or `"link"`'),
    ("ProgressHandler", "a function of `progress`, `total` and `message`, sync or async"),
    ("Approve", "a function of a `ToolCall`, sync or async, as `Hub(approve=...)` takes it"),
    ("Timeout", "seconds; None means no time-out, `UNSET` that of the source"),
)

TARGET = """
A model API, and the variant of its schema language; for `Toolbox(target=...)` and `compile_schema`. A schema that
cannot be strict is compiled for the target in the last column, and has a loss that says why.
"""


def page() -> str:
    """Return the page: names, targets, options, model APIs, frameworks."""
    assert set(TARGETS) == set(RULES), set(TARGETS) ^ set(RULES)
    names = [*FIRST, *sorted(set(toolcrib.adapters.__all__) - {*FIRST, "Target"}), "Target"]
    links = ", ".join(f"[`{name}`](#{name.lower()})" for name in names)
    return document(
        "Adapters",
        HOW,
        table(
            ("section", "contents"),
            [
                ("[Names](#names)", links),
                ("[Options](#options)", "[`ToolboxOptions`](#toolboxoptions), [`ResultOptions`](#resultoptions)"),
                ("[Model APIs](#model-apis)", _links(MODELS)),
                ("[Frameworks](#frameworks)", _links(FRAMEWORKS)),
            ],
        ),
        "Types in the signatures:",
        table(("type", "meaning"), [(code(name), text) for name, text in TYPES]),
        "## Names",
        *(part for name in names if name != "Target" for part in entry(name, getattr(toolcrib.adapters, name))),
        "### Target",
        TARGET,
        table(("target", "for", "strict", "otherwise"), _targets()),
        "## Options",
        *entry("ToolboxOptions", ToolboxOptions),
        *entry("ResultOptions", ResultOptions),
        "## Model APIs",
        "No SDK is needed: responses are objects of an SDK or plain dicts, and the results are plain dicts.",
        *(part for name in MODELS for part in _module(name)),
        "## Frameworks",
        "Each module needs its framework, and is the only one that imports it.",
        *(part for name in FRAMEWORKS for part in _module(name)),
    )


def _links(modules: tuple[str, ...]) -> str:
    return ", ".join(f"[`{name}`](#{name})" for name in modules)


def _targets() -> Iterator[tuple[str, ...]]:
    for target, rules in RULES.items():
        yield code(target), TARGETS[target], "yes" if rules.closes else "", code(rules.fallback or "")


def _module(name: str) -> Iterator[str]:
    tree = ast.parse((FOLDER / f"{name}.py").read_text())
    yield f"### {name}"
    yield fenced(ast.get_docstring(tree) or "")
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in CLASSES.get(name, ()):
            yield from _class(name, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield _function(f"{name}.{node.name}", node)


def _function(title: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    shown = parsed_signature(node, node.name)
    return f"#### {title}\n```py\n{shown}\n```\n{fenced(ast.get_docstring(node) or '')}"


def _class(module: str, node: ast.ClassDef) -> Iterator[str]:
    fields = [ast.unparse(each) for each in node.body if isinstance(each, ast.AnnAssign)]
    listed = f" Fields: {codes(fields)}." if fields else ""
    yield f"#### {module}.{node.name}\n{ast.get_docstring(node)}{listed}"
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            yield _function(f"{module}.{node.name}.{each.name}", each)
