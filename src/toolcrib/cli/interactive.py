"""Prompts at the terminal: approval of a call, and input that a server requests."""

from __future__ import annotations

import sys
import termios
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from .._util.terminal import read_line, terminal_turn
from ..errors import AccessDenied
from ..hub.interceptors import ToolCall
from ..types import ElicitRequest, ElicitResult, Wire
from .console import as_json, can_ask, cell, note, plain
from .key_values import Misfit, described, typed


class Cancelled(Exception):
    """The user pressed Ctrl-D instead of answering."""


class TerminalUser:
    """The user at the terminal, prompted for one thing at a time.

    `aside` clears the screen of live output during a prompt; `agrees`: every call is approved in advance.
    """

    def __init__(self, aside: Callable[[], AbstractContextManager[Any]] = nullcontext, *, agrees: bool = False) -> None:
        self._aside = aside
        self._agrees = agrees

    async def approve(self, call: ToolCall) -> bool:
        """Prompt for the approval of a call, and return whether it may be made."""
        if self._agrees:
            return True
        if not can_ask():
            message = "the call needs approval, and there is no terminal to prompt on; --yes approves it"
            raise AccessDenied(message, server=call.server, tool=call.tool)
        async with terminal_turn():
            with self._aside():
                note(f"{cell(call.name)} needs your approval. It would be called with", "bold")
                note(_quoted(as_json(dict(call.arguments))), "")
                try:
                    _forget_typed()
                    return await self._agreed("Call it? [y/N]", default=False)
                except Cancelled:
                    note("")
                    return False

    async def confirm(self, question: str) -> bool:
        """Ask a question that Return answers with yes; Ctrl-D means no."""
        async with terminal_turn():
            with self._aside():
                try:
                    _forget_typed()
                    return await self._agreed(question, default=True)
                except Cancelled:
                    note("")
                    return False

    async def elicit(self, request: ElicitRequest) -> ElicitResult:
        """Answer a request of a server for input: a form, or a page to open."""
        if not can_ask():
            note(f"declined a request for input from the server (no terminal):\n{_quoted(request.message)}")
            return ElicitResult("decline")
        async with terminal_turn():
            with self._aside():
                note("The server requests input (Ctrl-D to cancel):", "bold")
                note(_quoted(request.message), "")
                try:
                    _forget_typed()
                    return await (self._visit(request) if request.mode == "url" else self._fill_in(request))
                except Cancelled:
                    note("")
                    return ElicitResult("cancel")

    async def _visit(self, request: ElicitRequest) -> ElicitResult:
        note("The server asks you to open this page. Check the address first; toolcrib does not open it:", "bold")
        note(_quoted(str(request.url)), "")
        return ElicitResult("accept" if await self._agreed("Continue? [y/N]", default=False) else "decline")

    async def _fill_in(self, request: ElicitRequest) -> ElicitResult:
        properties = request.schema.get("properties")
        content: Wire = {}
        for key, schema in properties.items() if isinstance(properties, dict) else ():
            await self._field(key, schema if isinstance(schema, dict) else {}, request.schema, content)
        send = await self._agreed("Send it? [Y/n]", default=True)
        return ElicitResult("accept", content) if send else ElicitResult("decline")

    async def _field(self, key: str, schema: Wire, root: Wire, content: Wire) -> None:
        """Prompt for one field of a form until the input fits; an empty line takes the default, or leaves it out."""
        required = root.get("required")
        needed = isinstance(required, list) and key in required
        about = str(schema.get("title") or schema.get("description") or "")
        label = f"{key} ({described(schema, root)}{', required' if needed else ''}{': ' if about else ''}{about})"
        label += f" [{as_json(schema['default'])}]:" if "default" in schema else ":"
        while True:
            text = await self._line(label)
            if text == "" and "default" in schema:
                content[key] = schema["default"]
                return
            if text == "":
                if not needed:
                    return
                continue
            try:
                content[key] = typed(text, schema, root)
                return
            except Misfit as exc:
                note(str(exc), "yellow")

    async def _agreed(self, question: str, *, default: bool) -> bool:
        answer = (await self._line(question)).strip().lower()
        return default if answer == "" else answer in ("y", "yes")

    async def _line(self, question: str) -> str:
        """Return a typed line."""
        sys.stderr.write(cell(question) + " ")
        sys.stderr.flush()
        line = await read_line()
        if line is None:
            raise Cancelled
        return line


def _forget_typed() -> None:
    """Discard input from before the prompt, which cannot be meant for it."""
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _quoted(text: str) -> str:
    """Mark a server's text as quoted."""
    return "\n".join(f"  | {line}" for line in plain(text).splitlines())
