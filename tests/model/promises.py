"""What must hold whatever happens, judged from the machines themselves: driver state, the ledger's file, domains' XML.

Nothing here asks the host program or a plan. `Truth` is everything that a command could have changed.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.model.machine import Machine, Place, key_of, place
from vgpumgr import errors
from vgpumgr.controller.results import FleetResult
from vgpumgr.core import step as steps
from vgpumgr.core.driver.profiles import describe
from vgpumgr.core.model.domain_xml import Domain, Hostdev, read_domain
from vgpumgr.core.reconcile.tasks import EnsureSlot
from vgpumgr.host.protocol.ledger import MADE
from vgpumgr.lab.driver import places
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.names import Slot, VmUuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.model.fleet import Fleet, Outcome
    from tests.model.libvirt_double import Vm
    from vgpumgr.lab.driver.model import Gpu

# After these it is not known what was done, or it is known that not all could be taken back; each says so.
_UNFINISHED = (errors.PartialApply, errors.LeaseLost, errors.Unreachable, errors.ProgramFailed, errors.NotConverged)


class Entry(NamedTuple):
    """A ledger entry: whose, where, what, how far, and since which boot."""

    vm: str
    slot: str
    generation: int
    place: Place
    vf: int | None
    type_id: int
    state: str
    vm_name: str
    boot: str


class Kept(NamedTuple):
    """A reserved place whose time is not over: of which reservation, where, for which type, and who is taking it (VM/slot).

    `start`: in mixed-size mode its placement id, of a GPU instance its first slice.
    """

    name: str
    slot: str
    gpu: str
    vf: int | None
    type_id: int
    start: int | None
    taker: str | None

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.slot


@dataclass(frozen=True, slots=True)
class Truth:
    """One host at one instant. `hardware`: place → type id; `images`, `snapshots`: the devices that any of them names.

    `has_ledger`: whether the ledger's file is there; one without entries is no difference.
    """

    hardware: dict[Place, int]
    entries: tuple[Entry, ...]
    kept: frozenset[Kept]
    domains: dict[VmUuid, Domain]
    images: set[str]
    snapshots: set[str]
    has_ledger: bool = field(compare=False)

    @property
    def named(self) -> set[tuple[VmUuid, str]]:
        """(VM, device): every naming of a device in a definition."""
        return {(uuid, str(device.source)) for uuid, domain in self.domains.items() for device in domain.inactive}

    @property
    def wanted(self) -> set[str]:
        """The devices that some VM runs with, or will start with."""
        live = {str(device.source) for domain in self.domains.values() for device in domain.live or ()}
        return live | self.images | {device for _, device in self.named}


def truth(machine: Machine) -> Truth:
    vms = machine.libvirt.vms
    return Truth(
        hardware={where: vgpu.type.id for where, vgpu in machine.hardware().items()},
        entries=tuple(_entry(row) for row in machine.ledger()),
        kept=frozenset(_kept(row) for row in machine.reservations() if row["until"] > time.time()),
        domains={uuid: _read(vm.documents()) for uuid, vm in vms.items()},
        images=_devices(vm.hostdevs(vm.image) for vm in vms.values() if vm.image is not None),
        snapshots=_devices(vm.hostdevs(xml) for vm in vms.values() for _, xml in vm.snapshots),
        has_ledger=machine.has_ledger(),
    )


_read = lru_cache(read_domain)  # the same few documents are read again and again


def _devices(documents: Iterable[tuple[Hostdev, ...]]) -> set[str]:
    return {str(device.source) for devices in documents for device in devices}


def _entry(row: dict[str, Any]) -> Entry:
    on_vf = row["uuid"] is None
    return Entry(
        vm=row["vm_uuid"],
        slot=row["slot"],
        generation=row["generation"],
        place=Place(gpu=row["gpu_uuid"], vf=row["vf_index"] if on_vf else None, uuid=row["uuid"]),
        vf=row["vf_index"],
        type_id=row["type_id"],
        state=row["state"],
        vm_name=row["vm_name"],
        boot=row["boot"],
    )


def _kept(row: dict[str, Any]) -> Kept:
    return Kept(
        name=row["vm_name"],
        slot=row["slot"],
        gpu=row["gpu_uuid"],
        vf=row["vf_index"],
        type_id=row["type_id"],
        start=row["mig"]["start"] if row.get("mig") else row["placement_id"],
        taker=row["taker"],
    )


def _made(machine: Machine, entries: Iterable[Entry]) -> set[tuple[Place, int]]:
    """The vGPUs that entries stand for: no vGPU outlives a boot, so what is at an older entry's place somebody else made."""
    return {(entry.place, entry.type_id) for entry in entries if entry.boot == machine.boot}


