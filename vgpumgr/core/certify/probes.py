"""The beliefs that are asked on an empty GPU: which GPU is empty, which vGPUs are tried there, what the answers mean.

Each try is an ordinary step: the ledger is written first, and what was made is removed again. Its vGPUs belong to a VM
that does not exist, so that a killed run's are recognised, and removed by the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vgpumgr.core.certify import questions
from vgpumgr.core.certify.beliefs import Answer
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

VM: Final = VmUuid("c3a1f1ed-0000-5000-8000-000000000000")
VM_NAME: Final = VmName("vgpumgr-certify")
LONGEST_S: Final = 20.0
"""A write that makes or removes a vGPU should take less: then its step is given up."""

_UNKNOWN_TYPE = 2_000_000_000  # no type has such an id: NVIDIA's are below 3000
_NUMBERED = (Generation.ADA_OR_HOPPER, Generation.BLACKWELL)


def why_not_empty(facts: HostSnapshot, gpu: Gpu) -> str | None:
    """Why nothing is tried on a GPU; None if it is empty: no vGPU, no GPU instance, nothing of it in the ledger."""
    kept = (*(one.vgpu for one in facts.ledger or ()), *(one.vgpu for one in facts.reservations))
    held = [one for one in kept if one.gpu_uuid == gpu.uuid]
    left = {(one.parent, one.uuid) for one in held if one.vm == VM}
    used = (
        (any(one.vm != VM for one in held), "the ledger has vGPUs or reservations there"),
        (any((one.parent, one.uuid) not in left for one in gpu.vgpus), "it has vGPUs"),
        (any(one.gpu == gpu.pci for one in facts.active or ()), "a VM runs there"),
    )
    return next((why for so, why in (*_unsure(facts, gpu), *used) if so), None)


def _unsure(facts: HostSnapshot, gpu: Gpu) -> tuple[tuple[bool, str], ...]:
    """Why it cannot be known whether a GPU is empty, or it takes no vGPUs as it is."""
    return (
        (None in (gpu.framework, gpu.uuid) or gpu.fault is not None, gpu.problem or gpu.fault or "it has no UUID"),
        (facts.ledger is None or bool(facts.blocked_writes), "the host's ledger says that nothing is to be written"),
        (facts.active is None or gpu.pci in facts.silent, "NVML does not say what runs there"),
        (gpu.mode != "equal-size", say("its mode is {}", gpu.mode or "unknown")),
        (any(one.creatable is None for one in gpu.parents), "its functions cannot all be read"),
    )


def leftovers(facts: HostSnapshot, gpu: Gpu) -> Iterator[DestroyVgpu]:
    """The steps that remove what is certify's own on a GPU."""
    there = {(one.parent, one.uuid) for one in gpu.vgpus}
    for entry in facts.ledger or ():
        if entry.vgpu.vm == VM and entry.vgpu.gpu_uuid == gpu.uuid:
            found = (entry.vgpu.parent, entry.vgpu.uuid) in there
            yield DestroyVgpu(host=facts.host, vgpu=entry.vgpu, expect=PRESENT if found else ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """What is tried on one empty GPU. `first` is made. `before`: what is asked for before that, by belief.

    `beside`: what is asked for while `first` is there. `empty`: a VF that stays without a type; None if there is none,
    or if vGPUs are mdevs.
    """

    first: VgpuSpec
    before: dict[str, VgpuSpec]
    beside: dict[str, VgpuSpec]
    empty: Parent | None

    @classmethod
    def on(cls, gpu: Gpu) -> Tries | None:
        """The tries for a GPU; None if no function of it offers a type."""
        offers = {type_id for one in gpu.parents for type_id in one.creatable or {}}
        kinds = sorted((gpu.known_types[one] for one in offers if one in gpu.known_types), key=_by_size)
        if not kinds:
            return None
        at, then = gpu.parents[0], gpu.parents[min(1, len(gpu.parents) - 1)]
        first = kinds[0]
        other = next((one for one in kinds if one.size_mib != first.size_mib), None)
        return cls(
            first=_spec(gpu, at, first, 0),
            before={name: _spec(gpu, at, kind, 1) for name, kind in _unlisted(gpu, first).items()},
            beside={} if other is None else {"other-size": _spec(gpu, then, other, 2)},
            empty=then if gpu.framework == VENDOR_VFIO and then is not at else None,
        )


def _unlisted(gpu: Gpu, kind: VgpuType) -> dict[str, VgpuType]:
    """Types that no function lists, by belief. None for mdevs: only a listed type has a file by which to ask for it."""
    if gpu.framework != VENDOR_VFIO:
        return {}
    found = {"unknown-type": replace(kind, id=_UNKNOWN_TYPE)}
    hides = questions.hidden(gpu)
    if hides:
        found["hidden-type"] = gpu.known_types[hides[0]]
    return found


def _by_size(kind: VgpuType) -> tuple[int, int]:
    return kind.full_mib, kind.id


def _spec(gpu: Gpu, parent: Parent, kind: VgpuType, number: int) -> VgpuSpec:
    owner = new_vgpu.Owner(vm=VM, vm_name=VM_NAME, slot=Slot(f"vgpu{number}"), generation=1)
    return new_vgpu.spec(owner, gpu, parent, kind, placement_id=None, home=None)


def same_scheduler(facts: HostSnapshot, gpu: Gpu) -> SetScheduler | None:
    """The step that sets best effort again. None if the policy is another one or unknown: its numbers would be lost."""
    state = gpu.scheduler
    if state is None or gpu.uuid is None or state.policies.get("graphics") != BEST_EFFORT:
        return None
    setting = Setting(policy=BEST_EFFORT)
    return SetScheduler(
        host=facts.host,
        gpu_uuid=gpu.uuid,
        gpu=gpu.pci,
        api=state.api,
        setting=setting,
        before=setting,
        expect=state.policies,
    )


def beside(before: Capture, after: Capture, first: VgpuSpec) -> Iterator[Answer]:
    """What the GPU shows while it has that first vGPU."""
    was, gpu = (_gpu_in(one, first) for one in (before, after))
    yield from _shown(after, gpu, first)
    listed = any(one.gpu == gpu.pci for one in after.snapshot.active or ())
    yield answer(first, "idle-active", ("not listed",), "listed" if listed else "not listed")
    sizes = {gpu.size_of(kind) for one in gpu.parents for kind in one.creatable or {}}
    if sizes:
        others = sorted(str(one) for one in sizes - {was.size_of(first.type_id)})
        yield answer(first, "siblings", ("its size",), f"also {' '.join(others)} MiB" if others else "its size")


def _gpu_in(one: Capture, vgpu: VgpuSpec) -> Gpu:
    return next(gpu for gpu in one.snapshot.gpus if gpu.pci == vgpu.gpu)


def _shown(after: Capture, gpu: Gpu, first: VgpuSpec) -> Iterator[Answer]:
    """What the files of the vGPU say."""
    files = next((one.files for one in after.functions if one.pci == first.parent), {})
    place = next((one.placement_id for one in gpu.vgpus if one.parent == first.parent), None)
    if first.uuid is not None or "nvidia/placement_id" in files:
        expected = "0" if geometry.generation(gpu.board or "") in _NUMBERED else "none"
        yield answer(first, "first-place", (expected,), "none" if place is None else str(place))
    params = files.get("nvidia/vgpu_params")
    if params is not None:
        yield answer(first, "new-params", ("",), params.removeprefix("!").strip())


def after_removal(before: Capture, after: Capture, first: VgpuSpec) -> Answer:
    """Whether the GPU's functions list again what they listed before."""
    offers = [{parent.pci: parent.creatable for parent in _gpu_in(one, first).parents} for one in (before, after)]
    return answer(first, "after-removal", ("as before",), "as before" if offers[0] == offers[1] else "differently")


def answer(vgpu: VgpuSpec, belief: str, expected: tuple[str, ...], seen: str | None, evidence: str = "") -> Answer:
    """The answer to a belief, asked with that vGPU."""
    told = evidence or say("{} on {}", vgpu.type_name, vgpu.parent)
    return Answer(gpu=vgpu.gpu, belief=belief, expected=expected, seen=None if seen is None else (seen,), evidence=told)
