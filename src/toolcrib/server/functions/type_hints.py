"""Resolves the annotations of functions, and makes pydantic validators and JSON schemas of them."""

from __future__ import annotations

import collections
import collections.abc
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import typing_extensions
from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, WithJsonSchema
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from ...errors import UsageError
from ...types import Wire

Mode = Literal["validation", "serialization"]

OPAQUE: Final = Annotated[Any, WithJsonSchema({"type": "object"})]
"""Replaces a type that pydantic cannot describe: any object, passed on unchanged."""

_CONTAINERS: Final = frozenset(
    {
        *(list, dict, set, frozenset, tuple, collections.deque),
        *(collections.abc.Sequence, collections.abc.Mapping, collections.abc.Iterable, collections.abc.Set),
        *(collections.abc.MutableSequence, collections.abc.MutableMapping, collections.abc.MutableSet),
    }
)
_LISTS: Final = (list, tuple, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
_OLD_TYPED_DICTS: Final = sys.version_info < (3, 12)


# ---- resolving -----------------------------------------------------------------------------------------------


def underlying(function: Callable[..., Any]) -> Any:
    """Return the function inside partials, methods, callable objects and wrappers: its namespace resolves names."""
    inner: Any = function
    while True:
        if isinstance(inner, functools.partial):
            inner = inner.func
        elif inspect.ismethod(inner):
            inner = inner.__func__
        elif hasattr(inner, "__wrapped__"):
            inner = inner.__wrapped__
        elif inspect.isclass(inner):
            return inner.__init__
        elif not inspect.isroutine(inner):
            inner = type(inner).__call__
        else:
            return inner


def resolve(function: Callable[..., Any], name: str, annotation: Any) -> Any:
    """Return one annotation of a function as a type, also if it is a string or contains one.

    Names are looked up in the function's module, its closure, and the enclosing functions that are running now: a class
    may be local to the function that decorates. If none of them defines the name, the bodies of the enclosing classes
    are searched.
    """
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    plain = underlying(function)
    module = getattr(plain, "__globals__", {})
    local = _running(plain, ".<locals>.") | _closure(plain)
    try:
        try:
            return typing.get_type_hints(holder, module, local, include_extras=True)[name]
        except NameError:
            return typing.get_type_hints(holder, module, _running(plain, ".") | local, include_extras=True)[name]
    except (NameError, AttributeError, TypeError, SyntaxError) as exc:
        where = getattr(plain, "__qualname__", repr(function))
        raise UsageError(
            f"{where}: the annotation {annotation!r} of {name} cannot be resolved: {exc}; "
            "import its names at run time, not only under TYPE_CHECKING"
        ) from None


def _closure(plain: Any) -> dict[str, Any]:
    code, cells = getattr(plain, "__code__", None), getattr(plain, "__closure__", None)
    if code is None or cells is None:
        return {}
    # A cell is empty until its name is assigned.
    return {name: cell.cell_contents for name, cell in zip(code.co_freevars, cells, strict=True) if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # raises if the cell is empty
    except ValueError:
        return False
    return True


def _running(plain: Any, joint: str) -> dict[str, Any]:
    """Return the names in the enclosing scopes of a function that are running now; inner scopes take precedence."""
    found: dict[str, Any] = {}
    frame = inspect.currentframe() if inspect.isfunction(plain) else None
    while frame is not None:
        if frame.f_globals is plain.__globals__ and plain.__qualname__.startswith(frame.f_code.co_qualname + joint):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


# ---- shapes --------------------------------------------------------------------------------------------------


def is_union(annotation: Any) -> bool:
    """Return whether it is a union, in any notation."""
    return get_origin(annotation) in (Union, types.UnionType)


def is_list(annotation: Any) -> bool:
    """Return whether it is a list, a tuple, or a more general collection, of any element type."""
    return annotation in _LISTS or get_origin(annotation) in _LISTS


def bare(annotation: Any) -> Any:
    """Return the annotation without enclosing `Annotated` and `NewType`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        else:
            return annotation


def alternatives(annotation: Any) -> list[Any]:
    """Return the members of a union, flattened and bare; for any other annotation, the bare annotation alone."""
    annotation = bare(annotation)
    if not is_union(annotation):
        return [annotation]
    return [one for member in get_args(annotation) for one in alternatives(member)]


def leaves(annotation: Any) -> list[Any]:
    """Return all types that the annotation contains."""
    annotation = bare(annotation)
    if is_union(annotation) or get_origin(annotation) in _CONTAINERS:
        return [leaf for member in get_args(annotation) for leaf in leaves(member)]
    return [annotation]


def _with_leaves(annotation: Any, change: Callable[[Any], Any]) -> Any:
    """Return the annotation with each leaf replaced by `change(leaf)`."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is ...:
        return annotation
    if origin is Annotated:
        return Annotated[(_with_leaves(args[0], change), *annotation.__metadata__)]
    if is_union(annotation):
        return Union[tuple(_with_leaves(arg, change) for arg in args)]  # noqa: UP007  # `|` takes no tuple
    if origin in _CONTAINERS and args:
        return origin[tuple(_with_leaves(arg, change) for arg in args)]
    return change(annotation)


def readable(annotation: Any) -> Any:
    """Return the annotation in a form that pydantic accepts: before Python 3.12 it rejects `typing.TypedDict`."""
    return _with_leaves(annotation, _typed_dict) if _OLD_TYPED_DICTS else annotation


def _typed_dict(leaf: Any) -> Any:
    if not typing.is_typeddict(leaf):
        return leaf
    try:
        fields = typing.get_type_hints(leaf, include_extras=True)
    except NameError:
        return leaf
    if any(leaf in leaves(field) for field in fields.values()):
        return leaf  # it is recursive and cannot be rebuilt
    made = typed_dict(
        leaf.__name__,
        {key: _field(field, key in leaf.__required_keys__) for key, field in fields.items()},
        getattr(leaf, "__pydantic_config__", None),
    )
    made.__doc__, made.__module__, made.__qualname__ = leaf.__doc__, leaf.__module__, leaf.__qualname__
    return made


def typed_dict(name: str, fields: dict[str, Any], config: ConfigDict | None = None) -> Any:
    """Return a TypedDict that pydantic accepts."""
    make: Any = typing_extensions.TypedDict
    made = make(name, fields)
    if config is not None:
        made.__pydantic_config__ = config
    return made


def mark_required(field: Any, *, required: bool) -> Any:
    """Return a field of a TypedDict, marked as required or not."""
    return (typing_extensions.Required if required else typing_extensions.NotRequired)[field]


def _field(field: Any, required: bool) -> Any:
    # The class ignores a qualifier inside a string annotation, so the qualifier of the field takes precedence.
    while (qualifier := get_origin(field)) in (typing.Required, typing.NotRequired):
        required = qualifier is typing.Required
        field = get_args(field)[0]
    return mark_required(readable(field), required=required)


# ---- describing ----------------------------------------------------------------------------------------------


class PlainJsonSchema(GenerateJsonSchema):
    """JSON schemas without the titles that pydantic derives from names; explicit titles stay."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  # as the base has it

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002  # the base's signature
        """Return False: no field gets a title derived from its name."""
        return False

    def p_arguments_schema(self, arguments: Any, var_args_schema: Any) -> JsonSchemaValue:
        """Return a named tuple's schema without the titles that pydantic before 2.12 derives from field names."""
        made = super().p_arguments_schema(arguments, var_args_schema)
        for argument, item in zip(arguments, made.get("prefixItems", ()), strict=True):
            if item.get("title") == self.get_title_from_name(self.get_argument_name(argument)):
                del item["title"]
        return made

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Return the schema of a class without a title that repeats its name."""
        made = super().generate_inner(schema)
        target = self.get_schema_from_definitions(made["$ref"]) if "$ref" in made else made
        if target is not None and "title" in target and target["title"] == _class_name(schema):
            del target["title"]
        return made


def _class_name(schema: Any) -> str | None:
    if (cls := schema.get("cls")) is not None:
        return str(cls.__name__)
    # Older versions of pydantic do not keep every class; the reference contains its name: `module.Class:id`.
    return str(schema["ref"]).partition(":")[0].rpartition(".")[2] if "ref" in schema else None


def describe(annotation: Any, mode: Mode) -> tuple[TypeAdapter[Any], Wire]:
    """Return pydantic's adapter for an annotation, which validates and serializes values, and its JSON schema.

    Raises if pydantic cannot describe the type, or if the annotation is invalid; `is_beyond` distinguishes the two.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(annotation)
    return adapter, adapter.json_schema(schema_generator=PlainJsonSchema, mode=mode)


def is_beyond(exc: Exception) -> bool:
    """Return whether pydantic cannot describe the type; otherwise the annotation is invalid."""
    if isinstance(exc, PydanticSchemaGenerationError | PydanticInvalidForJsonSchema):
        return True
    return isinstance(exc, PydanticUserError) and exc.code == "typed-dict-version"


def make_describable(annotation: Any) -> Any:
    """Return the annotation with `OPAQUE` in place of the types that pydantic cannot describe."""
    return _or_opaque(_with_leaves(annotation, _or_opaque))


def _or_opaque(annotation: Any) -> Any:
    try:
        # As a field: unlike a plain type, a field may have an alias.
        describe(typed_dict("One", {"one": annotation}), "validation")
    except Exception as exc:
        if is_beyond(exc):
            return OPAQUE
        raise
    return annotation