# always


def check_always(fleet: Fleet) -> None:
    """After everything that can happen, at any instant."""
    for host, machine in fleet.machines.items():
        now = truth(machine)
        foreign = fleet.handmade[host]
        assert not machine.broken_promises, machine.broken_promises
        assert machine.hung.keys() <= machine.blocked_writes(), (
            f"{host}: a write that has not returned is in nobody's ledger"
        )
        for where, kind in foreign.items():
            assert now.hardware.get(where) == kind, f"{host}: the foreign {where} was {kind}, is {now.hardware}"
        entered = [entry.place for entry in now.entries]
        assert len(entered) == len(set(entered)), f"{host}: two ledger entries for one vGPU: {now.entries}"
        kinds = [
            (entry, entry.place.uuid is None) for entry in now.entries
        ]  # of a change of frameworks both may be there
        on_vfs = [(entry.place.gpu, entry.vf, kind) for entry, kind in kinds if entry.vf is not None]
        assert len(on_vfs) == len(set(on_vfs)), f"{host}: two ledger entries for one VF: {now.entries}"
        ours = _made(machine, now.entries)
        machine.sort_orphans(ours)
        for where, kind in now.hardware.items():
            known = ((where, kind) in ours) + (where in foreign) + (where in machine.orphans)
            assert known == 1, f"{host}: {where} is {'nobody' if not known else 'two parties'}'s: a leak"
        for gpu in machine.gpus():
            if gpu.mig_on:
                _check_instances(host, machine, gpu)
                continue
            if gpu.mixed:
                _check_no_overlap(host, gpu)
                continue
            sizes = {vgpu.type.framebuffer_mib for vgpu in gpu.vgpus}
            most = min((vgpu.type.max_instances for vgpu in gpu.vgpus), default=0)
            assert len(sizes) <= 1, f"{host}: {gpu.pci} holds two sizes"
            assert len(gpu.vgpus) <= most, f"{host}: {gpu.pci} holds more than it may"


def _check_no_overlap(host: str, gpu: Gpu) -> None:
    taken: dict[int, str] = {}
    for vgpu in gpu.vgpus:
        what = f"{vgpu.type.name} {key_of(gpu, vgpu)} at {vgpu.placement_id}"
        at = vgpu.placement_id
        assert at is not None, f"{host}: {what}: no place"
        assert at in places.supported(gpu.board, vgpu.type, mixed=True), f"{host}: {what}: no such place"
        for slot in range(at, at + places.slots(gpu.board, vgpu.type)):
            assert taken.setdefault(slot, what) == what, f"{host}: {what} lies on {taken[slot]}"


def _check_instances(host: str, machine: Machine, gpu: Gpu) -> None:
    """Each GPU instance is ours or foreign, what the ledger calls made is there, and each vGPU of ours is where its entry says."""
    entered = {
        (row["profile_id"], row["start"]): row["state"]
        for row in machine.ledger_instances()
        if row["gpu_uuid"] == gpu.uuid and row["boot"] == machine.boot
    }
    there = {(one.profile.id, one.start): one for one in gpu.instances}
    foreign = {where for where, one in there.items() if one.serial in machine.foreign_instances}
    assert there.keys() - foreign <= entered.keys(), f"{host}: an instance is nobody's: {there.keys()}, {entered}"
    assert not foreign & entered.keys(), f"{host}: an instance is two parties': {entered}"
    made = {where for where, state in entered.items() if state == MADE}
    assert made <= there.keys(), f"{host}: the ledger has an instance that is not there: {entered}, {there.keys()}"
    by_id = {one.id: where for where, one in there.items()}
    lies = {place(gpu, vgpu): by_id.get(vgpu.gpu_instance or 0) for vgpu in gpu.vgpus}
    assert len(set(lies.values())) == len(lies), f"{host}: two vGPUs are in one instance: {lies}"
    for row in machine.ledger():
        where = _entry(row).place
        if row["boot"] == machine.boot and where in lies:
            assert lies[where] == (row["mig"]["profile_id"], row["mig"]["start"]), f"{host}: {row} is in {lies[where]}"


