"""Facts ↔ values by field name. A fact is an object of the wire with a TypedDict's keys, a value a dataclass of core.

A field gets the value of the key with its name. A list becomes a tuple, and a fact within a fact becomes a value, too.
`declare` states what differs: a key of another name, or a field that is made of the whole fact.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Fact = TypeVar("Fact")
Value = TypeVar("Value")
Reader = Callable[..., Any]

_readers: dict[type, Reader] = {}


def declare(
    fact: type, value: Callable[..., Value], *given: str, **differing: str | Callable[[Any], object]
) -> Callable[..., Value]:
    """A function that makes the value of a fact. It ignores additional keys, as a later host program may send.

    `given`: the fields that its caller passes by name. `differing`: a field's key in the fact, or a function of the
    whole fact. Every other field must have a key of its name; otherwise TypeError is raised at import.
    """
    hints = fact.__annotations__
    fields = [field.name for field in dataclasses.fields(value) if field.name not in given]  # type: ignore[arg-type]  # a dataclass
    makers = {name: make for name in fields if callable(make := differing.get(name))}
    keys = {name: str(differing.get(name, name)) for name in fields if name not in makers}
    if absent := [*(keys.values() - hints.keys()), *(differing.keys() - set(fields))]:
        raise TypeError(f"{fact.__name__} and {value} differ in {', '.join(absent)}")
    makers |= {name: of_key(key, reader) for name, key in keys.items() if (reader := _reader(hints[key])) is not None}
    same, made_of = [pair for pair in keys.items() if pair[0] not in makers], list(makers.items())

    def read_fact(row: Any, **others: object) -> Value:
        for name, key in same:
            others[name] = row[key]
        for name, make in made_of:
            others[name] = make(row)
        return value(**others)

    _readers[fact] = read_fact
    return read_fact


def _reader(hint: Any) -> Reader | None:
    """The function that reads a key of that type; None if the field has the key's value as it is."""
    inner = [one for one in typing.get_args(hint) if one is not type(None)]
    if typing.is_typeddict(hint):
        return _readers[hint]
    reader = _reader(inner[0]) if inner else None
    match typing.get_origin(hint):
        case typing.Union if reader is not None:
            return lambda value: None if value is None else reader(value)
        case kind if kind is list:
            return tuple if reader is None else lambda value: tuple(map(reader, value))
        case _:
            return None


def of_key(key: str, read: Reader) -> Reader:
    """A function that makes a field's value from one key of the fact."""
    return lambda row: read(row[key])


def maybe(value: Fact | None, read: Callable[[Fact], Value]) -> Value | None:
    return None if value is None else read(value)


def rows(facts: Iterable[Fact] | None, read: Callable[[Fact], Value]) -> tuple[Value, ...] | None:
    return None if facts is None else tuple(map(read, facts))


def render(fact: Callable[..., Fact], value: object, **differing: object) -> Fact:
    """The fact of a value. `differing`: the keys for which there is no field, or a different one."""
    return fact(
        **{
            key: differing[key] if key in differing else write(getattr(value, key))
            for key, write in _writers(fact).items()
        }
    )


@functools.cache
def _writers(fact: Any) -> dict[str, Callable[[Any], Any]]:
    return {key: _writer(hint) for key, hint in fact.__annotations__.items()}


def _writer(hint: Any) -> Callable[[Any], Any]:
    """The function that makes a key's value from a field's."""
    if typing.is_typeddict(hint):
        return lambda value: render(hint, value)
    match typing.get_origin(hint), typing.get_args(hint):
        case typing.Union, (inner, *_):
            write = _writer(inner)
            return lambda value: None if value is None else write(value)
        case kind, (inner,) if kind is list:
            write = _writer(inner)
            return lambda values: [write(one) for one in values]
        case kind, _ if kind is dict:
            return dict
        case _:
            return lambda value: value
