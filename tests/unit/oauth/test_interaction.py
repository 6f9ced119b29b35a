"""The ways to ask a person: which one is chosen, what is read from a terminal, and functions of the program."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import pytest

import toolcrib as tc
from toolcrib.oauth import interaction
from toolcrib.oauth.authorization import AuthorizationAttempt
from toolcrib.oauth.client_auth import ClientIdentity
from toolcrib.oauth.interaction import Interact, ask_person, can_listen, check_interact, choose_interaction
from toolcrib.oauth.well_known import ServerMetadata

ISSUER = "https://login.example.com"
REDIRECT = "http://127.0.0.1:27465/callback"


class Terminal(io.StringIO):
    """A stream that is a terminal, of a program that only writes to it."""

    def isatty(self) -> bool:
        return True


class Keyboard:
    """A terminal at which a text is typed."""

    def __init__(self, text: str) -> None:
        self.typed, terminal = os.openpty()
        os.write(self.typed, text.encode() or b"\x04")  # Ctrl-D
        self.stdin = os.fdopen(terminal, encoding="utf-8")

    def close(self) -> None:
        self.stdin.close()
        os.close(self.typed)


@pytest.fixture
def keyboards() -> Iterator[list[Keyboard]]:
    opened: list[Keyboard] = []
    yield opened
    for each in opened:
        each.close()


@pytest.fixture
def type_text(monkeypatch: pytest.MonkeyPatch, keyboards: list[Keyboard]) -> Callable[[str], Terminal]:
    """Return a function that types a text at a new terminal, and returns what is written there."""

    def type_text(text: str) -> Terminal:
        errors = Terminal()
        keyboards.append(Keyboard(text))
        monkeypatch.setattr(sys, "stdin", keyboards[-1].stdin)
        monkeypatch.setattr(sys, "stderr", errors)
        return errors

    return type_text


def attempt(*, sends_iss: bool = False) -> AuthorizationAttempt:
    metadata = ServerMetadata(ISSUER, f"{ISSUER}/authorize", f"{ISSUER}/token", sends_iss=sends_iss)
    return AuthorizationAttempt(metadata, ClientIdentity("app"), REDIRECT, None, ())


def set_streams(monkeypatch: pytest.MonkeyPatch, text: str = "", *, kind: type[io.StringIO] = Terminal) -> io.StringIO:
    """Replace stdin, with a text to read, and stderr, which is returned."""
    errors = kind()
    monkeypatch.setattr(sys, "stdin", kind(text))
    monkeypatch.setattr(sys, "stderr", errors)
    return errors


# ---- the choice ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "environment, terminal, expected",
    [
        ({"BROWSER": "firefox"}, False, "browser"),
        ({"BROWSER": "firefox"}, True, "browser"),
        ({"DISPLAY": ":0"}, False, "browser"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, False, "browser"),
        ({"DISPLAY": ""}, True, "paste"),
        ({}, True, "paste"),
        ({}, False, None),
    ],
)
def test_the_way_is_chosen_by_display_and_terminal(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], terminal: bool, expected: str | None
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    set_streams(monkeypatch, kind=Terminal if terminal else io.StringIO)

    assert choose_interaction("auto") == expected


@pytest.mark.parametrize(
    "redirect_uri, expected",
    [
        (None, True),
        ("http://127.0.0.1:8765/callback", True),
        ("http://localhost:8765/callback", True),
        ("http://[::1]:8765/callback", True),
        ("https://localhost:8765/callback", False),
        ("https://app.example/callback", False),
        ("http://app.example:8765/callback", False),
        ("http://localhost/callback", False),
        ("http://127.0.0.1:0/callback", False),
    ],
)
def test_a_browser_is_chosen_only_if_the_answer_can_be_received(
    monkeypatch: pytest.MonkeyPatch, redirect_uri: str | None, expected: bool
) -> None:
    monkeypatch.setenv("BROWSER", "firefox")

    assert can_listen(redirect_uri) is expected
    set_streams(monkeypatch)
    assert choose_interaction("auto", redirect_uri) == ("browser" if expected else "paste")
    set_streams(monkeypatch, kind=io.StringIO)
    assert choose_interaction("auto", redirect_uri) == ("browser" if expected else None)


@pytest.mark.parametrize("interact", ["browser", "paste", None, print])
def test_a_way_that_is_set_is_not_replaced(monkeypatch: pytest.MonkeyPatch, interact: Interact) -> None:
    monkeypatch.setenv("BROWSER", "firefox")

    check_interact(interact)
    assert choose_interaction(interact) is interact


@pytest.mark.parametrize("interact", ["window", 7, ""])
def test_other_values_are_rejected(interact: object) -> None:
    with pytest.raises(tc.ConfigError, match="interact: expected"):
        check_interact(interact)


@pytest.mark.parametrize("stream", ["stdin", "stderr"])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_stream_that_is_closed_or_missing_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: str, is_closed: bool
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    set_streams(monkeypatch)
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, stream, closed if is_closed else None)

    assert choose_interaction("auto") is None


# ---- pasting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [f"{REDIRECT}?", "?", ""])
async def test_the_address_that_is_pasted_is_read(type_text: Callable[[str], Terminal], start: str) -> None:
    request = attempt(sends_iss=True)
    query = urlencode({"code": "a/b", "state": request.state, "iss": ISSUER})
    errors = type_text(f"  {start}{query}  \nnext line\n")

    answer = await ask_person("paste", request, None)

    assert answer == {"code": "a/b", "state": request.state, "iss": ISSUER}
    assert request.read_code(answer) == "a/b"
    assert request.url in errors.getvalue()
    assert sys.stdin.readline() == "next line\n"


async def test_a_prompt_that_is_cancelled_takes_no_line_of_the_next_one(
    type_text: Callable[[str], Terminal], keyboards: list[Keyboard]
) -> None:
    first, second = attempt(), attempt()
    errors = type_text("x\n")
    sys.stdin.readline()
    asking = asyncio.ensure_future(ask_person("paste", first, None))
    while first.url not in errors.getvalue():
        await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])
    asking = asyncio.ensure_future(ask_person("paste", second, None))
    os.write(keyboards[-1].typed, b"the code\n")

    assert second.read_code(await asyncio.wait_for(asking, 10)) == "the code"


@pytest.mark.parametrize("code", ["4/0AbCd", "padded==", "a=b"])
async def test_a_code_alone_is_taken(type_text: Callable[[str], Terminal], code: str) -> None:
    request = attempt()
    type_text(f"{code}\n")

    assert request.read_code(await ask_person("paste", request, None)) == code


@pytest.mark.parametrize("wrong", ["canary", f"{REDIRECT}?code=canary&state=another", REDIRECT, "code=canary"])
async def test_what_is_not_the_answer_is_asked_for_again(
    type_text: Callable[[str], Terminal], keyboards: list[Keyboard], wrong: str
) -> None:
    request = attempt(sends_iss=True)
    query = urlencode({"code": "c", "state": request.state, "iss": ISSUER})
    errors = type_text(f"{wrong}\n")
    asking = asyncio.ensure_future(ask_person("paste", request, None))
    while "Expected the whole address" not in errors.getvalue():
        await asyncio.sleep(0)
    os.write(keyboards[-1].typed, f"{REDIRECT}?{query}\n".encode())

    assert request.read_code(await asyncio.wait_for(asking, 10)) == "c"
    assert f"it starts with {REDIRECT}" in errors.getvalue()
    assert "canary" not in errors.getvalue()


async def test_a_wrong_address_and_an_empty_line_cancel_the_sign_in(type_text: Callable[[str], Terminal]) -> None:
    type_text(f"{REDIRECT}?code=c&state=another\n\n")

    with pytest.raises(tc.AuthError, match="cancelled: no address was pasted"):
        await ask_person("paste", attempt(), None)


@pytest.mark.parametrize("text", ["", "\n", "   \n"])
async def test_an_empty_line_or_the_end_of_input_cancels_the_sign_in(
    type_text: Callable[[str], Terminal], text: str
) -> None:
    type_text(text)

    with pytest.raises(tc.AuthError, match="cancelled: no address was pasted"):
        await ask_person("paste", attempt(), None)


async def test_pasting_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = set_streams(monkeypatch, "code\n", kind=io.StringIO)

    with pytest.raises(tc.AuthError, match=r"expected a terminal.*`toolcrib auth login`"):
        await ask_person("paste", attempt(), None)

    assert errors.getvalue() == ""


async def test_two_prompts_at_once_take_turns(type_text: Callable[[str], Terminal], keyboards: list[Keyboard]) -> None:
    requests = attempt(), attempt()
    errors = type_text("x\n")
    sys.stdin.readline()
    asking = [asyncio.ensure_future(ask_person("paste", each, None)) for each in requests]
    for request, code in zip(requests, ("first", "second"), strict=True):
        while request.url not in errors.getvalue():
            await asyncio.sleep(0.005)
        os.write(keyboards[-1].typed, f"{code}\n".encode())
    answers = await asyncio.wait_for(asyncio.gather(*asking), 10)

    assert [each["code"] for each in answers] == ["first", "second"]


# ---- functions of the program ----------------------------------------------------------------------------------


def answer_url(url: str) -> str:
    assert url.startswith(f"{ISSUER}/authorize?")
    return f"{REDIRECT}?code=c&state=s"


async def answer_url_later(url: str) -> str:
    await asyncio.sleep(0)
    return answer_url(url)


def return_later(url: str) -> Awaitable[str]:
    return answer_url_later(url)


def answer_mapping(_: str) -> dict[str, Any]:
    return {"code": "c", "state": "s", "iss": None}


async def answer_mapping_later(url: str) -> dict[str, Any]:
    return answer_mapping(url)


class Person:
    """An object with an async `__call__`."""

    async def __call__(self, url: str) -> str:
        return answer_url(url)


@pytest.mark.parametrize(
    "function",
    [answer_url, answer_url_later, answer_mapping, answer_mapping_later, Person(), return_later],
)
async def test_a_function_returns_the_url_or_its_parameters(function: Any) -> None:
    assert await ask_person(function, attempt(), None) == {"code": "c", "state": "s"}


async def test_a_function_that_blocks_does_not_stop_the_event_loop() -> None:
    loop, released = asyncio.get_running_loop(), threading.Event()

    def block(url: str) -> str:
        loop.call_soon_threadsafe(released.set)
        assert released.wait(10)  # only the event loop can set it
        return answer_url(url)

    assert await ask_person(block, attempt(), None) == {"code": "c", "state": "s"}


@pytest.mark.parametrize("answer", [None, 7, b"code=c", {"code": ["canary"]}])
async def test_other_answers_of_a_function_are_rejected(answer: Any) -> None:
    with pytest.raises(tc.AuthError, match="interact: expected a function that returns the URL") as caught:
        await ask_person(lambda _: answer, attempt(), None)

    assert "canary" not in str(caught.value)


async def test_a_person_who_does_not_answer_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interaction.SIGN_IN_SECONDS == 300.0
    monkeypatch.setattr(interaction, "SIGN_IN_SECONDS", 0.01)

    async def wait(_: str) -> str:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    with pytest.raises(tc.AuthError, match="not completed within"):
        await ask_person(wait, attempt(), None)


async def test_a_timeout_of_the_function_itself_stays_its_own() -> None:
    async def fail(_: str) -> str:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await ask_person(fail, attempt(), None)
