"""Hosts, VMs and claims as values: real catalogue boards in the three frameworks, changed only by simulate."""

from __future__ import annotations

import uuid as uuid_module
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

from vgpumgr import names
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver import mig, modes, modprobe, profiles, scheduler
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.inventory import GpuDeclaration, SchedulerDeclaration
from vgpumgr.core.inventory.located import Location
from vgpumgr.core.model import claims, domain_xml, snapshot
from vgpumgr.core.model.functions import Parent, Vgpu
from vgpumgr.core.model.mig import Instance, Mig
from vgpumgr.core.model.snapshot import (
    MDEV_PF,
    MDEV_VF,
    VENDOR_VFIO,
    Active,
    FrameworkName,
    Gpu,
    Handle,
    HostSnapshot,
    Qemu,
    VgpuType,
)
from vgpumgr.core.model.vgpu import LedgerEntry, Mdev, Vf
from vgpumgr.core.model.view import HostView
from vgpumgr.core.placing import free_places, resolve
from vgpumgr.core.policies import known
from vgpumgr.core.slot import attach, detach, reserving
from vgpumgr.core.slot.request import AttachRequest
from vgpumgr.host.protocol import ledger
from vgpumgr.host.protocol.gpu import GpuFact, ParentFact, PlacesFact, TypeFact
from vgpumgr.host.protocol.mig import MigFact, MigProfileFact
from vgpumgr.host.protocol.session import PROTOCOL
from vgpumgr.host.protocol.snapshot import ActiveFact, Observed, QemuFact, Snapshot
from vgpumgr.lab.driver import boards, places
from vgpumgr.link.program import wire
from vgpumgr.link.values.by_name import render
from vgpumgr.names import DEFAULT_SLOT, GpuUuid, HostName, MdevUuid, PciAddress, Slot, VmName, VmUuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.lab.driver.model import TypeSpec

HOST = HostName("kvm01")
MACHINE = "4c4c4544003957108052b4c04f384833"
OTHER_MACHINE = "ffffffffffffffffffffffffffffffff"
BOOT = "b7000000-0000-4000-8000-000000000001"
NEXT_BOOT = "b7000000-0000-4000-8000-000000000002"
AT = "2026-11-21T12:00:00Z"
BY = "anna@ctl1"
NEW_LIBVIRT = 10_000_000

# One board of each framework, as the lab's own fleets have them.
FRAMEWORKS: tuple[tuple[FrameworkName, str], ...] = ((MDEV_PF, "T4"), (MDEV_VF, "A40"), (VENDOR_VFIO, "L40S"))

_NAMES = uuid_module.UUID("00000000-0000-4000-8000-000000000000")


def vm_uuid(name: str) -> VmUuid:
    return VmUuid(str(uuid_module.uuid5(_NAMES, name)))


def gpu_uuid(pci: str) -> GpuUuid:
    return GpuUuid(f"GPU-{uuid_module.uuid5(_NAMES, pci)}")


def types(board: str) -> dict[int, VgpuType]:
    """The board's types as a host states them."""
    return {kind.id: _type(kind) for kind in boards.board(board, "test").types}


def _type(kind: TypeSpec) -> VgpuType:
    return VgpuType(
        id=kind.id,
        name=kind.name,
        type_name=profiles.last_word(kind.name),
        parsed=profiles.parse_type_name(kind.name),
        framebuffer_mib=kind.framebuffer_mib,
        max=kind.max_instances,
    )


def vf_address(pci: str, index: int) -> PciAddress:
    number = index + 4
    return PciAddress(f"{pci[:-4]}{number >> 3:02x}.{number & 7}")


