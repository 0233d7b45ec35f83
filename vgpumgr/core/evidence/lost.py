"""Places that the driver has lost: they stay taken although nothing is on them, until nvidia.ko is reloaded.

Since Linux 5.14, an mdev that is removed while a process has it open, or before its VM's vGPU plugin (nvidia-vgpu-mgr)
has ended, leaves /sys without the driver's resource manager learning of it. Its VF, or one instance of its GPU, counts
as taken for good, and the GPU stays restricted to that framebuffer size (NVIDIA's open kernel part 525.85.07,
nvidia-vgpu-vfio.c, run on 5.15 over a stub). On vendor-vfio the same happens to a VF with an idle type that is unbound,
or removed with SR-IOV. The driver keeps a pointer to what it freed, so the next start of any vGPU VM on that host may
oops the kernel: seen with mdevs (3 of 5 runs), not with the build for vendor-vfio.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.snapshot import FrameworkName, Gpu, HostSnapshot, VgpuType
    from vgpumgr.names import PciAddress

KIND: Final = "lost-by-driver"
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class LostPlace:
    """A VF that takes nothing any more, or a physical function short of `instances` vGPUs. `why`: the evidence."""

    framework: FrameworkName | None
    gpu: PciAddress
    parent: PciAddress
    why: str
    instances: int = 1


def lost_by_driver(facts: HostSnapshot) -> tuple[LostPlace, ...]:
    """The places of a host that the driver has lost, judged by what its functions offer. Costs one walk over them.

    A VF is lost if nothing is on it and it offers nothing, while another free VF of the GPU offers something (so the
    GPU is not full). A physical function has lost instances if it offers fewer of a type than the type's maximum minus
    those in use. A GPU gets no verdict if its lists could not be read, if a write of ours has not returned, if it is
    not in equal-size mode, or if it is full: no list shows a loss then.
    """
    return tuple(place for gpu in facts.gpus for place in _of_gpu(facts, gpu))


def lost_parents(facts: HostSnapshot, gpu: Gpu) -> frozenset[PciAddress]:
    """The VFs of a GPU that the driver has lost. A physical function is left out: it still takes other vGPUs."""
    return frozenset(
        place.parent for place in _of_gpu(facts, gpu) if gpu.framework is not None and place.parent != gpu.pci
    )


def findings(facts: HostSnapshot) -> tuple[Finding, ...]:
    """A finding for each GPU with lost places: where, the evidence, and what to do and not to do."""
    findings: list[Finding] = []
    for gpu in facts.gpus:
        places = tuple(_of_gpu(facts, gpu))
        if places:
            parents = ", ".join(place.parent for place in places)
            text = say(
                "{}: the driver has lost {} of GPU {} ({}: {}): {}",
                facts.host,
                _count(sum(place.instances for place in places)),
                gpu.pci,
                parents,
                places[0].why,
                way_out(facts),
            )
            findings.append(Finding(kind=KIND, host=facts.host, text=text))
    return tuple(findings)


def way_out(facts: HostSnapshot) -> str:
    """What to do about a vGPU that the driver has lost; every message uses this text."""
    if all(gpu.framework == VENDOR_VFIO for gpu in facts.gpus if gpu.framework is not None):
        return say("reboot {}, or reload its nvidia driver: until then that function takes nothing", facts.host)
    return say(
        "reboot {}, or reload its nvidia driver, before any vGPU VM is started there: the next start may crash "
        "the host's kernel (Linux 5.14 and newer)",
        facts.host,
    )


def may_crash(facts: HostSnapshot) -> PciAddress | None:
    """A GPU whose driver has lost vGPUs, so that the next start of a vGPU VM may crash the host; None without one."""
    return next((place.gpu for place in lost_by_driver(facts) if place.framework != VENDOR_VFIO), None)


def _count(places: int) -> str:
    return "a vGPU" if places == 1 else f"{places} vGPUs"


def _of_gpu(facts: HostSnapshot, gpu: Gpu) -> Iterator[LostPlace]:
    if not gpu.rules.one_size or facts.blocked_write_on(gpu.uuid) is not None:
        return
    offers = any(parent.creatable for parent in gpu.parents)
    for parent in gpu.parents:
        if parent.creatable is None:
            continue
        if parent.vf_index is not None:
            if not parent.vgpus and not parent.creatable and offers:
                why = "it is empty but offers nothing, while other functions of the GPU do"
                yield LostPlace(framework=gpu.framework, gpu=gpu.pci, parent=parent.pci, why=why)
            continue
        missing = _missing(gpu)
        if missing:
            why = f"it offers {missing} fewer than it should: its types' maximum, less the vGPUs that are there"
            yield LostPlace(framework=gpu.framework, gpu=gpu.pci, parent=parent.pci, why=why, instances=missing)


def _missing(gpu: Gpu) -> int:
    """How many vGPUs are missing from what a physical function offers: the least number over its types."""
    (parent,) = gpu.parents
    short = [
        _most(gpu, vgpu_type, vgpu_type.max) - len(parent.vgpus) - offered
        for type_id, offered in (parent.creatable or {}).items()
        if (vgpu_type := (gpu.types or {}).get(type_id)) is not None
        if vgpu_type.max is not None and not vgpu_type.listed  # a figure that the host does not give is no loss
    ]
    return max(0, min(short, default=0))


def _most(gpu: Gpu, vgpu_type: VgpuType, most: int) -> int:
    """A type's maximum, limited by the card's memory: an unlocked driver reports the maximum for a larger board."""
    size = vgpu_type.size_mib
    return most if not size else next((count for count in range(most, 0, -1) if gpu.holds(count * size)), 0)
