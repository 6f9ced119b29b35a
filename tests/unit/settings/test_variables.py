"""`${...}`: which variables are replaced, kept or rejected."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.settings.variables import MAX_NESTING, MAX_TEXT, Scope, parse

ENVIRON = {"A": "a-value", "EMPTY": "", "TRICKY": "${A} $A }{"}
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True)
plain = st.text(st.characters(exclude_characters="${}", exclude_categories=["Cs"]), max_size=8)


def expand(text: str, **own: str) -> str:
    return Scope(ENVIRON, own).expand(text)


def refused(text: str, inside: str | None = None, **own: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Scope(ENVIRON, own).expand(text, inside)
    return caught.value


@pytest.mark.parametrize(
    "text, expanded",
    [
        ("", ""),
        ("plain", "plain"),
        ("${A}", "a-value"),
        ("${env:A}", "a-value"),
        ("<${A}|${A}>", "<a-value|a-value>"),
        ("${NO:-x}", "x"),
        ("${env:NO:-x}", "x"),
        ("${NO:-}", ""),
        ("${A:-x}", "a-value"),
        ("${EMPTY}", ""),
        ("${EMPTY:-x}", ""),
        ("${NO:-${A}}", "a-value"),
        ("${NO:-<${NO2:-${NO3:-deep}}>}", "<deep>"),
        ("${NO:-a:-b}", "a:-b"),
        ("${NO:-{}}", "{}"),
        ("${A:-${NO}}", "a-value"),
        ("$A", "$A"),
        ("$A${A}$", "$Aa-value$"),
        ("$${A}", "${A}"),
        ("$$${A}", "$${A}"),
        ("}{", "}{"),
        ("${TRICKY}", "${A} $A }{"),
        ("${NO:-$${}", "${"),
    ],
)
def test_what_is_replaced(text: str, expanded: str) -> None:
    assert expand(text) == expanded


@pytest.mark.parametrize(
    "text, expected",
    [
        ("${NO}", "the variable NO in the environment"),
        ("${env:NO}", "the variable NO in the environment"),
        ("${NO:-${NO2}}", "the variable NO2 in the environment"),
        ("${", "} at the end of a variable"),
        ("${A", "} at the end of a variable"),
        ("${NO:-x", "} at the end of a variable"),
        ("${NO:-${A}", "} at the end of a variable"),
        ("${}", "${NAME}, ${NAME:-default} or ${env:NAME}"),
        ("${1}", "${NAME}, ${NAME:-default} or ${env:NAME}"),
        ("${a b}", "${NAME}, ${NAME:-default} or ${env:NAME}"),
        ("${A-x}", "${NAME}, ${NAME:-default} or ${env:NAME}"),
        ("${secret:x}", "${NAME}, ${NAME:-default} or ${env:NAME}"),
        ("${input:api-key}", "an environment variable, as in ${env:NAME}"),
    ],
)
def test_what_is_refused(text: str, expected: str) -> None:
    error = refused(text)
    assert (error.expected or "").startswith(expected)
    assert expected in str(error)


def test_an_input_of_vs_code_is_named() -> None:
    assert "${input:api-key} prompts the user" in str(refused("${input:api-key}"))


def test_a_missing_variable_is_named() -> None:
    assert str(refused("${NO}")).startswith("NO is not set")


def test_nesting_ends_at_a_depth() -> None:
    def nested(depth: int) -> str:
        return "${NO:-" * depth + "x" + "}" * depth

    assert expand(nested(MAX_NESTING)) == "x"
    assert "nested variables" in str(refused(nested(MAX_NESTING + 1)))
    assert "nested variables" in str(refused("${NO:-" * 100_000))


def test_an_entry_of_env_can_stand_for_another() -> None:
    assert expand("${URL}/x", URL="http://${HOST}", HOST="h") == "http://h/x"


def test_the_environment_comes_first_and_a_default_before_env() -> None:
    assert expand("${A}", A="other") == "a-value"
    assert expand("${MINE:-default}", MINE="mine") == "default"
    assert expand("${MINE}", MINE="mine") == "mine"


def test_an_entry_that_passes_a_variable_on_is_not_a_cycle_but_missing_if_it_is_not_set() -> None:
    assert Scope({"TOKEN": "x"}, {"TOKEN": "${TOKEN}"}).expand("${TOKEN}", "TOKEN") == "x"
    assert str(refused("${TOKEN}", "TOKEN", TOKEN="${TOKEN}")).startswith("TOKEN is not set")
    assert str(refused("--token=${TOKEN}", TOKEN="${TOKEN}")).startswith("TOKEN is not set")


def test_a_circle_is_named() -> None:
    assert "circular reference X -> Y -> X" in str(refused("${Y}", "X", X="${Y}", Y="${X}"))
    assert "circular reference Y -> Z -> Y" in str(refused("${X}", X="${Y}", Y="${Z}", Z="${Y}"))


def test_a_chain_ends_at_a_length() -> None:
    def chain(length: int) -> dict[str, str]:
        return {**{f"V{n}": f"${{V{n + 1}}}" for n in range(length - 1)}, f"V{length - 1}": "end"}

    assert expand("${V0}", **chain(MAX_NESTING)) == "end"
    assert "a chain of at most" in str(refused("${V0}", **chain(MAX_NESTING + 1)))


@pytest.mark.serial
def test_doubling_again_and_again_ends_soon() -> None:
    began = time.perf_counter()
    doubling = {f"V{n}": f"${{V{n + 1}}}" * 60 for n in range(14)} | {"V14": "0123456789"}
    assert f"at most {MAX_TEXT} characters" in str(refused("${V0}", **doubling))
    assert time.perf_counter() - began < 5


def test_names_of_a_format_hide_the_environment_unless_it_is_asked_for() -> None:
    scope = Scope({"userHome": "from the environment"}, None, {"userHome": "/h", "/": "/"})
    assert scope.expand("${userHome}${/}x") == "/h/x"
    assert scope.expand("${env:userHome}") == "from the environment"


@given(st.text())
def test_a_text_without_an_opening_stays_as_it_is(text: str) -> None:
    text = text.replace("${", "")
    assert expand(text) == text


@given(st.text(st.sampled_from("${}:-AaEN/ input:env1"), max_size=40))
def test_any_text_is_replaced_or_refused(text: str) -> None:
    try:
        expanded = Scope({}, {}).expand(text)
    except ConfigError as exc:
        error = exc
    else:
        assert "${" in text or expanded == text
        return
    assert error.expected


@given(st.lists(st.tuples(plain, names), max_size=5), st.dictionaries(names, st.text()))
def test_each_variable_gives_its_value_or_its_default(parts: list[tuple[str, str]], environ: dict[str, str]) -> None:
    text = "".join(f"{before}${{{name}:-<{name}>}}" for before, name in parts)
    assert Scope(environ).expand(text) == "".join(before + environ.get(name, f"<{name}>") for before, name in parts)


@given(st.sampled_from(["", "a", "$a"]), st.text(st.sampled_from("a${}:-N")))
def test_what_is_escaped_is_text(before: str, text: str) -> None:
    assert expand(before + text.replace("${", "$${")) == before + text


@pytest.mark.serial
@pytest.mark.parametrize("one", ["${", "$${", "}", "${A}", "${NO:-", "${A:-x}", "$", "${A:-${A}"])
def test_a_long_text_takes_linear_time(one: str) -> None:
    began = time.perf_counter()
    with contextlib.suppress(ConfigError):
        parse(one * 100_000)
    assert time.perf_counter() - began < 10
