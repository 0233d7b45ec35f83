"""The state of a host after a step, by the driver's rules for each mode: (observed, step) → observed.

Plans that start from another plan's result use this, and property tests (a plan's steps are possible in order, and the
next plan is empty). No write relies on it: each step tells the host what it expects there.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.core import step as steps
from vgpumgr.core.driver import mig as driver_mig
from vgpumgr.core.driver import mig_order
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG
from vgpumgr.core.driver.scheduler import EngineState
from vgpumgr.core.model.functions import Vgpu
from vgpumgr.core.model.mig import Instance
from vgpumgr.core.model.snapshot import Freed
from vgpumgr.core.model.vgpu import ASLEEP, MADE, InstanceEntry, LedgerEntry
from vgpumgr.core.placing import division, free_places, instances
from vgpumgr.core.step.base import ImpossibleStepError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.mig import Mig, OurInstance
    from vgpumgr.core.model.snapshot import Active, Gpu, Handle, HostSnapshot, Places, Qemu
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import GpuUuid, VmUuid

__all__ = ["ImpossibleStepError", "after", "apply", "apply_one", "cleared", "in_mode", "shut_down", "with_creatable"]

_Held = TypeVar("_Held", "Active", "Handle", "Qemu")


def apply(view: HostView, steps: Sequence[steps.Step]) -> HostView:
    """Apply steps in order. Raises ImpossibleStepError at the first that is not possible."""
    for step in steps:
        view = apply_one(view, step)
    return view


def apply_one(view: HostView, step: steps.Step) -> HostView:
    if view.snapshot.blocked_write_on(step.written_gpu) is not None:
        raise ImpossibleStepError("the GPU takes no more writes")
    if isinstance(step, steps.OfVm):
        domain = view.domain(step.vm)
        if domain is None:
            raise ImpossibleStepError(f"no VM {step.vm}")
        return replace(view, domains=view.vms.put(step.after(domain)))
    planned = view.planned
    if isinstance(step, steps.CreateVgpu):
        planned |= {(step.vgpu.vm, step.vgpu.slot)}
    return replace(view, snapshot=after(view.snapshot, step), planned=planned)


def shut_down(view: HostView, vms: Collection[VmUuid]) -> HostView:
    """The host once these VMs have ended: nothing that is known to be theirs holds a vGPU."""
    off = [replace(one, active=False, live=None, live_guest=None) if one.uuid in vms else one for one in view.domains]
    facts = view.snapshot
    facts = replace(
        facts, active=_others(facts.active, vms), handles=_others(facts.handles, vms), qemus=_others(facts.qemus, vms)
    )
    return replace(view, domains=tuple(off), snapshot=facts)


def _others(rows: tuple[_Held, ...] | None, vms: Collection[VmUuid]) -> tuple[_Held, ...] | None:
    return None if rows is None else tuple(row for row in rows if row.vm_uuid not in vms)


def after(snapshot: HostSnapshot, step: steps.HostStep) -> HostSnapshot:
    match step:
        case steps.CreateVgpu():
            return _created(snapshot, step)
        case steps.EnterVgpu():
            return _created(snapshot, steps.CreateVgpu(host=step.host, vgpu=step.vgpu, expect=steps.SAME))
        case steps.DestroyVgpu():
            return _destroyed(snapshot, step)
        case steps.EvacuateVgpu():
            return _evacuated(snapshot, step)
        case steps.DeferVgpu():
            return _deferred(snapshot, step)
        case steps.CreateInstance() | steps.DestroyInstance():
            return _with_instance(snapshot, step)
        case steps.SetScheduler():
            return _set(snapshot, step)
        case steps.SetMode():
            return _in_mode(snapshot, step)
        case steps.SetVfs() | steps.SetMig() | steps.ResetGpu():
            return _divided(snapshot, step)
        case steps.OfHost():
            return step.after(snapshot)


def _with_instance(snapshot: HostSnapshot, step: steps.InstanceStep) -> HostSnapshot:
    """The GPU with one instance more or less, and the ledger with or without its entry."""
    ours = step.instance
    gpu = snapshot.gpu_by_uuid(ours.gpu_uuid)
    if not gpu or not gpu.mig or gpu.mig.instances is None:
        raise ImpossibleStepError("the GPU's instances are unknown")
    instance = gpu.mig.instance_at(ours.profile_id, ours.start)
    if (instance is None) != (step.expect in (steps.EMPTY, steps.ABSENT)):
        raise ImpossibleStepError(f"expected {step.expect} of {ours.profile} at {ours.start}")
    others = tuple(entry for entry in snapshot.instances if entry.instance.key != ours.key)
    gpu_instances = gpu.mig.instances
    if isinstance(step, steps.CreateInstance):
        entry = InstanceEntry(instance=ours, boot=snapshot.boot, state=MADE)
        snapshot = replace(snapshot, ledger_file=True, instances=(*others, entry))
        if instance is None:
            gpu_instances = (*gpu_instances, _new_instance(gpu, gpu.mig, ours))
    else:
        if len(others) == len(snapshot.instances):
            raise ImpossibleStepError("the ledger names no such instance")
        if instance and not mig_order.may_go(instance.id, (vgpu.gpu_instance for vgpu in gpu.vgpus)):
            raise ImpossibleStepError("a vGPU is in that instance")
        snapshot = replace(snapshot, instances=others)
        gpu_instances = tuple(one for one in gpu_instances if one != instance)
    gpu = replace(gpu, mig=replace(gpu.mig, instances=gpu_instances))
    return replace(snapshot, gpus=_with_gpu(snapshot, with_creatable(gpu)))


def _new_instance(gpu: Gpu, mig: Mig, ours: OurInstance) -> Instance:
    profile = mig.profile_of(ours.profile_id)
    pieces = [one.piece for one in instances.held_by_driver(gpu)]
    if profile is None or ours.start not in driver_mig.free_starts(profile, pieces):
        raise ImpossibleStepError(f"{gpu.pci} takes no {ours.profile} at {ours.start}")
    ids = {one.id for one in mig.instances or ()}
    number = next(number for number in count(1) if number not in ids)
    return Instance(id=number, profile_id=profile.id, start=ours.start, size=profile.size, compute=1)


def _created(snapshot: HostSnapshot, step: steps.CreateVgpu) -> HostSnapshot:
    spec = step.vgpu
    before = snapshot.entries.named(spec.key)
    lazy = before is not None and before.lazy
    entered = _entered(snapshot, LedgerEntry(vgpu=spec, boot=snapshot.boot, state=MADE, lazy=lazy))
    if step.expect == steps.SAME:
        if snapshot.vgpu_of(spec) is None:
            raise ImpossibleStepError("there is nothing to enter")
        return entered
    _check_alone(entered, spec)
    return replace(entered, gpus=_with_gpu(snapshot, _gpu_with(snapshot, spec)))


def _entered(snapshot: HostSnapshot, entry: LedgerEntry) -> HostSnapshot:
    """The host with this entry in its ledger, in place of the entries that it supersedes."""
    spec = entry.vgpu
    tombstone = Freed(vm_uuid=spec.vm, slot=spec.slot, generation=spec.generation)
    if tombstone in snapshot.freed:
        snapshot = replace(snapshot, freed=tuple(row for row in snapshot.freed if row != tombstone))
    ledger = snapshot.entries
    for old in ledger.of_vm(spec.vm):
        if spec.supersedes(old.vgpu):
            freed = Freed(vm_uuid=spec.vm, slot=spec.slot, generation=old.vgpu.generation)
            snapshot, ledger = replace(snapshot, freed=(*snapshot.freed, freed)), ledger.without(old.vgpu.key)
    return replace(snapshot, ledger_file=True, ledger=ledger.put(entry))


def _check_alone(snapshot: HostSnapshot, spec: VgpuSpec) -> None:
    on_vf = () if spec.vf_index is None else snapshot.entries.on_vf(spec.gpu_uuid, spec.vf_index)
    if any((one.vgpu.vm, one.vgpu.slot) != (spec.vm, spec.slot) for one in on_vf):
        raise ImpossibleStepError(f"{spec.parent} is another entry's")


def _gpu_with(snapshot: HostSnapshot, spec: VgpuSpec) -> Gpu:
    """The GPU with the new vGPU. The GPU is found by its UUID, since another card may have its old address."""
    gpu = snapshot.gpu_by_uuid(spec.gpu_uuid)
    parent = gpu.functions.find(spec.parent) if gpu else None
    if gpu is None or parent is None or not (parent.creatable or {}).get(spec.type_id):
        raise ImpossibleStepError(f"{spec.parent} does not take type {spec.type_id}")
    vgpu = Vgpu(
        parent=spec.parent,
        vf_index=spec.vf_index,
        uuid=spec.uuid,
        type_id=spec.type_id,
        type_name=spec.type_name,
        placement_id=spec.placement_id,
        vfio=(f"/dev/vfio/{spec.parent}{spec.uuid or ''}",),
        gpu_instance=_instance_for(gpu, spec),
    )
    return _with_new(gpu, parent, vgpu)


def _instance_for(gpu: Gpu, spec: VgpuSpec) -> int | None:
    """The id of the GPU instance that the driver chooses for a vGPU; None if the GPU is not in MIG mode.

    Raises ImpossibleStepError if that is not the intended instance.
    """
    if not gpu.rules.mig_backed:
        return None
    vgpu_type, place = gpu.type_of(spec.type_id), spec.mig
    choice = instances.chosen_by_driver(gpu, vgpu_type) if vgpu_type is not None else None
    if not choice or not place or (choice.profile.name, choice.instance.start) != (place.profile, place.start):
        raise ImpossibleStepError(f"{gpu.pci} does not take {spec.type_name} in {spec.mig}")
    return choice.instance.id


def _with_new(gpu: Gpu, parent: Parent, vgpu: Vgpu) -> Gpu:
    """The GPU with one more vGPU. In mixed-size mode, the vGPU's place must be free."""
    parent = replace(parent, vgpus=(*parent.vgpus, vgpu))
    parents = gpu.functions.with_vgpu(parent, vgpu)
    return with_creatable(replace(gpu, parents=parents, places=_places_after(gpu, vgpu)))


