"""Tools for any model API and any agent framework.

`Toolbox` is the shared core. The modules for model APIs (`anthropic_messages`, `openai_chat`, `openai_responses`,
`gemini`, `bedrock_converse`) need no SDK; each module for a framework is the only one that imports this framework.
Names are loaded on first use, and importing this package loads no framework.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers import ContentPart as ContentPart
    from .answers import ToolAnswer as ToolAnswer
    from .model_calls import ModelCall as ModelCall
    from .model_calls import ToolList as ToolList
    from .model_calls import ToolLoss as ToolLoss
    from .schemas import CompiledSchema as CompiledSchema
    from .schemas import Loss as Loss
    from .schemas import Target as Target
    from .schemas import compile_schema as compile_schema
    from .toolbox import Toolbox as Toolbox
    from .toolbox import ToolSpec as ToolSpec

_NAMES = {
    "answers": ("ContentPart", "ToolAnswer"),
    "model_calls": ("ModelCall", "ToolList", "ToolLoss"),
    "schemas": ("CompiledSchema", "Loss", "Target", "compile_schema"),
    "toolbox": ("ToolSpec", "Toolbox"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)  # noqa: PLE0605  # a test compares it with the names above


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