def check_places(machine: Machine, pci: str) -> None:
    """In mixed-size mode the ledger says of each vGPU of ours where it lies, and in the other mode nothing."""
    gpu = machine.driver.gpu(pci)
    there = {key_of(gpu, vgpu): vgpu for vgpu in gpu.vgpus}
    for row in machine.ledger():
        entry = _entry(row)
        if (
            row["gpu_uuid"] == gpu.uuid
            and row["boot"] == machine.boot
            and (vgpu := there.get(device_name(machine, entry)))
        ):
            assert row["placement_id"] == (vgpu.placement_id if gpu.mixed else None), (row, vgpu)


def _documents(vm: Vm) -> Iterator[tuple[Hostdev, ...]]:
    """The devices of everything that names some for a VM."""
    for document in (vm.inactive, vm.live, vm.image, *(xml for _, xml in vm.snapshots)):
        if document is not None:
            yield vm.hostdevs(document)


# about one command


def check_command(
    machine: Machine,
    before: Truth,
    outcome: Outcome,
    *,
    alone: bool,
    keep_snapshots: bool = False,
    moves: bool = False,
    ends: str | None = None,
) -> None:
    """What one command may have done to a host. `alone`: nothing else happened meanwhile; `moves`: a command that moves vGPUs out
    and back was broken off, so that one may be out: its entry keeps its place, unless the GPU's MIG mode takes none of its type any more.
    `ends`: the reservation that it gives up, or takes a place of.
    """
    now = truth(machine)
    lost = {one.key for one in before.kept} - {one.key for one in now.kept}
    assert all(name == ends for name, _ in lost), f"{lost} was given up, and nobody had asked for that"
    if now.entries != before.entries:
        over = [row["vm_name"] for row in machine.reservations() if row["until"] <= time.time()]
        assert not over, f"the ledger was written, and still has what is over: {over}"
    for vm, device in now.named - before.named:
        names = {device_name(machine, entry) for entry in now.entries if entry.vm == vm}
        assert device in names, f"{vm} was given {device}, which its ledger entries do not name: {now.entries}"
    known = {entry[:3] for entry in before.entries}
    for entry in now.entries:
        if entry[:3] not in known:
            _check_fits(machine, before, now, entry)
            _check_kept(machine, before, now, entry, takes=ends)
            twins = [one for one in now.entries if one[:2] == entry[:2] and one[:3] not in known]
            assert len(twins) == 1, f"a slot was served twice: {twins}"
            _check_not_twice(machine, before, now, entry, asked=not isinstance(outcome.result, FleetResult))
    _check_agreed(outcome)
    if not alone:
        return
    ours = _made(machine, before.entries) | set(machine.orphans.items())
    for gone in before.hardware.items() - now.hardware.items():
        assert gone in ours, f"{gone} was taken away, and was not ours"
        if moves and (gone[0] in {entry.place for entry in now.entries} or _is_of_other_mode(machine, *gone)):
            continue
        if gone[0] in now.hardware:  # the VF was freed, and at once another vGPU was made on it
            continue
        device = name_of(machine, gone[0])
        assert device not in now.wanted, f"{device} was taken away, and a VM has it or is about to: {now.domains}"
        assert keep_snapshots or device not in now.snapshots, f"{device} was taken away, and a snapshot names it"
    if outcome.word == "would_change" or (outcome.error is not None and not isinstance(outcome.error, _UNFINISHED)):
        assert now == before, f"{outcome.word} ({outcome.error}) left something behind:\n{before}\n{now}"
    if isinstance(outcome.result, FleetResult):
        declared = _declared(outcome.result)
        for entry in before.entries:
            if entry[:3] not in {each[:3] for each in now.entries}:
                _check_may_go(before, entry, declared=f"{entry.vm_name} {entry.slot}" in declared)
        _check_left_alone(machine, before, now, declared)


def _is_of_other_mode(machine: Machine, where: Place, kind: int) -> bool:
    """Whether a type is MIG-backed and the GPU is not in MIG mode, or the reverse."""
    gpu = next((gpu for gpu in machine.gpus() if gpu.uuid == where.gpu), None)
    return gpu is not None and gpu.mig_on != (kind in {one.id for one in gpu.board.mig_types})


