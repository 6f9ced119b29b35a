"""Options that are passed on by keyword are typed, and the types list exactly what is accepted."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import toolcrib as tc
from toolcrib.client.options import ConnectionOptions
from toolcrib.hub.server_options import HubConfigOptions
from toolcrib.server.client_requests import SAMPLING_OPTIONS, SamplingOptions
from toolcrib.server.components.prompts import PromptOptions, prompt
from toolcrib.server.components.resources import ResourceOptions, resource
from toolcrib.server.serving.run import ALWAYS, OPTIONS, ServeOptions

SOURCE = Path(tc.__file__).parent
UNTYPED = {
    "client/client.py:__new__",  # only checks that a server is given
    "sync/client.py:__new__",
    "server/serving/run.py:serve",  # behind the typed methods of ToolServer: names are checked at run time
    "server/serving/run.py:make_app",
    "cli/reload.py:serve",
    "bridge/proxy.py:__init__",
}


def keywords(function: object) -> set[str]:
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}


def test_no_public_function_takes_options_of_any_type() -> None:
    found = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.args.kwarg is None:
                continue
            annotation = node.args.kwarg.annotation
            if node.args.kwarg.arg == "options" and isinstance(annotation, ast.Name) and annotation.id == "Any":
                found.add(f"{path.relative_to(SOURCE)}:{node.name}")
    assert found - UNTYPED == set()


def test_the_options_of_resources_and_prompts_are_those_of_their_decorators() -> None:
    assert set(ResourceOptions.__annotations__) == keywords(resource)
    assert set(PromptOptions.__annotations__) == keywords(prompt)


def test_the_options_for_serving_are_those_of_the_transports() -> None:
    explicit = {"host", "port", "path", "allow_remote"}
    assert set(ServeOptions.__annotations__) | explicit == ALWAYS.union(*OPTIONS.values())


def test_the_options_of_sampling_are_those_of_the_protocol() -> None:
    assert set(SamplingOptions.__annotations__) == set(SAMPLING_OPTIONS)


def test_a_hub_made_from_settings_takes_every_option_of_a_hub() -> None:
    explicit = keywords(tc.Hub.__init__)
    assert explicit | set(tc.HubOptions.__annotations__) == set(HubConfigOptions.__annotations__)


def test_a_hub_takes_every_option_of_a_client_but_its_name() -> None:
    own = {"name", "tool_filter"}
    assert set(tc.ClientOptions.__annotations__) - own == set(ConnectionOptions.__annotations__)
    assert set(ConnectionOptions.__annotations__) < set(tc.HubOptions.__annotations__)
