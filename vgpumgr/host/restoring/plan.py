"""The ledger after a boot: the steps that can be taken now, what has to be waited for, and what cannot come back.

Nothing is chosen here. Each vGPU goes back to the GPU (by UUID), function, type (by name) and place of its entry. GPU
and function must still have the addresses in the entry, as a definition may name them. Otherwise the vGPU is not made,
and the reason is given. The order is the driver's: MIG mode, virtual functions (which end GPU instances), mixed-size
mode, GPU instances one by one, each with its vGPUs, because the driver puts a vGPU into the first instance with room.
"""

import json
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, cast

from ..ledger.ledger import facts_of
from ..protocol.gpu import EQUAL_SIZE, MDEV_PF, MIG, MIXED_SIZE, VENDOR_VFIO, GpuFact, Mode, ParentFact, VgpuFact
from ..protocol.ledger import LEAVING, MADE, PLANNED, LedgerEntry, OurVgpu
from ..protocol.mig import MigPlace
from ..protocol.snapshot import Snapshot
from ..protocol.steps import (
    CREATE_INSTANCE,
    CREATE_VGPU,
    EMPTY,
    SAME,
    SET_MIG,
    SET_MODE,
    SET_VFS,
    Expect,
    InstanceStep,
    MigModeStep,
    ModeStep,
    Step,
    VfsStep,
)

RestoreStep = Union[Step, InstanceStep, MigModeStep, ModeStep, VfsStep]
Key = Tuple[str, str, int]


class Plan(NamedTuple):
    """`waits`: why each vGPU that is not back has to wait; `lost`: why it cannot come back.

    The steps of one GPU are to be taken in their order. A vGPU with a step is in `waits`.
    """

    steps: List[RestoreStep]
    waits: Dict[Key, str]
    lost: Dict[Key, str]


class _Waits(Exception):
    """The vGPU may come back: after `steps`, or by itself if there are none."""

    def __init__(self, why: str, *steps: RestoreStep) -> None:
        super().__init__(why)
        self.steps = steps


class _Lost(Exception):
    """The vGPU cannot come back; the text says why."""


def wanted(snapshot: Snapshot) -> List[LedgerEntry]:
    """The entries whose vGPUs should exist. A `planned` one counts, too: the restore before may have been killed.

    A lazy one does not count: its vGPU exists only while its VM runs, and no VM runs yet.
    """
    return [entry for entry in snapshot["ledger"] or [] if entry["state"] != LEAVING and not entry["lazy"]]


def key_of(entry: OurVgpu) -> Key:
    return entry["vm_uuid"], entry["slot"], entry["generation"]


def name_of(step: RestoreStep) -> str:
    """A step as a text, the same for the same step."""
    return json.dumps(step, sort_keys=True)


def plan(snapshot: Snapshot, vfs: Mapping[str, int], failed: Mapping[str, str]) -> Plan:
    """The plan for the host as it is now.

    `vfs`: how many virtual functions each GPU (by address) has; `failed`: why steps (by name) are not tried again.
    """
    return plan_for(snapshot, wanted(snapshot), vfs, failed)


def plan_for(
    snapshot: Snapshot, wishes: Sequence[LedgerEntry], vfs: Mapping[str, int], failed: Mapping[str, str]
) -> Plan:
    """The plan for these entries alone."""
    made = Plan([], {}, {})
    entries = sorted(wishes, key=lambda entry: (entry["gpu_uuid"], _start(entry)))
    busy: Optional[Tuple[str, int]] = None  # the GPU instance for which later ones wait, by GPU and start
    for entry in entries:
        place = entry["gpu_uuid"], _start(entry)
        key = key_of(entry)
        if busy is not None and busy[0] == place[0] and busy != place:
            made.waits[key] = "the GPU instance before it is not ready"
            continue
        try:
            _check(snapshot, vfs, entry)
        except _Lost as lost:
            made.lost[key] = str(lost)
        except _Waits as waits:
            refused = [failed[name_of(step)] for step in waits.steps if name_of(step) in failed]
            if refused:
                made.lost[key] = refused[0]
                continue
            made.waits[key] = str(waits)
            made.steps.extend(step for step in waits.steps if step not in made.steps)
            busy = place if entry["mig"] is not None else busy
    return made


def _start(entry: LedgerEntry) -> int:
    return -1 if entry["mig"] is None else entry["mig"]["start"]


