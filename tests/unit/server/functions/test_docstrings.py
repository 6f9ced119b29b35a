"""Docstrings in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.server.functions.docstring_corpus import CASES
from toolcrib.server.context import Context
from toolcrib.server.functions.docstrings import parse
from toolcrib.server.functions.signature import Signature


@pytest.mark.parametrize("name", CASES)
def test_a_docstring_says_what_the_function_and_each_parameter_is_for(name: str) -> None:
    case = CASES[name]
    assert parse(case.doc, case.names) == (case.text, case.parameters)


@pytest.mark.parametrize("style", ["google", "numpy", "sphinx"])
def test_every_style_describes_the_parameters_of_a_tool(style: str) -> None:
    def find(query: str, limit: int = 5) -> str:
        return query * limit

    find.__doc__ = CASES[style].doc
    signature = Signature(find)
    assert signature.description == "Find things."
    described = {name: field["description"] for name, field in signature.schema["properties"].items()}
    assert described == CASES[style].parameters


def test_what_is_said_of_the_context_belongs_to_no_other_parameter() -> None:
    def find(query: str, ctx: Context) -> str:
        """Find.

        Args:
            query: What to find.
            ctx: The context of the call.
        """
        return query

    assert Signature(find).schema["properties"]["query"]["description"] == "What to find."


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


def test_a_word_that_is_not_a_parameter_continues_the_text_before() -> None:
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


PIECES = ["a", "b", " ", "    ", "\n", "\n\n", "\t", ":", "*", "(int)", "Args:\n", "Returns:\n", "Parameters\n---\n"]
PIECES += ["Returns\n----\n", "a : int\n", ":param a: ", ":returns: ", ":type b: ", "```\n", "\\*"]


@given(st.text(alphabet="ab :*()\n\tArgsReturn", max_size=200) | st.lists(st.sampled_from(PIECES)).map("".join))
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
    google = "".join(f"    {name}: {text}\n" for name, text in texts.items())
    numpy = "".join(f"{name} : int\n    {text}\n" for name, text in texts.items())
    sphinx = "".join(f":param {name}: {text}\n" for name, text in texts.items())
    for doc in (
        f"Do it.\n\nArgs:\n{google}\nReturns:\n    nothing" if texts else "Do it.",
        f"Do it.\n\nParameters\n----------\n{numpy}\nReturns\n-------\nnothing\n",
        f"Do it.\n\n{sphinx}:returns: nothing",
    ):
        assert parse(doc, texts) == ("Do it.", texts)
