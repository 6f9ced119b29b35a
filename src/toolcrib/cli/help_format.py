"""What a command shows for `--help`: plain lines, so that neither rich nor a type of Python gets in the way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from typer.core import TyperCommand


class Quick:
    """Beside a command of typer: it reads its parameters without what most of them do not need."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Newer typers make a pydantic validator for every parameter, given or not: longer than many a server's start.

        A default, and text where text is wanted, need none.
        """
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the command beside
        for param in params:
            if hasattr(param, "type_descriptor") and "process_value" not in vars(param):
                param.process_value = functools.partial(_value_of, param, param.process_value)
        return params


class Page(Quick, TyperCommand):
    """A command whose usage and arguments are shown as they are typed, with examples at the end."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002  # as it is called
        return ["[OPTIONS]", *(_as_typed(param) for param in self.params if _is_argument(param))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, then options."""
        for heading, wanted in (("Arguments", True), ("Options", False)):
            params = [param for param in self.get_params(ctx) if _is_argument(param) is wanted]
            rows = [(_as_typed(param), param.help or "") if wanted else param.get_help_record(ctx) for param in params]
            if any(rows):
                with formatter.section(heading):
                    formatter.write_dl([row for row in rows if row])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  # as it is called
        """The examples, line by line as they stand."""
        write_lines("Examples", self.epilog, formatter)


def write_lines(heading: str, text: str | None, formatter: Any) -> None:
    """A part of a page, line by line as it stands; nothing without a text."""
    if text:
        with formatter.section(heading):
            formatter.write("".join(f"  {line}\n" for line in text.strip().splitlines()))


def _value_of(param: Any, checked: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    given = not ctx.get_parameter_source(param.name).name.startswith("DEFAULT")
    if param.required or (given and param.type_descriptor.annotation not in (str, list[str])):
        return checked(ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


def _is_argument(param: Any) -> bool:
    return bool(param.param_type_name == "argument")


def _as_typed(param: Any) -> str:
    return param.metavar or str(param.name).upper()