def gpu(
    framework: FrameworkName = MDEV_VF, board: str = "A40", pci: str = "0000:41:00.0", *, vfs: int | None = None
) -> Gpu:
    """An idle GPU; `vfs` None means as many VFs as the board has."""
    spec = boards.board(board, "test")
    count = spec.vfs if vfs is None else vfs
    parents = (
        (Parent(pci=PciAddress(pci), vf_index=None, creatable={}, vgpus=()),)
        if framework == MDEV_PF
        else tuple(Parent(pci=vf_address(pci, at), vf_index=at, creatable={}, vgpus=()) for at in range(count))
    )
    return simulate.with_creatable(
        Gpu(
            pci=PciAddress(pci),
            uuid=gpu_uuid(pci),
            name=spec.name,
            pci_id=f"{spec.pci_device_id:04x}",
            framework=framework,
            mode=modes.EQUAL_SIZE,
            numa_node=0,
            framebuffer_mib=spec.framebuffer_mib,
            types=types(board),
            parents=parents,
            scheduler=scheduler_state(),
        )
    )


def mig_gpu(board: str = "A100", pci: str = "0000:41:00.0", *, vfs: int = 8, framework: FrameworkName = MDEV_VF) -> Gpu:
    """A GPU in MIG mode without instances, its profiles as the lab's driver has them."""
    spec = boards.board(board, "test")
    assert spec.mig is not None
    profiles_there = {one.name: one for one in spec.mig.profiles}
    backed = {
        kind.id: replace(
            _type(kind),
            mig_profile=profiles_there[kind.profile].id if kind.profile else None,
            per_instance=kind.per_instance,
        )
        for kind in spec.mig_types
    }
    plain = gpu(framework, board, pci, vfs=vfs)
    divided = Mig(
        enabled=True,
        pending=True,
        profiles=tuple(
            mig.InstanceProfile(
                id=one.id,
                name=one.name,
                slices=one.slices,
                size=one.size,
                starts=one.starts,
                memory_mib=one.memory_mib,
                maximum=one.maximum,
            )
            for one in spec.mig.profiles
        ),
    )
    return simulate.with_creatable(replace(plain, mode=modes.MIG, types={**(plain.types or {}), **backed}, mig=divided))


def with_foreign_instance(view: HostView, profile: str, start: int, *, gpu_at: int = 0) -> HostView:
    """The view with a GPU instance that somebody made by hand."""
    item = view.snapshot.gpus[gpu_at]
    assert item.mig is not None
    found = next(one for one in item.mig.profiles if one.name == profile)
    there = item.mig.instances or ()
    made = Instance(id=len(there) + 1, profile_id=found.id, start=start, size=found.size, compute=1)
    changed = simulate.with_creatable(replace(item, mig=replace(item.mig, instances=(*there, made))))
    return with_snapshot(view, gpus=tuple(changed if other.pci == item.pci else other for other in view.snapshot.gpus))


def caps(*, arr: bool = True) -> scheduler.Caps:
    """NVIDIA's ranges of today: 1-30 ms, 63-960 Hz, averaging factor 1-60."""
    return scheduler.Caps(
        policies=scheduler.POLICIES,
        arr=arr,
        min_time_slice_ns=1_000_000,
        max_time_slice_ns=30_000_000,
        min_frequency_hz=63,
        max_frequency_hz=960,
        min_averaging_factor=1,
        max_averaging_factor=60,
    )


def scheduler_state(
    policy: scheduler.Policy | None = scheduler.BEST_EFFORT, *, api: int = 1, arr: bool = True
) -> scheduler.SchedulerState:
    """A GPU's run-time layer with no vGPU active; api 2 has three engines, api 1 one row."""
    engines = ("graphics",) if api == 1 else ("graphics", "nvenc0", "nvenc1")
    return scheduler.SchedulerState(
        api=api,
        caps=caps(arr=arr),
        engines=tuple(
            scheduler.EngineState(engine=engine, policy=policy, arr=None, averaging_factor=None, time_slice_ns=None)
            for engine in engines
        ),
    )


def declared_scheduler(item: Gpu, wanted: scheduler.SchedulerWish) -> GpuDeclaration:
    """The GPU as an inventory declares it."""
    where = Location(file="host_vars/kvm01.yml", line=3)
    declared = SchedulerDeclaration(wish=wanted, where=where)
    return GpuDeclaration(gpu_id=item.pci, mode=None, scheduler=declared, where=where)


