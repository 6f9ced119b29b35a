"""The folders of the user, as the XDG Base Directory Specification finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib._util.folders import cache_folder, config_folder, home_folder


def test_the_home_is_taken_from_the_environment_else_from_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    assert home_folder({"HOME": "/home/a"}) == Path("/home/a")
    monkeypatch.setenv("HOME", "/home/b")
    assert home_folder({}) == home_folder({"HOME": ""}) == Path("/home/b")


@pytest.mark.parametrize(
    "environ, config, cache",
    [
        ({}, "/h/.config", "/h/.cache"),
        ({"XDG_CONFIG_HOME": "/c", "XDG_CACHE_HOME": "/d"}, "/c", "/d"),
        ({"XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": ""}, "/h/.config", "/h/.cache"),
        ({"XDG_CONFIG_HOME": "c", "XDG_CACHE_HOME": "./d"}, "/h/.config", "/h/.cache"),  # relative paths are invalid
        ({"XDG_CONFIG_HOME": "~/c"}, "/h/.config", "/h/.cache"),
    ],
)
def test_settings_and_caches_are_where_the_variables_say_or_in_the_home(
    environ: dict[str, str], config: str, cache: str
) -> None:
    assert config_folder({"HOME": "/h", **environ}) == config_folder(environ, Path("/h")) == Path(config)
    assert cache_folder({"HOME": "/h", **environ}) == cache_folder(environ, Path("/h")) == Path(cache)
