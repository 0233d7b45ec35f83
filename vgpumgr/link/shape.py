"""Plain data from another program, taken apart: each of these gives the value in its type, or raises TypeError."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Name = TypeVar("Name", bound=str)
Row = TypeVar("Row")

Json = object


def rows(value: Json, read: Callable[[Mapping[str, Json]], Row]) -> tuple[Row, ...] | None:
    return None if value is None else tuple(read(mapping(row)) for row in items(value))


def mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(f"an object was expected, not {value!r}")
    return value


def items(value: Json) -> Sequence[Json]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r}")
    return value


def text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text was expected, not {value!r}")
    return value


def maybe_text(value: Json) -> str | None:
    return None if value is None else text(value)


def maybe(value: Json, name: Callable[[str], Name]) -> Name | None:
    # The host program writes names in their canonical form; this only gives them their type.
    return None if value is None else name(text(value))


def number(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a number was expected, not {value!r}")
    return value


def maybe_number(value: Json) -> int | None:
    return None if value is None else number(value)


def boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false was expected, not {value!r}")
    return value
