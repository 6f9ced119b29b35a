"""`toolcrib call`."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...config import SecretMask, secrets_of
from ...types import TextContent, Tool, ToolResult, Wire
from ..console import complain, note, show_json
from ..exit_codes import CliError, Exit
from ..interactive import TerminalUser
from ..key_values import from_json, merged, missing, refused, unknown, usage
from ..lazy_command import Invocation
from ..lookup import find_tool, split_words
from ..progress import Meter
from ..render import count_files, names_file, show_block, show_result
from ..server_sign_in import SignInMayHelp, retry_after_sign_in
from ..target import Target, open_servers

_JSON_EXAMPLE: Final = """toolcrib call NAME --args '{"key": "value"}'"""


def command(
    invocation: Invocation,
    words: Sequence[str],
    given: str,
    as_json: bool,
    output: Path,
    yes: bool,
    check: bool,
    config: Path | None,
    timeout: float | None,
) -> Coroutine[Any, Any, Exit]:
    """Call a tool."""
    if text := next((word for word in words if word.lstrip().startswith("{")), None):
        raise CliError(f"{text}: expected KEY=VALUE", hint=f"JSON goes after --args: {_JSON_EXAMPLE}")
    target, name, rest = split_words("tool", words, config, invocation.command)
    if given and "-" in rest:
        raise CliError("--args and - both give the arguments", hint="give one of them")
    # Read before the event loop runs, which would handle Ctrl-C instead.
    base = _object(sys.stdin.read() if "-" in rest else _text(given))
    rest = [word for word in rest if word != "-"]
    request = _CallRequest(name, rest, base, check, yes, as_json, output)
    owners = target.owner_of(name)
    return retry_after_sign_in(owners.settings.entries, lambda: _call(owners, request, timeout))


@dataclass(frozen=True, slots=True)
class _CallRequest:
    """A call as the command line describes it."""

    name: str
    words: list[str]
    base: Wire
    check: bool
    yes: bool
    as_json: bool
    output: Path


async def _call(target: Target, request: _CallRequest, timeout: float | None) -> Exit:
    configs = [entry.config for entry in target.settings.entries if entry.config is not None]
    meter = Meter(request.name, functools.reduce(operator.or_, map(secrets_of, configs), SecretMask()))
    user = TerminalUser(meter.aside, agrees=request.yes)
    handlers: dict[str, Any] = {
        "approve": user.approve,
        "elicitation_handler": user.elicit,
        "elicitation_modes": ("form", "url"),
        "log_handler": meter.on_log,
    }
    # Failures of servers that do not have the tool do not matter.
    async with open_servers(target, timeout=timeout, report_failures=len(target.names) == 1, **handlers) as session:
        try:
            tool = await find_tool(session, request.name)
        except CliError as exc:
            errors = {state.name: state.last_error for state in session.failed if state.last_error is not None}
            raise SignInMayHelp(exc, errors) from exc
        arguments = arguments_for(tool, request.words, request.base, check=request.check)
        timeouts: dict[str, Any] = target.call_timeouts(tool.server) if timeout is None else {}
        with meter:
            result = await session.hub.call_tool(tool.name, arguments, on_progress=meter.on_progress, **timeouts)
        code = _show(result, tool, request.output, as_json=request.as_json)
        if len(target.names) > 1:
            note(f"hint: `toolcrib call {tool.name}` starts only the server {tool.server}")
        return code


def _text(given: str) -> str:
    """Return the JSON that --args gives: the text itself, or the content of @FILE."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).expanduser().read_text("utf-8")
    except (OSError, ValueError) as exc:
        reason = "it is not UTF-8 text" if isinstance(exc, ValueError) else exc.strerror
        raise CliError(f"--args: cannot read {given[1:]}: {reason}", hint="expected JSON, or @ and a file") from None


def _object(text: str) -> Wire:
    if not text.strip():
        return {}
    try:
        value = from_json(text)
    except ValueError as exc:
        raise CliError(f"the arguments are not valid JSON: {exc}", hint=_JSON_EXAMPLE) from None
    if not isinstance(value, dict):
        raise CliError("the arguments must be one JSON object", hint=_JSON_EXAMPLE)
    return value


def arguments_for(tool: Tool, words: list[str], base: Wire, *, check: bool = True) -> Wire:
    """Return the arguments of a tool; raise `CliError`, before anything is sent, if they do not fit its schema."""
    schema = tool.input_schema
    arguments, problems = merged(words, schema, base)
    if check:
        wrong = {problem.partition(":")[0]: None for problem in problems}
        problems += missing({**wrong, **arguments}, schema)
        strange = unknown(arguments, schema)
        problems = problems + strange if problems else refused(arguments, schema)
        for each in [] if problems else strange:
            note(f"warning: {each}", "yellow")
    if problems:
        raise CliError(f"{tool.name}: {'; '.join(problems)}", hint=f"it takes {usage(schema) or 'no arguments'}")
    return arguments


def _show(result: ToolResult, tool: Tool, output: Path, *, as_json: bool) -> Exit:
    name, files = tool.original_name or tool.name, count_files(result)
    wrong = names_file(output) and files != 1 and not as_json
    folder = output.parent if wrong else output
    if as_json:
        show_json(result.raw)
    elif result.is_error:
        # On stderr: a program that reads standard output must not mistake an error for a result.
        text = result.text.strip()
        short = "\n" not in text
        complain(
            f"{tool.name}: {text or 'the tool failed'}" if short else f"{tool.name} failed",
            quoted="" if short else text,
        )
        for block in result.content:
            if not isinstance(block, TextContent):
                show_block(block, folder, name)
    else:
        show_result(result, folder, name)
    if wrong and not result.is_error:
        saved = f"{files} files, which are saved in {folder.absolute()}" if files else "no file to save"
        raise CliError(f"--output {output}: the result has {saved}", hint="--output FILE is for a result with one file")
    return Exit.FAILED if result.is_error else Exit.OK