def domain(name: str) -> Domain:
    """A VM as libvirt defines it: shut off, without claims and host devices."""
    return domain_xml.Domain(
        name=VmName(name),
        uuid=vm_uuid(name),
        active=False,
        persistent=True,
        managed_save=False,
        claims=None,
        inactive=(),
        live=None,
    )


def host(*gpus: Gpu, vms: int = 3, libvirt_version: int = NEW_LIBVIRT) -> HostView:
    """A host with vm01… of no vGPU, and an empty ledger."""
    facts = HostSnapshot(
        host=HOST,
        boot=BOOT,
        machine=MACHINE,
        versions={},
        gpus=tuple(sorted(gpus or (gpu(),), key=lambda item: item.pci)),
        handles=(),
        qemus=(),
        active=(),
        silent={},
        ledger=(),
        freed=(),
        ledger_file=True,
        blocked_writes=(),
        modprobe=(),
        module=modprobe.LoadedModule(registry_dwords="", registry_dwords_per_device=""),
        unknown=(),
    )
    found = tuple(domain(f"vm{number:02}") for number in range(1, vms + 1))
    return HostView(snapshot=facts, domains=found, libvirt_version=libvirt_version, saved={})


def host_of(
    framework: FrameworkName, *, gpus: int = 2, vms: int = 3, vfs: int | None = None, mixed: bool = False
) -> HostView:
    """A host of one framework, with its usual board."""
    board = dict(FRAMEWORKS)[framework]
    cards = [gpu(framework, board, f"0000:{0x41 + 0x40 * at:02x}:00.0", vfs=vfs) for at in range(gpus)]
    return host(*(simulate.in_mode(card, modes.MIXED_SIZE) if mixed else card for card in cards), vms=vms)


def wish(profile: str) -> profiles.Wish:
    return profiles.ByProfile(profile=profiles.parse_profile(profile))


def asking(profile: str) -> resolve.Ask:
    """A wish without conditions, on a host whose inventory has no fGPUs."""
    return resolve.Ask(wish=wish(profile), conditions=NO_CONDITIONS, units={})


def ask(
    vm: str = "vm01",
    profile: str = "4Q",
    *,
    slot: str = DEFAULT_SLOT,
    replace_it: bool = False,
    gpus: tuple[str, ...] | None = None,
    param: str | None = None,
    reservation: str | None = None,
) -> AttachRequest:
    return AttachRequest(
        vm=vm_uuid(vm),
        slot=Slot(slot),
        wish=wish(profile),
        origin="attach",
        by=BY,
        at=AT,
        policy=known.DEFAULT,
        replace=replace_it,
        gpus=gpus,
        conditions=replace(NO_CONDITIONS, param=param),
        reservation=reservation,
    )


class AttachOptions(TypedDict, total=False):
    """plan_attach's own options, for those that pass them on. `saved` is that VM's."""

    vm: str
    profile: str
    slot: str
    replace_it: bool
    gpus: tuple[str, ...] | None
    param: str | None
    saved: domain_xml.SavedStates


class DetachOptions(TypedDict, total=False):
    """plan_detach's own options."""

    keep_snapshots: bool
    saved: domain_xml.SavedStates


def plan_attach(
    view: HostView,
    vm: str = "vm01",
    profile: str = "4Q",
    *,
    slot: str = DEFAULT_SLOT,
    replace_it: bool = False,
    gpus: tuple[str, ...] | None = None,
    param: str | None = None,
    reservation: str | None = None,
    saved: domain_xml.SavedStates | None = None,
) -> Plan:
    view = view if saved is None else with_saved_states(view, saved, vm)
    request = ask(vm, profile, slot=slot, replace_it=replace_it, gpus=gpus, param=param, reservation=reservation)
    return attach.plan_attach(view, replace(request, policy=view.policy))


def reserved(view: HostView, profile: str = "4Q", count: int = 1, *, name: str = "team", gpu_at: int = 0) -> HostView:
    """The host with that many places of a GPU reserved. Raises as plan_reserve does."""
    gpu_uuid = view.snapshot.gpus[gpu_at].uuid
    assert gpu_uuid is not None
    request = reserving.ReserveRequest(
        name=name,
        wish=wish(profile),
        conditions=NO_CONDITIONS,
        places=tuple((number, gpu_uuid) for number in range(count)),
        owner=None,
        ttl_s=3600,
    )
    return simulate.apply(view, reserving.plan_reserve(view, request, by=BY, at=AT).steps)


