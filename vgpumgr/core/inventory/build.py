"""Builds an Inventory from files of plain data, or raises one InventoryError with every problem."""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vgpumgr.core.inventory import asks, connection, gpus, quotas, reading, reservations, templates, whose
from vgpumgr.core.inventory.groups import build_tree
from vgpumgr.core.inventory.located import Location
from vgpumgr.core.inventory.model import HostDeclaration, Inventory
from vgpumgr.core.inventory.patterns import Roster
from vgpumgr.core.inventory.precedence import Precedence, guard_not_empty, read_variable_files
from vgpumgr.core.inventory.report import Report, refusal
from vgpumgr.core.inventory.whose import PREFIX
from vgpumgr.core.model import owners
from vgpumgr.core.policies import known
from vgpumgr.errors import BadName, PolicyFailed
from vgpumgr.names import nearest, parse_host_name
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from vgpumgr.core.driver.asking import FgpuUnits
    from vgpumgr.core.inventory.groups import Host, Tree
    from vgpumgr.core.inventory.located import Member, SourceFile, Table, Value
    from vgpumgr.core.inventory.model import (
        BoardDeclaration,
        GpuDeclaration,
        ReservationDeclaration,
        VmDeclaration,
        Whose,
    )
    from vgpumgr.core.inventory.report import Finding, Problem
    from vgpumgr.core.inventory.whose import GroupChoice
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.core.model.owners import OwnerPath
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.names import HostName, OwnerName, VmName

