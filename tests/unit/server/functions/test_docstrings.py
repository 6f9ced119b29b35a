"""Docstrings in Google's style."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.server.functions.docstrings import parse


def test_no_docstring_is_an_empty_text() -> None:
    assert parse(None, ["a"]) == ("", {})
    assert parse("  \n ", ["a"]) == ("", {})


def test_summary_and_body_stay_and_the_sections_go() -> None:
    doc = """Find things.

    Looks everywhere:
        also under the table.

    Args:
        query: What to find.
        limit (int, optional): How many
            of them: at most
            a hundred.

    Returns:
        list: what was found.

    Raises:
        ValueError: if there is nothing.

    Examples:
        find("x")
    """
    text, parameters = parse(doc, ["query", "limit"])
    assert text == ('Find things.\n\nLooks everywhere:\n    also under the table.\n\nExamples:\n    find("x")')
    assert parameters == {"query": "What to find.", "limit": "How many of them: at most a hundred."}


@pytest.mark.parametrize("title", ["Args", "Arguments", "Parameters", "Params", "Keyword Args"])
def test_the_section_on_parameters_has_several_names(title: str) -> None:
    assert parse(f"Do.\n\n{title}:\n    a: the a", ["a"]) == ("Do.", {"a": "the a"})


def test_a_word_that_is_no_parameter_goes_on_with_the_text_before() -> None:
    _, parameters = parse("Do.\n\nArgs:\n    a: one of\n    note: this is still a\n    b: another", ["a", "b"])
    assert parameters == {"a": "one of note: this is still a", "b": "another"}


def test_stars_types_and_empty_texts_are_understood() -> None:
    doc = "Do.\n\nArgs:\n  **rest: the rest\n  a (dict[str, int]): a table\n  b:\n    below\n  c:"
    assert parse(doc, ["rest", "a", "b", "c"]).parameters == {"rest": "the rest", "a": "a table", "b": "below"}


def test_a_title_without_a_block_is_text() -> None:
    assert parse("Args:\nnothing indented", ["nothing"]) == ("Args:\nnothing indented", {})
    assert parse("Say what it Returns: a text", []) == ("Say what it Returns: a text", {})


def test_text_after_a_section_stays() -> None:
    assert parse("Do.\nArgs:\n    a: x\n\n    b: y\nAnd more.", ["a", "b"]) == ("Do.\nAnd more.", {"a": "x", "b": "y"})


@given(st.text(alphabet="ab :*()\n\tArgsReturn", max_size=200))
def test_any_text_is_read_and_only_known_parameters_come_out(doc: str) -> None:
    text, parameters = parse(doc, ["a", "b"])
    assert parameters.keys() <= {"a", "b"}
    assert text == text.strip() and all(parameters.values())


@given(
    st.dictionaries(
        st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.from_regex(r"[A-Za-z .,]*[a-z]", fullmatch=True), max_size=4
    )
)
def test_what_was_written_of_each_parameter_is_found_again(texts: dict[str, str]) -> None:
    texts = {name: " ".join(text.split()) for name, text in texts.items()}
    lines = "".join(f"    {name}: {text}\n" for name, text in texts.items())
    doc = f"Do it.\n\nArgs:\n{lines}\nReturns:\n    nothing" if texts else "Do it."
    assert parse(doc, texts) == ("Do it.", texts)
