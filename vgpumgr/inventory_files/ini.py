"""Reads Ansible's INI inventories as their equivalent in YAML: ansible-core 2.19's rules, plugins/inventory/ini.py.

A file becomes several tables, in order, because a host may occur several times: the last variables win. If Ansible
would drop the rest of a file with only a warning, a problem is reported.
"""

from __future__ import annotations

import ast
import re
import shlex
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from vgpumgr.core.inventory import Location, Member, Problem, Value
from vgpumgr.core.inventory.reading import NOT_TEXT
from vgpumgr.inventory_files.values import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINE = 256 * 1024  # characters; Python's parser needs a hundred bytes for each

_SECTION: Final = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_GROUP: Final = re.compile(r"([^:\]\s]+)\s*(?:#.*)?")
_HOSTS, _CHILDREN, _VARS = "hosts", "children", "vars"
_KINDS = (_HOSTS, _CHILDREN, _VARS)
_AS_YAML = "write it as YAML in host_vars or group_vars"
_ALWAYS = ("all", "ungrouped")  # groups that need no declaration


def read_ini(text: str, file: str, earlier: Iterable[str] = ()) -> tuple[list[Value], list[Problem]]:
    """The file's tables, each as from a YAML file, and its problems. `earlier`: the groups of the files before it."""
    reading = _Reading(file=file, declared={*_ALWAYS, *earlier})
    if text.startswith("\ufeff"):
        problem = "begins with a byte order mark, which Ansible takes for a part of the first host's name"
        return [], [Problem(where=Location(file, 1), text=problem, hint="save it as UTF-8 without one")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # for `1 is 1`, which is a value's text
        for number, line in enumerate(text.splitlines(), 1):
            reading.line(line.strip(), Location(file, number))
    reading.end()
    return reading.tables, reading.problems


class _UnreadableError(Exception):
    """A line that Ansible cannot read."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__(text)
        self.hint = hint


@dataclass(slots=True, kw_only=True)
class _Reading:
    """What has been read so far. `entries`: the current section's (`[group:kind]`). `awaited`: undeclared groups."""

    file: str
    tables: list[Value] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    group: str = "ungrouped"
    kind: str = _HOSTS  # "": what the lines mean is unknown
    entries: dict[str, Member] | None = None
    declared: set[str]
    awaited: dict[str, Location] = field(default_factory=dict)

    def line(self, line: str, where: Location) -> None:
        if line and line[0] not in "#;":
            try:
                self._line(line, where)
            except _UnreadableError as error:
                self.problems.append(Problem(where=where, text=str(error), hint=error.hint))

    def _line(self, line: str, where: Location) -> None:
        if len(line) > MAX_LINE:
            raise _UnreadableError(f"a line longer than {MAX_LINE // 1024} KiB", _AS_YAML)
        section = _SECTION.fullmatch(line)
        if section is not None:
            self._section(section[1], section[2] or _HOSTS, where)
        elif line.startswith("[") and line.endswith("]"):
            raise _UnreadableError(f"not a section: {line!r}", "for example [hypervisors] or [hypervisors:vars]")
        elif self.kind == _HOSTS:
            self._hosts(line, where)
        elif self.kind == _VARS:
            self._variable(line, where)
        elif self.kind == _CHILDREN:
            self._child(line, where)

    def end(self) -> None:
        """Report the groups that are named but never declared."""
        for name, where in self.awaited.items():
            if name not in self.declared:
                text = f"group {name!r} is declared neither in this file nor in one before it"
                self.problems.append(Problem(where=where, text=text, hint=f"declare it: [{name}]"))

    def _section(self, group: str, kind: str, where: Location) -> None:
        if kind not in _KINDS:
            self.kind = ""
            raise _UnreadableError(f"[{group}:{kind}] is no kind of section", f"write one of {', '.join(_KINDS)}")
        self.group, self.kind = group, kind
        if kind == _VARS:
            self.awaited.setdefault(group, where)
        else:
            self.declared.add(group)
        self._open(where)

    def _open(self, where: Location) -> dict[str, Member]:
        entries: dict[str, Member] = {}
        kind = Member(_text(self.kind, where), Value(where, entries))
        group = Member(_text(self.group, where), Value(where, {self.kind: kind}))
        self.tables.append(Value(where, {self.group: group}))
        self.entries = entries
        return entries

    def _put(self, key: str, value: Value, where: Location) -> None:
        entries = self.entries
        if entries is None or key in entries:
            entries = self._open(where)
        entries[key] = Member(_text(key, where), value)

    def _hosts(self, line: str, where: Location) -> None:
        try:
            pattern, *assignments = shlex.split(line, comments=True)
        except ValueError as error:  # "No closing quotation", "No escaped character"
            raise _UnreadableError(
                f"not a host with its variables: {str(error).lower()}", "quote a value as a shell would"
            ) from error
        if pattern == "---":
            self.kind = ""
            raise _UnreadableError("this is YAML, in a file whose name says INI", "name it NAME.yml")
        variables: dict[str, Member] = {}
        for text in assignments:
            name, equals, value = text.partition("=")
            if not equals:
                raise _UnreadableError(f"{text!r} is no NAME=VALUE", "a host's line is: HOST NAME=VALUE …")
            self._set(variables, name, value, where)
        self._put(pattern, Value(where, variables or None), where)

    def _variable(self, line: str, where: Location) -> None:
        name, equals, text = line.partition("=")
        if not equals:
            raise _UnreadableError(f"{line!r} is no NAME=VALUE", "a line of variables is: NAME=VALUE")
        entries = self.entries if self.entries is not None else self._open(where)
        self._set(entries, name.strip(), text.strip(), where)

    def _set(self, variables: dict[str, Member], name: str, text: str, where: Location) -> None:
        if name in variables:
            first = variables[name].where.line
            before = "on this line" if first == where.line else f"(first in line {first})"
            raise _UnreadableError(
                f"{name!r} is given twice {before}; Ansible silently takes the last", "keep one of them"
            )
        variables[name] = Member(_text(name, where), _meaning(text, where))

    def _child(self, line: str, where: Location) -> None:
        match = _GROUP.fullmatch(line)
        if match is None:
            raise _UnreadableError(f"not a group's name: {line!r}", "one group a line")
        self.awaited.setdefault(match[1], where)
        self._put(match[1], Value(where, None), where)


def _text(text: str, where: Location) -> Value:
    return Value(where, text, text)


def _meaning(text: str, where: Location) -> Value:
    """A value as Ansible reads it: a Python literal if it is one, otherwise text."""
    try:
        literal = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _text(text, where)
    except (TypeError, MemoryError, RecursionError) as error:
        raise _UnreadableError(f"Ansible cannot read the value {_short(text)}", _AS_YAML) from error
    if "{" in text:
        twice = next(_twice(ast.parse(text, mode="eval")), None)
        if twice is not None:
            raise _UnreadableError(f"{twice!r} is given twice; Ansible silently takes the last", "keep one of them")
    return _value(literal, text, where, 1)


def _twice(tree: ast.AST) -> Iterator[object]:
    """The keys that occur twice in a mapping of the literal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = set()
            for key in node.keys:
                if isinstance(key, ast.Constant):
                    if key.value in keys:
                        yield key.value
                    keys.add(key.value)


def _value(literal: Any, text: str, where: Location, depth: int) -> Value:
    if depth > MAX_DEPTH:
        raise _UnreadableError(f"nested deeper than {MAX_DEPTH} levels", _AS_YAML)
    match literal:
        case None | bool() | int() | float():
            return Value(where, literal, text)
        case str():
            return _text(literal, where)
        case bytes():
            return _text(literal.decode("utf-8", "replace"), where)
        case dict():
            members = (
                Member(_key(key, where), _value(value, str(value), where, depth + 1)) for key, value in literal.items()
            )
            return Value(where, {member.key.text: member for member in members})
        case list() | tuple() | set():
            return Value(where, tuple(_value(item, str(item), where, depth + 1) for item in literal))
        case _:  # a complex number, or `...`
            return _text("..." if literal is ... else str(literal), where)


def _key(key: object, where: Location) -> Value:
    if isinstance(key, str | bool | int | float) or key is None:
        return Value(where, key, str(key))
    return Value(where, NOT_TEXT, str(key), NOT_TEXT)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:59] + "…")
