"""Plain data that knows its place: what the files' reader hands over, and all that the rules of this package see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Location:
    """A line of a file. `file` is relative to the inventory's folder; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One value of a YAML file.

    `data` is what YAML makes of it, and what Ansible sees; `text` is a scalar's own spelling. `opaque` names the tag of
    a value that cannot be known here (`!vault`, or a tag that we do not know); its data then means nothing.
    """

    where: Location
    data: str | int | float | bool | tuple[Value, ...] | Mapping[str, Member] | None
    text: str = ""
    opaque: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A key with its value; a variable is one. Tables hold them by the key's own spelling."""

    key: Value
    value: Value

    @property
    def where(self) -> Location:
        return self.key.where


Table: TypeAlias = Mapping[str, Member]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """One file that was read. `content` is None where it could not be read, which the reader has told; of an empty file a
    value without data.
    """

    file: str
    content: Value | None
