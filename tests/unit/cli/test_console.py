"""Output to the console: what is printed and what is escaped. These tests have no terminal; tests/cli has one."""

from __future__ import annotations

import json

import pytest

from toolcrib.cli.console import Styled, as_json, cell, complain, note, plain, say, show_json, show_table, wrapped
from toolcrib.cli.exit_codes import complain_of
from toolcrib.errors import ConnectError

EVIL = "a\x1b[31mred\x1b]0;title\x07\x9b2J\u202egnp.exe\u2066\u200b\x00\x7f\x08[bold]b[/bold] :smile:"


def clean(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" for c in text)


def test_no_control_bidi_or_invisible_character_passes(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    note(EVIL)
    complain(EVIL, EVIL, EVIL)
    show_table((EVIL,), [(EVIL, Styled(EVIL, "red"), 5)])
    show_json({EVIL: [EVIL]})
    captured = capsys.readouterr()
    assert clean(captured.out) and clean(captured.err)


def test_markup_and_emoji_codes_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL)
    assert capsys.readouterr().out.endswith("[bold]b[/bold] :smile:\n")


def test_everyday_text_stays_as_it_is() -> None:
    text = "naïve — 日本語\n\ttab 🎉"
    assert plain(text) == text
    assert plain("one\r\ntwo") == "one\ntwo"
    assert plain("10\u00a0000\u3000x") == "10 000 x"
    assert cell(" many\n  lines\tand tabs ") == "many lines and tabs"


def test_json_is_escaped_where_a_terminal_could_take_it_for_more_and_means_the_same() -> None:
    value = {EVIL: EVIL, "lone": "\ud800", "astral": "\U000e0001"}
    assert json.loads(as_json(value)) == value
    assert clean(as_json(value))


def test_a_table_is_tab_separated_lines_where_a_program_reads(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(("a", "b"), [("x\ty\nz", 5), (Styled("red", "red"), "")])
    assert capsys.readouterr().out == "x y z\t5\nred\t\n"


def test_a_complaint_is_one_line_a_quote_and_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    complain("it\nbroke", "do\nthis", "first\n\n  second\n")
    assert capsys.readouterr().err == "error: it broke\n  | first\n  | second\nhint: do this\n"


def test_what_a_server_wrote_is_quoted_for_every_failed_connection(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"line {number}" for number in range(50)]
    complain_of(
        ConnectError(
            "no answer within 30 s; its stderr ends with: visit y; is it slow?",
            server="one",
            stderr="\n".join([*lines, "visit \x1b]0;x\x07 y"]),
        )
    )
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "error: one: no answer within 30 s"
    assert said[-2] == "  | visit \N{REPLACEMENT CHARACTER}]0;x\N{REPLACEMENT CHARACTER} y"
    assert "  | line 49" in said and "  | line 1" not in said
    assert said[-1].startswith("hint: `toolcrib doctor`")


@pytest.mark.parametrize(
    "text, width, lines",
    [
        ("one two three", 20, ["one two three"]),
        ("one two three", 8, ["one two", "three"]),
        ("a-name-that-is-too-long b", 5, ["a-name-that-is-too-long", "b"]),
        ("  indented words go on", 12, ["  indented", "  words go", "  on"]),
        ("first\nsecond line", 8, ["first", "second", "line"]),
        ("日本語 日本語", 7, ["日本語", "日本語"]),
        ("", 5, [""]),
    ],
)
def test_texts_are_broken_at_spaces_only(text: str, width: int, lines: list[str]) -> None:
    assert wrapped(text, width).split("\n") == lines
