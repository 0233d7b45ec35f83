"""Hosts and groups of all inventory files as one tree, by Ansible's rules (ansible-core 2.19, inventory/data.py).

It has only the files' hosts, groups and inline variables; precedence.py handles the files of host_vars and group_vars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.inventory import reading
from vgpumgr.core.inventory.located import Location, Member, SourceFile, Value
from vgpumgr.core.inventory.ranges import MAX_NAMES, expand
from vgpumgr.errors import BadName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.inventory.located import Table
    from vgpumgr.core.inventory.report import Report
    from vgpumgr.names import HostName

ALL, UNGROUPED = "all", "ungrouped"
HYPERVISORS = "hypervisors"
_SECTIONS = ("hosts", "children", "vars")
BY_ANSIBLE = (
    "VGPUMGR_ANSIBLE_INVENTORY=1 makes vgpumgr ask `ansible-inventory --list`; or list its hosts in YAML: "
    "`ansible-inventory -i FILE --list --yaml`"
)
_EXAMPLE = "{hosts: {kvm01: }}"


@dataclass(slots=True, kw_only=True)
class Group:
    """A group while the tree grows. `depth` is the longest path from `all`; a child takes precedence over its parents.

    `children` and `members`: the groups and hosts that it names itself, in the files' order.
    """

    name: str
    where: Location
    parents: set[str] = field(default_factory=set)
    children: dict[str, None] = field(default_factory=dict)
    members: dict[HostName, None] = field(default_factory=dict)
    variables: dict[str, Member] = field(default_factory=dict)
    priority: int = 1
    depth: int = 0


@dataclass(slots=True, kw_only=True)
class Host:
    """A host while the tree grows. `groups` are the groups that name it directly."""

    name: HostName
    where: Location
    groups: set[str] = field(default_factory=set)
    variables: dict[str, Member] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Tree:
    groups: dict[str, Group]
    hosts: dict[HostName, Host]

    def above(self, names: Iterable[str]) -> set[str]:
        """These groups and all their ancestors."""
        names_above, todo = set(names), list(names)
        while todo:
            for parent in self.groups[todo.pop()].parents:
                if parent not in names_above:
                    names_above.add(parent)
                    todo.append(parent)
        return names_above


def plugin_of(file: SourceFile) -> Member | None:
    """The member that names the plugin, if the file holds a plugin's settings."""
    groups = file.content.data if file.content is not None else None
    plugin = groups.get("plugin") if isinstance(groups, Mapping) else None
    return None if plugin is None or isinstance(plugin.value.data, Mapping) else plugin


def build_tree(files: tuple[SourceFile, ...], report: Report) -> Tree:
    """Merge the files in their order: if a variable is set more than once, the later value wins."""
    start = Location(file=files[0].file if files else ".", line=1)
    tree = Tree(groups={name: Group(name=name, where=start) for name in (ALL, UNGROUPED)}, hosts={})
    for file in files:
        if file.content is None:  # the reader has reported why
            continue
        if file.content.is_empty:
            report_empty(file, report)
            continue
        groups = reading.read_table(file.content, "an inventory file", report, example=f"hypervisors: {_EXAMPLE}")
        if groups is None:
            continue
        plugin = plugin_of(file)
        if plugin is not None:
            text = "this is the settings file of an Ansible inventory plugin, which is not run here"
            report.problem(plugin.where, text, BY_ANSIBLE)
            continue
        for member in groups.values():
            _read_group(member, None, tree, report)
    _hang(tree)
    _measure(tree, report)
    return tree


def report_empty(file: SourceFile, report: Report) -> None:
    """Report an empty file: a finding if all it has is comments that name no variable of ours, else a problem."""
    where = Location(file=file.file, line=1)
    if file.is_remark:
        report.finding(where, "the file has only comments: it declares nothing")
    else:
        report.problem(where, "the file is empty", "write {} to declare nothing, or remove the file")


