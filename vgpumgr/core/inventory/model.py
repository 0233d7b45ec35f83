"""DESIRED state as values: what the inventory declares. Locations are for messages only; they carry no meaning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from vgpumgr.core.driver import asking
from vgpumgr.core.driver.asking import Conditions
from vgpumgr.core.inventory import patterns, ranges
from vgpumgr.core.model.owners import Owners
from vgpumgr.core.policies import known
from vgpumgr.errors import BadName, InventoryError, UnknownHost
from vgpumgr.names import HostName, VmName, nearest
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.core.driver.asking import FgpuUnits, Way
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.driver.scheduler import Policy, SchedulerWish
    from vgpumgr.core.inventory.located import Location
    from vgpumgr.core.inventory.patterns import Roster
    from vgpumgr.core.inventory.report import Finding
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.core.model.owners import OwnerPath, Quotas
    from vgpumgr.core.policies.policy import Policy as PlacementPolicy
    from vgpumgr.names import GpuUuid, OwnerName, PciAddress, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDeclaration:
    """What one slot of a VM asks for. The options restrict its placement; None if not declared.

    `policy` overrides the host's. `prefer` and `only`: mig or time-sliced. `compute`: a scheduler policy that the VM
    needs. `max_waste_pct`: how much of the vGPU may exceed the request. `param`: its plugin parameters. `priority`: of
    the slots that wait for room, the one with the highest is served first.
    """

    slot: Slot
    wish: Wish
    where: Location
    policy: str | None = None
    gpu_id: PciAddress | GpuUuid | None = None
    prefer: Way | None = None
    only: Way | None = None
    compute: Policy | None = None
    max_waste_pct: int | None = None
    usable: bool | None = None
    param: str | None = None
    priority: int = 0

    @property
    def conditions(self) -> Conditions:
        """What its vGPU must meet besides the wish."""
        return Conditions(
            max_waste_pct=self.max_waste_pct,
            compute=self.compute,
            only=self.only,
            prefer=self.prefer,
            param=self.param,
        )

    @property
    def asked(self) -> str:
        """The wish and its conditions, as options."""
        return asking.describe(self.wish, self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmDeclaration:
    """A VM that the inventory decides about. No slots means no vGPU. `owner`: whose it is, if that is said here."""

    name: VmName
    slots: Mapping[Slot, SlotDeclaration]
    where: Location
    owner: OwnerName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationDeclaration:
    """`count` places for an owner's VMs; places that the VMs have taken count, too. `asked`: what each place serves."""

    name: str
    owner: OwnerName
    count: int
    asked: SlotDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerDeclaration:
    """How a GPU's time is to be shared."""

    wish: SchedulerWish
    where: Location


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuDeclaration:
    """The desired settings of one GPU of a host. `exclude_vfs`: virtual functions on which no vGPU may be created.

    `instances`: the MIG profiles of the GPU instances that it should have at least.
    """

    gpu_id: PciAddress | GpuUuid
    mode: Mode | None
    scheduler: SchedulerDeclaration | None
    where: Location
    instances: tuple[str, ...] | None = None
    exclude_vfs: tuple[PciAddress, ...] = ()

    @property
    def name(self) -> str:
        return self.gpu_id

    @property
    def origin(self) -> str:
        """Where it is declared, in words."""
        return str(self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardDeclaration:
    """The desired settings of every GPU of a board that has none of its own."""

    board: str
    mode: Mode | None
    scheduler: SchedulerDeclaration | None
    where: Location
    instances: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return self.board

    @property
    def origin(self) -> str:
        """Where it is declared, in words."""
        return f"{self.where}, every {self.board}"


OfGpus: TypeAlias = GpuDeclaration | BoardDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class HostDeclaration:
    """A hypervisor. `fgpu_per_gpu`: what one of the site's fractional GPUs is on a board of that name.

    `site` is vgpumgr_site, None if it is not set. `vms_from`: the part of the inventory whose vgpumgr_vms applies here
    (`host_vars/kvm01`, `group_vars/gpus`, `group gpus`, `host kvm01`), None if there is none.
    `even_if_it_will_not_start`: create a vGPU even if the host's libvirt or kernel cannot start a VM with it. `policy`:
    which GPU a vGPU gets if its slot does not name a policy; `find_policy` knows those of `vgpumgr_plugins`, too.
    `owner`: that of every VM that has no other; `owner_path`: where a VM's definition names its owner. `restore`: the
    host restores its vGPUs itself after a boot, once `host install` was run. `lazy`: its new vGPUs exist only while
    their VMs run, which takes what `restore` installs.
    """

    name: HostName
    endpoint: Endpoint
    policy: PlacementPolicy = known.DEFAULT
    find_policy: known.Find = field(default=known.find, compare=False, repr=False)
    fgpu_per_gpu: FgpuUnits
    gpus: tuple[GpuDeclaration, ...]
    vms: Mapping[VmName, VmDeclaration]
    where: Location
    site: str | None = None
    vms_from: str | None = None
    even_if_it_will_not_start: bool = False
    restore: bool = False
    lazy: bool = False
    boards: tuple[BoardDeclaration, ...] = ()
    owner: OwnerName | None = None
    owner_path: OwnerPath | None = None
    reservations: tuple[ReservationDeclaration, ...] = ()

    @property
    def owners(self) -> Owners:
        """The owners of the host's VMs."""
        of_vms = {vm.name: vm.owner for vm in self.vms.values() if vm.owner is not None}
        return Owners(of_vms=of_vms, default=self.owner, path=self.owner_path)

    @property
    def of_gpus(self) -> tuple[OfGpus, ...]:
        """What is declared about GPUs, one by one and by board; core/inventory/settings.py says which counts."""
        return (*self.gpus, *self.boards)

    def policy_of(self, slot: SlotDeclaration | None, asked: str | None = None) -> PlacementPolicy:
        """The policy that places a slot's vGPU: as `asked`, else as its declaration says, else the host's.

        Raises PolicyFailed if there is no policy of that name, or its file cannot be used.
        """
        name = asked or (slot.policy if slot else None)
        return self.policy if name is None else self.find_policy(name)

    @property
    def wishes(self) -> tuple[Wish, ...]:
        """Everything that is declared for its VMs."""
        return tuple(slot.wish for vm in self.vms.values() for slot in vm.slots.values())

    @property
    def excluded_vfs(self) -> frozenset[PciAddress]:
        """The virtual functions on which no new vGPU is created."""
        return frozenset(vf for gpu in self.gpus for vf in gpu.exclude_vfs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Why the inventory's hosts are ours: a `group` has them, they have `variables` of ours, or `all` are ours.

    `named_by`: what names the group, None if it is called hypervisors. `left_out`: the inventory's other hosts, sorted.
    """

    by: Literal["group", "variables", "all"]
    group: str | None = None
    named_by: str | None = None
    left_out: tuple[HostName, ...] = ()

    def __str__(self) -> str:
        match self.by:
            case "group":
                group = say("those of the group {}", self.group)
                return say("{} ({})", group, self.named_by) if self.named_by else group
            case "variables":
                return "those with a vgpumgr_ variable of their own or of a group of theirs"
            case "all":
                return "all that the inventory has"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything declared. `root` is the folder that it was read from; hosts, VMs and slots are sorted by name.

    `roster`: what host patterns are compared with; None: these hosts, without groups. `answered`: who named the hosts,
    and when, if the files were not read here. `quotas`: what each owner may hold on all hosts together.
    """

    root: str
    hosts: Mapping[HostName, HostDeclaration]
    findings: tuple[Finding, ...]
    whose: Whose = Whose(by="all")
    roster: Roster | None = None
    answered: str | None = None
    quotas: Quotas = field(default_factory=dict)

    def host(self, name: str) -> HostDeclaration:
        """The host of that name. Raises UnknownHost, with the nearest name."""
        host = self.hosts.get(HostName(name))
        if host is not None:
            return host
        if (self.roster is not None and name in self.roster.members) or not set(name).isdisjoint("*?[,:~!&"):
            raise UnknownHost(say("{} is not one host", repr(name)), hint="this takes one host: name it")
        raise self._unknown(name)

    def chosen(self, texts: Sequence[str]) -> tuple[HostDeclaration, ...]:
        """The hosts that patterns mean, as Ansible reads them, by name; all hosts if there is no text.

        Raises UnknownHost if a pattern matches nothing or no host is left, BadName, and InventoryError without hosts.
        """
        if not self.hosts:
            raise InventoryError(
                f"the inventory {self.root} has no hosts", hint="`vgpumgr docs inventory` has a small example"
            )
        if not texts:
            return tuple(self.hosts.values())
        single = patterns.split(texts)
        if not single:
            raise BadName(
                "no host is named", hint="name one, or a pattern; without arguments the command is about all hosts"
            )
        roster = self.roster or patterns.Roster(hosts=self.hosts)
        selection = patterns.select(single, roster)
        left_out = set(self.whose.left_out).intersection(single)
        for name in (*selection.unmatched, *sorted(left_out)):
            raise self._unknown(name)
        ours = tuple(self.hosts[name] for name in sorted(selection.hosts) if name in self.hosts)
        if ours:
            return ours
        if not selection.hosts:
            raise UnknownHost(f"{' '.join(texts)!r} leaves no host", hint=patterns.HINT)
        raise UnknownHost(
            say("{} means {} and others like it, which are no hypervisors", repr(" ".join(texts)), selection.hosts[0]),
            hint=self._ours(),
        )

    def _unknown(self, name: str) -> UnknownHost:
        if HostName(name) in self.whose.left_out:
            return UnknownHost(
                say("{} is in the inventory {}, but it is no hypervisor", name, self.root), hint=self._ours()
            )
        home = self.host_of_vm(name)
        if home is not None:
            return UnknownHost(
                say("{} is a VM ({}), and no host", name, home.vms[VmName(name)].where),
                hint=f"name its host, {home.name}; `vgpumgr list {name}` shows its vGPUs",
            )
        missing_name = self._lacking(name)
        if missing_name:
            return UnknownHost(
                say("no host {} in the inventory {}", repr(missing_name), self.root),
                hint=f"it is one of {name}; name those that are there",
            )
        valid = self.hosts if self.roster is None else {*self.hosts, *self.roster.members}
        like = nearest(name, valid)
        return UnknownHost(
            say("no host {} in the inventory {}", repr(name), self.root),
            hint=f"did you mean {like!r}?" if like else "`vgpumgr inventory check` reads it; `vgpumgr list` finds VMs",
        )

    def _lacking(self, text: str) -> str | None:
        """The first name of a range that is no host, if others of the range are."""
        try:
            names = ranges.names(text) if ranges.has_range(text) else []
        except BadName:
            return None
        hosts = self.hosts if self.roster is None else self.roster.hosts
        gaps = [name for name in names if name not in hosts]
        return gaps[0] if 0 < len(gaps) < len(names) else None

    def _ours(self) -> str:
        return say("the hosts are {} (`vgpumgr inventory check`)", str(self.whose))

    def host_of_vm(self, name: str) -> HostDeclaration | None:
        """The host that declares this VM, or None if none does."""
        return next((host for host in self.hosts.values() if name in host.vms), None)
