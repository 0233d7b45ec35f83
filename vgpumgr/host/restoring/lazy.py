"""A VM's lazy vGPUs: what has to be done before the VM starts and once it has ended, or why it cannot start.

A lazy vGPU exists only while its VM runs. Its ledger entry names a place. A mediated device may get another place,
since the VM's definition has only its UUID. A virtual function is in the definition, so its vGPU is made there or not
at all. Other vGPUs go first: those that exist, those that the ledger says will exist again, and those with a reserved
place.
"""

from typing import Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, cast
from xml.etree import ElementTree

from ..protocol.gpu import GpuFact, ParentFact, VgpuFact
from ..protocol.ledger import LEAVING, PLANNED, LedgerEntry, OurVgpu
from ..protocol.snapshot import Snapshot
from ..protocol.steps import ABSENT, CREATE_VGPU, DEFER_VGPU, EMPTY, EVACUATE_VGPU, PRESENT, SAME, Step
from .plan import RestoreStep, find_vgpu, key_of, name_of, plan_for, short, step_of


class Waking(NamedTuple):
    """`steps`: what to do now, in this order. `why`: why more has to be done, or cannot be done; None if all is done.

    `lasts`: whether looking again would not help.
    """

    steps: List[RestoreStep]
    why: Optional[str]
    lasts: bool


Planner = Callable[[Snapshot, Sequence[LedgerEntry], Mapping[str, int], Mapping[str, str]], Waking]


def named_functions(domain: ElementTree.Element) -> Iterator[str]:
    """The PCI functions that the definition passes through."""
    for address in domain.iterfind("devices/hostdev[@type='pci']/source/address"):
        numbers = [int(address.get(name, "0"), 0) for name in ("domain", "bus", "slot", "function")]
        yield "{:04x}:{:02x}:{:02x}.{:x}".format(*numbers)


def of_vm(entries: Sequence[LedgerEntry], domain: ElementTree.Element, *, named: bool) -> List[LedgerEntry]:
    """The VM's lazy entries; if `named`, only those that the definition names. The definition may be a saved one."""
    own = [row for row in entries if row["lazy"] and row["vm_uuid"] == domain.findtext("uuid")]
    mdevs = {one.get("uuid") for one in domain.iterfind("devices/hostdev[@type='mdev']/source/address")}
    devices = {*mdevs, *named_functions(domain)}
    return [row for row in own if row["state"] != LEAVING and (not named or (row["uuid"] or row["parent"]) in devices)]


def wake(
    snapshot: Snapshot, wishes: Sequence[LedgerEntry], vfs: Mapping[str, int], failed: Mapping[str, str]
) -> Waking:
    """The steps that make these lazy vGPUs.

    `vfs`: how many virtual functions each GPU (by address) has; `failed`: why steps (by name) are not tried again.
    """
    for entry in wishes:
        there = _at(snapshot, entry, vfs, failed)
        if there.why is None:
            continue
        tried = {entry["gpu"]: there}
        for other in _elsewhere(snapshot, entry) if there.lasts and entry["uuid"] is not None else ():
            enter = step_of(other, DEFER_VGPU, ABSENT)
            refused = failed.get(name_of(enter))
            moved = Waking([], refused, lasts=True) if refused else _at(snapshot, other, vfs, failed)
            tried.setdefault(other["gpu"], moved)
            if not moved.lasts:
                return moved._replace(steps=[enter, *moved.steps])
        text = "{type_name} for slot {slot} cannot be made: ".format(**entry)
        return there._replace(why=text + "; ".join(str(each.why) for each in tried.values()))
    return Waking([], None, lasts=False)


def put_to_sleep(
    snapshot: Snapshot, own: Sequence[LedgerEntry], vfs: Mapping[str, int], failed: Mapping[str, str]
) -> Waking:
    """The steps that free these lazy vGPUs, of those that exist and that vgpumgr made in this boot."""
    del vfs
    steps: List[RestoreStep] = []
    whys: List[str] = []
    for entry in own:
        vgpu = _hardware(snapshot, entry)
        if vgpu is None or entry["boot"] != snapshot["boot"] or vgpu["type_id"] != entry["type_id"]:
            continue
        its = [step_of(entry, CREATE_VGPU, SAME)] if entry["state"] == PLANNED else []
        its.append(step_of(entry, EVACUATE_VGPU, PRESENT))
        refused = [failed[name_of(step)] for step in its if name_of(step) in failed]
        whys += refused or ["{type_name} on {parent} may still be held".format(**entry)]
        steps += [] if refused else its
    return Waking(steps, "; ".join(whys) or None, lasts=not steps)


def _at(snapshot: Snapshot, entry: LedgerEntry, vfs: Mapping[str, int], failed: Mapping[str, str]) -> Waking:
    """The steps that make one lazy vGPU at its place, or why it cannot be made there."""
    now = plan_for(snapshot, [entry], vfs, failed)
    why = now.lost.get(key_of(entry)) or now.waits.get(key_of(entry))
    creates = [step for step in now.steps if step["verb"] == CREATE_VGPU and cast("Step", step)["expect"] == EMPTY]
    obstacle = _obstacle(snapshot, entry) if creates else None
    if obstacle is not None:
        return Waking([], obstacle, lasts=True)
    return Waking(now.steps, why, lasts=bool(now.lost))