_COMPARE_AT_MOST = 20
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
EVEN_IF = "vgpumgr_even_if_it_will_not_start"
RESTORE = "vgpumgr_restore"
LAZY = "vgpumgr_lazy"
VARIABLES = (
    whose.VARIABLE,
    "vgpumgr_vms",
    "vgpumgr_gpus",
    "vgpumgr_boards",
    "vgpumgr_policy",
    "vgpumgr_plugins",
    "vgpumgr_fgpu_per_gpu",
    "vgpumgr_site",
    "vgpumgr_owner",
    "vgpumgr_owner_path",
    quotas.VARIABLE,
    reservations.VARIABLE,
    EVEN_IF,
    RESTORE,
    LAZY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """An inventory's files as they were read, in Ansible's order, with the reader's own problems and findings.

    `group_vars` (one mapping for each of several inventories) and `host_vars` map a name to its files. Their paths are
    relative to `root`. `answered`: who named the hosts, and when, if the files were not read here.
    """

    root: str
    files: tuple[SourceFile, ...]
    group_vars: tuple[Mapping[str, tuple[SourceFile, ...]], ...] = ()
    host_vars: Mapping[str, tuple[SourceFile, ...]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    findings: tuple[Finding, ...] = ()
    answered: str | None = None


_NAME_IT: Final = "give the host a name of letters, digits, '.', '_' and '-', and write its address as ansible_host"


def build_inventory(
    sources: Sources,
    *,
    home: str,
    environ: Mapping[str, str],
    group: GroupChoice | None = None,
    boards: Callable[[], Collection[str]] = frozenset,
    policies: Callable[[str | None], known.Find] = lambda _folder: known.find,
) -> Inventory:
    """The inventory in these files. Raises InventoryError, and UnknownName for `group`.

    `home` replaces ~, `environ` ${NAME} in a known_hosts path. `group`: the hypervisors' group, whatever the files say.
    `boards`: the codes of NVIDIA's boards, called only if the files name some. `policies`: how to find the placement
    policies of a folder, which `vgpumgr_plugins` names; it raises PolicyFailed if the folder cannot be used.
    """
    report = Report()
    report.extend(sources.problems, sources.findings)
    tree = build_tree(sources.files, report)
    by_inventory = [read_variable_files(files, report) for files in sources.group_vars]
    group_files: dict[str, dict[str, Member]] = {}
    for name, table in itertools.chain.from_iterable(files.items() for files in by_inventory):
        group_files.setdefault(name, {}).update(table)
    host_files = read_variable_files(sources.host_vars, report)
    ours, whose_hosts = whose.decide(tree, group_files, host_files, group, report)
    _check_names(ours.values(), report)
    groups = tree.above({group for host in ours.values() for group in host.groups})
    for files in sources.group_vars:
        guard_not_empty(files, groups, report)
    guard_not_empty(sources.host_vars, ours, report)
    if not sources.problems:  # otherwise the declaration may be in a file that could not be read
        _check_owners("group_vars", "group", group_files, tree.groups, report)
        _check_owners("host_vars", "host", host_files, tree.hosts, report)
        if not ours and not report.problems():
            _report_no_hosts(sources, tree, whose_hosts, report)
    precedence = Precedence(
        tree=tree, group_files=group_files, by_inventory=by_inventory, host_files=host_files, wanted=_wanted
    )
    declarations = _Declared(report=report, boards_known=boards, policies_in=policies)
    for name, member in precedence.definitions():
        report.example = functools.partial(_find_example, name, member, ours, precedence)
        declarations.read(name, member)
    _check_read(ours, whose_hosts, precedence, report)
    hosts = _build_hosts(
        ours, precedence, declarations, connection.Connections(home=home, environ=environ, report=report)
    )
    quota = whose.for_all(quotas.VARIABLE, tree, group_files, host_files, report)
    asks.check_once({host.name: host.vms for host in hosts.values()}, report)
    owner_quotas = {} if quota is None else quotas.read_quotas(quota.value, report)
    problems = report.problems()
    if problems:
        raise refusal(sources.root, problems)
    return Inventory(
        root=sources.root,
        hosts=hosts,
        findings=report.findings(),
        whose=whose_hosts,
        roster=_roster(tree),
        answered=sources.answered,
        quotas=owner_quotas,
    )


def _roster(tree: Tree) -> Roster:
    return Roster(
        hosts=dict.fromkeys(tree.hosts),
        members={group.name: group.members for group in tree.groups.values()},
        children={group.name: group.children for group in tree.groups.values()},
    )


def _find_example(
    name: str, member: Member, ours: Mapping[HostName, Host], precedence: Precedence
) -> templates.Host | None:
    """The first host for which that definition of the variable takes effect; None if there is none."""
    for host in ours.values():
        if precedence.variables(host).get(name) is member:
            return _example(host, precedence)
    return None


def _example(host: Host, precedence: Precedence) -> templates.Host:
    return templates.Host(name=host.name, variable=functools.partial(precedence.find, host))


def _wanted(name: str) -> bool:
    return name.startswith(PREFIX) or name in connection.VARIABLES


def _check_owners(
    folder: str,
    kind: str,
    files: Mapping[str, Table],
    valid: Mapping[str, object] | Mapping[HostName, object],
    report: Report,
) -> None:
    """Report our variables under a name that is neither a host nor a group: they would be lost silently."""
    comparisons = 0
    for name, variables in files.items():
        ours = [member for key, member in variables.items() if key.startswith(PREFIX)]
        if name not in valid and ours:
            comparisons += 1  # comparing with all names of a large fleet is slow, and the first few mistakes are enough
            like = nearest(name, valid) if comparisons <= _COMPARE_AT_MOST else None
            hint = f"did you mean {like!r}?" if like else f"rename it or declare the {kind}"
            report.problem(ours[0].where, f"{folder} has {name!r}, but there is no such {kind}", hint)


def _unread(ours: Mapping[HostName, Host], precedence: Precedence) -> Iterator[tuple[str, Table]]:
    """The variables of groups and hosts that reach no hypervisor, each table with its group's or host's name."""
    tree = precedence.tree
    groups = tree.above({group for host in ours.values() for group in host.groups})
    for group in tree.groups.values():
        if group.name not in groups:
            yield from ((group.name, group.variables), (group.name, precedence.group_files.get(group.name, {})))
    for host in tree.hosts.values():
        if host.name not in ours:
            yield from ((host.name, host.variables), (host.name, precedence.host_files.get(host.name, {})))


def _first_of_ours(layer: Table) -> str | None:
    return next((key for key in layer if key.startswith(PREFIX)), None)


def _check_names(hosts: Iterable[Host], report: Report) -> None:
    for host in hosts:
        try:
            parse_host_name(host.name)
        except BadName as error:
            report.problem(host.where, error.message, _NAME_IT)


def _report_no_hosts(sources: Sources, tree: Tree, whose_hosts: Whose, report: Report) -> None:
    where = Location(file=sources.files[0].file if sources.files else ".", line=1)
    if whose_hosts.group is None or not tree.hosts:
        report.problem(where, "no host is declared", "for example hypervisors: {hosts: {kvm01: }}")
        return
    text = f"the group {whose_hosts.group}, whose hosts are the hypervisors, has no host"
    report.problem(where, text, "add them, or name another group")


def _check_read(ours: Mapping[HostName, Host], whose_hosts: Whose, precedence: Precedence, report: Report) -> None:
    """Report our variables that reach no hypervisor: they would be lost silently.

    If the command names the group, this is only a finding: that group may be one of several.
    """
    tree = precedence.tree
    if len(ours) == len(tree.hosts) or not ours:
        return
    strays = [(name, layer[key]) for name, layer in _unread(ours, precedence) if (key := _first_of_ours(layer))]
    if whose_hosts.named_by not in {None, whose.VARIABLE}:
        if strays:
            names = whose.listed(dict.fromkeys(name for name, _ in strays))
            by, group_name = whose_hosts.named_by, whose_hosts.group
            report.finding(None, say("{} {} leaves out what is declared for {}", by, group_name, names))
        return
    for name, member in strays:
        hint = f"only the hosts of the group {whose_hosts.group} are read: add {name!r} to it, or remove the variable"
        report.problem(member.where, f"{member.key.text} is set for {name!r}, which is not a hypervisor", hint)


@dataclass(slots=True, kw_only=True)
class _Declared:
    """The parsed definitions of our variables by id() of their values. Each is read once, however many hosts use it."""

    report: Report
    vms: dict[int, Mapping[VmName, VmDeclaration]] = field(default_factory=dict)
    boards_known: Callable[[], Collection[str]]
    gpus: dict[int, tuple[GpuDeclaration, ...]] = field(default_factory=dict)
    boards: dict[int, tuple[BoardDeclaration, ...]] = field(default_factory=dict)
    fgpu: dict[int, FgpuUnits] = field(default_factory=dict)
    policies: dict[int, str] = field(default_factory=dict)
    policies_in: Callable[[str | None], known.Find]
    finds: dict[int, known.Find] = field(default_factory=dict)
    sites: dict[int, str] = field(default_factory=dict)
    switches: dict[int, bool] = field(default_factory=dict)
    owners: dict[int, OwnerName | None] = field(default_factory=dict)
    owner_paths: dict[int, OwnerPath] = field(default_factory=dict)
    reservations: dict[int, tuple[ReservationDeclaration, ...]] = field(default_factory=dict)
    seen: set[tuple[str, int]] = field(default_factory=set)

    def read(self, name: str, member: Member) -> None:
        value, key = member.value, id(member.value)
        if (name, key) in self.seen:
            return
        self.seen.add((name, key))
        match name:
            case "vgpumgr_vms":
                self.vms[key] = asks.read_vms(value, self.report)
            case "vgpumgr_gpus":
                self.gpus[key] = gpus.read_gpus(value, self.report)
            case "vgpumgr_boards":
                self.boards[key] = gpus.read_boards(value, self.boards_known, self.report)
            case "vgpumgr_fgpu_per_gpu":
                self.fgpu[key] = gpus.read_fgpu(value, self.report)
            case "vgpumgr_policy" | "vgpumgr_plugins":
                self._read_placing(name, key, value)
            case "vgpumgr_site":
                self._read_site(key, value)
            case "vgpumgr_owner" | "vgpumgr_owner_path" | reservations.VARIABLE:
                self._read_owner(name, key, value)
            case "vgpumgr_even_if_it_will_not_start" | "vgpumgr_restore" | "vgpumgr_lazy":
                self.switches[key] = reading.read_switch(value, name, self.report) or False
            case whose.VARIABLE | quotas.VARIABLE:
                pass  # one for all hosts, and read as such
            case _ if name.startswith(PREFIX):
                like = nearest(name.removeprefix(PREFIX), [variable.removeprefix(PREFIX) for variable in VARIABLES])
                hint = f"did you mean {PREFIX + like!r}?" if like else f"valid: {', '.join(VARIABLES)}"
                self.report.problem(member.where, f"unknown variable {name!r}", hint)
            case _:
                pass

    def _read_placing(self, name: str, key: int, value: Value) -> None:
        if name == "vgpumgr_plugins":
            folder = reading.read_text(value, name, self.report, example="../plugins")
            try:
                self.finds |= {} if folder is None else {key: self.policies_in(folder)}
            except PolicyFailed as error:
                self.report.problem(value.where, say("{}: {}", name, error.message), error.hint)
        else:
            policy = asks.read_policy(value, name, self.report)
            self.policies |= {} if policy is None else {key: policy}

    def _read_site(self, key: int, value: Value) -> None:
        site = reading.read_text(value, "vgpumgr_site", self.report, example="lab1")
        if site is None:
            return
        if _SITE.fullmatch(site) is None:
            self.report.problem(
                value.where,
                f"vgpumgr_site {reading.found(value)} is not a valid site name",
                "use letters, digits, . _ and -, at most 64: for example lab1",
            )
        self.sites[key] = site

    def _read_owner(self, name: str, key: int, value: Value) -> None:
        if name == "vgpumgr_owner":
            self.owners[key] = asks.read_owner(value, name, self.report)
            return
        if name == reservations.VARIABLE:
            self.reservations[key] = reservations.read_reservations(value, self.report)
            return
        text = reading.read_text(value, name, self.report, example=f'"{owners.EXAMPLE}"')
        try:
            self.owner_paths |= {} if text is None else {key: owners.parse_path(text)}
        except BadName as error:
            self.report.problem(value.where, f"{name}: {error.message}", error.hint)

    def find_policy(self, keys: Mapping[str, int]) -> known.Find:
        """How a host with these variables finds its placement policies."""
        return self.finds.get(keys.get("vgpumgr_plugins", 0)) or self.policies_in(None)


def _build_hosts(
    ours: Mapping[HostName, Host], precedence: Precedence, declarations: _Declared, connections: connection.Connections
) -> dict[HostName, HostDeclaration]:
    hosts = {}
    sources = {id(member.value): part for part, member in precedence.parts("vgpumgr_vms")}
    for name, node in ours.items():
        declarations.report.example = functools.partial(_example, node, precedence)
        variables = precedence.variables(node)
        endpoint = connections.endpoint(name, variables, _example(node, precedence))
        host = None if endpoint is None else _build_host(node, endpoint, variables, declarations, sources)
        if host is not None:
            hosts[name] = host
    return hosts


def _build_host(
    host: Host, endpoint: Endpoint, variables: Table, declarations: _Declared, sources: Mapping[int, str]
) -> HostDeclaration:
    keys = {name: id(member.value) for name, member in variables.items()}
    find = declarations.find_policy(keys)
    vms = declarations.vms.get(keys.get("vgpumgr_vms", 0), {})
    policy_name = declarations.policies.get(keys.get("vgpumgr_policy", 0), known.DEFAULT.name)
    wheres = {slot.policy: slot.where for vm in vms.values() for slot in vm.slots.values() if slot.policy}
    if "vgpumgr_policy" in variables:
        wheres[policy_name] = variables["vgpumgr_policy"].where
    policies = {name: _policy(find, name, where, declarations.report) for name, where in wheres.items()}
    return HostDeclaration(
        name=host.name,
        endpoint=endpoint,
        policy=policies.get(policy_name, known.DEFAULT),
        find_policy=find,
        fgpu_per_gpu=declarations.fgpu.get(keys.get("vgpumgr_fgpu_per_gpu", 0), {}),
        gpus=declarations.gpus.get(keys.get("vgpumgr_gpus", 0), ()),
        boards=declarations.boards.get(keys.get("vgpumgr_boards", 0), ()),
        vms=vms,
        where=host.where,
        site=declarations.sites.get(keys.get("vgpumgr_site", 0)),
        vms_from=sources.get(keys.get("vgpumgr_vms", 0)),
        even_if_it_will_not_start=declarations.switches.get(keys.get(EVEN_IF, 0), False),
        restore=declarations.switches.get(keys.get(RESTORE, 0), False),
        lazy=declarations.switches.get(keys.get(LAZY, 0), False),
        owner=declarations.owners.get(keys.get("vgpumgr_owner", 0)),
        owner_path=declarations.owner_paths.get(keys.get("vgpumgr_owner_path", 0)),
        reservations=declarations.reservations.get(keys.get(reservations.VARIABLE, 0), ()),
    )


def _policy(find: known.Find, name: str, where: Location, report: Report) -> Policy:
    """A policy that a host uses; the default, with a problem reported, if it cannot be used."""
    try:
        return find(name)
    except PolicyFailed as error:
        report.problem(where, error.message, error.hint)
        return known.DEFAULT
