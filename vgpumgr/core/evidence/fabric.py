"""NVSwitch systems: a whole GPU of a fabric has CUDA in a guest only if Fabric Manager has activated its partition.

NVIDIA's Fabric Manager User Guide asks for FABRIC_MODE=2 with vGPUs, and an activation before each start of a VM, even
one with a single GPU; the GPUs of a VM are exactly those of one partition. Otherwise cuInit answers 802
(NVIDIA/kubevirt-gpu-device-plugin, pull request 193; gpu-operator, issue 2923: HGX H200). We never call the manager.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from vgpumgr.core.model.view import Finding
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Fabric, Gpu, HostSnapshot
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.model.view import HostView

_SXM: Final = re.compile(r"[A-Z]\d+D?X[LMS]?")  # boards of such systems: A100DX, H100XM, H200X, B200X
_FOR_VGPUS: Final = 2
_MODES: Final[dict[int | None, str]] = {0: "bare metal", 1: "shared NVSwitch", _FOR_VGPUS: "vGPU"}
_SET_UP: Final = (
    "set FABRIC_MODE=2 in /usr/share/nvidia/nvswitch/fabricmanager.cfg there and restart nvidia-fabricmanager"
)


def is_on_one(facts: HostSnapshot, gpu: Gpu) -> bool:
    """Whether a GPU is on an NVSwitch fabric: by NVML, or by its board's code on a host with NVSwitches."""
    return gpu.fabric is True or (bool(facts.fabric.switches) and _SXM.fullmatch(gpu.board or "") is not None)


def state(fabric: Fabric) -> str:
    """Fabric Manager's state in words: `runs in vGPU mode (FABRIC_MODE=2)`."""
    if fabric.manager != "running":
        return {"stopped": "does not run", "absent": "is not installed"}.get(
            fabric.manager or "", "is in an unknown state"
        )
    known = "" if fabric.mode is None else f" (FABRIC_MODE={fabric.mode})"
    return f"runs in {_MODES.get(fabric.mode, 'an unknown')} mode{known}"


def findings(facts: HostSnapshot) -> tuple[Finding, ...]:
    """One finding for a host whose GPUs are on a fabric, unless Fabric Manager is known to run as vGPUs need it."""
    gpus = [gpu.pci for gpu in facts.gpus if gpu.framework is not None and is_on_one(facts, gpu)]
    if not gpus or (facts.fabric.manager == "running" and facts.fabric.mode == _FOR_VGPUS):
        return ()
    text = say(
        "{}: {} of its GPUs {} on an NVSwitch fabric, and Fabric Manager {}: in a guest with a whole GPU CUDA does not start "
        "(cuInit: 802) until it runs in vGPU mode and has activated the GPU's partition; {}",
        facts.host,
        len(gpus),
        "is" if len(gpus) == 1 else "are",
        state(facts.fabric),
        _SET_UP,
    )
    return (Finding(kind="fabric", host=facts.host, text=text),)


def awaited(view: HostView, domain: Domain, target: VgpuSpec) -> Iterator[Finding]:
    """A finding if the slot's vGPU is a whole GPU on a fabric: CUDA has to wait until its partition is activated."""
    facts = view.snapshot
    gpu = facts.gpu_by_uuid(target.gpu_uuid)
    if gpu is None or not is_on_one(facts, gpu) or not _is_whole(gpu, target):
        return
    others = {
        claim.binding.gpu_uuid
        for claim in (domain.claims.claims if domain.claims is not None and not domain.copied else ())
        if claim.slot != target.slot
    }
    partition = (
        say("the partition of exactly the {} GPUs that {} has", len(others | {gpu.uuid}), domain.name)
        if others - {gpu.uuid}
        else f"the partition of {target.parent}"
    )
    text = say(
        "GPU {} is on an NVSwitch fabric: CUDA does not start in the guest of {} (cuInit: 802) until Fabric Manager has "
        "activated {}, before each start of the VM. vgpumgr does not do that yet. Fabric Manager on {} {}",
        gpu.pci,
        domain.name,
        partition,
        facts.host,
        state(facts.fabric),
    )
    yield Finding(kind="fabric", host=facts.host, vm=domain.name, slot=target.slot, text=text)


def _is_whole(gpu: Gpu, target: VgpuSpec) -> bool:
    """Whether the vGPU is time-sliced and has the largest size on its GPU; true if its size is unknown."""
    sizes = [one.size_mib for one in (gpu.types or {}).values() if one.size_mib is not None and one.mig_profile is None]
    size = gpu.size_of(target.type_id)
    return not target.mig and (size is None or size >= max(sizes, default=0))
