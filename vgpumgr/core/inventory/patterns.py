"""Which hosts a pattern means, as in Ansible (ansible-core 2.19, inventory/manager.py): `kvm0*`, `gpu:!kvm7`, `r[0:2]`.

Several patterns are one list: those without a mark are added up (all hosts, if there is none), then `&` keeps what it
matches, then `!` takes away. In a text without commas, colons separate patterns. A pattern is a host, else a group,
else shell wildcards over group and host names, or, after `~`, a regular expression. A subscript such as `[0:2]` chooses
among the matches. Ansible does not have this: if no host or group is called `kvm`, `kvm[01:03]` means three names, as
in inventory files, and `kvm[12]` means kvm1 and kvm2, as in shell wildcards.
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
_SUBSCRIPT = re.compile(r"(.+)\[(?:(-?[0-9]{1,9})|([0-9]{1,9})[:-]([0-9]{0,9}))\]", re.ASCII)
_PARTS = re.compile(r"(?:[^\s:\[\]]|\[[^\]]*\])+")
# With one of these, a pattern that matches groups is compared with the hosts' names, too.
_AMONG_NAMES = frozenset(".?*[")
_ALL = "all"
# No wildcard matches these: so says Ansible's documentation, while its code lets them match.
_BUILT_IN = frozenset({_ALL, "ungrouped"})
HINT = "`vgpumgr docs choosing` has every form: kvm01, 'kvm0*', gpus, 'gpus:!kvm07', 'gpus[0:2]', '~kvm(01|02)', @FILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roster:
    """All hosts and groups of the inventory's files, ours or not, in the order in which the files name them.

    `members`: the hosts that a group names itself; `children`: the groups that it names itself.
    """

    hosts: Collection[HostName]
    members: Mapping[str, Collection[HostName]] = field(default_factory=dict)
    children: Mapping[str, Collection[str]] = field(default_factory=dict)

    def of_group(self, name: str) -> tuple[HostName, ...]:
        """The hosts of a group and of all groups below it, level by level. `all`: every host, also without groups."""
        hosts: dict[HostName, None] = {}
        level, groups = [name], {name}
        while level:
            hosts.update(dict.fromkeys(host for group in level for host in self.members.get(group, ())))
            below = dict.fromkeys(child for group in level for child in self.children.get(group, ()))
            level = [child for child in below if child not in groups]
            groups.update(level)
        if name == _ALL:
            hosts.update(dict.fromkeys(self.hosts))
        return tuple(hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The hosts that patterns mean. `unmatched`: patterns, without marks, that match nothing in the inventory."""

    hosts: tuple[HostName, ...]
    unmatched: tuple[str, ...]


def split(texts: Iterable[str]) -> tuple[str, ...]:
    """The single patterns in the texts of a command line."""
    words: list[str] = []
    for text in texts:
        parts = text.split(",") if "," in text else _PARTS.findall(text)
        words += (part.strip() for part in parts if part.strip())
    return tuple(words)


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
        names = match(pattern, roster)
        if names is None:
            unmatched.append(pattern)
        return names or ()

    hosts = dict.fromkeys(host for pattern in adds or [_ALL] for host in matched(pattern))
    for pattern in keeps:
        keepers = set(matched(pattern))
        hosts = {host: None for host in hosts if host in keepers}
    for pattern in takes:
        exclusions = set(matched(pattern))
        hosts = {host: None for host in hosts if host not in exclusions}
    return Selection(hosts=tuple(hosts), unmatched=tuple(unmatched))


def match(pattern: str, roster: Roster) -> tuple[HostName, ...] | None:
    """The hosts of one pattern without its mark; None if nothing in the inventory matches. Raises BadName."""
    if not pattern or pattern == "~":
        raise BadName(f"not a pattern of hosts: {pattern!r}", hint=HINT)
    name = HostName(pattern)
    if name in roster.hosts:
        return (name,)
    subscript = None if pattern.startswith("~") else _SUBSCRIPT.fullmatch(pattern)
    if subscript is None:
        return _enumerate(pattern, roster)
    hosts = _enumerate(subscript[1], roster)
    if hosts is None:
        return _named_range(pattern, roster) or _enumerate(pattern, roster)
    return _subscripted(hosts, subscript)


def _subscripted(hosts: tuple[HostName, ...], subscript: re.Match[str]) -> tuple[HostName, ...] | None:
    """The hosts of a subscript: [2], [-1], [0:2] (both ends included), [1:]. None if [2] is beyond the last host."""
    if not hosts:
        return hosts
    if subscript[2] is not None:
        index = int(subscript[2])
        return (hosts[index],) if -len(hosts) <= index < len(hosts) else None
    start = int(subscript[3])
    if subscript[4] and int(subscript[4]) == 0:  # Ansible takes [2:0] for [2]
        return (hosts[start],) if start < len(hosts) else None
    return hosts[start : int(subscript[4]) + 1 if subscript[4] else None]


def _enumerate(expression: str, roster: Roster) -> tuple[HostName, ...] | None:
    groups = (
        [expression]
        if expression in _BUILT_IN
        else _matching((group for group in roster.members if group not in _BUILT_IN), expression)
    )
    hosts = dict.fromkeys(host for group in groups for host in roster.of_group(group))
    if not groups or expression.startswith("~") or not _AMONG_NAMES.isdisjoint(expression):
        hosts.update(dict.fromkeys(_matching(roster.hosts, expression)))
    return tuple(hosts) if hosts or groups else None


def _matching(names: Iterable[Name], expression: str) -> list[Name]:
    """The names that shell wildcards match, or, after ~, a regular expression from the start of the name."""
    try:
        pattern = re.compile(expression[1:] if expression.startswith("~") else fnmatch.translate(expression))
    except (re.error, OverflowError, RecursionError) as error:
        raise BadName(f"not a regular expression: {expression!r}: {error}", hint=HINT) from error
    return [name for name in names if pattern.match(name)]


def _named_range(pattern: str, roster: Roster) -> tuple[HostName, ...] | None:
    """The hosts that a range of names stands for; None if it is no range, or if the inventory lacks one of them."""
    try:
        names = ranges.names(pattern) if ranges.has_range(pattern) else []
    except BadName:
        return None
    hosts = set(roster.hosts)
    return tuple(map(HostName, names)) if names and hosts.issuperset(map(HostName, names)) else None
