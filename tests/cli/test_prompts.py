"""`toolcrib prompts` and `toolcrib prompt`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.kit import DEMO, GOODS, run_cli, write_settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_settings(tmp_path, {"demo": DEMO, "goods": GOODS})
    return tmp_path


def test_prompts_are_listed_with_what_they_take(folder: Path) -> None:
    assert run_cli("prompts", cwd=folder).rows == [
        ["mcp__demo__explain", "topic=", "Explain a topic in one sentence."],
        ["mcp__goods__greeting", "name= [mood=]", "Greet somebody."],
    ]
    names = [each["name"] for each in run_cli("prompts", "goods", "--json", cwd=folder).json]
    assert names == ["mcp__goods__greeting"]


@pytest.mark.parametrize("name", [["mcp__goods__greeting"], ["greeting"], ["goods", "greeting"]])
def test_a_prompt_is_filled_in(name: list[str], folder: Path) -> None:
    ran = run_cli("prompt", *name, "name=5", "mood=sad", cwd=folder)
    assert (ran.code, ran.out) == (0, "user:\nSay a sad hello to 5.\n")


def test_json_is_the_whole_answer(folder: Path) -> None:
    answer = run_cli("prompt", "greeting", "name=Ann", "--json", cwd=folder).json
    assert answer["messages"][0]["role"] == "user" and answer["arguments"] == {"name": "Ann"}


@pytest.mark.parametrize(
    "words, code, message",
    [
        (["greeting"], 2, "mcp__goods__greeting: missing name\nhint: it takes name= [mood=]"),
        (["greeting", "name=a", "mod=b"], 2, "mod is not an argument of it, did you mean 'mood'?"),
        (["greetin", "name=a"], 4, "there is no prompt 'greetin'; did you mean 'mcp__goods__greeting'?"),
        ([], 2, "no prompt given"),
    ],
)
def test_mistakes_are_reported_before_anything_is_sent(words: list[str], code: int, message: str, folder: Path) -> None:
    ran = run_cli("prompt", *words, cwd=folder)
    assert (ran.code, ran.out) == (code, "") and message in ran.err