def _check_agreed(outcome: Outcome) -> None:
    """Every vGPU that the command destroyed was asked about, unless the command itself had made it.

    A mode set that goes on after a broken-off one drops the entries of the MIG-backed vGPUs that the first one took out, as that one had asked.
    """
    made: set[tuple[str, str, int]] = set()
    agreed = {
        (str(step.vgpu.vm), str(step.vgpu.slot), step.vgpu.generation)
        for step in outcome.agreed
        if isinstance(step, steps.DestroyVgpu)
    }
    for line in outcome.told:
        request = json.loads(line)
        step = request.get("step", {})
        who = (step.get("vm_uuid", ""), step.get("slot", ""), step.get("generation", 0))
        if step.get("verb") == "create_vgpu":
            made.add(who)
        elif step.get("verb") == "destroy_vgpu" and not (step["expect"] == "absent" and step["mig"]):
            assert who in agreed | made, f"{who} was destroyed, and nobody had been asked: {agreed}"


def _declared(result: FleetResult) -> set[str]:
    """The slots that the inventory declares, as VM and slot."""
    jobs = [task_result.planned.task for host in result.hosts for task_result in host.tasks]
    return {task.subject for task in jobs if isinstance(task, EnsureSlot) and task.declared is not None}


def _check_left_alone(machine: Machine, before: Truth, now: Truth, declared: set[str]) -> None:
    """Copies, and claims that went back behind the ledger and are not declared, are reported and never served. Of what no
    declaration and no ledger entry speaks of, nothing is made: whoever may edit a VM can write its claims.
    """
    for uuid, domain in before.domains.items():
        for claim in domain.claims.claims if domain.claims else ():
            newest = max((each.generation for each in before.entries if each[:2] == (uuid, claim.slot)), default=0)
            undeclared = f"{domain.name} {claim.slot}" not in declared
            if domain.copied or (undeclared and claim.generation < newest):
                assert now.domains[uuid].claim(claim.slot) == claim, f"{domain.name} was served by a reconcile"
    spoken_of = {entry[:2] for entry in before.entries} | set(machine.owners.values())
    spoken_of |= {(uuid, wait.slot) for uuid, domain in before.domains.items() for wait in domain.waits}
    for entry in now.entries:
        if before.has_ledger and f"{entry.vm_name} {entry.slot}" not in declared and entry[:2] not in spoken_of:
            raise AssertionError(f"{entry} was made by a reconcile, and nobody but its VM's definition asked for it")


def _check_may_go(before: Truth, entry: Entry, *, declared: bool) -> None:
    """What a reconcile frees is what a declaration once gave, what a newer generation stands for, or what a detach had begun to free.

    A claim from an older definition says nothing of what its slot got since.
    """
    domain = before.domains.get(VmUuid(entry.vm))
    assert domain is not None, f"{entry} of a VM that is gone was freed unasked"
    assert not domain.copied, f"{entry} of a VM with a copied claim was freed unasked"
    claim = domain.claim(Slot(entry.slot))
    newer = [each for each in before.entries if each[:2] == entry[:2] and each.generation > entry.generation]
    going = claim is not None and (
        claim.generation > entry.generation
        or (
            (claim.origin == "inventory" or claim.state == "leaving")
            and (declared or claim.generation == entry.generation)
        )
    )
    assert newer or going, f"{entry} was freed by a reconcile: {claim}"


def _check_fits(machine: Machine, before: Truth, now: Truth, new: Entry) -> None:
    """A place that the ledger did not have before is one that the card can give, beside all that is reserved.

    What somebody made by hand meanwhile nobody could reckon with: the driver gives what the ledger reserves to whoever asks.
    """
    gpu = next(gpu for gpu in machine.gpus() if gpu.uuid == new.place.gpu)
    if gpu.mixed or gpu.mig_on:
        return  # what is there must not overlap, and is in instances of its own: check_always
    kinds = {kind.id: kind for kind in gpu.board.types}
    there = {where: kind for where, kind in now.hardware.items() if where.gpu == gpu.uuid and where in before.hardware}
    there |= {entry.place: entry.type_id for entry in now.entries if entry.place.gpu == gpu.uuid}
    kept = [one.type_id for one in _still_kept(now, gpu) if one.type_id in kinds]
    there |= {Place(gpu.uuid, None, f"reserved {number}"): kind for number, kind in enumerate(kept)}
    sizes = {kinds[kind].framebuffer_mib for kind in there.values()}
    assert len(sizes) == 1, f"{new} was placed beside another size: {there}"
    most = kinds[new.type_id].max_instances
    assert len(there) <= most, f"{new} was placed on a GPU that holds or has reserved {len(there)} of {most}: {there}"


