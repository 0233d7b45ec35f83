"""Whose hosts an inventory has: which of them are hypervisors that we manage, and which are Ansible's alone.

The first of these that says anything decides:

1. a group: the one that the command line names, else the one of `vgpumgr_group`, else one that is called `hypervisors`
2. the lack of groups that tell one host from another: then all are hypervisors
3. the hosts that have a `vgpumgr_` variable of their own, or of a group of theirs other than `all`

Otherwise it is a problem: to contact every host of an inventory as root, because nobody said which, would be wrong.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.inventory import reading
from vgpumgr.core.inventory.groups import ALL, HYPERVISORS, UNGROUPED
from vgpumgr.core.inventory.located import Location
from vgpumgr.core.inventory.model import Whose
from vgpumgr.errors import UnknownName
from vgpumgr.names import nearest
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.core.inventory.groups import Host, Tree
    from vgpumgr.core.inventory.located import Member, Table
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.names import HostName

PREFIX = "vgpumgr_"
VARIABLE = "vgpumgr_group"
_NAMED = 8  # how many names a message has
_LIKELY = ("kvm", "hyper", "virt", "gpu", "qemu", "compute")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChoice:
    """A group named outside the inventory. `by`: --group, or the variable of the environment."""

    name: str
    by: str


def decide(
    tree: Tree,
    group_files: Mapping[str, Table],
    host_files: Mapping[str, Table],
    choice: GroupChoice | None,
    report: Report,
) -> tuple[dict[HostName, Host], Whose]:
    """Our hosts by name, and why they are ours. Reports a problem if nothing says which. Raises UnknownName."""
    member = for_all(VARIABLE, tree, group_files, host_files, report)
    named = None if member is None else reading.read_text(member.value, VARIABLE, report, example="kvm")
    declaration = None if member is None or named is None else (named, member)
    if choice is not None:
        if not report.problems():  # otherwise it may be in a file that could not be read
            _guard_known(choice, tree)
        return _of_group(tree, choice.name, choice.by)
    if declaration is not None:
        name, member = declaration
        if name not in tree.groups:
            like = nearest(name, tree.groups)
            hint = f"did you mean {like!r}?" if like else _groups_in(tree)
            report.problem(member.where, f"{VARIABLE} is {name!r}, but there is no such group", hint)
        return _of_group(tree, name, VARIABLE)
    if HYPERVISORS in tree.groups:
        return _of_group(tree, HYPERVISORS, None)
    kinds = {frozenset(host.groups) for host in tree.hosts.values()}
    if len(kinds) <= 1:
        return _result(tree, tree.hosts, Whose(by="all"))
    ours = _marked(tree, kinds, group_files, host_files)
    if ours:
        _tell_forgotten(tree, ours, report)
    else:
        _refuse(tree, report)
    return _result(tree, ours, Whose(by="variables"))


def _marked(
    tree: Tree, kinds: Iterable[frozenset[str]], group_files: Mapping[str, Table], host_files: Mapping[str, Table]
) -> dict[HostName, Host]:
    """The hosts with variables of ours, or in a group (but `all`) that has some. `kinds`: the hosts' sets of groups."""
    names = {name for name, table in group_files.items() if _is_ours(table)}
    names |= {name for name, group in tree.groups.items() if _is_ours(group.variables)}
    marked_kinds = {kind for kind in kinds if tree.above(kind) & (names - {ALL})}
    return {
        name: host
        for name, host in tree.hosts.items()
        if frozenset(host.groups) in marked_kinds or _is_ours(host.variables) or _is_ours(host_files.get(name, {}))
    }


