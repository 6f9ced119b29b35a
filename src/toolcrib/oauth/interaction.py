"""How a person is asked to sign in: in a browser, by pasting the address, or by a function of the program."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TextIO
from urllib.parse import urlsplit

from .._util.net import is_loopback
from .._util.terminal import read_line, terminal_turn
from .._util.threads import call_function, in_daemon_thread
from ..errors import AuthError, ConfigError
from .authorization import AuthorizationAttempt, read_redirect
from .loopback_listener import LoopbackListener

SIGN_IN_SECONDS: Final = 300.0
"""Seconds that a person has to sign in."""
BROWSER_START_SECONDS: Final = 5.0
"""Seconds after which a browser that has not returned counts as open: it runs in the foreground."""
PASTE_REDIRECT_URI: Final = "http://127.0.0.1:27465/callback"
"""The redirect URI if nothing listens: the browser shows an error, and the person copies its address."""

InteractFunction = Callable[[str], "str | Mapping[str, str] | Awaitable[str | Mapping[str, str]]"]
"""Gets the authorisation URL, and returns the URL that the person was redirected to, or its parameters."""
Interact = Literal["browser", "paste", "auto"] | InteractFunction | None


def check_interact(interact: object) -> None:
    """Raise `ConfigError` unless this is a valid value of `interact`."""
    if interact is not None and not callable(interact) and interact not in ("browser", "paste", "auto"):
        expected = '"auto", "browser", "paste", a function, or None'
        raise ConfigError(f"interact: expected {expected}, got {interact!r:.100}", key="interact", expected=expected)


def can_listen(redirect_uri: str | None) -> bool:
    """Return whether a listener of this program can receive the redirect: an http URL of this machine with a port."""
    parts = urlsplit(redirect_uri or "http://127.0.0.1:1")
    return parts.scheme == "http" and is_loopback(parts.hostname or "") and bool(parts.port)


def choose_interaction(interact: Interact, redirect_uri: str | None = None) -> Interact:
    """Return what `"auto"` means here: a browser with a display, pasting on a terminal, else None."""
    if interact != "auto":
        return interact
    if can_listen(redirect_uri) and (os.environ.get("BROWSER") or _has_display()):
        return "browser"
    return "paste" if _has_terminal() else None


def _has_display() -> bool:
    is_desktop = sys.platform in ("darwin", "win32")
    return is_desktop or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _has_terminal() -> bool:
    return _is_terminal(sys.stdin) and _is_terminal(sys.stderr)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


async def open_listener(interact: Interact, redirect_uri: str | None) -> LoopbackListener | None:
    """Open the listener for a sign-in in a browser; None for other ways. Raises `OSError` if the port is taken."""
    return await LoopbackListener.open(redirect_uri) if interact == "browser" else None


async def ask_person(
    interact: Interact, attempt: AuthorizationAttempt, listener: LoopbackListener | None
) -> Mapping[str, str]:
    """Ask a person to sign in, and return the parameters of the redirect."""
    if listener is not None:
        return await _ask_in_browser(attempt, listener)
    try:
        async with asyncio.timeout(SIGN_IN_SECONDS) as limit:
            if interact == "paste":
                async with terminal_turn():
                    return await _read_pasted(attempt)
            assert callable(interact)
            return await _ask_function(interact, attempt.url)
    except TimeoutError:
        if not limit.expired():
            raise  # of the program's own function
        raise AuthError(f"the sign-in was not completed within {SIGN_IN_SECONDS:.0f} s", status=401) from None


async def _ask_in_browser(attempt: AuthorizationAttempt, listener: LoopbackListener) -> Mapping[str, str]:
    shows_url = _is_terminal(sys.stderr)  # logs must not have the state that is in the URL
    if shows_url:
        _write(f"Opening a browser to sign in. If it shows no page, open this address:\n\n  {attempt.url}\n\n")
    # At the same time: the answer may come before the browser has returned, which some do when they are closed.
    opening = asyncio.create_task(_open_browser(attempt.url, is_shown=shows_url))
    try:
        return await listener.wait(attempt.matches, SIGN_IN_SECONDS)
    finally:
        opening.cancel()


async def _ask_function(function: InteractFunction, url: str) -> Mapping[str, str]:
    answer = await call_function(function, url)
    if isinstance(answer, str):
        return read_redirect(answer)
    if isinstance(answer, Mapping) and all(value is None or isinstance(value, str) for value in answer.values()):
        return {str(name): value for name, value in answer.items() if value is not None}
    expected = "the URL that the person was redirected to, or a mapping of its parameters"
    raise AuthError(f"interact: expected a function that returns {expected}, got {type(answer).__name__}", status=401)


async def _open_browser(url: str, *, is_shown: bool) -> None:
    try:
        # In a thread: some browsers block until they are closed.
        async with asyncio.timeout(BROWSER_START_SECONDS):
            is_open = await in_daemon_thread(lambda: webbrowser.open(url))
    except TimeoutError:
        is_open = True
    except (webbrowser.Error, OSError, ValueError):
        is_open = False
    if not is_open:
        address = "that address" if is_shown else f"this address:\n\n  {url}\n"
        _write(
            f"No browser could be started. Start one on this machine and open {address}\n"
            'Without a browser here, sign in with interact="paste" or `toolcrib auth login --no-browser`.\n'
        )


async def _read_pasted(attempt: AuthorizationAttempt) -> Mapping[str, str]:
    if not _has_terminal():
        raise AuthError('interact="paste": expected a terminal. Sign in with `toolcrib auth login`', status=401)
    _write(
        f"Open this address in a browser to sign in:\n\n  {attempt.url}\n\n"
        "Then copy the address of the page that you are sent to (it may show an error) and paste it here.\nAddress: "
    )
    while text := (await read_line() or "").strip():
        answer = read_redirect(text)
        if attempt.matches(answer):
            return answer
        is_code = "://" not in text and not answer.keys() & {"code", "error", "state"}
        if is_code and not attempt.metadata.sends_iss:  # otherwise the issuer in the address has to be checked
            return {"code": text, "state": attempt.state}  # the person vouches that it is the answer
        _write(
            f"Expected the whole address: it starts with {attempt.redirect_uri} and belongs to this sign-in. Paste it "
            "again, or press Return to cancel.\nAddress: "
        )
    raise AuthError("the sign-in was cancelled: no address was pasted", status=401)


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