def spreading(view: HostView) -> HostView:
    """The view of a host whose policy is spread: of two vGPUs each is on a GPU of its own."""
    return replace(view, policy=known.BUILT_IN["spread"])


def plan_detach(
    view: HostView,
    vm: str = "vm01",
    *slots: str,
    keep_snapshots: bool = False,
    saved: domain_xml.SavedStates | None = None,
) -> Plan:
    view = view if saved is None else with_saved_states(view, saved, vm)
    request = detach.DetachRequest(
        vm=vm_uuid(vm),
        slots=tuple(Slot(slot) for slot in slots or (DEFAULT_SLOT,)),
        by=BY,
        at=AT,
        keep_snapshots=keep_snapshots,
    )
    return detach.plan_detach(view, request)


def with_saved_states(view: HostView, saved: domain_xml.SavedStates, vm: str) -> HostView:
    """The view with what could come back for one VM."""
    return replace(view, saved={**(view.saved or {}), vm_uuid(vm): saved})


def imaged(view: HostView, vm: str = "vm02") -> HostView:
    """The view with vm01's vGPU in a VM's managed-save image."""
    return with_saved_states(view, domain_xml.SavedStates(image=(hostdev(hardware_of(view)),)), vm)


def snapped(view: HostView, vm: str = "vm02", *, alias: str | None = None, name: str = "monday") -> HostView:
    """The view with vm01's vGPU in the second of a VM's two snapshots."""
    snapshots = (("empty", ()), (name, (hostdev(hardware_of(view), alias),)))
    return with_saved_states(view, domain_xml.SavedStates(snapshots=snapshots), vm)


def held(view: HostView, vm: str = "vm01", *, by: str | None = None) -> HostView:
    """The view while a process has the VM's vGPU open; `by`: it is that VM's QEMU."""
    handle = Handle(
        path=hardware_of(view, vm).vfio[0],
        pid=4711,
        start=1,
        command="qemu-system-x86_64",
        vm_name=by,
        vm_uuid=None if by is None else vm_uuid(by),
    )
    return with_snapshot(view, handles=(handle,))


def ending(vm: str = "vm01", *, pid: int = 4711) -> Qemu:
    """A VM's QEMU that was told to end, and has not."""
    return Qemu(pid=pid, start=1, state="D", command="qemu", ending=True, vm_name=vm, vm_uuid=None, machine=None)


def attached(
    view: HostView, vm: str = "vm01", profile: str = "4Q", *, slot: str = DEFAULT_SLOT, replace_it: bool = False
) -> HostView:
    return simulate.apply(view, plan_attach(view, vm, profile, slot=slot, replace_it=replace_it).steps)


def detached(view: HostView, vm: str = "vm01", *slots: str) -> HostView:
    return simulate.apply(view, plan_detach(view, vm, *slots).steps)


def find(view: HostView, vm: str) -> Domain:
    found = view.domain(vm_uuid(vm))
    assert found is not None
    return found


def claim_of(view: HostView, vm: str = "vm01", slot: str = DEFAULT_SLOT) -> Claim:
    found = find(view, vm).claim(Slot(slot))
    assert found is not None
    return found


def entry_of(view: HostView, vm: str = "vm01", slot: str = DEFAULT_SLOT) -> LedgerEntry:
    return view.entries(vm_uuid(vm), Slot(slot))[-1]


def hardware_of(view: HostView, vm: str = "vm01", slot: str = DEFAULT_SLOT) -> Vgpu:
    found = view.snapshot.vgpu_of(entry_of(view, vm, slot).vgpu)
    assert found is not None
    return found


def renamed(view: HostView, vm: str, name: str) -> HostView:
    """The host after `virsh domrename`: claim and ledger have the VM's UUID, and the ledger its name of before."""
    return change_domain(view, vm, lambda found: replace(found, name=VmName(name)))


