"""`toolcrib call`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.kit import DEMO, GOODS, run_cli, terminal, write_settings
from toolcrib.cli import target

PNG = b"\x89PNG\r\n\x1a\nno picture"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_settings(tmp_path, {"demo": DEMO, "goods": GOODS})
    return tmp_path


# ---- arguments and names -------------------------------------------------------------------------------------


def test_arguments_are_typed_by_the_schema(folder: Path) -> None:
    words = ["count=3", "share=0.25", "deep=true", "tags=a", "tags=b", "where.x=1", "colour=green"]
    ran = run_cli("call", "mcp__goods__typed", *words, cwd=folder)
    expected = {"count": 3, "share": 0.25, "deep": True, "tags": ["a", "b"], "where": {"x": 1}, "colour": "green"}
    assert (ran.code, ran.json, ran.err) == (0, expected, "")


@pytest.mark.parametrize(
    "words, stdin",
    [
        (["--args", '{"text": "hi"}'], ""),
        (["--args", "@given.json"], ""),
        (["-"], '{"text": "hi"}'),
        (["--args", '{"text": "no"}', "text=hi"], ""),
    ],
)
def test_arguments_come_as_json_too(words: list[str], stdin: str, folder: Path) -> None:
    (folder / "given.json").write_text('{"text": "hi"}')
    assert run_cli("call", "mcp__demo__echo", *words, cwd=folder, stdin=stdin).out == "hi\n"


@pytest.mark.parametrize("words", [["--json", '{"text": "hi"}'], ['--json={"text": "hi"}'], ['{"text": "hi"}']])
def test_json_without_its_option_gets_a_hint(words: list[str], folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__echo", *words, cwd=folder)
    assert (ran.code, ran.out) == (2, "") and "goes after --args" in ran.err


def test_a_call_that_started_all_servers_hints_at_the_qualified_name(folder: Path) -> None:
    ran = run_cli("call", "echo", "text=hi", cwd=folder)
    assert (ran.code, ran.out) == (0, "hi\n")
    assert ran.err == "hint: `toolcrib call mcp__demo__echo` starts only the server demo\n"
    assert run_cli("call", "mcp__demo__echo", "text=hi", cwd=folder).err == ""


@pytest.mark.parametrize(
    "words",
    [
        ["--args", "{"],
        ["--args", "@nothing"],
        ["--args", "[]"],
        ["--args", '{"text": NaN}'],
        ["--args", "{}", "-"],
        ["text"],
        ["text=@nothing"],
    ],
)
def test_arguments_that_cannot_be_read_are_wrong_usage(words: list[str], folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__echo", *words, cwd=folder)
    assert ran.code == 2 and ran.err.startswith("error: ") and "hint: " in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize(
    "words, told",
    [
        (["a=x", "b=1"], "a: expected number, got 'x'"),
        (["a=x"], "a: expected number, got 'x'; missing b (number)"),
        ([], "missing a (number); missing b (number)"),
        (["a=1", "bb=2"], "missing b (number); bb is not an argument of it, did you mean 'b'?"),
        (["--args", '{"a": 1, "b": "2"}'], 'b: "2" is not of type "number"'),
    ],
)
def test_wrong_arguments_are_reported_before_anything_is_sent(words: list[str], told: str, folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__add", *words, cwd=folder)
    expected = f"error: mcp__demo__add: {told}\nhint: it takes a=<number> b=<number>\n"
    assert (ran.code, ran.out, ran.err) == (2, "", expected)


def test_arguments_that_the_schema_refuses_can_be_sent_on_request(folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__add", "a=1", "--no-check", cwd=folder)
    assert (ran.code, ran.err) == (1, "error: mcp__demo__add: missing: b\n")


def test_an_argument_that_the_schema_only_does_not_name_is_sent_with_a_warning(folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__echo", "text=hi", "txt=x", cwd=folder)
    assert (ran.code, ran.out) == (0, "hi\n")
    assert ran.err == "warning: txt is not an argument of it, did you mean 'text'?\n"


def test_a_tool_is_found_by_its_own_name_and_behind_its_server(folder: Path) -> None:
    assert run_cli("call", "echo", "text=hi", cwd=folder).out == "hi\n"
    assert run_cli("call", "demo", "echo", "text=hi", cwd=folder).out == "hi\n"


def test_a_name_that_two_servers_have_is_asked_back(tmp_path: Path) -> None:
    write_settings(tmp_path, {"one": DEMO, "two": DEMO})
    ran = run_cli("call", "echo", "text=hi", cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: 2 servers have a tool 'echo'\nhint: use one of the qualified names: mcp__one__echo or mcp__two__echo\n"
    )


@pytest.mark.parametrize("name", ["mcp__demo__ecoh", "ecoh", "mcp__dmeo__echo"])
def test_a_missing_tool_is_reported_with_the_nearest_names(name: str, folder: Path) -> None:
    ran = run_cli("call", name, cwd=folder)
    assert ran.code == 4 and f"there is no tool '{name}'; did you mean 'mcp__demo__echo'" in ran.err


def test_only_the_server_of_a_qualified_name_is_started(tmp_path: Path) -> None:
    trace = tmp_path / "started"
    other = (sys.executable, "-c", f"open({str(trace)!r}, 'w').close()")
    write_settings(tmp_path, {"demo": DEMO, "other": other})
    assert run_cli("call", "mcp__demo__echo", "text=hi", cwd=tmp_path).out == "hi\n"
    assert not trace.exists()
    assert run_cli("call", "echo", "text=hi", cwd=tmp_path).out == "hi\n"  # the failure of the other does not matter
    assert trace.exists()


# ---- results -------------------------------------------------------------------------------------------------


def test_data_is_shown_readable_and_raw_is_the_whole_result(folder: Path) -> None:
    assert run_cli("call", "mcp__demo__add", "a=1", "b=2", cwd=folder).out == '{\n  "sum": 3\n}\n'
    raw = run_cli("call", "mcp__demo__add", "a=1", "b=2", "--json", cwd=folder).json
    assert raw["structuredContent"] == {"sum": 3} and raw["content"][0]["type"] == "text"


def test_pictures_and_sounds_are_saved_and_named(folder: Path) -> None:
    for number in (1, 2):
        ran = run_cli("call", "mcp__goods__picture", "--output", "new/out", cwd=folder)
        suffix = "" if number == 1 else "-2"
        assert ran.out.splitlines() == [
            f"saved new/out/picture{suffix}.png (image/png, {len(PNG)} bytes)",
            f"saved new/out/picture{suffix}.wav (audio/wav, 4 bytes)",
        ]
    assert (folder / "new/out/picture-2.png").read_bytes() == PNG
    ran = run_cli("call", "mcp__goods__picture", "--json", cwd=folder)
    assert ran.json["content"][0]["type"] == "image" and not list(folder.glob("*.png"))


def test_a_single_picture_is_saved_to_the_named_file(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "import toolcrib as tc\n\n@tc.tool\ndef draw(times: int = 1) -> list[tc.ImageContent]:\n"
        "    return [tc.ImageContent(b'png', 'image/png')] * times\n"
    )
    (tmp_path / "v1.2").mkdir()
    for name, saved in (("new/a.png", "new/a.png"), ("new/a.png", "new/a.png"), ("v1.2", "v1.2/draw.png")):
        ran = run_cli("call", "x.py", "draw", "--output", name, cwd=tmp_path)
        assert (ran.code, ran.out) == (0, f"saved {saved} (image/png, 3 bytes)\n")
    for times, expected in ((0, "the result has no file to save"), (2, "the result has 2 files, which are saved in ")):
        ran = run_cli("call", "x.py", "draw", f"times={times}", "--output", "b.png", cwd=tmp_path)
        assert ran.code == 2 and f"--output b.png: {expected}" in ran.err
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["draw-2.png", "draw.png"]


def test_a_tool_that_fails_leaves_with_1_and_no_answer(folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__fail", "reason=no luck", cwd=folder)
    assert (ran.code, ran.out, ran.err) == (1, "", "error: mcp__demo__fail: no luck\n")
    ran = run_cli("call", "mcp__goods__fails", "lines=2", cwd=folder)
    assert (ran.code, ran.err) == (1, "error: mcp__goods__fails failed\n  | reason 1\n  | reason 2\n")
    ran = run_cli("call", "mcp__demo__fail", "--json", cwd=folder)
    assert ran.code == 1 and ran.json["isError"] is True


def test_no_answer_in_time_is_a_separate_outcome(folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__slow_count", "steps=1", "seconds=60", "--timeout", "3", cwd=folder)
    assert ran.code == 7 and "hint: the call may still be running; --timeout, or execution_timeout" in ran.err


# ---- meanwhile -----------------------------------------------------------------------------------------------


def test_progress_is_a_bar_on_a_terminal_and_gone_at_the_end(folder: Path) -> None:
    with terminal("call", "mcp__demo__slow_count", "steps=4", "seconds=0.5", cwd=folder) as screen:
        screen.until("counted to 2")
        screen.until("50%")
        assert screen.exit_code() == 0
    assert screen.text.splitlines() == ["[info demo] counted 4 steps", "counted to 4"]


def test_without_a_terminal_there_are_only_the_logs(folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__slow_count", "steps=2", "seconds=0.01", cwd=folder)
    assert (ran.out, ran.err) == ("counted to 2\n", "[info demo] counted 2 steps\n")


def test_a_server_that_asks_is_answered_at_the_terminal(folder: Path) -> None:
    with terminal("call", "mcp__goods__form", cwd=folder, echo=True) as screen:
        screen.until("name (string, required: Your name):")
        screen.type("Ann")
        screen.until("age (integer, required):")
        screen.type("old")
        screen.until("expected integer, got 'old'")
        screen.type("42")
        screen.until("member (boolean) [true]:")
        screen.type("")
        screen.until("colour (red|green):")
        screen.type("")
        screen.until("Send it? [Y/n]")
        screen.type("")
        assert screen.exit_code() == 0
    answer = screen.text[screen.text.index("\n{") :]
    assert json.loads(answer) == {"action": "accept", "content": {"name": "Ann", "age": 42, "member": True}}
    assert "  | Who are you?�[31m" in screen.text and "age (integer, required): 42" in screen.text


def test_a_question_can_be_declined_and_cancelled(folder: Path) -> None:
    with terminal("call", "mcp__demo__greet", cwd=folder, echo=True) as screen:
        screen.until("name (string, required):")
        screen.type("Ann")
        screen.until("Send it?")
        screen.type("n")
        assert screen.exit_code() == 1
    assert "no name was given" in screen.text
    with terminal("call", "mcp__goods__form", cwd=folder, echo=True) as screen:
        screen.until("name (string, required")
        screen.press("d")
        assert screen.exit_code() == 0
    assert '"action": "cancel"' in screen.text


@pytest.mark.parametrize("answer, action", [("y", "accept"), ("", "decline")])
def test_a_page_to_visit_is_shown_and_never_opened(answer: str, action: str, folder: Path) -> None:
    with terminal("call", "mcp__goods__visit", cwd=folder, echo=True) as screen:
        screen.until("  | https://login.example/?a=1")
        screen.until("Continue? [y/N]")
        screen.type(answer)
        assert screen.exit_code() == 0
    assert "  | Please log in." in screen.text and screen.text.splitlines()[-1] == action


def test_without_a_terminal_a_question_is_declined_and_said_so(folder: Path) -> None:
    ran = run_cli("call", "mcp__demo__greet", cwd=folder)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "declined a request for input from the server (no terminal):\n  | What is your name?\n"
        "error: mcp__demo__greet: no name was given\n"
    )


def test_a_server_that_wants_a_model_is_refused_clearly(folder: Path) -> None:
    ran = run_cli("call", "mcp__goods__think", cwd=folder)
    assert ran.code != 0 and "sampling" in ran.err and "Traceback" not in ran.err


# ---- approval ------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Path:
    (tmp_path / "toolcrib.toml").write_text(
        f'[hub]\nrequire_approval = ["mcp__demo__echo"]\ndisallowed_tools = ["mcp__demo__fail"]\n'
        f"[servers.demo]\ncommand = {json.dumps(DEMO[0])}\nargs = [{json.dumps(DEMO[1])}]\n",
        "utf-8",
    )
    return tmp_path


def test_what_was_typed_before_the_question_does_not_approve(guarded: Path) -> None:
    with terminal("call", "mcp__demo__echo", "text=hi", cwd=guarded) as screen:
        screen.type("y")
        screen.until("Call it? [y/N]")
        screen.type("n")
        assert screen.exit_code() == 6
    assert "the call was not approved" in screen.text


@pytest.mark.parametrize("answer, code", [("y", 0), ("n", 6), ("", 6)])
def test_a_call_that_needs_approval_is_asked_for(answer: str, code: int, guarded: Path) -> None:
    with terminal("call", "echo", "text=hi", cwd=guarded, echo=True) as screen:
        screen.until('"text": "hi"')
        screen.until("Call it? [y/N]")
        screen.type(answer)
        assert screen.exit_code() == code
    assert screen.text.splitlines()[-1].strip() == (
        "hi" if code == 0 else "hint: `toolcrib explain NAME` shows which rule decides"
    )


def test_end_of_input_does_not_approve(guarded: Path) -> None:
    with terminal("call", "echo", "text=hi", cwd=guarded, echo=True) as screen:
        screen.until("Call it? [y/N]")
        screen.press("d")
        assert screen.exit_code() == 6
    assert "the call was not approved" in screen.text and "Cancelled" not in screen.text


def test_without_a_terminal_it_needs_yes(guarded: Path) -> None:
    ran = run_cli("call", "echo", "text=hi", cwd=guarded)
    assert ran.code == 6 and "--yes approves" in ran.err and ran.out == ""
    assert run_cli("call", "echo", "text=hi", "--yes", cwd=guarded).out == "hi\n"


def test_no_yes_opens_what_is_denied(guarded: Path) -> None:
    for name in ("fail", "mcp__demo__fail"):
        ran = run_cli("call", name, "--yes", cwd=guarded)
        assert ran.code == 6 and "denied by disallowed_tools: mcp__demo__fail" in ran.err


@pytest.mark.timeout(25)  # less than the 30 seconds after which a client itself gives up
def test_a_call_may_take_as_long_as_it_reports_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "CALL_IDLE_TIMEOUT", 1.5)
    ran = run_cli("call", "slow_count", "steps=8", "seconds=0.25", "--", *DEMO, cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "counted to 8\n"), ran.err
    ran = run_cli("call", "slow_count", "steps=1", "seconds=60", "--", *DEMO, cwd=tmp_path)
    assert ran.code == 7


@pytest.mark.nightly
def test_a_call_may_take_longer_than_a_clients_calls_do_by_default(tmp_path: Path) -> None:
    ran = run_cli("call", "slow_count", "steps=16", "seconds=2", "--", *DEMO, cwd=tmp_path)
    assert (ran.code, ran.out) == (0, "counted to 16\n"), ran.err


@pytest.mark.parametrize(
    "command, what", [("call", "tool"), ("prompt", "prompt"), ("read", "resource"), ("explain", "tool")]
)
def test_a_missing_name_is_reported_even_without_settings(command: str, what: str, tmp_path: Path) -> None:
    ran = run_cli(command, cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: no {what} given\nhint: `toolcrib {what}s` lists them\n"