def _places_after(gpu: Gpu, vgpu: Vgpu) -> Mapping[int, Places] | None:
    """A GPU's free places after a new vGPU. In mixed-size mode they follow from what the driver offered before."""
    if not gpu.rules.has_places:
        return gpu.places
    offer = (gpu.places or {}).get(vgpu.type_id) if vgpu.type_id is not None else None
    if gpu.places is None or offer is None or vgpu.placement_id not in offer.creatable:
        raise ImpossibleStepError(f"{gpu.pci} does not take {vgpu.type_name} at placement id {vgpu.placement_id}")
    return free_places.without(gpu.places, vgpu.placement_id, offer.size)


def _evacuated(snapshot: HostSnapshot, step: steps.EvacuateVgpu) -> HostSnapshot:
    spec = step.vgpu
    entry = snapshot.entries.named(spec.key)
    vgpu = snapshot.vgpu_of(entry.vgpu) if entry else None
    if entry is None or entry.state != MADE or vgpu is None:
        raise ImpossibleStepError("the ledger names no such vGPU as made, or it is not there")
    without = _without_vgpu(snapshot, spec.gpu_uuid, vgpu)
    return replace(without, ledger=without.entries.put(replace(entry, boot=ASLEEP))) if entry.lazy else without


def _deferred(snapshot: HostSnapshot, step: steps.DeferVgpu) -> HostSnapshot:
    if snapshot.vgpu_of(step.vgpu) is not None:
        raise ImpossibleStepError("the vGPU is there")
    entered = _entered(snapshot, LedgerEntry(vgpu=step.vgpu, boot=ASLEEP, state=MADE, lazy=True))
    _check_alone(entered, step.vgpu)
    return entered