def _still_kept(now: Truth, gpu: Gpu) -> list[Kept]:
    """The reserved places of a GPU that nobody has."""
    filled = {entry.vf for entry in now.entries if entry.place.gpu == gpu.uuid} | {vgpu.vf for vgpu in gpu.vgpus}
    takers = {f"{entry.vm}/{entry.slot}" for entry in now.entries if entry.place.gpu == gpu.uuid}
    kept = (one for one in now.kept if one.gpu == gpu.uuid)
    return [one for one in kept if (one.taker not in takers if one.vf is None else one.vf not in filled)]


def _check_kept(machine: Machine, before: Truth, now: Truth, new: Entry, *, takes: str | None) -> None:
    """What is reserved nobody else gets: neither its function nor, where nobody made a vGPU by hand, its part of the GPU."""
    for one in before.kept | now.kept:
        if one.vf is not None and (one.gpu, one.vf) == (new.place.gpu, new.vf):
            assert one.name == takes, f"{new} is at {one}, and was not for it"
    gpu = next(gpu for gpu in machine.gpus() if gpu.uuid == new.place.gpu)
    ours = _made(machine, now.entries)
    if not (gpu.mixed or gpu.mig_on) or any((place(gpu, one), one.type.id) not in ours for one in gpu.vgpus):
        return
    row = next(row for row in machine.ledger() if _entry(row)[:3] == new[:3])
    lies = _part(gpu, new.type_id, row["mig"]["start"] if row.get("mig") else row["placement_id"])
    for one in _still_kept(now, gpu):
        part = _part(gpu, one.type_id, one.start)
        assert not lies & part, f"{new} lies at {sorted(lies)}, and {one} keeps {sorted(part)}"


def _part(gpu: Gpu, type_id: int, start: int | None) -> set[int]:
    """The slots of the framebuffer, or the memory slices, that a type takes from there; none of a type of another mode."""
    kinds = gpu.board.mig_types if gpu.mig_on else gpu.board.types
    kind = next((kind for kind in kinds if kind.id == type_id), None)
    if kind is None or start is None:
        return set()
    if not gpu.mig_on:
        return set(range(start, start + places.slots(gpu.board, kind)))
    assert gpu.board.mig is not None
    assert kind.profile is not None
    return set(range(start, start + gpu.board.mig.profile(kind.profile).size))


def check_taken(machine: Machine, vm: VmUuid, slot: Slot, name: str) -> None:
    """An attach that took a place of a reservation, and said done, or unchanged: that place is no longer kept."""
    now = truth(machine)
    (entry,) = [entry for entry in now.entries if (entry.vm, entry.slot) == (vm, slot)]
    for one in now.kept:
        mine = one.taker == f"{vm}/{slot}" or (one.vf is not None and (one.gpu, one.vf) == (entry.place.gpu, entry.vf))
        assert one.name != name or not mine, f"{entry} was taken from {one}, which is still kept"


def check_given_up(machine: Machine, *names: str) -> None:
    """A cancel that said done: no row of the reservation is left."""
    left = [row for row in machine.reservations() if row["vm_name"] in names]
    assert not left, f"{names} are given up, and the ledger has {left}"


def _check_not_twice(machine: Machine, before: Truth, now: Truth, new: Entry, *, asked: bool) -> None:
    """What claim, definition and hardware agree on is entered again where a ledger was lost, and not made beside it.

    Where another VM names it as well they do not agree, and of a virtual function they prove nothing, as nothing there has a name of its
    own: `attach --replace` (`asked`) makes another one then, and leaves it (ownership.way_out).
    """
    domain = before.domains.get(VmUuid(new.vm))
    if domain is None or domain.copied:
        return
    claim = domain.claim(Slot(new.slot))
    if claim is None or claim.state != "bound":
        return
    bound = str(claim.binding.device)
    for where, kind in machine.orphans.items():
        device = name_of(machine, where)
        named = device == bound and any(str(one.source) == device for one in domain.inactive)
        others = any(vm.uuid != new.vm and device in _devices(_documents(vm)) for vm in machine.libvirt.vms.values())
        agreed = named and not others and not (asked and where.uuid is None)
        if machine.owners[where] == (new.vm, new.slot) and agreed and kind == new.type_id and where in now.hardware:
            assert where == new.place, f"{where} is there, and {new} was made beside it"


