"""Which hosts a pattern means, as Ansible has it (ansible-core 2.19, inventory/manager.py): `kvm0*`, `gpu:!kvm07`, `rack1[0:2]`.

Several patterns are one list: first those without a mark are added up (all hosts, if there is none), then `&` keeps what it
matches, then `!` takes away. Without a comma, a colon divides a text, too. A pattern is a host, else a group, else shell
wildcards over the names of groups and hosts, or, after `~`, a regular expression; a subscript counts among what it matches, each once.
More than Ansible has: where nothing is called `kvm`, `kvm[01:03]` are three names, as in its inventory files, and
`kvm[12]` is a set of letters, as between other wildcards.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.core.inventory import ranges
from vgpumgr.errors import BadName
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

Name = TypeVar("Name", bound=str)
_SUBSCRIPT = re.compile(r"(.+)\[(?:(-?[0-9]+)|([0-9]+)[:-]([0-9]*))\]", re.ASCII)
_PARTS = re.compile(r"(?:[^\s:\[\]]|\[[^\]]*\])+")
_AMONG_NAMES = frozenset(
    ".?*["
)  # with one of these, a pattern that matches groups is compared with the hosts' names, too
_ALL = "all"
_BUILT_IN = frozenset({_ALL, "ungrouped"})  # wildcards do not mean them: so Ansible's documentation, against its code
HINT = "`vgpumgr docs choosing` has every form: kvm01, 'kvm0*', gpus, 'gpus:!kvm07', 'gpus[0:2]', '~kvm(01|02)', @FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """All hosts and groups of the inventory's files, ours or not, in the order in which the files name them.

    `members`: the hosts that stand in a group itself; `children`: the groups that do.
    """

    hosts: Collection[HostName]
    members: Mapping[str, Collection[HostName]] = field(default_factory=dict)
    children: Mapping[str, Collection[str]] = field(default_factory=dict)

    def of_group(self, name: str) -> tuple[HostName, ...]:
        """The hosts of a group and of all groups below it, level by level. `all` has every host, also without groups."""
        found: dict[HostName, None] = {}
        level, seen = [name], {name}
        while level:
            found.update(dict.fromkeys(host for group in level for host in self.members.get(group, ())))
            below = dict.fromkeys(child for group in level for child in self.children.get(group, ()))
            level = [child for child in below if child not in seen]
            seen.update(level)
        if name == _ALL:
            found.update(dict.fromkeys(self.hosts))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The hosts that patterns mean. `unmatched`: patterns that match nothing in the whole inventory, without their mark."""

    hosts: tuple[HostName, ...]
    unmatched: tuple[str, ...]


def split(texts: Iterable[str]) -> tuple[str, ...]:
    """The single patterns that the texts of a command line hold."""
    found: list[str] = []
    for text in texts:
        parts = text.split(",") if "," in text else _PARTS.findall(text)
        found += (part.strip() for part in parts if part.strip())
    return tuple(found)


def in_order(patterns: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """The patterns that add, those that keep, and those that take away; the last two without their marks."""
    adds, keeps, takes = [], [], []
    for pattern in patterns:
        match pattern[0]:
            case "&":
                keeps.append(pattern[1:])
            case "!":
                takes.append(pattern[1:])
            case _:
                adds.append(pattern)
    return adds, keeps, takes


def select(patterns: Sequence[str], roster: Roster) -> Selection:
    """The hosts of single patterns, in Ansible's order. Raises BadName for a text that is no pattern."""
    adds, keeps, takes = in_order(patterns)
    unmatched: list[str] = []

    def matched(pattern: str) -> tuple[HostName, ...]:
        found = match(pattern, roster)
        if found is None:
            unmatched.append(pattern)
        return found or ()

    hosts = dict.fromkeys(host for pattern in adds or [_ALL] for host in matched(pattern))
    for pattern in keeps:
        kept = set(matched(pattern))
        hosts = {host: None for host in hosts if host in kept}
    for pattern in takes:
        taken = set(matched(pattern))
        hosts = {host: None for host in hosts if host not in taken}
    return Selection(hosts=tuple(hosts), unmatched=tuple(unmatched))


def match(pattern: str, roster: Roster) -> tuple[HostName, ...] | None:
    """The hosts that one pattern without its mark means; None if nothing in the inventory is called so. Raises BadName."""
    if not pattern or pattern == "~":
        raise BadName(f"not a pattern of hosts: {pattern!r}", hint=HINT)
    name = HostName(pattern)
    if name in roster.hosts:
        return (name,)
    cut = None if pattern.startswith("~") else _SUBSCRIPT.fullmatch(pattern)
    if cut is None:
        return _enumerate(pattern, roster)
    found = _enumerate(cut[1], roster)
    if found is None:
        return _named_range(pattern, roster) or _enumerate(pattern, roster)
    return _subscripted(found, cut)


def _subscripted(found: tuple[HostName, ...], cut: re.Match[str]) -> tuple[HostName, ...] | None:
    """The hosts that a subscript counts out: [2], [-1], [0:2] (both ends count), [1:]; None if there are not so many."""
    if not found:
        return found
    if cut[2] is not None:
        index = int(cut[2])
        return (found[index],) if -len(found) <= index < len(found) else None
    start = int(cut[3])
    if cut[4] and int(cut[4]) == 0:  # Ansible takes [2:0] for [2]
        return (found[start],) if start < len(found) else None
    return found[start : int(cut[4]) + 1 if cut[4] else None]


def _enumerate(expression: str, roster: Roster) -> tuple[HostName, ...] | None:
    groups = (
        [expression]
        if expression in _BUILT_IN
        else _matching((group for group in roster.members if group not in _BUILT_IN), expression)
    )
    found = dict.fromkeys(host for group in groups for host in roster.of_group(group))
    if not groups or expression.startswith("~") or not _AMONG_NAMES.isdisjoint(expression):
        found.update(dict.fromkeys(_matching(roster.hosts, expression)))
    return tuple(found) if found or groups else None


def _matching(names: Iterable[Name], expression: str) -> list[Name]:
    """The names that shell wildcards match, or, after ~, a regular expression from the name's begin."""
    try:
        pattern = re.compile(expression[1:] if expression.startswith("~") else fnmatch.translate(expression))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadName(f"not a regular expression: {expression!r}: {error}", hint=HINT) from error
    return [name for name in names if pattern.match(name)]


def _named_range(pattern: str, roster: Roster) -> tuple[HostName, ...] | None:
    """The hosts that a range of names stands for; None if it is no range, or one of them is missing."""
    try:
        names = ranges.names(pattern) if ranges.has_range(pattern) else []
    except BadName:
        return None
    known = set(roster.hosts)
    return tuple(map(HostName, names)) if names and known.issuperset(map(HostName, names)) else None