def _read_group(member: Member, parent: str | None, tree: Tree, report: Report) -> None:
    name = member.key.text
    group = tree.groups.setdefault(name, Group(name=name, where=member.where))
    if parent is not None:
        group.parents.add(parent)
    if member.value.is_empty:
        return
    sections = reading.read_table(member.value, f"group {name!r}", report, example=_EXAMPLE)
    if sections is None:
        return
    reading.check_keys(sections, _SECTIONS, f"group {name!r}", report)
    for section, content in sections.items():
        if section not in _SECTIONS or content.value.is_empty:
            continue
        what = f"`{section}` of group {name!r}"
        table = _section_table(content.value, what, report)
        if table is None:
            continue
        if section == "vars":
            _set_group_variables(group, table, report)
            continue
        for entry in table.values():
            if section == "children":
                _read_group(entry, name, tree, report)
                group.children[entry.key.text] = None
            else:
                _read_hosts(entry, name, tree, report)


def _section_table(value: Value, what: str, report: Report) -> Table | None:
    """A section as a table. Ansible takes a single name as a table with only that key."""
    if isinstance(value.data, str) and value.opaque is None:
        return {value.data: Member(key=value, value=Value(where=value.where, data=None))}
    return reading.read_table(value, what, report, example="{NAME: }")


def _set_group_variables(group: Group, table: Table, report: Report) -> None:
    for name, member in table.items():
        if name == "ansible_group_priority":
            priority = reading.read_whole(member.value, name, report, low=-1_000_000, high=1_000_000)
            group.priority = 1 if priority is None else priority
        else:
            group.variables[name] = member


def _read_hosts(entry: Member, group: str, tree: Tree, report: Report) -> None:
    try:
        names, port = expand(entry.key.text)
    except BadName as error:
        report.problem(entry.where, error.message, error.hint)
        return
    variables: Table | None = {}
    if not entry.value.is_empty:
        what = f"the variables of host {entry.key.text!r}"
        variables = reading.read_table(entry.value, what, report, example="{ansible_host: 192.0.2.1}")
    if len(tree.hosts) + len(names) > 2 * MAX_NAMES:
        report.problem(entry.where, f"more than {2 * MAX_NAMES} hosts are declared")
        return
    members = tree.groups[group].members
    for name in names:
        host = tree.hosts.get(name)
        if host is None:
            host = tree.hosts[name] = Host(name=name, where=entry.where)
            if port is not None:
                number = Value(where=entry.where, data=port, text=str(port))
                host.variables["ansible_port"] = Member(key=entry.key, value=number)
        host.groups.add(group)
        members[name] = None
        host.variables.update(variables or {})


def _hang(tree: Tree) -> None:
    """Put groups without a parent below `all`, and into `ungrouped` exactly the hosts that are in no group."""
    for group in tree.groups.values():
        if group.name != ALL and not group.parents:
            group.parents.add(ALL)
            tree.groups[ALL].children[group.name] = None
    ungrouped = tree.groups[UNGROUPED].members
    for host in tree.hosts.values():
        real = host.groups - {ALL, UNGROUPED}
        host.groups = real or {UNGROUPED}
        if not real:
            ungrouped[host.name] = None
        elif host.name in ungrouped:
            del ungrouped[host.name]


def _measure(tree: Tree, report: Report) -> None:
    """Set every group's depth, from the top down. The groups that remain form a loop."""
    children: dict[str, list[str]] = {}
    waiting = {name: len(group.parents) for name, group in tree.groups.items()}
    for group in tree.groups.values():
        for parent in group.parents:
            children.setdefault(parent, []).append(group.name)
    ready = [name for name, count in waiting.items() if count == 0]
    while ready:
        name = ready.pop()
        del waiting[name]
        for child in children.get(name, ()):
            tree.groups[child].depth = max(tree.groups[child].depth, tree.groups[name].depth + 1)
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    if waiting:
        loop = sorted(waiting)
        text = ", ".join(loop[:8]) + (" …" if len(loop) > 8 else "")
        report.problem(
            tree.groups[loop[0]].where, f"these groups form a loop: {text}", "remove one of them from its parent"
        )
