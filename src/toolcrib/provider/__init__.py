"""The tools provider: registers sources of tools, keeps an inventory of them, reviews changes, and executes calls.

`from toolcrib.provider import Provider`. Each name is loaded when it is first used; `import toolcrib` loads none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .._util.sealing import SealingKey as SealingKey
    from ..upstreams.places import PoolLimits as PoolLimits
    from ..upstreams.pool import PooledConnection as PooledConnection
    from .credentials import CredentialInfo as CredentialInfo
    from .credentials import Credentials as Credentials
    from .executor import ExecutionOptions as ExecutionOptions
    from .group_registry import Groups as Groups
    from .groups import Group as Group
    from .groups import NameMode as NameMode
    from .groups import Override as Override
    from .health import HistoryEntry as HistoryEntry
    from .inventory import ChangeKind as ChangeKind
    from .inventory import ExecutionMode as ExecutionMode
    from .inventory import ExecutionProfile as ExecutionProfile
    from .inventory import InventoryChange as InventoryChange
    from .inventory import InventoryTool as InventoryTool
    from .inventory import ToolChange as ToolChange
    from .inventory import ToolState as ToolState
    from .outcomes import ExecutionResult as ExecutionResult
    from .provider import Provider as Provider
    from .review import ReviewItem as ReviewItem
    from .snapshot import Source as Source
    from .source_config import EnvironmentVariable as EnvironmentVariable
    from .source_config import LifecycleMode as LifecycleMode
    from .source_config import PackageInfo as PackageInfo
    from .source_config import ReviewPolicy as ReviewPolicy
    from .source_config import SourceConfig as SourceConfig
    from .source_config import SourceTransport as SourceTransport
    from .store.interface import Store as Store
    from .store.rows import AdminActionRow as AdminActionRow
    from .store.rows import ExecutionRow as ExecutionRow
    from .view import ProviderView as ProviderView

_NAMES: dict[str, tuple[str, ...]] = {
    ".credentials": ("CredentialInfo", "Credentials"),
    ".executor": ("ExecutionOptions",),
    ".group_registry": ("Groups",),
    ".groups": ("Group", "NameMode", "Override"),
    ".health": ("HistoryEntry",),
    ".inventory": (
        "ChangeKind",
        "ExecutionMode",
        "ExecutionProfile",
        "InventoryChange",
        "InventoryTool",
        "ToolChange",
        "ToolState",
    ),
    ".outcomes": ("ExecutionResult",),
    ".provider": ("Provider",),
    ".review": ("ReviewItem",),
    ".snapshot": ("Source",),
    ".source_config": (
        "EnvironmentVariable",
        "LifecycleMode",
        "PackageInfo",
        "ReviewPolicy",
        "SourceConfig",
        "SourceTransport",
    ),
    ".store.interface": ("Store",),
    ".store.rows": ("AdminActionRow", "ExecutionRow"),
    ".view": ("ProviderView",),
    ".._util.sealing": ("SealingKey",),
    "..upstreams.places": ("PoolLimits",),
    "..upstreams.pool": ("PooledConnection",),
}
"""The public names by the module that defines them."""
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOME]  # noqa: PLE0604  # the table above is the one list of names


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
