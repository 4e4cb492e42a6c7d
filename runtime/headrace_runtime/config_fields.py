"""Every setting as a field: its dotted name, type, default and what it allows, read off the structs themselves.

A new setting in `headrace_schemas.settings` needs nothing here, as long as it is a text, a number, a switch, a choice
or a list of those.
"""

import json
import math
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec
from msgspec import inspect as shapes

from headrace_schemas.settings import Settings

Given = str | list[str]
"""What a source says: a text or a list of them. Files give texts too, so that `1e3` and `on` mean the same anywhere."""

_TRUE = frozenset(("true", "yes", "on", "1"))
_FALSE = frozenset(("false", "no", "off", "0"))


class Wrong(Exception):
    """What is the matter with a value: the middle of the line a user reads."""


class Field(NamedTuple):
    name: str
    section: type[msgspec.Struct]
    """The struct that holds it: where its docstring is."""
    shape: shapes.Type
    hint: Any
    """The annotated type, for msgspec to check ranges and patterns by."""
    default: Any

    @property
    def is_list(self) -> bool:
        return isinstance(self.shape, shapes.VarTupleType)

    @property
    def allowed(self) -> str:
        if isinstance(self.shape, shapes.LiteralType):
            # In the order they were written, which is one of meaning; empty is what it is when nothing is said.
            return _either(word for word in get_args(self.hint) if word)
        return _allowed(self.shape)

    def read(self, given: Given) -> Any:
        """The value that `given` means; `Wrong` if it means none."""
        value = _read(self.shape, given)
        try:
            return msgspec.convert(value, self.hint)
        except msgspec.ValidationError:
            raise Wrong(_objection(self.shape)) from None


@cache
def fields() -> dict[str, Field]:
    """By dotted name, in the order of the structs."""
    return {field.name: field for field in _walk(Settings, "")}


@cache
def sections() -> frozenset[str]:
    """Dotted names that hold settings and are none."""
    return frozenset(name.rpartition(".")[0] for name in fields()) - {""}


def nearest(name: str) -> str:
    """The known setting most like `name`; a right last word in the wrong section counts for nearly as much."""
    last = name.rpartition(".")[2]

    def likeness(known: str) -> float:
        whole = SequenceMatcher(None, name, known).ratio()
        return max(whole, 0.9 * SequenceMatcher(None, last, known.rpartition(".")[2]).ratio())

    return max(fields(), key=likeness)


def flatten(settings: msgspec.Struct, prefix: str = "") -> list[tuple[str, Any]]:
    """(dotted name, value) of every setting, in the order of the structs."""
    found: list[tuple[str, Any]] = []
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, msgspec.Struct):
            found.extend(flatten(value, f"{prefix}{name}."))
        else:
            found.append((prefix + name, value))
    return found


def _walk(section: type[msgspec.Struct], prefix: str) -> Iterator[Field]:
    info = shapes.type_info(section)
    hints = get_type_hints(section, include_extras=True)
    assert isinstance(info, shapes.StructType)
    for field in info.fields:
        name = prefix + field.encode_name
        if isinstance(field.type, shapes.StructType):
            yield from _walk(field.type.cls, name + ".")
        else:
            _allowed(field.type)
            yield Field(name, section, field.type, hints[field.name], field.default)


def _read(shape: shapes.Type, given: Given) -> Any:
    match shape:
        case shapes.VarTupleType(item_type=item):
            return tuple(_read(item, each) for each in _list(shape, given))
        case _ if isinstance(given, list):
            raise Wrong(_objection(shape, whole=True))
        case shapes.IntType() | shapes.FloatType():
            return _number(shape, given)
        case shapes.BoolType():
            word = given.strip().lower()
            if word not in _TRUE | _FALSE:
                raise Wrong("is neither true nor false")
            return word in _TRUE
        case _:
            return given


def _number(shape: shapes.IntType | shapes.FloatType, given: str) -> int | float:
    try:
        if isinstance(shape, shapes.IntType):
            return int(given)
        value = float(given)
    except ValueError:
        raise Wrong(_objection(shape, whole=True)) from None
    if not math.isfinite(value):  # a comparison with NaN is never true, so that no range would catch it
        raise Wrong("is not a finite number")
    return value


def _list(shape: shapes.VarTupleType, given: Given) -> list[str]:
    if isinstance(given, list):
        return given
    try:
        items = json.loads(given)
    except ValueError:
        raise Wrong(_objection(shape, whole=True)) from None
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise Wrong(_objection(shape, whole=True))
    return items


def _objection(shape: shapes.Type, whole: bool = False) -> str:
    """`whole`: it is of another kind altogether, not merely out of range."""
    match shape:
        case shapes.IntType():
            return "is not a whole number" if whole else "is out of range"
        case shapes.FloatType():
            return "is not a number" if whole else "is out of range"
        case shapes.VarTupleType():
            return "is not a list" if whole else "has an entry that is not allowed"
        case shapes.LiteralType():
            return "is none of the choices"
        case _:
            return "is not a text" if whole else "is not of the right form"


def _allowed(shape: shapes.Type) -> str:
    match shape:
        case shapes.IntType():
            return "a whole number" + _range(shape)
        case shapes.FloatType():
            return "a number" + _range(shape)
        case shapes.BoolType():
            return "true or false"
        case shapes.LiteralType(values=values):
            return _either(values)
        case shapes.StrType(pattern=pattern):
            return f"a text that matches {pattern}" if pattern else "a text"
        case shapes.VarTupleType(item_type=item):
            each = _allowed(item)
            return "a list of texts" if each == "a text" else f"a list, each {each}"
        case _:
            raise TypeError(f"a setting cannot be a {type(shape).__name__}")


def _either(choices: Iterable[object]) -> str:
    *most, last = map(str, choices)
    return f"{', '.join(most)} or {last}" if most else last


def _range(shape: shapes.IntType | shapes.FloatType) -> str:
    low = f"{shape.ge:g}" if shape.ge is not None else None
    if low is not None and shape.le is not None:
        return f" from {low} to {shape.le:g}"
    if shape.gt is not None:
        low = f"above {shape.gt:g}"
    elif low is not None:
        low += " or more"
    high = f"{shape.le:g} or less" if shape.le is not None else f"below {shape.lt:g}" if shape.lt is not None else None
    limits = " and ".join(limit for limit in (low, high) if limit)
    return f", {limits}" if limits else ""
