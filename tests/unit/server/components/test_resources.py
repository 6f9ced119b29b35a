"""Functions as resources: return values become contents, exceptions become errors."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
import logging
import threading
from base64 import b64decode, b64encode
from datetime import date
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel

from toolcrib.errors import ConfigError, RemoteError, ResourceNotFound, UsageError
from toolcrib.server.components.resources import ResourceFunction, TemplateFunction, find_template, resource
from toolcrib.server.context import Context
from toolcrib.server.handler import Peer, RequestContext
from toolcrib.types import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ReadResourceResult,
    ResourceContents,
    TextContent,
    Wire,
)


def static(function: Any, uri: str = "config://app", **options: Any) -> ResourceFunction:
    made = resource(uri, **options)(function)
    assert isinstance(made, ResourceFunction)
    return made


def template(uri: str, function: Any, **options: Any) -> TemplateFunction:
    made = resource(uri, **options)(function)
    assert isinstance(made, TemplateFunction)
    return made


async def read(made: TemplateFunction, uri: str, **options: Any) -> list[Wire]:
    variables = made.match(uri)
    assert variables is not None
    return await made.read(uri, variables, None, **options)


def a_context() -> Context:
    class Nobody:
        async def notify(self, method: str, params: Wire) -> None:
            raise AssertionError(method)

        async def ask(self, method: str, params: Wire, key: str | None) -> Wire:
            raise AssertionError(method)

        async def pause(self) -> None:
            raise AssertionError

    return Context(RequestContext(Peer("2026-07-28", modern=True, principal="ann"), Nobody()))


# ---- entries of the lists ------------------------------------------------------------------------------------


def test_the_entry_of_a_resource_comes_from_the_function() -> None:
    def config() -> str:
        """The settings.

        Returns:
            JSON.
        """
        return "{}"

    made = static(config)
    assert made.wire == {"uri": "config://app", "name": "config", "description": "The settings."}
    assert made.uri == "config://app"
    assert not made.takes_context


def test_the_entry_has_what_was_given_and_nothing_else() -> None:
    options: dict[str, Any] = {
        "name": "app",
        "title": "Application",
        "description": "Own words",
        "mime_type": "application/json",
        "annotations": {"audience": ["user"], "priority": 0.5},
        "icons": [{"src": "https://example.com/i.png"}],
        "meta": {"com.example/x": 1},
    }
    wire = {
        "name": "app",
        "title": "Application",
        "description": "Own words",
        "mimeType": "application/json",
        "annotations": {"audience": ["user"], "priority": 0.5},
        "icons": [{"src": "https://example.com/i.png"}],
        "_meta": {"com.example/x": 1},
    }
    assert static(lambda: "", size=0, **options).wire == {"uri": "config://app", "size": 0, **wire}
    assert template("x://{a}", lambda a: a, **options).wire == {"uriTemplate": "x://{a}", **wire}


def test_the_function_can_still_be_called_and_has_its_name_and_text() -> None:
    @resource("file:///{path}")
    def read_file(path: str) -> str:
        """Read a file."""
        return path.upper()

    assert read_file("a") == "A"
    assert read_file.__name__ == "read_file"
    assert read_file.__doc__ == "Read a file."


# ---- return values -------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    when: date


class Model(BaseModel):
    name: str
    parts: list[int] = []


@pytest.mark.parametrize(
    "value, mime_type, text",
    [
        ("words", "text/plain", "words"),
        ("", "text/plain", ""),
        (TextContent("words"), "text/plain", "words"),
        ({"a": 1}, "application/json", '{"a":1}'),
        ([1, "x", None], "application/json", '[1,"x",null]'),
        (["a", "b"], "application/json", '["a","b"]'),
        ([], "application/json", "[]"),
        (5, "application/json", "5"),
        (Model(name="n", parts=[1]), "application/json", '{"name":"n","parts":[1]}'),
        ([Model(name="n")], "application/json", '[{"name":"n","parts":[]}]'),
        (Point(1, date(2026, 7, 28)), "application/json", '{"x":1,"when":"2026-07-28"}'),
        ({"c": Colour.RED, "é": float("nan")}, "application/json", '{"c":"red","é":null}'),
    ],
)
async def test_text_and_data_are_text(value: Any, mime_type: str, text: str) -> None:
    assert await static(lambda: value).read(None) == [{"uri": "config://app", "mimeType": mime_type, "text": text}]
    (declared,) = await static(lambda: value, mime_type="x/y").read(None)
    assert declared["mimeType"] == "x/y"


@pytest.mark.parametrize("value", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
async def test_bytes_are_a_blob(value: Any) -> None:
    (piece,) = await static(lambda: value).read(None)
    assert piece == {"uri": "config://app", "mimeType": "application/octet-stream", "blob": "AP8="}
    (piece,) = await static(lambda: value, mime_type="image/png").read(None)
    assert piece["mimeType"] == "image/png"


async def test_pieces_of_content_are_taken_as_they_are() -> None:
    whole = ResourceContents("a://1", "text/html", text="<p>")
    assert await static(lambda: whole).read(None) == [{"uri": "a://1", "mimeType": "text/html", "text": "<p>"}]
    assert await static(lambda: EmbeddedResource(whole)).read(None) == [whole.to_wire()]
    from_elsewhere = ResourceContents.from_wire({"uri": "a://1", "text": "x", "_meta": {"k": 1}})
    assert await static(lambda: from_elsewhere).read(None) == [{"uri": "a://1", "text": "x", "_meta": {"k": 1}}]
    nameless = ResourceContents("", text="x")
    assert await static(lambda: nameless, mime_type="text/csv").read(None) == [
        {"uri": "config://app", "mimeType": "text/csv", "text": "x"}
    ]


@pytest.mark.parametrize("value", [ImageContent(b"p", "image/gif"), AudioContent(b"p", "audio/ogg")])
async def test_a_picture_or_a_sound_brings_its_own_type(value: Any) -> None:
    (piece,) = await static(lambda: value, mime_type="x/y").read(None)
    assert piece == {"uri": "config://app", "mimeType": value.mime_type, "blob": b64encode(b"p").decode()}


async def test_a_list_with_pieces_in_it_is_several_contents() -> None:
    value = [ResourceContents("a://1", text="one"), b"two", "three", {"four": 4}]
    wire = await static(lambda: value).read(None)
    assert [piece["uri"] for piece in wire] == ["a://1", "config://app", "config://app", "config://app"]
    assert wire[0]["text"] == "one"
    assert b64decode(wire[1]["blob"]) == b"two"
    assert wire[2]["text"] == "three"
    assert json.loads(wire[3]["text"]) == {"four": 4}
    # The client's own value, so that a resource of another server can be handed on.
    handed_on = ReadResourceResult.from_wire({"contents": wire})
    assert await static(lambda: handed_on).read(None) == wire


async def test_reading_never_changes_what_the_function_keeps() -> None:
    kept = ResourceContents.from_wire({"uri": "", "text": "x"})
    await static(lambda: kept, mime_type="x/y").read(None)
    assert kept.raw == {"uri": "", "text": "x"}


# ---- how it is called ----------------------------------------------------------------------------------------


async def test_an_async_function_is_awaited_and_a_sync_one_runs_in_a_thread() -> None:
    async def here() -> str:
        return threading.current_thread().name

    def elsewhere() -> str:
        return threading.current_thread().name

    mine = threading.current_thread().name
    assert (await static(here).read(None))[0]["text"] == mine
    assert (await static(elsewhere).read(None))[0]["text"] != mine


async def test_a_context_is_passed_on_request_and_is_not_a_variable() -> None:
    async def who(ctx: Context) -> str:
        return str(ctx.principal)

    async def whose(name: str, ctx: Context) -> str:
        return f"{name} {ctx.principal}"

    made, family = static(who), template("x://{name}", whose)
    assert made.takes_context and family.takes_context
    assert (await made.read(a_context()))[0]["text"] == "ann"
    assert (await family.read("x://n", {"name": "n"}, a_context()))[0]["text"] == "n ann"


async def test_a_template_is_read_under_the_uri_that_was_asked_for() -> None:
    made = template("file:///{path}", lambda path: path.encode(), mime_type="text/plain")
    (piece,) = await read(made, "file:///a/b%20c")
    assert piece == {"uri": "file:///a/b%20c", "mimeType": "text/plain", "blob": b64encode(b"a/b c").decode()}
    assert made.match("other://x") is None
    assert made.uri_template == "file:///{path}"
    assert made.expand(path="a/b c") == "file:///a/b%20c"


async def test_variables_become_what_the_parameters_are_annotated_with() -> None:
    def show(
        number: int,
        flag: bool,
        day: date,
        colour: Colour,
        level: Literal[1, 2],
        parts: list[int],
        limit: Optional[float] = None,  # noqa: UP045  # both spellings are read
        page: int = 1,
    ) -> list[str]:
        return [repr(value) for value in (number, flag, day, colour, level, parts, limit, page)]

    made = template("x://{number}/{flag}/{day}/{colour}/{level}/{parts}{?limit,page}", show)
    (piece,) = await read(made, "x://7/true/2026-07-28/red/2/[1,2]?limit=1.5")
    assert json.loads(piece["text"]) == [
        *("7", "True", "datetime.date(2026, 7, 28)", "<Colour.RED: 'red'>", "2", "[1, 2]", "1.5", "1"),
    ]


@pytest.mark.parametrize("number", ["seven", "1.5", "true"])
async def test_a_variable_of_a_wrong_type_is_the_callers_error_and_names_it(number: str) -> None:
    ran = []

    def show(number: int) -> str:
        ran.append(number)
        return ""

    with pytest.raises(RemoteError, match="number") as caught:
        await read(template("x://{number}", show), f"x://{number}", mask_errors=True)
    assert caught.value.code == -32602
    assert ran == []


async def test_a_part_of_the_query_that_the_function_needs_and_does_not_get_is_the_callers_error() -> None:
    made = template("x://all{?q}", lambda q: q)
    with pytest.raises(RemoteError, match="q") as caught:
        await read(made, "x://all")
    assert caught.value.code == -32602


# ---- errors --------------------------------------------------------------------------------------------------


async def test_what_a_function_raises_is_an_internal_error_with_its_message_and_the_log_has_the_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def config() -> str:
        raise OSError("disk on fire")

    with pytest.raises(RemoteError) as caught:
        await static(config).read(None)
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32603, "disk on fire", None)
    (record,) = [record for record in caplog.records if record.name == "toolcrib.server.tools"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None and isinstance(record.exc_info[1], OSError)


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "error, message",
    [
        (LookupError(), "LookupError"),
        (KeyError("a"), "KeyError: 'a'"),
        (SystemExit(3), "SystemExit: 3"),
        (Speechless(), "Speechless"),
        (ExceptionGroup("tasks", [OSError("disk on fire")]), "disk on fire"),
    ],
)
@pytest.mark.parametrize("in_thread", [True, False])
async def test_an_exception_always_says_something(error: BaseException, message: str, in_thread: bool) -> None:
    def config() -> str:
        raise error

    async def async_config() -> str:
        raise error

    with pytest.raises(RemoteError) as caught:
        await static(config if in_thread else async_config).read(None)
    assert (caught.value.code, caught.value.message) == (-32603, message)


async def test_an_error_for_the_caller_is_found_in_what_a_task_group_raises() -> None:
    async def config() -> str:
        raise ExceptionGroup("tasks", [RemoteError(-32042, "visit us")])

    with pytest.raises(RemoteError, match="visit us") as caught:
        await static(config).read(None)
    assert caught.value.code == -32042


async def test_a_cancelled_reader_is_cancelled_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    started = asyncio.Event()

    async def config() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    reading = asyncio.ensure_future(static(config).read(None))
    await asyncio.wait_for(started.wait(), 10)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert caplog.records == []


async def test_text_of_a_caller_cannot_add_lines_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def show(name: str) -> str:
        raise OSError("x")

    with pytest.raises(RemoteError):
        await read(template("x://{name}", show), "x://a\nERROR forged")
    assert [record.getMessage() for record in caplog.records] == ["resource x://a ERROR forged failed: OSError"]


@pytest.mark.parametrize("value", [OSError("disk on fire"), {"disk on fire": object()}])
async def test_a_masked_error_says_only_where_it_happened(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    def config() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    with pytest.raises(RemoteError) as caught:
        await static(config).read(None, mask_errors=True)
    assert (caught.value.code, caught.value.message) == (-32603, "resource config://app failed")
    assert any(record.exc_info for record in caplog.records)
    with pytest.raises(RemoteError) as caught:
        await read(template("x://{a}", lambda a: config()), "x://1", mask_errors=True)
    assert caught.value.message == "resource x://1 failed"


async def test_an_error_for_the_caller_passes_even_where_others_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    def config() -> str:
        raise RemoteError(-32042, "visit us", {"url": "u"})

    with pytest.raises(RemoteError) as caught:
        await static(config).read(None, mask_errors=True)
    assert (caught.value.code, caught.value.message, caught.value.data) == (-32042, "visit us", {"url": "u"})
    assert caplog.records == []


async def test_what_cannot_be_written_as_json_is_an_internal_error() -> None:
    with pytest.raises(RemoteError, match="object") as caught:
        await static(lambda: {"a": object()}).read(None)
    assert caught.value.code == -32603


@pytest.mark.parametrize("way", ["none", "raised"])
async def test_a_resource_that_is_not_there_is_not_found(way: str) -> None:
    def show(name: str) -> str | None:
        if way == "raised":
            raise ResourceNotFound("look elsewhere")
        return None

    with pytest.raises(RemoteError) as caught:
        await read(template("x://{name}", show), "x://it")
    assert (caught.value.code, caught.value.data) == (-32002, {"uri": "x://it"})


# ---- invalid definitions -------------------------------------------------------------------------------------


def test_a_variable_that_is_not_a_parameter_is_refused() -> None:
    with pytest.raises(ConfigError, match="no parameter for the variable 'name'"):
        template("x://{name}", lambda other="": other)


def test_a_parameter_that_is_never_given_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"x://\{name\} has no variable for the required parameter 'other'"):
        template("x://{name}", lambda name, other: name)
    with pytest.raises(ConfigError, match=r"'name'; give it a default, or add \{name\} to the URI"):
        static(lambda name: name)


def test_parameters_with_defaults_and_open_keyword_arguments_are_fine() -> None:
    assert static(lambda name="x": name)() == "x"
    assert template("x://{name}", lambda name, other=1: name).match("x://a") == {"name": "a"}


async def test_a_function_of_any_keyword_arguments_takes_every_variable() -> None:
    def show(**variables: str) -> dict[str, str]:
        return variables

    (piece,) = await read(template("x://{a}/{b}", show), "x://1/2")
    assert json.loads(piece["text"]) == {"a": "1", "b": "2"}


def test_a_resource_without_a_uri_or_with_a_size_for_many_is_refused() -> None:
    with pytest.raises(UsageError, match="expected a URI, got a function"):
        resource(lambda: "x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="size"):
        resource("x://{a}", size=3)
    with pytest.raises(ConfigError, match="a scheme"):
        static(lambda: "", "config")


@pytest.mark.parametrize("meta", [{"x": object()}, {"x": float("nan")}])
def test_an_entry_that_could_not_be_sent_is_refused(meta: Wire) -> None:
    with pytest.raises(ConfigError, match=r"config: .*JSON"):
        static(lambda: "", name="config", meta=meta)


def test_an_entry_does_not_change_with_what_it_was_made_of() -> None:
    annotations: dict[str, Any] = {"audience": ["user"]}
    made = static(lambda: "", annotations=annotations)
    annotations["audience"].append("assistant")
    assert made.wire["annotations"] == {"audience": ["user"]}


class Shop:
    def __init__(self) -> None:
        self.stock = {"pen": 3}

    def count(self, name: str) -> int:
        return self.stock[name]


async def test_a_method_of_an_object_is_a_function_like_any_other() -> None:
    (piece,) = await read(template("stock://{name}", Shop().count), "stock://pen")
    assert piece["text"] == "3"


# ---- which template ------------------------------------------------------------------------------------------


def test_of_the_templates_that_match_the_one_that_says_most_is_taken_in_whatever_order_they_came() -> None:
    user, profile = template("u://{id}", lambda id: id), template("u://{id}/profile", lambda id: id)
    for templates in ([user, profile], [profile, user]):
        assert find_template(templates, "u://7/profile") == (profile, {"id": "7"})
        assert find_template(templates, "u://7") == (user, {"id": "7"})
        assert find_template(templates, "v://7") is None


def test_of_equals_the_first_is_taken() -> None:
    one, two = template("u://{a}", lambda a: a), template("u://{b}", lambda b: b)
    assert find_template([one, two], "u://7") == (one, {"a": "7"})