def _check(snapshot: Snapshot, vfs: Mapping[str, int], entry: LedgerEntry) -> None:
    """Return if the entry's vGPU is there, made by us in this boot. Raises _Lost, _Waits."""
    gpu = _find_gpu(snapshot, entry)
    _check_functions(gpu, vfs, entry)
    _check_mode(gpu, entry)
    if entry["mig"] is not None:
        _check_instance(snapshot, gpu, entry["mig"])
    _check_vgpu(snapshot, gpu, entry)


def _find_gpu(snapshot: Snapshot, entry: LedgerEntry) -> GpuFact:
    for gpu in snapshot["gpus"]:
        if gpu["uuid"] == entry["gpu_uuid"]:
            if gpu["pci"] != entry["gpu"]:
                raise _Lost("GPU {} was at {}, and is now at {}".format(gpu["uuid"], entry["gpu"], gpu["pci"]))
            return gpu
    for gpu in snapshot["gpus"]:
        if gpu["uuid"] is None:
            raise _Waits(
                "GPU {gpu_uuid} is not seen, and the UUID of the one at {} is unknown".format(gpu["pci"], **entry)
            )
    at = [gpu["uuid"] for gpu in snapshot["gpus"] if gpu["pci"] == entry["gpu"]]
    other = "; at {} is {}".format(entry["gpu"], at[0]) if at else ""
    raise _Lost("GPU {} is not in this host{}".format(entry["gpu_uuid"], other))


def _check_functions(gpu: GpuFact, vfs: Mapping[str, int], entry: LedgerEntry) -> None:
    """Return if the GPU offers vGPUs by the framework by which this one was made. Raises _Lost, _Waits."""
    on_function = entry["vf_index"] is not None
    if gpu["framework"] is None:
        why = gpu["problem"] or "the GPU offers no vGPUs"
        if not on_function or vfs.get(gpu["pci"], 0):
            raise _Waits(why)
        mig = [_mig_step(entry)] if entry["mig"] is not None else []
        raise _Waits(why, *mig, _vfs_step(entry, on=True))
    if on_function == (gpu["framework"] == MDEV_PF) or (entry["uuid"] is None) != (gpu["framework"] == VENDOR_VFIO):
        way = "its GPU's framework is now {}: run `vgpumgr migrate-framework`"
        raise _Lost(way.format(gpu["framework"]))


def _check_mode(gpu: GpuFact, entry: LedgerEntry) -> None:
    mode: Mode = MIG if entry["mig"] is not None else EQUAL_SIZE if entry["placement_id"] is None else MIXED_SIZE
    if gpu["mode"] == mode:
        return
    if gpu["mode"] is None:
        if mode != EQUAL_SIZE:
            raise _Waits("the mode of GPU {} cannot be read, and it was made in {} mode".format(gpu["pci"], mode))
        return
    why = "GPU {} is in {} mode, and it was made in {} mode".format(gpu["pci"], gpu["mode"], mode)
    if mode == EQUAL_SIZE or gpu["mode"] != EQUAL_SIZE or any(parent["vgpus"] for parent in gpu["parents"]):
        raise _Lost(why)
    if mode == MIXED_SIZE:
        raise _Waits(why, _mode_step(entry))
    raise _Waits(why, _vfs_step(entry, on=False), _mig_step(entry), _vfs_step(entry, on=True))


def _check_instance(snapshot: Snapshot, gpu: GpuFact, place: MigPlace) -> None:
    mig = gpu["mig"]
    if mig is None or mig["instances"] is None:
        raise _Waits("the GPU instances of {} cannot be read".format(gpu["pci"]))
    name = "GPU instance {} at {}".format(place["profile"], place["start"])
    sizes = [
        one["size"] for one in mig["profiles"] if (one["id"], one["name"]) == (place["profile_id"], place["profile"])
    ]
    if not sizes:
        raise _Lost("the driver has no {}".format(name))
    if (place["profile_id"], place["start"]) not in [(one["profile_id"], one["start"]) for one in mig["instances"]]:
        raise _Waits("{} is not there".format(name), _instance_step(gpu, place, sizes[0], EMPTY))
    state = _find_state(snapshot, gpu, place)
    if state is None:
        raise _Lost("vgpumgr did not make the {} that is there".format(name))
    if state == PLANNED:
        raise _Waits("{} is not finished".format(name), _instance_step(gpu, place, sizes[0], SAME))