def check_attached(
    machine: Machine, vm: VmUuid, slot: Slot, profile: str, *, asked: str | None = None, asleep: bool = False
) -> None:
    """An attach that said done, or unchanged. `asked`, `asleep`: see unserved."""
    why = unserved(machine, truth(machine), vm, slot, profile, asked=asked, asleep=asleep)
    assert why is None, why


def check_runs_with(machine: Machine, vm: VmUuid, slot: Slot) -> None:
    """An attach to a running VM that said done, or unchanged: it runs with what its definition has, at the same address."""
    domain = truth(machine).domains[vm]
    (defined,) = [device for device in domain.inactive if device.slot == slot]
    assert domain.live is not None
    (runs,) = [device for device in domain.live if device.source == defined.source]
    assert runs.port == defined.port, (runs, defined)
    found = machine.driver.find(str(runs.source))
    assert found is not None
    assert found[1].holder_uuid == vm


def unserved(
    machine: Machine,
    now: Truth,
    vm: VmUuid,
    slot: Slot,
    profile: str,
    *,
    asked: str | None = None,
    asleep: bool = False,
) -> str | None:
    """Why the slot does not have its vGPU, whole; None where it has. `asked`: what its claim says, if not the profile.
    `asleep`: it is a lazy one whose VM is off, so nothing is there of it.

    `profile` can also be an amount, `4G`, which a GPU in either mode can give.
    """
    amount = profile.endswith("G")
    domain = now.domains[vm]
    claim = domain.claim(slot)
    if claim is None or domain.copied:
        return f"{domain.name} {slot} has no claim of its own"
    if domain.wait(slot) is not None:
        return f"{domain.name} {slot} has its vGPU, and still waits"
    if claim.state != "bound" or describe(claim.wish) != (
        asked or f"--{'gpu-memory' if amount else 'profile'} {profile}"
    ):
        return f"{domain.name} {slot}: the claim is {claim.state}, for {describe(claim.wish)}"
    found = [entry for entry in now.entries if (entry.vm, entry.slot) == (vm, slot)]
    if [(entry.generation, entry.state) for entry in found] != [(claim.generation, "made")]:
        return f"{domain.name} {slot}: generation {claim.generation} is not the one entry: {found}"
    (entry,) = found
    kinds = {kind.id: kind.name for gpu in machine.gpus() for kind in gpu.board.all_types}
    there = now.hardware.get(entry.place)
    if there != (None if asleep else entry.type_id) or not (amount or kinds[entry.type_id].endswith(f"-{profile}")):
        return f"{domain.name} {slot}: {entry.place} holds {there}"
    named = [str(device.source) for device in domain.inactive if device.slot == slot]
    if named != [device_name(machine, entry)]:
        return f"{domain.name} {slot}: the definition has {named}"
    return None


def waits(machine: Machine, vm: VmUuid, slot: Slot) -> bool:
    """Whether the slot waits for room: then it has nothing else, and nothing is made for it."""
    now = truth(machine)
    if now.domains[vm].wait(slot) is None:
        return False
    assert now.domains[vm].claim(slot) is None, f"{slot} has a claim, and waits: {now.domains[vm]}"
    assert not [entry for entry in now.entries if (entry.vm, entry.slot) == (vm, slot)], now.entries
    return True


def check_detached(machine: Machine, vm: VmUuid, slot: Slot) -> None:
    """A detach that said done, or unchanged: nothing of the slot is left."""
    now = truth(machine)
    domain = now.domains.get(vm)
    assert not [entry for entry in now.entries if (entry.vm, entry.slot) == (vm, slot)], now.entries
    assert domain is None or domain.claim(slot) is None, domain
    assert domain is None or domain.wait(slot) is None, f"{domain.name} {slot} still waits: {domain}"


def device_name(machine: Machine, entry: Entry) -> str:
    """How a definition names an entry's vGPU."""
    return name_of(machine, entry.place)


def name_of(machine: Machine, where: Place) -> str:
    """How a definition names what is at a place."""
    if where.uuid is not None:
        return where.uuid
    gpu = next((gpu for gpu in machine.gpus() if gpu.uuid == where.gpu), None)
    assert where.vf is not None
    return vf_pci(gpu, where.vf) if gpu is not None else f"{where} of a card that is gone"