def _set(snapshot: HostSnapshot, step: steps.SetScheduler) -> HostSnapshot:
    """The host with the new scheduler. Its GPU may have idle vGPUs: if a driver refuses because of them, `step.instead`
    has the same result.
    """
    gpu = snapshot.gpu_by_uuid(step.gpu_uuid)
    if gpu is None or gpu.scheduler is None or gpu.scheduler.policies != step.expect:
        raise ImpossibleStepError("the GPU's scheduler is not as the step expects")
    engines = tuple(
        EngineState(engine=one.engine, policy=step.setting.policy, arr=None, averaging_factor=None, time_slice_ns=None)
        for one in gpu.scheduler.engines
    )
    return replace(snapshot, gpus=_with_gpu(snapshot, replace(gpu, scheduler=replace(gpu.scheduler, engines=engines))))


def _in_mode(snapshot: HostSnapshot, step: steps.SetMode) -> HostSnapshot:
    """The host with the GPU in its new mode. Its vGPUs, if it has any, are evacuated and re-created by the step."""
    gpu = snapshot.gpu_by_uuid(step.gpu_uuid)
    if gpu is None or gpu.mode != step.expect:
        raise ImpossibleStepError("the GPU's mode is not as the step expects")
    for evacuation in step.around:
        snapshot = _evacuated(snapshot, evacuation)
        gpu = snapshot.gpu_by_uuid(step.gpu_uuid)
        assert gpu is not None
    if gpu.vgpus:
        raise ImpossibleStepError("the GPU has vGPUs that are not moved out")
    bare = in_mode(gpu, step.mode)
    snapshot = replace(snapshot, gpus=_with_gpu(snapshot, bare))
    for create in step.back:
        snapshot = _created(snapshot, create)
    return snapshot


def _divided(snapshot: HostSnapshot, step: steps.MigStep) -> HostSnapshot:
    """The host after a change of virtual functions or MIG mode.

    If virtual functions are turned off, the GPU keeps its functions here, but they take no types. On a real host they
    are gone.
    """
    gpu = snapshot.gpu_by_uuid(step.gpu_uuid)
    if not gpu or not gpu.mig:
        raise ImpossibleStepError("the GPU knows no MIG")
    obstacle = mig_order.obstacle(step.move, vgpus=bool(gpu.vgpus), functions=gpu.framework is not None)
    if obstacle is not None:
        raise ImpossibleStepError(f"{gpu.pci} has {obstacle}")
    return replace(snapshot, gpus=_with_gpu(snapshot, _changed(gpu, gpu.mig, step)))