def _find_state(snapshot: Snapshot, gpu: GpuFact, place: MigPlace) -> Optional[str]:
    """What the ledger says of the GPU instance that we made there in this boot; None if we made none."""
    for row in snapshot["instances"]:
        if row["boot"] == snapshot["boot"] and (row["gpu_uuid"], row["profile"], row["start"]) == (
            gpu["uuid"],
            place["profile"],
            place["start"],
        ):
            return row["state"]
    return None


def _check_vgpu(snapshot: Snapshot, gpu: GpuFact, entry: LedgerEntry) -> None:
    parent = _find_parent(gpu, entry)
    vgpu = find_vgpu(parent, entry)
    if vgpu is None:
        ids = [one["id"] for one in gpu["types"] or [] if short(one["name"]) == short(entry["type_name"])]
        if not ids:
            raise _Waits("the driver offers no {} on GPU {}".format(entry["type_name"], gpu["pci"]))
        type_id = entry["type_id"] if entry["type_id"] in ids else min(ids)  # another driver may number them otherwise
        raise _Waits("{} was not made".format(entry["type_name"]), _vgpu_step(entry, type_id, EMPTY))
    if vgpu["type_id"] is None:
        raise _Waits("the type of the vGPU on {} cannot be read".format(parent["pci"]))
    name = vgpu["type_name"] or "type {}".format(vgpu["type_id"])
    if (vgpu["uuid"], short(name)) != (entry["uuid"], short(entry["type_name"])):
        raise _Lost("somebody else made {} on {}".format(name, parent["pci"]))
    if entry["boot"] != snapshot["boot"]:
        raise _Lost("{} is on {}, and vgpumgr did not make it since the boot".format(name, parent["pci"]))
    if entry["state"] != MADE:
        raise _Waits("{} is not finished".format(name), _vgpu_step(entry, vgpu["type_id"], SAME))


def short(type_name: str) -> str:
    """The last word of the driver's name, as the ledger has it: A40-4Q."""
    return type_name.rpartition(" ")[2]


def _find_parent(gpu: GpuFact, entry: LedgerEntry) -> ParentFact:
    for parent in gpu["parents"]:
        if parent["vf_index"] == entry["vf_index"]:
            if parent["pci"] != entry["parent"]:
                raise _Lost("VF {vf_index} was at {parent}, and is now at {}".format(parent["pci"], **entry))
            return parent
    raise _Waits("GPU {gpu} has no VF {vf_index}".format(**entry))


def find_vgpu(parent: ParentFact, entry: LedgerEntry) -> Optional[VgpuFact]:
    """The entry's vGPU; else another one on its virtual function; null if there is neither."""
    own = [vgpu for vgpu in parent["vgpus"] if vgpu["uuid"] == entry["uuid"]]
    return next(iter(own or (parent["vgpus"] if entry["vf_index"] is not None else [])), None)


def _vgpu_step(entry: LedgerEntry, type_id: int, expect: Expect) -> Step:
    return step_of({**entry, "type_id": type_id}, CREATE_VGPU, expect)


def step_of(entry: LedgerEntry, verb: str, expect: Expect) -> Step:
    (ours,) = facts_of([entry], OurVgpu)
    step = {**ours, "verb": verb, "expect": expect}
    return cast("Step", {**step, "param": None, "replaces": None, "runs": False, "listed": False})


def _instance_step(gpu: GpuFact, place: MigPlace, size: int, expect: Expect) -> InstanceStep:
    (ours,) = facts_of([place], MigPlace)
    at = {"gpu_uuid": gpu["uuid"], "gpu": gpu["pci"], "size": size}
    return cast("InstanceStep", {**ours, **at, "verb": CREATE_INSTANCE, "expect": expect})


def _vfs_step(entry: LedgerEntry, *, on: bool) -> VfsStep:
    return {"verb": SET_VFS, "gpu_uuid": entry["gpu_uuid"], "gpu": entry["gpu"], "on": on, "expect": not on}


def _mig_step(entry: LedgerEntry) -> MigModeStep:
    return {"verb": SET_MIG, "gpu_uuid": entry["gpu_uuid"], "gpu": entry["gpu"], "on": True, "expect": False}


def _mode_step(entry: LedgerEntry) -> ModeStep:
    at = {"gpu_uuid": entry["gpu_uuid"], "gpu": entry["gpu"]}
    return cast("ModeStep", {**at, "verb": SET_MODE, "mode": MIXED_SIZE, "expect": EQUAL_SIZE})
