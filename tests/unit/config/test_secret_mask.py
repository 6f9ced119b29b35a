"""`SecretMask`: which values of a config are secrets, and how they are hidden in the text of others."""

from __future__ import annotations

import base64
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.config import (
    MASK,
    HttpServer,
    PythonServer,
    SecretMask,
    SseServer,
    StdioServer,
    secrets_of,
    secrets_of_process,
    secrets_of_web,
)
from toolcrib.config.masking import argument_values
from toolcrib.protocol.sanitize import one_line, printable

SECRET = "s3cr3t-0123456789"


def test_all_secrets_of_a_text_are_hidden_also_where_they_overlap() -> None:
    mask = SecretMask(["abcdef", "defghi", "abc-long-abc"])
    assert mask.mask("<abcdefghi> abc-long-abc abcdef") == f"<{MASK}> {MASK} {MASK}"


def test_what_is_hidden_is_not_masked_again() -> None:
    assert SecretMask(["mask", SECRET]).mask(f"a {SECRET} b mask c") == f"a {MASK} b {MASK} c"


def test_short_values_are_not_secrets() -> None:
    assert SecretMask(["", "1", "on", "abc"]).mask("abc on 1") == "abc on 1"


@pytest.mark.parametrize("spelled", ['se"cret\\value', "se%22cret%5Cvalue", 'se\\"cret\\\\value'])
def test_a_secret_is_hidden_however_it_is_quoted(spelled: str) -> None:
    assert SecretMask(['se"cret\\value']).mask(f"[{spelled}]") == f"[{MASK}]"


@given(st.text(max_size=30), st.text(alphabet="abc", min_size=4, max_size=60), st.integers(0, 80))
def test_no_beginning_of_a_secret_survives_a_cut(before: str, secret: str, size: int) -> None:
    text = (before + secret)[:size]
    masked = SecretMask([secret]).mask(text, cut=True)
    tail = secret[: max(0, size - len(before))]
    assert len(tail) < 4 or not masked.endswith(tail)


def test_a_text_is_masked_before_it_is_cut() -> None:
    mask, long = SecretMask([SECRET, "x" * 5_000]), "." * 195
    assert SECRET[:4] not in one_line(long + SECRET, mask=mask)
    assert SECRET[:4] not in printable((long + SECRET).encode(), mask=mask)
    assert one_line(f"key: {'x' * 1000}", mask=mask, cut=True) == f"key: {MASK}"
    assert one_line(f"key: {'x' * 1000}é".encode()[:-1], mask=mask, cut=True) == f"key: {MASK}"


def test_the_strings_of_a_json_value_are_masked() -> None:
    data = {"a": [SECRET, 1, None, {SECRET: f"<{SECRET}>"}], "b": True}
    assert SecretMask([SECRET]).mask_data(data) == {"a": [MASK, 1, None, {MASK: f"<{MASK}>"}], "b": True}


def test_a_variable_that_is_only_passed_on_is_a_secret_if_its_name_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "somewhere")
    monkeypatch.setenv("API_KEY", "passed-on")
    mask = secrets_of_process({"PLACE": "somewhere", "API_KEY": "passed-on", "OWN": "given\nline-two"})
    assert mask.mask("somewhere passed-on given line-two") == f"somewhere {MASK} {MASK} {MASK}"


@pytest.mark.parametrize(
    "quoted",
    [
        "Bearer bearer-token",
        "bearer-token",
        "the-cookie",
        "X-KEY: custom-value",
        "the%20user",
        "the user",
        "pass/word",
        "pass%2Fword",
        "qu3ry",
        "unnamed-query",
        base64.b64encode(b"the user:pass/word").decode(),
        "proxy-password",
    ],
)
def test_the_secrets_of_a_web_server_are_its_headers_user_info_and_query_values(quoted: str) -> None:
    mask = secrets_of_web(
        "https://the%20user:pass%2Fword@host/path?token=qu3ry&mode=read&x=unnamed-query",
        {"Authorization": "Bearer bearer-token", "Cookie": "id=the-cookie; a=b", "X-KEY": "custom-value"},
        "http://me:proxy-password@proxy",
    )
    shown = mask.mask(f"it says: {quoted}!")
    assert MASK in shown
    assert quoted.removeprefix("X-KEY: ") not in shown


def test_a_word_of_a_url_is_not_a_secret() -> None:
    mask = secrets_of_web("https://host/path?mode=read&debug=true", {"Accept-Language": "en-US", "X-F": lambda: "x"})
    assert mask.mask("read true en-US host path") == "read true en-US host path"


def test_user_and_password_of_a_basic_header_are_secrets() -> None:
    mask = secrets_of_web("https://host/", {"Authorization": "Basic " + base64.b64encode(b"me:pass-word").decode()})
    assert mask.mask("wrong password pass-word") == f"wrong password {MASK}"


