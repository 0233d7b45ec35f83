"""Builds values, each with its place in the file, from a parser's events.

An alias shares the value of its anchor. Depth and size are limited, and keys given twice are detected.

This module depends on no YAML library. reader.py feeds the events to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from vgpumgr.core.inventory import Location, Member, Problem, Value
from vgpumgr.core.inventory.reading import NOT_TEXT

MAX_DEPTH = 50
MAX_VALUES = 2_000_000  # in one file, with aliases expanded

Plain: TypeAlias = "str | int | float | bool | None"
_MERGE = "<<"


class CannotGoOnError(Exception):
    """Raised if the rest of the file would make no sense, or would not end."""

    def __init__(self, where: Location, text: str) -> None:
        super().__init__(text)
        self.problem = Problem(where=where, text=text)


@dataclass(slots=True)
class _Open:
    """A mapping (members) or list (items) that has not ended yet. `size` counts values, with aliases expanded."""

    where: Location
    anchor: str | None
    opaque: str | None
    members: dict[str, Member] | None
    items: list[Value]
    key: Value | None = None
    merged: tuple[Value, ...] = ()
    size: int = 1


@dataclass(slots=True, kw_only=True)
class ValueBuilder:
    """Builds the value of one document, `root`, which is set at the document's last event."""

    root: Value | None = None
    problems: list[Problem] = field(default_factory=list)
    _stack: list[_Open] = field(default_factory=list)
    _anchors: dict[str, tuple[Value, int] | None] = field(default_factory=dict)  # None while it is still open

    def scalar(self, value: Value, *, anchor: str | None, merge: bool) -> None:
        """Take a scalar. `merge`: the scalar is a plain `<<`, which as a key merges other mappings."""
        if anchor is not None:
            self._anchors[anchor] = (value, 1)
        if merge:
            value = Value(where=value.where, data=_MERGE, text=_MERGE, opaque=_MERGE)
        self._add(value, 1)

    def open(self, where: Location, *, mapping: bool, anchor: str | None, opaque: str | None) -> None:
        """Begin a mapping or a list. Raises CannotGoOnError if it is nested too deeply."""
        if len(self._stack) >= MAX_DEPTH:
            raise CannotGoOnError(where, f"nested deeper than {MAX_DEPTH} levels")
        if anchor is not None:
            self._anchors[anchor] = None
        self._stack.append(_Open(where, anchor, opaque, {} if mapping else None, []))

    def close(self) -> None:
        """End the innermost mapping or list."""
        top = self._stack.pop()
        for source in top.merged:
            self._merge(top.members, source)
        data = top.members if top.members is not None else tuple(top.items)
        value = Value(top.where, data, "", top.opaque)
        if top.anchor is not None:
            self._anchors[top.anchor] = (value, top.size)
        self._add(value, top.size)

    def alias(self, where: Location, name: str) -> None:
        """Take the alias `*name`: the anchor's value once more. Raises CannotGoOnError if it has no value (yet)."""
        if name not in self._anchors:
            raise CannotGoOnError(where, f"*{name} names no anchor above it")
        entry = self._anchors[name]
        if entry is None:
            raise CannotGoOnError(where, f"*{name} is inside the value that it names")
        self._add(*entry)

    def problem(self, where: Location, text: str, hint: str) -> None:
        self.problems.append(Problem(where=where, text=text, hint=hint))

    def _add(self, value: Value, size: int) -> None:
        if not self._stack:
            self.root = value
            return
        top = self._stack[-1]
        top.size += size
        if top.size > MAX_VALUES:
            raise CannotGoOnError(value.where, f"expands to more than {MAX_VALUES:,} values")
        key, members = top.key, top.members
        if members is None:
            top.items.append(value)
        elif key is None:
            top.key = value if value.text else self._key(value)
        else:
            top.key = None
            if key.opaque is None and key.text not in members:  # the usual case, of up to a million
                members[key.text] = Member(key, value)
            else:
                self._set_odd(top, members, key, value)

    def _set_odd(self, top: _Open, members: dict[str, Member], key: Value, value: Value) -> None:
        """Set a member whose key is unusual: it is a merge, has a tag, or was given before."""
        if key.opaque == _MERGE:
            sources = value.data if isinstance(value.data, tuple) else (value,)
            top.merged = sources + top.merged  # as in PyYAML: a later << wins, and in a list the earlier
            return
        earlier = members.get(key.text)
        if earlier is not None:
            text = f"{key.text!r} is given twice (first in line {earlier.where.line}); Ansible silently takes the last"
            self.problem(key.where, text, "keep one of them")
        members[key.text] = Member(key=key, value=value)

    def _key(self, value: Value) -> Value:
        if isinstance(value.data, tuple | dict):
            self.problem(value.where, "a key must be plain text", 'quote a Jinja template: "{{ … }}"')
            return Value(where=value.where, data=NOT_TEXT, text=f"?{value.where.line}", opaque=NOT_TEXT)
        return value

    def _merge(self, members: dict[str, Member] | None, source: Value) -> None:
        """Carry out `<<: *other`: add the other mapping's members, except those that this mapping has itself."""
        if members is None or not isinstance(source.data, dict):
            self.problem(source.where, "<< merges only mappings", "name an anchor: <<: *NAME")
            return
        for text, member in source.data.items():
            members.setdefault(text, member)