def _changed(gpu: Gpu, mig: Mig, step: steps.MigStep) -> Gpu:
    match step:
        case steps.SetVfs(on=True):
            return with_creatable(_bare(replace(gpu, framework=step.framework), mig))
        case steps.SetVfs():
            parents = tuple(replace(parent, creatable={}) for parent in gpu.parents)
            return _bare(replace(gpu, framework=None, parents=parents, places=None), mig)
        case steps.SetMig():
            pending = replace(mig, pending=step.on)
            needs_reset = driver_mig.needs_reset(gpu.board_names)
            return replace(gpu, mig=pending) if needs_reset else _switched(gpu, pending, step.profiles)
        case steps.ResetGpu():
            return _switched(gpu, mig, step.profiles)


def _bare(gpu: Gpu, mig: Mig) -> Gpu:
    """A GPU after sriov-manage: without instances, and no longer in mixed-size mode."""
    return replace(gpu, mig=replace(mig, instances=())) if mig.enabled else replace(gpu, mode=EQUAL_SIZE)


def _switched(gpu: Gpu, mig: Mig, profiles: tuple[driver_mig.InstanceProfile, ...]) -> Gpu:
    """A GPU whose pending MIG mode has taken effect."""
    on = mig.pending
    mig = replace(mig, enabled=on, profiles=profiles if on else (), instances=())
    return replace(gpu, mig=mig, mode=MIG if on else EQUAL_SIZE)


def in_mode(gpu: Gpu, mode: Mode) -> Gpu:
    """An empty GPU in this mode."""
    return with_creatable(cleared(replace(gpu, mode=mode, places=None)))


def cleared(gpu: Gpu) -> Gpu:
    """The GPU with nothing on it, in the same mode. `creatable` of its functions is not changed: see with_creatable."""
    parents = tuple(replace(parent, vgpus=()) for parent in gpu.parents)
    return _with_places(replace(gpu, parents=parents, mig=gpu.mig and replace(gpu.mig, instances=())))


def _with_places(gpu: Gpu) -> Gpu:
    """The GPU with its free places, if its mode has placement ids."""
    return replace(gpu, places=free_places.computed(gpu)) if gpu.rules.has_places else gpu


def _destroyed(snapshot: HostSnapshot, step: steps.DestroyVgpu) -> HostSnapshot:
    spec = step.vgpu
    entry = snapshot.entries.named(spec.key)
    if entry is None:
        raise ImpossibleStepError("the ledger names no such vGPU")
    snapshot_without = replace(
        snapshot,
        ledger=snapshot.entries.without(spec.key),
        freed=(*snapshot.freed, Freed(vm_uuid=spec.vm, slot=spec.slot, generation=spec.generation)),
    )
    vgpu = snapshot.vgpu_of(entry.vgpu)
    if (vgpu is not None) != (step.expect == steps.PRESENT):
        raise ImpossibleStepError(f"expected {step.expect}")
    if vgpu is None:
        return snapshot_without
    return _without_vgpu(snapshot_without, spec.gpu_uuid, vgpu)


def _without_vgpu(snapshot: HostSnapshot, gpu_uuid: GpuUuid, vgpu: Vgpu) -> HostSnapshot:
    gpu = snapshot.gpu_by_uuid(gpu_uuid)
    assert gpu is not None
    parent = gpu.functions.find(vgpu.parent)
    assert parent is not None
    position = [*map(id, parent.vgpus)].index(id(vgpu))
    parent = replace(parent, vgpus=(*parent.vgpus[:position], *parent.vgpus[position + 1 :]))
    parents = gpu.functions.without_vgpu(parent, vgpu)
    gpu = _with_places(replace(gpu, parents=parents))
    return replace(snapshot, gpus=_with_gpu(snapshot, with_creatable(gpu)))


def _with_gpu(snapshot: HostSnapshot, gpu: Gpu) -> tuple[Gpu, ...]:
    return tuple(gpu if item.pci == gpu.pci else item for item in snapshot.gpus)


def with_creatable(gpu: Gpu) -> Gpu:
    """The GPU with the vGPU types that each of its functions takes now, by its mode's rules.

    Raises ImpossibleStepError for a GPU whose free places are unknown.
    """
    offers = division.of(gpu).offers(gpu)
    if offers is None:
        raise ImpossibleStepError(f"what {gpu.pci} takes in mode {gpu.mode} is not known here")
    free = [_offering(parent, offer) for parent, offer in zip(gpu.functions, offers, strict=True)]
    return replace(gpu, parents=gpu.functions.with_offers(free))


def _offering(parent: Parent, offers: Mapping[int, int]) -> Parent:
    return parent if parent.creatable == offers else replace(parent, creatable=offers)