def change_domain(view: HostView, vm: str, change: Callable[[Domain], Domain]) -> HostView:
    """The view with one VM changed, as somebody else would."""
    uuid = vm_uuid(vm)
    return replace(view, domains=tuple(change(item) if item.uuid == uuid else item for item in view.domains))


def change_claim(view: HostView, change: Callable[[Claim], Claim], vm: str = "vm01") -> HostView:
    def changed(found: Domain) -> Domain:
        assert found.claims is not None
        return replace(found, claims=found.claims.put(change(claim_of(view, vm))))

    return change_domain(view, vm, changed)


def change_gpus(view: HostView, change: Callable[[Gpu], Gpu]) -> HostView:
    return with_snapshot(view, gpus=tuple(change(item) for item in view.snapshot.gpus))


def with_vgpus(item: Gpu, **said: Any) -> Gpu:
    """The GPU with this said of each of its vGPUs."""
    parents = tuple(
        replace(parent, vgpus=tuple(replace(vgpu, **said) for vgpu in parent.vgpus)) for parent in item.parents
    )
    return replace(item, parents=parents)


def change_vgpus(view: HostView, **said: Any) -> HostView:
    """The view with this said of each vGPU, and with what its GPU offers beside it then."""
    return change_gpus(view, lambda item: simulate.with_creatable(with_vgpus(item, **said)))


def with_clone(view: HostView) -> HostView:
    """vm02 is what virt-clone makes of vm01: its claim and its hostdev, under another uuid."""
    original = find(view, "vm01")
    return change_domain(view, "vm02", lambda found: replace(found, claims=original.claims, inactive=original.inactive))


def with_snapshot(
    view: HostView,
    *,
    gpus: tuple[Gpu, ...] | None = None,
    ledger: Iterable[LedgerEntry] | None = None,
    handles: Iterable[Handle] | None = None,
    active: Iterable[Active] | None = None,
) -> HostView:
    facts = view.snapshot
    return replace(
        view,
        snapshot=replace(
            facts,
            gpus=facts.gpus if gpus is None else gpus,
            ledger=facts.ledger if ledger is None else tuple(ledger),
            handles=facts.handles if handles is None else tuple(handles),
            active=facts.active if active is None else tuple(active),
        ),
    )


def change_entries(view: HostView, change: Callable[[LedgerEntry], LedgerEntry]) -> HostView:
    return with_snapshot(view, ledger=[change(entry) for entry in view.snapshot.ledger or ()])


def without_claims(view: HostView, vm: str = "vm01") -> HostView:
    return change_domain(view, vm, lambda found: replace(found, claims=None))


def running(view: HostView, vm: str = "vm01") -> HostView:
    """The VM started: its live XML is its definition."""
    return change_domain(view, vm, lambda found: replace(found, active=True, live=found.inactive))


def without_ledger(view: HostView) -> HostView:
    """The host after its ledger's file was lost."""
    return replace(view, snapshot=replace(view.snapshot, ledger=(), freed=(), ledger_file=False, blocked_writes=()))


def without_vgpus(view: HostView, problem: str) -> HostView:
    """No GPU of the host offers vGPUs now, and this is why."""
    return change_gpus(
        view, lambda item: replace(item, framework=None, problem=problem, mode=None, types=None, parents=())
    )


def rebooted(view: HostView) -> HostView:
    """The host after a reboot: no vGPU is there, the ledger and the definitions are."""
    bare = change_gpus(view, lambda item: simulate.with_creatable(_in_first_mode(_bare(item))))
    return replace(
        bare,
        snapshot=replace(bare.snapshot, boot=NEXT_BOOT, handles=(), qemus=(), active=(), blocked_writes=()),
        domains=tuple(replace(item, active=False, live=None) for item in view.domains),
    )


def _in_first_mode(item: Gpu) -> Gpu:
    return replace(item, mode=modes.EQUAL_SIZE, places=None) if item.mode == modes.MIXED_SIZE else item


