"""The beliefs that are asked on an empty GPU: which GPU is empty, which vGPUs are tried there, what the answers mean.

Each try is an ordinary step: the ledger is written first, and what was made is removed again. Its vGPUs belong to a VM
that does not exist, so that the next run recognises what a killed run has left, and removes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vgpumgr.core.certify import questions
from vgpumgr.core.driver import geometry
from vgpumgr.core.driver.geometry import Generation
from vgpumgr.core.driver.scheduler import BEST_EFFORT, Setting
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.placing import new_vgpu
from vgpumgr.core.step import ABSENT, PRESENT, DestroyVgpu, SetScheduler
from vgpumgr.names import Slot, VmName, VmUuid
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.certify.capture import Capture
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.names import PciAddress

VM: Final = VmUuid("c3a1f1ed-0000-5000-8000-000000000000")
VM_NAME: Final = VmName("vgpumgr-certify")
LONGEST_S: Final = 20.0
"""How many seconds a write that makes or removes a vGPU may take; then its step is given up."""

_UNKNOWN_TYPE = 2_000_000_000  # no type has such an id: NVIDIA's are below 3000
_NUMBERED = (Generation.ADA_OR_HOPPER, Generation.BLACKWELL)


def why_not_empty(facts: HostSnapshot, gpu: Gpu) -> str | None:
    """Why nothing is tried on a GPU; None if it is empty: no vGPU, no GPU instance, nothing of it in the ledger."""
    kept = [*(one.vgpu for one in facts.ledger or ()), *(one.vgpu for one in facts.reservations)]
    kept = [one for one in kept if one.gpu_uuid == gpu.uuid]
    left = {(one.parent, one.uuid) for one in kept if one.vm == VM}
    used = (
        (any(one.vm != VM for one in kept), "the ledger has vGPUs or reservations there"),
        (any((one.parent, one.uuid) not in left for one in gpu.vgpus), "it has vGPUs"),
        (any(one.gpu == gpu.pci for one in facts.active or ()), "a VM runs there"),
    )
    return next((why for so, why in (*_unsure(facts, gpu), *used) if so), None)


def _unsure(facts: HostSnapshot, gpu: Gpu) -> tuple[tuple[bool, str], ...]:
    """Reasons why a GPU may not be empty, or takes no vGPUs as it is: (whether the reason holds, its text) of each."""
    return (
        (None in (gpu.framework, gpu.uuid) or gpu.fault is not None, gpu.problem or gpu.fault or "it has no UUID"),
        (facts.ledger is None or bool(facts.blocked_writes), "the host's ledger says that nothing is to be written"),
        (facts.why_silent(gpu.pci) is not None, "NVML does not say what runs there"),
        (gpu.mode != "equal-size", say("its mode is {}", gpu.mode or "unknown")),
        (any(one.creatable is None for one in gpu.parents), "its functions cannot all be read"),
    )


def leftovers(facts: HostSnapshot, gpu: Gpu) -> Iterator[DestroyVgpu]:
    """The steps that remove what is certify's own on a GPU."""
    there = {(one.parent, one.uuid) for one in gpu.vgpus}
    for vgpu in (one.vgpu for one in facts.ledger or ()):
        if vgpu.vm == VM and vgpu.gpu_uuid == gpu.uuid:
            found = (vgpu.parent, vgpu.uuid) in there
            yield DestroyVgpu(host=facts.host, vgpu=vgpu, expect=PRESENT if found else ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What is tried on one empty GPU. `first` is made. `before`: what is asked for before that, by belief.

    `beside`: what is asked for while `first` is there. `empty`: a VF that stays without a type; None if there is none,
    or if vGPUs are mdevs.
    """

    first: VgpuSpec
    before: dict[str, VgpuSpec]
    beside: dict[str, VgpuSpec]
    empty: PciAddress | None

    @classmethod
    def on(cls, gpu: Gpu) -> Tries | None:
        """The tries for a GPU; None if no function of it offers a type."""
        offers = {type_id for one in gpu.parents for type_id in one.creatable or {}}
        kinds = sorted(
            (one for one in gpu.known_types.values() if one.id in offers), key=lambda one: (one.full_mib, one.id)
        )
        if not kinds:
            return None
        first, others = kinds[0], [one for one in kinds if one.size_mib != kinds[0].size_mib]
        at, then = gpu.parents[0], gpu.parents[min(1, len(gpu.parents) - 1)]
        has_vfs = gpu.framework == VENDOR_VFIO  # an mdev has no file to ask for a type that no function lists
        before = {"unknown-type": _spec(gpu, at, replace(first, id=_UNKNOWN_TYPE), 1)} if has_vfs else {}
        if has_vfs and (hides := questions.hidden(gpu)):
            before["hidden-type"] = _spec(gpu, at, gpu.known_types[hides[0]], 1)
        return cls(
            first=_spec(gpu, at, first, 0),
            before=before,
            beside={"other-size": _spec(gpu, then, others[0], 2)} if others else {},
            empty=then.pci if has_vfs and then is not at else None,
        )


def _spec(gpu: Gpu, parent: Parent, kind: VgpuType, number: int) -> VgpuSpec:
    owner = new_vgpu.Owner(vm=VM, vm_name=VM_NAME, slot=Slot(f"vgpu{number}"), generation=1)
    return new_vgpu.spec(owner, gpu, parent, kind, placement_id=None, home=None)


def same_scheduler(facts: HostSnapshot, gpu: Gpu) -> SetScheduler | None:
    """The step that sets best effort again. None if the policy is another one or unknown: its numbers would be lost."""
    state, same = gpu.scheduler, Setting(policy=BEST_EFFORT)
    if state is None or gpu.uuid is None or state.policies.get("graphics") != BEST_EFFORT:
        return None
    return SetScheduler(
        host=facts.host,
        gpu_uuid=gpu.uuid,
        gpu=gpu.pci,
        api=state.api,
        setting=same,
        before=same,
        expect=state.policies,
    )


def beside(before: Gpu, after: Capture, first: VgpuSpec) -> Iterator[tuple[str, str, str | None]]:
    """What the GPU shows while it has that first vGPU: a belief, its answer, and what is expected of that GPU alone."""
    [gpu] = [one for one in after.snapshot.gpus if one.pci == first.gpu]
    yield from _shown(after, gpu, first)
    listed = any(one.gpu == gpu.pci for one in after.snapshot.active or ())
    yield "idle-active", "listed" if listed else "not listed", None
    sizes = {gpu.size_of(kind) for one in gpu.parents for kind in one.creatable or {}}
    if sizes:
        others = sorted(str(one) for one in sizes - {before.size_of(first.type_id)})
        yield "siblings", f"also {' '.join(others)} MiB" if others else "its size", None


def _shown(after: Capture, gpu: Gpu, first: VgpuSpec) -> Iterator[tuple[str, str, str | None]]:
    """What the files of the vGPU's function say, as in `beside`."""
    files = next((one.files for one in after.functions if one.pci == first.parent), {})
    if first.uuid is not None or "nvidia/placement_id" in files:
        place = next((one.placement_id for one in gpu.vgpus if one.parent == first.parent), None)
        expected = "0" if geometry.generation(gpu.board or "") in _NUMBERED else "none"
        yield "first-place", "none" if place is None else str(place), expected
    if "nvidia/vgpu_params" in files:
        yield "new-params", files["nvidia/vgpu_params"].removeprefix("!").strip(), None
