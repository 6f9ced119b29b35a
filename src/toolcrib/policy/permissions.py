"""The rules that decide which tools may be called: patterns for qualified names.

1. `disallowed_tools` takes precedence over all other rules.
2. `require_approval`: the most specific pattern decides, and "always" wins between two equally specific ones.
3. A tool that is not in `allowed_tools` needs approval; `[]` contains no tool, `None` means all. A "never" in
   `require_approval` does not allow tools that are not in `allowed_tools`.

The order of rules and patterns makes no difference. Without an approver, a tool that needs approval is neither listed
nor callable; `Decision.lets_through` alone implements that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from ..tool_names import pattern
from .globs import Glob, Globs

Kind = Literal["allow", "ask", "deny"]
Approval = Literal["always", "never"]
RequireApproval = Mapping[str, Approval] | Iterable[str] | Approval

_PATTERNS = "a list of qualified names or patterns, such as ['mcp__fs__read_*']"
_APPROVALS = (
    "a list of patterns such as ['mcp__fs__write_*'], a mapping such as {'mcp__fs__write_*': 'always'}, "
    "or 'always' for all tools"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one tool, and the rule behind it, such as `disallowed_tools: mcp__github__delete_*`.

    `rule` names only an option, without a pattern, if none of the option's patterns matched; it is empty if no rule
    applies to the tool.
    """

    kind: Kind
    rule: str = ""

    def lets_through(self, *, can_ask: bool) -> bool:
        """Return whether the tool is listed and callable; `can_ask` is True if there is an approver."""
        return self.kind == "allow" or (can_ask and self.kind == "ask")

    def explain(self) -> str:
        """Return the decision as text, such as `denied by disallowed_tools: mcp__github__delete_*`."""
        _, _, by = self.rule.partition(": ")
        match self.kind:
            case "deny":
                return f"denied by {self.rule}"
            case "ask":
                return f"needs approval by {self.rule}" if by else f"needs approval: not in {self.rule}"
            case _:
                return f"allowed by {self.rule}" if by else "allowed (no rule applies)"

    def __str__(self) -> str:
        return self.explain()


class Permissions:
    """The rules of a hub, validated and compiled. Equal rules compare equal, regardless of their order.

    A pattern is a qualified name with `*` for any run of characters; `mcp__github` alone means all tools of that
    server. A pattern that no qualified name can match raises `ConfigError`: a misspelt ban would have no effect.
    """

    __slots__ = ("_allowed", "_always", "_disallowed", "_never")

    def __init__(
        self,
        allowed_tools: Iterable[str] | None = None,
        disallowed_tools: Iterable[str] | None = None,
        require_approval: RequireApproval | None = None,
    ) -> None:
        self._allowed = None if allowed_tools is None else _globs("allowed_tools", allowed_tools)
        self._disallowed = _globs("disallowed_tools", () if disallowed_tools is None else disallowed_tools)
        words = [] if require_approval is None else _approvals(require_approval)
        self._always = _globs("require_approval", [each for each, word in words if word == "always"])
        self._never = _globs("require_approval", [each for each, word in words if word == "never"])

    def decide(self, name: str, alias: str | None = None) -> Decision:
        """Return the decision about the tool with this qualified name; patterns may also match its alias."""
        names = (name,) if alias is None or alias == name else (name, alias)
        if (banned := _found(self._disallowed, names)) is not None:
            return Decision("deny", f"disallowed_tools: {banned.pattern}")
        if (asked := self._asks(names)) is not None:
            return Decision("ask", f"require_approval: {asked.pattern}")
        if self._allowed is None:
            return Decision("allow")
        if (allowed := _found(self._allowed, names)) is not None:
            return Decision("allow", f"allowed_tools: {allowed.pattern}")
        return Decision("ask", "allowed_tools")

    def _asks(self, names: tuple[str, ...]) -> Glob | None:
        always = _found(self._always, names)
        never = None if always is None else _found(self._never, names)
        if always is None or never is None:
            return always
        return always if always.weight >= never.weight else None

    def _rules(self) -> tuple[Globs | None, ...]:
        return (self._allowed, self._disallowed, self._always, self._never)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Permissions) and self._rules() == other._rules()

    def __hash__(self) -> int:
        return hash(self._rules())

    def __repr__(self) -> str:
        shown = [f"allowed_tools={_shown(self._allowed)}"] if self._allowed is not None else []
        shown += [f"disallowed_tools={_shown(self._disallowed)}"] if self._disallowed.patterns else []
        words = {p: word for globs, word in ((self._always, "always"), (self._never, "never")) for p in globs.patterns}
        shown += [f"require_approval={words!r}"] if words else []
        return f"Permissions({', '.join(shown)})"


def _found(globs: Globs, names: tuple[str, ...]) -> Glob | None:
    return max(filter(None, map(globs.find, names)), key=lambda glob: glob.weight, default=None)


def _shown(globs: Globs) -> str:
    return repr(list(globs.patterns))


def _approvals(given: object) -> list[tuple[object, object]]:
    """Return every form of `require_approval` as patterns, each with "always" or "never"."""
    if given in ("always", "never"):
        return [("*", given)]
    if not isinstance(given, Mapping):
        return [(each, "always") for each in _listed("require_approval", given, _APPROVALS)]
    for each, word in given.items():
        if word not in ("always", "never"):
            message = f"require_approval: expected 'always' or 'never' for {each!r}, got {word!r}"
            raise ConfigError(message, key="require_approval", expected=_APPROVALS)
    return list(given.items())


def _globs(key: str, patterns: object) -> Globs:
    return Globs([checked_pattern(key, each) for each in _listed(key, patterns, _PATTERNS)])


def _listed(key: str, given: object, expected: str) -> list[object]:
    # A string is iterable too: one name would become the list of its letters.
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise ConfigError(f"{key}: expected {expected}, got {given!r}", key=key, expected=expected)
    return list(given)


def checked_pattern(key: str, text: object) -> str:
    """Return the pattern as it is matched; a server alone becomes a pattern for all of its tools."""
    if not isinstance(text, str):
        raise ConfigError(f"{key}: expected {_PATTERNS}, got {text!r} in it", key=key, expected=_PATTERNS)
    found = pattern(text)
    if found is None:
        message = f"{key}: {text!r} cannot match any tool: expected mcp__server__tool, or mcp__server for all its tools"
        raise ConfigError(message, key=key, expected=_PATTERNS)
    return found