def _obstacle(snapshot: Snapshot, entry: LedgerEntry) -> Optional[str]:
    """Why the GPU takes no such vGPU now: a cordon, or the vGPUs that are there or will come back, with their VMs."""
    gpu = next(one for one in snapshot["gpus"] if one["uuid"] == entry["gpu_uuid"])
    parent = next(one for one in gpu["parents"] if one["vf_index"] == entry["vf_index"])
    for cordon in snapshot["cordons"]:
        if (cordon["gpu_uuid"], cordon["vf_index"]) in _places(gpu, parent):
            return "GPU {} takes nothing new: {} ({})".format(gpu["pci"], cordon["reason"], cordon["by"])
    awaited = list(_awaited(snapshot, gpu))
    if _has_room(gpu, parent, short(entry["type_name"]), awaited):
        return None
    there = [_name(snapshot, gpu, parent, vgpu) for parent in gpu["parents"] for vgpu in parent["vgpus"]]
    there += ["{type_name} kept for {vm_name}".format(**row) for row in awaited]
    shown = there[:4] + ["{} more".format(len(there) - 4)] * (len(there) > 4)
    return "GPU {} has {}".format(gpu["pci"], ", ".join(shown) or "no room for it")


def _places(gpu: GpuFact, parent: ParentFact) -> List[Tuple[Optional[str], Optional[int]]]:
    """The places whose cordons count, as (GPU's UUID, VF's index): the host, the GPU, the function."""
    return [(None, None), (gpu["uuid"], None), (gpu["uuid"], parent["vf_index"])]


def _has_room(gpu: GpuFact, parent: ParentFact, type_name: str, awaited: Sequence[OurVgpu]) -> bool:
    """Whether the driver would make this type now, and the awaited vGPUs on the GPU still have room after that.

    False if one of the awaited vGPUs is of another size.
    """
    types = {short(one["name"]): one for one in gpu["types"] or []}
    wanted = types[type_name]
    offer = gpu["offers"][parent["creatable"]] if parent["creatable"] is not None else []
    if not any(one["available"] for one in offer if one["id"] == wanted["id"]):
        return False
    others = [types.get(short(row["type_name"])) for row in awaited]
    if any(one is None or one["framebuffer_mib"] != wanted["framebuffer_mib"] for one in others):
        return False
    count = sum(len(one["vgpus"]) for one in gpu["parents"]) + len(awaited)
    return wanted["max"] is None or count < wanted["max"]


def _name(snapshot: Snapshot, gpu: GpuFact, parent: ParentFact, vgpu: VgpuFact) -> str:
    owners = [
        row["vm_name"]
        for row in snapshot["ledger"] or []
        if (row["gpu_uuid"], row["vf_index"], row["uuid"]) == (gpu["uuid"], parent["vf_index"], vgpu["uuid"])
    ]
    return "{} of {}".format(short(vgpu["type_name"] or "a vGPU"), owners[0] if owners else "somebody else")


def _awaited(snapshot: Snapshot, gpu: GpuFact) -> Iterator[OurVgpu]:
    """The vGPUs with a place on the GPU that are not there: entries that are not lazy, and reservations not filled."""
    entries = [row for row in snapshot["ledger"] or [] if row["gpu_uuid"] == gpu["uuid"]]
    for row in entries:
        if not row["lazy"] and _hardware(snapshot, row) is None:
            yield row
    functions = {row["vf_index"] for row in entries}
    functions |= {one["vf_index"] for one in gpu["parents"] if one["vgpus"]}
    takers = {"{vm_uuid}/{slot}".format(**row) for row in entries}
    for kept in snapshot["reservations"]:
        filled = kept["terms"]["taker"] in takers if kept["vf_index"] is None else kept["vf_index"] in functions
        if kept["gpu_uuid"] == gpu["uuid"] and not filled:
            yield kept


def _hardware(snapshot: Snapshot, entry: LedgerEntry) -> Optional[VgpuFact]:
    for gpu in snapshot["gpus"]:
        for parent in gpu["parents"] if gpu["uuid"] == entry["gpu_uuid"] else ():
            if parent["vf_index"] == entry["vf_index"]:
                return find_vgpu(parent, entry)
    return None


def _elsewhere(snapshot: Snapshot, entry: LedgerEntry) -> Iterator[LedgerEntry]:
    """The entry, moved to another place: for each GPU that has its type (by name), the first free function."""
    taken: Dict[Optional[str], Set[Optional[int]]] = {}
    for row in (*(snapshot["ledger"] or []), *snapshot["reservations"]):
        taken.setdefault(row["gpu_uuid"], set()).add(row["vf_index"])
    for gpu in snapshot["gpus"]:
        ids = [one["id"] for one in gpu["types"] or [] if short(one["name"]) == short(entry["type_name"])]
        for place in _free(gpu, taken.get(gpu["uuid"], set()))[:1] if ids and gpu["uuid"] else ():
            at = {"gpu_uuid": gpu["uuid"], "gpu": gpu["pci"], "vf_index": place[0], "parent": place[1]}
            yield cast("LedgerEntry", {**entry, **at, "type_id": ids[0]})


def _free(gpu: GpuFact, taken: Set[Optional[int]]) -> List[Tuple[Optional[int], str]]:
    return [
        (one["vf_index"], one["pci"])
        for one in gpu["parents"]
        if one["vf_index"] is None or (one["vf_index"] not in taken and not one["vgpus"])
    ]
