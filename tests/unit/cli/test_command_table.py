"""The table of commands agrees with the functions that run them."""

from __future__ import annotations

import importlib
import inspect
import typing

import click
import pytest

from toolcrib.cli.command_table import COMMANDS, PANELS
from toolcrib.cli.commands.import_ import SOURCES
from toolcrib.cli.lazy_command import Argument
from toolcrib.cli.serve_options import Transport
from toolcrib.protocol.metadata import LOG_LEVELS
from toolcrib.settings.edit.convert import PROGRAMS


def choices(command: str, option: str) -> set[str]:
    found = next(each for each in COMMANDS[command].params if each.name == option)
    assert isinstance(found.type, click.Choice)
    return set(found.type.choices)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_function_of_a_command_takes_its_parameters(name: str) -> None:
    module = importlib.import_module(f"toolcrib.cli.commands.{COMMANDS[name].module}")
    invocation, *taken = inspect.signature(module.command).parameters.values()
    named = {each.name for each in taken if each.kind is not each.VAR_KEYWORD}
    if taken[-1].kind is inspect.Parameter.VAR_KEYWORD:
        (group,) = typing.get_args(eval(taken[-1].annotation, vars(module)))
        named |= group.__annotations__.keys()
    assert invocation.annotation == "Invocation"
    assert named == {each.name for each in COMMANDS[name].params}


def test_every_argument_and_option_has_a_description() -> None:
    for name, command in COMMANDS.items():
        for each in command.params:
            text = each.description if isinstance(each, Argument) else typing.cast("click.Option", each).help
            assert text, (name, each.name)


def test_every_command_is_under_one_heading() -> None:
    assert [each.name for panel in PANELS.values() for each in panel] == list(COMMANDS)


def test_choices_are_those_of_the_code() -> None:
    assert choices("export", "program") == {*PROGRAMS, "claude-desktop"}
    assert choices("run", "transport") == choices("bridge", "transport") == {each.value for each in Transport}
    words = next(each for each in COMMANDS["import"].params if isinstance(each, Argument))
    assert all(source in words.description for source in SOURCES)
    level = next(each for each in COMMANDS["watch"].params if each.name == "level")
    assert level.default in LOG_LEVELS