def test_credentials_that_come_later_are_masked_and_only_the_last_ones_kept() -> None:
    mask = SecretMask()
    for n in range(1000):
        mask.add_headers({"Authorization": f"Bearer token-{n:05}"})
    assert mask.mask("token-00999") == MASK
    assert mask.mask("token-00001") == "token-00001"


def test_a_folder_that_exists_is_not_a_secret_unless_its_name_says_so(tmp_path: Path) -> None:
    folder = str(tmp_path)
    text = f"see {folder}/server.log"
    assert secrets_of_process({"CACHE_DIR": folder}).mask(text) == text
    assert secrets_of_process({"API_TOKEN": folder}).mask(text) == f"see {MASK}/server.log"
    assert secrets_of_process({"CACHE_DIR": "/no/such/folder"}).mask("in /no/such/folder") == f"in {MASK}"


@pytest.mark.parametrize(
    "value", ["true", "error", "production", "8080", "1.2.3", "http://localhost:3000", "https://a.example/"]
)
def test_ordinary_values_are_not_secrets_unless_their_name_says_so(value: str) -> None:
    text = f"it is {value} here"
    assert secrets_of_process({"SETTING": value}).mask(text) == text
    assert secrets_of_process({"API_KEY": value}).mask(text) == f"it is {MASK} here"


@pytest.mark.parametrize("value", ["hunter2", "postgres://me:pw@host/db", "s3cr3t-0123456789", "correct horse battery"])
def test_other_values_are_secrets_whatever_their_name(value: str) -> None:
    assert value not in secrets_of_process({"SETTING": value}).mask(f"it is {value} here")


def test_a_token_stays_masked_while_other_headers_change_with_every_request() -> None:
    mask = SecretMask()
    mask.add_headers({"Authorization": "Bearer tok-abcdef-123456"})
    for number in range(50):
        mask.add_headers({"X-Request-Id": f"request-{number:08}"})
    assert mask.mask("bad token tok-abcdef-123456") == f"bad token {MASK}"


def test_arguments_that_are_secrets_by_the_name_of_their_option_are_masked_everywhere() -> None:
    args = ["--verbose", "--api-key", "sk-live-0123456789", "--token=abcdefgh", "--port", "8080", "plain"]
    config = StdioServer("tool", args)
    for text in (repr(config), config.server_identifier, secrets_of_process(None, args).mask(" ".join(args))):
        assert "sk-live" not in text
        assert "abcdefgh" not in text
        assert "8080" in text
    other = StdioServer("tool", [*args[:2], "sk-live-9876543210", *args[3:]])
    assert other.server_identifier != config.server_identifier


def test_a_token_among_the_arguments_is_known_by_its_look() -> None:
    token = "sk-" + "0123456789abcdef"
    config = StdioServer("server", [token, "--file", "name"])
    assert token not in repr(config)
    assert secrets_of(config).mask(f"{token} of --file name") == f"{MASK} of --file name"


@pytest.mark.parametrize(
    "args, values",
    [
        (["--token=a=b", "-k", "c", "d"], [(0, "token", "a=b"), (2, "k", "c"), (3, "", "d")]),
        (["--token", "--other", "x"], [(2, "other", "x")]),
        (["--token="], [(0, "token", "")]),
        (["--token", 5, "x", "-"], [(2, "", "x"), (3, "", "-")]),
        ([], []),
    ],
)
def test_values_of_arguments_are_found_with_the_names_of_their_options(args: list[Any], values: list[Any]) -> None:
    assert list(argument_values(args)) == values


def test_the_secrets_of_each_kind_of_config_are_found() -> None:
    stdio = StdioServer("x", env={"API_KEY": SECRET})
    for config in (stdio, HttpServer("http://h", headers={"X-Key": SECRET}), SseServer(f"http://h/?token={SECRET}")):
        assert secrets_of(config).mask(f"<{SECRET}>") == f"<{MASK}>"
        assert not secrets_of(config).is_empty
    assert secrets_of(HttpServer("http://h/", headers={"Accept-Language": "en"})).is_empty
    assert secrets_of(PythonServer("x.py")).is_empty


def test_masks_are_joined() -> None:
    joined = SecretMask(["one-secret"]) | SecretMask(["another"])
    assert joined.mask("one-secret another third") == f"{MASK} {MASK} third"
    assert (SecretMask() | SecretMask()).is_empty


def test_read_only_data_is_masked_as_plain_json() -> None:
    data = MappingProxyType({"a": (SECRET, 1)})
    assert SecretMask([SECRET]).mask_data(data) == {"a": [MASK, 1]}
