"""Which definition of a variable a host gets: the last one in Ansible's order.

    all, inline · other groups, inline · group_vars/all · group_vars of other groups · host, inline · host_vars

Among groups: by depth (a child overrides its parents), then ansible_group_priority, then name (ansible-core 2.19:
VARIABLE_PRECEDENCE and inventory/helpers.sort_groups). With several inventories, the group_vars of a later one override
those of an earlier one, even if their group comes earlier; group_vars/all always comes first. Tables are replaced, not
merged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.inventory import reading
from vgpumgr.core.inventory.groups import ALL, report_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from vgpumgr.core.inventory.groups import Host, Tree
    from vgpumgr.core.inventory.located import Member, SourceFile, Table, Value
    from vgpumgr.core.inventory.report import Report


def read_variable_files(files: Mapping[str, tuple[SourceFile, ...]], report: Report) -> dict[str, dict[str, Member]]:
    """The variables of every name in host_vars or group_vars; among the files of one folder, the later one wins."""
    by_name: dict[str, dict[str, Member]] = {}
    for name, parts in files.items():
        variables = by_name.setdefault(name, {})
        for part in parts:
            if part.content is None or _is_empty(part):  # the reader has reported why, or guard_not_empty does
                continue
            table = reading.read_table(part.content, "a file of variables", report, example="vgpumgr_policy: spread")
            variables.update(table or {})
    return by_name


def guard_not_empty(files: Mapping[str, tuple[SourceFile, ...]], ours: Collection[str], report: Report) -> None:
    """Report the empty files of names that are `ours`.

    A full disk or a broken checkout leaves such files, and the loss of what they declared must not look like a wish to
    remove it all.
    """
    for name, parts in files.items():
        for part in parts:
            if name in ours and _is_empty(part):
                report_empty(part, report)


def _is_empty(file: SourceFile) -> bool:
    return file.content is not None and file.content.is_empty


@dataclass(slots=True, kw_only=True)
class Precedence:
    """The variables of one host after the other. `by_inventory`: the group_files of each inventory."""

    tree: Tree
    group_files: Mapping[str, Table]
    by_inventory: Sequence[Mapping[str, Table]]
    host_files: Mapping[str, Table]
    wanted: Callable[[str], bool]
    _bases: dict[frozenset[str], dict[str, Member]] = field(default_factory=dict)

    def variables(self, host: Host) -> dict[str, Member]:
        """The wanted variables of this host."""
        groups = frozenset(host.groups)
        base = self._bases.get(groups)
        if base is None:
            base = self._bases[groups] = self._of_groups(groups)
        result = dict(base)
        for layer in (host.variables, self.host_files.get(host.name, {})):
            result.update((name, member) for name, member in layer.items() if self.wanted(name))
        return result

    def find(self, host: Host, name: str) -> Value | None:
        """Any variable of this host, ours or not. Slow: for messages."""
        value: Value | None = None
        for layer in (*self._layers(frozenset(host.groups)), host.variables, self.host_files.get(host.name, {})):
            if name in layer:
                value = layer[name].value
        return value

    def definitions(self) -> Iterator[tuple[str, Member]]:
        """Every definition of a wanted variable, whether it wins anywhere or not."""
        for _, layer in self._parts():
            yield from ((name, member) for name, member in layer.items() if self.wanted(name))

    def parts(self, variable: str) -> Iterator[tuple[str, Member]]:
        """Every definition of one variable, with the part of the inventory that has it, such as `group_vars/kvm`."""
        for part, layer in self._parts():
            if variable in layer:
                yield "".join(each if each.isprintable() else "?" for each in part), layer[variable]

    def _parts(self) -> Iterator[tuple[str, Table]]:
        yield from ((f"group {group.name}", group.variables) for group in self.tree.groups.values())
        yield from ((f"host {host.name}", host.variables) for host in self.tree.hosts.values())
        yield from ((f"group_vars/{name}", table) for name, table in self.group_files.items())
        yield from ((f"host_vars/{name}", table) for name, table in self.host_files.items())

    def _of_groups(self, direct: frozenset[str]) -> dict[str, Member]:
        layers = self._layers(direct)
        return {name: member for layer in layers for name, member in layer.items() if self.wanted(name)}

    def _layers(self, direct: frozenset[str]) -> list[Table]:
        groups = sorted(
            (self.tree.groups[name] for name in self.tree.above(direct) if name != ALL),
            key=lambda group: (group.depth, group.priority, group.name),
        )
        layers: list[Table] = [self.tree.groups[ALL].variables, *(group.variables for group in groups)]
        layers.append(self.group_files.get(ALL, {}))
        return [*layers, *(files.get(group.name, {}) for files in self.by_inventory for group in groups)]