def _bare(item: Gpu) -> Gpu:
    """Mixed-size mode is on again: whoever restores vGPUs restores it before."""
    bare = replace(item, parents=tuple(replace(parent, vgpus=()) for parent in item.parents))
    if item.mig is not None:
        return replace(bare, mig=replace(item.mig, instances=()))
    return replace(bare, places=free_places.computed(bare)) if item.mode == modes.MIXED_SIZE else bare


def with_blocked_writes(view: HostView, *, gpu_at: int = 0, vfio: tuple[str, ...] = ("/dev/vfio/77",)) -> HostView:
    """The view while a destroy of vm01's vGPU has not returned; `vfio` empty: a create."""
    item = view.snapshot.gpus[gpu_at]
    write = snapshot.BlockedWrite(
        gpu_uuid=gpu_uuid(item.pci),
        gpu=item.pci,
        path="/sys/bus/mdev/devices/9e0d0000-0000-4000-8000-000000000001/remove" if vfio else f"/sys/{item.pci}/create",
        verb="destroy_vgpu" if vfio else "create_vgpu",
        vm_name="vm01",
        slot=DEFAULT_SLOT,
        vfio=vfio,
        pid=4711,
        since=AT,
    )
    return replace(view, snapshot=replace(view.snapshot, blocked_writes=(*(view.snapshot.blocked_writes or ()), write)))


def type_of(item: Gpu, short: str) -> VgpuType:
    return next(vgpu_type for vgpu_type in (item.types or {}).values() if vgpu_type.short == short)


def with_foreign(
    view: HostView, profile: str = "4Q", *, gpu_at: int = 0, parent_at: int = 0, number: int = 1
) -> HostView:
    """The view with a vGPU that somebody made by hand."""
    item = view.snapshot.gpus[gpu_at]
    parent = item.parents[parent_at]
    vgpu_type = type_of(item, profile)
    uuid = None if item.framework == VENDOR_VFIO else MdevUuid(str(uuid_module.uuid5(_NAMES, f"foreign {number}")))
    vgpu = Vgpu(
        parent=parent.pci,
        vf_index=parent.vf_index,
        uuid=uuid,
        type_id=vgpu_type.id,
        type_name=vgpu_type.type_name,
        placement_id=item.places[vgpu_type.id].creatable[0] if item.places is not None else None,
        vfio=(f"/dev/vfio/foreign{number}",),
    )
    grown = replace(parent, vgpus=(*parent.vgpus, vgpu))
    parents = tuple(grown if other.pci == parent.pci else other for other in item.parents)
    changed = replace(item, parents=parents)
    changed = simulate.with_creatable(
        replace(changed, places=free_places.computed(changed) if item.places is not None else None)
    )
    return with_snapshot(view, gpus=tuple(changed if other.pci == item.pci else other for other in view.snapshot.gpus))


def overlaps(item: Gpu) -> list[str]:
    """What is wrong with where the vGPUs of a GPU in mixed-size mode lie, by the lab's own table of places."""
    spec = boards.board(item.board or "", "test")
    kinds = {kind.id: kind for kind in spec.types}
    taken: dict[int, str] = {}
    wrong = []
    for vgpu in item.vgpus:
        kind = kinds[vgpu.type_id or 0]
        name, at = f"{vgpu.type_name} of {vgpu.device} at {vgpu.placement_id}", vgpu.placement_id
        if at is None or at not in places.supported(spec, kind, mixed=True):
            wrong.append(f"{name}: no such place")
            continue
        for slot in range(at, at + places.slots(spec, kind)):
            if taken.setdefault(slot, name) != name:
                wrong.append(f"{name}: slot {slot} is of {taken[slot]}")
    return wrong


def foreign_of(view: HostView) -> set[tuple[PciAddress, Vgpu]]:
    """Every vGPU that no entry of the ledger names."""
    return {
        (item.pci, vgpu)
        for item in view.snapshot.gpus
        for vgpu in item.vgpus
        if view.snapshot.entry_of(item, vgpu) is None
    }


def destroyed(plan: Plan) -> int:
    """How many vGPUs that are there a plan takes away."""
    return sum(step.destroys for step in plan.steps)


def verbs(plan: Plan) -> list[str]:
    return [step.verb for step in plan.steps]


