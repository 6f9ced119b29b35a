"""A Python file with a tool server: how it is executed, and which server is chosen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from toolcrib.errors import ConfigError
from toolcrib.transports.python_file import load_file, own_frames, server_in, servers_in

SOURCE = "class Crib:\n    def make_channel(self): ...\n"


@pytest.fixture(autouse=True)
def _path_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore `sys.path`, to which a file's folder is added."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def written(folder: Path, text: str, name: str = "tools.py") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_the_one_server_of_a_file_is_found_whatever_its_name(tmp_path: Path) -> None:
    module = load_file(written(tmp_path, SOURCE + "garden = Crib()\nalias = garden\n"))
    assert server_in(module) is module.garden
    assert list(servers_in(module)) == ["garden"]


def test_one_of_several_must_be_named(tmp_path: Path) -> None:
    module = load_file(written(tmp_path, SOURCE + "one, two = Crib(), Crib()\n"))
    assert server_in(module, "two") is module.two
    with pytest.raises(
        ConfigError, match=r"expected one ToolServer, got several\. Name one: .*tools\.py:one; the file has one, two$"
    ):
        server_in(module)


@pytest.mark.parametrize(
    "rest, variable, words",
    [
        ("", None, "no ToolServer found; define one"),
        ("server = Crib()", "serve", "serve: variable not found; did you mean 'server'"),
        ("server = Crib()", "zzz", "zzz: variable not found; the file has server"),
        ("server = Crib()", "Crib", "Crib: expected a ToolServer, got type"),
        ("server = None", "server", "server: expected a ToolServer, got NoneType"),
    ],
)
def test_a_server_that_is_not_there_is_reported(tmp_path: Path, rest: str, variable: str | None, words: str) -> None:
    file = written(tmp_path, SOURCE + rest)
    with pytest.raises(ConfigError, match=words) as caught:
        server_in(load_file(file), variable)
    assert caught.value.file == str(file)
    assert caught.value.key == "python"


def test_objects_that_answer_to_every_name_or_raise_are_not_servers(tmp_path: Path) -> None:
    odd = "class Odd:\n    def __getattr__(self, name):\n        raise RuntimeError(name)\nodd = Odd()\n"
    eager = "class Eager:\n    def __getattr__(self, name):\n        return print\neager = Eager()\n"
    assert servers_in(load_file(written(tmp_path, odd + eager))) == {}


def test_a_file_is_run_once_and_again_when_its_text_has_changed(tmp_path: Path) -> None:
    file = written(tmp_path, "import sys\nsys.runs = getattr(sys, 'runs', 0) + 1\nruns = sys.runs\n")
    try:
        assert load_file(file) is load_file(str(file))
        assert load_file(file).runs == 1
        file.write_text(file.read_text() + "# changed\n")
        assert load_file(file).runs == 2
    finally:
        del sys.runs  # type: ignore[attr-defined]


def test_a_file_is_run_like_a_program_but_for_its_main_part(tmp_path: Path) -> None:
    written(tmp_path, "WORD = 'beside'\n", "beside_of_tools.py")
    text = (
        "from __future__ import annotations\nimport dataclasses\nfrom beside_of_tools import WORD\n"
        "@dataclasses.dataclass\nclass Plot:\n    size: int = 3\nplot, here = Plot(), __file__\n"
        "if __name__ == '__main__':\n    raise AssertionError\n"
    )
    file = written(tmp_path, text)
    module = load_file(file)
    assert (module.WORD, module.plot.size, module.here) == ("beside", 3, str(file))


@pytest.mark.parametrize(
    "text, line, words",
    [
        ("a = 1\nb = (\n", 2, "SyntaxError: '(' was never closed"),
        ("\n\n1 / 0\n", 3, "ZeroDivisionError: division by zero"),
        ("import json\njson.loads('{')\n", 2, "JSONDecodeError: Expecting"),
        ("raise SystemExit('no')\n", 1, "SystemExit: no"),
        ("import no_such_module_here\n", 1, "ModuleNotFoundError: No module named 'no_such_module_here'"),
    ],
)
def test_a_failure_in_the_file_is_reported_with_its_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    file = written(tmp_path, text)
    modules = set(sys.modules)
    with pytest.raises(ConfigError) as caught:
        load_file(file)
    assert (caught.value.file, caught.value.line) == (str(file), line)
    assert str(caught.value).startswith(f"{file}:{line}: {words}")
    assert not [name for name in set(sys.modules) - modules if name.startswith("tools_")]


def test_a_failure_in_a_module_beside_is_reported_with_that_place(tmp_path: Path) -> None:
    beside = written(tmp_path, "def grow() -> None:\n    raise ValueError('dry')\n", "beside_that_fails.py")
    file = written(tmp_path, "import beside_that_fails\nbeside_that_fails.grow()\n")
    with pytest.raises(ConfigError) as caught:
        load_file(file)
    assert (caught.value.file, caught.value.line) == (str(beside), 2)
    cause = caught.value.__cause__
    assert cause is not None
    shown = own_frames(cause)
    assert f'File "{file}", line 2' in shown and f'File "{beside}", line 2' in shown
    assert "pyfile.py" not in shown
    assert shown.endswith("ValueError: dry")


def test_the_code_before_stays_known_where_the_new_one_fails(tmp_path: Path) -> None:
    file = written(tmp_path, "value = 1\n")
    module = load_file(file)
    file.write_text("value = (\n")
    with pytest.raises(ConfigError):
        load_file(file)
    assert sys.modules[module.__name__] is module


@pytest.mark.parametrize(
    "name, words",
    [
        ("nowhere.py", "nowhere.py: file not found in "),
        ("no/where.py", "where.py: file not found: there is no folder "),
        ("", "cannot be read: Is a directory"),
    ],
)
def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_file(tmp_path / name)
