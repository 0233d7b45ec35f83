"""Plain data with its location: what the file reader hands over, and the only input of this package's rules.

Values are named tuples: a large inventory has a million, and a frozen dataclass takes four times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class Location(NamedTuple):
    """A line of a file. `file` is relative to the inventory's folder; line numbers start at 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Value(NamedTuple):
    """One value of a YAML file.

    `data` is the parsed value, as Ansible sees it; `text` is a scalar's original spelling. `opaque`: the tag of a value
    that cannot be known here (`!vault`, or an unknown tag); its data then means nothing.
    """

    where: Location
    data: str | int | float | bool | tuple[Value, ...] | Mapping[str, Member] | None
    text: str = ""
    opaque: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written there."""
        return self.data is None and self.opaque is None


class Member(NamedTuple):
    """A key with its value, for example a variable. Tables hold members by the key's spelling."""

    key: Value
    value: Value

    @property
    def where(self) -> Location:
        return self.key.where


Table: TypeAlias = Mapping[str, Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file that was read. `content`: None if it could not be read (the reader has reported why); without data if it
    is empty. `is_remark`: it has no data, only comments about something else.
    """

    file: str
    content: Value | None
    is_remark: bool = False