def created(plan: Plan) -> steps.CreateVgpu:
    return next(step for step in plan.steps if isinstance(step, steps.CreateVgpu))


def hostdev(vgpu: Vgpu, alias: str | None = None) -> Hostdev:
    """A <hostdev> that names this vGPU."""
    return domain_xml.Hostdev(source=vgpu.device, alias=alias, managed=False)


def give(view: HostView, vm: str, device: Hostdev) -> HostView:
    """The view after somebody put a device into a VM's definition."""
    return change_domain(view, vm, lambda found: replace(found, inactive=(*found.inactive, device)))


def facts_of(facts: HostSnapshot) -> Observed:
    """The snapshot as the host program would state it without libvirt: the inverse of snapshot_facts.parse."""
    said = render(
        Observed,
        facts,
        libvirt=None,
        protocol=PROTOCOL,
        hostname=facts.host,
        gpus=[_gpu_fact(item) for item in facts.gpus],
        qemus=_many(facts.qemus, lambda qemu: render(QemuFact, qemu, uid=None)),
        active=_many(facts.active, _active_fact),
        ledger=_many(facts.ledger, entry_fact),
        reservations=[
            render(
                ledger.ReservationFact,
                one.vgpu,
                vm_uuid=one.vgpu.vm,
                terms=render(ledger.ReservationTerms, one.terms),
            )
            for one in facts.reservations
        ],
        instances=[
            render(ledger.InstanceEntry, entry.instance, boot=entry.boot, state=entry.state)
            for entry in facts.instances
        ],
        blocked_writes=_many(
            facts.blocked_writes, lambda write: render(ledger.BlockedWriteFact, write, boot=facts.boot, start=0)
        ),
    )
    wire.check(said, Snapshot, "facts")
    return said


def entry_fact(entry: LedgerEntry) -> ledger.LedgerEntry:
    """An entry as the host program would state it."""
    return render(
        ledger.LedgerEntry,
        entry.vgpu,
        vm_uuid=entry.vgpu.vm,
        boot=entry.boot,
        state=entry.state,
        lazy=entry.lazy or None,
    )


def _many(values: Iterable[Any] | None, read: Callable[[Any], object]) -> list[object] | None:
    return None if values is None else [read(value) for value in values]


def _active_fact(row: snapshot.Active) -> ActiveFact:
    uuid = row.device.uuid if isinstance(row.device, Mdev) else None
    vf = row.device.pci if isinstance(row.device, Vf) else None
    return render(ActiveFact, row, instance=0, uuid=uuid, vf=vf, type_id=None)


def _gpu_fact(item: Gpu) -> GpuFact:
    offers = [parent.creatable or {} for parent in item.parents]
    types = item.types and item.types.values()
    places = item.places and item.places.values()
    return render(
        GpuFact,
        item,
        types=_many(types, lambda one: render(TypeFact, one, max_per_instance=one.per_instance)),
        offers=[[{"id": key, "available": number} for key, number in offer.items()] for offer in offers],
        parents=[
            render(ParentFact, parent, creatable=None if parent.creatable is None else position)
            for position, parent in enumerate(item.parents)
        ],
        places=_many(places, lambda one: render(PlacesFact, one)),
        mig=None if item.mig is None else _mig_fact(item.mig),
    )


def _mig_fact(mig: Mig) -> MigFact:
    profiles = [render(MigProfileFact, profile, max=profile.maximum) for profile in mig.profiles]
    return render(MigFact, mig, profiles=profiles)


def binding(number: int = 1) -> claims.Binding:
    """A binding of no particular host."""
    return claims.Binding(
        host=MACHINE,
        gpu_uuid=gpu_uuid("0000:41:00.0"),
        parent=PciAddress("0000:41:00.4"),
        vf_index=0,
        type_name="A40-4Q",
        type_id=560,
        uuid=names.compute_mdev_uuid(vm_uuid("vm01"), DEFAULT_SLOT, number),
    )


def instead(step: steps.Step, code: int) -> tuple[steps.Step, ...]:
    """What is done if the driver refuses the step with this NVML return code."""
    return step.instead(code) if isinstance(step, steps.GpuStep) else ()