def for_all(
    variable: str, tree: Tree, group_files: Mapping[str, Table], host_files: Mapping[str, Table], report: Report
) -> Member | None:
    """The definition in the group `all` of a variable that is one for all hosts. Any other definition is a problem."""
    groups = {name: (group.variables, group_files.get(name, {})) for name, group in tree.groups.items()}
    hosts = ((name, (host.variables, host_files.get(name, {}))) for name, host in tree.hosts.items())
    member: Member | None = None
    for name, tables in itertools.chain(groups.items(), hosts):
        for table in tables:
            if variable not in table:
                continue
            if name == ALL:
                member = table[variable]
            else:
                where = table[variable].where
                report.problem(where, f"{variable} is set for {name!r} only", "it belongs in group_vars/all.yml")
    return member


def _guard_known(choice: GroupChoice, tree: Tree) -> None:
    if choice.name not in tree.groups:
        like = nearest(choice.name, tree.groups)
        raise UnknownName(
            say("{}: no group {} in the inventory", choice.by, repr(choice.name)),
            hint=f"did you mean {like}?" if like else _groups_in(tree),
        )


def _of_group(tree: Tree, name: str, by: str | None) -> tuple[dict[HostName, Host], Whose]:
    below = {frozenset(host.groups) for host in tree.hosts.values()}
    kinds = {kind for kind in below if name in tree.above(kind)} if name in tree.groups else set()
    ours = {host.name: host for host in tree.hosts.values() if frozenset(host.groups) in kinds}
    return _result(tree, ours, Whose(by="group", group=name, named_by=by))


def _result(tree: Tree, ours: Mapping[HostName, Host], whose: Whose) -> tuple[dict[HostName, Host], Whose]:
    left_out = tuple(sorted(name for name in tree.hosts if name not in ours))
    return dict(sorted(ours.items())), Whose(by=whose.by, group=whose.group, named_by=whose.named_by, left_out=left_out)


def _tell_forgotten(tree: Tree, ours: Mapping[HostName, Host], report: Report) -> None:
    """A finding for hosts that are left out beside hosts of the same groups: somebody may have forgotten them."""
    kinds = {frozenset(host.groups): host.name for host in ours.values()}
    outsiders = [
        (name, kinds[frozenset(host.groups)])
        for name, host in tree.hosts.items()
        if name not in ours and frozenset(host.groups) in kinds
    ]
    if outsiders:
        name, like = outsiders[0]
        text = say(
            "{} left out: no {} variable, though {}, which is in the same groups, has one; {} in group_vars/all.yml can name a group",
            listed([name for name, _ in outsiders]),
            PREFIX,
            like,
            VARIABLE,
        )
        report.finding(tree.hosts[name].where, text)


def _refuse(tree: Tree, report: Report) -> None:
    groups = _real(tree)
    sizes = {
        name: len(_of_group(tree, name, None)[0]) for name in groups if any(word in name.lower() for word in _LIKELY)
    }
    candidates = sorted((name for name, size in sizes.items() if size), key=lambda name: (-sizes[name], name))
    where = min((host.where for host in tree.hosts.values()), default=Location(file=".", line=1))
    group = candidates[0] if len(candidates) == 1 else "GROUP"
    may_be = [f"{name} (hosts: {sizes[name]})" for name in candidates]
    hint = say("write `{}: {}` in group_vars/all.yml, or say {}", VARIABLE, group, Option("--group", group))
    report.problem(
        Location(file=where.file, line=1),
        f"nothing says which of the {len(tree.hosts)} hosts are hypervisors (groups: {listed(groups)})",
        say("{}, where GROUP may be {}", hint, listed(may_be))
        if may_be[1:]
        else say("{}, or call their group {}", hint, HYPERVISORS),
    )


def _real(tree: Tree) -> list[str]:
    return sorted(name for name in tree.groups if name not in {ALL, UNGROUPED})


def _groups_in(tree: Tree) -> str:
    groups = _real(tree)
    return f"the groups are {listed(groups)}" if groups else "the only group is all"


def listed(names: Iterable[str]) -> str:
    """Some names in a line, and how many more there are."""
    all_names = list(names)
    more = len(all_names) - _NAMED
    return ", ".join(all_names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _is_ours(table: Table) -> bool:
    return any(name.startswith(PREFIX) for name in table)
